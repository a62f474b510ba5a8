"""Public names of a package, whose modules are imported once they are asked for.

Processes that start anew for each message of a federation need few of them, and would
wait longer for the others than for their own work.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# Threads that begin at once to import modules which need each other find them half
# done, or in a deadlock: one of them imports at a time.
_ONE_AT_A_TIME = threading.RLock()

# Seconds for which others wait, on a busy machine. A thread that imports a module in
# another way, and asks for one of these names meanwhile, may hold what the first needs.
_PATIENCE = 60.0

if hasattr(os, "register_at_fork"):
    # A child without the thread that imports would have half a module for good.
    os.register_at_fork(
        before=_ONE_AT_A_TIME.acquire,
        after_in_parent=_ONE_AT_A_TIME.release,
        after_in_child=_ONE_AT_A_TIME.release,
    )


@contextlib.contextmanager
def _in_turn() -> Iterator[None]:
    """Import after other threads have."""
    waited = _ONE_AT_A_TIME.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if waited:
            _ONE_AT_A_TIME.release()


def names_of(
    package: str, homes: Mapping[str, str], rooms: str = "", inner: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    `homes` has the names that a module below the package defines, by its path; one that
    begins with a dot is below the package's parent. `rooms` are modules that are
    attributes too. So are `inner` ones, which modules of the package import while they
    are imported: they wait for no other thread, which may wait for them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    direct = frozenset(inner.split())
    modules = direct.union(rooms.split())

    def find(name: str) -> Any:
        if name not in modules and name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with contextlib.nullcontext() if name in direct else _in_turn():
            if name in modules:
                return importlib.import_module(f"{package}.{name}")
            home = importlib.import_module(f".{home_of[name]}", package)
            found = getattr(home, name)
            setattr(sys.modules[package], name, found)
            return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of, *modules})

    return find, list_names, sorted(home_of)
