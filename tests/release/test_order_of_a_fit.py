"""The order of a fit: form, charge, values; and what an error may tell after it."""

import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from estimators import ENTRIES, IDS, RATINGS, SECRET
from estimators import ROWS as X
from estimators import TARGETS as Y
from scipy import sparse
from sliced_rows import SlicedTable

from skdpspectral import (
    DPPCA,
    DPItemEmbedding,
    DPTableVectorizer,
    FederatedDPPCA,
    JMECovariance,
    LRSRegressor,
    NoisyFitWarning,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)

N = len(X)


def with_column(rows):
    return np.concatenate([IDS[:, None].astype(object), np.asarray(rows, object)], 1)


def fit_of(name):
    """Return how to fit the rows of X, or what stands for them, with parameters."""
    entry = ENTRIES[name]
    return lambda rows, **p: entry.fit(
        entry.make(**p), entry.X if entry.X is RATINGS else rows
    )


FITS = {name: fit_of(name) for name in ENTRIES}
FITS |= {
    "two stages": lambda rows, **p: DPPCA(
        1, mechanism="two-stage", bounds=(-9, 9), **p
    ).fit(rows),
    "first batch": lambda rows, **p: JMECovariance(horizon=99, **p).partial_fit(rows),
    "path": lambda rows, **p: list(JMECovariance(**p).release_path(rows)),
    "column of users": lambda rows, **p: LRSRegressor(user_feature=0, **p).fit(
        with_column(rows), Y
    ),
    "column of clients": lambda rows, **p: FederatedDPPCA(1, client_feature=0, **p).fit(
        with_column(rows)
    ),
}
# Users and items are all that is read of a ratings table.
# Tables refuse no value, and objects among numbers have another plan, by their dtype.
ALL_VALUES = [
    name
    for name in FITS
    if name not in ("DPItemEmbedding", "DPMatrixFactorization", "DPTableVectorizer")
]


