"""Calls of LRSRegressor that must fail, and what each error must name."""

import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
from bad_calls_pca import (
    DATES,
    INF,
    NAN,
    NOT_A_COUNT,
    NOT_A_FLAG,
    NOT_A_NUMBER,
    PARAMETERS,
    RADII,
    ROWS,
    SAME,
)
from bad_calls_pca import Scene as ComponentScene
from bad_cases import bad, mark_values, state_of
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skdpspectral import LRSRegressor, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.linear_model import (
    Alternation,
    GivenDirections,
    PrivateRounds,
    UserIntercept,
    UserWeights,
    personalize,
)

USERS = np.repeat(np.arange(6), 10)
COLUMN_NAMES = ["user", *"abcd"]
GIVEN = object()  # stands for what a scene has


class LRSScene:
    """Fitted estimators of several sorts, and rows and users to misuse them on."""

    def __init__(self, X):
        self.X, self.users = X, USERS
        self.y = X @ np.arange(1.0, 5.0) + USERS
        self.accountant = PrivacyAccountant(2.0)
        self.table = pd.DataFrame(
            np.column_stack([self.users, X]), columns=COLUMN_NAMES
        )
        # Of ids 0 to 5, by the name of a column, and of one user.
        self.model = LRSRegressor(solver=PrivateRounds(n_rounds=1)).fit(
            X, self.y, users=self.users
        )
        self.column = LRSRegressor(
            solver=PrivateRounds(n_rounds=1), user_feature="user"
        )
        self.column.fit(self.table, self.y)
        # Of known users alone.
        self.known = LRSRegressor(
            epsilon=None, unknown_user="raise", solver=Alternation(tol=1e9)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.known.fit(X, self.y, users=self.users)
            self.alone = LRSRegressor(solver=PrivateRounds(n_rounds=1)).fit(X, self.y)
        self._before = self._state()

    def fit(self, X=GIVEN, y=GIVEN, users=GIVEN, **parameters):
        """Refit with the budgeted accountant; check that nothing is changed."""
        kept = self.model.get_params(deep=False)
        epsilon = parameters.get("epsilon", 1.0)
        if epsilon is None or epsilon is INF:
            parameters = {"solver": "auto", **parameters}
        self.model.set_params(**{"accountant": self.accountant, **parameters})
        try:
            return self._call(self.model.fit, X, y, users)
        finally:
            self.model.set_params(**kept)

    def fit_column(self, X, user_feature, y=GIVEN):
        return self.fit(X, y, None, user_feature=user_feature)

    def predict(self, X=GIVEN, users=GIVEN):
        return self._call(self.model.predict, X, None, users)

    def score(self, X=GIVEN, y=GIVEN, users=GIVEN, **arguments):
        return self._call(self.model.score, X, y, users, **arguments)

    def personalize(self, X=GIVEN, y=GIVEN, user=3):
        return self._call(self.model.personalize, X, y, None, user=user)

    def _call(self, method, X, y, users, **arguments):
        X = self.X if X is GIVEN else X
        rows = [X] if method.__name__ == "predict" else [X, self.y if y is GIVEN else y]
        if method.__name__ != "personalize":
            arguments["users"] = self.users if users is GIVEN else users
        before = joblib.hash([rows, arguments.get("users")])
        try:
            return method(*rows, **arguments)
        finally:
            after = joblib.hash([rows, arguments.get("users")])
            assert after == before, "an argument was changed"

    def _state(self):
        models = (self.model, self.column, self.alone, self.known)
        fitted = [
            {k: v for k, v in vars(m).items() if k.endswith("_") or k[0] == "_"}
            for m in models
        ]
        parameters = [{**m.get_params(), "accountant": None} for m in models]
        return state_of(fitted, self.X, self.y), repr(parameters)

    def renew(self):
        self.accountant = PrivacyAccountant(2.0)

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) <= charges, "the budget was charged"
        assert self._state() == self._before, "an earlier fit was lost"


