"""The only place where noise is drawn: planned releases, and those of streams.

It knows no statistic and reads no rows: it charges a plan, and adds noise to what it is
handed, each planned name or step once.
"""

from .release import Release, record_releases
from .streams import StreamRelease

__all__ = ["Release", "StreamRelease", "record_releases"]
