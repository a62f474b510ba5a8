"""Tables that private fits once lost without a word, or that ended a process."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import skdpspectral as sk
from skdpspectral._statistics.feature_scales import ScaleWindows

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")


# -- scales of noise -------------------------------------------------------------------


def rare_ones(n=1000, p=10, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n, p)) < rng.uniform(0.01, 0.2, p)).astype(float)


@pytest.mark.filterwarnings("ignore::skdpspectral.NoisyFitWarning")
def test_no_scale_sends_rows_far_away():
    X = rare_ones()
    model = sk.DPStandardScaler(epsilon=1.0, noise_seed=0).fit(X)
    model.scale_[:], model.unseen_features_[:] = 6.6e-39, False
    assert np.abs(model.transform(X)).max() == 30.0
    keeping = sk.DPStandardScaler(epsilon=0.01, unseen="keep", noise_seed=0).fit(X)
    assert keeping.unseen_features_.all()
    np.testing.assert_array_equal(keeping.transform(1e9 * X), 1e9 * X)


def test_without_noise_nothing_is_cut():
    X = np.append(np.zeros(9999), 1e9)[:, None] + np.arange(1e4)[:, None]
    model = sk.DPStandardScaler(epsilon=None).fit(X)
    assert np.abs(model.transform(X)).max() > 50.0
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X)


@pytest.mark.filterwarnings("ignore::skdpspectral.NoisyFitWarning")
def test_vectors_of_tables_are_cut_as_well():
    X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=4000)})
    model = sk.DPTableVectorizer(epsilon=1.0, noise_seed=0).fit(X)
    made = model.transform(pd.DataFrame({"a": [1e30, -1e30, np.nan]}))
    np.testing.assert_array_equal(made, [[30.0], [-30.0], [0.0]])


def test_noise_far_from_one_is_no_scale():
    """The same counts show a scale near 1, but none of 2**-100."""
    windows, count = ScaleWindows(1000, 2), 450.0
    first, end = windows.octaves
    released = np.zeros((2, end - first + 4))
    for feature, octave in enumerate((0, -100)):
        released[feature, octave - first : octave - first + 4] = 0.5 * count
    released[:, -1] = count
    assert windows.scales(released, 100.0)[1].tolist() == [True, False]


@pytest.mark.parametrize(("epsilon", "seed"), [(0.8, 34), (0.8, 51), (1.0, 34)])
def test_few_large_values_keep_their_scale(epsilon, seed):
    """As capital gains do: three of 120 fits, with these seeds, lost them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 14))
    gains = np.where(rng.random(len(X)) < 0.08, rng.lognormal(8.5, 1.2, len(X)), 0.0)
    X[:, 0] = np.where(rng.random(len(X)) < 0.005, 99_999.0, gains)
    model = sk.DPStandardScaler(epsilon=epsilon, noise_seed=seed).fit(X)
    assert not model.unseen_features_[0]
    assert 0.1 < model.scale_[0] / X[:, 0].std() < 10.0


# -- unseen features are said ----------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "consequence"),
    [
        (sk.DPStandardScaler(noise_seed=0), "transform returns 0 for them"),
        (sk.DPStandardScaler(unseen="keep", noise_seed=0), "transform does not scale"),
        (sk.DPTableVectorizer(noise_seed=0), "transform returns 0 for them"),
        (sk.DPRidge(noise_seed=0), "their coefficients are 0"),
        (sk.DPRidgeClassifier(classes=[0, 1], noise_seed=0), "coefficients are 0"),
    ],
    ids=repr,
)
def test_the_number_of_unseen_features_is_said(model, consequence):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5)) + rng.normal(size=(20_000, 1))
    X[:, 2:4] = 7.0
    y = (X[:, 0] > 0.0).astype(float)
    with pytest.warns(sk.NoisyFitWarning, match="noise hides 2 of 5") as caught:
        model.fit(X, y)
    (said,) = (w for w in caught if "noise hides" in str(w.message))
    assert consequence in str(said.message)
    assert said.filename == __file__
    assert model.unseen_features_.sum() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", sk.NoisyFitWarning)
        model.set_params(epsilon=None).fit(X, y)


