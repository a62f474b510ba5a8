"""Bad calls of DPItemEmbedding: mistakes, and what each error must name."""

import joblib
import numpy as np
import pandas as pd
import polars as pl
from bad_cases import bad, mark_values, refused_fits, state_of
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skdpspectral import DPItemEmbedding, PrivacyAccountant

NAN, INF = float("nan"), float("inf")
# Ids and a rating that no error may quote.
SECRETS = SECRET_USER, SECRET_ITEM, SECRET_RATING = 7321, "secret item", 4.0625
CATALOG = ["a", "b", "c", "d", SECRET_ITEM]
FEATURES = np.arange(10.0).reshape(5, 2)


class Scene:
    """A fitted estimator, a budget that is untouched, and ratings to misuse."""

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        self.X = pd.DataFrame(
            {
                "user_id": [SECRET_USER, *rng.integers(9, size=29)],
                "item_id": [SECRET_ITEM, *rng.choice(CATALOG, 29)],
                "hour": rng.integers(24, size=30),
            }
        )
        self.y = np.array([SECRET_RATING, *rng.integers(1, 6, size=29)])
        kept = {"method": "moment", "remainder": "passthrough"}
        self.model = DPItemEmbedding(
            2, items=CATALOG, **{"rating_range": (1, 5), **kept}
        ).fit(self.X, self.y)
        self.accountant = PrivacyAccountant(2.0)
        self._before = self._state()

    def fit(self, X=None, y=None, **parameters):
        """Refit with the budgeted accountant; check that the data stay as they are."""
        X = self.X if X is None else X
        if y is None and hasattr(X, "__len__") and not sparse.issparse(X):
            y = self.y[: len(X)]
        kept, before = self.model.get_params(deep=False), joblib.hash((X, y))
        self.model.set_params(**{"accountant": self.accountant, **parameters})
        try:
            return self.model.fit(X, y)
        finally:
            self.model.set_params(**kept)
            assert joblib.hash((X, y)) == before, "the data were changed"

    def transform(self, X):
        before = joblib.hash(X)
        try:
            return self.model.transform(X)
        finally:
            assert joblib.hash(X) == before, "X was changed"

    def array(self, **columns):
        """Ratings as an array of objects, some columns replaced."""
        return self.X.assign(**columns).to_numpy(dtype=object)

    def saved(self, old, new):
        path = self.folder / "damaged.npz"
        self.model.save(path)
        path.write_bytes(path.read_bytes().replace(old, new))
        return path

    def _state(self):
        fitted = {k: v for k, v in vars(self.model).items() if k.endswith("_")}
        parameters = {**self.model.get_params(deep=False), "noise_seed": None}
        return state_of(fitted, self.X, self.y), repr(parameters)

    def renew(self):
        self.accountant = PrivacyAccountant(2.0)

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) <= charges, "the budget was charged"
        assert self._state() == self._before, "the earlier fit was lost"


# -- parameters, each wrong by itself --------------------------------------------------

NOT_A_NUMBER = {"text": "1", "boolean": True, "array": np.ones(1), "complex": 1j}
NOT_A_COUNT = {"negative": -1, "float": 2.0, "NaN": NAN, **NOT_A_NUMBER}
NOT_A_COLUMN = {"None": None, "float": 1.0, "boolean": True, "list": ["user_id"]}
PARAMETERS = {
    "n_components": {**NOT_A_COUNT, "None": None, "share": 0.5},
    "user_feature": NOT_A_COLUMN,
    "item_feature": NOT_A_COLUMN,
    "items": {"word": "abc", "zero": 0, "negative": -3, "float": 3.0, "boolean": True}
    | {"bytes": b"abc"},
    "item_features": {"word": "abc", "number": 3.0}
    | {"sparse": sparse.csr_array(FEATURES)},
    "epsilon": {"zero": 0, "negative": -1.0, "NaN": NAN, "minus infinity": -INF}
    | NOT_A_NUMBER,
    "delta": {"zero": 0.0, "one": 1.0, "NaN": NAN, "below 1e-15": 1e-16, "None": None}
    | NOT_A_NUMBER,
    "rating_range": {"number": 5.0, "word": "15", "set": {1, 5}},
    "max_ratings_per_user": {**NOT_A_COUNT, "zero": 0},
    "accountant": {"word": "ledger", "number": 1.0, "class": PrivacyAccountant},
    "noise_seed": {"text": "seed", "negative": -1, "float": 1.5, "boolean": True},
}
CASES = [
    bad(f"{name}: {label}", lambda s, n=name, v=value: s.fit(**{n: v}), name)
    for name, values in PARAMETERS.items()
    for label, value in values.items()
]

