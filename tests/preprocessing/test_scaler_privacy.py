"""What one row changes of a scaler's releases, and what is made of them."""

import numpy as np
import pytest
from scaler_tools import exact_releases

from skdpspectral import DPStandardScaler
from skdpspectral._release.release import record_releases

SETTINGS = {
    "both": {},
    "no mean": {"with_mean": False},
    "bounds": {"bounds": ([-3, 0, 5], [3, 1, 5])},
}
RELEASES = [(name, part) for name in SETTINGS for part in ("differences", "places")]
RELEASES += [(name, "moments") for name in SETTINGS]
RELEASES = [r for r in RELEASES if r[0] != "no mean" or r[1] == "differences"]
# Rows that differ a little, much, or by all that a float can hold.
VALUES = np.array([0.0, 1.0, -1.0, 0.3, 2.5, 37.0, -1e6, 1e300, -1.7e308, 5e-324])


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
    model = DPStandardScaler(epsilon=30.0, **SETTINGS[name])
    X = rng.standard_normal((n_samples, 3))
    plan = model.privacy_plan(*X.shape)
    bound = plan[part].sensitivity + 2.0 * plan[part].summation_error
    largest = 0.0
    for released in transcripts(model, X):
        rows = rng.choice(VALUES, (30, 3)) * rng.choice([1.0, 1.0, 0.1], (30, 3))
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
    rng = np.random.default_rng(0)
    X, other = rng.standard_normal((500, 3)), rng.choice(VALUES, (500, 3))
    other[:, 1] = 7.0
    model = DPStandardScaler(epsilon=50.0, **SETTINGS[name])
    plan = model.privacy_plan(*X.shape)
    for released in transcripts(model, X):
        fields = ("mean_", "scale_", "unseen_features_")
        expected = [getattr(model, field) for field in fields]
        for rows in (X, other):
            # In place of the fit's release: one that knows its answers beforehand.
            law = law_of(model, plan, released, rows)
            for one, same in zip(expected, law, strict=True):
                assert np.array_equal(one, same)


def law_of(model, plan, released, rows):
    from pca_tools import Replay

    law = model._statistic(*rows.shape).run(Replay(plan, released), rows)
    return law.mean, law.scale, ~law.seen
