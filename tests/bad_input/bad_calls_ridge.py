"""Bad calls of DPRidge: mistakes, and what each error must name."""

import joblib
import numpy as np
import pandas as pd
from bad_cases import bad, mark_values, state_of
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skdpspectral import (
    DPRidge,
    DPRidgeClassifier,
    PrivacyAccountant,
    PrivacyBudgetError,
)

NAN, INF = float("nan"), float("inf")
# A value that no error may quote.
SECRET = 7321.0625


class Scene:
    """A fitted model, a budget that is untouched, and rows to misuse."""

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(400, 3)) * [1.0, 50.0, 1e6]
        self.y = self.X @ [1.0, 0.1, 1e-6]
        self.X[3, 1] = self.y[5] = SECRET
        self.frame = pd.DataFrame(self.X, columns=["a", "b", "c"])
        self.model = DPRidge(epsilon=20.0).fit(self.X, self.y)
        self.named = DPRidge(epsilon=20.0).fit(self.frame, self.y)
        self.accountant = PrivacyAccountant(25.0)
        self._before = self._state()

    def _state(self):
        return state_of(self.model.coef_, self.model.moment_, self.X, self.y)

    def renew(self):
        """Take a new ledger."""
        self.accountant = PrivacyAccountant(25.0)

    def fit(self, X=None, y=None, **parameters):
        """Refit with the budgeted accountant; check that the data stay as they are."""
        X, y = self.X if X is None else X, self.y if y is None else y
        kept, before = self.model.get_params(deep=False), joblib.hash((X, y))
        self.model.set_params(**{"accountant": self.accountant, **parameters})
        try:
            return self.model.fit(X, y)
        finally:
            self.model.set_params(**kept)
            assert joblib.hash((X, y)) == before, "the data were changed"

    def classify(self, y=None, X=None, **parameters):
        """Fit a classifier with the budgeted accountant."""
        y = (self.y > 0.0).astype(int) if y is None else y
        given = {"classes": [0, 1], "accountant": self.accountant, **parameters}
        return DPRidgeClassifier(**given).fit(self.X if X is None else X, y)

    def changed(self, value):
        """Return the rows with another value in one place."""
        X = self.X.astype(object if isinstance(value, str) else float)
        X[5, 1] = value
        return X

    def targets(self, value):
        """Return the targets with another value in one place."""
        y = self.y.astype(object if isinstance(value, str) else float)
        y[7] = value
        return y

    def check_untouched(self, charges=0):
        """Check that nothing is charged, but for so many fits, and nothing lost."""
        assert len(self.accountant.ledger) <= charges, "a failed call was charged"
        assert self._state() == self._before, "a fitted value was lost"