# -- parameters whose values are wrong -------------------------------------------------

PAIR = ("rating_range", "(low, high)", "low < high")
RANGES = [(5, 1), (1, 1), (1,), (1, 3, 5), (), (NAN, 5), (1, INF), (-INF, 5), (1, None)]
RANGES += [("1", "5"), (False, True), (1j, 5), ([1], [5]), (1, 10**400), np.eye(2)]
CASES += [bad("range", lambda s, r=r: s.fit(rating_range=r), *PAIR) for r in RANGES]
CASES.append(
    bad("no range", lambda s: s.fit(rating_range=None), "rating_range is required")
)
# A quarter of them is no float, or one of few digits.
NARROW = [(0, 5e-324), (0, 8e-308), (1e-310, 1.00000000000005e-310)]
CASES += [
    bad("narrow", lambda s, r=r: s.fit(rating_range=r), "rating_range", "larger units")
    for r in NARROW
]

ID = "must be a string or a number"
CATALOGS = {
    "no item": ([], ValueError, "at least one"),
    "an item twice": (["a", "b", "a"], ValueError, "duplicate"),
    "a table of items": ([["a"], ["b"]], (TypeError, ValueError), "items"),
    "a matrix of items": (np.eye(2), ValueError, "1D array of ids"),
    "a set": ({"a", "b"}, TypeError, "ordered"),
    "a mapping": ({"a": 1}, TypeError, "ordered"),
    "a missing item": (["a", None], ValueError, "missing"),
    "an item that is NaN": ([1.0, NAN], ValueError, "missing"),
    "words and numbers": (["a", 1], ValueError, "ids of one kind"),
    "pairs": ([("a", 1), ("b", 2)], TypeError, ID),
    "bytes": ([b"a", b"b"], TypeError, ID),
    "numbers beyond numpy": ([10**30, 1], TypeError, ID),
    "numbers that are not whole": ([2**53 + 1, 0.5], ValueError, "not whole"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), TypeError, ID),
}
SAME_MESSAGE = {"pairs", "bytes", "dates", "an item that is NaN"}
SAME_MESSAGE |= {"a set", "a mapping"}
SAME_MESSAGE |= {"numbers beyond numpy", "a missing item"}
CASES += [
    bad(
        f"items: {says if what in SAME_MESSAGE else what}",
        lambda s, v=value: s.fit(items=v),
        "items",
        says,
        error=error,
    )
    for what, (value, error, says) in CATALOGS.items()
]
SHAPE = ("item_features", "n_items = 5", "numbers")
PUBLIC = {
    "too short": FEATURES[:4],
    "too long": np.ones((6, 2)),
    "a vector": FEATURES[:, 0],
    "ragged": [[1.0], [1.0, 2.0], [1], [1], [1]],
    "a mapping": {"a": [1.0]},
    "words": [["a"]] * 5,
    "numbers in words": np.full((5, 1), "1.5"),
    "complex": FEATURES + 1j,
    "dates": np.full((5, 1), "2020-01-01", dtype="M8[D]"),
}
CASES += [
    bad("public features", lambda s, v=v: s.fit(item_features=v), *SHAPE)
    for v in PUBLIC.values()
]
CASES += [
    bad(
        "public features that are not finite",
        lambda s, v=value: s.fit(item_features=np.where(FEATURES == 3, v, FEATURES)),
        "item_features",
        "finite",
        "fill in",
    )
    for value in (NAN, INF)
]
CASES += [
    bad(
        "public features without their items",
        lambda s: s.fit(items=None, item_features=FEATURES),
        "item_features",
        "items",
    ),
]

# -- columns of the ratings table ------------------------------------------------------

