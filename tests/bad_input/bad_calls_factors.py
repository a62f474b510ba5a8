"""Bad calls of DPMatrixFactorization: those of ratings tables, and its own."""

import bad_calls_items as of_items
import numpy as np
from bad_calls_items import INF, MATRIX, NAN, SECRET_USER
from bad_cases import bad
from sklearn.exceptions import NotFittedError

from skdpspectral import DPMatrixFactorization

# Mistakes with a parameter or method that only embeddings have.
OTHER = ("max_ratings_per_user", "names in", "another number of names", "an output")
OTHER += ("method", "remainder")
# Calls of the other class by its name; their like are below.
NAMED = ("n_items", "unknown parameter", "damaged", "no such file", "not fitted")


class Scene(of_items.Scene):
    """The same ratings, with a recommender that was fitted to them."""

    def __init__(self, folder):
        super().__init__(folder)
        self.model = DPMatrixFactorization(
            2, items=of_items.CATALOG, rating_range=(1, 5)
        )
        self.model.fit(self.X, self.y)
        self._before = self._state()

    def transform(self, X):
        """Predict, which reads tables as a transformation does."""
        if isinstance(X, np.ndarray) and X.dtype == float and X.shape[1:] == (3,):
            X = X[:, :2]  # the model knows two columns by their names
        before = of_items.joblib.hash(X)
        try:
            return self.model.predict(X)
        finally:
            assert of_items.joblib.hash(X) == before, "X was changed"

    def lists(self, users=(SECRET_USER,), n=3, **options):
        """Return lists of items."""
        return self.model.recommend(list(users), n, **options)


# A table with names may have other columns beside those that are named.
OF_COLUMNS = ("other width", "other names", "other order", "matrix for a table")
CASES = [
    case
    for case in of_items.CASES
    if not case.mistake.startswith((*OTHER, *NAMED, *OF_COLUMNS))
]
CASES += [
    bad("too many columns", lambda s: s.transform(s.array()), "X has 3 features", "2")
]

# -- parameters of its own -------------------------------------------------------------

WRONG = {
    "n_jobs": {"text": "2", "float": 1.5, "array": np.ones(1), "zero": 0},
    "verbose": {"text": "yes", "negative": -1, "float": 0.5, "None": None},
}
CASES += [
    bad(f"{name}: {label}", lambda s, n=name, v=value: s.fit(**{n: v}), name)
    for name, values in WRONG.items()
    for label, value in values.items()
]

# -- lists -----------------------------------------------------------------------------

LENGTHS = {"zero": 0, "negative": -2, "float": 2.0, "boolean": True, "None": None}
LENGTHS |= {"NaN": NAN, "text": "3", "list": [3]}
CASES += [
    bad("length of lists", lambda s, v=value: s.lists(n=v), "n", "integer", "at least")
    for value in LENGTHS.values()
]
WEIGHTS = {"negative": -0.5, "NaN": NAN, "infinite": INF, "boolean": True}
WEIGHTS |= {"text": "1", "array": np.ones(2), "complex": 1j}
CASES += [
    bad("popularity", lambda s, v=value: s.lists(popularity=v), "popularity", "finite")
    for value in WEIGHTS.values()
]
CASES += [
    bad(
        "what was seen",
        lambda s, v=value: s.lists(exclude_seen=v),
        "exclude_seen",
        "True or False",
        error=TypeError,
    )
    for value in (None, 1, 0.0, "yes", [True])
]
CASES += [
    bad(
        "lists as a text",
        lambda s: s.lists(as_frame="pandas"),
        "as_frame",
        "True or False",
        error=TypeError,
    ),
    bad("users of another kind", lambda s: s.lists(["ann"]), "users", "strings"),
    bad("a missing user", lambda s: s.lists([None]), "users", "missing"),
    bad("a table of users", lambda s: s.lists([[1], [2]]), "users", error=TypeError),
    bad(
        "lists of buckets",
        lambda s: (
            DPMatrixFactorization(items=9, rating_range=(1, 5))
            .fit(s.X, s.y)
            .recommend([1])
        ),
        "items",
        "buckets",
        "catalog",
    ),
]

# -- users, scores and files -----------------------------------------------------------

CASES += [
    bad("no ratings", lambda s: s.model.personalize(s.X), "requires y", "None"),
    bad(
        "ratings: not finite",
        lambda s: s.model.personalize(s.X, np.where(s.y > 3, NAN, s.y)),
        "y",
        "NaN",
    ),
    bad("ratings: short", lambda s: s.model.personalize(s.X, s.y[:4]), "X and y"),
    bad(
        "another kind of users",
        lambda s: s.model.personalize(s.X.assign(user_id="ann"), s.y),
        "user_feature",
        "strings",
    ),
    bad(
        "ratings twice",
        lambda s: (
            DPMatrixFactorization(2, items=range(3), rating_range=(1, 5))
            .fit(MATRIX, None)
            .personalize(MATRIX, s.y)
        ),
        "y must be None",
    ),
    bad("no ratings", lambda s: s.model.score(s.X), "requires y"),
    bad(
        "weights of a score",
        lambda s: s.model.score(s.X, s.y, sample_weight=s.y[:3]),
        "sample_weight",
    ),
    bad(
        "no model of a user",
        lambda s: s.model.save(s.folder / "own.npz", user=-5),
        "user",
        "personalize",
    ),
    bad(
        "unknown parameter of factors",
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).set_params(rank=1),
        "rank",
    ),
    bad(
        "damaged file of factors",
        lambda s: DPMatrixFactorization.load(s.saved(b"\0\0", b"\1\1")),
        "path",
        "npz",
    ),
    bad(
        "no such file of factors",
        lambda s: DPMatrixFactorization.load(s.folder / "missing.npz"),
        "missing.npz",
        error=FileNotFoundError,
    ),
]
CASES += [
    bad(
        f"size of a plan: {label}",
        lambda s, v=value: DPMatrixFactorization(rating_range=(1, 5)).privacy_plan(v),
        "n_items",
        "positive integer",
    )
    for label, value in of_items.SIZES.items()
]
CASES += [
    bad("no fit of factors", call, "not fitted", "fit", error=NotFittedError)
    for call in (
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).predict(s.X),
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).score(s.X, s.y),
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).recommend([1]),
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).personalize(s.X, s.y),
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).publish(),
        lambda s: DPMatrixFactorization(rating_range=(1, 5)).save(
            s.folder / "unfitted.npz"
        ),
    )
]