class Angry:
    """A number whose conversion fails in words of its own."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error


def changed(value, place=(7, 2)):
    rows = X.astype(object)
    rows[place] = value
    return rows if not isinstance(value, float) else rows.astype(float)


BAD_VALUES = {
    "NaN": changed(np.nan),
    "infinity": changed(np.inf),
    "None": changed(None),
    "words": changed(f"{SECRET} euros"),
    "complex": changed(SECRET * 1j),
    "too large": changed(10**400),
    "list": [*X[:-1].tolist(), [SECRET, "a", 1.0, 2.0]],
    "sequence": [*X[:-1].tolist(), [SECRET, [1.0], 1.0, 2.0]],
    "ValueError": changed(Angry(ValueError(f"Input X contains {SECRET}"))),
    "TypeError": changed(Angry(TypeError(f"float() argument must be {SECRET}"))),
    "KeyError": changed(Angry(KeyError(SECRET))),
    "ZeroDivisionError": changed(Angry(ZeroDivisionError(SECRET))),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fit", ALL_VALUES)
def test_an_error_of_a_value_is_charged_and_quotes_nothing(fit):
    for mistake, rows in BAD_VALUES.items():
        accountant = PrivacyAccountant()
        with pytest.raises((ValueError, TypeError)) as caught:
            FITS[fit](rows, accountant=accountant)
        report = "".join(traceback.format_exception(caught.value))
        assert f"{SECRET:.0f}" not in report.replace(__file__, ""), mistake
        assert len(accountant.ledger) == 1, mistake


class Sequence:
    """An entry whose code fails when it is asked whether it is a sequence."""

    def __init__(self, error):
        self.error = error

    def _fail(self, *args, **kwargs):
        raise self.error

    __len__ = __getitem__ = __array__ = __float__ = _fail


@pytest.mark.sampled(4)
@pytest.mark.parametrize("error", [RuntimeError, ValueError, KeyError])
@pytest.mark.parametrize("fit", ALL_VALUES)
def test_no_entry_of_a_list_has_a_say_before_the_charge(fit, error):
    rows = X.tolist()
    rows[7][2] = Sequence(error(SECRET))
    if "column" in fit:
        rows = [[int(i), *row] for i, row in zip(IDS, rows, strict=True)]
        fits = {
            "column of users": lambda rows, **p: LRSRegressor(user_feature=0, **p).fit(
                rows, Y
            ),
            "column of clients": lambda rows, **p: FederatedDPPCA(
                1, client_feature=0, **p
            ).fit(rows),
        }
    else:
        fits = FITS
    spent = PrivacyAccountant(1e-9, 1e-9)
    with pytest.raises(PrivacyBudgetError):
        fits[fit](rows, accountant=spent)
    accountant = PrivacyAccountant()
    with pytest.raises((ValueError, TypeError)) as caught:
        fits[fit](rows, accountant=accountant)
    assert f"{SECRET:.0f}" not in str(caught.value)
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize("error", [RuntimeError, ValueError, KeyError])
def test_no_entry_of_a_table_has_a_say(error):
    """Before the charge or after it: what has no text is a rare value."""
    rows = X.tolist()
    rows[7][2] = Sequence(error(SECRET))
    for table in (rows, pd.DataFrame({j: [row[j] for row in rows] for j in range(4)})):
        spent, accountant = PrivacyAccountant(1e-9, 1e-9), PrivacyAccountant()
        with pytest.raises(PrivacyBudgetError):
            DPTableVectorizer(accountant=spent).fit(table)
        made = DPTableVectorizer(accountant=accountant).fit(table).transform(table)
        assert np.isfinite(made).all()
        assert len(accountant.ledger) == 1


class Lazy:
    """A column or a table of another library, of which reading fails."""

    def __init__(self, values):
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        raise RuntimeError(f"row 7 holds {SECRET}")

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError(f"row 7 holds {SECRET}")


def test_ids_of_other_libraries_are_not_quoted():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="RuntimeError") as caught:
        LRSRegressor(accountant=accountant).fit(X, Y, users=Lazy(IDS))
    assert f"{SECRET:.0f}" not in str(caught.value)
    assert len(accountant.ledger) == 1
    table = Lazy(np.column_stack([IDS, X]))
    with pytest.raises(ValueError, match="RuntimeError") as caught:
        FederatedDPPCA(1, client_feature=0, accountant=accountant).fit(table)
    assert f"{SECRET:.0f}" not in str(caught.value)


def test_ids_of_clients_are_read_without_the_other_columns():
    class Columns(Lazy):
        def __getitem__(self, key):
            assert key == (slice(None), 0)
            return IDS.astype(float)

    spent = PrivacyAccountant(1e-9, 1e-9)
    with pytest.raises(PrivacyBudgetError):
        FederatedDPPCA(1, client_feature=0, accountant=spent).fit(
            Columns(np.column_stack([IDS, X]))
        )


@pytest.mark.parametrize("value", [np.nan, "five", Angry(KeyError(SECRET)), None])
@pytest.mark.parametrize("fit", ["users", "items"])
def test_targets_are_read_after_the_charge(fit, value):
    y = Y.astype(object)
    y[3] = value
    for targets in (y, y.tolist()):
        for budget in (None, 1e-9):
            accountant = PrivacyAccountant(budget)
            if fit == "users":
                model = LRSRegressor(user_feature=0, accountant=accountant)
                data = with_column(X)
            else:
                model = DPItemEmbedding(
                    2, items=5, accountant=accountant, rating_range=(1, 5)
                )
                data = RATINGS
            error = ValueError if budget is None else PrivacyBudgetError
            with pytest.raises(error) as caught:
                model.fit(data, targets)
            assert f"{SECRET:.0f}" not in str(caught.value)
            assert len(accountant.ledger) == (budget is None)


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("ids", [[None, *IDS[1:]], np.r_[IDS[1:], np.nan], [[1]] * N])
def test_ids_of_users_are_read_after_the_charge(ids):
    for budget, error in ((None, (ValueError, TypeError)), (1e-9, PrivacyBudgetError)):
        accountant = PrivacyAccountant(budget)
        with pytest.raises(error):
            LRSRegressor(accountant=accountant).fit(X, Y, users=ids)
        assert len(accountant.ledger) == (budget is None)


@pytest.mark.filterwarnings("ignore:items=None:UserWarning")
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_without_privacy_a_budget_refuses_before_items_are_read():
    table = RATINGS.astype(object)
    table[:, 1] = None
    model = DPItemEmbedding(
        2, epsilon=None, accountant=PrivacyAccountant(1.0), rating_range=(1, 5)
    )
    with pytest.raises(PrivacyBudgetError, match="epsilon"):
        model.fit(table, Y)


def test_ids_of_clients_are_public_and_read_before_the_charge():
    accountant = PrivacyAccountant(1e-9)
    with pytest.raises(ValueError, match="clients must not contain missing ids"):
        FederatedDPPCA(1, accountant=accountant).fit(X, clients=[None] * N)
    # Nothing else of the table is read, though it is one array, or one list.
    for table in (with_column(changed(np.nan)), with_column(changed("a")).tolist()):
        with pytest.raises(PrivacyBudgetError):
            FederatedDPPCA(1, client_feature=0, accountant=accountant).fit(table)


def test_a_clients_name_does_not_depend_on_others_features():
    model = FederatedDPPCA(1, client_feature=0).fit(with_column(X).tolist())
    assert set(model.clients_) == {"7321", "2", "3"}


class Watched:
    """A number that is read after the charge alone."""

    def __init__(self, value, accountant):
        self.value, self.accountant, self.reads = value, accountant, 0

    def __float__(self):
        assert len(self.accountant.ledger) > 0, "read before the charge"
        self.reads += 1
        return self.value


class WatchedTable(SlicedTable):
    """A table whose slices are read after the charge alone."""

    accountant = None

    def __getitem__(self, rows):
        assert len(self.accountant.ledger) > 0, "read before the charge"
        return super().__getitem__(rows)


@pytest.mark.parametrize("kind", ["array", "lists", "frame"])
@pytest.mark.parametrize("fit", ALL_VALUES)
def test_no_value_is_read_before_the_charge(fit, kind):
    if "column" in fit and kind == "frame":
        pytest.skip("made an array by the test")
    accountant = PrivacyAccountant()
    rows = X.astype(object)
    rows[5, 1] = watched = Watched(0.5, accountant)
    if kind == "lists":
        rows = rows.tolist()
    elif kind == "frame":
        rows = pd.DataFrame(rows, columns=list("abcd"))
    FITS[fit](rows, accountant=accountant)
    assert watched.reads > 0


def test_no_slice_is_read_before_the_charge():
    table = WatchedTable(X)
    table.accountant = PrivacyAccountant()
    DPPCA(1, accountant=table.accountant).fit(table)
    assert table.longest > 0


@pytest.mark.parametrize("rows", [X[:0], X[0], X[None], X[:, :0], X + 1j, [[1.0], []]])
@pytest.mark.parametrize("fit", [f for f in ALL_VALUES if "column" not in f])
def test_the_form_is_checked_before_the_charge(fit, rows):
    accountant = PrivacyAccountant(1e-9)
    with pytest.raises(ValueError, match="X"):
        FITS[fit](rows, accountant=accountant)
    assert len(accountant.ledger) == 0


def test_sparse_rows_keep_the_order():
    rows = sparse.csr_array(np.where(X > 0, X, 0.0))
    rows.data[3] = np.nan
    with pytest.raises(PrivacyBudgetError):
        DPPCA(1, accountant=PrivacyAccountant(1e-9)).fit(rows)
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="NaN"):
        DPPCA(1, accountant=accountant).fit(rows)
    assert len(accountant.ledger) == 1


def test_a_stream_that_was_charged_goes_on_after_a_bad_first_batch():
    accountant = PrivacyAccountant()
    stream = JMECovariance(horizon=99, accountant=accountant)
    for _ in range(2):
        with pytest.raises(ValueError, match="NaN"):
            stream.partial_fit(changed(np.nan))
    stream.partial_fit(X)
    assert stream.n_samples_seen_ == N
    assert len(accountant.ledger) == 1


class Foreign:
    """Something with rows, whose code fails in words of its own."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, ValueError, OSError])
