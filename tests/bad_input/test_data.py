"""No estimator takes rows, targets, ids or sizes of a wrong form: named and free.

What is wrong with a form is found before a fit is charged; what is wrong with values
after it. Neither is quoted.
"""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from bad_cases import refused
from estimators import ENTRIES, IDS, ROWS, SECRET
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sliced_rows import BrokenTable, MaskedTable, SlicedTable

pytestmark = pytest.mark.filterwarnings("ignore")
NAN, INF = float("nan"), float("inf")
DAYS = np.full((60, 4), "2020-01-01", dtype="M8[D]")


def with_value(value, n=60):
    """Rows with a value in the middle."""
    X = np.resize(ROWS, (n, 4)).astype(object if isinstance(value, str) else float)
    X[n // 2, 1] = value
    return X


# Rows, and what the error says; of wrong form.
FORMS = {
    "no rows": (ROWS[:0], "0 sample(s)"),
    "1-D": (ROWS[0], "X|2D"),
    "scalar": (SECRET, "X"),
    "no table": (None, "X"),
    "3-D": (ROWS[None], "X"),
    "no features": (ROWS[:, :0], "X"),
    "complex": (ROWS + 1j, "X|omplex"),
    "text": (ROWS.astype(str), "X|text"),
    "bytes": (ROWS.astype("S"), "X|text"),
    "dates": (DAYS, "X|dates"),
    "durations": (DAYS - DAYS, "X|durations"),
    "dates in a frame": (pd.DataFrame(DAYS, columns=list("abcd")), "X|dates"),
    "dates in polars": (
        pl.DataFrame(ROWS, schema=list("abcd")).with_columns(
            pl.lit(DAYS[0, 0].item()).alias("b")
        ),
        "X|dates",
    ),
    "ragged": ([[SECRET, 2.0], [3.0]], "X|inhomogeneous"),
    "mapping": ({"a": [SECRET]}, "X"),
    "columns of one name": (pd.DataFrame(ROWS, columns=list("aabb")), "name"),
    "mixed names": (pd.DataFrame(ROWS, columns=["a", "b", "c", 4]), "names"),
    "table without rows": (SlicedTable(ROWS[:0]), "X"),
    "table without features": (SlicedTable(ROWS[:, :0]), "X"),
    "1-D table": (SlicedTable(ROWS[0]), "X"),
    "complex table": (SlicedTable(ROWS + 1j), "X"),
    "table of text": (SlicedTable(ROWS.astype(str)), "X"),
    "table of records": (SlicedTable(np.zeros((60, 4), "f8,i4")), "X"),
    "table of days": (SlicedTable(DAYS), "X"),
    "table of unknown length": (SlicedTable(ROWS, shape=(NAN, 4)), "X"),
    "sparse complex": (sparse.csr_array(ROWS + 1j), "X"),
}
# Rows of wrong values, which are read once a fit is charged.
WRONG = {
    "masked": (np.ma.masked_array(ROWS, mask=ROWS > 1.0), "X"),
    "table of objects": (SlicedTable(ROWS.astype(object)), "X"),
    "NaN": (with_value(NAN), "X|NaN"),
    "infinity": (with_value(INF), "X|infinity"),
    "word": (with_value(f"{SECRET} euros"), "X|text"),
    "beyond float64": ([[10**400, *row[1:]] for row in ROWS.tolist()], "X"),
    "NaN late in a table": (SlicedTable(with_value(NAN, 8190)[:4100]), "X"),
    "table that is shorter": (SlicedTable(ROWS, shape=(70, 4)), "X"),
    "table that is wider": (SlicedTable(np.c_[ROWS, ROWS], shape=(60, 4)), "X"),
    "table that turns complex": (SlicedTable(ROWS + 1j, dtype=np.dtype("f8")), "X"),
    "table that turns to objects": (
        SlicedTable(ROWS.astype(object), dtype=np.dtype("f8")),
        "X",
    ),
    "broken table": (BrokenTable(ROWS), "X"),
    "masked table": (MaskedTable(ROWS), "X"),
}
Y = np.arange(60.0) % 2
TARGETS = {
    "few": (Y[:9], "X and y"),
    "many": (np.r_[Y, Y], "X and y"),
    "scalar": (SECRET, "y"),
    "complex": (Y + 1j, "y|omplex"),
    "3-D": (np.full((60, 2, 2), SECRET), "y"),
    "sparse": (sparse.csr_array(Y[:, None]), "y"),
    "ragged": ([[SECRET], [2.0, 3.0]] * 30, "y"),
}
WRONG_TARGETS = {
    "NaN": (np.r_[np.full(59, SECRET), NAN], "y"),
    "infinity": (np.r_[np.full(59, SECRET), INF], "y"),
    "words": ([f"{SECRET} euros"] * 60, "y"),
    "numbers and words": ([*([SECRET] * 59), "euros"], "y"),
    "dates": (DAYS[:, 0], "y"),
    "beyond float64": ([int(SECRET) * 10**400] * 60, "y"),
}
SECRETS = np.full(60, f"{SECRET} euros", dtype=object)
OF_IDS = {
    "word": ("ann", "one id per row"),
    "number": (SECRET, "one id per row"),
    "iterator": (iter(IDS), "one id per row"),
    "few": (IDS[:9], "one id per row"),
    "many": (np.r_[IDS, 1], "one id per row"),
    "column": (IDS[:, None], "one id per row"),
    "nested lists": (IDS[:, None].tolist(), "one id per row"),
    "frame": (pd.DataFrame({"id": IDS}), "one id per row"),
    "mapping": (dict.fromkeys(range(60)), "one id per row"),
}
WRONG_IDS = {
    "None": ([*SECRETS[1:], None], "missing"),
    "NaN": (np.r_[np.full(59, SECRET), NAN], "ids"),
    "NA": ([*SECRETS[1:], pd.NA], "missing"),
    "NaT": (np.r_[DAYS[:59, 0], np.datetime64("NaT")], "integers or text"),
    "polars": (pl.Series([*SECRETS[1:], None]), "missing"),
    "beyond 2**53": (np.full(60, 2.0**53), "not exact"),
}

# Forms that mean something to these.
RATINGS = ("DPItemEmbedding", "DPMatrixFactorization")
MEANS = {"DPTableVectorizer": "text bytes dates durations frame polars NaN infinity"}
MEANS["DPTableVectorizer"] += " word beyond objects masked shorter wider"
MEANS |= dict.fromkeys(RATINGS, MEANS["DPTableVectorizer"] + " sparse table 1-D names")


def meant(name, label):
    """Whether rows are in order for an estimator, or have errors of their own."""
    return bool(set(MEANS.get(name, "").split()) & set(label.split()))


@pytest.mark.parametrize("name", ENTRIES)
def test_rows_of_a_wrong_form_are_free(name):
    entry, faults = ENTRIES[name], []
    for label, (X, says) in FORMS.items():
        if not meant(name, label):
            faults += refused(f"{name} {label}", says, entry, X=X)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ENTRIES)
