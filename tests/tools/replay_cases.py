"""Cases of replays: every estimator, setting, form of data, scorer, split and search.

Neighbors are the worst that a row or a user can be, and random ones. Where a value can
be no input at all, as NaN and texts, fits may refuse it once they are charged.
"""

import functools
import itertools
import tempfile
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
from compositions import FEW_STEPS
from federation_tools import in_session, keys_of
from replay import Case, encode, leaving
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdpspectral as sk
from skdpspectral.accounting._ledger.planned_fits import fitted_within
from skdpspectral.decomposition._federated_client import run_in_process
from skdpspectral.federation import GroupClient, GroupRounds, GroupTask
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.mechanisms import Assumption
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, PrivateSplit
from skdpspectral.neural_network import Adam, JMEAdam
from skdpspectral.pipeline import make_private_pipeline

TINY, HUGE = 5e-324, 1.7e308
SECRET = "SECRET-diagnosis"
N, P = 24, 4
IN_TURN = Adam(sampling="in-turn")
ONE_ROUND = PrivateRounds(n_rounds=1)
PUBLIC = np.random.default_rng(99).standard_normal((3, P))


class Table(NamedTuple):
    """Rows as lists, with what belongs to them."""

    rows: list
    y: list | None = None
    ids: list | None = None

    def swapped(self, at, row=None, y=None):
        """Return it with another row at a place."""
        rows, targets = list(self.rows), None if self.y is None else list(self.y)
        if row is not None:
            rows[at] = list(row)
        if y is not None and targets is not None:
            targets[at] = y
        return Table(rows, targets, self.ids)


# -- forms -----------------------------------------------------------------------------

NAMES = [f"x{j}" for j in range(40)]


def _named(rows):
    return NAMES[: len(rows[0])]


def _objects(rows):
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for place, row in enumerate(rows):
        table[place] = row
    return table


def _floats(rows):
    return np.array(rows, dtype=float)


def _narrow(rows):
    largest = float(np.finfo(np.float32).max)
    return np.clip(_floats(rows), -largest, largest).astype(np.float32)


def _whole(rows):
    largest = 2.0**59
    numbers = np.clip(np.nan_to_num(_floats(rows)), -largest, largest)
    return (numbers * 8).astype(np.int64)


def _mapped(rows):
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, _floats(rows))
        return np.load(file.name, mmap_mode="r")


def _parquet(rows):
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    columns = dict(zip(_named(rows), _floats(rows).T, strict=True))
    folder = tempfile.mkdtemp()
    pq.write_table(pa.table(columns), f"{folder}/x.parquet", row_group_size=7)
    return ds.dataset(f"{folder}/x.parquet")