def test_foreign_tables_are_not_quoted(kind):
    foreign = Foreign(kind(f"X has {SECRET}"))
    fitted = LRSRegressor().fit(X, Y, users=IDS)
    calls = (
        lambda: DPPCA(1).fit(foreign),
        lambda: LRSRegressor().fit(X, foreign, users=IDS),
        lambda: fitted.predict(foreign, users=IDS),
        lambda: JMECovariance().fit(foreign),
    )
    for call in calls:
        with pytest.raises(ValueError) as caught:
            call()
        report = "".join(traceback.format_exception(caught.value))
        assert f"{SECRET:.0f}" not in report.replace(__file__, "")


# -- warnings --------------------------------------------------------------------------


@pytest.mark.parametrize("fit", FITS)
def test_every_seeded_fit_warns_and_says_where(fit):
    for _ in range(2):  # at every fit, and not once
        with pytest.warns(PrivacyLeakWarning, match="noise_seed is given") as caught:
            FITS[fit](X, noise_seed=0)
        seeded = [w for w in caught if "noise_seed" in str(w.message)]
        (file,) = (Path(w.filename) for w in seeded)
        assert file.parent.name in ("release", "tools")


@pytest.mark.parametrize(
    "fit", ["DPPCA", "JMECovariance", "LRSRegressor", "FederatedDPPCA", "SparseDPPCA"]
)
def test_fits_without_a_seed_do_not_warn(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NoisyFitWarning)
        FITS[fit](X)


