"""The order of a fit: form, charge, values; and what an error may tell after it."""

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
    "two stages": lambda rows, **p: DPPCA(1, bounds=(-9, 9), **p).fit(rows),
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


def changed(value, place=(7, 2)):
    rows = X.astype(object)
    rows[place] = value
    return rows if not isinstance(value, float) else rows.astype(float)


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
        exact = LRSRegressor(epsilon=None).fit(X, Y, users=IDS)
    private.set_params(epsilon=None)
    exact.set_params(epsilon=1.0)
    with pytest.warns(PrivacyLeakWarning, match="pooled over users"):
        private.score(X, Y, users=IDS)
    with pytest.warns(PrivacyLeakWarning, match="models of its users"):
        private.__getstate__()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact.score(X, Y, users=IDS)
        exact.__getstate__()
    with pytest.warns(PrivacyLeakWarning, match="is not private"):
        exact.publish()
