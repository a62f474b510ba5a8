"""Rows of users that are dealt to the releases, each row to one of them."""

import numpy as np
import pytest
from sklearn.base import clone

from skdpspectral import LRSRegressor
from skdpspectral._linalg.per_user import UserRows
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.federation import GroupTask
from skdpspectral.linear_model import PrivateRounds

COUNTS = [7, 1, 3, 2, 12]


def table(order=None):
    """Rows of users with a first column that says which row of which user they are."""
    codes = np.repeat(np.arange(len(COUNTS)), COUNTS)
    place = np.concatenate([np.arange(n) for n in COUNTS])
    rng = np.random.default_rng(0)
    X = np.column_stack([100.0 * codes + place, rng.normal(size=(len(codes), 2))])
    order = np.arange(len(codes)) if order is None else order
    return X[order], codes[order]


def seen(rows):
    """Rows of each user, by the first column."""
    found = {}
    for block in rows.blocks():
        for X, user, n in zip(block.X, block.users, block.counts, strict=True):
            assert not X[n:].any()
            found[int(user)] = X[:n]
    return found


def test_parts_are_centered_by_themselves_and_keep_to_their_users():
    X, codes = table()
    y = np.random.default_rng(2).normal(size=len(X))
    scale = np.array([1.0, 2.0, 4.0])
    rows = UserRows(X, y, codes, len(COUNTS), center=True, scale=scale).dealt(1, 2)
    found = seen(rows)
    for user in range(len(COUNTS)):
        own = X[codes == user]
        own = own[1::2] if len(own) > 1 else own
        np.testing.assert_allclose(
            found[user], (own - own.mean(axis=0)) / scale, atol=1e-12
        )
    # The same bits without the others.
    alone = codes == 4
    other = UserRows(
        X[alone], y[alone], np.zeros(alone.sum(), int), 1, center=True, scale=scale
    )
    np.testing.assert_array_equal(seen(other.dealt(1, 2))[0], found[4])


def tripled(n_users=30):
    """Users each of whose rows stand three times in a row, and the same once."""
    X, y, users = make_low_rank_sparse_tasks(
        n_users, 8, 5, sparsity=1, noise=0.1, random_state=0
    )
    return (X, y, users), tuple(np.repeat(part, 3, axis=0) for part in (X, y, users))


@pytest.mark.parametrize("clip_norms", [(None, None), (3.0, 1.0)])
def test_releases_are_those_of_their_own_rows(clip_norms):
    """Where each part holds every row once, the fit is that of these rows."""
    once, thrice = tripled()
    curvature, gradient = clip_norms
    rounds = PrivateRounds(
        3, curvature_clip_norm=curvature, gradient_clip_norm=gradient
    )
    model = LRSRegressor(epsilon=5.0, sparsity=1, solver=rounds, noise_seed=4)
    wanted = clone(model).fit(once[0], once[1], users=once[2])
    found = clone(model).set_params(solver__fresh_rows=True)
    found.fit(thrice[0], thrice[1], users=thrice[2])
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)
    assert found.privacy_.mechanisms == wanted.privacy_.mechanisms


@pytest.mark.parametrize("init", ["spectral", "random"])
def test_each_release_has_a_part_of_its_own(init, monkeypatch):
    (X, y, users), _ = tripled()
    dealt, asked = UserRows.dealt, []

    def recorded(rows, part, n_parts):
        asked.append((part, n_parts))
        return dealt(rows, part, n_parts)

    monkeypatch.setattr(UserRows, "dealt", recorded)
    LRSRegressor(solver=PrivateRounds(n_rounds=3, init=init, fresh_rows=True)).fit(
        X, y, users=users
    )
    # Sizes of the clip are those of the first round's rows.
    assert sorted(set(asked)) == [(0, 3), (1, 3), (2, 3)]
    assert asked.count((2, 3)) == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": PrivateRounds(fresh_rows=True)},
        {"solver": PrivateRounds(0, init=np.eye(5)[:1])},
    ],
)
def test_groups_of_users_answer_by_all_rows(parameters):
    with pytest.raises(ValueError, match=r"fresh_rows|nothing would be released"):
        GroupTask(LRSRegressor(**parameters), 5)