def _dask(rows):
    import dask.array as da

    table = _floats(rows)
    return da.from_array(table, chunks=(-(-len(table) // 2), table.shape[1]))


def _dask_frame(rows):
    import dask.dataframe as dd

    return dd.from_pandas(pd.DataFrame(_floats(rows), columns=_named(rows)), 2)


FORMS = {
    "array": _floats,
    "fortran": lambda rows: np.asfortranarray(_floats(rows)),
    "float32": _narrow,
    "int64": _whole,
    "object": _objects,
    "list": lambda rows: [list(row) for row in rows],
    "tuple": lambda rows: tuple(tuple(row) for row in rows),
    "pandas": lambda rows: pd.DataFrame(_floats(rows), columns=_named(rows)),
    "pandas object": lambda rows: pd.DataFrame(_objects(rows), columns=_named(rows)),
    "polars": lambda rows: pl.DataFrame(_floats(rows), schema=_named(rows)),
    "csr": lambda rows: sparse.csr_array(_floats(rows)),
    "csc": lambda rows: sparse.csc_matrix(_floats(rows)),
    "memmap": _mapped,
    "parquet": _parquet,
    "dask": _dask,
    "dask frame": _dask_frame,
}
# Forms in which one value can be of another kind than the others.
MIXED = ("object", "list", "tuple", "pandas object")


def columns_like(form, values):
    """Return targets or ids in a form that goes with one of tables."""
    if values is None:
        return None
    if form == "list":
        return list(values)
    if form == "tuple":
        return tuple(values)
    if form in ("object", "pandas object"):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column if form == "object" else pd.Series(column)
    return np.array(values)


# -- what a row may be -----------------------------------------------------------------

HOSTILE = {
    "opposite": [-50.0, 0.0, 0.0, 0.0],
    "across": [0.0, 50.0, 0.0, 0.0],
    "zeros": [0.0] * P,
    "huge": [1e300, -1e300, 1e300, 1e300],
    "largest": [HUGE, HUGE, -HUGE, HUGE],
    "subnormal": [TINY, -TINY, TINY, 0.0],
    "tiny against huge": [1e-200, HUGE, 1e-300, -1.0],
    "past 2**53": [2.0**53 + 2, -(2.0**53), 1.0, 0.5],
    "negative zeros": [-0.0, -0.0, 0.0, -0.0],
    "ordinary": [0.3, -0.4, 1.2, 0.1],
    "all alike": [1.0] * P,
}
INVALID = {
    "missing": [[np.nan] * P, [0.0, np.nan, 1.0, 2.0]],
    "infinite": [[np.inf, 0.0, 0.0, 0.0], [0.0, 1.0, -np.inf, np.inf]],
}
TEXTS = {
    "text": [[SECRET, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, SECRET]],
    "other kinds": [[None] * P, [1.0, None, 0.0, 0.0]],
}
# Forms that keep all kinds of rows: what is made of a row, once it is read, is the same
# in any form, so that others have fewer of them.
THOROUGH = ("array", "float32", "int64")
# What readers may take for something else.
READ = ("opposite", "largest", "subnormal", "past 2**53", "all alike")
# What Python itself stumbles over when it converts or prints it: its own errors quote
# digits and positions.
HARD = {
    "huge integer": [10**400 + 7, -(10**5000)],
    "huge fraction": [Fraction(10**400 + 7), Fraction(-(10**5000) - 1, 7)],
    "decimal": [Decimal("1e9999"), Decimal("-7e99999")],
    "signal": [Decimal("sNaN7"), Decimal("-sNaN123")],
    "surrogate": [f"{SECRET}\ud800", "\udfff7"],
    "bytes": [SECRET.encode(), b"\xff7"],
    "complex": [7j, 3.0 + 1e300j],
    "time": [np.datetime64("2020-02-29"), np.timedelta64(7, "s")],
}
TEXTS |= {
    kind: [[first, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, second]]
    for kind, (first, second) in HARD.items()
}
KINDS = {
    "whole numbers": [3, -4, 0, 1],
    "beyond 64 bits": [2**70, 1, 1, 1],
    "flags": [True, False, True, True],
    "numbers as texts": [".5", "1", "2", "-3"],
}
TARGETS = {
    "opposite": -50.0,
    "across": 0.0,
    "huge": 1e300,
    "largest": -HUGE,
    "subnormal": TINY,
    "past 2**53": 2.0**53 + 2,
    "ordinary": 0.7,
}


def some_rows(rng, n=N, p=P):
    """Return rows of some kind: ordinary, off center, of many sizes, or few."""
    rows = rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-1, 1)
    kind = rng.integers(4)
    if kind == 1:
        rows += 10.0 ** rng.uniform(0, 4)
    elif kind == 2:
        rows *= 10.0 ** rng.uniform(-200, 200, (n, 1))
    elif kind == 3:
        rows[rng.random(n) < 0.6] = 0.0
    return rows.tolist()


def random_row(rng, p=P):
    """Return a row along an axis, or any way, of any size."""
    direction = rng.standard_normal(p) if rng.random() < 0.5 else np.eye(p)[0]
    size = rng.choice([0.0, 1e-300, 1e-3, 1.0, 1e3, 1e20, 1e300])
    return (direction * size * rng.choice([-1, 1])).tolist()


def row_neighbors(rng, table, form, labels=None, at=None):
    """Return tables with another row, which of them are invalid, and where they differ.

    `labels` are what a target may be; None for any number.
    """
    at = int(rng.integers(len(table.rows))) if at is None else at
    other = (at + 1) % len(table.rows)
    target = functools.partial(_target, rng, labels)
    thorough = form in THOROUGH
    kinds = HOSTILE if thorough else READ
    found = {k: table.swapped(at, HOSTILE[k], target(k)) for k in kinds}
    found["a duplicate"] = table.swapped(at, table.rows[other])
    if table.y is not None and labels is None:
        found["a huge row alone"] = table.swapped(at, HOSTILE["largest"])
        found["a huge target alone"] = table.swapped(at, y=HUGE)
        found["the opposite target"] = table.swapped(at, y=-table.y[at])
    for number in range(3 * thorough):
        row = random_row(rng)
        found[f"random {number}"] = table.swapped(at, row, target("random"))
    bad = {} if form in ("int64", "csr", "csc") else INVALID
    if form in MIXED:
        found |= {k: table.swapped(at, row) for k, row in KINDS.items()}
        bad = bad | TEXTS
    invalid = set(KINDS)
    for kind, rows in bad.items():
        for number, row in enumerate(rows):
            found[f"{kind}: {number}"] = table.swapped(at, row)
            invalid.add(f"{kind}: {number}")
        # The same value elsewhere, and in another row.
        found[f"{kind}: elsewhere"] = table.swapped(other, rows[0])
        invalid.add(f"{kind}: elsewhere")
    if table.y is not None and form not in ("int64",):
        if labels is None:
            for value, place in itertools.product((np.nan, np.inf), (at, other)):
                found[f"{value} target: {place}"] = table.swapped(place, y=value)
                invalid.add(f"{value} target: {place}")
        if form in MIXED:
            found["text target: 0"] = table.swapped(at, y=SECRET)
            found["text target: 1"] = table.swapped(other, y=SECRET)
            invalid |= {"text target: 0", "text target: 1"}
        if labels is not None:
            found["unseen label"] = table.swapped(at, y=77)
            found["other label"] = table.swapped(at, y=labels[0])
            invalid.add("unseen label")
    changed = {name: _places(table, other) for name, other in found.items()}
    return found, frozenset(invalid), changed


def _places(table, other):
    """Return where a neighbor has other objects than a table."""
    one, two = (zip(t.rows, t.y or t.rows, strict=True) for t in (table, other))
    pairs = enumerate(zip(one, two, strict=True))
    return {k for k, (a, b) in pairs if a[0] is not b[0] or a[1] is not b[1]}


def _target(rng, labels, kind):
    if labels is not None:
        return labels[int(rng.integers(len(labels)))]
    return TARGETS.get(kind, float(rng.choice([0.0, 1e-3, -5.0, 1e6, 1e300])))


# -- estimators of rows ----------------------------------------------------------------


def text_of(estimator):
    """Return a setting in one line."""
    return " ".join(str(estimator).split())


def applied(model, rows):
    """Return what a fitted model makes of public rows, and its own statements."""
    found = leaving(model)
    for method in ("transform", "predict", "predict_proba", "score_samples"):
        if hasattr(model, method) and not hasattr(model, "_personal"):
            found[method] = encode(getattr(model, method)(rows))
    if hasattr(model, "get_feature_names_out"):
        found["names"] = encode(model.get_feature_names_out())
    return found


def fit_rows(estimator, form, with_y, in_batches, table):
    """Fit a copy to a table, whole or in batches; return what it shows."""
    model = clone(estimator)
    X = FORMS[form](table.rows)
    given = () if not with_y else (columns_like(form, table.y),)
    if in_batches:
        for part in (slice(0, 7), slice(7, 8), slice(8, None)):
            model.partial_fit(X[part], *(column[part] for column in given))
    else:
        model.fit(X, *given)
    rows = FORMS[form](PUBLIC.tolist())
    return applied(model, rows)


def _assumption(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.privacy_plan(N, P).assumption


def row_cases(rng, estimator, form, n_tables=1, in_batches=False):
    """Yield cases of an estimator that protects rows."""
    supervised = isinstance(
        estimator,
        sk.DPAdamClassifier | sk.DPAdamRegressor | sk.DPRidge | sk.DPRidgeClassifier,
    )
    labels = [0, 1] if isinstance(estimator, ClassifierMixin) else None
    bounded = _assumption(estimator) is Assumption.NONE
    for number in range(n_tables):
        rows = some_rows(rng)
        # The first row of a stream is in all of its sums.
        at = int(rng.integers(N)) * (not isinstance(estimator, sk.JMECovariance))
        rows[at] = [50.0, 0.0, 0.0, 0.0]
        y = rng.integers(2, size=N).tolist() if labels else None
        if supervised and not labels:
            y = (3.0 * rng.standard_normal(N)).tolist()
        table = Table(rows, y)
        neighbors, invalid, changed = row_neighbors(rng, table, form, labels, at)
        # A little beyond the length that rows are clipped to.
        clip = getattr(estimator, "clip_norm", None) or 1.0
        for k, row in enumerate(1.03 * clip * np.array([-np.eye(P)[0], np.eye(P)[1]])):
            other = neighbors[f"beyond the clip {k}"] = table.swapped(at, row.tolist())
            changed[f"beyond the clip {k}"] = _places(table, other)
        act = functools.partial(fit_rows, estimator, form, supervised, in_batches)
        batches = ", in batches" if in_batches else ""
        yield Case(
            f"{text_of(estimator)} | {form}{batches} | {number}",
            act,
            table,
            neighbors,
            changed,
            invalid,
            (SECRET,),
            bounded,
            # One contribution is taken out, and another put in.
            twice=frozenset(neighbors) if _zeroed(estimator) else frozenset(),
        )


# -- tables with text, dates and holes -------------------------------------------------

# Columns of a table: frequent values, and what one row may have instead.
FREQUENT = {
    "number": [1.5, -2.0, None],
    "flag": [True, False, None],
    "word": ["a", "b", None],
    "accent": ["\u00e9", "e\u0301", "b"],
    "kinds": [1, "1", 2.5],
    "date": ["2020-02-29T12:00:00", "1999-01-01T00:00:00", None],
    "note": ["some words of it", "other words", None],
}
CELLS = {
    "number": [np.nan, np.inf, -HUGE, TINY, 0.0, 1e300],
    "flag": [True, None],
    "word": [SECRET, None, "a", "", "a" * 10**5, "\ud800", "rare", "missing", "b\0"],
    "accent": [SECRET, "e\u0301", "\u00e9"],
    "kinds": [
        True,
        1.0,
        -0.0,
        np.nan,
        [SECRET],
        np.str_("1"),
        {},
        *itertools.chain(*HARD.values()),
    ],
    "date": ["1677-09-22T00:00:00", "2262-01-01T00:00:00", None],
    "note": [SECRET, None, "\ud800 of it", "words " * 10**4],
}
TABLE_ROWS = 240


def _frame(rows):
    columns = dict(zip(FREQUENT, _objects(rows).T, strict=True))
    # pandas would make texts of pyarrow, which have no surrogates.
    frame = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
    times = pd.to_datetime(frame["date"]).astype("datetime64[us]")
    return frame.astype({"number": float, "flag": "boolean"}).assign(date=times)


def _polars_frame(rows):
    frame = _frame(rows).drop(columns="kinds")
    texts = ["word", "accent", "note"]
    for name in texts:
        plain = list(map(_without_surrogates, frame[name].tolist()))
        frame[name] = pd.Series(plain, dtype=object)
    return pl.DataFrame({name: pl.Series(_plain(frame[name])) for name in frame})


def _without_surrogates(text):
    return text.replace("\ud800", "?") if isinstance(text, str) else None


def _plain(column):
    if column.dtype == object:
        return column.tolist()
    return pl.from_pandas(column)


TABLE_FORMS = {"pandas": _frame, "polars": _polars_frame, "object": _objects}
TABLES = [
    sk.DPTableVectorizer(epsilon=4.0),
    sk.DPTableVectorizer(epsilon=4.0, categories={"word": ["a", "z"]}),
    sk.DPTableVectorizer(epsilon=4.0, max_categories=1),
]


def fit_table(estimator, form, rows):
    """Fit a copy to a table; return what it shows."""
    model = clone(estimator)
    if form == "object":
        model.set_params(categories=None)
    model.fit(TABLE_FORMS[form](rows))
    public = [[values[0] for values in FREQUENT.values()]]
    return applied(model, TABLE_FORMS[form](public))


def table_cases(rng, form):
    """Yield cases of tables, of which a row has other values in one or all columns."""
    for number, estimator in enumerate(TABLES):
        places = rng.integers(2, size=(TABLE_ROWS, len(FREQUENT)))
        values = list(FREQUENT.values())
        rows = [[values[j][k] for j, k in enumerate(row)] for row in places]
        at, neighbors = int(rng.integers(TABLE_ROWS)), {}
        for trial in range(60):
            row = list(rows[at])
            changed = rng.random(len(row)) < (0.3, 1.0)[trial % 2]
            for j in np.flatnonzero(changed):
                cells = list(CELLS.values())[j] + values[j]
                row[j] = cells[int(rng.integers(len(cells)))]
            neighbors[f"{trial}"] = [*rows[:at], row, *rows[at + 1 :]]
        others = [values[j][1 - k] for j, k in enumerate(places[at])]
        for name, row in {"missing": [None] * len(values), "all other": others}.items():
            neighbors[name] = [*rows[:at], row, *rows[at + 1 :]]
        yield Case(
            f"table {number} | {form}",
            functools.partial(fit_table, estimator, form),
            rows,
            neighbors,
            {name: {at} for name in neighbors},
            frozenset(),
            (SECRET,),
        )


def _zeroed(estimator):
    optimizer = getattr(estimator, "optimizer", None)
    return getattr(optimizer, "neighbors", None) == "zero-out-one"


OPTIMIZERS = [
    {},
    {"moments": "pp", "n_epochs": 2},
    {"sampling": "in-turn"},
    {"sampling": "in-turn", "n_epochs": 2, "neighbors": "zero-out-one"},
    {"moments": "pp-debiased", "neighbors": "zero-out-one"},
    {"batch_size": N},
]


def optimize(how, form, table):
    """Make all steps of an optimizer whose gradients are the rows."""
    how = {"batch_size": 6, "n_epochs": 1, "learning_rate": 1e-3, **how}
    steps = {name: how.pop(name) for name in Adam().get_params() if name in how}
    how["optimizer"] = Adam(**{"moments": "jme", **steps})
    adam, gradients, steps = JMEAdam(P, N, **how), FORMS[form](table.rows), []
    for batch in adam.batches():
        steps.append(adam.step(gradients[batch], batch))
    return {"steps": encode(np.array(steps)), "plan": encode(adam.privacy_)}


def optimizer_cases(rng, form):
    """Yield cases of the optimizer, to which no gradient is invalid."""
    for number, how in enumerate(OPTIMIZERS):
        rows, at = some_rows(rng), int(rng.integers(N))
        rows[at] = [50.0, 0.0, 0.0, 0.0]
        neighbors, _, changed = row_neighbors(rng, Table(rows), form, at=at)
        # Others are in another row than the first data differ in.
        neighbors = {k: v for k, v in neighbors.items() if "elsewhere" not in k}
        twice = frozenset(neighbors) if "zero" in str(how) else frozenset()
        act = functools.partial(optimize, how, form)
        name = f"JMEAdam({how}) | {form} | {number}"
        yield Case(name, act, Table(rows), neighbors, changed, twice=twice)


# -- clients ---------------------------------------------------------------------------


def fit_clients(estimator, form, table):
    """Fit rows of clients whose names are public."""
    model, column = clone(estimator), estimator.client_feature
    rows, how = table.rows, {"clients": columns_like(form, table.ids)}
    public = PUBLIC.tolist()
    if column is not None:
        front = column == 0
        rows, public = (
            [[i, *r] if front else [*r, i] for i, r in zip(ids, part, strict=False)]
            for ids, part in ((table.ids, rows), ([0, 1, 2], public))
        )
        how = {}
    model.fit(FORMS[form](rows), **how)
    return applied(model, FORMS[form](public))


def client_cases(rng, estimator, form, n_tables=1):
    """Yield cases of a federated estimator: a row of one client is replaced."""
    mechanism = getattr(estimator, "mechanism", "gaussian")
    assumption = getattr(type(mechanism), "assumption", Assumption.NONE)
    bounded = assumption is Assumption.NONE
    for number in range(n_tables):
        rows, at = some_rows(rng), int(rng.integers(N))
        rows[at] = [50.0, 0.0, 0.0, 0.0]
        table = Table(rows, None, [k % 3 for k in range(N)])
        neighbors, invalid, changed = row_neighbors(rng, table, form, at=at)
        act = functools.partial(fit_clients, estimator, form)
        name = f"{text_of(estimator)} | {form} | {number}"
        yield Case(name, act, table, neighbors, changed, invalid, (SECRET,), bounded)


# -- users -----------------------------------------------------------------------------


def user_rows(rng, n, size=1.0):
    """Return rows and targets of one user."""
    rows = (size * rng.standard_normal((n, P))).tolist()
    return rows, (size * rng.standard_normal(n)).tolist()


def _full(n, x, y):
    return [[x] * P for _ in range(n)], [y] * n


def _signed(n, x, y):
    signs = [[x if (k + j) % 3 else -x for j in range(P)] for k in range(n)]
    return signs, [y if k % 2 else -y for k in range(n)]


class Foreign:
    """An id that is no number and no text, and shows itself where it is printed."""

    def __repr__(self):
        return SECRET


FOREIGN = Foreign()


def hostile_users(rng):
    """Return what one user may have, by name."""
    return {
        "ordinary": user_rows(rng, 6),
        "one row": user_rows(rng, 1),
        "many rows": user_rows(rng, 60),
        "zeros": _full(3, 0.0, 0.0),
        "zero targets": _full(3, 2.0, 0.0),
        "a row many times": _full(30, 1.5, 2.5),
        "huge": _full(2, 1e300, -1e300),
        "largest": _signed(5, HUGE, HUGE),
        "subnormal": _full(3, TINY, TINY),
        "tiny against huge": _signed(3, 1e-200, HUGE),
        "huge against tiny": _signed(3, HUGE, 1e-200),
        "square root": _signed(4, 1.3e154, 1.3e154),
    }


def tables_of_users(rng, form, replaced):
    """Return a table of users, and its neighbors by one of them.

    In ``MIXED`` forms ids may be of other kinds; `replaced`: their number is public.
    """
    users = {k: user_rows(rng, n) for k, n in enumerate((3, 1, 5, 9, 2, 4), 1)}
    users[6] = _signed(9, 40.0, 30.0)
    strangers = hostile_users(rng)
    if form not in THOROUGH:
        strangers = {k: strangers[k] for k in ("ordinary", "largest", "subnormal")}
    found = {f"{k}, replaced": users | {6: v} for k, v in strangers.items()}
    found["ids changed"] = {50 if k == 6 else k: v for k, v in users.items()}
    # A user joins whose id another has: the other's rows are no longer what they were.
    rows, y = users[6]
    more, targets = strangers["ordinary"]
    found["id of another, replaced"] = users | {6: ([*rows, *more], [*y, *targets])}
    changed_kinds = {"text": "u6", "fraction": 6.5, "flag": True, "large": 2**53 + 1}
    changed_kinds |= {"surrogate": f"{SECRET}\ud800", "foreign": FOREIGN}
    changed_kinds |= {k: HARD[k][0] for k in ("huge integer", "huge fraction")}
    if not replaced:
        found |= {f"{k}, joins": users | {50: v} for k, v in strangers.items()}
        found["leaves"] = {k: v for k, v in users.items() if k != 6}
        found["largest, joins in front"] = {0: strangers["largest"]} | users
    if form in MIXED:
        for kind, name in changed_kinds.items():
            if name is not True:
                found[f"id is a {kind}"] = {
                    name if k == 6 else k: v for k, v in users.items()
                }
    invalid = {f"id is a {kind}" for kind in changed_kinds}
    for value, number in itertools.product((np.nan, np.inf), (0, 1)):
        rows, y = user_rows(rng, 4)
        rows[number + 1][number] = value
        found[f"{value} row: {number}"] = users | {6: (rows, y)}
        rows, y = user_rows(rng, 4)
        y[number] = value
        found[f"{value} target: {number}"] = users | {6: (rows, y)}
        invalid |= {f"{value} row: {number}", f"{value} target: {number}"}
        found[f"not finite: {number}"] = users | {6: (rows, y)}
        rows, y = user_rows(rng, 4)
        y[number] = value
        found[f"target: {number}"] = users | {6: (rows, y)}
        invalid |= {f"not finite: {number}", f"target: {number}"}
    if form in MIXED:
        for number, row in enumerate(
            ([SECRET, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, SECRET])
        ):
            rows, y = user_rows(rng, 4)
            rows[number] = row
            found[f"text: {number}"] = users | {6: (rows, y)}
        for kind, row in KINDS.items():
            rows, y = user_rows(rng, 4)
            rows[1] = row
            found[kind] = users | {6: (rows, y)}
        invalid |= {"text: 0", "text: 1", *KINDS}
    return users, found, frozenset(invalid)


def exchanged(found):
    """Return the neighbors in which one user leaves and another joins."""
    return frozenset(k for k in found if not k.endswith(_ONE_STEP))


# What ends the name of a neighbor with one user more, or less.
_ONE_STEP = ("joins", "leaves", "joins in front")


def in_rows(users):
    """Return a table of users' rows, one user after another."""
    ids = [k for k, (rows, _) in users.items() for _ in rows]
    rows = [row for rows, _ in users.values() for row in rows]
    y = [t for _, targets in users.values() for t in targets]
    return Table(rows, y, ids)


OTHERS = (2, 3, 5)


def fit_users(estimator, form, table):
    """Fit rows of users; show what others predict, and what one unknown does."""
    model, column = clone(estimator), estimator.user_feature
    public = [(k, row) for k in (*OTHERS, 999) for row in PUBLIC.tolist()]
    ids = [k for k, _ in public]
    if column is None:
        how = {"users": columns_like(form, table.ids)}
        model.fit(FORMS[form](table.rows), columns_like(form, table.y), **how)
        asked = np.array([row for _, row in public])
        predicted = model.predict(asked, users=np.array(ids))
    else:
        both = zip(table.ids, table.rows, strict=True)
        rows = [[i, *r] if column == 0 else [*r, i] for i, r in both]
        model.fit(FORMS[form](rows), columns_like(form, table.y))
        asked = [[i, *r] if column == 0 else [*r, i] for i, r in public]
        predicted = model.predict(FORMS[form](asked))
    return leaving(model) | {"predictions of others": encode(predicted)}


def user_cases(rng, estimator, form, n_tables=1):
    relation = getattr(estimator, "neighbors", None)
    relation = relation or getattr(estimator.solver, "neighbors", None)
    replaced = relation == "replace-one"
    for number in range(n_tables):
        users, found, invalid = tables_of_users(rng, form, replaced)
        if form in ("array", "fortran", "float32", "pandas", "polars"):
            found = {k: v for k, v in found.items() if not k.startswith("id is")}
        yield Case(
            f"{text_of(estimator)} | {form} | {number}",
            functools.partial(fit_users, estimator, form),
            in_rows(users),
            {k: in_rows(v) for k, v in found.items()},
            invalid=invalid,
            secrets=(SECRET,),
            twice=frozenset() if replaced else exchanged(found),
        )


# -- ratings ---------------------------------------------------------------------------

ITEMS = 5


def ratings(rng, n_users=6):
    """Return users' lists of (item, rating)."""
    return {
        k: [
            (int(i), float(rng.integers(1, 6))) for i in rng.integers(ITEMS + 2, size=4)
        ]
        for k in range(n_users)
    }


RATED = {
    "one rating": [(0, 5.0)],
    "all of the middle": [(j, 3.0) for j in range(5)],
    "all unknown": [(j, 5.0) for j in range(100, 130)],
    "mostly unknown": [(0, 4.0), *((j, 5.0) for j in range(100, 120))],
    "beyond every range": [(0, 1e300), (1, -1e300), (2, HUGE), (3, -HUGE)],
    "tiny": [(j, TINY * (j + 1)) for j in range(5)],
    "duplicates": [(j % 3, 1.0 + j % 5) for j in range(40)],
    "many ratings": [(j % 5, 5.0 - j % 2) for j in range(200)],
    "all alike": [(j, 5.0) for j in range(5)],
    "opposite": [(j, 1.0) for j in range(5)],
}


def in_ratings(users, rng=None):
    """Return a table (user, item) and ratings."""
    rows = [[u, i] for u, rated in users.items() for i, _ in rated]
    y = [v for rated in users.values() for _, v in rated]
    return Table(rows, y)


def fit_matrix(estimator, form, table):
    """Fit a matrix of users and items; show what others are recommended."""
    model = clone(estimator).fit(FORMS[form](table.rows))
    found = leaving(model)
    if hasattr(model, "recommend"):
        found["lists"] = encode(model.recommend([1, 2, 4], n=3))
    return found


def matrix_cases(rng, form):
    """Yield cases of ratings as a sparse matrix, of which each row is a user."""
    how = {"items": range(ITEMS), "user_feature": 0, "item_feature": 1}
    changed = {
        "all": [5.0] * ITEMS,
        "none": [0.0] * ITEMS,
        "huge": [1e300, -1e300, HUGE, -HUGE, 0.0],
        "tiny": [TINY] * ITEMS,
        "opposite": [1.0, 5.0, 1.0, 5.0, 1.0],
        "one": [0.0, 0.0, 3.0, 0.0, 0.0],
    }
    settings = {}, {"implicit": True}, {"implicit": True, "epsilon": 1e5}
    for cls, more in itertools.product(RATINGS, settings):
        if more and cls is sk.DPItemEmbedding:
            continue
        rows = rng.integers(6, size=(7, ITEMS)).astype(float).tolist()
        table = Table(rows)
        found = {f"{k}, replaces": table.swapped(6, row) for k, row in changed.items()}
        found |= {f"{k}, joins": Table([*rows, row]) for k, row in changed.items()}
        found["leaves"] = Table(rows[:-1])
        estimator = cls(1, rating_range=(1, 5), **how, **more)
        yield Case(
            f"{text_of(estimator)} | {form} of users and items",
            functools.partial(fit_matrix, estimator, form),
            table,
            found,
            twice=frozenset(k for k in found if k.endswith("replaces")),
        )


def fit_ratings(estimator, form, table):
    """Fit ratings; show what others are recommended, and are predicted."""
    model = clone(estimator).set_params(user_feature=0, item_feature=1)
    if form in ("pandas", "pandas object", "polars", "dask frame"):
        model.set_params(user_feature="x0", item_feature="x1")
    y = () if getattr(model, "implicit", False) else (columns_like(form, table.y),)
    model.fit(FORMS[form](table.rows), *y)
    found = leaving(model)
    asked = FORMS[form]([[u, i] for u in (1, 2, 4, 999) for i in range(4)])
    if hasattr(model, "recommend"):
        found["lists"] = encode(model.recommend([1, 2, 4], n=3))
        found["predictions of others"] = encode(model.predict(asked))
    else:
        found["transformed"] = encode(model.transform(asked))
    return found


def rating_cases(rng, estimator, form, n_tables=1):
    if estimator.items is None or (
        estimator.item_features is not None and len(estimator.item_features) != ITEMS
    ):
        estimator = clone(estimator).set_params(items=range(ITEMS))
        if estimator.item_features is not None:
            features = np.arange(2.0 * ITEMS).reshape(ITEMS, 2)
            estimator.set_params(item_features=features)
    for number in range(n_tables):
        users = ratings(rng)
        users[5] = [(j, 5.0 - 4.0 * (j % 2)) for j in range(5)]
        rated = RATED
        if form not in THOROUGH:
            rated = {k: RATED[k] for k in ("one rating", "beyond every range", "tiny")}
        found = {f"{k}, joins": users | {50: v} for k, v in rated.items()}
        found |= {f"{k}, replaces": users | {0: v} for k, v in rated.items()}
        found["leaves"] = {k: v for k, v in users.items() if k != 5}
        found["id of another, replaces"] = users | {0: users[0] + RATED["many ratings"]}
        invalid = set()
        if form in MIXED:
            found["text user joins"] = users | {"u": RATED["all alike"]}
            found["fraction joins"] = users | {7.5: RATED["all alike"]}
            found["large id joins"] = users | {2**53 + 1: RATED["all alike"]}
            found["text item"] = users | {50: [(SECRET, 5.0), (1, 2.0)]}
            found["text rating: 0"] = users | {50: [(1, SECRET), (2, 1.0)]}
            found["text rating: 1"] = users | {50: [(1, 1.0), (2, SECRET)]}
            found["surrogate joins"] = users | {f"{SECRET}\ud800": RATED["all alike"]}
            found["foreign joins"] = users | {FOREIGN: RATED["all alike"]}
            invalid |= {"text user joins", "fraction joins", "text item"}
            invalid |= {"surrogate joins", "foreign joins"}
            invalid |= {"text rating: 0", "text rating: 1", "large id joins"}
        for value, number in itertools.product((np.nan, np.inf), (0, 1)):
            name = f"{value} rating: {number}"
            found[name] = users | {50: [(1, 2.0), (number, value), (2, 1.0)]}
            invalid.add(name)
        yield Case(
            f"{text_of(estimator)} | {form} | {number}",
            functools.partial(fit_ratings, estimator, form),
            in_ratings(users),
            {k: in_ratings(v) for k, v in found.items()},
            invalid=frozenset(invalid),
            secrets=(SECRET,),
            twice=frozenset(k for k in found if k.endswith("replaces")),
        )


# -- scorers ---------------------------------------------------------------------------


class OfColumn(BaseEstimator):
    """A public model: what a row says in one column, whatever else is in it."""

    def __init__(self, column=-1):
        self.column = column

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        X = X.compute() if hasattr(X, "compute") else X
        if hasattr(X, "iloc"):
            X = X.iloc[:, self.column].tolist()
            return np.array([_number(v) for v in X])
        if isinstance(X, pl.DataFrame):
            X = X.to_numpy()
        return np.array([_number(row[self.column]) for row in X])


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def public_models():
    """Return models that were fitted to public data."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, P))
    labels = (X[:, 0] > 0).astype(int)
    return {
        "classes": LogisticRegression().fit(X, labels),
        "numbers": Ridge().fit(X, X[:, 0] + X[:, 1]),
        "components": _Components(np.eye(2, P)),
    }


class _Components(BaseEstimator):
    def __init__(self, components_):
        self.components_ = components_
        self.mean_ = np.zeros(components_.shape[1])
        self.n_features_in_ = components_.shape[1]

    def transform(self, X):
        return np.asarray(X) @ self.components_.T


ROW_SCORERS = {
    "accuracy": ({}, "classes"),
    "log_loss": ({"limit": 5.0}, "classes"),
    "squared_error": ({"limit": 4.0}, "numbers"),
    "absolute_error": ({"limit": 4.0}, "numbers"),
    "captured_variance": ({"clip_norm": 2.0}, "components"),
}
USER_SCORERS = {
    "accuracy": {},
    "squared_error": {"limit": 4.0},
    "absolute_error": {"limit": 4.0},
}


def score_rows(name, form, table):
    """Score a public model on private rows; in odd forms targets alone have them."""
    parameters, kind = ROW_SCORERS[name]
    scorer = make_private_scorer(name, 1.0, **parameters)
    y = None if table.y is None else columns_like(form, table.y)
    X = FORMS[form](table.rows)
    score = scorer(public_models_once()[kind], X, y)
    return {"score": encode(score), "std": encode(scorer.std_), "repr": repr(scorer)}


@functools.cache
def public_models_once():
    return public_models()


def scorer_cases(rng, form, n_tables=1):
    for name, number in itertools.product(ROW_SCORERS, range(n_tables)):
        kind = ROW_SCORERS[name][1]
        labels = [0, 1] if kind == "classes" else None
        rows = (2.0 * rng.standard_normal((N, P))).tolist()
        if kind == "components":
            y = None
        else:
            y = [int(r[0] > 0) if labels else r[0] + r[1] for r in rows]
        table, at = Table(rows, y), int(rng.integers(N))
        neighbors, invalid, changed = row_neighbors(rng, table, form, labels, at)
        if y is not None and form in MIXED:
            for kind, value in {
                "fraction": 0.5,
                "complex": 1j,
                "large": 2**53 + 1,
                "beyond 64 bits": 2**70,
                "none": None,
                "numeric text": "1",
            }.items():
                neighbors[f"a target is {kind}"] = table.swapped(at, y=value)
                invalid |= {f"a target is {kind}"}
        act = functools.partial(score_rows, name, form)
        label = f"{name} | {form} | {number}"
        yield Case(label, act, table, neighbors, changed, invalid, (SECRET,))
        if y is not None and labels and form in MIXED:
            # Whole numbers that floats cannot tell apart.
            large = [int(v) + 2**53 for v in y]
            table = Table(rows, large)
            neighbors = {"a fraction": table.swapped(at, y=0.5)}
            yield Case(f"{label}, large labels", act, table, neighbors)


def score_users(name, form, table):
    """Score a public model on private users."""
    column = "x0" if "pandas" in form or form == "polars" else 0
    scorer = make_private_scorer(name, 1.0, user_feature=column, **USER_SCORERS[name])
    rows = [[i, *r] for i, r in zip(table.ids, table.rows, strict=True)]
    score = scorer(OfColumn(), FORMS[form](rows), columns_like(form, table.y))
    return {"score": encode(score), "std": encode(scorer.std_), "repr": repr(scorer)}


def user_scorer_cases(rng, form):
    for name in USER_SCORERS:
        users, found, invalid = tables_of_users(rng, form, False)
        extremes = {k: (r, [v * 1e3 for v in y]) for k, (r, y) in users.items()}
        found["far off, joins"] = users | {50: extremes[3]}
        if form in MIXED:
            found["a text feature joins"] = users | {50: _with(users[3], 1, SECRET)}
            found["a fraction as text joins"] = users | {50: _with(users[3], 1, ".5")}
            invalid |= {"a text feature joins", "a fraction as text joins"}
        else:
            found = {k: v for k, v in found.items() if not k.startswith("id is")}
        yield Case(
            f"{name} of users | {form}",
            functools.partial(score_users, name, form),
            in_rows(users),
            {k: in_rows(v) for k, v in found.items()},
            invalid=frozenset(invalid),
            secrets=(SECRET,),
            twice=exchanged(found),
        )
        if form in MIXED:
            # Ids k beside float(k) are one user, whatever anybody else is called.
            mixed = {k if k % 2 else float(k): v for k, v in users.items()}
            table = in_rows(mixed)
            twice = Table(
                [*table.rows, *table.rows],
                [*table.y, *(-v for v in table.y)],
                [*table.ids, *(float(k) for k in table.ids)],
            )
            joined = in_rows({50: users[3]})
            other = Table(
                *(list(a) + list(b) for a, b in zip(twice, joined, strict=True))
            )
            yield Case(
                f"{name} of users | {form}, ids of two types",
                functools.partial(score_users, name, form),
                twice,
                {"another joins": other},
            )


def _with(user, column, value):
    rows, y = user
    rows = [list(row) for row in rows]
    rows[0][column] = value
    return rows, y


# -- splits ----------------------------------------------------------------------------


def deal(splitter, form, table):
    """Return on which side each row of others is, in each fold."""
    rows = [[i, *r] for i, r in zip(table.ids, table.rows, strict=True)]
    others = [k for k, i in enumerate(table.ids) if i in (1, 2, 3, 4, 5)]
    sides = []
    for _, test in splitter.split(FORMS[form](rows)):
        sides.append(np.isin(others, test))
    return {"sides of others": encode(np.array(sides))}


SPLITTERS = [
    PrivateSplit(3, user_feature=0, whole_users=False, random_state=0),
    PrivateSplit(1, user_feature=0, whole_users=False, random_state=1),
    PrivateSplit(2, user_feature=0, whole_users=False, random_state=2),
]


def split_cases(rng, form):
    """Yield cases of splits of users; those of rows go by their number alone."""
    for splitter in SPLITTERS:
        users, found, invalid = tables_of_users(rng, form, False)
        if form in MIXED:
            found["a text feature joins"] = users | {50: _with(users[3], 1, SECRET)}
            found["a fraction as text joins"] = users | {50: _with(users[3], 1, ".5")}
        else:
            found = {k: v for k, v in found.items() if not k.startswith("id is")}
        if "pandas" in form or form == "polars":
            splitter = PrivateSplit(
                splitter.n_splits,
                user_feature="x0",
                whole_users=False,
                random_state=splitter.random_state,
            )
        yield Case(
            f"PrivateSplit({splitter.n_splits}) | {form}",
            functools.partial(deal, splitter, form),
            in_rows(users),
            {k: in_rows(v) for k, v in found.items()},
            invalid=frozenset(invalid),
            secrets=(SECRET,),
            charges=False,
        )


# -- searches --------------------------------------------------------------------------


def search_rows(search, form, with_y, table):
    """Search over rows; show all that a search does."""
    model = clone(search)
    given = (columns_like(form, table.y),) if with_y else ()
    model.fit(FORMS[form](table.rows), *given)
    found = leaving(model)
    if hasattr(model, "best_estimator_"):
        best = model.best_estimator_
        found |= {f"best: {k}": v for k, v in leaving(best).items()}
        method = "predict" if hasattr(best, "predict") else "transform"
        found["applied"] = encode(getattr(model, method)(FORMS[form](PUBLIC.tolist())))
    return found


def row_searches():
    """Return searches that protect rows, by name; whether they have targets."""
    captured = make_private_scorer("captured_variance", clip_norm=5.0)
    in_turn = {"optimizer": IN_TURN, "n_epochs": 1, "batch_size": 8}
    # Three blocks of the few rows that there are, with power to choose.
    asked = {"epsilon": 40.0, "n_blocks": 3}
    return {
        "pca by votes": (
            PrivateSearchCV(
                sk.DPPCA(1), {"center": ["none", "pairs"]}, scoring=captured, **asked
            ),
            None,
        ),
        "scaler and pca by votes": (
            PrivateSearchCV(
                make_private_pipeline(
                    sk.DPStandardScaler(with_mean=False, unseen="keep"), sk.DPPCA(1)
                ),
                {"dppca__center": ["none", "pairs"]},
                scoring=captured,
                **asked,
            ),
            None,
        ),
        "classifier by votes": (
            PrivateSearchCV(
                sk.DPAdamClassifier(classes=[0, 1], **in_turn),
                {"optimizer__learning_rate": [0.01, 0.5]},
                scoring="accuracy",
                **asked,
            ),
            [0, 1],
        ),
    }


def search_cases(rng, form, names=None):
    searches = row_searches()
    for name, (search, labels) in searches.items():
        if name not in (names or searches) or (form != "array" and "unknown" in name):
            continue
        rows = (2.0 * rng.standard_normal((3 * N, P))).tolist()
        at = int(rng.integers(len(rows)))
        rows[at] = [50.0, 0.0, 0.0, 0.0]
        y = None
        if labels is not None:
            y = [int(r[0] > 0) if labels else r[0] for r in rows]
        table = Table(rows, y)
        neighbors, invalid, changed = row_neighbors(
            rng, table, form, labels or None, at
        )
        yield Case(
            f"PrivateSearchCV of {name} | {form}",
            functools.partial(search_rows, search, form, y is not None),
            table,
            neighbors,
            changed,
            invalid,
            (SECRET,),
        )


def search_users(kind, form, table):
    """Search over users; others' own models and lists must not move."""
    named = "pandas" in form or form == "polars"
    user, item = ("x0", "x1") if named else (0, 1)
    scorer = make_private_scorer("squared_error", limit=9.0, user_feature=user)
    few = {"epsilon": 40.0, "n_blocks": 3, "scoring": scorer}
    if kind.startswith("regressor"):
        model = sk.LRSRegressor(1, user_feature=user, solver=ONE_ROUND)
        space = {"sparsity": [0, 2]}
        search = PrivateSearchCV(model, space, **few)
        rows = [[i, *r] for i, r in zip(table.ids, table.rows, strict=True)]
        public = [[k, *r] for k in (*OTHERS, 999) for r in PUBLIC.tolist()]
    else:
        search = PrivateSearchCV(
            sk.DPMatrixFactorization(
                1,
                items=range(ITEMS),
                user_feature=user,
                item_feature=item,
                rating_range=(1, 5),
            ),
            {"n_components": [0, 1]},
            **few,
        )
        rows, public = table.rows, [[k, i] for k in (*OTHERS, 999) for i in range(4)]
    search.fit(FORMS[form](rows), columns_like(form, table.y))
    found = leaving(search)
    found |= {f"best: {k}": v for k, v in leaving(search.best_estimator_).items()}
    found["predictions of others"] = encode(search.predict(FORMS[form](public)))
    return found


USER_SEARCHES = ("regressor by votes", "factors by votes")


def user_search_cases(rng, form, kinds=USER_SEARCHES):
    for kind in kinds:
        if kind.startswith("regressor"):
            users, found, invalid = tables_of_users(rng, form, False)
            # One user who leaves and another who joins are two steps of those below.
            found = {k: v for k, v in found.items() if not k.endswith(", replaced")}
            to_table = in_rows
            if form in MIXED:
                found["a fraction as text joins"] = users | {
                    50: _with(users[3], 1, ".5")
                }
                found["a text id joins"] = users | {"zz": users[3]}
                invalid |= {"a fraction as text joins", "a text id joins"}
            else:
                found = {k: v for k, v in found.items() if not k.startswith("id is")}
        else:
            users = ratings(rng, 8)
            found = {f"{k}, joins": users | {50: v} for k, v in RATED.items()}
            found["leaves"] = {k: v for k, v in users.items() if k != 7}
            invalid = set()
            if form in MIXED:
                found["a text id joins"] = users | {"zz": users[3]}
                invalid |= {"a text id joins"}
            to_table = in_ratings
        yield Case(
            f"PrivateSearchCV of {kind} of users | {form}",
            functools.partial(search_users, kind, form),
            to_table(users),
            {k: to_table(v) for k, v in found.items()},
            invalid=frozenset(invalid),
            secrets=(SECRET,),
            twice=exchanged(found),
        )


# -- compositions ----------------------------------------------------------------------


def row_compositions():
    """Return compositions over rows, by name, and what their targets are."""
    in_turn = {"optimizer": IN_TURN, "n_epochs": 1, "batch_size": 8}
    classifier = sk.DPAdamClassifier(classes=[0, 1], **in_turn)
    scaler = sk.DPStandardScaler(unseen="keep")
    kinds = sk.DPTableVectorizer(categories={0: [0.0, 1.0]})
    return {
        "scaler, pca, classifier": (
            make_pipeline(scaler, sk.DPPCA(2), classifier),
            [0, 1],
        ),
        "scaler, pca, regressor": (
            make_pipeline(
                scaler,
                sk.DPPCA(2),
                sk.DPAdamRegressor(target_bounds=(-1, 1), **in_turn),
            ),
            (),
        ),
        "columns": (
            ColumnTransformer([("a", sk.DPPCA(1), [0, 1]), ("b", scaler, [1, 2, 3])]),
            None,
        ),
        "union": (
            FeatureUnion([("a", sk.DPPCA(1)), ("b", sk.DPPCA(2, center="pairs"))]),
            None,
        ),
        "stateless": (make_pipeline(FunctionTransformer(), sk.DPPCA(1)), None),
        "covariance": (make_pipeline(scaler, sk.JMECovariance(clip_norm=5.0)), None),
        "private pipeline": (make_private_pipeline(scaler, sk.DPPCA(2)), None),
        "private pipeline with units handed on": (
            make_private_pipeline(
                sk.DPTableVectorizer(categories={3: [0.0, 1.0]}),
                sk.DPRidge(),
                epsilon=200.0,
            ),
            (),
        ),
        "private pipeline of columns": (
            make_private_pipeline(
                ColumnTransformer(
                    [
                        ("numbers", scaler, [0, 1]),
                        (
                            "parts",
                            FeatureUnion([("a", sk.DPPCA(1)), ("b", sk.DPPCA(2))]),
                            [1, 2],
                        ),
                        ("kinds", kinds, [3]),
                    ],
                    sparse_threshold=0,
                    n_jobs=2,
                ),
                sk.DPAdamClassifier(classes=[0, 1], n_epochs=2, batch_size=8),
            ),
            [0, 1],
        ),
    }


def fit_composition(composition, form, with_y, table):
    """Fit a composition; show all of its private steps, and what it makes of rows."""
    model = clone(composition)
    given = (columns_like(form, table.y),) if with_y else ()
    model.fit(FORMS[form](table.rows), *given)
    found = {}
    for name, part in _parts(model):
        found |= {f"{name}: {k}": v for k, v in leaving(part).items()}
    methods = ("predict", "transform", "score_samples")
    method = next(one for one in methods if hasattr(model, one))
    public = FORMS[form](PUBLIC.tolist())
    return found | {
        "applied": encode(getattr(model, method)(public)),
        "repr": repr(model),
    }


def _parts(model):
    for number, part in enumerate(fitted_within(model)):
        if hasattr(part, "privacy_"):
            yield f"{number}: {type(part).__name__}", part


def composition_cases(rng, form):
    """Yield cases of pipelines and unions."""
    for name, (composition, labels) in row_compositions().items():
        rows, at = some_rows(rng), int(rng.integers(N))
        rows[at] = [50.0, 0.0, 0.0, 0.0]
        y = None
        if labels is not None:
            y = [int(r[0] > 0) if labels else r[0] for r in rows]
        table = Table(rows, y)
        neighbors, invalid, changed = row_neighbors(
            rng, table, form, labels or None, at
        )
        act = functools.partial(fit_composition, composition, form, y is not None)
        label = f"{name} | {form}"
        # Which step refuses a value goes by its column, which is public.
        more = {"secrets": (SECRET,), "one_text": False}
        yield Case(label, act, table, neighbors, changed, invalid, **more)


def validate(form, table):
    """Cross-validate by private scores on private splits."""
    scorer = make_private_scorer("captured_variance", 1.0, clip_norm=3.0)
    X = FORMS[form](table.rows)
    split = PrivateSplit(2, random_state=0)
    how = {"cv": split, "scoring": scorer, "error_score": "raise"}
    scores = cross_val_score(sk.DPPCA(1), X, **how)
    grid = GridSearchCV(sk.DPPCA(1), {"center": ["auto", "pairs"]}, **how).fit(X)
    return {
        "scores": encode(scores),
        "grid": encode(grid.cv_results_["mean_test_score"]),
        "best": encode(grid.best_params_),
        **{f"best: {k}": v for k, v in leaving(grid.best_estimator_).items()},
    }


def validation_cases(rng, form):
    """Yield cases of scikit-learn's own searches by private scores."""
    rows, at = some_rows(rng), int(rng.integers(N))
    table = Table(rows)
    neighbors, invalid, changed = row_neighbors(rng, table, form, None, at)
    act = functools.partial(validate, form)
    # Whether a fit or a score refuses a row goes by its place, which is public.
    name = f"validation | {form}"
    more = {"secrets": (SECRET,), "one_text": False}
    yield Case(name, act, table, neighbors, changed, invalid, **more)


# -- groups of users at several nodes --------------------------------------------------

NODES = ("north", "south", "west")
NOISES = {"server": {}, "distributed": {"n_shares": 3, "masked": NODES}, "node": {}}


def hold_groups(kind, noise, table):
    """Hold a session of groups; show the server's model and what it was told."""
    if kind == "regressor":
        model = sk.LRSRegressor(1, 1, solver=PrivateRounds(n_rounds=2), epsilon=2.0)
        args = (model, P)
    else:
        model = sk.DPMatrixFactorization(
            1, items=range(ITEMS), epsilon=2.0, rating_range=(1, 5)
        )
        args = (model,)
    task = GroupTask(*args, noise=noise, **NOISES[noise])
    clients = {}
    rows, y = _floats(table.rows), np.array(table.y)
    users = np.array(table.ids if kind == "regressor" else rows[:, 0], dtype=int)
    for place, name in enumerate(NODES):
        own = users % len(NODES) == place
        how = {"users": users[own]} if kind == "regressor" else {}
        how |= keys_of(task, name)
        clients[name] = GroupClient(name, task, rows[own], y[own], **how)
    rounds = in_session(GroupRounds(list(NODES), task))
    run_in_process(rounds, clients)
    shown = leaving(rounds.result())
    shown["rejected"] = repr(rounds.rejected)
    for name, client in clients.items():
        public = client.model.publish()
        shown[f"model of {name}"] = {k: encode(v) for k, v in vars(public).items()}
    return shown


def group_cases(rng):
    """Yield cases of groups of users, by who adds the noise."""
    for noise in NOISES:
        users, found, _ = tables_of_users(rng, "array", False)
        found = {k: v for k, v in found.items() if ":" not in k and "ids" not in k}
        yield Case(
            f"groups of LRSRegressor, noise of the {noise}",
            functools.partial(hold_groups, "regressor", noise),
            in_rows(users),
            {k: in_rows(v) for k, v in found.items()},
            twice=exchanged(found),
        )
        users = ratings(rng, 9)
        found = {f"{k}, joins": users | {50: v} for k, v in RATED.items()}
        found["leaves"] = {k: v for k, v in users.items() if k != 5}
        yield Case(
            f"groups of DPMatrixFactorization, noise of the {noise}",
            functools.partial(hold_groups, "factors", noise),
            in_ratings(users),
            {k: in_ratings(v) for k, v in found.items()},
        )


# -- everything ------------------------------------------------------------------------

EVERY_FORM = tuple(FORMS)
SOME_FORMS = ("array", "list", "object", "pandas")
ROWS = (
    sk.DPPCA,
    sk.SpikedPCA,
    sk.DPCovariance,
    sk.DPStandardScaler,
    sk.DPTableVectorizer,
    sk.JMECovariance,
    sk.DPAdamClassifier,
    sk.DPAdamRegressor,
    sk.DPRidge,
    sk.DPRidgeClassifier,
)
CLIENTS = (sk.FederatedDPPCA, sk.SparseDPPCA)
USERS = (sk.LRSRegressor, sk.LRSMLPRegressor)
RATINGS = (sk.DPItemEmbedding, sk.DPMatrixFactorization)
# One of each, cheap, for tables of every form.
PLAIN = {
    "rows": [
        # Lengths, steps to a center, votes.
        sk.DPPCA(1, epsilon=100.0),
        sk.DPPCA(1, epsilon=100.0, center="pairs"),
        sk.DPPCA(1, center="none"),
        sk.DPCovariance(),
        sk.DPCovariance(center="none"),
        # Components of ranks.
        sk.DPPCA(1, scale="ranks"),
        # Of these few rows, from windows of values.
        sk.DPStandardScaler(),
        sk.DPStandardScaler(missing="mean"),
        sk.JMECovariance(moments="assume-centered"),
        sk.DPAdamClassifier(classes=[0, 1], n_epochs=1),
        sk.DPAdamRegressor(target_bounds=(-1, 1), optimizer=IN_TURN, n_epochs=1),
        sk.DPRidge(bounds=(-3, 3), target_bounds=(-9, 9)),
        # Rows beyond the length that they are clipped to.
        sk.DPRidge(epsilon=200.0),
        sk.DPRidge(bounds=(-3, 3), target_bounds=(-9, 9), epsilon=50.0, intervals=True),
        sk.DPRidge(bounds=(-3, 3), target_bounds=(-9, 9), epsilon=50.0, basis="pairs"),
        sk.DPRidgeClassifier(classes=[0, 1, 2], bounds=(-3, 3), epsilon=50.0),
    ],
    "clients": [sk.FederatedDPPCA(1), sk.SparseDPPCA(client_feature=0)],
    "users": [
        sk.LRSRegressor(solver=ONE_ROUND),
        sk.LRSRegressor(solver=ONE_ROUND, user_feature=0),
        sk.LRSMLPRegressor(2, **FEW_STEPS, user_feature=-1),
    ],
    "ratings": [
        sk.DPItemEmbedding(1, items=range(ITEMS), rating_range=(1, 5)),
        sk.DPMatrixFactorization(1, items=range(ITEMS), rating_range=(1, 5)),
        sk.DPMatrixFactorization(1, items=range(ITEMS), implicit=True),
        # Pairs of clicks, however few users are released.
        sk.DPMatrixFactorization(1, items=range(ITEMS), implicit=True, epsilon=1e5),
    ],
}

# Others that read a table as these do, for tables of few forms.
OF_ARRAYS = {
    "rows": [
        sk.DPPCA(1, center="none"),
        sk.DPPCA(1, center="none", epsilon=100.0),
        # From phases of many rows.
        sk.DPStandardScaler(epsilon=300.0),
        sk.DPStandardScaler(with_mean=False, epsilon=4.0),
        sk.DPRidge(),
        # Of these few rows, medians and a mean about them; and a moment.
        sk.DPRidge(epsilon=16.0),
        sk.DPRidgeClassifier(classes=[0, 1], epsilon=200.0),
        sk.DPRidge(bounds=(-3, 3), target_bounds=(-9, 9), epsilon=50.0),
        sk.DPRidgeClassifier(classes=[0, 1]),
    ]
}


def settings(estimators, classes):
    """Return the private settings among estimators, as they can be replayed."""
    found = []
    for estimator in estimators:
        if not isinstance(estimator, classes) or estimator.epsilon is None:
            continue
        estimator = clone(estimator).set_params(accountant=None)
        if isinstance(estimator, sk.DPAdamClassifier | sk.DPRidgeClassifier):
            estimator.set_params(classes=[0, 1])
        if getattr(estimator, "n_jobs", None) is not None:
            estimator.set_params(n_jobs=None)  # the order of releases is that of a loop
        found.append(estimator)
    return found


KINDS_OF_CASES = {
    "rows": row_cases,
    "clients": client_cases,
    "users": user_cases,
    "ratings": rating_cases,
}
CLASSES = {"rows": ROWS, "clients": CLIENTS, "users": USERS, "ratings": RATINGS}


def cases_of_settings(kind, estimators, n_tables=1):
    """Yield cases of every private setting, of arrays."""
    for number, estimator in enumerate(settings(estimators, CLASSES[kind])):
        rng = np.random.default_rng(number)
        yield from KINDS_OF_CASES[kind](rng, estimator, "array", n_tables)


def cases_of_form(kind, form):
    """Yield cases of one table each of plain settings, in a form."""
    if kind == "ratings" and form in ("csr", "csc"):
        yield from matrix_cases(np.random.default_rng(0), form)
        return
    more = OF_ARRAYS.get(kind, []) if form in THOROUGH else []
    for number, estimator in enumerate(PLAIN[kind] + more):
        yield from KINDS_OF_CASES[kind](np.random.default_rng(number), estimator, form)


def cases_of_streams(estimators):
    for number, estimator in enumerate(settings(estimators, sk.JMECovariance)):
        if estimator.horizon is None:
            estimator.set_params(horizon=30)
        rng = np.random.default_rng(number)
        yield from row_cases(rng, estimator, "array", in_batches=True)


def other_cases(kind, form):
    """Yield cases of what is made of estimators, and of what judges them."""
    rng = np.random.default_rng(7)
    made = {
        "scorers": scorer_cases,
        "scorers of users": user_scorer_cases,
        "splits": split_cases,
        "searches": search_cases,
        "searches of users": user_search_cases,
        "compositions": composition_cases,
        "validation": validation_cases,
        "optimizers": optimizer_cases,
        "tables": table_cases,
    }
    yield from made[kind](rng, form)


def all_families(estimators):
    """Return everything, as (family, form, function that gives cases)."""
    found = []
    for kind in CLASSES:
        cases = functools.partial(cases_of_settings, kind, estimators)
        found.append((f"{kind}, settings", "array", cases))
        for form in EVERY_FORM:
            cases = functools.partial(cases_of_form, kind, form)
            found.append((f"{kind}, forms", form, cases))
    cases = functools.partial(cases_of_streams, estimators)
    found.append(("streams", "array", cases))
    forms = {
        "scorers": EVERY_FORM,
        "scorers of users": EVERY_FORM,
        "splits": EVERY_FORM,
        "searches": (*SOME_FORMS, "polars"),
        "searches of users": (*SOME_FORMS, "polars"),
        "compositions": (*SOME_FORMS, "polars", "memmap"),
        "validation": (*SOME_FORMS, "csr"),
        "optimizers": ("array", "fortran", "float32"),
        "tables": tuple(TABLE_FORMS),
    }
    for kind, some in forms.items():
        for form in some:
            found.append((kind, form, functools.partial(other_cases, kind, form)))
    group = functools.partial(group_cases, np.random.default_rng(8))
    found.append(("groups", "array", group))
    return found
