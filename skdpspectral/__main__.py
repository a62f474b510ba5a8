"""Print the versions that a report of a problem should state.

``python -m skdpspectral``
"""

from __future__ import annotations

import platform
import re
from importlib import metadata


def versions() -> dict[str, str]:
    """Return versions of Python, the package, and what it needs or can use."""
    found = {"Python": platform.python_version(), "platform": platform.platform()}
    try:
        needed = metadata.requires("skdpspectral") or []
    except metadata.PackageNotFoundError:  # a folder on the path, without metadata
        needed = []
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in needed]
    for name in dict.fromkeys(["skdpspectral", *names]):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    for name, version in versions().items():
        print(f"{name + ':':16s} {version}")
