"""DPItemEmbedding: exact arithmetic of its second moments, catalogs, large ids."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from ledger_tools import refused

from skdpspectral import DPItemEmbedding, DPMatrixFactorization, PrivacyAccountant
from skdpspectral._statistics.user_sums import MOST_EXACT_USERS
from skdpspectral.recommendation import _kernels as user_item
from skdpspectral.recommendation import _ratings
from skdpspectral.recommendation._kernels import STEP, RatingsBlock

without_privacy = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
WHOLE = 2**11  # steps of a unit vector
ITEMS = [f"item {j}" for j in range(8)]


def ratings(seed=0, t=25, n_rows=300):
    """Ratings in quarters, some outside 1 to 5, of items of which some are unknown."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_rows, 2), dtype=object)
    X[:, 0] = rng.integers(t, size=n_rows)
    X[:, 1] = [f"item {j}" for j in rng.integers(11, size=n_rows)]
    return X, rng.integers(-8, 33, size=n_rows) / 4.0


# -- exact arithmetic ------------------------------------------------------------------

TINY = float(np.nextafter(0.0, 1.0))


def hostile_values(rng, n):
    """Values of a user, of the kind that spoils a norm."""
    pools = {
        "ordinary": rng.uniform(-1, 1, n),
        "equal": np.full(n, rng.uniform(0.1, 1)),
        "squares underflow": rng.uniform(1.5e-162, 2.7e-162, n),
        "near the root of the smallest": 2.0**-537.5 * rng.uniform(0.99, 1.01, n),
        "subnormal": TINY * rng.integers(0, 5, n),
        "squares overflow": rng.uniform(1e153, 1e308, n),
        "largest": np.full(n, np.finfo(float).max),
        "mixed": 10.0 ** rng.uniform(-323, 308, n),
        "one tall": np.where(np.arange(n) == 0, 1.0, 2.0**-27),
        "zeros": np.copysign(0.0, rng.uniform(-1, 1, n)),
        "whole": rng.integers(-2, 3, n).astype(float),
    }
    return {k: v * rng.choice([-1.0, 1.0], n) for k, v in pools.items()}


def hostile_users(seed=0):
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 3, 4, 7, 8, 9, 16, 100, 127, 128, 129, 136, 1000, 2500]
    return [v for n in sizes for v in hostile_values(rng, n).values()]


def block_of(users, n_items=2500):
    pointer = np.cumsum([0, *(len(v) for v in users)])
    items = np.concatenate([np.arange(len(v)) for v in users])
    users_of = slice(0, len(users))
    return RatingsBlock(users_of, pointer, items, np.concatenate(users), n_items)


def steps_of(users, n_items=2500):
    block = block_of(users, n_items)
    return user_item.unit_steps(block, block.values)


def test_no_user_is_longer_than_one():
    users = hostile_users()
    steps = steps_of(users)
    whole = steps.astype(np.int64)
    assert np.array_equal(steps, whole)
    squares = (whole * whole).sum(axis=1)
    assert squares.max() <= WHOLE**2
    # Nor much shorter: a step an entry, at most.
    for user, row, found in zip(users, steps, squares, strict=True):
        assert not np.any(np.sign(row[: len(user)]) * np.sign(user) < 0)
        if np.any(user):
            assert math.sqrt(found) >= WHOLE - 1.01 * math.sqrt(len(user)) - 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_steps_of_a_user_are_the_same_bits_in_any_company(seed):
    users = hostile_users(seed)
    whole = steps_of(users)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(users), 40, replace=False))
    for i in chosen:
        assert np.array_equal(steps_of([users[i]])[0], whole[i])
    assert np.array_equal(steps_of([users[i] for i in chosen]), whole[chosen])


def test_sums_of_squares_do_not_depend_on_where_a_user_begins(monkeypatch):
    """Steps hide most of their last bits: smaller ones show every bit."""
    monkeypatch.setattr(user_item, "_ROW_STEP", 2.0**-52)
    rng = np.random.default_rng(0)
    for n in [*range(1, 40), 127, 128, 129, 500, 8191, 8192, 8193, 20_000]:
        piece = rng.uniform(0, 1, n)
        found = []
        for before, after in [(0, 0), (1, 0), (3, 5), (8, 1), (8190, 8195)]:
            users = [rng.uniform(size=before), piece, rng.uniform(size=after)]
            steps = steps_of([user for user in users if len(user)], 20_000)
            found.append(steps[int(before > 0)])
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


def test_the_second_moment_is_a_sum_of_whole_numbers():
    users = [v for v in hostile_users(5) if len(v) <= 200]
    block = block_of(users, n_items=200)
    moment = user_item.moment_contributions(block, block.values) * STEP
    whole = steps_of(users, n_items=200).astype(np.int64)
    assert np.array_equal(moment * WHOLE**2, whole.T @ whole)
    assert np.array_equal(moment, moment.T)


