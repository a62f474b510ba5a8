"""The public names of each module are those of the reference, no more and no fewer."""

import ast
import importlib
import pkgutil
import re
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
    """Packages whose path has no part that begins with an underscore."""
    found = pkgutil.walk_packages([str(ROOT)], "skdpspectral.")
    names = [m.name for m in found if not re.search(r"\._", m.name)]
    return ["skdpspectral", *names]


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
    # What stands in the reference under a package above it is not repeated.
    parts = name.split(".")
    above = [".".join(parts[:n]) for n in range(1, len(parts))]
    expected = {
        n
        for n in names
        if not any(
            n in pages.get(package, [])
            and getattr(importlib.import_module(package), n) is getattr(module, n)
            for package in above
        )
    }
    assert set(pages.get(name, [])) == expected


@pytest.mark.parametrize("name", public_modules())
def test_nothing_public_is_left_out(name):
    """What a module defines or takes from its rooms is private or in __all__."""
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text())
    bound = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    bound |= {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert {n for n in bound if not n.startswith("_")} == set(module.__all__)