class Scene(ComponentScene):
    """Fitted components and fitted regressions."""

    def __init__(self, folder):
        super().__init__(folder)
        self.lrs = LRSScene(self.X)

    def renew(self):
        super().renew()
        self.lrs.renew()

    def check_untouched(self, charges=0):
        super().check_untouched(charges)
        self.lrs.check_untouched(charges)


# -- parameters of the estimator, each wrong by itself ---------------------------------

NOT_A_WORD = {"unknown": "other", "None": None, "number": 2}
SIZES = {"negative": -1, "float": 2.0, "NaN": NAN, "None": None} | NOT_A_NUMBER
STEPS = {"zero": 0} | SIZES
PENALTIES = {"negative": -1.0, "NaN": NAN, "infinite": INF, "huge": 1e61, "None": None}
PENALTIES |= NOT_A_NUMBER
SHARES = {"zero": 0.0, "one": 1.0, "negative": -0.1, "NaN": NAN, "infinite": INF}
SHARED = ("epsilon", "delta", "accountant", "noise_seed")
LRS_PARAMETERS = {
    **{name: PARAMETERS[name] for name in SHARED},
    "n_components": SIZES,
    "sparsity": {label: value for label, value in SIZES.items() if label != "None"},
    "user_feature": {"float": 1.0, "boolean": True, "array": [0], "bytes": b"user"},
    "unknown_user": NOT_A_WORD,
    "fit_intercept": NOT_A_WORD | {"True": True, "one": 1, "strategy": UserWeights()},
    "shared_weights": NOT_A_WORD | {"class": UserWeights, "strategy": UserIntercept()},
    "ridge_sparse": PENALTIES,
    "neighbors": NOT_A_WORD,
    "solver": NOT_A_WORD
    | {"class": Alternation, "mapping": {}, "strategy": UserWeights()},
    "scale": {"text": "yes", "number": 2.0, "None": None},
    "n_jobs": {"zero": 0, "float": 1.5, "text": "2", "boolean": True, "array": [1]},
    "verbose": {"negative": -1, "float": 1.5, "text": "yes", "None": None},
}
CASES = [
    bad(f"{name}: {label}", lambda s, n=name, v=value: s.lrs.fit(**{n: v}), name)
    for name, values in LRS_PARAMETERS.items()
    for label, value in values.items()
]
ROUNDS = {
    "n_rounds": STEPS | {"huge": 10**9},
    "init": NOT_A_WORD | {"boolean": True, "moments": "moments"},
    "fresh_rows": NOT_A_FLAG,
    "curvature_clip_norm": RADII,
    "gradient_clip_norm": RADII,
    "median_share": SHARES | {"None": None} | NOT_A_NUMBER,
}
INTERCEPTS = {
    "prior": {"NaN": NAN, "infinite": INF, "huge": -1e61} | NOT_A_NUMBER,
    "ridge": PENALTIES,
    "offset_feature": {"float": 1.0, "boolean": True, "array": [0], "bytes": b"mean"},
}
ALTERNATIONS = {
    "init": NOT_A_WORD | {"boolean": True},
    "max_iter": STEPS,
    "tol": {"negative": -1.0, "NaN": NAN, "None": None} | NOT_A_NUMBER,
    "shrink_to_mean": NOT_A_FLAG,
    "update": NOT_A_WORD,
}
CASES += [
    bad(
        f"{name} of {parameter}: {label}",
        lambda s, n=parameter, c=strategy, p={name: value}: s.lrs.fit(**{n: c(**p)}),
        name,
    )
    for parameter, strategy, wrong in (
        ("solver", PrivateRounds, ROUNDS),
        ("fit_intercept", UserIntercept, INTERCEPTS),
        ("shared_weights", UserWeights, {"ridge": PENALTIES}),
    )
    for name, values in wrong.items()
    for label, value in values.items()
]
CASES += [
    bad(
        f"{name} of solver: {label}",
        lambda s, p={name: value}: s.lrs.fit(solver=Alternation(**p), epsilon=None),
        name,
    )
    for name, values in ALTERNATIONS.items()
    for label, value in values.items()
]