# -- values that are not text ----------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (np.arange(4), ["one", "two"]),
        (np.arange(4) > 2, ["yes", "no"]),
        (np.arange(4) * 1.0, ["yes", "no"]),
        (pd.array([1, None, 2, 3], dtype="Int64"), ["a"]),
        (pd.Series(np.arange(4)).astype("category"), ["low", "high"]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_given_categories_that_cannot_occur_are_refused(column, texts):
    accountant = sk.PrivacyAccountant()
    model = sk.DPTableVectorizer(categories={"a": texts}, accountant=accountant)
    with pytest.raises(ValueError, match=r"no value of column 'a'.*astype\(str\)"):
        model.fit(pd.DataFrame({"a": column}))
    assert not len(accountant.ledger)


@pytest.mark.parametrize(
    "column",
    [
        pd.cut(np.arange(4), 2),
        pd.date_range("2020-01-01", periods=4),
        pd.Series(pd.date_range("2020-01-01", periods=4)).astype("category"),
        pd.timedelta_range("1D", periods=4),
        pd.period_range("2020-01", periods=4, freq="M"),
    ],
    ids=lambda value: str(value.dtype),
)
def test_dates_and_intervals_are_no_categories(column):
    accountant, named = sk.PrivacyAccountant(), {"categories": {"a": "find"}}
    X = pd.DataFrame({"a": column})
    with pytest.raises(ValueError, match=r"'a' .*dtype.*astype\(str\)"):
        sk.DPTableVectorizer(accountant=accountant, **named).fit(X)
    assert not len(accountant.ledger)
    texts = sk.DPTableVectorizer(epsilon=None, **named).fit(X.astype(str))
    with pytest.raises(ValueError, match=r"'a' .*dtype"):
        texts.transform(X)


@pytest.mark.parametrize("make", [float, Decimal], ids=["float", "decimal"])
def test_numbers_among_objects_are_warned_of(make):
    numbers = list(map(make, np.random.default_rng(0).normal(size=2000).round(4)))
    X = pd.DataFrame({"a": pd.Series([None, *numbers], dtype=object)})
    with pytest.warns(
        sk.NoisyFitWarning, match=r"rare or missing in 'a'.*pd.to_numeric"
    ):
        sk.DPTableVectorizer(noise_seed=0).fit(X)


# -- forms that are refused, and parts that are aligned --------------------------------


def scattered(n_rows, kind):
    """Return sparse rows of eight features."""
    X = np.random.default_rng(0).random((n_rows, 8))
    return sparse.coo_array(np.where(X < 0.3, X, 0.0)).asformat(kind)


def malformed(kind):
    X = scattered(50, "coo")
    X = X.asformat(kind)
    if kind == "coo":
        X.coords[1][3] = 99
    elif kind == "lil":
        X.rows[0] = [99] * len(X.rows[0])
    else:
        X.indices[3] = 99
    return X


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil"])
@pytest.mark.parametrize(
    "model",
    [
        sk.DPPCA(2),
        sk.DPStandardScaler(with_mean=False),
        sk.DPMatrixFactorization(items=range(8)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_indices_out_of_range_are_refused_before_the_charge(model, kind):
    X, accountant = malformed(kind), sk.PrivacyAccountant()
    if isinstance(model, sk.DPMatrixFactorization):
        model.set_params(items=range(8), rating_range=(0, 1))
        if kind == "bsr":
            return
    with pytest.raises(ValueError, match="indices do not fit its shape"):
        model.set_params(accountant=accountant).fit(X)
    assert not len(accountant.ledger)


@pytest.mark.parametrize("pointer", [10**6, -5])
def test_pointers_out_of_range_end_no_process(pointer):
    X = scattered(50, "csr")
    X.indptr[7] = pointer
    with pytest.raises(ValueError, match="indices do not fit its shape"):
        sk.DPPCA(2).fit(X)


def test_a_check_of_indices_changes_nothing():
    X = scattered(500, "csr")
    X.data, X.indices = np.append(X.data, 1.0), np.append(X.indices, 99)
    sk.DPStandardScaler(with_mean=False, epsilon=None).fit(X)
    assert len(X.data) == X.indptr[-1] + 1


def test_targets_of_small_files_are_aligned(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    X["y"] = X["a"] - X["b"] + 0.1 * rng.normal(size=400)
    for part in range(8):
        X[part * 50 :][:50].to_parquet(tmp_path / f"{part}.parquet")
    table = frames.read_parquet(tmp_path)
    found = sk.DPRidge(epsilon=None).fit(table[list("abcd")], table["y"]).coef_
    here = sk.DPRidge(epsilon=None).fit(X[list("abcd")], X["y"]).coef_
    np.testing.assert_allclose(found, here, atol=1e-8)
