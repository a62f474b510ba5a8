"""Public names of a package, whose modules are imported once they are asked for.

Processes that start anew for each message of a federation need few of them, and would
wait longer for the others than for their own work.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def names_of(
    package: str, homes: Mapping[str, Iterable[str]], rooms: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return what a package takes for its ``__getattr__`` and its ``__dir__``.

    Parameters
    ----------
    package : str
        The package's name.
    homes : mapping of str to iterable of str
        By the path of a module below the package, names that it defines.
    rooms : iterable of str
        Modules below the package that are attributes of it too.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    modules = frozenset(rooms)

    def find(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of, *modules})

    return find, list_names
