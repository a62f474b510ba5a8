"""Lists, tuples, objects and frames: the entry of one row converts no other's."""

import ast
import datetime
import functools
import inspect
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from sklearn.base import clone

import skdpspectral
import skdpspectral as sk
from skdpspectral._tables.columns import encode_ids, read_entries
from skdpspectral._tables.table import check_targets, deferred_targets, read_users
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSplit
from skdpspectral.recommendation._ratings import Ratings

ROOT = Path(skdpspectral.__file__).parent
BIG = 2**53
ZONE = datetime.timezone(datetime.timedelta(hours=2))
# What may stand in the place of one row's entry.
ODD = {
    "text": "zz",
    "text of a number": ".5",
    "text that ends in NUL": "a\0",
    "bytes": b"7",
    "fraction": 0.5,
    "whole float": 3.0,
    "large integer": BIG + 1,
    "integer beyond int64": 2**70,
    "integer beyond float64": 10**400,
    "bool": True,
    "None": None,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "complex": 1j,
    "Decimal": Decimal("1.5"),
    "date": datetime.date(2024, 1, 1),
    "time": datetime.datetime(2024, 1, 1),
    "instant": datetime.datetime(2024, 1, 1, tzinfo=ZONE),
    "duration": np.timedelta64(3, "ns"),
    "datetime64": np.datetime64("2024-01-01"),
    "float32": np.float32(0.1),
    "uint64": np.uint64(2**64 - 1),
    "text of numpy": np.str_("zz"),
    "array without dimensions": np.array(3),
    "masked": np.ma.masked,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "object": object(),
}


def objects(table):
    """Return an array of objects of what a list holds."""
    if isinstance(table[0], list):
        out = np.empty((len(table), len(table[0])), dtype=object)
        for i, row in enumerate(table):
            for j, entry in enumerate(row):
                out[i, j] = entry
        return out
    out = np.empty(len(table), dtype=object)
    for i, entry in enumerate(table):
        out[i] = entry
    return out


def frame(table):
    found = objects(table)
    if found.ndim == 1:
        return pd.Series(found, dtype=object)
    return pd.DataFrame(found, columns=[f"c{j}" for j in range(found.shape[1])])


def rows_of_arrays(table):
    if not isinstance(table[0], list):
        return list(table)
    return [objects(row) for row in table]


CONTAINERS = {
    "list": list,
    "tuple": lambda t: tuple(tuple(r) if isinstance(r, list) else r for r in t),
    "list of arrays": rows_of_arrays,
    "objects": objects,
    "frame": frame,
}
each_kind = pytest.mark.parametrize("odd", ODD.values(), ids=ODD)


def each(name, values):
    """Run a test for all values of an argument in one."""

    def decorate(test):
        signature = inspect.signature(test)
        left = [p for key, p in signature.parameters.items() if key != name]

        @functools.wraps(test)
        def over_all(**given):
            for value in values.values():
                test(**{name: value}, **given)

        over_all.__signature__ = signature.replace(parameters=left)
        return over_all

    return decorate


each_container = each("into", CONTAINERS)

rng = np.random.default_rng(0)
N_ROWS, ROW = 60, 17
OTHERS = np.arange(N_ROWS) != ROW


def replaced(table, row, column, entry):
    """Return a copy of a list in which one entry is another."""
    table = [list(r) if isinstance(r, list) else r for r in table]
    if column is None:
        table[row] = entry
    else:
        table[row][column] = entry
    return table


