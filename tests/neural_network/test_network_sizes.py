"""Numbers of personalized networks: those of table 2 of Pal et al. (2023)."""

import numpy as np
import pytest
from benchmark_scripts import load

from skdpspectral import LRSMLPRegressor

SIZES = load("network_sizes")
PRINTED = {
    "MovieLens": (5_151, 1_241_391, 5_392, 19_701, 17_924, 253_863),
    "Jester": (2_601, 260_100, 2_701, 10_101, 5_302, 54_721),
    # A thousand numbers less a rank than printed: U has 2,601, and users 1,000.
    "Netflix": (2_601, 2_601_000, 4_601 - 1_000, 55_101, None, None),
}


@pytest.mark.parametrize("name", PRINTED)
def test_counts_are_those_of_the_table(name):
    rows = zip(SIZES.METHODS.values(), PRINTED[name], strict=True)
    for method, printed in rows:
        if printed is not None:
            given = SIZES.DATA[name] | method
            counted = SIZES.count_parameters(**given, at_once=name == "Jester")
            assert counted == printed, method
    # Rows of Netflix with sparse parts are made of 26 weights a user.
    for rank, printed in {1: 30_601, 3: 39_803, 5: 49_005}.items():
        given = SIZES.DATA["Netflix"] | {"rank": rank, "sparsity": 26}
        assert SIZES.count_parameters(**given) == printed - 1_000 * rank


@pytest.mark.filterwarnings("ignore:epsilon=None")
def test_estimators_hold_as_many_numbers():
    rng = np.random.default_rng(0)
    X, y, users = rng.normal(size=(24, 3)), rng.normal(size=24), np.arange(24) % 4
    for rank, sparsity, prompt_size in ((2, 0.07, 1), (1, 5, 0), (1, 0.7, 0)):
        given = {"hidden_layer_sizes": 6, "prompt_size": prompt_size, "n_rounds": 5}
        model = LRSMLPRegressor(rank, sparsity, **given, epsilon=None)
        model.fit(X, y, users=users)
        own = model._personal
        parts = (model.components_, own.weights, own.prompts, own.sparse)
        how = {"rank": rank, "sparsity": sparsity, "prompt_size": prompt_size}
        counted = SIZES.count_parameters(3, 4, widths=(6,), **how)
        assert sum(part.size for part in parts) == counted