def test_warnings_and_refusals_follow_the_fit_and_not_the_parameters():
    private = LRSRegressor().fit(X, Y, users=IDS)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        exact = LRSRegressor(epsilon=None, unknown_user="raise").fit(X, Y, users=IDS)
    private.set_params(epsilon=None)
    exact.set_params(epsilon=1.0)
    with pytest.warns(PrivacyLeakWarning, match="pooled over users"):
        private.score(X, Y, users=IDS)
    with pytest.warns(PrivacyLeakWarning, match="models of its users"):
        private.__getstate__()
    # An unknown user may be an error where nothing is private, and nowhere else.
    private.set_params(unknown_user="raise")
    for call in (lambda u: private.predict(X[:1], users=[u]), private.get_coef):
        for user in (0, 99):
            with pytest.raises(ValueError, match="who was in the training set"):
                call(user)
    with pytest.raises(ValueError, match="not in the fit"):
        exact.predict(X[:1], users=[99])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact.score(X, Y, users=IDS)
        exact.__getstate__()
    with pytest.warns(PrivacyLeakWarning, match="is not private"):
        exact.publish()


@pytest.mark.parametrize("fit", ALL_VALUES)
@pytest.mark.parametrize(
    "row",
    [[1e-170, 1.0, 0.0, 5e-324], [1e308, 1e-300, 1.0, -1e308]],
    ids=["tiny", "huge"],
)
def test_errors_of_arithmetic_tell_nothing_of_a_row(fit, row):
    """Whatever numpy was asked to do about them: another row would raise none."""
    rows = X.copy()
    rows[7] = row
    with np.errstate(all="raise"):
        FITS[fit](rows, noise_seed=0)
        assert np.geterr()["over"] == "raise"
