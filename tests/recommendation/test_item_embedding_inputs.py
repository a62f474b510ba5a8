"""What DPItemEmbedding accepts: tables, columns, names, and what comes out."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from containers import read_only
from scipy import sparse
from sklearn.base import clone

from skdpspectral import DPItemEmbedding

CATALOG = [10, 11, 12]
IDS = np.array([[0, 10], [0, 11], [1, 10], [1, 12], [2, 99]])
RATINGS = [5.0, 1.0, 4.0, 3.5, 2.0]
without_privacy = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")


def model(**parameters):
    return DPItemEmbedding(
        2, **{"items": CATALOG, "noise_seed": 0, "rating_range": (1, 5), **parameters}
    )


def expected_rows():
    """Users, and embeddings of their items."""
    fitted = model().fit(IDS, RATINGS)
    unknown = np.zeros(5)
    unknown[:2] = fitted.item_embeddings_[:, :2].mean(axis=0)
    rows = np.vstack([fitted.item_embeddings_, unknown])[[0, 1, 0, 2, 3]]
    return np.column_stack([IDS[:, 0], rows])


pytestmark = [
    pytest.mark.filterwarnings("ignore:X has no columns user_id"),
    pytest.mark.filterwarnings("ignore:columns of X besides users"),
]
WRITTEN = ["mean", "offset", "popularity", "embedding0", "embedding1"]


def names_of(user, item):
    """Names of the columns that come out."""
    return [user, *(f"{item}_{name}" for name in WRITTEN)]


def in_pyarrow(X):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table({"user_id": X[:, 0], "item_id": X[:, 1]})


# -- containers of the whole table -----------------------------------------------------

CONTAINERS = {
    "integers": lambda X: X,
    "floats": lambda X: X.astype(float),
    "objects": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "read-only": lambda X: read_only(X.copy()),
    "pandas": lambda X: pd.DataFrame(X, columns=["user_id", "item_id"]),
    "pandas without names": pd.DataFrame,
    "pandas Int64": lambda X: pd.DataFrame(X, columns=["x0", "x1"], dtype="Int64"),
    "pandas category": lambda X: pd.DataFrame(X, columns=["x0", "x1"]).astype(
        "category"
    ),
    "polars": lambda X: pl.DataFrame(X, schema=["user_id", "item_id"]),
    "pyarrow": in_pyarrow,
}


@without_privacy
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_container_makes_no_difference(container):
    table = CONTAINERS[container](IDS)
    before = np.asarray(table).tolist()
    fitted = model().fit(table, RATINGS)
    found = fitted.transform(table)
    assert np.asarray(table).tolist() == before
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found.astype(float), expected_rows())
    assert found.dtype == np.float64
    np.testing.assert_array_equal(
        model().fit_transform(table, RATINGS).astype(float), expected_rows()
    )


# -- sparse users x items --------------------------------------------------------------


def matrix():
    """The same ratings, of items 0, 1 and 2, beside one user without any."""
    users, items, ratings = [0, 0, 1, 1], [0, 1, 0, 2], RATINGS[:4]
    return sparse.csr_array((ratings, (users, items)), shape=(5, 3))


MATRICES = {
    "csr_array": lambda R: R,
    "csc_array": lambda R: R.tocsc(),
    "coo_array": lambda R: R.tocoo(),
    "lil_array": lambda R: R.tolil(),
    "float32": lambda R: R.astype(np.float32),
    "64-bit indices": lambda R: sparse.csr_array(
        (R.data, R.indices.astype("i8"), R.indptr.astype("i8")), R.shape
    ),
}


@pytest.mark.parametrize("container", MATRICES)
@pytest.mark.parametrize("epsilon", [1.0, None])
@without_privacy
def test_a_sparse_matrix_is_the_table_of_its_entries(container, epsilon):
    R = MATRICES[container](matrix())
    before = R.toarray()
    fitted = model(items=None, epsilon=epsilon).fit(R)
    table = np.array([[0, 0], [0, 1], [1, 0], [1, 2]])
    expected = model(items=range(3), epsilon=epsilon).fit(table, RATINGS[:4])
    np.testing.assert_array_equal(fitted.item_embeddings_, expected.item_embeddings_)
    np.testing.assert_array_equal(fitted.items_, [0, 1, 2])
    assert fitted.privacy_ == expected.privacy_
    assert fitted.privacy_plan(3) == fitted.privacy_
    np.testing.assert_array_equal(fitted.transform(R), expected.transform(table))
    np.testing.assert_array_equal(fitted.transform(table), expected.transform(table))
    np.testing.assert_array_equal(R.toarray(), before)
    assert list(fitted.get_feature_names_out()) == names_of("x0", "x1")


def test_columns_of_a_sparse_matrix_follow_the_public_features():
    features = [[0.0], [1.0], [2.0]]
    found = model(items=None, item_features=features).fit(matrix())
    column = found.item_embeddings_[:, 3]
    assert np.diff(column) == pytest.approx([column[1] - column[0]] * 2)


def test_stored_zeros_of_a_sparse_matrix_are_ratings():
    """An item without an entry counts as unrated, one with a stored zero does not."""
    R = matrix()
    R.data[1] = 0.0
    found = model(items=None, rating_range=(0, 5)).fit(R)
    R.eliminate_zeros()
    assert not np.array_equal(
        found.item_embeddings_,
        model(items=None, rating_range=(0, 5)).fit(R).item_embeddings_,
    )


def in_words(X):
    return np.array([[f"user {u}", f"item {i}"] for u, i in X.tolist()])


WORDS = {
    "numpy strings": lambda X: X,
    "lists": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=["x0", "x1"]),
    "pandas category": lambda X: pd.DataFrame(X, columns=["x0", "x1"]).astype(
        "category"
    ),
    "polars": lambda X: pl.DataFrame(X, schema=["x0", "x1"]),
    "polars category": lambda X: pl.DataFrame(X, schema=["x0", "x1"]).cast(
        pl.Categorical
    ),
}


@pytest.mark.parametrize("container", WORDS)
def test_ids_may_be_words(container):
    words, items = in_words(IDS), ["item 10", "item 11", "item 12"]
    fitted = model(items=items).fit(WORDS[container](words), RATINGS)
    expected = model(items=items).fit(words.astype(object), RATINGS)
    assert np.array_equal(fitted.item_embeddings_, expected.item_embeddings_)
    out = fitted.transform(WORDS[container](words))
    assert out.dtype == object
    assert out[:, 0].tolist() == words[:, 0].tolist()
    assert out[:, 1:].tolist() == expected.transform(words)[:, 1:].tolist()
    wanted = model().fit(IDS, RATINGS).item_embeddings_
    assert np.array_equal(fitted.item_embeddings_, wanted)


def test_one_and_its_word_are_not_taken_together():
    rows = [[1, 10], ["1", 11], [1, 10], [1.0, 12]]
    with pytest.raises(ValueError, match="user_feature must contain ids of one kind"):
        model().fit(rows, [5, 4, 1, 2])


# -- which columns ---------------------------------------------------------------------

WIDE = np.column_stack([IDS, np.arange(5) * 1.5, [7, 7, 7, 7, 8]])


@pytest.mark.parametrize(
    "order", [[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 1, 0], [2, 0, 3, 1]]
)
@pytest.mark.parametrize("sign", ["from the front", "from the back"])
def test_columns_are_found_by_position(order, sign):
    user, item = order.index(0), order.index(1)
    back = 4 if sign == "from the back" else 0
    fitted = model(user_feature=user - back, item_feature=item - back)
    out = fitted.fit(WIDE[:, order], RATINGS).transform(WIDE[:, order])
    rows = expected_rows()
    np.testing.assert_array_equal(out, rows)
    expected = names_of(f"x{user}", f"x{item}")
    assert fitted.get_feature_names_out().tolist() == expected


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_guessed_columns_of_a_dataframe_are_told(library):
    """Items that are taken for users would be all that is protected."""
    told = pytest.warns(UserWarning, match="X has no columns user_id and item_id")
    with told:
        model().fit(library({"x0": IDS[:, 0], "x1": IDS[:, 1]}), RATINGS)
    table = {"movie": IDS[:, 1], "viewer": IDS[:, 0]}
    with pytest.raises(ValueError, match="user_feature='user_id', but X has no column"):
        model().fit(library(table), RATINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="noise_seed is given")
        named = model(user_feature="viewer", item_feature="movie")
        named.fit(library(table), RATINGS).transform(library(table))
        model().fit(IDS, RATINGS)


def test_one_text_among_the_ratings_changes_no_other():
    ratings = [np.float32(value) for value in (3.673925, 1.3, 3.940359, 2.1)]
    fitted = model().fit(IDS, [*ratings, "3"])
    expected = model().fit(IDS, [*map(float, ratings), 3.0])
    np.testing.assert_array_equal(fitted.item_embeddings_, expected.item_embeddings_)


NAMES = {
    "the default names": (["user_id", "item_id", "c", "d"], {}),
    "the default names, elsewhere": (["c", "item_id", "d", "user_id"], {}),
    "numbers": (["x0", "x1", "x2", "x3"], {}),
    "names": (["i", "c", "u", "d"], {"user_feature": "u", "item_feature": "i"}),
    "a name and a default": (["item_id", "c", "d", "who"], {"user_feature": "who"}),
    "a name and a position": (
        ["i", "c", "d", "u"],
        {"user_feature": -1, "item_feature": "i"},
    ),
    "positions and default names": (
        ["user_id", "item_id", "i", "u"],
        {"user_feature": 3, "item_feature": 2},
    ),
}
LIBRARIES = {
    "pandas": lambda data: pd.DataFrame(data, index=[f"row {j}" for j in range(5)]),
    "polars": pl.DataFrame,
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", NAMES)
def test_columns_are_found_by_name(what, library):
    names, parameters = NAMES[what]
    users = {"user_id", "u", "who", "x0"} - ({"user_id"} if "u" in names else set())
    items = {"item_id", "i", "x1"} - ({"item_id"} if "i" in names else set())
    data = {}
    for j, name in enumerate(names):
        other = WIDE[:, 2 + j % 2]
        data[name] = (
            IDS[:, 0] if name in users else IDS[:, 1] if name in items else other
        )
    fitted = model(**parameters).fit(LIBRARIES[library](data), RATINGS)
    assert np.array_equal(
        fitted.item_embeddings_, model().fit(IDS, RATINGS).item_embeddings_
    )
    assert fitted.feature_names_in_.tolist() == names
    item = next(name for name in names if name in items)
    user = next(name for name in names if name in users)
    wanted = names_of(user, item)
    assert fitted.get_feature_names_out().tolist() == wanted
    assert fitted.get_feature_names_out(names).tolist() == wanted
    for kind in ("pandas", "polars"):
        out = fitted.set_output(transform=kind).transform(LIBRARIES[library](data))
        assert list(out.columns) == wanted
        np.testing.assert_array_equal(
            np.asarray(out[wanted[1:]]), expected_rows()[:, 1:]
        )


# -- tables that come out --------------------------------------------------------------


@pytest.mark.parametrize(
    "users", [in_words(IDS)[:, 0], IDS[:, 0].astype(np.int16), 2.0 * IDS[:, 0]]
)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_users_keep_their_ids_and_rows_their_index(library, kind, users):
    frame = library({"item_id": IDS[:, 1], "user_id": users})
    if library is pd.DataFrame:
        frame.index = pd.MultiIndex.from_product([["a"], [3, 1, 1, 0, 2]])
    fitted = model().set_output(transform=kind).fit(frame, RATINGS)
    out = fitted.transform(frame)
    assert list(out.columns) == fitted.get_feature_names_out().tolist()
    assert out["user_id"].to_list() == users.tolist()
    if kind == "pandas" and library is pd.DataFrame:
        assert out.index.equals(frame.index)
    numbers = np.asarray(out[out.columns[1:]], dtype=float)
    np.testing.assert_array_equal(numbers, expected_rows()[:, 1:])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("make", [lambda: IDS, IDS.tolist, lambda: IDS.astype(object)])
def test_arrays_become_tables_on_demand(kind, make):
    fitted = model().set_output(transform=kind).fit(make(), RATINGS)
    out = fitted.transform(make())
    assert list(out.columns) == names_of("x0", "x1")
    np.testing.assert_array_equal(np.asarray(out).astype(float), expected_rows())


def test_transform_takes_one_row_and_users_that_were_not_there():
    fitted = model().fit(IDS, RATINGS)
    assert fitted.transform([[77, 12]]).tolist()[0][0] == 77
    assert np.array_equal(
        fitted.transform([[77, 12]])[0, 1:], fitted.item_embeddings_[2]
    )


def test_a_column_vector_of_ratings_is_taken_with_a_warning():
    with pytest.warns(Warning, match="column-vector"):
        found = model().fit(IDS, np.array(RATINGS)[:, None])
    assert np.array_equal(
        found.item_embeddings_, model().fit(IDS, RATINGS).item_embeddings_
    )


def test_parameters_stay_as_they_were_given():
    given = {
        "items": pd.Series(CATALOG),
        "item_features": np.eye(3),
        "rating_range": [0, 5],
    }
    fitted = model(**given).fit(IDS, RATINGS)
    for name, value in given.items():
        assert getattr(fitted, name) is value
    again = clone(fitted).fit(IDS, RATINGS)
    assert np.array_equal(again.item_embeddings_, fitted.item_embeddings_)


@pytest.mark.parametrize(
    "low_high",
    [
        (-1, 1),
        (0, 1e-300),
        (-1.7e308, 1.7e308),
        (1e308, 1.7e308),
        (1.0, float(np.nextafter(1, 2))),
        np.array([0, 100]),
        (np.float32(0.5), np.int8(5)),
    ],
)
@without_privacy
def test_extreme_ranges_of_ratings(low_high):
    low, high = map(float, low_high)
    fitted = model(rating_range=low_high, epsilon=None).fit(
        IDS, [high, low, high, low, low]
    )
    assert np.isfinite(fitted.item_embeddings_).all()
    assert (fitted.item_embeddings_[:, 0] >= low).all()
    assert (fitted.item_embeddings_[:, 0] <= high).all()
