"""Displays of ledgers, components, streams, clients and audits: what they draw."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from skdpspectral import (
    DPPCA,
    DPRidge,
    PrivacyAccountant,
)
from skdpspectral.audit import audit_in_few_fits, pairs_of_features
from skdpspectral.plotting import (
    AuditDisplay,
    EffectsDisplay,
    LedgerDisplay,
)

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


# -- ledgers ---------------------------------------------------------------------------


def charged(accountant, epsilons):
    for epsilon in epsilons:
        accountant.charge(DPPCA(epsilon=epsilon).privacy_plan(1000, 5))
    return accountant


def test_ledger_is_drawn_as_it_was_after_each_entry():
    accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
    spent, left = [0.0], [accountant.remaining().epsilon]
    for epsilon in (0.5, 1.0, 0.1):
        charged(accountant, [epsilon])
        spent.append(accountant.spent().epsilon)
        left.append(accountant.remaining().epsilon)
    display = LedgerDisplay.from_accountant(accountant)
    np.testing.assert_array_equal(display.spent_.get_xdata(), range(4))
    np.testing.assert_allclose(display.spent_.get_ydata(), spent, rtol=1e-12)
    np.testing.assert_allclose(display.left_.get_ydata(), left, rtol=1e-12)
    np.testing.assert_array_equal(display.budget_.get_ydata(), [2.0, 2.0])
    assert display.ax_.get_ylabel() == "epsilon at delta=1e-06"
    assert legend_of(display) == ["spent", "left for one more fit", "budget"]
    assert len(accountant.ledger) == 3


def test_ledger_without_a_budget_has_no_level_and_nothing_left():
    display = LedgerDisplay.from_accountant(charged(PrivacyAccountant(), [1.0]))
    assert display.left_ is display.budget_ is None
    empty = LedgerDisplay.from_accountant(PrivacyAccountant())
    assert list(empty.spent_.get_ydata()) == [0.0]


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_ledger_says_where_its_cost_is_infinite():
    accountant = charged(PrivacyAccountant(), [1.0])
    DPPCA(epsilon=None, accountant=accountant).fit(np.eye(5))
    display = LedgerDisplay.from_accountant(accountant)
    assert np.isnan(display.spent_.get_ydata()).tolist() == [False, False, True]
    assert legend_of(display) == ["spent, infinite from entry 2 on"]


def test_long_ledgers_are_drawn_at_some_entries():
    accountant = charged(PrivacyAccountant(), [0.1] * 5)
    moments = accountant._over_time(3)
    assert [n_entries for n_entries, _, _ in moments] == [0, 2, 5]
    assert moments[-1][1] == accountant.spent()
    display = LedgerDisplay.from_accountant(accountant, c="red")
    assert display.spent_.get_color() == "red"


# -- audits ----------------------------------------------------------------------------


def test_rates_of_all_thresholds_and_curves():
    scores = [0.0, 1.0, 2.0, 3.0], [2.0, 4.0]
    result = SimpleNamespace(scores=scores, claimed_mu=1.0, mu=0.5)
    display = AuditDisplay.from_result(result)
    wrong, missed = display.rates_.get_data()
    np.testing.assert_allclose(wrong, [1, 0.75, 0.5, 0.25, 0, 0])
    np.testing.assert_allclose(missed, [0, 0, 0, 0.5, 0.5, 1])
    for line, mu in ((display.claim_, 1.0), (display.bound_, 0.5)):
        alphas, betas = line.get_data()
        np.testing.assert_allclose(betas, norm.cdf(norm.isf(alphas) - mu), atol=1e-12)
    labels = ["attack", "claim: mu=1", "found: at least mu=0.5"]
    assert legend_of(display) == labels


def test_curves_of_an_epsilon_and_a_delta():
    """No test of randomized response beats its errors, which attain the claim."""
    given = {"claimed_mu": None, "mu": None, "claimed_epsilon": 1.0, "epsilon": 0.5}
    scores = [0.0, 1.0], [0.0, 1.0]
    result = SimpleNamespace(scores=scores, delta=0.1, **given)
    display = AuditDisplay.from_result(result)
    for line, epsilon in ((display.claim_, 1.0), (display.bound_, 0.5)):
        alphas, betas = line.get_data()
        both = 0.9 / (1.0 + np.exp(epsilon))
        assert np.interp(both, alphas, betas) == pytest.approx(both, abs=0.01)
        np.testing.assert_allclose(betas[[0, -1]], [0.9, 0.0])
        assert np.all(betas + np.exp(epsilon) * alphas >= 0.9 - 1e-12)
    assert legend_of(display)[1:] == ["claim: epsilon=1", "found: at least epsilon=0.5"]


def test_audit_keeps_its_scores_for_the_curve():
    pca = DPPCA(1, epsilon=4.0, center="none")
    result = audit_in_few_fits(pca, pairs_of_features(29), 2, random_state=0)
    display = AuditDisplay.from_result(result)
    assert sum(len(scores) for scores in result.scores) == 812
    assert display.bound == result.mu
    # No test is better: rates are about those of the claim. An error of .1 is 4
    # deviations at 400 coins a side.
    wrong, missed = display.rates_.get_data()
    best = norm.cdf(norm.isf(wrong) - result.claimed_mu)
    assert np.max(np.abs(missed - best)) < 0.1
    assert "scores" not in repr(result)


def test_effects_are_drawn_about_the_means_of_features():
    X = np.random.default_rng(0).standard_normal((4000, 3))
    model = DPRidge(basis="additive", epsilon=8.0, noise_seed=0)
    model.fit(X + 5.0, np.sin(2.0 * X[:, 1]))
    display = EffectsDisplay.from_estimator(model, features=[1, 0])
    first, other = (line.get_ydata() for line in display.lines_)
    expected = np.sin(2.0 * np.linspace(-1.5, 1.5, 61))
    np.testing.assert_allclose(first[30:91], expected, atol=0.35)
    assert np.abs(other[20:101]).max() < 0.2
    assert first[60] == pytest.approx(0.0)
    assert display.lines_[0].get_label() == "x1"
    with pytest.raises(NotFittedError):
        EffectsDisplay.from_estimator(DPRidge())


def test_effects_of_seen_features_are_drawn_without_a_warning_of_names():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((4000, 3)) * [1.0, 0.0, 1.0]
    model = DPRidge(basis="additive", epsilon=8.0, noise_seed=0)
    with warnings.catch_warnings(record=True):
        model.fit(pd.DataFrame(X, columns=list("abc")), X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display = EffectsDisplay.from_estimator(model)
    assert sorted(line.get_label() for line in display.lines_) == ["a", "c"]
