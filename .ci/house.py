"""Look at the house: which room imports which, on which floor, and the way of a fit.

    python .ci/house.py imports          # rooms by floor, and what each imports
    python .ci/house.py fits [NAME ...]  # functions, files and changes of file of a fit
    python .ci/house.py sizes            # lines and files of the package and its tests

A room is a folder or a file of the package; its floor is one above the highest room
that it imports. ``imports`` fails where rooms import each other. A change of file is a
call whose function lies in another file than the function called before it; calls in
other threads are not counted.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import threading
import warnings
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "skdpspectral"


def sizes() -> dict[str, tuple[int, int]]:
    """Return the lines and the files of the package and of its tests."""
    found = {}
    for folder in (ROOT, REPOSITORY / "tests"):
        paths = sorted(folder.rglob("*.py"))
        lines = sum(path.read_bytes().count(b"\n") for path in paths)
        found[folder.name] = lines, len(paths)
    return found


def room_of(path: Path) -> str:
    """Return the first part of a path below the package, without its ending."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_paths(node: ast.AST, package: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return what a statement imports, as dotted names in parts.

    Parameters
    ----------
    node : ast.AST
        Any statement.
    package : tuple of str
        Package of the module that it stands in.
    """
    if isinstance(node, ast.Import):
        return [tuple(alias.name.split(".")) for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = package[: len(package) - node.level + 1] if node.level else ()
    named = (*base, *(node.module.split(".") if node.module else ()))
    return [(*named, alias.name) for alias in node.names]


def imported_rooms(source: str, package: tuple[str, ...], rooms: set[str]) -> set[str]:
    """Return the rooms that a module imports.

    Parameters
    ----------
    source : str
        Code of the module.
    package : tuple of str
        Package that it stands in, from the outermost on.
    rooms : set of str
        Names of all rooms. Any other name of the package is one of its ``__init__``.
    """
    nodes = ast.walk(ast.parse(source))
    paths = [path for node in nodes for path in imported_paths(node, package)]
    inside = [(*path, "__init__")[1] for path in paths if path[0] == ROOT.name]
    return {name if name in rooms else "__init__" for name in inside}


def import_graph() -> dict[str, set[str]]:
    """Return what each room imports, itself apart."""
    paths = sorted(ROOT.rglob("*.py"))
    graph: dict[str, set[str]] = {room_of(path): set() for path in paths}
    for path in paths:
        room, package = room_of(path), path.relative_to(ROOT.parent).parent.parts
        graph[room] |= imported_rooms(path.read_text(), package, set(graph)) - {room}
    return graph


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room; fails where rooms import each other."""
    found: dict[str, int] = {}

    def floor(room: str, above: tuple[str, ...] = ()) -> int:
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
        if ROOT in Path(name).parents:
            self.calls.append(name)
            self.functions.add(frame.f_code)

    def run(self, function) -> None:
        """Call a function and record, in a thread: there a ledger starts no other."""

        def recorded() -> None:
            sys.setprofile(self)
            function()

        thread = threading.Thread(target=recorded)
        thread.start()
        thread.join()

    def __str__(self) -> str:
        files = set(self.calls)
        rooms = {room_of(Path(name)) for name in files}
        changes = sum(a != b for a, b in zip(self.calls, self.calls[1:], strict=False))
        return (
            f"{len(self.functions):4} functions {len(files):3} files {len(rooms):3} "
            f"rooms {changes:5} changes of file"
        )


def default_fits() -> dict:
    """Return a fit of each estimator by its defaults, and a charge into a file."""
    sys.path.insert(0, str(ROOT.parent))  # the package beside this file
    import numpy as np

    from skdpspectral import (
        DPPCA,
        DPItemEmbedding,
        FederatedDPPCA,
        JMECovariance,
        LRSRegressor,
        PrivacyAccountant,
        SparseDPPCA,
    )
    from skdpspectral.metrics import make_private_scorer
    from skdpspectral.model_selection import PrivateSearchCV

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    users = np.repeat(np.arange(50), 10)
    ratings = np.column_stack([users, rng.integers(20, size=500)])
    stars = rng.integers(1, 6, size=500)
    accountant = PrivacyAccountant(path=Path(tempfile.mkdtemp()) / "ledger.db")
    plan = DPPCA().privacy_plan(n_samples=500, n_features=6)
    scorer = make_private_scorer("captured_variance", clip_norm=10.0)
    search = PrivateSearchCV(
        DPPCA(), {"n_components": [1, 2]}, epsilon=8.0, scoring=scorer, noise_seed=0
    )
    return {
        "DPPCA": lambda: DPPCA().fit(X),
        "DPPCA, no center": lambda: DPPCA(center="none").fit(X),
        "FederatedDPPCA": lambda: FederatedDPPCA().fit(X, clients=users // 25),
        "SparseDPPCA": lambda: SparseDPPCA().fit(X, clients=users // 25),
        "JMECovariance": lambda: JMECovariance().fit(X),
        "LRSRegressor": lambda: LRSRegressor().fit(X, X[:, 0], users=users),
        "DPItemEmbedding": lambda: DPItemEmbedding(
            items=range(20), rating_range=(1, 5)
        ).fit(ratings, stars),
        "PrivateSearchCV": lambda: search.fit(X),
        "charge": lambda: accountant.charge(plan),
    }


def print_fits(names) -> None:
    """Print the way of a default fit of each estimator."""
    warnings.simplefilter("ignore")
    fits = default_fits()
    for name in names or fits:
        fits[name]()  # what is made once, as caches, is made before
        trace = Trace()
        trace.run(fits[name])
        print(f"{name:17}{trace}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("imports")
    commands.add_parser("sizes")
    commands.add_parser("fits").add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.command == "fits":
        print_fits(options.names)
    elif options.command == "imports":
        print_imports()
    else:
        for name, (lines, files) in sizes().items():
            print(f"{name:14}{lines:7} lines in {files:4} files")


if __name__ == "__main__":
    main()