# -- parameters that do not go together, or with the features --------------------------

ARRAYS = {
    "of the wrong shape": [np.ones((2, 4)), np.ones((1, 5)), np.ones(4), [[]]],
    "not finite": [[[1.0, NAN, 1.0, 1.0]], np.full((1, 4), INF)],
    "of text": [[["a", "b", "c", "d"]]],
    "ragged": [[[1.0, 2.0], [3.0]]],
    "complex": [np.full((1, 4), 1j)],
}
SCALES = {
    "of the wrong length": [np.ones(5), np.ones((1, 4)), []],
    "zero": [[1.0, 0.0, 1.0, 1.0]],
    "negative": [-np.ones(4)],
    "not finite": [[1.0, NAN, 1.0, 1.0], np.full(4, INF)],
    "of text": [["a", "b", "c", "d"]],
    "ragged": [[1.0, [2.0, 3.0], 1.0, 1.0]],
    "complex": [np.full(4, 1j)],
}
CASES += [
    # One message says all that init may be.
    bad(
        name,
        lambda s, c=strategy, n=name, v=value: s.lrs.fit(solver=c(**{n: v})),
        name,
        "(n_components, n_features)",
    )
    for strategy, name in (
        (PrivateRounds, "init"),
        (GivenDirections, "components"),
    )
    for values in ARRAYS.values()
    for value in values
]
CASES += [
    bad("scale", lambda s, v=value: s.lrs.fit(scale=v), "scale", "positive", "4")
    for values in SCALES.values()
    for value in values
]
CASES += [
    bad(
        "unknown_user with a budget",
        lambda s: s.lrs.fit(unknown_user="raise"),
        "unknown_user",
        "epsilon=None",
        '"shared"',
    ),
    bad(
        "start from the data with a budget",
        lambda s: s.lrs.fit(solver=Alternation(init="moments")),
        "solver",
        "epsilon=None",
        "PrivateRounds",
    ),
    bad(
        "several central models",
        lambda s: s.lrs.fit(shared_weights="fixed", n_components=2),
        "shared_weights",
        "n_components=1",
        "n_components=2",
    ),
    bad(
        "no directions",
        lambda s: s.lrs.fit(shared_weights="fixed", n_components=0),
        "n_components=0",
    ),
    bad(
        "iterations with a budget",
        lambda s: s.lrs.fit(solver=Alternation()),
        "solver",
        "epsilon=None",
        "n_rounds",
    ),
    bad(
        "rounds without a budget",
        lambda s: s.lrs.fit(epsilon=None, solver=PrivateRounds(3)),
        "n_rounds=3",
        "budget",
        "max_iter",
    ),
    bad(
        "share for no medians",
        lambda s: s.lrs.fit(
            solver=PrivateRounds(
                curvature_clip_norm=1.0, gradient_clip_norm=1.0, median_share=0.3
            )
        ),
        "median_share=0.3",
        "medians",
    ),
    bad(
        "start of fixed weights",
        lambda s: s.lrs.fit(
            shared_weights="fixed", solver=PrivateRounds(init="random")
        ),
        "init",
        "shared_weights",
    ),
    bad(
        "part of a name",
        lambda s: s.lrs.model.set_params(fit_intercept__ridge=0.2),
        "fit_intercept__ridge",
        "fit_intercept='user'",
    ),
]

# -- accountants that refuse a fit -----------------------------------------------------

