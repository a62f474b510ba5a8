"""DPTableVectorizer: what becomes of numbers, categories, dates, texts and holes."""

import datetime
import unicodedata
import warnings
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpspectral import (
    DPStandardScaler,
    DPTableVectorizer,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral._linalg.walks import PairOrder, PairWalk
from skdpspectral.preprocessing._vectorizer import text_of

N = 4000


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40.0, 9.0, n),
            "count": rng.integers(0, 9, n),
            "member": rng.random(n) < 0.3,
            "city": rng.choice(["Graz", "Linz", None], n, p=[0.6, 0.3, 0.1]),
            "seen": pd.Timestamp("2020-03-01", tz="Europe/Vienna")
            + pd.to_timedelta(rng.integers(0, 10**8, n), unit="s"),
            "kind": pd.Categorical(rng.choice(list("abc"), n)),
            "size": pd.array(rng.choice([1, 2, None], n), dtype="Int64"),
            "stay": pd.to_timedelta(rng.integers(1, 1000, n), unit="s"),
        }
    )
    frame.loc[rng.random(n) < 0.2, ["age", "seen"]] = np.nan
    return frame


OPEN = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")


def fitted(X, **parameters):
    return DPTableVectorizer(**{"epsilon": 8.0, **parameters}).fit(X)


def test_a_frame_becomes_finite_numbers_with_names():
    X = table()
    model = DPTableVectorizer(epsilon=8.0)
    made = model.set_output(transform="pandas").fit_transform(X)
    assert np.isfinite(made.to_numpy()).all()
    assert list(made) == model.get_feature_names_out().tolist()
    assert model.kinds_["seen"] == "date"
    assert model.categories_ == {"city": ["Graz", "Linz"], "kind": ["a", "b", "c"]}
    for name in ("age", "count", "size", "stay"):
        present = X[name].notna().to_numpy()
        assert np.abs(made[name][present].mean()) < 0.1
        assert np.abs(made[name][present].std() - 1.0) < 0.1
    # A hole is at the mean.
    assert (made["age"][X["age"].isna()] == 0.0).all()
    share = model.present_shares_[model.scaled_features_.tolist().index("age")]
    assert share == pytest.approx(0.8, abs=0.03)
    for city in ("Graz", "Linz"):
        assert (made[f"city_{city}"] == (X["city"] == city)).all()
    assert (made["city_missing"] == X["city"].isna()).all()
    assert not made["city_rare"].any()


@OPEN
def test_dates_are_those_of_their_clocks_in_utc():
    X = table()
    model = fitted(X[["seen"]], epsilon=None)
    made = model.transform(X[["seen"]])
    units = made * model.scale_ + model.mean_
    present = X["seen"].notna().to_numpy()
    times = X["seen"].dt.tz_convert(None).dt
    expected = [times.year, times.month, times.day_of_week, None, times.hour]
    names = ["year", "month", "day_of_week", "total_seconds", "hour"]
    assert model.scaled_features_.tolist() == [f"seen_{name}" for name in names]
    for column, values in enumerate(expected):
        if values is not None:
            assert np.allclose(units[present, column], values[present])
    naive = X["seen"].dt.tz_convert(None).astype("datetime64[s]").to_numpy()
    assert np.allclose(units[present, 3], naive[present].astype(np.int64))


def test_frames_of_other_libraries_are_refused():
    with pytest.raises(TypeError, match="convert it to a pandas dataframe"):
        DPTableVectorizer().fit(SimpleNamespace(columns=["a"], shape=(5, 1)))


@OPEN
def test_columns_of_arrow_are_read():
    pa = pytest.importorskip("pyarrow")
    day = datetime.date(2020, 3, 1)
    time = datetime.datetime(2020, 3, 1, 4, tzinfo=datetime.timezone.utc)
    columns = {
        "number": (3, pa.int32()),
        "flag": (True, pa.bool_()),
        "price": (Decimal("2.50"), pa.decimal128(8, 2)),
        "day": (day, pa.date32()),
        "time": (time, pa.timestamp("us", "Europe/Vienna")),
        "stay": (datetime.timedelta(seconds=5), pa.duration("ms")),
        "word": ("a", pa.string()),
    }
    X = pd.DataFrame(
        {
            name: pd.Series([value, None] * 20, dtype=pd.ArrowDtype(kind))
            for name, (value, kind) in columns.items()
        }
    )
    model = fitted(X, epsilon=None)
    numbers = model._vectors(X).numbers()[slice(0, 2)]
    assert np.isnan(numbers[1]).all()
    assert numbers[0, :3].tolist() == [3.0, 1.0, 2.5]
    assert numbers[0, 3:6].tolist() == [2020.0, 3.0, 6.0]
    assert numbers[0, 7:10].tolist() == [2020.0, 3.0, 6.0]
    assert numbers[0, 11:].tolist() == [4.0, 5.0]
    assert model.categories_ == {"word": ["a"]}