def unless_refused(function, *arguments):
    """Return what a function gives, or None where it refuses the values."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except (ValueError, TypeError, OverflowError):
            return None


def same(first, second):
    """Whether entries are equal, to the bit and in their kinds."""
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype != object and first.dtype == second.dtype:
        return np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
    return all(a == b for a, b in zip(first.tolist(), second.tolist(), strict=True))


# -- scores of rows ------------------------------------------------------------------


class Fixed:
    """A model whose predictions are given."""

    classes_ = np.array([0, 1, BIG + 1])

    def __init__(self, predicted):
        self.predicted = predicted

    def predict(self, X):
        return self.predicted

    def predict_proba(self, X):
        own = self.predicted[:, None] == self.classes_
        return 0.05 + 0.85 * own


LABELS = rng.choice([0, 1, BIG + 1, BIG + 3], N_ROWS).tolist()
SCORES = {
    "accuracy": {},
    "log_loss": {"limit": 5.0},
    "squared_error": {"limit": 4.0},
    "absolute_error": {"limit": 4.0},
}


@each_container
@each_kind
@each("score", {name: name for name in SCORES})
def test_a_target_changes_the_contribution_of_no_other_row(score, odd, into):
    kind = make_private_scorer(score, 1.0, **SCORES[score])._kind
    X = np.zeros((N_ROWS, 1))
    for predicted in (np.array(LABELS), np.array(LABELS, dtype=float)):
        model = Fixed(predicted)
        first = unless_refused(kind.contributions, model, X, into(LABELS))
        y = into(replaced(LABELS, ROW, None, odd))
        second = unless_refused(kind.contributions, model, X, y)
        if second is not None:
            np.testing.assert_array_equal(first[OTHERS], second[OTHERS])


@pytest.mark.parametrize("score", ["accuracy", "log_loss"])
@each_kind
def test_labels_of_any_kind_are_scored(score, odd):
    kind = make_private_scorer(score, 1.0, **SCORES[score])._kind
    y = replaced(LABELS, ROW, None, odd)
    if odd is np.ma.masked:
        with pytest.raises(ValueError, match="y has masked values"):
            kind.contributions(Fixed(np.array(LABELS)), None, y)
        return
    with np.errstate(divide="ignore"):
        found = kind.contributions(Fixed(np.array(LABELS)), None, y)
    assert len(found) == N_ROWS


@pytest.mark.parametrize("dtype", ["Int64", "category", "int64[pyarrow]", "polars"])
def test_a_missing_label_converts_no_other(dtype):
    if dtype == "polars":
        make = pytest.importorskip("polars").Series
    else:
        pytest.importorskip("pyarrow")

        def make(values):
            return pd.Series(values, dtype=dtype)

    kind = make_private_scorer("accuracy", 1.0)._kind
    labels = [BIG + place % 2 for place in range(N_ROWS)]
    model = Fixed(np.full(N_ROWS, BIG))
    first = kind.contributions(model, None, make(labels))
    second = kind.contributions(model, None, make(replaced(labels, ROW, None, None)))
    np.testing.assert_array_equal(first[OTHERS], second[OTHERS])


@each_container
@each_kind
def test_an_entry_changes_captured_variance_of_its_own_pair_alone(odd, into):
    kind = make_private_scorer("captured_variance", 1.0, clip_norm=1e17)._kind
    table = (BIG + rng.integers(0, 9, (N_ROWS, 2))).tolist()
    first = kind.contributions(np.eye(2)[:1], into(table), None)
    other = into(replaced(table, ROW, 1, odd))
    second = unless_refused(kind.contributions, np.eye(2)[:1], other, None)
    if second is not None:
        assert np.any(first != second, axis=1).sum() <= 1


# -- users: splits, scores, tables ---------------------------------------------------

USERS = rng.integers(0, 12, N_ROWS)
IDS = {
    "integers": lambda u: int(u),
    "integers beside floats": lambda u: int(u) if rng.random() < 0.5 else float(u),
    "large integers": lambda u: BIG + int(u),
    "texts": lambda u: f"user {u}",
}


def table_of(make):
    """Return rows of a user, a number and a whole number."""
    values = rng.normal(size=N_ROWS)
    rows = [
        [make(u), float(v), int(w)]
        for u, v, w in zip(USERS, values, rng.integers(0, 5, N_ROWS), strict=True)
    ]
    rows[0][1] = BIG + 1
    return rows


TABLES = {name: table_of(make) for name, make in IDS.items()}
each_table = each("table", TABLES)


def folds_of(X):
    cv = PrivateSplit(3, user_feature=0, whole_users=False, random_state=0)
    folds = np.empty(N_ROWS, dtype=int)
    for number, (_, test) in enumerate(cv.split(X)):
        folds[test] = number
    return folds


@each_container
@each_kind
@each_table
def test_no_entry_moves_rows_of_other_users(table, odd, into):
    first = folds_of(into(table))
    for column in (0, 1, 2):
        second = unless_refused(folds_of, into(replaced(table, ROW, column, odd)))
        if second is None:
            assert column == 0  # ids alone are refused
            continue
        kept = np.ones(N_ROWS, bool) if column else _other_users(table, odd)
        np.testing.assert_array_equal(first[kept], second[kept])


def _other_users(table, entry):
    codes, _ = encode_ids([*(row[0] for row in table), table[ROW][0]], "users")
    kept = codes[:-1] != codes[-1]
    # The user that the row is of then may be among them.
    mine = unless_refused(encode_ids, [*(row[0] for row in table), entry], "users")
    if mine is not None:
        kept &= mine[0][:-1] != mine[0][-1]
    return kept


@each_container
@each_kind
@each_table
def test_no_entry_changes_means_of_other_users(table, odd, into):
    y = rng.normal(size=N_ROWS)
    scorer = make_private_scorer("squared_error", 1.0, limit=4.0, user_feature=0)
    model = Fixed(np.zeros(N_ROWS))

    def means(X):
        return scorer.measure(model, X, y)

    first = means(into(table))
    for column in (1, 2):
        second = means(into(replaced(table, ROW, column, odd)))
        np.testing.assert_array_equal(first, second)
    second = unless_refused(means, into(replaced(table, ROW, 0, odd)))
    if second is not None:
        # The user who loses the row, one who may leave, and one who gets it.
        assert len(set(second.tolist()) - set(first.tolist())) <= 2
        assert abs(len(second) - len(first)) <= 1


@each_container
@each_kind
@pytest.mark.parametrize("name", ["integers", "large integers", "texts"])
def test_users_and_features_are_read_row_by_row(name, odd, into):
    table = TABLES[name]

    def read(X):
        found = read_users(sk.LRSRegressor(), X, None, 0, reset=True)
        return found.features(), encode_ids(found.users, "users")[0]

    features, codes = read(into(table))
    for column in (0, 1, 2):
        second = unless_refused(read, into(replaced(table, ROW, column, odd)))
        if second is None:
            continue
        np.testing.assert_array_equal(features[OTHERS], second[0][OTHERS])
        kept = OTHERS if column else _other_users(table, odd)
        pairs = {(a, b) for a, b in zip(codes[kept], second[1][kept], strict=True)}
        assert len(pairs) == len(set(codes[kept])) == len(set(second[1][kept]))


@each_container
@each_kind
def test_ratings_are_read_row_by_row(odd, into):
    table = [[BIG + row[0], f"item {row[2]}", row[1]] for row in TABLES["integers"]]
    model = sk.DPMatrixFactorization(
        user_feature=0, item_feature=1, rating_range=(1, 5)
    )

    def read(X):
        found = Ratings(model, X, np.ones(N_ROWS), reset=True).read()
        return found.users, found.items

    first = read(into(table))
    for column in (0, 1, 2):
        second = unless_refused(read, into(replaced(table, ROW, column, odd)))
        if second is not None:
            for before, after in zip(first, second, strict=True):
                assert same(before[OTHERS], after[OTHERS])


# -- fits, predictions, searches -----------------------------------------------------


def fitted_models():
    numbers = [[int(u), float(v), int(w)] for u, v, w in TABLES["integers"]]
    numbers[0][1] = 1.0
    X = np.array(numbers)
    y = rng.normal(size=N_ROWS)
    labels = np.arange(N_ROWS) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return numbers, {
            "LRSRegressor": sk.LRSRegressor(user_feature=0, noise_seed=0).fit(X, y),
            "DPMatrixFactorization": sk.DPMatrixFactorization(
                user_feature=0,
                item_feature=2,
                items=[0, 1, 2, 3, 4],
                noise_seed=0,
                rating_range=(1, 5),
            ).fit(X, np.clip(3 + y, 1, 5)),
            "DPPCA": sk.DPPCA(1, noise_seed=0).fit(X),
            "DPAdamClassifier": sk.DPAdamClassifier(classes=[0, 1], noise_seed=0).fit(
                X, labels
            ),
        }


@pytest.fixture(scope="module")
def models():
    return fitted_models()


@pytest.mark.filterwarnings("ignore")
@each_container
@each_kind
@pytest.mark.parametrize(
    "name", ["LRSRegressor", "DPMatrixFactorization", "DPPCA", "DPAdamClassifier"]
)
def test_no_entry_changes_predictions_for_other_rows(models, name, odd, into):
    table, fitted = models
    model = fitted[name]
    predict = model.predict if hasattr(model, "predict") else model.transform
    first = predict(into(table))
    for column in (0, 1, 2):
        X = into(replaced(table, ROW, column, odd))
        second = unless_refused(predict, X)
        if second is not None:
            np.testing.assert_array_equal(first[OTHERS], second[OTHERS])


@each_container
@each_kind
@pytest.mark.parametrize(
    "labels", [[0, 1], ["0", "1"], [BIG, BIG + 1]], ids=["numbers", "texts", "large"]
)
def test_labels_are_read_row_by_row(labels, odd, into):
    y = [labels[i % 2] for i in range(N_ROWS)]
    model = sk.DPRidgeClassifier(classes=labels)

    def read(values):
        return model._deferred_targets(values, N_ROWS).read()

    first = read(into(y))
    second = unless_refused(read, into(replaced(y, ROW, None, odd)))
    if second is not None:
        np.testing.assert_array_equal(first[OTHERS], second[OTHERS])


@each_container
@each_kind
def test_targets_are_read_row_by_row(odd, into):
    y = [BIG + 1, *rng.normal(size=N_ROWS - 2).tolist(), 3]
    first = check_targets(None, into(y), N_ROWS)
    second = unless_refused(
        check_targets, None, into(replaced(y, ROW, None, odd)), N_ROWS
    )
    if second is not None:
        np.testing.assert_array_equal(first[OTHERS], second[OTHERS])
    columns = [[value, BIG + 1] for value in y]
    first = deferred_targets(None, into(columns), N_ROWS, several=True).read()
    other = into(replaced(columns, ROW, 0, odd))
    second = unless_refused(
        lambda: deferred_targets(None, other, N_ROWS, several=True).read()
    )
    if second is not None:
        np.testing.assert_array_equal(first[OTHERS], second[OTHERS])


@pytest.mark.filterwarnings("ignore")
def test_a_list_is_what_an_array_of_objects_is():
    table = [[f"user {row[0]}", row[2], row[1]] for row in TABLES["integers"]]
    model = sk.DPItemEmbedding(
        user_feature=0,
        item_feature=1,
        items=[0, 1, 2, 3, 4],
        noise_seed=0,
        rating_range=(1, 5),
    )
    y = 3.0 + np.clip(rng.normal(size=N_ROWS), -1, 1)
    first = model.fit(objects(table), y).transform(objects(table))
    second = model.fit(table, y).transform(table)
    np.testing.assert_array_equal(first, second)
    # Of numbers that float64 holds, a list makes an array of numbers.
    table = [[int(row[0][5:]), *row[1:]] for row in table]
    assert model.fit(table, y).transform(table).dtype == np.float64


def test_entries_stay_what_they_are():
    found = read_entries([BIG + 1, 0.5, "a\0", None], "y")
    assert found.tolist() == [BIG + 1, 0.5, "a\0", None]
    assert list(map(type, found)) == [int, float, str, type(None)]
    found = read_entries([[(1, 2), 0.5], ["a", 3]], "X")
    assert found.tolist() == [[(1, 2), 0.5], ["a", 3]]
    array = np.arange(3)
    assert read_entries(array, "y") is array
    times = np.array(["2024-01-01"], dtype="M8[ns]")
    (row,) = read_entries([times], "X")
    assert row[0] == times[0]
    with pytest.raises(ValueError, match="could not be read"):
        read_entries([[1, 2], [3]], "X")


# -- names of columns ----------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        sk.DPPCA(1),
        sk.SparseDPPCA(1),
        sk.JMECovariance(),
        sk.DPStandardScaler(),
        sk.LRSRegressor(),
        sk.LRSRegressor(user_feature="u"),
        sk.FederatedDPPCA(client_feature="u"),
        sk.DPAdamClassifier(classes=[0, 1]),
        sk.DPMatrixFactorization(
            user_feature="u", item_feature="a", rating_range=(1, 5)
        ),
    ],
    ids=repr,
)
def test_columns_of_one_name_are_refused_for_free(model):
    frame = pd.DataFrame(np.ones((4, 3)), columns=["a", "a", "u"])
    with refused("X has several columns with the same name: rename") as accountant:
        clone(model).set_params(accountant=accountant).fit(frame, [0, 1, 0, 1])


# -- no other reader -----------------------------------------------------------------

ROOMS = ("_tables", "metrics", "model_selection", "recommendation", "neural_network")
ROOMS += ("linear_model", "decomposition", "preprocessing", "covariance")
CONVERTERS = {"asarray", "array", "asanyarray", "check_array", "column_or_1d", "Series"}
CONVERTERS |= {"check_X_y", "DataFrame", "fromiter"}
# What arguments are called that users pass, or that hold entries of them.
GIVEN = {"X", "y", "users", "items", "ids", "labels", "column", "values", "groups"}
GIVEN |= {"y_true", "y_score", "true_users", "true_items", "clients", "targets"}
GIVEN |= {"entries", "predicted", "ratings"}
ALLOWED = {
    # The reader, and that of parameters.
    "_tables/columns.py": {
        *("objects", "_entries", "as_numbers", "as_array", "_own_shape"),
    },
    "_tables/table.py": {"_mapped_rows"},
    "metrics/_scores.py": {"components_and_rows", "_log_losses"},
    # Lists were read before.
    "_tables/clipping.py": {"_rescale_rows"},
    "neural_network/_estimators.py": {"_row"},
    # An array or index of pandas, which keeps its kind.
    "decomposition/_federated_pca.py": {"group_rows"},
}


def conversions(path):
    """Yield functions in which an argument, or a part of one, becomes an array."""
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, (ast.FunctionDef, ast.Lambda)):
            continue
        given = {argument.arg for argument in function.args.args} & GIVEN
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            inside = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
            if name in CONVERTERS and inside & given:
                yield getattr(function, "name", "lambda")


def test_no_other_reader_turns_what_users_pass_into_arrays():
    found = {
        path.relative_to(ROOT).as_posix(): set(conversions(path))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if not path.name.startswith("_kernels")
    }
    found = {path: functions for path, functions in found.items() if functions}
    extra = {p: made - ALLOWED.get(p, set()) for p, made in found.items()}
    extra = {path: functions for path, functions in extra.items() if functions}
    assert not extra, f"read entries by _tables.columns: {extra}"
    idle = {p: made - found.get(p, set()) for p, made in ALLOWED.items()}
    assert not any(idle.values()), f"no longer needed: {idle}"