CASES += [
    bad("user name", lambda s: s.fit(user_feature="who"), "user_feature", "no column"),
    bad("item name", lambda s: s.fit(item_feature="what"), "item_feature", "no column"),
    bad("user position", lambda s: s.fit(user_feature=3), "user_feature", "3 columns"),
    bad("item position", lambda s: s.fit(item_feature=-4), "item_feature", "3 columns"),
    bad(
        "one column for both",
        lambda s: s.fit(user_feature=0, item_feature="user_id"),
        "user_feature",
        "item_feature",
        "two columns",
    ),
    bad(
        "one column for both",
        lambda s: s.fit(s.array(), user_feature=1),
        "user_feature",
        "item_feature",
        "two columns",
    ),
    bad(
        "half of the default names",
        lambda s: s.fit(s.X.rename(columns={"item_id": "movie"})),
        "item_feature='item_id'",
        "no column",
    ),
    bad(
        "name in an array",
        lambda s: s.fit(s.array(), user_feature="who"),
        "user_feature",
        "position",
        "dataframe",
    ),
    bad(
        "item name in an array",
        lambda s: s.fit(s.array(), item_feature="what"),
        "item_feature",
        "position",
        "dataframe",
    ),
    bad(
        "columns of one name",
        lambda s: s.fit(s.X.set_axis(["user_id", "item_id", "item_id"], axis=1)),
        "X",
        "rename",
    ),
    bad(
        "mixed names",
        lambda s: s.fit(s.X.rename(columns={"hour": 4})),
        "Feature names",
        error=TypeError,
    ),
]

# -- rows ------------------------------------------------------------------------------

NUMBERS = np.column_stack([np.arange(9), np.arange(9) % 4, np.ones(9)])


def with_value(value):
    rows = NUMBERS.copy()
    rows[3, 1] = value
    return rows


ROWS = {
    "NaN": (lambda s: with_value(NAN), "NaN"),
    "infinity": (lambda s: with_value(INF), "infinity"),
    "NaN in a table": (lambda s: s.X.assign(item_id=NAN), "NaN", "drop"),
    "no rows": (lambda s: NUMBERS[:0], "0 sample(s)"),
    "no rows in a table": (lambda s: s.X[:0], "0 sample(s)", "minimum of 1"),
    "no rows of objects": (lambda s: s.array()[:0], "0 sample(s)"),
    "1-D": (lambda s: NUMBERS[0], "Reshape your data"),
    "1-D objects": (lambda s: s.array()[0], "2D array"),
    "3-D": (lambda s: NUMBERS[None], "dim 3"),
    "3-D objects": (lambda s: s.array()[None], "dim 3"),
    "scalar": (lambda s: 3.0, "2D"),
    "complex": (lambda s: NUMBERS + 1j, "Complex"),
    "ragged": (lambda s: [[1.0, 2.0], [3.0]], "inhomogeneous"),
    "sparse complex": (lambda s: sparse.csr_array(NUMBERS + 1j), "sparse"),
    "dates": (lambda s: np.full((9, 3), "2020-01-01", dtype="M8[D]"), "dates"),
}
SAME = {"infinity": "not finite", "NaN in a table": "not finite by column"}
SAME |= {
    "1-D objects": "1-D",
    "3-D objects": "3-D",
    "no rows in a table": "no rows by column",
    "no rows of objects": "no rows",
}
for label, (make, *says) in ROWS.items():
    for call in (
        lambda s, m=make: s.fit(m(s)),
        lambda s, m=make: s.transform(m(s)),
    ):
        mistake = f"rows: {SAME.get(label, label)}"
        CASES.append(bad(mistake, call, "X", *says, error=(TypeError, ValueError)))
