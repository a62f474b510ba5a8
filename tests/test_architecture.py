"""The folders of the package, and which may import which."""

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import skdpspectral

ROOT = Path(skdpspectral.__file__).parent
PACKAGE = "skdpspectral"

# Folders, and what each may import besides itself. Folders of the spine:
SPINE = {
    "_on_demand": set(),
    "mechanisms": set(),
    "_linalg": set(),
    "sensitivity": {"mechanisms"},
    "accounting": {"mechanisms"},
    "_tables": {"_linalg"},
    "_statistics": {"mechanisms", "sensitivity", "accounting", "_linalg", "_tables"},
    "_release": {"mechanisms", "accounting"},
    "_messages": {"mechanisms"},
    "_base": {"mechanisms", "accounting", "_linalg", "_tables", "_release"},
    # Workloads and factorizations are arithmetic, and strategies.
    "factorizations": {"_base"},
}
# Slices: an estimator, its statistics and its kernels. They never import each other.
SLICES = (
    "covariance",
    "decomposition",
    "linear_model",
    "metrics",
    "model_selection",
    "neural_network",
    "pipeline",
    "preprocessing",
    "recommendation",
)
# Exceptions, each with its reason: a string `scoring` becomes a private scorer.
SLICE_ON_SLICE = {"model_selection": {"metrics"}}
# Edges: what the core never imports.
EDGES = {
    "audit": {"_base", "_release", "_tables", "accounting", "mechanisms"},
    # The facade hands on the names of the protocol of federated components.
    "federation": {*SPINE, "decomposition"},
    # What was promised is told of plans and ledgers, and never of data.
    "statements": {"_base", "accounting", "mechanisms"},
    "plotting": {*SLICES, "_base", "accounting", "mechanisms"},
    "datasets": {*SLICES, "_base", "accounting", "mechanisms"},
}
ALLOWED = {
    **SPINE,
    **{name: {*SPINE, *SLICE_ON_SLICE.get(name, ())} for name in SLICES},
    **EDGES,
    "__init__": {*SPINE, *SLICES, *EDGES},
}

# Files that may import less than their folders.
NARROWER = {
    "_base/sklearn_compat.py": {"mechanisms"},
    "_base/strategies.py": set(),
    "_base/documented.py": set(),
    # No release is made from what belongs to users.
    "_base/personal.py": {"_linalg", "_tables", "accounting", "mechanisms"},
    "linear_model/_lrs.py": {*SPINE} - {"_release"},
    # No noise is drawn where rows are weighed, nor in what follows a release.
    "covariance/_moment_stream.py": {
        *("_linalg", "_statistics", "_tables", "accounting", "mechanisms"),
        *("factorizations", "sensitivity"),
    },
    # Nothing that a server computes may touch rows, noise or budgets.
    "_messages.py": {"mechanisms"},
}
# What is known of sparse columns: of steps of scikit-learn, and of made-up tables.
COMPOSITIONS = {"_base/privacy_report.py"}
SERVER_SIDE = {"_linalg", "_messages", "mechanisms"}
# A client is told what to release: only the task knows an estimator.
PROTOCOL = [f"_federated_{part}.py" for part in ("queries", "client", "server")]

# Lines and files, as .ci/house.py counts them. These numbers may only fall.
LARGEST = {"skdpspectral": (37_259, 91), "tests": (49_352, 234)}


def folder_of(path):
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def modules():
    return sorted(ROOT.rglob("*.py"))


