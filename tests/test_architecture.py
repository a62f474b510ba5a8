"""The layers of the package, and what may import what."""

import ast
import re
import sys
from pathlib import Path

import pytest

import skdpspectral

ROOT = Path(skdpspectral.__file__).parent
PACKAGE = "skdpspectral"

PURE = {"_spectral", "_clipping", "_ids", "_rows", "mechanisms", "_sklearn_compat"}
PURE |= {"factorizations", "_sliced_rows", "_spiked_sensitivity", "_targets"}
# Tables of users and what belongs to each; they know nothing of privacy.
USERS = {"_id_index", "_users", "_personal_models"}
USERS |= {"_ratings_tables", "_item_catalogue"}
BELOW_BASE = PURE | {"_progress", "sensitivity", "accounting", "_release"}
BELOW_BASE |= {"_stream_release"}
# Parts of an estimator: what it releases, and what it predicts.
PARTS = {"_bounded_moments", "_lrs_private", "_lrs_prediction"}
# Mechanisms of principal components, and what runs them in order.
COMPONENT_PARTS = {"_components", "_power_step", "_private_scales"}
COMPONENT_PARTS |= {"_projected_moment", "_spiked_release"}
COMPONENT_PARTS |= {"_component_releases", "_pca_parameters", "_spiked_covariance"}
COMPONENT_PARTS |= {"_component_mechanism"}
PARTS |= COMPONENT_PARTS
PARTS |= {"_moment_stream", "_moment_sums", "_moment_run", "_covariance_model"}
BELOW_ESTIMATORS = BELOW_BASE | USERS | PARTS | {"_base"}
# What estimators over clients share; they alone see the federation.
FEDERATED = {"_federated_pca", "_sparse_pca"}
ESTIMATORS = {"_pca", "_lrs", "_item_embedding", "_jme"} | FEDERATED
PUBLIC = ESTIMATORS | {"accounting", "mechanisms", "metrics", "sensitivity"}

ALLOWED = {
    **{layer: set() for layer in PURE},
    **{layer: {"_ids"} for layer in ("metrics", "model_selection")},
    "_rows": {"_sliced_rows", "_spectral"},
    "_targets": {"_rows"},
    "_clipping": {"_spectral"},
    "sensitivity": {"mechanisms", "_spiked_sensitivity"},
    "accounting": {"mechanisms"},
    "_release": {"mechanisms", "accounting"},
    "_stream_release": {"mechanisms", "accounting", "_release"},
    "_base": {"mechanisms", "accounting", "_release", "_rows", "_sklearn_compat"},
    "_progress": {"_sklearn_compat"},
    "_id_index": {"_ids"},
    "_users": {"_ids", "_rows"},
    "_ratings_tables": {"_ids", "_rows"},
    "_personal_models": {"_id_index", "_spectral"},
    "_item_catalogue": {"_id_index"},
    "_bounded_moments": BELOW_BASE,
    **dict.fromkeys(COMPONENT_PARTS, BELOW_BASE | {"_components"}),
    "_component_releases": BELOW_BASE | COMPONENT_PARTS | {"_bounded_moments"},
    "_component_mechanism": {"mechanisms"} | COMPONENT_PARTS,
    "_pca_parameters": set(),
    "_lrs_private": BELOW_BASE,
    # No noise is drawn where rows are weighed.
    "_moment_stream": BELOW_BASE - {"_release", "_stream_release"},
    "_moment_sums": {"_moment_stream", "_spectral", "factorizations"},
    "_moment_run": {"_moment_stream", "_moment_sums", "_spectral", "mechanisms"},
    "_covariance_model": {"_rows"},
    # No release is made from what belongs to users.
    "_lrs_prediction": PURE | USERS | {"accounting"},
    # A client knows no estimator: it is told what to release.
    "federation": BELOW_BASE | COMPONENT_PARTS | {"_bounded_moments"},
    "_federated": BELOW_ESTIMATORS | {"federation"},
    **dict.fromkeys(ESTIMATORS, BELOW_ESTIMATORS),
    **dict.fromkeys(FEDERATED, BELOW_ESTIMATORS | {"_federated", "federation"}),
    "audit": {
        "_base",
        "_ids",
        "_release",
        "_sklearn_compat",
        "accounting",
        "mechanisms",
    },
    "plotting": PUBLIC | set(skdpspectral.__all__),
    "datasets": PUBLIC,
    "__init__": PUBLIC,
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
    illegal = internal_imports(path) - ALLOWED[layer_of(path)]
    assert not illegal, f"{path.relative_to(ROOT)} must not import {sorted(illegal)}"


def test_the_rule_sees_imports():
    """The check itself can fail."""
    found = internal_imports(ROOT / "_pca.py")
    assert {"_base", "_bounded_moments", "_component_releases", "mechanisms"} <= found
    assert "_release" in internal_imports(ROOT / "audit" / "_epsilon.py")
    assert "mechanisms" in internal_imports(ROOT / "accounting" / "_gaussian.py")
    found = internal_imports(ROOT / "_lrs_private.py")
    assert {"sensitivity", "_spectral", "accounting", "mechanisms"} <= found
    found = internal_imports(ROOT / "federation" / "_client.py")
    assert {"_release", "_rows", "accounting"} == found


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
    if layer_of(path) == "_sklearn_compat":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "sklearn"
        ):
            names = node.module.split(".") + [alias.name for alias in node.names]
            assert not [name for name in names if name.startswith("_")], node.module


PRIVACY_WORDS = re.compile(r"\b(epsilon|delta|mu|sensitivity|noise_std|accountant)\b")


@pytest.mark.parametrize("path", sorted((ROOT / "_spectral").glob("*.py")), ids=str)
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
    paths = {"_server.py", "_messages.py", "_in_process.py", "_rounds.py", "_limits.py"}
    for name in paths:
        found = internal_imports(ROOT / "federation" / name)
        assert found <= {"_spectral", "mechanisms"}, name


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
    lazy = {"matplotlib", "pandas", "polars"}
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