CASES += [
    bad(
        "dear",
        lambda s: s.lrs.fit(epsilon=3.0),
        "epsilon",
        "remains",
        error=PrivacyBudgetError,
    ),
    bad(
        "no limit",
        lambda s: s.lrs.fit(epsilon=None),
        "LRSRegressor",
        "number",
        error=PrivacyBudgetError,
    ),
    bad(
        "seed with a budget",
        lambda s: s.lrs.fit(noise_seed=0),
        "noise_seed",
        "allow_seeded=True",
        error=PrivacyBudgetError,
    ),
]

# -- rows ------------------------------------------------------------------------------

for label, (make, *says) in ROWS.items():
    mistake = f"rows: {SAME.get(label, label)}"
    CASES += [
        bad(mistake, lambda s, m=make, c=call: c(s, m(s)), "X", *says)
        for call in (
            lambda s, X: s.lrs.fit(X),
            lambda s, X: s.lrs.predict(X),
            lambda s, X: s.lrs.personalize(X),
        )
    ]
CASES += [
    bad("narrow rows", lambda s: s.lrs.predict(s.X[:, :3]), "X has 3 features", "4"),
    bad("narrow rows", lambda s: s.lrs.personalize(s.X[:, :3]), "X has 3 features"),
    bad(
        "weights",
        lambda s: s.lrs.model.fit(s.X, s.lrs.y, sample_weight=1),
        "sample_weight",
        error=TypeError,
    ),
    bad(
        "users by position",
        lambda s: s.lrs.model.fit(s.X, s.lrs.y, USERS),
        "positional",
        error=TypeError,
    ),
    bad(
        "unknown parameter",
        lambda s: s.lrs.model.set_params(ridge_shared=1),
        "ridge_shared",
        "ridge_sparse",
    ),
]

# -- targets ---------------------------------------------------------------------------

TARGETS = {
    "NaN": (lambda y: np.r_[y[1:], NAN], "NaN"),
    "infinite": (lambda y: np.r_[y[1:], INF], "infinity"),
    "words": (lambda y: np.full(60, "secret"), "numbers"),
    "words in objects": (lambda y: ["secret", *y[1:]], "numbers"),
    "dates": (lambda y: np.repeat(DATES[:1, 0], 60), "numbers"),
    "beyond float64": (lambda y: [10**400, *y[1:].tolist()], "numbers"),
    "complex": (lambda y: y + 1j, "Complex"),
    "table": (lambda y: np.stack([y, y], axis=1), "1d array", "separate model"),
    "cube": (lambda y: y[:, None, None], "1d array"),
    "scalar": (lambda y: 3.0, "1d array"),
    "short": (lambda y: y[:9], "X and y", "inconsistent"),
    "long": (lambda y: np.r_[y, y], "X and y", "inconsistent"),
    "sparse": (lambda y: sparse.csr_array(y[:, None]), "dense"),
    "ragged": (lambda y: [[1.0], [2.0, 3.0]] * 30, "one number or one label per row"),
}
SAME_TARGET = {"words in objects": "words", "dates": "words", "beyond float64": "words"}
SAME_TARGET |= {"long": "short", "infinite": "NaN"}
for label, (make, *says) in TARGETS.items():
    mistake = f"targets: {SAME_TARGET.get(label, label)}"
    CASES += [
        bad(mistake, lambda s, m=make, c=call: c(s.lrs, m(s.lrs.y)), "y", *says)
        for call in (
            lambda s, y: s.fit(y=y),
            lambda s, y: s.personalize(y=y),
            lambda s, y: s.score(y=y),
        )
    ]
NO_Y = (lambda s: s.lrs.fit(y=None), lambda s: s.lrs.personalize(y=None))
CASES += [bad("no targets", call, "requires y", "None") for call in NO_Y]
CASES += [
    bad(
        "weights of a score",
        lambda s, w=w: s.lrs.score(sample_weight=w),
        "sample_weight",
    )
    for w in (np.ones(9), np.ones((60, 2)))
]

# -- users beside the rows -------------------------------------------------------------


def one_missing(missing):
    return [*(f"secret {code}" for code in USERS[1:]), missing]