def imported_parts(path):
    """What a module imports of the package, as parts of dotted names."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            yield from (tuple(name[1:]) for name in names if name[0] == PACKAGE)
        if not isinstance(node, ast.ImportFrom):
            continue
        module = tuple(node.module.split(".")) if node.module else ()
        if node.level:
            base = (*package[: len(package) - node.level + 1], *module)
        elif module[0] == PACKAGE:
            base = module[1:]
        else:
            continue
        yield from ((*base, alias.name) for alias in node.names)


def imported_folders(path):
    """Folders of the package that a module imports, its own apart."""
    return {parts[0] for parts in imported_parts(path) if parts} - {folder_of(path)}


def test_folders_import_what_lies_below_them():
    names = set(skdpspectral.__all__)
    for path in modules():
        name, folder = path.relative_to(ROOT).as_posix(), folder_of(path)
        assert folder in ALLOWED, f"{name} belongs to no folder that is known here"
        allowed = NARROWER.get(name, ALLOWED[folder])
        if folder in EDGES:
            allowed = allowed | names
        illegal = imported_folders(path) - allowed
        assert not illegal, f"{name} must not import {sorted(illegal)}"
    for name in NARROWER:
        assert (ROOT / name).is_file(), name


def test_no_folder_imports_one_that_imports_it():
    graph = {name: set() for name in ALLOWED}
    for path in modules():
        if path.name != "__init__.py":  # facades may hand on names of higher folders
            graph[folder_of(path)] |= imported_folders(path) & set(ALLOWED)

    def below(name, above=()):
        assert name not in above, " -> ".join((*above, name))
        for other in graph[name]:
            below(other, (*above, name))

    for name in graph:
        below(name)


def test_kernels_import_kernels_alone():
    for path in [*ROOT.rglob("_kernels*.py"), *(ROOT / "_linalg").glob("*.py")]:
        for parts in imported_parts(path):
            own = parts[0] == folder_of(path) and parts[1].startswith("_kernels")
            assert parts[0] == "_linalg" or own, (path, parts)


def test_the_protocol_of_federated_components_knows_no_estimator():
    for name in PROTOCOL:
        path = ROOT / "decomposition" / name
        assert "_base" not in imported_folders(path), name
    found = imported_folders(ROOT / "decomposition" / "_federated_server.py")
    assert found <= SERVER_SIDE, found


def test_the_rules_see_imports():
    """The checks themselves can fail."""
    found = imported_folders(ROOT / "decomposition/_pca.py")
    assert {"_base", "_tables", "mechanisms"} <= found
    assert "_release" in imported_folders(ROOT / "audit.py")
    assert "mechanisms" in imported_folders(ROOT / "accounting" / "_gaussian.py")
    found = imported_folders(ROOT / "linear_model/_lrs.py")
    assert {"sensitivity", "_linalg", "accounting", "mechanisms"} <= found
    assert ("_linalg", "eigen") in {
        parts[:2] for parts in imported_parts(ROOT / "decomposition/_kernels.py")
    }


RANDOM = re.compile(
    r"np\.random|numpy\.random|randomgen|default_rng|standard_normal|os\.urandom"
    r"|\bsecrets\b|import random\b|from random\b"
)


def test_noise_is_drawn_in_one_place():
    for path in modules():
        if folder_of(path) in {"_release", "datasets", "audit"}:
            continue
        code = ast.unparse(_without_docstrings(ast.parse(path.read_text())))
        assert not RANDOM.search(code), f"{path.relative_to(ROOT)} draws numbers"


def _without_docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            body[0] = ast.Pass()
    return tree


def test_private_names_of_sklearn_have_one_importer():
    for path in modules():
        if path.name == "sklearn_compat.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "sklearn"
            ):
                names = node.module.split(".") + [alias.name for alias in node.names]
                assert not [name for name in names if name.startswith("_")], path


PRIVACY_WORDS = re.compile(r"\b(epsilon|delta|mu|sensitivity|noise_std|accountant)\b")


def test_linear_algebra_knows_nothing_of_privacy():
    for path in [*ROOT.rglob("_kernels*.py"), *(ROOT / "_linalg").glob("*.py")]:
        tree = ast.parse(path.read_text())
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        names |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        assert not [name for name in names if PRIVACY_WORDS.fullmatch(name)], path


def test_privacy_knows_nothing_of_linear_algebra():
    for path in modules():
        name = path.relative_to(ROOT).as_posix()
        spine = {"mechanisms", "sensitivity", "accounting", "_release", "_base"}
        if folder_of(path) not in spine or name in COMPOSITIONS:
            continue
        source = ast.unparse(_without_docstrings(ast.parse(path.read_text())))
        assert not re.search(r"scipy\.linalg|linalg\.(eig|svd|qr)|sparse", source), path


def test_flower_is_known_in_one_file():
    """Mathematics and messages stay free of any transport."""
    users = [path for path in modules() if "flwr" in path.read_text()]
    assert [path.relative_to(ROOT).as_posix() for path in users] == [
        "federation/_flower.py"
    ]
    found = imported_folders(ROOT / "federation" / "_flower.py")
    assert found <= {"_messages", "accounting"}  # the error of a ledger that refuses


def test_a_courier_imports_nothing_that_computes():
    """It starts anew for each message of a federation."""
    names = "from skdpspectral.federation import client_app"
    code = f"import sys\n{names}\nprint(*sys.modules)"
    run = [sys.executable, "-c", code]
    # As it is on its own, and not as pytest has found it.
    paths = os.pathsep.join([str(ROOT.parent), *sys.path])
    found = subprocess.run(
        run,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
    ).stdout.split()
    assert {"numpy", "skdpspectral.federation._flower"} <= set(found)
    assert not {"scipy", "sklearn", "skdpspectral.accounting"} & set(found)


def test_nothing_depends_on_an_unlisted_package():
    known = {
        PACKAGE,
        "numpy",
        "scipy",
        "sklearn",
        "cloudpickle",
        "joblib",
        "randomgen",
        "threadpoolctl",
    }
    lazy = {"dask", "flwr", "matplotlib", "pandas", "polars", "pyarrow"}
    lazy.add("typing_extensions")  # never imported: type checkers have it
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                assert top in known | lazy | sys.stdlib_module_names, (path, name)


def test_neither_the_package_nor_its_tests_grow():
    """New lines and files are paid for by others that go; then lower the numbers."""
    sizes = runpy.run_path(f"{Path(__file__).parents[1]}/.ci/house.py")["sizes"]()
    assert set(sizes) == set(LARGEST)
    for folder, found in sizes.items():
        for what, now, most in zip(
            ("lines", "files"), found, LARGEST[folder], strict=True
        ):
            assert now <= most, f"{folder} has {now} {what}, and may have {most}"
