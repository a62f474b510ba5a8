"""Bad calls of DPTableVectorizer: mistakes, and what each error must name."""

import joblib
import numpy as np
import pandas as pd
from bad_cases import bad, state_of
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skdpspectral import DPTableVectorizer, PrivacyAccountant, PrivacyBudgetError

# A value that no error may quote.
SECRET = 7321.0625


class Scene:
    """A fitted vectorizer, a budget that is untouched, and a table to misuse."""

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        self.X = pd.DataFrame(
            {
                "age": rng.normal(size=400),
                "city": rng.choice(["Graz", "Linz"], 400),
                "day": pd.Timestamp("2020-01-01"),
            }
        )
        self.X.loc[3, "age"] = SECRET
        self.model = DPTableVectorizer(epsilon=20.0).fit(self.X)
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

    def with_column(self, values):
        """Return the table with a further column."""
        return self.X.assign(more=values)

    def check_untouched(self, charges=0):
        """Check that nothing is charged, but for so many fits, and nothing lost."""
        assert len(self.accountant.ledger) <= charges, "a failed call was charged"
        assert self._state() == self._before, "a fitted value was lost"


def _given(values):
    return lambda s: s.fit(categories={"city": values})


CASES = [
    bad("epsilon of 0", lambda s: s.fit(epsilon=0.0), "epsilon"),
    bad("epsilon in words", lambda s: s.fit(epsilon="one"), "epsilon"),
    bad("delta of 1", lambda s: s.fit(delta=1.0), "delta"),
    bad("tiny delta", lambda s: s.fit(delta=1e-20), "delta"),
    bad("delta without failures", lambda s: s.fit(delta=2e-15), "delta", "categories"),
    bad("unknown word", lambda s: s.fit(categories="auto"), "categories"),
    bad("no dictionary", lambda s: s.fit(categories=[["a"]]), "categories"),
    bad("no list", _given("Graz"), "categories", "city"),
    bad("a set", _given({"Graz"}), "categories", "city"),
    bad("a number", _given(3), "categories", "city"),
    bad("a category twice", _given(["1", 1]), "categories", "city"),
    bad("a missing category", _given(["Graz", None]), "categories", "city"),
    bad("nothing declared", _given("dtype"), "categories", "city", "dtype"),
    bad("no such column", lambda s: s.fit(categories={"town": []}), "categories"),
    bad("no such position", lambda s: s.fit(categories={7: []}), "categories"),
    bad(
        "half a column",
        lambda s: s.fit(categories={0.5: []}),
        "categories",
        error=TypeError,
    ),
    bad(
        "categories of dates",
        lambda s: s.fit(categories={"day": "find"}),
        "categories",
        "day",
    ),
    bad("most of 0", lambda s: s.fit(max_categories=0), "max_categories"),
    bad("most of half", lambda s: s.fit(max_categories=2.5), "max_categories"),
    bad("text of no list", lambda s: s.fit(text="city"), "text"),
    bad("no such text", lambda s: s.fit(text=["note"]), "text"),
    bad("no text features", lambda s: s.fit(n_text_features=0), "n_text_features"),
    bad("no such user", lambda s: s.fit(user_feature="id"), "user_feature"),
    bad("user at half", lambda s: s.fit(user_feature=0.5), "user_feature"),
    bad(
        "two kinds",
        lambda s: s.fit(text=["city"], user_feature="city"),
        "user_feature",
        "city",
    ),
    bad(
        "named twice",
        lambda s: s.fit(text=["city", 1]),
        "text",
    ),
    bad("indicator in words", lambda s: s.fit(add_indicator="yes"), "add_indicator"),
    bad("sparse in words", lambda s: s.fit(sparse_output="maybe"), "sparse_output"),
    bad("no accountant", lambda s: s.fit(accountant="ledger"), "accountant"),
    bad("seed in words", lambda s: s.fit(noise_seed="secret"), "noise_seed"),
    bad("budget", lambda s: s.fit(epsilon=99.0), "budget", error=PrivacyBudgetError),
    bad("too few rows", lambda s: s.fit(s.X[:1]), "n_samples"),
    bad("no rows", lambda s: s.fit(s.X[:0]), "X"),
    bad("no columns", lambda s: s.fit(s.X[[]]), "X"),
    bad("a vector", lambda s: s.fit(s.X["age"].to_numpy()), "X"),
    bad("three dimensions", lambda s: s.fit(np.zeros((9, 2, 2))), "X"),
    bad("no table", lambda s: s.fit("rows"), "X"),
    bad("complex numbers", lambda s: s.fit(np.zeros((9, 2)) + 1j), "X"),
    bad("complex column", lambda s: s.fit(s.with_column(1j)), "more", "X"),
    bad(
        "periods",
        lambda s: s.fit(s.with_column(pd.Period("2020-01"))),
        "more",
        "period",
    ),
    bad("ragged rows", lambda s: s.fit([[1.0, 2.0], [3.0]]), "X"),
    bad(
        "sparse rows",
        lambda s: s.fit(sparse.csr_array(np.eye(9))),
        "X",
        "toarray",
        error=TypeError,
    ),
    bad("a matrix", lambda s: s.fit(np.eye(9).view(np.matrix)), "X", error=TypeError),
    bad(
        "masked values",
        lambda s: s.fit(np.ma.masked_array(np.eye(9))),
        "X",
        "filled",
        error=TypeError,
    ),
    bad(
        "columns of one name",
        lambda s: s.fit(s.X.rename(columns={"age": "city"})),
        "X",
        "name",
    ),
    bad(
        "names of an array", lambda s: s.fit(np.eye(9), text=["a"]), "text", "position"
    ),
    bad("other columns", lambda s: s.model.transform(s.X[["age"]]), "city"),
    bad(
        "other names",
        lambda s: s.model.transform(s.X.rename(columns={"age": "z"})),
        "z",
    ),
    bad(
        "text for numbers",
        lambda s: s.model.transform(s.X.astype({"age": str})),
        "age",
        "number",
    ),
    bad(
        "numbers for dates",
        lambda s: s.model.transform(s.X.assign(day=1.0)),
        "day",
        "date",
    ),
    bad(
        "names out",
        lambda s: s.model.get_feature_names_out(["x", "y", "z"]),
        "input_features",
    ),
    bad(
        "not fitted",
        lambda s: DPTableVectorizer().transform(s.X),
        "DPTableVectorizer",
        error=NotFittedError,
    ),
    bad(
        "not fitted",
        lambda s: DPTableVectorizer().get_feature_names_out(),
        "DPTableVectorizer",
        error=NotFittedError,
    ),
    bad("no file", lambda s: DPTableVectorizer.load(__file__), "path"),
    bad("unknown parameter", lambda s: s.model.set_params(copy=True), "copy"),
    bad(
        "weights",
        lambda s: s.model.fit(s.X, sample_weight=np.ones(400)),
        "sample_weight",
        error=TypeError,
    ),
    bad("plan of no rows", lambda s: s.model.privacy_plan(0, 3), "n_samples"),
    bad("plan of half a column", lambda s: s.model.privacy_plan(9, 0.5), "n_features"),
    bad(
        "plan of half a column",
        lambda s: s.model.privacy_plan(9, 1, -1),
        "n_categories",
    ),
    bad("no table", lambda s: s.model.plan_for(3), "X"),
]
