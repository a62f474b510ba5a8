"""Progress of long fits and of the search by votes: how far, and no rows."""

import numpy as np
import pytest
from sklearn.base import clone

import skdpspectral as sk
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV

pytestmark = [
    pytest.mark.skipif(
        not hasattr(PrivateSearchCV, "set_callbacks"), reason="needs callbacks"
    ),
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
]
ROWS = np.random.default_rng(0).normal(size=(2000, 4))
OF_USERS = np.column_stack([np.arange(2000) % 30, ROWS])
NETWORKS = {"hidden_layer_sizes": 2, "n_rounds": 4, "n_own_steps": 1}


class Spy:
    """A callback that keeps all that it is given, and wants to stop."""

    def __init__(self):
        self.most, self.steps, self.seen, self.accountants = None, 0, [], []

    def setup(self, estimator, context):
        self.most = context.max_subtasks

    def teardown(self, estimator, context):
        self.ended = True

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.seen += [part for part in (X, y, metadata) if part is not None]
        self.accountants.append(estimator.accountant)

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.steps += context.parent is not None
        self.seen += [part for part in (X, fitted_estimator) if part is not None]
        return True


def search_of(**parameters):
    return PrivateSearchCV(
        sk.DPPCA(2),
        {"center": ["none", "pairs"]},
        n_blocks=8,
        scoring=make_private_scorer("captured_variance", clip_norm=5.0),
        epsilon=12.0,
        noise_seed=0,
        **parameters,
    )


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_counts_its_blocks_and_the_last_fit(n_jobs):
    spy = Spy()
    search = search_of(n_jobs=n_jobs).set_callbacks(spy).fit(ROWS)
    assert search.n_blocks_ == 8
    assert spy.steps == spy.most == 9
    assert not spy.seen
    assert spy.ended
    alone = search_of().fit(ROWS)
    assert alone.support_ == search.support_
    np.testing.assert_array_equal(
        alone.best_estimator_.components_, search.best_estimator_.components_
    )


@pytest.mark.parametrize(
    ("model", "data", "most"),
    [
        (sk.FederatedDPPCA(1), (ROWS,), 1),
        (sk.FederatedDPPCA(1, projection_norm=3.0), (ROWS,), 2),
        (sk.SparseDPPCA(1, n_nonzero_features=2, n_rounds=3), (ROWS,), None),
        (sk.JMECovariance(), (ROWS,), 8),
        (sk.DPAdamRegressor(target_bounds=(-1, 1), n_epochs=2), (ROWS, ROWS[:, 0]), 16),
        (sk.LRSMLPRegressor(user_feature=0, **NETWORKS), (OF_USERS, ROWS[:, 0]), 4),
    ],
)
@pytest.mark.filterwarnings("ignore::skdpspectral.NoisyFitWarning")
def test_long_fits_count_steps(model, data, most):
    """Callbacks change nothing, and see the rows of a fit without a budget alone."""
    spy = Spy()
    alone = clone(model).set_params(noise_seed=0).fit(*data)
    fitted = clone(model).set_params(noise_seed=0).set_callbacks(spy).fit(*data)
    assert spy.steps == spy.most
    assert spy.most == most or most is None
    assert spy.most > 0
    assert not spy.seen
    assert spy.accountants == [None] * len(spy.accountants)
    assert spy.ended
    for name, value in vars(alone).items():
        if isinstance(value, np.ndarray) and name.endswith("_"):
            np.testing.assert_array_equal(value, getattr(fitted, name))
    spy = Spy()
    clone(model).set_params(epsilon=None).set_callbacks(spy).fit(*data)
    assert any(isinstance(part, np.ndarray) for part in spy.seen)