def test_public_categories_are_kept_as_they_are_given():
    X = table()[["city", "kind", "count"]]
    given = {"city": ["Wien", "Graz"], "kind": ["a", "b", "c"], "count": "find"}
    model = fitted(X, categories=given)
    assert model.categories_["city"] == ["Wien", "Graz"]
    assert model.categories_["kind"] == ["a", "b", "c"]
    assert model.categories_["count"] == [str(k) for k in range(9)]
    made = pd.DataFrame(model.transform(X), columns=model.get_feature_names_out())
    assert (made["city_rare"] == (X["city"] == "Linz")).all()
    assert (made["count_3"] == (X["count"] == 3)).all()
    # Nothing is found, and nothing is released: only the delta of Gaussians.
    public = DPTableVectorizer(categories={"city": ["a"], "kind": ["a"]})
    plan = public.plan_for(X)
    assert plan.failure == 0.0
    assert [m.name for m in plan.mechanisms] == ["differences", "places", "moments"]


def test_positions_count_from_the_end_too():
    X = np.column_stack([np.arange(N) % 7, np.arange(N) % 2])
    model = fitted(X, categories={-1: [0, 1]})
    assert model.kinds_ == {"x0": "number", "x1": "categories"}
    assert model.categories_ == {"x1": ["0", "1"]}


def test_categories_of_a_dtype_are_not_public():
    X = table()[["kind"]]
    assert [m.name for m in DPTableVectorizer().plan_for(X).mechanisms] == [
        "categories"
    ]


def test_values_that_are_texts_alike_are_one_category():
    accents = ["\u00e9", unicodedata.normalize("NFD", "\u00e9")]
    X = pd.DataFrame({"a": pd.Series([*accents] * 500 + [1, 1.0, "1"] * 300)})
    model = fitted(X)
    assert model.categories_ == {"a": ["1", "\u00e9"]}
    made = model.transform(X)
    assert made.sum(axis=0).tolist() == [900.0, 1000.0, 0.0, 0.0]


