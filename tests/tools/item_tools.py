"""Tables of ratings, fits that end with their release, and what it would be."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lrs_tools import Silent, scripted
from pca_tools import Noted
from release_tools import Release

import skdpspectral
from skdpspectral import DPItemEmbedding, DPMatrixFactorization
from skdpspectral.recommendation._kernels import RatingsChunk, UserRatings
from skdpspectral.recommendation._table_columns import units

PACKAGE = Path(skdpspectral.__file__).parent
WHOLE = 2**11  # steps of a unit vector
CANARY = 77


def table(users, seed=None):
    """Rows of users {id: [(item, rating), ...]}, one user after another or mixed."""
    rows = [(user, item, y) for user, rated in users.items() for item, y in rated]
    order = np.arange(len(rows))
    if seed is not None:  # mixed, each user's rows in their order
        owners = np.array([list(users).index(user) for user, _, _ in rows])
        places = np.random.default_rng(seed).permutation(len(rows))
        for owner in range(len(users)):
            places[owners == owner] = np.sort(places[owners == owner])
        order = np.argsort(places)
    X = np.empty((len(rows), 2), dtype=object)
    for place, row in enumerate(order):
        X[place] = rows[row][:2]
    return X, np.array([rows[row][2] for row in order], dtype=float)


def exact_moment(cls, users, seed=None, **parameters):
    """What a fit would release without noise."""
    X, y = table(users, seed)
    with scripted() as asked:
        parameters = {"rating_range": (1, 5), **parameters}
        cls(1, method="moment", **parameters).fit(X, y)
    return asked["second_moment"]


@dataclass
class Ratio:
    """Log likelihood ratio of the released matrix, from means that are worked out.

    <M, D> over all entries weighs each off-diagonal twice, which is right: its
    variance is half of the diagonal's.
    """

    direction: np.ndarray
    middle: np.ndarray
    threshold: float = 0.0

    def __call__(self, model, released):
        return np.vdot(self.direction, released["second_moment"] - self.middle)


class ReleasesAlone(DPItemEmbedding):
    """Fits that end with the release, and sum the same users once."""

    def fit(self, X, y):
        if getattr(self, "_kept", (None,))[0] is not X:
            with scripted() as asked:
                super().fit(X, y)
            self._kept = X, self.privacy_, asked["second_moment"]
        _, plan, moment = self._kept
        Release(plan, None, self.noise_seed)("second_moment", moment)
        return self


# One ordinary user, and one with two ratings near both ends who joins or leaves.
OTHERS = {0: [(0, 4.99), (1, 4.99)]}
JOINED = OTHERS | {CANARY: [(0, 4.99), (1, 1.01)]}


def moment_by_hand(*signs):
    step = np.floor(WHOLE / np.sqrt(2.0)) / WHOLE
    rows = step * np.array(signs)
    return rows.T @ rows


MEANS = moment_by_hand([1, 1]), moment_by_hand([1, 1], [1, -1])


# -- models of items -------------------------------------------------------------------


def exact_answers(cls, users, seed=None, **parameters):
    """What a fit would release without noise, every release given scripted ones."""
    X, y = table(users, seed)
    with scripted() as asked:
        cls(**{"rating_range": (1, 5), **parameters}).fit(X, y)
    return asked


@dataclass
class Given:
    """Stands for a release: notes what it is to release, and returns what was."""

    plan: object
    released: dict

    def __post_init__(self):
        self.noted = {}

    def __call__(self, name, value, *, overwrite=False):
        self.noted[name] = np.array(value)
        return self.released[name]


class _NotedRun:
    """A statistic that notes what it is run on, beside its release and progress."""

    def __init__(self, statistic):
        self.statistic, self.rows = statistic, None

    def __getattr__(self, name):
        if name == "statistic":  # not there yet, in a copy
            raise AttributeError(name)
        return getattr(self.statistic, name)

    def run(self, release, rows, *progress):
        self.rows = rows
        return self.statistic.run(release, rows, *progress)


class _SumsAlone:
    """Fits that end with the last release, of tables that are read once.

    What is released has the same bits as in a whole fit.
    """

    def fit(self, X, y):
        if getattr(self, "_fitted_to", (None,))[0] is not X:
            self._asked = None
            super().fit(X, y)
            asked, self._asked = self._asked, None
            self._fitted_to = X, asked.statistic, asked.rows, CANARY in X[:, 0]
        _, statistic, rows, _ = self._fitted_to
        self._noted = Noted(Release(self.privacy_, None, self.noise_seed))
        statistic.run(self._noted, rows, Silent())
        return self

    def _statistic(self, *shape):
        self._asked = _NotedRun(super()._statistic(*shape))
        return self._asked


class SumsAlone(_SumsAlone, DPMatrixFactorization):
    pass


class SumsOfItemsAlone(_SumsAlone, DPItemEmbedding):
    pass


def quick_fits(cls):
    """Return a class whose fits end with the last release."""
    for known in (SumsAlone, SumsOfItemsAlone):  # which can be pickled
        if cls is known.__mro__[2]:
            return known
    return type(cls.__name__, (_SumsAlone, cls), {})


@dataclass
class FactorRatio:
    """Log likelihood ratio of all sums, where one user with ratings joins nobody.

    Each sum is zero without the user; with the user it is what they answer, given the
    earlier sums.
    """

    ratings: list
    n_items: int
    threshold: float = 0.0

    def __call__(self, model, released):
        *_, joined = model._fitted_to
        answers = model._noted.exact if joined else self._answers(model, released)
        return sum(
            np.vdot(answer, released[name] - 0.5 * answer)
            / model.privacy_[name].noise_std ** 2
            for name, answer in answers.items()
        )

    def _answers(self, model, released):
        """What the user would have answered."""
        items, values = map(np.array, zip(*self.ratings, strict=True))
        values = np.clip(values.astype(float), *model.rating_range)
        part = RatingsChunk(np.zeros(len(items), int), items, values)
        rows = UserRatings(
            [part], [len(items)], self.n_items, *units(model.rating_range)
        )
        given = Given(model.privacy_, released)
        model._fitted_to[1].run(given, rows, Silent())
        return given.noted


# -- planted mistakes ------------------------------------------------------------------


def mutated(monkeypatch, modules, module, *edits):
    """Return the last of some modules as it is after edits of one of their sources."""
    for name in modules:
        path = PACKAGE / (name.replace(".", "/") + ".py")
        source = path.read_text()
        if name == module:
            for old, new in edits:
                assert source.count(old) == 1, f"{old!r} must occur once in {path}"
                source = source.replace(old, new)
        full = f"skdpspectral.{name}"
        spec = importlib.util.spec_from_file_location(full, path)
        new_module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, full, new_module)
        parent = sys.modules[full.rpartition(".")[0]]
        monkeypatch.setattr(parent, name.rpartition(".")[2], new_module)
        exec(compile(source, str(path), "exec"), new_module.__dict__)
    return new_module
