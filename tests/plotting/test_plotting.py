"""The curve of a score against epsilon: what it fits, spends, draws and refuses."""

import sys

import numpy as np
import pytest
from ledger_tools import refused
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline

from skdpspectral import (
    DPPCA,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import captured_variance
from skdpspectral.plotting import PrivacyUtilityDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

EPSILONS = [0.1, 1.0, 10.0]
DELTA = 1e-6


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def X():
    return make_spiked_covariance(600, 5, random_state=0)[0]


@pytest.fixture(scope="module")
def y(X):
    return (np.arange(len(X)) % 3 == 0).astype(int)


def from_estimator(estimator, X, *args, **kwargs):
    """Three epsilons, two folds, unless told otherwise."""
    kwargs = {"epsilons": EPSILONS, "cv": 2, "scoring": captured_variance, **kwargs}
    return PrivacyUtilityDisplay.from_estimator(estimator, X, *args, **kwargs)


def epsilon_of(estimator, X, y=None):
    """Give a score that is known beforehand."""
    estimator = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    epsilon = getattr(estimator, "epsilon", None)
    return 100.0 if epsilon is None else epsilon + estimator.n_components


def sum_of_rows(estimator, X, y=None):
    """Tell held-out folds apart."""
    return X.sum()


# -- the drawing -----------------------------------------------------------------------


def display_of_two(**kwargs):
    return PrivacyUtilityDisplay(
        epsilons=[2.0, 0.5], scores=[[0.7, 0.9], [0.2, 0.4]], **kwargs
    )


def test_band_and_line_are_at_the_scores():
    display = display_of_two(score_name="Kept")
    assert display.plot() is display
    x, mean = display.line_.get_data()
    np.testing.assert_array_equal(x, [0.5, 2.0])
    np.testing.assert_allclose(mean, [0.3, 0.8])
    corners = display.fill_between_.get_paths()[0].vertices
    np.testing.assert_allclose([corners[:, 1].min(), corners[:, 1].max()], [0.2, 0.9])
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_xlabel() == "epsilon"
    assert display.ax_.get_ylabel() == "Kept"
    assert display.figure_ is display.ax_.figure


def test_given_axes_and_styles_are_taken():
    _, ax = plt.subplots()
    display = display_of_two().plot(ax, marker="x", c="red")
    assert display.ax_ is ax
    assert ax.get_legend() is None
    assert ax.get_ylabel() == "Score"
    assert (display.line_.get_marker(), display.line_.get_color()) == ("x", "red")


@pytest.mark.parametrize(
    "epsilons", [[], [0.0, 1.0], [np.inf, 1.0], [np.nan], [[1.0]], 1.0, [1.0, 2.0, 1.0]]
)
def test_epsilons_out_of_range_are_refused(epsilons, X):
    with pytest.raises(ValueError, match="epsilons must be a sequence of distinct"):
        PrivacyUtilityDisplay(epsilons=epsilons, scores=[[1.0], [2.0]]).plot()
    with pytest.raises(ValueError, match="epsilons must be a sequence of distinct"):
        from_estimator(DPPCA(), X, epsilons=epsilons)


# -- from_estimator: what is fitted ----------------------------------------------------


def test_scores_rise_with_epsilon(X):
    pca = DPPCA(n_components=1)
    display = from_estimator(pca, X, epsilons=[1e-3, 1e4], cv=3)
    assert display.scores.shape == (2, 3)
    np.testing.assert_array_equal(display.epsilons, [1e-3, 1e4])
    low, high = display.scores.mean(axis=1)
    # Noise alone keeps 1/5 of the variance on average, the spike above 2/3.
    assert low < 0.5 < 2 / 3 < high
    assert display.ax_.get_ylabel() == "Captured variance"


def test_all_epsilons_see_the_same_folds_even_of_a_shuffling_splitter(X):
    folds = KFold(3, shuffle=True)
    display = from_estimator(DPPCA(), X, cv=folds, scoring=sum_of_rows)
    assert len(np.unique(display.scores)) == 3
    np.testing.assert_array_equal(display.scores, [display.scores[0]] * 3)
    splits = KFold(2).split(X)  # an iterator that is used up
    display = from_estimator(DPPCA(), X, cv=splits, scoring=sum_of_rows)
    halves = [X[:300].sum(), X[300:].sum()]
    np.testing.assert_allclose(display.scores, [halves] * 3)


def test_pipeline_with_a_classifier_takes_the_default_score(X, y):
    # The epsilon of SGDClassifier is that of a loss: not the one to vary.
    pipeline = make_pipeline(DPPCA(2), SGDClassifier("log_loss", random_state=0))
    assert "sgdclassifier__epsilon" in pipeline.get_params()
    display = from_estimator(pipeline, X, y, scoring=None)
    assert display.scores.shape == (3, 2)
    assert display.ax_.get_ylabel() == "Score"
    named = from_estimator(pipeline, X, y, scoring="neg_log_loss")
    assert named.ax_.get_ylabel() == "Negative log loss"


# -- from_estimator: what is spent -----------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_every_fit_is_in_the_ledger(X, n_jobs):
    accountant = PrivacyAccountant()
    pca = DPPCA(epsilon=3.0, accountant=accountant)
    from_estimator(pca, X, n_jobs=n_jobs)
    assert pca.epsilon == 3.0
    assert not hasattr(pca, "components_")
    epsilons = [entry.epsilon for entry in accountant.ledger]
    assert sorted(epsilons) == sorted(2 * EPSILONS)


def test_budget_that_runs_out_is_an_error_and_no_missing_score(X):
    accountant = PrivacyAccountant(epsilon=1.2, delta=DELTA)
    with pytest.raises(PrivacyBudgetError, match="still fits"):
        from_estimator(DPPCA(accountant=accountant), X, epsilons=[1.0])
    assert len(accountant.ledger) == 1


def test_warnings_of_fits_are_given(X):
    with pytest.warns(PrivacyLeakWarning, match="delta=0.01"):
        from_estimator(DPPCA(delta=0.01), X)


# -- from_estimator: what is refused, at no cost ---------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilons": [1.0, 1.0]}, "distinct"),
        ({"line_kws": {}}, "line_kws"),
        ({"scoring": ["accuracy", "f1"]}, "scoring must be a single score"),
        ({"scoring": {"a": captured_variance}}, "scoring must be a single score"),
        ({"scoring": "no such score"}, "scoring"),
        ({"cv": 1}, "n_splits=1"),
        ({"scoring": None}, "score"),
    ],
)
def test_mistakes_cost_nothing(X, kwargs, message):
    with refused(message, (ValueError, AttributeError, TypeError)) as accountant:
        from_estimator(DPPCA(accountant=accountant), X, **kwargs)


def test_candidates_are_named_where_there_are_several_or_none(X):
    both = make_pipeline(DPPCA(3), DPPCA(1))
    names = r"\['dppca-1__epsilon', 'dppca-2__epsilon'\]"
    with pytest.raises(ValueError, match=names):
        from_estimator(both, X)
    with pytest.raises(ValueError, match=r"must have one epsilon .*\[\]"):
        from_estimator(PCA(), X)


def test_missing_matplotlib_costs_nothing(X, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused("pip install matplotlib", ImportError) as accountant:
        from_estimator(DPPCA(accountant=accountant), X)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        display_of_two().plot()
