"""Bad calls of DPStandardScaler: mistakes, and what each error must name."""

import joblib
import numpy as np
import pandas as pd
from bad_cases import bad, mark_values, state_of
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skdpspectral import DPStandardScaler, PrivacyAccountant, PrivacyBudgetError

NAN, INF = float("nan"), float("inf")
# A value that no error may quote.
SECRET = 7321.0625


class Scene:
    """A fitted scaler, a budget that is untouched, and rows to misuse."""

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(400, 3)) * [1.0, 50.0, 1e6]
        self.X[3, 1] = SECRET
        self.frame = pd.DataFrame(self.X, columns=["a", "b", "c"])
        self.model = DPStandardScaler(epsilon=20.0).fit(self.X)
        self.named = DPStandardScaler(epsilon=20.0).fit(self.frame)
        self.accountant = PrivacyAccountant(25.0)
        self._before = self._state()

    def _state(self):
        return state_of(self.model.mean_, self.model.scale_, self.X)

    def renew(self):
        """Take a new ledger."""
        self.accountant = PrivacyAccountant(25.0)

    def fit(self, X=None, **parameters):
        """Refit with the budgeted accountant; check that the data stay as they are."""
        X = self.X if X is None else X
        kept, before = self.model.get_params(deep=False), joblib.hash(X)
        self.model.set_params(**{"accountant": self.accountant, **parameters})
        try:
            return self.model.fit(X)
        finally:
            self.model.set_params(**kept)
            assert joblib.hash(X) == before, "the data were changed"

    def changed(self, value):
        """Return the rows with another value in one place."""
        X = self.X.astype(object if isinstance(value, str) else float)
        X[5, 1] = value
        return X

    def check_untouched(self, charges=0):
        """Check that nothing is charged, but for so many fits, and nothing lost."""
        assert len(self.accountant.ledger) <= charges, "a failed call was charged"
        assert self._state() == self._before, "a fitted value was lost"


def _sparse(s):
    return sparse.csr_array(s.X)


