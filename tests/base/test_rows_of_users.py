"""Fits of one row of each user: plans, charges, checks and refusals."""

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from scipy import sparse
from sklearn.base import clone

import skdpspectral as sk
from skdpspectral._release.noise import Coins
from skdpspectral.neural_network import Adam
from skdpspectral.statements import statement

RNG = np.random.default_rng(0)
N_USERS = 300
USERS = RNG.permutation(np.repeat(np.arange(N_USERS), RNG.geometric(0.3, N_USERS)))
X = RNG.normal(size=(N_USERS, 4))[USERS] + RNG.normal(size=(len(USERS), 4))
Y = X @ [1.0, -1.0, 0.5, 0.0]
TURN = Adam(sampling="in-turn")
ESTIMATORS = {
    "pca": (sk.DPPCA(2), ()),
    "covariance": (sk.DPCovariance(), ()),
    "spiked": (sk.SpikedPCA(1, epsilon=50.0), ()),
    "scaler": (sk.DPStandardScaler(), ()),
    "ridge": (sk.DPRidge(), (Y,)),
    "classifier": (sk.DPRidgeClassifier(classes=[False, True]), (Y > 0,)),
    "vectorizer": (sk.DPTableVectorizer(), ()),
    "adam": (sk.DPAdamRegressor(target_bounds=(-5, 5), optimizer=TURN), (Y,)),
    "network": (sk.DPAdamClassifier(classes=[False, True]), (Y > 0,)),
}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
each = pytest.mark.parametrize("name", ESTIMATORS)


def fitted(name, rows=X, users=USERS, **parameters):
    model, targets = ESTIMATORS[name]
    return clone(model).set_params(**parameters).fit(rows, *targets, users=users)


@each
def test_the_plan_is_that_of_as_many_rows_but_for_the_unit(name):
    one = fitted(name).privacy_
    model, targets = ESTIMATORS[name]
    if name == "spiked":
        other = model.privacy_plan(N_USERS, 4)
    else:
        targets = [column[:N_USERS] for column in targets]
        other = model.fit(X[:N_USERS], *targets).privacy_
    assert one.mechanisms == other.mechanisms
    assert (str(one.unit), str(one.neighbors)) == ("user", "replace-one")
    assert "Each user counts as one row, drawn at random." in one.sentences()
    assert "the number of users is public" in one.details()


@each
def test_nothing_is_drawn_before_the_charge(name, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a draw before the charge")

    monkeypatch.setattr(Coins, "__init__", refuse)
    with pytest.raises(sk.PrivacyBudgetError):
        fitted(name, accountant=sk.PrivacyAccountant(1e-9))


@each
def test_all_rows_are_checked(name):
    """Whoever has shown another row, in each of so many fits."""
    if name == "vectorizer":
        pytest.skip("it fills what is missing")
    rows = X.copy()
    rows[np.flatnonzero(np.bincount(USERS)[USERS] >= 5)[0], 1] = np.nan
    for seed in range(5):
        with pytest.raises(ValueError, match="NaN"):
            fitted(name, rows, noise_seed=seed)


@each
def test_a_fit_goes_by_its_seed_and_leaves_no_ids(name):
    one, two = fitted(name, noise_seed=1), fitted(name, noise_seed=1)
    for attribute, value in vars(one).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(two, attribute))
    assert "_users" not in vars(one)
    assert getattr(one, "n_samples_", N_USERS) == N_USERS
    with pytest.raises(ValueError, match="users must"):
        fitted(name, users=USERS[1:])
    assert "_users" not in vars(one)


def test_ids_that_are_no_ids():
    for users, said in (
        (np.full(len(X), np.nan), "missing"),
        (X, "1D"),
        ("users", "one id per row"),
        ([1] * (len(X) - 1) + ["a"], "one kind"),
    ):
        with refused(said, (TypeError, ValueError)) as accountant:
            fitted("pca", users=users, accountant=accountant)


@pytest.mark.parametrize("form", ["lists", "frame", "map", "sparse", "dask", "parquet"])
def test_other_forms_of_rows_show_the_same_rows(form, tmp_path):
    how = {"noise_seed": 1, "center": "none"}
    expected = fitted("pca", **how).components_
    rows, users = X, USERS
    if form == "lists":
        rows, users = X.tolist(), [f"u{one}" for one in USERS.tolist()]
    elif form == "frame":
        rows, users = pd.DataFrame(X, columns=list("abcd")), pd.Series(USERS)
    elif form == "map":
        np.save(tmp_path / "x.npy", X)
        rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif form == "sparse":
        rows = sparse.coo_array(X)
    elif form == "dask":
        da = pytest.importorskip("dask.array")
        rows, users = da.from_array(X, (99, 4)), da.from_array(USERS, 170)
    else:
        pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        ds = pytest.importorskip("pyarrow.dataset")
        columns = {f"x{j}": X[:, j] for j in range(4)}
        pq.write_table(pa.table(columns), tmp_path / "x", row_group_size=77)
        rows = ds.dataset(tmp_path / "x")
    found = fitted("pca", rows, users, **how).components_
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_ridge_takes_targets_and_ids_of_dask():
    da = pytest.importorskip("dask.array")
    rows, y = da.from_array(X, (99, 4)), da.from_array(Y, 99)
    expected = fitted("ridge", noise_seed=1).coef_
    model = sk.DPRidge(noise_seed=1).fit(rows, y, users=da.from_array(USERS, 170))
    np.testing.assert_array_equal(model.coef_, expected)
    texts = da.from_array(np.array([f"u{u}" for u in USERS], dtype=object), 170)
    model = sk.DPRidge(noise_seed=1).fit(rows, Y, users=texts)
    np.testing.assert_array_equal(model.coef_, expected)


@pytest.mark.parametrize("model", [sk.FederatedDPPCA(1), sk.SparseDPPCA(1)], ids=str)
def test_each_client_counts_its_own_users(model):
    clients = USERS % 2
    accountant = sk.PrivacyAccountant()
    model = clone(model).set_params(accountant=accountant, noise_seed=0)
    model.fit(X, clients=clients, users=USERS)
    assert model.n_samples_ == N_USERS
    plans = dict(model.privacy_.blocks).values()
    assert {str(plan.unit) for plan in plans} == {"user"}
    counts = {str(client): N_USERS // 2 for client in (0, 1)}
    expected = dict(model.privacy_plan(counts, 4).blocks)
    assert [p.mechanisms for p in plans] == [p.mechanisms for p in expected.values()]
    with pytest.raises(ValueError, match="rows at several clients"):
        model.fit(X, clients=np.arange(len(X)) % 2, users=USERS)
    assert len(accountant.ledger) == 1


def test_what_releases_row_by_row_takes_no_users():
    with pytest.raises(TypeError, match="fit DPCovariance with users"):
        sk.JMECovariance().fit(X, users=USERS)


def test_statements_say_what_a_user_counts_as():
    page = statement(fitted("ridge")).to_html()
    assert "Each user counts as one row, drawn at random." in page
    assert "If one user, with all of their rows, is replaced by any other" in page


def test_a_ledger_says_how_users_of_all_rows_can_be_charged_beside():
    with sk.PrivacyAccountant() as accountant:
        sk.LRSRegressor(1).fit(X, Y, users=USERS)
        with pytest.raises(
            sk.LedgerError, match="fit all with neighbors='replace-one'"
        ):
            fitted("ridge")
    with sk.PrivacyAccountant() as accountant:
        fitted("ridge")
        sk.LRSRegressor(1, neighbors="replace-one").fit(X, Y, users=USERS)
    assert len(accountant.ledger) == 2
