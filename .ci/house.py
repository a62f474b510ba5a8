"""Look at the house: which room imports which, on which floor, and the way of a fit.

    python .ci/house.py imports          # rooms by floor, and what each imports
    python .ci/house.py fits [NAME ...]  # functions, files and changes of file of a fit

A room is a folder or a file of the package; its floor is one above the highest room
that it imports. A change of file is a call whose function lies in another file than the
function called before it.
"""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from pathlib import Path

import numpy as np

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPItemEmbedding,
    FederatedDPPCA,
    JMECovariance,
    LRSRegressor,
    SparseDPPCA,
)

ROOT = Path(skdpspectral.__file__).parent


def room_of(path: Path) -> str:
    """Return the first part of a path below the package, without its ending."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Return the rooms that a module imports by relative imports."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = parts[: len(parts) - node.level]
        names = node.module.split(".") if node.module else []
        if base or names:
            found.add((*base, *names)[0])
        else:
            found |= {alias.name for alias in node.names}
    return found


def import_graph() -> dict[str, set[str]]:
    """Return what each room imports, itself apart."""
    graph: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        room = room_of(path)
        graph.setdefault(room, set()).update(imported_rooms(path) - {room})
    return {room: {r for r in below if r in graph} for room, below in graph.items()}


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room; fails where rooms import each other."""
    found: dict[str, int] = {}

    def floor(room: str, above: tuple = ()) -> int:
        if room in above:
            raise SystemExit("rooms import each other: " + " -> ".join((*above, room)))
        if room not in found:
            below = [floor(r, (*above, room)) for r in graph[room]]
            found[room] = 1 + max(below, default=-1)
        return found[room]

    for room in graph:
        floor(room)
    return found


def print_imports() -> None:
    """Print the rooms, the lowest floor first."""
    graph = import_graph()
    by_floor = floors(graph)
    for room in sorted(graph, key=lambda r: (by_floor[r], r)):
        print(f"{by_floor[room]:2}  {room:18} {', '.join(sorted(graph[room]))}")


class Trace:
    """What is called while a function runs, of this package alone."""

    def __init__(self):
        self.calls, self.functions = [], set()

    def __call__(self, frame, event, argument) -> None:
        """Note a call, as a function of `sys.setprofile`."""
        if event != "call":
            return
        name = frame.f_code.co_filename
        if name.startswith(str(ROOT)):
            self.calls.append(name)
            self.functions.add(frame.f_code)

    def run(self, function) -> None:
        """Call a function and record."""
        sys.setprofile(self)
        try:
            function()
        finally:
            sys.setprofile(None)

    def __str__(self) -> str:
        files = set(self.calls)
        rooms = {room_of(Path(name)) for name in files}
        changes = sum(a != b for a, b in zip(self.calls, self.calls[1:], strict=False))
        return (
            f"{len(self.functions):4} functions {len(files):3} files {len(rooms):3} "
            f"rooms {changes:5} changes of file"
        )


def default_fits() -> dict:
    """Return a fit of each estimator by its defaults."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    users = np.repeat(np.arange(50), 10)
    ratings = np.column_stack([users, rng.integers(20, size=500)])
    stars = rng.integers(1, 6, size=500)
    return {
        "DPPCA": lambda: DPPCA().fit(X),
        "FederatedDPPCA": lambda: FederatedDPPCA().fit(X, clients=users // 25),
        "SparseDPPCA": lambda: SparseDPPCA().fit(X, clients=users // 25),
        "JMECovariance": lambda: JMECovariance().fit(X),
        "LRSRegressor": lambda: LRSRegressor().fit(X, X[:, 0], users=users),
        "DPItemEmbedding": lambda: DPItemEmbedding(items=20).fit(ratings, stars),
    }


def print_fits(names) -> None:
    """Print the way of a default fit of each estimator."""
    warnings.simplefilter("ignore")
    fits = default_fits()
    for name in names or fits:
        fits[name]()  # what is made once, as caches, is made before
        trace = Trace()
        trace.run(fits[name])
        print(f"{name:16}{trace}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("imports")
    commands.add_parser("fits").add_argument("names", nargs="*")
    options = parser.parse_args()
    print_imports() if options.command == "imports" else print_fits(options.names)


if __name__ == "__main__":
    main()