TEXTS = [
    ("a", "a"),
    (None, None),
    (float("nan"), None),
    (pd.NA, None),
    (pd.NaT, None),
    (1, "1"),
    (1.0, "1"),
    (-0.0, "0"),
    (0.1, "0.1"),
    (np.float32(0.5), "0.5"),
    (np.int8(3), "3"),
    (True, "True"),
    (np.bool_(False), "False"),
    (np.str_("b"), "b"),
    ("\ud800", "\\ud800"),
    (float("inf"), "inf"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=repr)
def test_texts_of_values(value, text):
    assert text_of(value) == text


class Angry(str):
    """A text that is not to be asked anything."""

    def __eq__(self, other):
        raise AssertionError

    __hash__ = __str__ = __len__ = __eq__


class Loud:
    """No text, whose code must not be run."""

    def __float__(self):
        raise AssertionError

    __str__ = __repr__ = __eq__ = __hash__ = None


def test_code_of_values_is_not_run():
    values = [Angry("x"), Loud(), [1], {}, object(), 10**5000, lambda: 0] * 40
    X = np.empty((len(values), 1), dtype=object)
    X[:, 0] = values
    model = fitted(X, epsilon=50.0)
    assert model.categories_["x0"] == ["x"]
    made = model.transform(X)
    assert made[:7, -2].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_long_texts_are_short_and_stay_apart():
    long = ["a" * 10**6, "a" * 10**6 + "b", "\u0301" * 10**6]
    X = pd.DataFrame({"a": pd.Series(long * 60, dtype=object)})
    model = fitted(X, epsilon=50.0)
    assert len(model.categories_["a"]) == 3
    assert max(map(len, model.categories_["a"])) < 200
    assert model.transform(X)[:3, :3].sum(axis=0).tolist() == [1.0, 1.0, 1.0]


def test_ids_by_mistake_are_named_by_column_and_not_by_value():
    X = table()[["age"]].assign(person=[f"person {i}" for i in range(N)])
    with pytest.warns(UserWarning, match="rare or missing in 'person'"):
        model = fitted(X)
    assert model.categories_ == {"person": []}
    assert "person 1" not in f"{vars(model)}{model.privacy_}"
    made = pd.DataFrame(model.transform(X), columns=model.get_feature_names_out())
    assert made["person_rare"].all()


@pytest.mark.slow
@OPEN
def test_no_value_of_a_single_row_is_named_in_a_million():
    """A value is named with a probability of 1e-8: in 1 of 100 tests of fresh noise."""
    X = np.arange(10**6).astype(str).astype(object)[:, None]
    with pytest.warns(UserWarning, match="rare or missing"):
        model = DPTableVectorizer(epsilon=1.0, delta=1e-7, noise_seed=0).fit(X)
    assert model.categories_ == {"x0": []}


def test_names_differ_whatever_categories_and_columns_are_called():
    values = ["rare", "missing", "Graz"] * 300
    X = pd.DataFrame({"city": values, "city_Graz": values, "city_rare": values})
    X["city_Linz"] = 0.5
    X["city_missing_"] = 0.5
    names = fitted(X).get_feature_names_out().tolist()
    assert len(set(names)) == len(names) == 17
    assert {"city_rare", "city_missing", "city_Graz_Graz"} <= set(names)
    assert names[:3] == ["city_Graz", "city_missing__", "city_rare_"]


@OPEN
def test_a_row_is_transformed_by_itself():
    X = table()
    model = fitted(X, noise_seed=0)
    alone = np.concatenate([model.transform(X[i : i + 1]) for i in range(30)])
    assert np.array_equal(model.transform(X[:30]), alone)
    assert np.array_equal(model.transform(X[:30][::-1])[::-1], alone)
    mixed = np.array([[1], [True], [1.0], ["1"], ["True"], [None]], dtype=object)
    X = np.repeat(mixed, 200, axis=0)
    model = fitted(X)
    assert model.categories_ == {"x0": ["1", "True"]}
    alone = np.concatenate([model.transform(row[None]) for row in mixed])
    assert np.array_equal(model.transform(mixed), alone)


def test_unseen_and_missing_values_of_new_rows():
    X = table()[["age", "city"]]
    model = fitted(X)
    new = pd.DataFrame(
        {"age": [np.inf, -1e308, np.nan], "city": ["Wien", None, "Graz"]}
    )
    made = model.transform(new)
    assert np.isfinite(made).all()
    assert made[0, 0] == made[2, 0] == 0.0
    assert made[:, 1:].tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    # Other dtypes that are treated alike.
    assert model.transform(new.assign(age=[1, 2, 3])).shape == (3, 5)
    categorical = new.astype({"city": "category"})
    assert np.array_equal(model.transform(categorical)[:, 1:], made[:, 1:])


@pytest.mark.parametrize("filled", [0, 1])
def test_columns_of_one_value_or_none_are_no_trouble(filled):
    a, b = [np.nan, 3.0][filled] * np.ones(N), [[None], ["x"]][filled] * N
    X = pd.DataFrame({"a": a, "b": b, "c": [pd.NaT, pd.Timestamp(0)][filled]})
    X["c"] = X["c"].astype("datetime64[s]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(X.astype({"b": object}), noise_seed=0)
    assert model.unseen_features_.all()
    assert model.categories_["b"] == ["x"] * filled
    made = model.transform(X)
    assert np.array_equal(made[:, 0], np.zeros(N))


def test_budgets_are_shared_by_columns():
    model = DPTableVectorizer(epsilon=1.0, delta=1e-6)
    plan = model.privacy_plan(10_000, 6, 2)
    costs = {m.name: m.mu**2 for m in plan.mechanisms}
    assert costs["categories"] == pytest.approx(0.25 * plan.mu**2, rel=1e-6)
    assert plan.failure == pytest.approx(1e-8)
    assert plan.releases()[-1].threshold > 1.0
    assert model.privacy_plan(10_000, 8).mu > plan.mu
    X = table()
    accountant = PrivacyAccountant(1.0, 1e-6)
    with accountant:
        fit = DPTableVectorizer(epsilon=1.0, delta=1e-6).fit(X)
    assert len(accountant.ledger) == 1
    assert fit.privacy_ == model.plan_for(X)
    with pytest.raises(PrivacyBudgetError), accountant:
        DPTableVectorizer(epsilon=0.3).fit(X)


def test_few_rows_are_warned_of_from_public_numbers():
    X = table(200)[["city", "age"]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPTableVectorizer(epsilon=0.1).fit(X)
    said = " ".join(str(w.message) for w in caught)
    assert "200 rows are too few to estimate 1 private scales" in said
    assert "no category can be found" in said
    assert {w.filename for w in caught} == {__file__}


@OPEN
def test_numbers_with_holes_are_scaled_as_by_the_scaler():
    X = table()[["age", "count"]]
    model = fitted(X, noise_seed=0)
    scaler = DPStandardScaler(epsilon=8.0, missing="mean", noise_seed=0).fit(X)
    assert np.array_equal(model.mean_, scaler.mean_)
    assert np.array_equal(model.transform(X), scaler.transform(X))


@OPEN
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_scales_of_present_values(share):
    """Errors stay within six deviations of noise and sampling: one test in 1e8."""
    rng = np.random.default_rng(0)
    X = rng.normal([1e6, -3.0, 0.0], [2e4, 0.01, 1.0], size=(30_000, 3))
    holes = rng.random(X.shape) < share
    full = DPStandardScaler(epsilon=4.0, noise_seed=0).fit(X)
    X[holes] = np.nan
    model = DPStandardScaler(epsilon=4.0, missing="mean", noise_seed=0).fit(X)
    means, scales = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    assert (np.abs(model.mean_ - means) < 0.05 * scales).all()
    assert (np.abs(model.scale_ / scales - 1.0) < 0.1).all()
    assert np.allclose(model.present_shares_, 1.0 - share, atol=0.01)
    assert (model.transform(X)[holes] == 0.0).all()
    assert full.present_shares_ is None


def test_holes_change_no_other_feature():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    X[:, 0] = np.nan
    X[0, 0] = 1.0
    model = DPStandardScaler(epsilon=None, missing="mean")
    with pytest.warns(PrivacyLeakWarning):
        model.fit(X)
    order = PairOrder(*X.shape, 1)
    differences = np.concatenate([d.copy() for d in PairWalk(order).blocks(X)])
    assert np.nanstd(differences[:, 1]) == pytest.approx(np.sqrt(2.0), rel=0.1)
    assert np.isnan(differences[:, 0]).all()
    assert np.allclose(model.scale_[1:], X[:, 1:].std(axis=0), rtol=0.01)


@OPEN
def test_lists_are_columns_of_objects():
    """An array of numbers would become one of texts by a single value."""
    rows = [[1.0, 2.0], [3.0, 4.0]] * 200
    model = fitted(rows, noise_seed=0)
    assert set(model.kinds_.values()) == {"categories"}
    assert model.categories_ == {"x0": ["1", "3"], "x1": ["2", "4"]}
    rows[0] = ["a", 2.0]
    assert fitted(rows, noise_seed=0).kinds_ == model.kinds_


EQUAL = [
    (100, 100.0, np.int64(100)),
    (0.5, np.float16(0.5)),
    (0, -0.0),
    (None, np.nan, pd.NA, pd.NaT),
]


@pytest.mark.parametrize("values", EQUAL, ids=repr)
def test_equal_values_have_one_text(values):
    assert len(set(map(text_of, values))) == 1


FAR = [-(2**63) + 1, 2**63 - 1, 10**18 + 1, 10**15, 0, None]


def _arrow(values, dtype):
    pa = pytest.importorskip("pyarrow")
    width = pa.int32() if dtype == "date32" else pa.int64()
    kinds = {
        "date32": pa.date32(),
        "date64": pa.date64(),
        "stay": pa.duration("ns"),
        "time": pa.timestamp("s", "Pacific/Kiritimati"),
    }
    if dtype == "date32":
        values = [
            None if v is None else int(np.clip(v, -(2**31), 2**31 - 1)) for v in values
        ]
    if dtype == "date64":
        values = [
            None if v is None else max(v // 86400000, -(10**11)) * 86400000
            for v in values
        ]
    numbers = pa.array(values, width).cast(kinds[dtype])
    return pd.Series(pd.arrays.ArrowExtensionArray(numbers))


def _zoned(values, zone):
    numbers = [-(2**63) if value is None else value for value in values]
    times = pd.Series(np.array(numbers).view("datetime64[s]"))
    return times.dt.tz_localize("UTC").dt.tz_convert(zone)


def _polars(values, unit):
    return pl.Series(values, dtype=pl.Int64).cast(pl.Datetime(unit, "Asia/Tokyo"))


@OPEN
@pytest.mark.parametrize(
    ("make", "dtype"),
    [(_arrow, name) for name in ("date32", "date64", "stay", "time")]
    + [(_zoned, zone) for zone in ("dateutil/Asia/Tokyo", "America/New_York")]
    + [(_polars, unit) for unit in ("ms", "us", "ns")],
)
def test_no_time_or_duration_makes_an_error(make, dtype):
    frame = pl.DataFrame if make is _polars else pd.DataFrame
    X = frame({"when": make(FAR * 10, dtype)})
    model = fitted(X, epsilon=None)
    numbers = model._vectors(X).numbers()[slice(0, 6)]
    assert np.isnan(numbers).all(axis=1).tolist() == [False] * 5 + [True]
    assert np.isfinite(model.transform(X)).all()
    if dtype == "stay":
        assert numbers[:4, 0] == pytest.approx(np.array(FAR[:4]) / 1e9)
    elif dtype != "time":
        assert numbers[4, 0] == 1970.0
    if make is _zoned:
        assert numbers[1, 0] == 9999.0
