"""What one row changes of a scaler's releases, and what is made of them."""

import numpy as np
import pytest
from release_tools import record_releases
from scaler_tools import exact_releases

from skdpspectral import DPStandardScaler

SETTINGS = {
    "both": {},
    "no mean": {"with_mean": False},
    "bounds": {"bounds": ([-3, 0, 5], [3, 1, 5])},
    "holes": {"missing": "mean"},
    "holes in bounds": {"missing": "mean", "bounds": ([-3, 0, 5], [3, 1, 5])},
}
RELEASES = [(name, part) for name in SETTINGS for part in ("differences", "places")]
RELEASES += [(name, "moments") for name in SETTINGS]
RELEASES = [r for r in RELEASES if r[0] != "no mean"] + [("no mean", "windows")]
# Of few rows, in units of the budget.
RELEASES += [
    (name, part)
    for name in SETTINGS
    for part in ("windows", "cells", "few moments")
    if name != "no mean"
]
# Rows that differ a little, much, or by all that a float can hold.
VALUES = np.array([0.0, 1.0, -1.0, 0.3, 2.5, 37.0, -1e6, 1e300, -1.7e308, 5e-324])


def values_of(name):
    """Return values that a row may have; some are missing where they may be."""
    return np.append(VALUES, [np.nan] * 3) if "holes" in name else VALUES


def transcripts(model, X):
    """Releases of a few fits, with noise: all that the rest may depend on."""
    for _ in range(3):
        with record_releases() as released:
            model.fit(X)
        yield dict(released)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "part"), RELEASES, ids=map("-".join, RELEASES))
@pytest.mark.parametrize("n_samples", [40, 41])
def test_no_row_moves_a_release_by_more_than_was_planned(name, part, n_samples):
    rng = np.random.default_rng(0)
    few = part in ("windows", "cells", "few moments")
    part = part.removeprefix("few ")
    model = DPStandardScaler(epsilon=30.0 if few else 120.0, **SETTINGS[name])
    X = rng.standard_normal((n_samples, 3))
    plan = model.privacy_plan(*X.shape)
    assert ("windows" in [m.name for m in plan.mechanisms]) == few
    bound = plan[part].sensitivity + 2.0 * plan[part].summation_error
    largest = 0.0
    for released in transcripts(model, X):
        rows = rng.choice(values_of(name), (30, 3)) * rng.choice(
            [1.0, 1.0, 0.1], (30, 3)
        )
        rows[:10] = rows[:10, :1]
        found = []
        for row in rows:
            neighbor = X.copy()
            neighbor[7] = row
            found.append(exact_releases(model, plan, released, neighbor)[part])
        flat = np.array(found).reshape(len(rows), -1)
        moved = np.linalg.norm(flat[:, None] - flat, axis=-1)
        largest = max(largest, moved.max())
    assert 0.2 * bound < largest <= bound * (1 + 1e-12)


@pytest.mark.parametrize("name", SETTINGS)
def test_all_that_is_public_is_a_function_of_the_releases(name):
    """Whatever the rows are: the same answers give the same attributes."""
    plan = check_replayed(name, 500, 50.0)
    assert "differences" in [m.name for m in plan.mechanisms]


@pytest.mark.parametrize("name", SETTINGS)
def test_all_that_is_public_of_few_rows_is_a_function_of_the_releases(name):
    plan = check_replayed(name, 60, 20.0)
    assert "windows" in [m.name for m in plan.mechanisms]


def check_replayed(name, n_samples, epsilon):
    """Check attributes of replayed fits of other rows; return the plan."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 3))
    other = rng.choice(values_of(name), (n_samples, 3))
    other[:, 1] = 7.0
    model = DPStandardScaler(epsilon=epsilon, **SETTINGS[name])
    plan = model.privacy_plan(*X.shape)
    for released in transcripts(model, X):
        fields = ("mean_", "scale_", "unseen_features_", "present_shares_")
        expected = [getattr(model, field) for field in fields]
        for rows in (X, other):
            # In place of the fit's release: one that knows its answers beforehand.
            law = law_of(model, plan, released, rows)
            for one, same in zip(expected, law, strict=True):
                assert np.array_equal(one, same)
    return plan


def law_of(model, plan, released, rows):
    from pca_tools import Replay

    law = model._statistic(*rows.shape).run(Replay(plan, released), rows)
    return law.mean, law.scale, ~law.seen, law.present
