"""What DPPCA accepts: extreme floats, containers, names, and what comes out."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from containers import CONTAINERS, contents, table
from release_tools import record_releases
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdpspectral import DPPCA, PrivacyAccountant

NAMES = ["age", "größe", "c", "d"]
COMPONENT_NAMES = ["dppca0", "dppca1"]
RELEASED = ("components_", "explained_variance_", "explained_variance_ratio_", "mean_")

# Sixty rows, and fits whose values are of no account.
pytestmark = pytest.mark.filterwarnings("ignore:.*too few for private lengths")


def whole_numbers():
    """Rows that every type of number holds exactly."""
    return np.random.default_rng(0).integers(-5, 6, size=(80, 4)).astype(float)


@pytest.fixture
def X():
    return whole_numbers()


@pytest.fixture
def frame(X):
    return pd.DataFrame(X, columns=NAMES, index=[f"row {i}" for i in range(len(X))])


# -- extreme floats --------------------------------------------------------------------

LARGEST, SMALLEST = np.finfo(np.float64).max, np.nextafter(0.0, 1.0)
FLOATS = {
    "subnormal": SMALLEST,
    "subnormal, negative": -1e-310,
    "square underflows": 1e-162,
    "largest of float32": float(np.finfo(np.float32).max),
    "square overflows": 1e155,
    "large": 1e308,
    "large, negative": -1e308,
    "largest": LARGEST,
}
SETTINGS = {
    "unit rows": {},
    "about the origin": {"center": "none"},
    "pairs": {"center": "pairs"},
    "ranks": {"scale": "ranks"},
    "lengths": {"epsilon": 200.0},
    "lengths about the origin": {"center": "none", "epsilon": 200.0},
    "lengths of pairs": {"center": "pairs", "epsilon": 200.0},
    "released rank": {"n_components": "auto"},
    "box": {"bounds": (-1, 1)},
    "box, lengths": {"bounds": (-3, 1), "epsilon": 200.0},
    "box, midpoint": {"bounds": (-1, 1), "center": "none"},
    "box by feature": {
        "bounds": ([-1, -1e50, 0, -5], [1, 1e50, 1e-50, -5]),
        "scale": "bounds",
    },
}


def with_extremes(value):
    """Ordinary rows, some with one extreme entry, some with nothing else."""
    X = np.random.default_rng(1).normal(size=(60, 4))
    X[3], X[7, 2], X[9, 0] = value, -value, value
    X[11] = [value, -value, 0.0, 1.0]
    return X


def extreme_rows():
    rows = {label: with_extremes(value) for label, value in FLOATS.items()}
    values = np.array([*FLOATS.values(), 0.0, 1.0])
    rng = np.random.default_rng(2)
    rows["mixed"] = rng.choice(np.concatenate([values, -values]), size=(60, 4))
    rows["all largest"] = np.full((60, 4), LARGEST)
    rows["all smallest"] = np.full((60, 4), SMALLEST)
    rows["all zero"] = np.zeros((60, 4))
    return rows


EXTREMES = extreme_rows()


def assert_finite(pca, released):
    for name in RELEASED:
        assert np.isfinite(getattr(pca, name)).all(), name
    gram = pca.components_ @ pca.components_.T
    assert np.allclose(gram, np.eye(len(gram)), atol=1e-9)
    planned = {m.name for m in pca.privacy_.releases()}
    assert set(released) <= planned
    for name, values in released.items():
        steps = values / pca.privacy_[name].grid
        assert np.isfinite(values).all(), name
        assert np.array_equal(steps, np.rint(steps)), name


def fit_and_check(pca, X):
    before = X.tobytes()
    with record_releases() as released:
        pca.fit(X)
    assert X.tobytes() == before
    assert_finite(pca, released)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("rows", EXTREMES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_extreme_rows_give_finite_releases(setting, rows):
    fit_and_check(DPPCA(**SETTINGS[setting]), EXTREMES[rows])


BOXES = [(-8e307, 8e307), (-1e200, 1e200), (-1e155, 1e155), (-1e60, 1e60), (0, 1e-60)]
BOXES += [(0, 1e-155), (0, 1e-300), (0, 1e-320), (0, SMALLEST)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"center": "none"},
        {"scale": "bounds"},
        {"epsilon": 200.0},
        {"epsilon": 200.0, "center": "none"},
    ],
)
def test_an_extreme_box_works_or_is_refused_for_free(X, box, parameters):
    accountant = PrivacyAccountant()
    pca = DPPCA(bounds=box, accountant=accountant, **parameters)
    refusal = None
    try:
        fit_and_check(pca, X)
    except ValueError as error:
        refusal = str(error)
    if refusal is None:
        assert np.isfinite(pca.transform(X)).all()
    else:
        assert "bounds" in refusal
        assert len(accountant.ledger) == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("row", [np.nan, np.inf, [np.nan, 1.0, -np.inf, 0.0]])
def test_rows_that_are_not_finite_cannot_spoil_a_release(X, setting, row):
    X[5] = row
    with sklearn.config_context(assume_finite=True):
        fit_and_check(DPPCA(**SETTINGS[setting]), X)


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("bounded", [False, True])
def test_extremes_of_integers(kind, bounded):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    X = np.random.default_rng(3).choice(np.array([low, high, 0, 1], kind), (60, 4))
    fit_and_check(DPPCA(bounds=(float(low), float(high)) if bounded else None), X)


# -- containers ------------------------------------------------------------------------


@pytest.mark.sampled(5)
@pytest.mark.parametrize("parameters", [{}, {"bounds": (-5, 5)}, {"epsilon": 100.0}])
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_container_makes_no_difference(X, tmp_path, container, parameters):
    pca = DPPCA(noise_seed=0, **parameters)
    expected = clone(pca).fit(whole_numbers())
    given = CONTAINERS[container](X, tmp_path)
    before = contents(given)
    pca.fit(given)
    scores = pca.transform(given)
    assert contents(given) == before
    for name in RELEASED:
        found, wanted = getattr(pca, name), getattr(expected, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    wanted = expected.transform(whole_numbers())
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["bool", "boolean"])
def test_booleans_are_zeros_and_ones(X, kind):
    flags = X > 0
    given = table(flags, kind) if kind == "boolean" else flags
    expected = DPPCA(noise_seed=0).fit(flags.astype(float))
    pca = DPPCA(noise_seed=0).fit(given)
    np.testing.assert_allclose(pca.components_, expected.components_, atol=1e-6)


def test_repeated_rows_without_memory_of_their_own():
    X = np.broadcast_to(np.arange(4.0), (80, 4))
    fit_and_check(DPPCA(), X)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_scores_keep_the_precision_of_rows(X, kind):
    pca = DPPCA(bounds=(-5, 5), scale="bounds").fit(X)
    scores = pca.transform(X.astype(kind))
    assert scores.dtype == np.dtype(kind)
    np.testing.assert_allclose(scores, pca.transform(X), rtol=1e-4, atol=1e-5)


# -- names and outputs -----------------------------------------------------------------


def test_names_of_a_table_are_kept_and_follow_the_last_fit(X, frame):
    pca = DPPCA().fit(frame)
    assert pca.feature_names_in_.tolist() == NAMES
    assert pca.feature_names_in_.dtype == object
    pca.fit(X[:, :3])
    assert not hasattr(pca, "feature_names_in_")
    assert pca.n_features_in_ == 3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_come_out_on_demand(X, frame, library):
    pca = DPPCA().fit(frame)
    plain = pca.transform(frame)
    assert isinstance(plain, np.ndarray)
    pca.set_output(transform=library)
    given = frame if library == "pandas" else pl.DataFrame(X, schema=NAMES)
    scores = pca.transform(given)
    assert list(scores.columns) == COMPONENT_NAMES
    assert np.array_equal(scores.to_numpy(), plain)
    if library == "pandas":
        assert scores.index.equals(frame.index)


def test_tables_come_out_of_a_pipeline(frame):
    pipeline = make_pipeline(DPPCA(3), DPPCA(2)).set_output(transform="pandas")
    assert list(pipeline.fit_transform(frame).columns) == COMPONENT_NAMES
    assert pipeline[-1].feature_names_in_.tolist() == ["dppca0", "dppca1", "dppca2"]


def test_names_of_components(frame):
    pca = DPPCA().fit(frame)
    for names in (None, NAMES):
        assert pca.get_feature_names_out(names).tolist() == COMPONENT_NAMES