def test_as_many_users_as_sums_are_exact_for(monkeypatch):
    assert MOST_EXACT_USERS / user_item._ROW_STEP**2 <= 2.0**53
    model = DPItemEmbedding(method="residuals", epsilon=1e3, rating_range=(1, 5))
    mechanism = model.privacy_plan(2)["second_moment"]
    assert MOST_EXACT_USERS / mechanism.grid <= 2.0**51  # nothing is clamped
    monkeypatch.setattr(_ratings, "MOST_EXACT_USERS", 2)
    accountant = PrivacyAccountant()
    model = DPItemEmbedding(items=[1], accountant=accountant, rating_range=(1, 5))
    model.fit([[0, 1], [1, 1]], [1, 2])
    with pytest.raises(ValueError, match="user_feature must contain at most"):
        model.fit([[0, 1], [1, 1], [2, 1]], [1, 2, 3])
    # The number of users is private: it was counted after the charge.
    assert len(accountant.ledger) == 2


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("n_items", [1, 7, 5000])
def test_the_charge_of_a_second_moment_is_exact(epsilon, n_items):
    """One, and half a step an entry for each of two roundings: no bit is lost."""
    model = DPItemEmbedding(method="residuals", epsilon=epsilon, rating_range=(1, 5))
    release = model.privacy_plan(n_items)["second_moment"]
    steps = 1 / release.grid if release.grid <= 1 else 1.0
    whole = int(steps) + int(n_items * release.grid * steps)
    assert release.charged_sensitivity * steps == whole
    assert release.grid >= 2.0**-20


@pytest.mark.filterwarnings("ignore:X has no columns user_id")
def test_large_ids_are_not_rounded_together():
    """Two users who become one would move the sum by more than one."""
    big = 2**53
    X = np.array([[big, 10], [big + 1, 11], [big, 11]])
    model = DPItemEmbedding(1, items=[10, 11], rating_range=(1, 5))
    tables = [
        X,
        X.astype(np.uint64),
        X.tolist(),
        [[*row[:1], float(row[1])] for row in X.tolist()],
    ]
    tables += [pd.DataFrame(X), pl.DataFrame(X, schema=["x0", "x1"])]
    tables += [X.astype(object)]
    for table in tables:
        out = model.fit_transform(table, [5, 4, 1])
        assert out.dtype == object
        assert out[:, 0].tolist() == [big, big + 1, big]
    items = DPItemEmbedding(1, items=[big, big + 1], rating_range=(1, 5))
    items.fit(X[:, ::-1], [5, 4, 1])
    found = items.transform([[0, big + 1], [0, big]])[:, 1:]
    np.testing.assert_array_equal(found, items.item_embeddings_[::-1])


# -- catalogs ------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [DPItemEmbedding, DPMatrixFactorization])
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_a_table_needs_a_catalog(cls, epsilon):
    accountant = PrivacyAccountant()
    how = {"epsilon": epsilon, "rating_range": (1, 5), "accountant": accountant}
    model = cls(2, **how)
    with pytest.raises(ValueError, match="items is required: pass the public catalog"):
        model.fit(*ratings())
    with pytest.raises(ValueError, match="items is required"):
        model.plan_for(ratings()[0])
    assert not accountant.ledger


CATALOGS = {
    "list": lambda ids: list(ids),
    "tuple": tuple,
    "numpy": np.array,
    "objects": lambda ids: np.array(ids, dtype=object),
    "pandas": pd.Series,
    "pandas index": pd.Index,
    "polars": pl.Series,
}


@without_privacy
@pytest.mark.parametrize("container", CATALOGS)
@pytest.mark.parametrize("kind", [str, int, float])
def test_the_container_of_the_catalog_makes_no_difference(container, kind, tmp_path):
    ids = [kind(j) for j in (3, 1, 2)]
    X = np.array([[0, ids[0]], [0, ids[2]], [1, ids[1]]], dtype=object)
    model = DPItemEmbedding(
        2, items=CATALOGS[container](ids), noise_seed=0, rating_range=(1, 5)
    )
    model.fit(X, [5, 1, 2])
    wanted = DPItemEmbedding(2, items=ids, noise_seed=0, rating_range=(1, 5)).fit(
        X, [5, 1, 2]
    )
    assert model.items_.tolist() == ids
    assert np.array_equal(model.components_, wanted.components_)
    model.save(tmp_path / "items.npz")
    read = DPItemEmbedding.load(tmp_path / "items.npz")
    assert read.items_.tolist() == ids
    assert np.array_equal(read.transform(X), model.transform(X))


# -- public features -------------------------------------------------------------------


@pytest.mark.parametrize("library", [pd.DataFrame, lambda d: pl.DataFrame(dict(d))])
def test_public_features_keep_their_names_through_a_file(library, tmp_path):
    features = library({"year": np.arange(8.0), "drama": np.arange(8) % 2 == 0})
    how = {"items": ITEMS, "item_features": features, "rating_range": (1, 5)}
    model = DPItemEmbedding(1, **how).fit(*ratings())
    model.save(tmp_path / "items.npz")
    read = DPItemEmbedding.load(tmp_path / "items.npz")
    for estimator in (model, model.publish(), read):
        names = estimator.get_feature_names_out().tolist()
        assert names[:2] == ["x0", "x1_mean"]
        assert names[4:] == ["year", "drama", "x1_embedding0"]


@pytest.mark.parametrize(
    "model",
    [
        DPItemEmbedding(2, rating_range=(1, 5)),
        DPMatrixFactorization(2, rating_range=(1, 5)),
    ],
)
def test_features_in_another_order_than_the_items_are_refused(model):
    """A dataframe whose index names the items says which row is whose."""
    table = pd.DataFrame(np.eye(3), index=["c", "a", "b"])
    X, y = [["u", "a"], ["u", "b"], ["v", "c"]], [1.0, 2.0, 3.0]
    model.set_params(items=["a", "b", "c"], item_features=table)
    with refused("order") as accountant, accountant:
        model.fit(X, y)
    model.set_params(item_features=table.loc[["a", "b", "c"]]).fit(X, y)
