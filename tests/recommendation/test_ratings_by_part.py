"""Ratings by name, names that are not guessed, files and memory maps by parts."""

import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skdpspectral import DPItemEmbedding, DPMatrixFactorization, PrivacyAccountant
from skdpspectral._tables import table as files
from skdpspectral.datasets import make_ratings
from skdpspectral.recommendation._kernels import UserRatings
from skdpspectral.recommendation._ratings import _by_place

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
DATA = make_ratings(300, 40, n_ratings_per_user=8, random_state=0)
X, Y = DATA.data, DATA.target.astype(float)
MODEL = DPMatrixFactorization(
    items=DATA.item_ids,
    item_features=DATA.item_features,
    noise_seed=0,
    rating_range=(1, 5),
)
FRAME = pd.DataFrame({"rating": Y, "item_id": X[:, 1], "user_id": X[:, 0]})
PAIRS = FRAME[["user_id", "item_id"]]
EXPECTED = clone(MODEL).fit(X, Y).predict(X)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Files of the ratings."""
    folder = tmp_path_factory.mktemp("ratings")
    FRAME.to_parquet(folder / "one.parquet", row_group_size=100)
    many = folder / "many"
    many.mkdir()
    FRAME[:900].to_parquet(many / "a.parquet")
    FRAME[900:].to_parquet(many / "b.parquet")
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", Y)
    return folder


# -- ratings by name -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [lambda f: f, pl.DataFrame, pa.Table.from_pandas])
def test_a_table_may_hold_its_ratings(kind):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "columns of X besides")
        model = clone(MODEL).fit(kind(FRAME))
    assert model.feature_names_in_.tolist() == ["user_id", "item_id"]
    for table in (FRAME, PAIRS, PAIRS.assign(other=1)[["other", *PAIRS]]):
        assert np.array_equal(model.predict(kind(table)), EXPECTED)
    assert model.score(kind(FRAME)) == model.score(kind(PAIRS), Y)
    own = model.publish().personalize(kind(FRAME))
    assert np.array_equal(own.predict(PAIRS), EXPECTED)


def test_ratings_beside_a_table_go_before_its_column():
    with pytest.warns(UserWarning, match=r"not used: rating$"):
        model = clone(MODEL).fit(FRAME.assign(rating=1.0), Y)
    assert np.array_equal(model.predict(PAIRS), EXPECTED)


def test_the_column_of_ratings_has_the_name_that_was_given():
    renamed = FRAME.rename(columns={"rating": "stars"})
    model = clone(MODEL).set_params(rating_feature="stars").fit(renamed)
    assert np.array_equal(model.predict(renamed), EXPECTED)
    assert len(cross_val_score(model, renamed, cv=2)) == 2
    for table in (renamed, renamed[["user_id", "item_id"]], X):
        with pytest.raises(ValueError, match="no column named rating_feature"):
            clone(MODEL).fit(table)


@pytest.mark.parametrize(
    "column", [["five"] * len(Y), np.where(Y > 3, np.nan, Y), [*Y[:-1], None], Y + 1j]
)
def test_a_column_of_no_ratings_is_refused_after_the_charge(column):
    accountant = PrivacyAccountant()
    model = clone(MODEL).set_params(accountant=accountant)
    frame = FRAME.assign(rating=column)
    with pytest.raises(ValueError, match=r"rating_feature='rating' must name|NaN"):
        model.fit(frame)
    assert len(accountant.ledger) == 1


# -- names that are not guessed --------------------------------------------------------


@pytest.mark.parametrize(
    "names", [["stars", "film", "person"], ["user", "item_id", "y"], ["b1", "a2", "a3"]]
)
@pytest.mark.parametrize("cls", [DPMatrixFactorization, DPItemEmbedding])
def test_real_names_without_the_defaults_are_refused(cls, names):
    accountant = PrivacyAccountant()
    frame = FRAME.set_axis(names, axis=1)
    with pytest.raises(ValueError, match=r"user_feature='user_id', but X has no"):
        cls(items=DATA.item_ids, accountant=accountant, rating_range=(1, 5)).fit(
            frame, Y
        )
    half = {"user_feature": names[2]}
    if "item_id" not in names:
        with pytest.raises(ValueError, match=r"item_feature='item_id', but X has no"):
            cls(
                items=DATA.item_ids,
                accountant=accountant,
                **{"rating_range": (1, 5), **half},
            ).fit(frame, Y)
    assert not len(accountant.ledger)


@pytest.mark.parametrize("names", [[0, 1], ["x0", "x1"], ["column_1", "column_2"]])
def test_columns_that_are_numbered_are_taken_by_their_places(names):
    with pytest.warns(UserWarning, match="the first is used for users"):
        model = clone(MODEL).fit(pd.DataFrame(X, columns=names), Y)
    assert np.array_equal(model.predict(pd.DataFrame(X, columns=names)), EXPECTED)


def test_what_numbered_names_are():
    assert _by_place(["col_8", "col_9", "col_10"])
    assert not _by_place(["x1", "x0"])
    assert not _by_place(["x0", "y1"])
    assert not _by_place(["x0", "x2"])
    assert not _by_place(["user_id", "item_id"])
    assert not _by_place(["x0", 1])


# -- parts -----------------------------------------------------------------------------


def sources(folder):
    """Return what a table can be read from, beside arrays: arguments of fit."""
    path = folder / "one.parquet"
    mapped = np.load(folder / "X.npy", mmap_mode="r")
    return {
        "a path": (path,),
        "a string": (str(path),),
        "a folder": (folder / "many",),
        "a data set": (dataset.dataset(folder / "many"),),
        "a file and ratings beside it": (path, Y),
        "memory maps": (mapped, np.load(folder / "y.npy", mmap_mode="r")),
        "a memory map and a list": (mapped, Y.tolist()),
        "a memory map and a column": (mapped, pd.Series(Y, index=range(7, 7 + len(Y)))),
    }


@pytest.mark.filterwarnings("ignore:columns of X besides:UserWarning")
@pytest.mark.parametrize("rows", [100, 1 << 18])
def test_files_and_memory_maps_give_the_bits_of_arrays(stored, monkeypatch, rows):
    monkeypatch.setattr(files, "_PART_ROWS", rows)
    monkeypatch.setattr(files, "_BATCH_NUMBERS", 3 * rows)
    for name, arguments in sources(stored).items():
        model = clone(MODEL).fit(*arguments)
        assert np.array_equal(model.predict(arguments[0]), EXPECTED), name
        own = model.publish().personalize(*arguments)
        assert np.array_equal(own.predict(arguments[0]), EXPECTED), name
        assert model.score(*arguments) == pytest.approx(0.55, abs=0.2), name
        assert model.plan_for(arguments[0]) == model.privacy_, name


def test_strings_and_categories_in_files(tmp_path):
    frame = FRAME.assign(user_id="u" + FRAME.user_id.astype(str))
    frame["item_id"] = frame.item_id.astype(str).astype("category")
    frame.to_parquet(tmp_path / "strings.parquet")
    model = clone(MODEL).set_params(items=DATA.item_ids.astype(str))
    model.fit(tmp_path / "strings.parquet")
    assert np.array_equal(model.predict(frame), EXPECTED)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nothing.parquet", "no parquet file could be read"),
        (lambda folder: folder / "X.npy", "no parquet file could be read"),
    ],
)
def test_paths_of_no_table_are_refused_before_the_charge(stored, make, message):
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match=message):
        clone(MODEL).set_params(accountant=accountant).fit(make(stored))
    assert not len(accountant.ledger)


def test_values_of_files_are_read_after_the_charge(tmp_path):
    path = tmp_path / "missing.parquet"
    for column in FRAME:
        frame = FRAME.astype(float)
        frame.loc[200, column] = np.nan
        frame.to_parquet(path)
        accountant = PrivacyAccountant()
        with pytest.raises(ValueError, match=r"NaN|finite numbers"):
            clone(MODEL).set_params(accountant=accountant).fit(path)
        assert len(accountant.ledger) == 1


# -- the last rating of each user and item ---------------------------------------------


@pytest.mark.parametrize("n_items", [6, 2**16, 2**26 - 1])
def test_ratings_are_gathered_as_by_a_loop(n_items):
    rng = np.random.default_rng(0)
    users = np.r_[rng.integers(5, size=60), [6, 6]]
    items = np.r_[rng.integers(-1, 5, 60), [-1, -1]]
    values = 0.1 * rng.integers(-3, 4, 62)
    last = {
        (user, item): value
        for user, item, value in zip(users, items, values, strict=True)
        if item >= 0
    }
    keys = sorted(last)
    (block,) = UserRatings(users, items, values, (8, n_items)).blocks()
    assert list(zip(block.of_user, block.items, strict=True)) == keys
    assert block.values.tolist() == [last[key] for key in keys]
    assert block.counts.tolist() == [sum(u == k[0] for k in keys) for u in range(8)]


def test_more_items_than_the_proof_allows_are_refused():
    for cls in (DPMatrixFactorization, DPItemEmbedding):
        with pytest.raises(ValueError, match=r"items must be at most 2\*\*26 - 1"):
            cls(rating_range=(1, 5)).privacy_plan(2**26)


# -- what is read ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, np.asarray])
@pytest.mark.parametrize("cls", [DPMatrixFactorization, DPItemEmbedding])
@pytest.mark.filterwarnings("ignore:columns of X besides:UserWarning")
def test_columns_that_are_not_used_are_not_read(cls, kind):
    """What somebody has there neither refuses a fit nor is seen by it."""
    frame = PAIRS.assign(hour=np.nan)
    table = frame.to_numpy() if kind is np.asarray else kind(frame)
    model = cls(items=DATA.item_ids, noise_seed=0, rating_range=(1, 5)).fit(table, Y)
    found = (
        model.predict(table) if hasattr(model, "predict") else model.transform(table)
    )
    assert np.isfinite(np.asarray(found, dtype=float)).all()


def test_ratings_beside_clicks_are_not_read():
    clicks = clone(MODEL).set_params(implicit=True)
    expected = clicks.fit(X).predict(X)
    assert np.array_equal(clicks.fit(X, np.full(len(X), np.nan)).predict(X), expected)
    with pytest.raises(ValueError, match="X and y"):
        clicks.fit(X, Y[:3])


class Telling:
    """Ratings of another library, which quotes them."""

    shape, dtype, ndim = (len(Y),), np.dtype(float), 1

    def __len__(self):
        return len(Y)

    def __getitem__(self, rows):
        raise KeyError("secret 4.0625")


@pytest.mark.filterwarnings("ignore:columns of X besides:UserWarning")
def test_what_another_library_says_of_ratings_is_not_told(stored):
    with pytest.raises(ValueError, match="y must contain numbers") as caught:
        clone(MODEL).fit(stored / "one.parquet", Telling())
    assert "secret" not in "".join(traceback.format_exception(caught.value))