CASES = [
    bad("epsilon of 0", lambda s: s.fit(epsilon=0.0), "epsilon"),
    bad("negative epsilon", lambda s: s.fit(epsilon=-1.0), "epsilon"),
    bad("epsilon in words", lambda s: s.fit(epsilon="one"), "epsilon"),
    bad("epsilon of NaN", lambda s: s.fit(epsilon=NAN), "epsilon"),
    bad("delta of 0", lambda s: s.fit(delta=0.0), "delta"),
    bad("delta of 1", lambda s: s.fit(delta=1.0), "delta"),
    bad("tiny delta", lambda s: s.fit(delta=1e-20), "delta"),
    bad("means in words", lambda s: s.fit(with_mean="yes"), "with_mean"),
    bad("means by a number", lambda s: s.fit(with_mean=2), "with_mean"),
    bad("deviations in words", lambda s: s.fit(with_std="no"), "with_std"),
    bad(
        "nothing to do",
        lambda s: s.fit(with_mean=False, with_std=False),
        "with_mean",
        "with_std",
    ),
    bad("unknown rule", lambda s: s.fit(unseen="drop"), "unseen", "zero", "keep"),
    bad("rule None", lambda s: s.fit(unseen=None), "unseen"),
    bad("unknown holes", lambda s: s.fit(missing="median"), "missing", "mean"),
    bad(
        "holes without means",
        lambda s: s.fit(missing="mean", with_mean=False),
        "missing",
        "with_mean",
    ),
    bad("one bound", lambda s: s.fit(bounds=5.0), "bounds"),
    bad("three bounds", lambda s: s.fit(bounds=(0, 1, 2)), "bounds"),
    bad("bounds of two features", lambda s: s.fit(bounds=([0] * 2, [1] * 2)), "bounds"),
    bad("reversed bounds", lambda s: s.fit(bounds=(1, -1)), "bounds"),
    bad("bounds not finite", lambda s: s.fit(bounds=(-INF, 1)), "bounds"),
    bad("bounds not finite", lambda s: s.fit(bounds=(NAN, 1)), "bounds"),
    bad("no extent", lambda s: s.fit(bounds=(2, 2)), "bounds"),
    bad("bounds in words", lambda s: s.fit(bounds=("a", "b")), "bounds"),
    bad("bounds apart", lambda s: s.fit(bounds=(-1.7e308, 1.7e308)), "bounds"),
    bad("no accountant", lambda s: s.fit(accountant="ledger"), "accountant"),
    bad("seed in words", lambda s: s.fit(noise_seed="secret"), "noise_seed"),
    bad("budget", lambda s: s.fit(epsilon=99.0), "budget", error=PrivacyBudgetError),
    bad("too few rows", lambda s: s.fit(s.X[:1]), "n_samples"),
    bad("no rows", lambda s: s.fit(s.X[:0]), "X"),
    bad("no columns", lambda s: s.fit(s.X[:, :0]), "X"),
    bad("a vector", lambda s: s.fit(s.X[0]), "X"),
    bad("three dimensions", lambda s: s.fit(s.X[None]), "X"),
    bad("no table", lambda s: s.fit("rows"), "X"),
    bad("complex rows", lambda s: s.fit(s.X + 1j), "X"),
    bad("dates", lambda s: s.fit(np.full((9, 2), np.datetime64("2020"))), "X"),
    bad("ragged rows", lambda s: s.fit([[1.0, 2.0], [3.0]]), "X"),
    bad("sparse rows and means", lambda s: s.fit(_sparse(s)), "X", "with_mean"),
    bad(
        "sparse rows and bounds",
        lambda s: s.fit(_sparse(s), with_mean=False, bounds=(-1, 1)),
        "X",
        "bounds",
    ),
    bad("NaN", lambda s: s.fit(s.changed(NAN)), "X"),
    bad("infinity", lambda s: s.fit(s.changed(INF)), "X"),
    bad("infinity", lambda s: s.fit(s.changed(INF), missing="mean"), "X"),
    bad("words in X", lambda s: s.fit(s.changed("word")), "X"),
    bad("other columns", lambda s: s.model.transform(s.X[:, :2]), "X"),
    bad("NaN", lambda s: s.model.transform(s.changed(NAN)), "X"),
    bad("filled zeros", lambda s: s.model.transform(_sparse(s)), "with_mean"),
    bad("filled zeros", lambda s: s.model.inverse_transform(_sparse(s)), "with_mean"),
    bad("other scores", lambda s: s.model.inverse_transform(s.X[:, :2]), "X"),
    bad(
        "other names",
        lambda s: s.named.transform(s.frame.rename(columns={"a": "z"})),
        "z",
    ),
    bad(
        "names out",
        lambda s: s.named.get_feature_names_out(["x", "y", "z"]),
        "input_features",
    ),
    bad(
        "not fitted",
        lambda s: DPStandardScaler().transform(s.X),
        "DPStandardScaler",
        error=NotFittedError,
    ),
    bad(
        "not fitted",
        lambda s: DPStandardScaler().inverse_transform(s.X),
        "DPStandardScaler",
        error=NotFittedError,
    ),
    bad(
        "not fitted",
        lambda s: DPStandardScaler().save(s.folder / "a.npz"),
        "DPStandardScaler",
        error=NotFittedError,
    ),
    bad("no file", lambda s: DPStandardScaler.load(__file__), "path"),
    bad("unknown parameter", lambda s: s.model.set_params(copy=True), "copy"),
    bad(
        "weights",
        lambda s: s.model.fit(s.X, sample_weight=np.ones(400)),
        "sample_weight",
        error=TypeError,
    ),
    bad("plan of no rows", lambda s: s.model.privacy_plan(0, 3), "n_samples"),
    bad("too few rows", lambda s: s.model.privacy_plan(1, 3), "n_samples"),
    bad("plan of no features", lambda s: s.model.privacy_plan(9, 0), "n_features"),
    bad("plan of half a row", lambda s: s.model.privacy_plan(9.5, 3), "n_samples"),
    bad("no table", lambda s: s.model.plan_for(3), "X"),
]
CASES = mark_values(CASES, ["NaN", "infinity", "words in X"])
