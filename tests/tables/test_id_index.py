"""IdIndex: ids found again, whatever they are made of, and no id in any message."""

import datetime
import decimal
import itertools
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpspectral._tables.columns import IdIndex

IDS = {
    "integers": [30, 10, 20],
    "largest integers": [-(2**63), 2**63 - 1, 0],
    "floats": [5.0, -15.0, 2.0],
    "booleans": [True, False],
    "strings": ["b", "", "ä", "a\0b", "ab"],
}


def repeated(ids, times=5, seed=0):
    order = np.random.default_rng(seed).permutation(len(ids) * times)
    return [ids[i % len(ids)] for i in order]


def by_dictionary(ids):
    table = {}
    return [table.setdefault(key, len(table)) for key in ids], table


@pytest.mark.parametrize("kind", IDS)
def test_ids_are_found_again(kind):
    *known, new = IDS[kind]
    ids = repeated(known)
    codes, table = by_dictionary(ids)
    index = IdIndex(ids, "users")
    assert len(index) == len(table)
    np.testing.assert_array_equal(index.codes, codes)
    np.testing.assert_array_equal(index.find([*ids, new], "users"), [*codes, -1])
    assert index.find(index.ids[:1], "users")[0] == 0
    assert index.without_codes().codes is None
    assert index.find([], "users").shape == (0,)
    wider = index.joined([new])
    wanted = [*codes, len(known)]
    np.testing.assert_array_equal(wider.find([*ids, new], "users"), wanted)
    assert len(index) == len(known) == len(wider) - 1


CONTAINERS = {
    "array": np.array,
    "object array": lambda ids: np.array(ids, dtype=object),
    "tuple": tuple,
    "pandas, other index": lambda ids: pd.Series(ids, index=range(7, 7 + len(ids))),
    "pandas category": lambda ids: pd.Series(ids).astype("category"),
    "pandas Index": pd.Index,
    "polars": pl.Series,
    "masked nowhere": np.ma.array,
}


