"""The layers of the package, and what may import what."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skdpspectral

ROOT = Path(skdpspectral.__file__).parent
PACKAGE = "skdpspectral"

# Rooms: what each may import of the others.
CORE = {"mechanisms", "sensitivity", "accounting", "_release"}
BELOW_ESTIMATORS = CORE | {"_linalg", "_tables", "_statistics", "_base"}
ESTIMATORS = {
    "covariance",
    "decomposition",
    "linear_model",
    "neural_network",
    "preprocessing",
    "recommendation",
}
PUBLIC = ESTIMATORS | {"accounting", "mechanisms", "metrics", "sensitivity"}

ALLOWED = {
    "_on_demand": set(),
    "mechanisms": set(),
    "_linalg": set(),
    "sensitivity": {"mechanisms"},
    # Rates and closed forms for plans and figures: no guarantee rests on them.
    "theory": {"mechanisms", "sensitivity"},
    "accounting": {"mechanisms"},
    "_release": {"mechanisms", "accounting"},
    "_tables": {"_linalg"},
    "_statistics": CORE | {"_linalg", "_tables"},
    "_base": {"mechanisms", "accounting", "_release", "_linalg", "_tables"},
    # A client knows no estimator: it is told what to release.
    "federation": CORE | {"_linalg", "_tables", "_statistics", "_on_demand"},
    # Estimators never import each other: what two of them need moves down.
    **dict.fromkeys(ESTIMATORS, BELOW_ESTIMATORS),
    "decomposition": BELOW_ESTIMATORS | {"federation"},
    # Of streams it takes the factorizations, which are pure arithmetic.
    "neural_network": BELOW_ESTIMATORS | {"covariance"},
    # Private scores are planned, charged and released as fits are.
    "metrics": CORE | {"_tables", "_statistics"},
    "audit": {"_base", "_release", "_tables", "accounting", "mechanisms", "metrics"},
    "model_selection": CORE | {"_base", "_tables", "audit", "metrics"},
    "plotting": PUBLIC | set(skdpspectral.__all__),
    "datasets": PUBLIC,
    "__init__": PUBLIC | {"_on_demand"},
}

# Files that may import less than their rooms.
_ROWS_ALONE = {"_linalg", "_tables"}
NARROWER = {
    "_base/sklearn_compat.py": set(),
    "_base/progress.py": set(),
    "_base/strategies.py": set(),
    "_base/documented.py": set(),
    "_base/unweighted.py": set(),
    # No release is made from what belongs to users.
    "_base/personal.py": {"_tables", "accounting"},
    "_base/kept_users.py": {"_tables", "accounting"},
    # No noise is drawn where rows are weighed.
    "covariance/_moment_stream.py": CORE - {"_release"} | _ROWS_ALONE | {"_statistics"},
    "covariance/_moment_sums.py": {"mechanisms", "_linalg"},
    # Workloads and factorizations are arithmetic; two kinds have checked parameters.
    **{
        path.relative_to(ROOT).as_posix(): set()
        for path in (ROOT / "covariance/factorizations").glob("*.py")
    },
    "covariance/factorizations/_choices.py": {"_base"},
    "covariance/factorizations/_workloads.py": {"_base"},
    "linear_model/_predictions.py": _ROWS_ALONE | {"accounting"},
    "linear_model/_personal_models.py": _ROWS_ALONE,
    "recommendation/_catalog.py": {"_tables"},
    "recommendation/_ratings_tables.py": {"_tables"},
    "covariance/_covariance_model.py": {"_tables"},
    "metrics/_ranking.py": {"_tables"},
    "metrics/_subspace.py": {"_tables"},
    "metrics/_score_kinds.py": {"sensitivity", "mechanisms"},
    "metrics/_kinds.py": {"mechanisms"},
    "metrics/_measured.py": {"_tables", "accounting", "mechanisms"},
    "model_selection/_per_user.py": {"_tables"},
    "model_selection/_private_split.py": {"_tables", "mechanisms"},
    "model_selection/_run_budgets.py": {"accounting", "mechanisms"},
    "model_selection/_best_model.py": set(),
    # Nothing that a server computes may touch rows, noise or budgets.
    "federation/_messages.py": {"_linalg", "mechanisms"},
}


def layer_of(path):
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def modules():
    return sorted(ROOT.rglob("*.py"))


def internal_imports(path):
    """Layers of the package that a module imports, its own apart."""
    depth = len(path.relative_to(ROOT).parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            # from . or from .. at the package's root
            names = [node.module] if node.module else [a.name for a in node.names]
            found |= {name.split(".")[0] for name in names}
        elif isinstance(node, ast.ImportFrom) and node.level > depth:
            found.add("outside the package")
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            if node.module.split(".")[0] == PACKAGE:
                rest = node.module.split(".")[1:]
                found |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {".".join(name[1:2]) for name in names if name[0] == PACKAGE}
    return found - {layer_of(path)}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_stay_below(path):
    assert layer_of(path) in ALLOWED, f"{path} belongs to no layer"
    name = path.relative_to(ROOT).as_posix()
    illegal = internal_imports(path) - NARROWER.get(name, ALLOWED[layer_of(path)])
    assert not illegal, f"{path.relative_to(ROOT)} must not import {sorted(illegal)}"


def test_optimizers_take_nothing_but_arithmetic_from_streams():
    for path in (ROOT / "neural_network").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                parts = (node.module or "").split(".")
                assert parts[0] != "covariance" or parts[1] == "factorizations"


def test_the_rule_sees_imports():
    """The check itself can fail."""
    found = internal_imports(ROOT / "decomposition/_pca.py")
    assert {"_base", "_statistics", "_tables", "mechanisms"} <= found
    assert "_release" in internal_imports(ROOT / "audit" / "_epsilon.py")
    assert "mechanisms" in internal_imports(ROOT / "accounting" / "_gaussian.py")
    found = internal_imports(ROOT / "_statistics/shared_directions/clip_sizes.py")
    assert {"sensitivity", "_linalg", "accounting", "mechanisms"} <= found
    found = internal_imports(ROOT / "federation" / "_client.py")
    assert {"_release", "_tables", "accounting"} == found


RANDOM = re.compile(
    r"np\.random|numpy\.random|randomgen|default_rng|standard_normal|os\.urandom"
    r"|\bsecrets\b|import random\b|from random\b"
)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_noise_is_drawn_in_one_place(path):
    if layer_of(path) in {"_release", "datasets", "audit"}:
        return
    code = ast.unparse(_without_docstrings(ast.parse(path.read_text())))
    assert not RANDOM.search(code), f"{path.relative_to(ROOT)} draws random numbers"


def _without_docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            body[0] = ast.Pass()
    return tree


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_private_names_of_sklearn_have_one_importer(path):
    if path.name == "sklearn_compat.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "sklearn"
        ):
            names = node.module.split(".") + [alias.name for alias in node.names]
            assert not [name for name in names if name.startswith("_")], node.module


PRIVACY_WORDS = re.compile(r"\b(epsilon|delta|mu|sensitivity|noise_std|accountant)\b")


@pytest.mark.parametrize("path", sorted((ROOT / "_linalg").rglob("*.py")), ids=str)
def test_linear_algebra_knows_nothing_of_privacy(path):
    names = {
        n.id for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)
    }
    names |= {
        n.arg for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.arg)
    }
    assert not [name for name in names if PRIVACY_WORDS.fullmatch(name)]


@pytest.mark.parametrize(
    "layer", ["mechanisms", "sensitivity", "accounting", "_release", "_base"]
)
def test_privacy_knows_nothing_of_linear_algebra(layer):
    paths = [p for p in modules() if layer_of(p) == layer]
    assert paths
    for path in paths:
        source = ast.unparse(_without_docstrings(ast.parse(path.read_text())))
        assert not re.search(r"scipy\.linalg|linalg\.(eig|svd|qr)|sparse", source), path


def test_a_server_makes_no_release():
    """Nothing that a server computes may touch rows, noise or budgets."""
    paths = {"_server.py", "_aggregation.py", "_messages.py", "_in_process.py"}
    paths |= {"_rounds.py", "_limits.py", "_conversation.py"}
    paths |= {"_kept_session.py", "_kept_file.py"}
    for name in paths:
        found = internal_imports(ROOT / "federation" / name)
        assert found <= {"_linalg", "mechanisms"}, name


def test_flower_is_known_in_one_file():
    """Mathematics and messages stay free of any transport."""
    for path in modules():
        if "flwr" in path.read_text():
            assert path.relative_to(ROOT).as_posix() == "federation/_flower.py"
    found = internal_imports(ROOT / "federation" / "_flower.py")
    assert found == set()


def test_a_courier_imports_nothing_that_computes():
    """It starts anew for each message of a federation."""
    code = "import sys, skdpspectral.federation.flower; print(*sys.modules)"
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
        "joblib",
        "randomgen",
        "threadpoolctl",
    }
    lazy = {"dask", "flwr", "matplotlib", "pandas", "polars", "pyarrow"}
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