IDS = {
    "word": ("ann", "one id per row"),
    "number": (3, "one id per row"),
    "0-d": (np.array(3), "one id per row"),
    "iterator": (iter(USERS), "one id per row"),
    "short": (USERS[:9], "one id per row"),
    "long": (np.r_[USERS, 1], "one id per row"),
    "table": (USERS[:, None], "one id per row"),
    "frame": (pd.DataFrame({"user": USERS}), "one id per row"),
    "mapping": (dict.fromkeys(range(60)), "one id per row"),
    "None": (one_missing(None), "missing", "drop"),
    "NaN": (np.r_[USERS[1:], NAN], "missing", "drop"),
    "NA": (one_missing(pd.NA), "missing", "drop"),
    "NaT": (one_missing(pd.NaT), "missing", "drop"),
    "time": (np.r_[DATES[:1, 0].repeat(59), np.datetime64("NaT")], "missing", "drop"),
    "polars": (pl.Series(one_missing(None)), "missing", "drop"),
    "lists": ([["secret"]] * 60, "hashable"),
}
SAME_IDS = dict.fromkeys(("None", "NaN", "NA", "NaT", "time", "polars"), "missing")
SAME_IDS |= {"long": "short", "frame": "table"}
SAME_IDS |= dict.fromkeys(("number", "0-d", "iterator"), "word")
for label, (users, *says) in IDS.items():
    mistake = f"users: {SAME_IDS.get(label, label)}"
    error = TypeError if label == "lists" else ValueError
    CASES += [
        bad(
            mistake, lambda s, u=users, c=call: c(s.lrs, u), "users", *says, error=error
        )
        for call in (
            lambda s, users: s.fit(users=users),
            lambda s, users: s.predict(users=users),
            lambda s, users: s.score(users=users),
        )
    ]
ALIEN = {
    "words": USERS.astype(str),
    "bytes": np.full(60, b"secret"),
    "tuples": [("secret", 1)] * 60,
    "numbers and words": [1, "secret"] * 30,
}
CASES += [
    bad(
        f"ids of another type: {'words' if label[0] == 'n' else label}",
        lambda s, u=users: s.lrs.predict(users=u),
        "users",
        "in fit it contained numbers",
        "convert",
    )
    for label, users in ALIEN.items()
]
CASES += [
    bad(
        "no users",
        lambda s, c=call: c(s.lrs),
        "users",
        "user_feature",
        "cross_val_score",
    )
    for call in (lambda s: s.predict(users=None), lambda s: s.score(users=None))
]
CASES += [
    bad(
        "users unasked for",
        lambda s: s.lrs.alone.predict(s.X, users=USERS),
        "users",
        "not to fit",
    ),
    bad(
        "unknown users",
        lambda s: s.lrs.known.predict(s.X, users=USERS + 1),
        "users",
        "unknown_user",
        "personalize",
    ),
    bad(
        "unknown user",
        lambda s: s.lrs.known.get_coef(77),
        "user",
        "unknown_user",
        "personalize",
    ),
    bad(
        "unknown user", lambda s: s.lrs.known.get_intercept(77), "user", "unknown_user"
    ),
]

# -- users in a column of X ------------------------------------------------------------


def table(users, kind=pd.DataFrame):
    X = np.random.default_rng(0).normal(size=(60, 4))
    if kind is pl.DataFrame:
        frame = pl.DataFrame(X, schema=list("abcd"))
        return frame.insert_column(0, pl.Series("user", users))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.insert(0, "user", users)
    return frame


def large(kind, largest):
    return np.column_stack([USERS + 4 * largest, np.ones((60, 2))]).astype(kind)


