"""The only place where noise is drawn: planned releases, and those of streams.

It charges a plan and adds noise to given arrays, for each planned name or step once. It
contains no statistics and reads no rows.
"""

from .noise import Release, record_releases
from .streams import StreamRelease

__all__ = ["Release", "StreamRelease", "record_releases"]
