"""Numbers of personalized networks: those of table 2 of Pal et al. (2023)."""

import numpy as np
import pytest
from network_tools import of_users

from skdpspectral import LRSMLPRegressor
from skdpspectral.neural_network import AlternatingAdam, count_parameters

MOVIELENS = {"n_features": 50, "n_users": 241, "hidden_layer_sizes": (50, 50)}
JESTER = {"n_features": 50, "n_users": 100}
NETFLIX = {"n_features": 50, "n_users": 1000}
SINGLE = {"shared_weights": "fixed"}
FULL = {"n_components": 0, "sparsity": None}
PROMPT = {"shared_weights": "fixed", "prompt_size": 50}


@pytest.mark.parametrize(
    ("data", "method", "expected"),
    [
        (MOVIELENS, SINGLE, 5_151),
        (MOVIELENS, FULL, 1_241_391),
        (MOVIELENS, {}, 5_392),
        (MOVIELENS, PROMPT, 19_701),
        (MOVIELENS, {"sparsity": 0.01}, 17_924),
        (MOVIELENS, {"sparsity": 0.05}, 67_570),
        (MOVIELENS, {"sparsity": 0.1}, 129_748),
        (MOVIELENS, {"sparsity": 0.15}, 191_685),
        (MOVIELENS, {"sparsity": 0.2}, 253_863),
        (JESTER, SINGLE, 2_601),
        (JESTER, FULL, 260_100),
        (JESTER, {}, 2_701),
        (JESTER, PROMPT, 10_101),
        (JESTER, {"sparsity": 0.01, "rounding": "all"}, 5_302),
        (JESTER, {"sparsity": 0.05, "rounding": "all"}, 15_706),
        (JESTER, {"sparsity": 0.1, "rounding": "all"}, 28_711),
        (JESTER, {"sparsity": 0.15, "rounding": "all"}, 41_716),
        (JESTER, {"sparsity": 0.2, "rounding": "all"}, 54_721),
        (NETFLIX, SINGLE, 2_601),
        (NETFLIX, FULL, 2_601_000),
        (NETFLIX, PROMPT, 55_101),
    ],
)
def test_counts_are_those_of_the_table(data, method, expected):
    assert count_parameters(**data, **method) == expected


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_rows_of_netflix_count_a_thousand_too_many_a_rank(rank):
    """U has 2,601 numbers a rank and users 1,000; the table has 4,601."""
    printed = {1: 4_601, 2: 9_202, 3: 13_803, 4: 18_404, 5: 23_005}[rank]
    assert count_parameters(**NETFLIX, n_components=rank) == 3_601 * rank
    assert printed - 1_000 * rank == 3_601 * rank
    # The rows with sparse parts are made of those, and of 26 weights a user.
    sparse = {1: 30_601, 2: 35_202, 3: 39_803, 4: 44_404, 5: 49_005}[rank]
    found = count_parameters(**NETFLIX, n_components=rank, sparsity=26)
    assert found == sparse - 1_000 * rank


@pytest.mark.filterwarnings("ignore:epsilon=None")
def test_estimators_hold_as_many_numbers():
    rng = np.random.default_rng(0)
    X, y, users = rng.normal(size=(24, 3)), rng.normal(size=24), np.arange(24) % 4
    for method in (
        {"n_components": 2, "sparsity": 0.07, "prompt_size": 1},
        {"n_components": 1, "sparsity": 5},
        {"n_components": 0, "sparsity": None},
    ):
        model = LRSMLPRegressor(
            **of_users(method),
            hidden_layer_sizes=6,
            epsilon=None,
            solver=AlternatingAdam(n_rounds=5),
        ).fit(X, y, users=users)
        own = model._personal
        parts = (model.components_, own.weights, own.prompts, own.sparse)
        counted = count_parameters(3, 4, hidden_layer_sizes=6, **method)
        assert sum(part.size for part in parts) == counted


def test_shares_are_as_they_are_written():
    assert count_parameters(9, 1, hidden_layer_sizes=[], sparsity=0.7) == 18
    assert count_parameters(9, 3, hidden_layer_sizes=[], sparsity=1.0) == 10 + 3 + 30
    assert count_parameters(9, 3, hidden_layer_sizes=[], sparsity=1) == 10 + 3 + 3
    assert count_parameters(9, 3, hidden_layer_sizes=[], sparsity=99) == 10 + 3 + 30


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features", 0),
        ("n_users", 1.5),
        ("n_components", -1),
        ("prompt_size", 0.5),
        ("sparsity", 1.5),
        ("sparsity", -1),
        ("sparsity", "all"),
        ("shared_weights", "free"),
        ("rounding", "up"),
        ("hidden_layer_sizes", (2, 2, 2)),
    ],
)
def test_bad_numbers_are_named(name, value):
    given = {"n_features": 5, "n_users": 5} | {name: value}
    with pytest.raises((ValueError, TypeError), match=name):
        count_parameters(**given)