COLUMNS = {
    "position": (lambda s: (s.X, 4), "user_feature=4", "4 columns"),
    "position from the end": (lambda s: (s.X, -5), "user_feature=-5", "4 columns"),
    "position in a table": (lambda s: (s.lrs.table, 5), "user_feature=5", "5 columns"),
    "name without names": (lambda s: (s.X, "user"), "user_feature", "position"),
    "unknown name": (
        lambda s: (s.lrs.table, "users"),
        "user_feature='users'",
        "no column",
    ),
    "name of two": (
        lambda s: (
            s.lrs.table.set_axis(["user", "a", "user", "c", "d"], axis=1),
            "user",
        ),
        "user_feature='user'",
        "several columns",
    ),
    "nothing else": (lambda s: (s.X[:, :1], 0), "X must have features", "user_feature"),
    "nothing else in a table": (
        lambda s: (s.lrs.table[["user"]], "user"),
        "X must have features",
        "user_feature",
    ),
    "float32": (
        lambda s: (large("f4", 2**24), 0),
        "user_feature",
        "users=...",
        "float32",
    ),
    "float64": (
        lambda s: (large("f8", 2**53), 0),
        "user_feature",
        "users=...",
        "float64",
    ),
    "missing": (
        lambda s: (table(one_missing(None)), "user"),
        "user_feature",
        "missing",
    ),
    "missing in polars": (
        lambda s: (table(one_missing(None), pl.DataFrame), "user"),
        "user_feature",
        "missing",
    ),
    "missing in objects": (
        lambda s: (table(one_missing(None)).to_numpy(object), 0),
        "user_feature",
        "missing",
    ),
    "NaN": (
        lambda s: (table(np.r_[USERS[1:], NAN]), "user"),
        "user_feature",
        "missing",
    ),
}
SAME_COLUMN = {"nothing else in a table": "nothing else", "NaN": "missing"}
SAME_COLUMN |= dict.fromkeys(("missing in polars", "missing in objects"), "missing")
CASES += [
    bad(
        f"column: {SAME_COLUMN.get(label, label)}",
        lambda s, m=make: s.lrs.fit_column(*m(s)),
        *says,
    )
    for label, (make, *says) in COLUMNS.items()
]
CASES += [
    bad(
        "ids twice",
        lambda s: s.lrs.fit(s.lrs.table, user_feature="user"),
        "users",
        "user_feature",
        "None",
    ),
    bad(
        "ids twice",
        lambda s: s.lrs.column.predict(s.lrs.table, users=USERS),
        "users",
        "user_feature",
    ),
    bad(
        "words in a column of numbers",
        lambda s: s.lrs.fit_column(table(np.arange(60)).assign(b="secret"), "user"),
        "X",
        "text",
    )._replace(mistake="rows: words"),
    bad(
        "rows: NaN",
        lambda s: s.lrs.fit_column(table(USERS).assign(b=NAN), "user"),
        "X",
        "NaN",
    ),
    bad(
        "rows: dates",
        lambda s: s.lrs.fit_column(table(USERS).assign(b=DATES[0, 0]), "user"),
        "X",
        "dates",
    ),
    bad(
        "other order",
        lambda s: s.lrs.column.predict(s.lrs.table[COLUMN_NAMES[::-1]]),
        "feature names",
        "same order",
    ),
    bad(
        "other names",
        lambda s: s.lrs.column.predict(s.lrs.table.rename(columns={"a": "z"})),
        "feature names",
        "z",
    ),
    bad(
        "narrow table",
        lambda s: s.lrs.column.predict(s.lrs.table[["user", "a"]]),
        "feature names",
        "missing",
    ),
]

# -- one user --------------------------------------------------------------------------

