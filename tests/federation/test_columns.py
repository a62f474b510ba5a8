"""Columns of separate clients: matched by the names in the task, before the charge."""

import numpy as np
import pandas as pd
import pytest
from federation_tools import hold, make_rounds, make_task, rows_of

from skdpspectral import DPMatrixFactorization, LRSRegressor, PrivacyAccountant
from skdpspectral.datasets import make_low_rank_sparse_tasks, make_spiked_covariance
from skdpspectral.federation import GroupClient, GroupRounds, GroupTask, LocalClient
from skdpspectral.linear_model import PrivateRounds

NAMES = [f"f{j}" for j in range(10)]


def frames():
    """Three hospitals, two with their columns reversed; and all rows in order."""
    X, _ = make_spiked_covariance(9000, 10, random_state=0)
    table = pd.DataFrame(X, columns=NAMES)
    found = {name: table.iloc[i * 3000 :][:3000] for i, name in enumerate("abc")}
    return {**found, "b": found["b"][NAMES[::-1]], "c": found["c"][NAMES[::-1]]}, X


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_columns_are_put_in_the_order_of_the_task(kind):
    """All columns reversed, and those of an array in order: the same bits."""
    found, X = frames()
    task = make_task(2, 10, feature_names=NAMES, center="pairs")
    plain = make_task(2, 10, center="pairs")
    if kind == "polars":
        polars = pytest.importorskip("polars")
        found = {name: polars.from_pandas(frame) for name, frame in found.items()}
    if kind == "pyarrow":
        arrow = pytest.importorskip("pyarrow")
        found = {n: arrow.Table.from_pandas(f) for n, f in found.items()}
    results = []
    for chosen, rows in (
        (task, found),
        (plain, {name: X[i * 3000 :][:3000] for i, name in enumerate("abc")}),
    ):
        clients = {
            name: LocalClient(name, own, chosen, epsilon=None)
            for name, own in rows.items()
        }
        results.append(hold(make_rounds(chosen, clients), clients).components_)
    assert np.array_equal(*results)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("names", "columns", "said"),
    [
        (None, NAMES[:6], "the task has no feature_names"),
        (None, [5, 4, 3, 2, 1, 0], "the task has no feature_names"),
        (NAMES[:6], None, "X has no column names"),
        (NAMES[:6], range(6), "X has no column names"),
        (NAMES[:6], [*NAMES[:5], "g"], "has no columns 'f5'"),
        (NAMES[:6], [*NAMES[:6], "id"], "unexpected columns 'id'"),
        (NAMES[:6], [*NAMES[:5], "f4"], "X has several columns with the same name"),
        (NAMES[:6], [*NAMES[:5], 5], "has no columns 'f5'"),
    ],
)
def test_other_columns_are_refused_before_the_charge(names, columns, said):
    """Before a value is read, too: there is a missing one."""
    X = rows_of(0, p=6 if columns is None else len(columns))
    X[0, 0] = np.nan
    X = X if columns is None else pd.DataFrame(X, columns=list(columns))
    accountant = PrivacyAccountant()
    task = make_task(2, 6, feature_names=names)
    with pytest.raises(ValueError, match=said):
        LocalClient("a", X, task, accountant=accountant)
    assert not len(accountant.ledger)


def test_frames_of_numbered_columns_are_arrays():
    X, task = rows_of(0), make_task(2, 6)
    LocalClient("a", pd.DataFrame(X), task)
    assert make_task(2, 6, feature_names=NAMES[:6]).feature_names == tuple(NAMES[:6])


# -- users -----------------------------------------------------------------------------


def hold_groups(task, nodes):
    return hold(GroupRounds(list(nodes), task), nodes)


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("column", ["site", 0])
def test_columns_of_users(column):
    """A node with reversed columns beside the users' gets the model of one in order."""
    X, y, users = make_low_rank_sparse_tasks(600, 20, 5, sparsity=2, random_state=0)
    names, found = list("abcde"), []
    table = pd.DataFrame(X, columns=names)
    table.insert(0, "site", users)
    model = LRSRegressor(solver=PrivateRounds(n_rounds=2), user_feature=column)
    for order in (names, names[::-1]):
        task = GroupTask(model, 5, noise="node", feature_names=names)
        own = table[["site", *order]]
        nodes = {"a": GroupClient("a", task, own, y, noise_seed=0)}
        found.append(hold_groups(task, nodes))
        assert list(nodes["a"].model.feature_names_in_) == ["site", *names]
    assert np.array_equal(found[0].components_, found[1].components_)
    accountant = PrivacyAccountant()
    for told, rows, said in (
        (None, table, "the task has no feature_names"),
        (names, table.to_numpy(), "X has no column names"),
        (names, table.rename(columns={"a": "z"}), "has no columns 'a'"),
    ):
        task = GroupTask(model, 5, feature_names=told)
        with pytest.raises(ValueError, match=said):
            GroupClient("a", task, rows, y, accountant=accountant)
    assert not len(accountant.ledger)


def test_names_are_of_the_task_of_users():
    model, names = LRSRegressor(), list("abcde")
    tasks = [GroupTask(model, 5, feature_names=n) for n in (None, names, names[::-1])]
    assert len({task.digest for task in tasks}) == 3
    X, y, users = make_low_rank_sparse_tasks(600, 20, 5, sparsity=2, random_state=0)
    own = pd.DataFrame(X, columns=names)
    public = hold_groups(
        tasks[1], {"a": GroupClient("a", tasks[1], own, y, users=users)}
    )
    assert list(public.feature_names_in_) == names


def test_columns_of_a_recommender_go_by_name():
    """By position, a node with its columns reversed would protect items."""
    table = pd.DataFrame({"item_id": [1, 2, 3], "user_id": [1, 1, 2]})
    y, accountant = [1.0, 2.0, 3.0], PrivacyAccountant()
    items = np.arange(1, 4)
    named = GroupTask(DPMatrixFactorization(items=items, rating_range=(1, 5)))
    GroupClient("a", named, table, y, accountant=accountant)
    placed = GroupTask(
        DPMatrixFactorization(
            items=items, user_feature=0, item_feature=1, rating_range=(1, 5)
        )
    )
    with pytest.raises(ValueError, match="must be column names if X has column names"):
        GroupClient("a", placed, table, y, accountant=accountant)
    GroupClient("a", placed, table.to_numpy()[:, ::-1], y, accountant=accountant)
    assert not len(accountant.ledger)
    with pytest.raises(ValueError, match="must be None for a recommender"):
        GroupTask(
            DPMatrixFactorization(items=items, rating_range=(1, 5)),
            feature_names=["u", "i"],
        )