MATRIX = sparse.csr_array(NUMBERS)
CASES += [
    bad(
        "matrix in blocks",
        lambda s: s.fit(MATRIX.tobsr(), None),
        "X",
        "eliminate_zeros",
    ),
    bad(
        "users that floats merge",
        lambda s: s.fit(NUMBERS + 2.0**53),
        "user_feature",
        "not exact",
    ),
    bad(
        "ratings twice",
        lambda s: s.fit(MATRIX, s.y[:9], items=None),
        "y must be None if X is a sparse matrix",
    ),
    bad(
        "rows: no rows by column",
        lambda s: s.fit(0 * MATRIX[:0], None),
        "X",
        "0 sample(s)",
    ),
    bad(
        "rows: not finite by column",
        lambda s: s.fit(NAN * MATRIX, None, items=None),
        "X",
        "NaN",
    ),
    bad("matrix for a table", lambda s: s.transform(MATRIX), "X", "pass a table"),
]
IDS = {
    "user_feature": ("user_id", "missing"),
    "item_feature": ("item_id", "missing"),
}
for name, (column, says) in IDS.items():
    for value in (None, pd.NA, pd.NaT):
        CASES.append(
            bad(
                f"{name}: missing ids",
                lambda s, c=column, v=value: s.fit(s.array(**{c: [v] * 30})),
                name,
                says,
                "drop",
            )
        )
    CASES.append(
        bad(
            f"{name}: ids that cannot be compared",
            lambda s, c=column: s.fit(s.array(**{c: [[1]] * 30})),
            name,
            "string or a number",
            error=TypeError,
        )
    )
CASES += [
    bad(
        "items of another kind",
        lambda s: s.fit(s.array(item_id=range(30))),
        "item_feature contains numbers",
        "items contains strings",
        "convert",
    ),
    bad(
        "items of another kind",
        lambda s: s.transform(s.X.assign(item_id=1.0)),
        "item_feature contains numbers",
        "items contains strings",
        "convert",
    ),
    bad(
        "items that are pairs",
        lambda s: s.fit(s.array(item_id=[(1, 2)] * 30)),
        "item_feature contains ids of type tuple",
        "items",
    ),
    bad(
        "pairs in buckets",
        lambda s: s.fit(s.array(item_id=[(1, 2)] * 30), items=9),
        "item_feature",
        "buckets",
        "string or a number",
        error=TypeError,
    ),
    bad("rows: scalar", lambda s: s.transform(None), "X"),
    bad("one column", lambda s: s.fit(s.X[["user_id"]]), "X", "n_features = 1"),
    bad(
        "one column of numbers",
        lambda s: s.fit(NUMBERS[:, :1], items=9),
        "X",
        "column of users and one of items",
    )._replace(mistake="one column"),
    bad("other width", lambda s: s.transform(s.X.iloc[:, :2]), "hour", "missing"),
    bad(
        "other width of an array",
        lambda s: s.transform(s.array()[:, :2]),
        "X has 2 features",
        "3",
    ),
    bad(
        "other names",
        lambda s: s.transform(s.X.rename(columns={"hour": "day"})),
        "feature names",
        "day",
    ),
    bad(
        "other order",
        lambda s: s.transform(s.X[["item_id", "user_id", "hour"]]),
        "same order",
    ),
    bad(
        "other order in polars",
        lambda s: s.transform(pl.DataFrame({n: [1] for n in s.X.columns[::-1]})),
        "same order",
    )._replace(mistake="other order"),
    bad(
        "an output that has the name of a column",
        lambda s: (
            DPItemEmbedding(
                0,
                method="moment",
                items=["a"],
                item_features=pd.DataFrame({"hour": [1]}),
                remainder=["hour"],
                rating_range=(1, 5),
            )
            .set_output(transform="pandas")
            .fit(s.X, s.y)
            .transform(s.X)
        ),
        "transform",
        "rename",
    ),
]

# -- ratings ---------------------------------------------------------------------------


def ratings_with(s, value):
    y = s.y.astype(object)
    y[3] = value
    return y


RATINGS = {
    "NaN": (lambda s: ratings_with(s, NAN), "NaN"),
    "infinite": (lambda s: ratings_with(s, INF), "infinity"),
    "beyond float64": (lambda s: ratings_with(s, 10**400), "numbers"),
    "missing": (lambda s: ratings_with(s, None), "y"),
    "words": (lambda s: ["good"] * 30, "numbers"),
    "complex": (lambda s: s.y + 1j, "Complex"),
    "dates": (lambda s: np.full(30, "2020-01-01", dtype="M8[D]"), "numbers"),
    "short": (lambda s: s.y[:29], "inconsistent"),
    "a table": (lambda s: np.ones((30, 2)), "1d"),
    "scalar": (lambda s: 3.0, "1d"),
    "ragged": (
        lambda s: [[1.0]] * 29 + [[1.0, 2.0]],
        "one number or one label per row",
    ),
    "sparse": (lambda s: sparse.csr_array(s.y[None]), "dense"),
}
KINDS = {"NaN": "not finite", "infinite": "not finite", "missing": "not finite"}
KINDS |= dict.fromkeys(("beyond float64", "words", "dates"), "no numbers")
CASES += [
    bad(
        f"ratings: {KINDS.get(label, label)}",
        lambda s, m=make: s.fit(s.X, m(s)),
        "y",
        *says,
        error=(TypeError, ValueError),
    )
    for label, (make, *says) in RATINGS.items()
]
CASES += [
    bad("no ratings", lambda s: s.model.fit(s.X, None), "requires y", "None"),
    bad(
        "weights",
        lambda s: s.model.fit(s.X, s.y, sample_weight=s.y),
        "sample_weight",
        error=TypeError,
    ),
]