MISSING_USER = {
    "personalize": lambda s: s.lrs.personalize(user=None),
    "get_coef": lambda s: s.lrs.model.get_coef(),
    "get_intercept": lambda s: s.lrs.model.get_intercept(),
}
ONE_USER = {
    "personalize": lambda s, user: s.lrs.personalize(user=user),
    "get_coef": lambda s, user: s.lrs.model.get_coef(user),
    "get_intercept": lambda s, user: s.lrs.model.get_intercept(user),
}
CASES += [
    bad("no user", call, "user is missing", "pass the user's id")
    for call in MISSING_USER.values()
]
for method in ONE_USER.values():
    CASES += [
        bad("user: word", lambda s, m=method: m(s, "3"), "user", "strings", "convert"),
        bad("user: NaN", lambda s, m=method: m(s, NAN), "user", "missing"),
        bad(
            "user: list",
            lambda s, m=method: m(s, [3]),
            "user",
            "hashable",
            error=TypeError,
        ),
    ]
CASES += [
    bad(
        "user unasked for",
        lambda s: s.lrs.alone.personalize(s.X, s.lrs.y, user=3),
        "user",
        "fit was given no users",
    ),
    bad(
        "rows of two users",
        lambda s: s.lrs.column.personalize(s.lrs.table, s.lrs.y, user=0),
        "one user",
        "X",
    ),
    bad(
        "users unasked for",
        lambda s: s.lrs.alone.personalize(s.X, s.lrs.y, users=[3] * len(s.X)),
        "users",
        "not to fit",
    ),
    bad(
        "ids twice",
        lambda s: s.lrs.column.personalize(s.lrs.table, s.lrs.y, users=s.lrs.y),
        "given twice",
    ),
    bad(
        "ids of another type: words",
        lambda s: s.lrs.model.personalize(s.X, s.lrs.y, users=["a"] * len(s.X)),
        "users",
        "convert",
    ),
    bad(
        "file of nobody",
        lambda s: s.lrs.model.save(s.folder / "nobody.npz", user=987),
        "no model",
        "personalize",
    ),
    bad(
        "not to be personalized",
        lambda s: personalize(UserWeights(), s.X, s.lrs.y),
        "UserWeights",
        error=TypeError,
    ),
    bad(
        "rows of two users",
        lambda s: s.lrs.column.personalize(s.lrs.table[:10], s.lrs.y[:10], user=3),
        "one user",
        "user",
    ),
    bad(
        "user: word",
        lambda s: s.lrs.column.personalize(s.lrs.table[:10], s.lrs.y[:10], user="0"),
        "user",
        "strings",
        "numbers",
    ),
]

# -- plans, files and unfitted estimators ----------------------------------------------

CASES += [
    bad(
        f"n_features: {label}",
        lambda s, v=value: LRSRegressor().privacy_plan(v),
        "n_features",
        "positive integer",
    )
    for label, value in NOT_A_COUNT.items()
]
CASES += [
    bad("not fitted", call, "not fitted", "fit", error=NotFittedError)
    for call in (
        lambda s: LRSRegressor().predict(s.X),
        lambda s: LRSRegressor().score(s.X, s.lrs.y),
        lambda s: LRSRegressor().personalize(s.X, s.lrs.y),
        lambda s: LRSRegressor().get_coef(),
        lambda s: LRSRegressor().get_intercept(),
        lambda s: LRSRegressor().publish(),
        lambda s: LRSRegressor().save(s.folder / "unfitted.npz"),
    )
]


def saved_pca(s):
    path = s.folder / "pca.npz"
    s.pca.save(path)
    return path


CASES += [
    bad(
        "file of a PCA",
        lambda s: LRSRegressor.load(saved_pca(s)),
        "path",
        "DPPCA",
        "LRSRegressor",
    ),
    bad(
        "unreadable file",
        lambda s: LRSRegressor.load(s.file("z.npz", b"hello")),
        "path",
        "npz",
    ),
]
IN_VALUES = {f"rows: {label}" for label in ("NaN", "infinite", "words")}
IN_VALUES |= {"rows: beyond float64", "targets: NaN", "targets: words"}
IN_VALUES |= {"users: missing", "users: lists"}
IN_VALUES |= {f"column: {label}" for label in ("float32", "float64", "missing")}
CASES = mark_values(CASES, IN_VALUES)
