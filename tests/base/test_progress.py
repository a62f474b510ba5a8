"""Progress of DPPCA and of the search by votes: how far, and nothing of the rows."""

import numpy as np
import pytest
from sklearn.base import clone

from skdpspectral import (
    DPPCA,
    DPItemEmbedding,
    FederatedDPPCA,
    PrivacyAccountant,
    SparseDPPCA,
)
from skdpspectral.datasets import make_ratings
from skdpspectral.decomposition import ComponentCovariance
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV

pytestmark = [
    pytest.mark.skipif(
        not hasattr(DPPCA, "set_callbacks"), reason="scikit-learn has no callbacks"
    ),
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
]
ROWS = np.random.default_rng(0).normal(size=(2000, 4))


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


@pytest.mark.parametrize(
    ("parameters", "n_steps"),
    [({"center": "none"}, 1), ({"scale": "private"}, None), ({}, None)],
)
def test_components_count_their_releases(parameters, n_steps):
    spy, accountant = Spy(), PrivacyAccountant(allow_seeded=True)
    pca = DPPCA(2, accountant=accountant, noise_seed=0, **parameters)
    pca.set_callbacks(spy).fit(ROWS)
    assert spy.most == len(pca.privacy_.releases())
    assert 0 < spy.steps <= spy.most
    assert n_steps is None or spy.steps == n_steps
    assert not spy.seen
    assert spy.accountants == [None] * len(spy.accountants)
    assert spy.ended
    assert len(accountant.ledger) == 1
    alone = DPPCA(2, noise_seed=0, **parameters).fit(ROWS)
    np.testing.assert_array_equal(alone.components_, pca.components_)


def test_the_steps_are_those_of_public_choices_alone():
    """Other rows with the same released choices are as many steps."""
    steps = set()
    for scale in (1.0, 3.0):
        spy = Spy()
        DPPCA(2, center="pairs", noise_seed=0).set_callbacks(spy).fit(scale * ROWS)
        steps.add((spy.most, spy.steps))
    assert len(steps) == 1


def test_callbacks_of_components_without_privacy_see_the_rows():
    spy = Spy()
    DPPCA(2, center="none", epsilon=None).set_callbacks(spy).fit(ROWS)
    assert spy.seen[0] is ROWS
    assert spy.ended


def search_of(**parameters):
    return PrivateSearchCV(
        DPPCA(2),
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


RATINGS = make_ratings(300, 20, random_state=0)


@pytest.mark.parametrize(
    ("model", "data", "most"),
    [
        (FederatedDPPCA(1), (ROWS,), 1),
        (FederatedDPPCA(1, release=ComponentCovariance(3.0)), (ROWS,), 2),
        (SparseDPPCA(1, n_nonzero_features=2, n_rounds=3), (ROWS,), None),
        (
            DPItemEmbedding(items=20, rating_range=(1, 5)),
            (RATINGS.data, RATINGS.target),
            3,
        ),
        (
            DPItemEmbedding(items=20, method="residuals", rating_range=(1, 5)),
            None,
            None,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::skdpspectral.NoisyFitWarning")
def test_federations_and_embeddings_count_requests_or_releases(model, data, most):
    """Callbacks change nothing, and see the rows of a fit without a budget alone."""
    spy, data = Spy(), data or (RATINGS.data, RATINGS.target)
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
    assert spy.seen[0] is data[0]
