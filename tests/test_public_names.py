"""The public names of each module are those of the reference, no more and no fewer."""

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skdpspectral

ROOT = Path(skdpspectral.__file__).parent
API = Path(__file__).parents[1] / "doc" / "api.rst"
ESTIMATORS = {
    "skdpspectral.covariance",
    "skdpspectral.decomposition",
    "skdpspectral.linear_model",
    "skdpspectral.neural_network",
    "skdpspectral.preprocessing",
    "skdpspectral.recommendation",
}


def public_modules():
    """Packages whose path has no part that begins with an underscore, for users."""
    found = pkgutil.walk_packages([str(ROOT)], "skdpspectral.")
    names = [m.name for m in found if not re.search(r"\._", m.name)]
    inner = {f"skdpspectral.{room}" for room in skdpspectral._INNER.split()}
    return ["skdpspectral", *(name for name in names if name not in inner)]


def documented():
    """Names in the reference, by the module under which they stand."""
    found, module = {}, None
    for line in API.read_text().splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   (\w+)", line):
            found.setdefault(module, []).append(match[1])
    return found


def test_the_modules_are_found():
    assert {"skdpspectral", "skdpspectral.accounting", *ESTIMATORS} <= set(
        public_modules()
    )
    assert set(documented()) <= set(public_modules())
    assert "DPPCA" in documented()["skdpspectral"]


@pytest.mark.parametrize("name", public_modules())
def test_public_names_are_in_the_reference(name):
    module = importlib.import_module(name)
    names = list(module.__all__)
    assert len(set(names)) == len(names)
    pages = documented()
    # What stands in the reference under another module is not repeated.
    elsewhere = {
        n
        for package in pages.keys() - {name}
        for n in set(names) & set(pages[package])
        if getattr(importlib.import_module(package), n) is getattr(module, n)
    }
    assert set(pages.get(name, [])) == set(names) - elsewhere


def statements(module):
    """Statements of a module, and those that only type checkers see."""
    body = ast.parse(Path(module.__file__).read_text()).body
    typed = [n for n in body if isinstance(n, ast.If) and "TYPE_CHECK" in ast.dump(n)]
    return body + [node for one in typed for node in one.body]


@pytest.mark.parametrize("name", ["skdpspectral", "skdpspectral.federation"])
def test_what_is_imported_on_demand_is_what_type_checkers_see(name):
    module = importlib.import_module(name)
    seen = {}
    for node in statements(module):
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            home = importlib.import_module("." * node.level + node.module, name)
            seen |= {alias.name: getattr(home, alias.name) for alias in node.names}
    assert set(seen) == set(module.__all__)
    for public, value in seen.items():
        assert module.__getattr__(public) is value
        assert getattr(module, public) is value
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'DPICA'"):
        _ = module.DPICA


def test_rooms_are_attributes_without_an_import():
    rooms = set(public_modules()) - {"skdpspectral"}
    rooms = {name.split(".")[1] for name in rooms if name.count(".") == 1}
    assert set(skdpspectral._ROOMS.split()) == rooms
    assert skdpspectral._INNER == "factorizations sensitivity"
    assert skdpspectral.sensitivity.__name__ == "skdpspectral.sensitivity"
    code = "import skdpspectral; print(skdpspectral.federation.SpectralTask.__name__)"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "SpectralTask"


@pytest.mark.parametrize("name", public_modules())
def test_nothing_public_is_left_out(name):
    """What a module defines, or a room takes from its files, is private or in __all__.

    What it imports "as" itself is for other rooms of the package, or for type checkers
    the name of what is imported on demand.
    """
    module = importlib.import_module(name)
    nodes = statements(module)
    on_demand = hasattr(module, "__getattr__")
    one_file = not hasattr(module, "__path__") and name.count(".") == 1
    bound = set(module.__all__) if one_file else set()
    bound |= {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.level and not one_file
        for alias in node.names
        if alias.asname != alias.name or on_demand
    }
    bound |= {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert {n for n in bound if not n.startswith("_")} == set(module.__all__)


# What a type checker is to say of a user's file, behind each line that it speaks of.
WRONG_TYPES = """\
from skdpspectral import DPPCA, FederatedDPPCA, LRSRegressor, PrivacyAccountant
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.pipeline import PrivatePipeline
DPPCA(epsilon="1")  # "epsilon" to "DPPCA"
LRSRegressor(epsilon="1")  # "epsilon" to "LRSRegressor"
PrivateSearchCV(DPPCA(), {}, epsilon="1")  # "epsilon" to "PrivateSearchCV"
PrivatePipeline([], epsilon="1")  # "epsilon" to "PrivatePipeline"
DPPCA(accountant=2.0)  # "accountant" to "DPPCA"
reveal_type(DPPCA().fit([[0.0]]))  # DPPCA"
reveal_type(LRSRegressor().fit([[0.0]], [0.0]))  # LRSRegressor"
DPPCA("auto", epsilon=None, accountant=PrivacyAccountant(1.0), scale="bounds")
FederatedDPPCA(2, epsilon={"a": 1.0}, delta=1e-7, noise_seed=0).fit([[0.0]])
"""


@pytest.mark.slow
def test_type_checkers_find_wrong_arguments(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "use.py"
    file.write_text(WRONG_TYPES)
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--config-file="]
    package = str(Path(skdpspectral.__file__).parents[1])
    environment = {**os.environ, "MYPYPATH": package}
    found = subprocess.run(
        [*command, "--ignore-missing-imports", file.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said_of = r"^use\.py:(\d+): (?:error|note): (.*)$"
    errors = re.findall(said_of, found.stdout, re.MULTILINE)
    lines = WRONG_TYPES.splitlines()
    wrong = [n for n, line in enumerate(lines, 1) if "  # " in line]
    assert [int(number) for number, _ in errors] == wrong, found.stdout
    for number, said in errors:
        assert lines[int(number) - 1].partition("  # ")[2] in said