def test_wrong_values_are_not_quoted(name):
    entry, faults = ENTRIES[name], []
    for label, (X, says) in WRONG.items():
        if not meant(name, label):
            faults += refused(f"{name} {label}", says, entry, X=X, charges=3)
    if entry.y is not None:
        for label, (y, says) in WRONG_TARGETS.items():
            faults += refused(f"{name} {label}", says, entry, y=y, charges=1)
    for given in entry.ids:
        for label, (ids, says) in WRONG_IDS.items():
            more = {"ids": {given: ids}, "charges": 1}
            faults += refused(f"{name} {label}", f"{given}|{says}", entry, **more)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ENTRIES)
def test_targets_and_ids_of_a_wrong_form_are_free(name):
    entry, faults = ENTRIES[name], []
    if entry.y is not None:
        for label, (y, says) in TARGETS.items():
            faults += refused(f"{name} {label}", says, entry, y=y)
    for given in entry.ids:
        for label, (ids, says) in OF_IDS.items():
            more = {"ids": {given: ids}}
            faults += refused(f"{name} {label}", f"{given}|{says}", entry, **more)
    assert not faults, "\n".join(faults)


SIZES = ("n_samples", "n_features", "n_items", "n_classes", "n_outputs", "n_targets")
COUNTS = [0, -1, 2.5, True, np.True_, "10", NAN, INF, [3], np.array([3])]