@pytest.mark.parametrize("kind", ["integers", "floats", "strings"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_container_makes_no_difference(kind, container):
    ids, made = repeated(IDS[kind][:3]), CONTAINERS[container]
    codes, _ = by_dictionary(ids)
    index = IdIndex(made(ids), "users")
    np.testing.assert_array_equal(index.codes, codes)
    np.testing.assert_array_equal(IdIndex(ids, "users").find(made(ids), "users"), codes)


NUMBERS = ["i1", "u1", "i4", "u4", "i8", "u8", "f4", "f8", ">i4", ">f8", "O"]


def test_equal_numbers_are_one_id_in_every_precision():
    for fitted, asked in itertools.product(NUMBERS, repeat=2):
        ids = np.array([7, 3, 100, 3, 7, 0])
        index = IdIndex(ids.astype(fitted), "users")
        np.testing.assert_array_equal(
            index.find(ids.astype(asked), "users"), [0, 1, 2, 1, 0, 3]
        )


def test_many_ids():
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(rng.permutation(100_000), 3))
    for known in (ids, ids.astype(str), ids * 2**40):
        index = IdIndex(known, "users")
        assert len(index) == 100_000
        np.testing.assert_array_equal(index.find(known, "users"), index.codes)
        np.testing.assert_array_equal(index.codes, IdIndex(ids, "users").codes)


@pytest.mark.parametrize("fitted", [[1, np.int64(3), 4.0], ["1", np.str_("3")]])
def test_ids_of_another_kind_are_an_error_and_not_unknown(fitted):
    """Else it would show by lookups whether anybody had an id of another kind."""
    other = ["1"] if fitted[0] == 1 else [1]
    kinds = ["numbers", "strings"][:: 1 if fitted[0] == 1 else -1]
    index = IdIndex(fitted, "users")
    match = f"owners contains {kinds[1]}.*users contains {kinds[0]}.*type of the other"
    with pytest.raises(ValueError, match=match):
        index.find(other, "owners")
    with pytest.raises(ValueError, match="users must contain ids of one kind"):
        IdIndex([*fitted, *other], "users")


OTHERS = {
    "bytes": [b"b", b""],
    "an array of bytes": np.array([b"1"]),
    "tuples": [("a", 1), ()],
    "dates": [datetime.date(2020, 1, 1)],
    "times": [datetime.datetime(2020, 1, 1, 5), pd.Timestamp(5, tz="UTC")],
    "an array of times": np.array(["2020-01-01"], dtype="M8[s]"),
    "durations": [datetime.timedelta(1), pd.Timedelta(7), np.timedelta64(3, "h")],
    "periods": [pd.Period("2020-01")],
    "universal ids": [uuid.UUID(int=1)],
    "decimals": [decimal.Decimal("2")],
    "complex": np.array([1 + 0j]),
    "lists": [[1], [2]],
    "arrays": [np.zeros(2), np.zeros(2)],
    "dictionaries": [{}, {}],
    "one among others": [1, b"secret"],
}
MISSING = {
    "None": ["secret", None],
    "NaN": ["secret", float("nan")],
    "NaN among numbers": np.array([7321.0, np.nan]),
    "infinity": [np.inf],
    "numpy NaN": ["secret", np.float32("nan")],
    "NA": ["secret", pd.NA],
    "NaT": ["secret", pd.NaT],
    "pandas": pd.Series(["secret", None]),
    "pandas Int64": pd.Series([7321, None], dtype="Int64"),
    "polars": pl.Series(["secret", None]),
    "polars numbers": pl.Series([7321, None]),
}
SHAPES = {
    "table": np.zeros((2, 1)),
    "frame": pd.DataFrame({"a": [1, 2]}),
    "mapping": {1: 2},
    "scalar": np.array(3),
}
# A user must not get another one's predictions: what is inexact is refused.
INEXACT = {
    "half precision": np.array([2047, 2049], "f2"),
    "half precision, objects": [np.float16(2048)],
    "single precision": np.array([2.0**24], "f4"),
    "double precision": np.array([2.0**53]),
    "fractions": np.array([1.0, 2.5]),
    "fractions, objects": [1, 2.5],
    "unsigned": np.array([2**63 + 4], dtype="u8"),
    "beyond 64 bits": [2**70],
}
# numpy's arrays of fixed width hold none of them: two users would become one, and
# whoever asked by such an array would get the model of another.
ENDING_IN_NUL = {
    "list of texts": ["secret", "secret\0"],
    "objects": np.array(["secret", "secret\0"], dtype=object),
    "strings of any length": np.array(["secret", "secret\0"], np.dtypes.StringDType()),
    "pandas": pd.Series(["secret", "secret\0"]),
    "pandas categories": pd.Series(["secret", "secret\0"], dtype="category"),
    "polars": pl.Series(["secret", "secret\0"]),
    "polars categories": pl.Series(["secret", "secret\0"], dtype=pl.Categorical),
    "NULs alone": ["\0", "\0\0"],
}
REFUSED = [
    (OTHERS, TypeError, r"users must .* with astype\(str\)"),
    (MISSING, ValueError, "users must not contain missing ids"),
    (SHAPES, ValueError, "users must .*(list or 1D array of ids|got a single value)"),
    (INEXACT, ValueError, "users.*(not exact|not whole|64 bits)"),
    (ENDING_IN_NUL, ValueError, "users must not contain .* NUL"),
    ({"masked": np.ma.array([1, 2], mask=[0, 1])}, ValueError, "users.*masked"),
]


@pytest.mark.parametrize(
    ("ids", "error", "match"),
    [
        pytest.param(ids, error, match, id=name)
        for cases, error, match in REFUSED
        for name, ids in cases.items()
    ],
)
def test_what_is_no_id_is_refused_and_not_quoted(ids, error, match):
    if "NUL" in match and len(set(ids)) == 1:
        pytest.skip("what a library has merged is one id")  # categories of pandas 2.2
    for use in (
        lambda: IdIndex(ids, "users"),
        lambda: IdIndex(["a"], "users").find(ids, "users"),
    ):
        with pytest.raises(error, match=match) as caught:
            use()
        assert "secret" not in str(caught.value)
        assert "7321" not in str(caught.value)


@pytest.mark.parametrize("kind", [np.uint64, float, object])
def test_ids_of_other_types_that_are_joined_stay_apart(kind):
    """One type of floats for both would make neighbors one."""
    large = [2**60, 2**60 + 1]
    new = np.array([7, 9] if kind is float else [2**60 + 2, 2**60 + 3], dtype=kind)
    joined = IdIndex(np.array(large), "users").joined(new)
    found = joined.find([*large, *map(int, new)], "users")
    np.testing.assert_array_equal(found, [0, 1, 2, 3])
