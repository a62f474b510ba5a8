"""Planted mistakes: each must be caught by an audit, or by an exact test.

A mutant is an edit of a copy of the package. The same audit passes on the package
as it is and refutes the mutant; what no audit can see is caught by a test of plan,
ledger or post-processing, which must fail on the mutant.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import skdpspectral

PACKAGE = Path(skdpspectral.__file__).parent
TESTS = Path(__file__).parents[1]
EPSILON, TRIALS = 10.0, 6_000


@dataclass(frozen=True)
class Mutant:
    """An edit, and what must notice it: an audit case, or a test."""

    file: str
    old: str
    new: str
    caught_by: str


AUDITED = {
    "noise ten per cent low": Mutant(
        "_release.py", "chunk *= steps", "chunk *= 0.9 * steps", "pca"
    ),
    "sqrt 2 forgotten": Mutant(
        "sensitivity.py",
        "return math.sqrt(2.0) * clip_norm**2 / n_samples",
        "return clip_norm**2 / n_samples",
        "pca",
    ),
    "clip skipped": Mutant(
        "_clipping.py",
        "return _rescale_rows(X, clip_norm, True, out)",
        "return np.array(X, dtype=np.float64)",
        "pca-clipped",
    ),
    "normalisation skipped": Mutant(
        "_clipping.py",
        "return _rescale_rows(X, 1.0, False, out)",
        "return np.array(X, dtype=np.float64)",
        "pca-canary",
    ),
    "off-diagonal scaling forgotten": Mutant(
        "_release.py", "steps / math.sqrt(2.0)", "steps / 2.0", "pca-off-diagonal"
    ),
}

EXACT = {
    "second moment taken as free beyond its threshold": Mutant(
        "sensitivity.py",
        "return 2.0 + 2.0 * nu + 0.5 / nu",
        "return 4.0",
        "theory/test_joint_moments.py::test_ratio_is_the_supremum",
    ),
    "mean's diameter taken as its radius": Mutant(
        "sensitivity.py",
        "return 2.0 * clip_norm / n_samples",
        "return clip_norm / n_samples",
        "theory/test_sensitivity.py::test_the_bounds_are_attained",
    ),
    "grid term dropped": Mutant(
        "mechanisms/_gaussian.py",
        " + self.grid_term",
        "",
        "theory/test_floating_point.py::test_grid_and_summation_terms_are_charged",
    ),
    "summation term dropped": Mutant(
        "mechanisms/_gaussian.py",
        " + 2.0 * self.summation_error",
        "",
        "theory/test_floating_point.py::test_grid_and_summation_terms_are_charged",
    ),
    "sign of zero let out": Mutant(
        "_release.py",
        "value += 0.0",
        "pass",
        "theory/test_floating_point.py::test_no_zero_tells_its_sign",
    ),
    "charge skipped": Mutant(
        "_release.py",
        "accountant.charge(plan, allow_seeded=allow_seeded)",
        "pass",
        "privacy/test_plan_and_charge.py::test_a_fit_is_charged_before_it_reads",
    ),
    "charged after the data are read": Mutant(
        "_bounded_moments.py",
        "    mean = None\n    if rows.centred:",
        "    X.sum()\n    mean = None\n    release = release()\n    if rows.centred:",
        "privacy/test_plan_and_charge.py::test_a_fit_is_charged_before_it_reads",
    ),
    "budget not split": Mutant(
        "accounting/_composition.py",
        "tuple(mu * math.sqrt(share) for share in shares)",
        "tuple(mu for share in shares)",
        "privacy/test_plan_and_charge.py::test_plan_costs_what_was_asked",
    ),
    "seed reused across clones": Mutant(
        "_release.py",
        "secrets.randbits(128)",
        "12345",
        "privacy/test_plan_and_charge.py::test_clones_never_share_noise",
    ),
    "seeded fit charged as private": Mutant(
        "_pca.py",
        "seeded=self.random_state is not None",
        "seeded=False",
        "privacy/test_plan_and_charge.py::test_a_seed_is_no_privacy",
    ),
    "eigenvectors by modulus": Mutant(
        "_spectral/_eigen.py",
        "subset_by_index=(order - rank, order - 1)",
        "subset_by_index=(0, rank - 1)",
        "privacy/test_plan_and_charge.py::test_components_follow_the_law_of_top_values",
    ),
}


def mutated_copy(mutant, folder):
    shutil.copytree(
        PACKAGE, folder / "skdpspectral", ignore=shutil.ignore_patterns("__pycache__")
    )
    path = folder / "skdpspectral" / mutant.file
    source = path.read_text()
    assert source.count(mutant.old) == 1, f"{mutant.old!r} must occur once in {path}"
    path.write_text(source.replace(mutant.old, mutant.new))


def run_in(folder, *arguments):
    """Run Python with the copy of the package in `folder` before any other."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def audit_in(folder, case):
    done = run_in(
        folder,
        str(TESTS / "privacy" / "audit_cases.py"),
        *(case, "--epsilon", str(EPSILON), "--trials", str(TRIALS), "--jobs", "2"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert Path(report["package"]).is_relative_to(folder)
    return report


@pytest.mark.parametrize("name", AUDITED)
def test_audit_refutes(name, tmp_path):
    mutant = AUDITED[name]
    mutated_copy(mutant, tmp_path)
    report = audit_in(tmp_path, mutant.caught_by)
    assert report["mu"] > report["claimed_mu"], report


@pytest.mark.parametrize("case", sorted({m.caught_by for m in AUDITED.values()}))
def test_same_audit_accepts_the_package(case, tmp_path):
    unchanged = Mutant("__init__.py", '__version__ = "', '__version__ = "', case)
    mutated_copy(unchanged, tmp_path)
    report = audit_in(tmp_path, case)
    assert report["mu"] <= report["claimed_mu"], report


@pytest.mark.parametrize("name", EXACT)
def test_exact_test_fails(name, tmp_path):
    mutant = EXACT[name]
    mutated_copy(mutant, tmp_path)
    where = run_in(tmp_path, "-c", "import skdpspectral as s; print(s.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(tmp_path)
    done = run_in(
        tmp_path,
        *(
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(TESTS / mutant.caught_by),
        ),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^\d+ failed", done.stdout, re.MULTILINE), done.stdout