@pytest.mark.parametrize("name", ENTRIES)
def test_sizes_of_plans_are_positive_integers(name):
    model = ENTRIES[name].make()
    sizes = [n for n in inspect.signature(model.privacy_plan).parameters if n in SIZES]
    assert sizes
    for size in sizes:
        for count in COUNTS[name == "DPTableVectorizer" and size == "n_features" :]:
            with pytest.raises((ValueError, TypeError), match=size):
                model.privacy_plan(**{**dict.fromkeys(sizes, 9), size: count})


# Of tables, and of nothing.
OF_X = ("transform", "predict", "predict_proba", "decision_function", "score_samples")
OF_X += (
    "inverse_transform",
    "mahalanobis",
    "score",
    "personalize",
    "recommend",
    "path",
    "effects",
)
OF_NOTHING = (
    "publish",
    "get_feature_names_out",
    "get_coef",
    "get_intercept",
    "conf_int",
)
OF_NOTHING += ("get_network", "get_covariance", "get_precision")


@pytest.mark.parametrize("name", ENTRIES)
def test_nothing_is_given_before_a_fit(name, tmp_path):
    entry = ENTRIES[name]
    model = entry.make()
    with pytest.raises(NotFittedError, match="fit"):
        model.save(tmp_path / "never.npz")
    for method in (m for m in (*OF_X, *OF_NOTHING) if hasattr(model, m)):
        data = (entry.X,) if method in OF_X else ()
        data += (entry.y,) if method in ("score", "personalize") else ()
        with pytest.raises(NotFittedError):
            getattr(model, method)(*(d for d in data if d is not None))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ENTRIES)
def test_fits_take_no_weights(name):
    entry = ENTRIES[name]
    data = (entry.X,) if entry.y is None else (entry.X, entry.y)
    with pytest.raises(TypeError, match="sample_weight"):
        entry.make().fit(*data, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="no_such_parameter"):
        entry.make().set_params(no_such_parameter=1)
    if entry.y is not None:
        with pytest.raises(ValueError, match="requires y"):
            entry.make().fit(entry.X, None)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_fitted_estimator_wants_the_columns_of_its_fit(name, tmp_path):
    entry = ENTRIES[name]
    frame = pd.DataFrame(entry.X).rename(columns="c{}".format)
    if name in ("DPItemEmbedding", "DPMatrixFactorization"):
        frame.columns = ["user_id", "item_id"]
    given = {} if entry.y is None else {"y": entry.y}
    model = entry.make(epsilon=50.0).fit(frame, **given, **entry.ids)
    uses = ("transform", "predict", "mahalanobis")
    use = getattr(model, next(name for name in uses if hasattr(model, name)))
    ids = {k: v for k, v in entry.ids.items() if k == "users"}
    orders = [] if name in RATINGS else [frame[frame.columns[::-1]]]
    for wrong in (frame.iloc[:, :-1], frame + 1j, *orders):
        with pytest.raises((ValueError, TypeError)):
            use(wrong, **ids)
    with pytest.raises(ValueError, match="path"):
        type(model).load(__file__)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.npz")


@pytest.mark.parametrize("name", ENTRIES)
def test_seeds_warnings_and_other_units_are_refused_for_nothing(name):
    entry = ENTRIES[name]
    faults = refused("seed", "noise_seed", entry, noise_seed=0)
    faults += refused("dear", "epsilon|exceed", entry, epsilon=99.0)
    for epsilon in (None, INF):
        faults += refused("no limit", "epsilon", entry, epsilon=epsilon)
    assert not faults, faults


def test_values_that_nobody_looked_for_make_no_release_infinite():
    entry = ENTRIES["DPStandardScaler"]
    for value in (NAN, INF, -INF):
        for given in ({}, {"with_mean": False}, {"bounds": (-1e3, 1e3)}):
            with sklearn.config_context(assume_finite=True):
                model = entry.make(epsilon=20.0, **given).fit(with_value(value))
            assert np.isfinite(model.scale_).all()