# -- accountants -----------------------------------------------------------------------

CASES += refused_fits("row", "zero-out-one")

# -- plans, names, files and unfitted estimators ---------------------------------------

SIZES = {"zero": 0, "boolean": True, "None": None, **NOT_A_COUNT}
CASES += [
    bad(
        f"n_items: {label}",
        lambda s, v=value: DPItemEmbedding(rating_range=(1, 5)).privacy_plan(v),
        "n_items",
        "positive integer",
    )
    for label, value in SIZES.items()
]
CASES += [
    bad(
        "names in",
        lambda s: s.model.get_feature_names_out(["a", "b", "c"]),
        "input_features",
    ),
    bad(
        "another number of names in",
        lambda s: (
            DPItemEmbedding(1, items=["a"], remainder=[2], rating_range=(1, 5))
            .fit(s.array(), s.y)
            .get_feature_names_out(["a"])
        ),
        "input_features",
        "3",
    ),
    bad("method", lambda s: s.fit(method="mean"), "method", "offsets"),
    bad("remainder: another word", lambda s: s.fit(remainder="keep"), "remainder"),
    bad("remainder: a number", lambda s: s.fit(remainder=2), "remainder"),
    bad(
        "remainder: a name that is none",
        lambda s: s.fit(remainder=["day"]),
        "remainder='day'",
        "no column",
    ),
    bad(
        "remainder: a position that is none",
        lambda s: s.fit(remainder=[3]),
        "remainder=3",
        "3 columns",
    ),
    bad(
        "remainder: a name without names",
        lambda s: s.fit(s.array(), remainder=["hour"], method="offsets"),
        "remainder",
        "position",
    ),
    bad(
        "remainder: no place",
        lambda s: s.fit(remainder=[1.5]),
        "remainder",
        "int",
        error=TypeError,
    ),
    bad("remainder: twice", lambda s: s.fit(remainder=[2, "hour"]), "remainder"),
    bad("remainder: users", lambda s: s.fit(remainder=[0]), "remainder", "users"),
    bad(
        "unknown parameter",
        lambda s: DPItemEmbedding(rating_range=(1, 5)).set_params(rank=1),
        "rank",
    ),
    bad(
        "damaged file",
        lambda s: DPItemEmbedding.load(s.saved(b"\0\0", b"\1\1")),
        "path",
        "npz",
    ),
    bad(
        "no such file",
        lambda s: DPItemEmbedding.load(s.folder / "missing.npz"),
        "missing.npz",
        error=FileNotFoundError,
    ),
]
CASES += [
    bad("not fitted", call, "not fitted", "fit", error=NotFittedError)
    for call in (
        lambda s: DPItemEmbedding(rating_range=(1, 5)).transform(s.X),
        lambda s: DPItemEmbedding(rating_range=(1, 5)).publish(),
        lambda s: DPItemEmbedding(rating_range=(1, 5)).save(s.folder / "unfitted.npz"),
        lambda s: DPItemEmbedding(rating_range=(1, 5)).get_feature_names_out(),
    )
]
IN_VALUES = {"rows: NaN", "rows: not finite", "rows: not finite by column"}
IN_VALUES |= {"items of another kind", "items that are pairs", "pairs in buckets"}
IN_VALUES |= {"ratings: not finite", "ratings: no numbers", "users that floats merge"}
IN_VALUES |= {f"{name}: missing ids" for name in IDS}
IN_VALUES |= {f"{name}: ids that cannot be compared" for name in IDS}
CASES = mark_values(CASES, IN_VALUES)
