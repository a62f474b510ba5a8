"""Releases: the only package in which noise is drawn.

It charges a plan and adds noise to given arrays, once per planned name or step. It
contains no statistics and reads no rows.
"""

from .noise import Release, StreamRelease, record_releases

__all__ = ["Release", "StreamRelease", "record_releases"]
