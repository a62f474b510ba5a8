"""Folds under which guarantees hold, and those that break them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from skdpspectral.model_selection import PerUserKFold, PrivateSplit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
LABELS = RNG.integers(0, 3, 120)
USERS = pd.DataFrame({"user_id": RNG.integers(0, 25, 120), "item_id": np.arange(120)})


def moved_by_a_label(cv):
    """Rows, but the changed one, that change sides in the first split."""
    other = LABELS.copy()
    other[3] = (other[3] + 1) % 3
    sides = []
    for y in (LABELS, other):
        groups = y if isinstance(cv, GroupKFold) else None
        train = set(next(iter(cv.split(X, y, groups)))[0])
        sides.append(train - {3})
    return len(sides[0] ^ sides[1])


def moved_by_a_user(cv, table=USERS):
    """Rows of others that change sides when a user leaves."""
    leaver = table["user_id"].iloc[0]
    rest = table[table["user_id"] != leaver]
    sides = []
    for rows in (table, rest):
        train = next(iter(cv.split(rows)))[0]
        sides.append(set(rows.iloc[train].query("user_id != @leaver")["item_id"]))
    return len(sides[0] ^ sides[1])


SOUND = [
    PrivateSplit(1, random_state=0),
    PrivateSplit(4, random_state=1),
    KFold(4, shuffle=True, random_state=0),
    ShuffleSplit(2, random_state=0),
    RepeatedKFold(random_state=0),
    TimeSeriesSplit(3),
]
UNSOUND = [
    StratifiedKFold(4),
    StratifiedShuffleSplit(2, random_state=0),
    GroupKFold(3),
]


@pytest.mark.parametrize("cv", SOUND, ids=str)
def test_folds_by_position_are_not_moved_by_a_label(cv):
    assert moved_by_a_label(cv) == 0


@pytest.mark.parametrize("cv", UNSOUND, ids=str)
def test_folds_by_labels_are_moved_by_one(cv):
    assert moved_by_a_label(cv) > 0


@pytest.mark.parametrize("n_splits", [1, 2, 5])
def test_folds_of_users_are_not_moved_by_others(n_splits):
    cv = PrivateSplit(n_splits, user_feature="user_id", random_state=0)
    assert moved_by_a_user(cv) == 0


@pytest.mark.parametrize(
    "cv", [KFold(4), PerUserKFold(4, user_feature="user_id"), PrivateSplit(4)], ids=str
)
def test_other_folds_are_moved_by_a_user_who_leaves(cv):
    cv.random_state = 0 if isinstance(cv, PrivateSplit) else None
    assert moved_by_a_user(cv) > 0


def test_every_row_is_held_out_once_and_parts_have_their_sizes():
    folds = list(PrivateSplit(7, random_state=0).split(X))
    held = np.concatenate([test for _, test in folds])
    assert sorted(held) == list(range(120))
    assert {len(test) for _, test in folds} <= {17, 18}
    ((train, test),) = PrivateSplit(1).split(X)
    assert (len(train), len(test)) == (90, 30)
    assert not set(train) & set(test)


@pytest.mark.parametrize("ids", ["numbers", "strings", "floats"])
def test_rows_of_each_user_are_spread(ids):
    users = USERS["user_id"]
    table = USERS.assign(
        user_id={
            "numbers": users,
            "strings": "u" + users.astype(str),
            "floats": users.astype(float),
        }[ids]
    )
    folds = np.empty(120, dtype=int)
    cv = PrivateSplit(3, user_feature="user_id", random_state=0)
    for number, (_, test) in enumerate(cv.split(table)):
        folds[test] = number
    for _, own in pd.Series(folds).groupby(users):
        counts = np.bincount(own, minlength=3)
        assert np.ptp(counts) <= 1
    # Whoever has one row is in any of the folds.
    single = pd.DataFrame({"user_id": np.arange(3000)})
    sizes = [len(test) for _, test in cv.split(single)]
    assert np.abs(np.array(sizes) - 1000).max() < 4.5 * np.sqrt(3000 * 2 / 9)
    ((_, test),) = PrivateSplit(1, user_feature="user_id", random_state=0).split(single)
    assert abs(len(test) - 750) < 4.5 * np.sqrt(3000 * 3 / 16)


def test_ids_that_are_equal_are_one_user():
    cv = PrivateSplit(4, user_feature=0, random_state=0)
    whole = np.repeat(np.arange(30), 4)[:, np.newaxis]
    first = [test.tolist() for _, test in cv.split(whole)]
    assert first == [test.tolist() for _, test in cv.split(whole.astype(float))]
    assert first == [test.tolist() for _, test in cv.split(whole.astype(np.int8))]


KINDS_OF_IDS = {
    "integers": list(range(12)),
    "numbers as floats": [float(number) for number in range(12)],
}
COMPANY = [5000, 1.0e15]


@pytest.mark.parametrize("ids", KINDS_OF_IDS.values(), ids=KINDS_OF_IDS)
@pytest.mark.parametrize("other", COMPANY, ids=ascii)
def test_one_user_of_another_type_moves_nobody(ids, other):
    cv = PrivateSplit(3, user_feature="user_id", random_state=0)
    mine = np.repeat(np.arange(len(ids)), 4)
    alone = pd.DataFrame({"user_id": [ids[place] for place in mine]})
    rows = [ids[place] for place in mine] + [other]
    joined = pd.DataFrame({"user_id": pd.Series(rows).infer_objects()})
    for (_, test), (_, beside) in zip(cv.split(alone), cv.split(joined), strict=True):
        np.testing.assert_array_equal(test, beside[beside < len(mine)])


class Foreign:
    """An id that tells itself where it can."""

    def __str__(self):
        raise ValueError("secret 7")

    __repr__ = __str__


@pytest.mark.parametrize(
    "foreign",
    [Foreign(), pd.Timestamp("2030-01-01", tz="UTC"), b"secret 7", ("secret 7",)],
    ids=["object", "instant", "bytes", "tuple"],
)
def test_ids_that_are_no_numbers_or_texts_are_refused_without_a_word_of_them(foreign):
    cv = PrivateSplit(2, user_feature="user_id", random_state=0)
    table = pd.DataFrame({"user_id": pd.Series([1, 2, foreign, 4], dtype=object)})
    with pytest.raises(TypeError, match="integers or text") as error:
        next(cv.split(table))
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


def test_texts_without_an_encoding_are_ids():
    cv = PrivateSplit(2, user_feature=0, random_state=0)
    table = np.array([["a"], ["secret \ud800"], ["a"], ["b"]], dtype=object)
    assert len(list(cv.split(table))) == 2


def test_ids_that_a_float_rounds_are_refused():
    cv = PrivateSplit(2, user_feature="user_id", random_state=0)
    with pytest.raises(ValueError, match="not exact"):
        next(cv.split(pd.DataFrame({"user_id": [2.0**53, 1.0, 2.0, 3.0]})))
    with pytest.raises(ValueError, match="not whole"):
        next(cv.split(pd.DataFrame({"user_id": [0.5, 1.0, 2.0, 3.0]})))


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_splits": 0},
        {"n_splits": 2.0},
        {"n_splits": True},
        {"n_splits": "5"},
        {"user_feature": 1.0},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_bad_splits_are_refused(arguments):
    with pytest.raises((TypeError, ValueError)):
        PrivateSplit(**arguments)


def test_tables_without_enough_rows_or_users_are_refused():
    with pytest.raises(ValueError, match="n_samples=3"):
        list(PrivateSplit(5).split(X[:3]))
    with pytest.raises(ValueError, match="user_feature"):
        list(PrivateSplit(2, user_feature="who").split(USERS))


def test_texts_of_numpy_are_dealt_as_those_of_python():
    """A frame's column may hold either, and pandas decides it by all of its rows."""
    ids = [np.str_(f"user {i % 17}") for i in range(200)]
    split = PrivateSplit(3, user_feature=0, random_state=0)
    dealt = [
        [test for _, test in split.split([[user, 0.0] for user in users])]
        for users in (ids, list(map(str, ids)))
    ]
    for given, expected in zip(*dealt, strict=True):
        assert np.array_equal(given, expected)


def test_files_are_refused_by_name(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    pd.DataFrame({"a": range(8)}).to_parquet(tmp_path / "rows.parquet")
    file = pq.ParquetFile(tmp_path / "rows.parquet")
    with file, pytest.raises(TypeError, match=r"in memory.*got ParquetFile"):
        next(PrivateSplit(2).split(file))