CASES = [
    bad("negative alpha", lambda s: s.fit(alpha=-1.0), "alpha"),
    bad("alpha of NaN", lambda s: s.fit(alpha=NAN), "alpha"),
    bad("infinite alpha", lambda s: s.fit(alpha=INF), "alpha"),
    bad("alpha in words", lambda s: s.fit(alpha="best"), "alpha"),
    bad("two alphas", lambda s: s.fit(alpha=[1.0, 2.0]), "alpha", "path"),
    bad("alphas in words", lambda s: s.fit(alpha=["a"]), "alpha"),
    bad("alpha None", lambda s: s.fit(alpha=None), "alpha"),
    bad("no components", lambda s: s.fit(n_components=0), "n_components"),
    bad("many components", lambda s: s.fit(n_components=4), "n_components"),
    bad("half a component", lambda s: s.fit(n_components=0.5), "n_components"),
    bad("intercept in words", lambda s: s.fit(fit_intercept="no"), "fit_intercept"),
    bad("epsilon of 0", lambda s: s.fit(epsilon=0.0), "epsilon"),
    bad("epsilon of NaN", lambda s: s.fit(epsilon=NAN), "epsilon"),
    bad("delta of 1", lambda s: s.fit(delta=1.0), "delta"),
    bad("tiny delta", lambda s: s.fit(delta=1e-20), "delta"),
    bad("one bound", lambda s: s.fit(bounds=5.0), "bounds"),
    bad("bounds of two features", lambda s: s.fit(bounds=([0] * 2, [1] * 2)), "bounds"),
    bad("reversed bounds", lambda s: s.fit(bounds=(1, -1)), "bounds"),
    bad("bounds not finite", lambda s: s.fit(bounds=(-INF, 1)), "bounds"),
    bad("one bound of targets", lambda s: s.fit(target_bounds=5.0), "target_bounds"),
    bad("reversed", lambda s: s.fit(target_bounds=(1, -1)), "target_bounds"),
    bad("not finite", lambda s: s.fit(target_bounds=(0, NAN)), "target_bounds"),
    bad("two", lambda s: s.fit(target_bounds=([0, 0], [1, 1])), "target_bounds"),
    bad("no accountant", lambda s: s.fit(accountant="ledger"), "accountant"),
    bad("seed in words", lambda s: s.fit(noise_seed="secret"), "noise_seed"),
    bad("budget", lambda s: s.fit(epsilon=99.0), "budget", error=PrivacyBudgetError),
    bad("one row", lambda s: s.fit(s.X[:1], s.y[:1]), "n_samples"),
    bad("no rows", lambda s: s.fit(s.X[:0], s.y[:0]), "X"),
    bad("no columns", lambda s: s.fit(s.X[:, :0]), "X"),
    bad("a vector", lambda s: s.fit(s.X[0]), "X"),
    bad("no table", lambda s: s.fit("rows"), "X"),
    bad("complex rows", lambda s: s.fit(s.X + 1j), "X"),
    bad("dates", lambda s: s.fit(np.full((9, 2), np.datetime64("2020"))), "X"),
    bad(
        "sparse rows",
        lambda s: s.fit(sparse.csr_array(s.X)),
        "X",
        error=TypeError,
    ),
    bad("fewer targets", lambda s: s.fit(y=s.y[:-1]), "X and y"),
    bad("more dimensions", lambda s: s.fit(y=np.zeros((400, 2, 2))), "y"),
    bad("complex targets", lambda s: s.fit(y=s.y + 1j), "y"),
    bad("no targets", lambda s: s.model.fit(s.X, None), "y"),
    bad("NaN", lambda s: s.fit(s.changed(NAN)), "X"),
    bad("infinity", lambda s: s.fit(s.changed(INF)), "X"),
    bad("words in X", lambda s: s.fit(s.changed("word")), "X"),
    bad("NaN in y", lambda s: s.fit(y=s.targets(NAN)), "y"),
    bad("NaN in y", lambda s: s.fit(y=s.targets(INF)), "y"),
    bad("words in y", lambda s: s.fit(y=s.targets("word")), "y"),
    bad(
        "weights",
        lambda s: s.model.fit(s.X, s.y, sample_weight=np.ones(400)),
        "sample_weight",
        error=TypeError,
    ),
    bad("other columns", lambda s: s.model.predict(s.X[:, :2]), "X"),
    bad("NaN", lambda s: s.model.predict(s.changed(NAN)), "X"),
    bad(
        "other names",
        lambda s: s.named.predict(s.frame.rename(columns={"a": "z"})),
        "z",
    ),
    bad("negative penalty", lambda s: s.model.path([-1.0]), "alphas"),
    bad("no list", lambda s: s.model.path(1.0), "alphas"),
    bad("penalties in words", lambda s: s.model.path(["a"]), "alphas"),
    bad("level of 1", lambda s: s.model.conf_int(1.0), "level"),
    bad("level in words", lambda s: s.model.conf_int("95 %"), "level"),
    bad("level of NaN", lambda s: s.model.conf_int(NAN), "level"),
    bad(
        "not fitted",
        lambda s: DPRidge().predict(s.X),
        "DPRidge",
        error=NotFittedError,
    ),
    bad("not fitted", lambda s: DPRidge().path([1.0]), "DPRidge", error=NotFittedError),
    bad("not fitted", lambda s: DPRidge().conf_int(), "DPRidge", error=NotFittedError),
    bad("penalties of classes", lambda s: s.classify(alpha=[1.0, 2.0]), "alpha"),
    bad("negative alpha", lambda s: s.classify(alpha=-1.0), "alpha"),
    bad("one class", lambda s: s.classify(classes=[1]), "classes"),
    bad("a class twice", lambda s: s.classify(classes=[1, 1]), "classes"),
    bad("classes of two kinds", lambda s: s.classify(classes=[1, "a"]), "classes"),
    bad("classes in words", lambda s: s.classify(classes="ab"), "classes"),
    bad("many components", lambda s: s.classify(n_components=4), "n_components"),
    bad("one bound", lambda s: s.classify(bounds=5.0), "bounds"),
    bad("fewer targets", lambda s: s.classify(s.y[:-1] > 0), "X and y"),
    bad("columns of labels", lambda s: s.classify(np.zeros((400, 2))), "y"),
    bad("no labels", lambda s: DPRidgeClassifier().fit(s.X, None), "y"),
    bad("unknown label", lambda s: s.classify(np.full(400, 7)), "y", "classes"),
    bad("NaN", lambda s: s.classify(X=s.changed(NAN)), "X"),
    bad(
        "not fitted",
        lambda s: DPRidgeClassifier().predict(s.X),
        "DPRidgeClassifier",
        error=NotFittedError,
    ),
    bad("no file", lambda s: DPRidge.load(__file__), "path"),
    bad("unknown parameter", lambda s: s.model.set_params(copy=True), "copy"),
    bad("plan of no rows", lambda s: s.model.privacy_plan(0, 3), "n_samples"),
    bad("plan of no targets", lambda s: s.model.privacy_plan(9, 3, 0), "n_targets"),
    bad("no table", lambda s: s.model.plan_for(3), "X"),
]
_OF_VALUES = ["NaN", "infinity", "words in X", "NaN in y"]
CASES = mark_values(CASES, [*_OF_VALUES, "words in y", "unknown label"])
