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
    FederatedDPPCA,
    JMECovariance,
    PrivacyAccountant,
)
from skdpspectral._linalg import eigen
from skdpspectral._statistics.moments import Rows
from skdpspectral.audit import audit_in_few_fits, pairs_of_features
from skdpspectral.covariance import JointMoments, Window
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.plotting import (
    AuditDisplay,
    ClientWeightsDisplay,
    ComponentsDisplay,
    EffectsDisplay,
    LedgerDisplay,
    StreamDisplay,
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


# -- components ------------------------------------------------------------------------


def segments_of(errorbar):
    return np.array(errorbar[2][0].get_segments())[:, :, 1]


def test_intervals_are_deviations_times_the_normal_quantile():
    components, std = [[0.6, 0.8], [-0.8, 0.6]], [[0.1, 0.2], [0.3, 0.0]]
    given = {"components": components, "std": std, "feature_names": ["a", 2]}
    display = ComponentsDisplay(**given)
    assert display.plot() is display
    for k in range(2):
        ends = np.transpose(segments_of(display.errorbars_[k]))
        half = norm.ppf(0.975) * np.array(std[k])
        np.testing.assert_allclose(ends, [components[k] - half, components[k] + half])
    labels = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert labels == ["a", "2"]
    assert legend_of(display) == ["component 1", "component 2"]


def test_components_of_a_fit_cost_nothing_to_draw():
    X, _ = make_spiked_covariance(2000, 6, random_state=0)
    accountant = PrivacyAccountant()
    pca = DPPCA(2, accountant=accountant, noise_seed=0).fit(X)
    display = ComponentsDisplay.from_estimator(pca)
    assert display.std is pca.components_std_
    np.testing.assert_array_equal(
        display.errorbars_[0][0].get_ydata(), pca.components_[0]
    )
    assert len(accountant.ledger) == 1


@pytest.mark.filterwarnings("ignore:no mean was released")
def test_components_without_deviations_are_refused():
    X, _ = make_spiked_covariance(2000, 6, random_state=0)
    with pytest.raises(NotFittedError):
        ComponentsDisplay.from_estimator(DPPCA())
    pca = DPPCA(1).fit(X)
    assert pca.publish().components_std_.shape == (1, 6)
    pca.set_params(scale="ranks").fit(X)
    with pytest.raises(ValueError, match="components_std_; fit DPPCA with scale"):
        ComponentsDisplay.from_estimator(pca)


def pairs_of(X):
    """Differences of the rows that are paired."""
    rows = Rows(*X.shape)
    return np.concatenate([d.copy() for d in rows.differences(X).walk.blocks(X)])


@pytest.mark.slow
@pytest.mark.parametrize("center", ["none", "pairs"])
def test_deviations_are_those_of_repeated_fits(center):
    """Coverage is of 300 fits x 20 entries; an error of .02 is 7 deviations or more."""
    X, _ = make_spiked_covariance(
        2000, 10, n_components=2, signal_variance=[10, 4], random_state=0
    )
    if center == "none":  # of one length, to which all are clipped
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    pca = DPPCA(2, center=center)
    with pytest.warns(match="without privacy"):
        assert not pca.set_params(epsilon=None).fit(X).components_std_.any()
    # Rows of about the same length: those of the noiseless moment of unit rows.
    rows = X if center == "none" else pairs_of(X)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = eigen.top_eigh(rows.T @ rows / len(rows), 2)[1]
    errors, stds = [], []
    for seed in range(300):
        fit = pca.set_params(epsilon=1.0, noise_seed=seed).fit(X)
        signs = np.sign(np.sum(fit.components_ * expected, axis=1))
        errors.append(fit.components_ * signs[:, None] - expected)
        stds.append(fit.components_std_)
    covered = np.mean(np.abs(errors) <= norm.ppf(0.975) * np.array(stds))
    assert covered == pytest.approx(0.95, abs=0.02)
    # Medians: in one fit of two thousand, a false vote far away makes a clip too long.
    made = np.median(np.abs(errors), axis=0) / norm.ppf(0.75)
    np.testing.assert_allclose(np.median(stds, axis=0), made, rtol=0.25)


# -- streams ---------------------------------------------------------------------------


def test_stream_has_the_bands_of_its_path():
    X = np.random.default_rng(0).normal(0.2, 0.1, size=(400, 2))
    path = list(JMECovariance(noise_seed=0).release_path(X, every=100))
    display = StreamDisplay.from_path(path)
    assert display.steps == [100, 200, 300, 400]
    for j, line in enumerate(display.lines_):
        means = [release.location[j] for release in path]
        np.testing.assert_array_equal(line.get_ydata(), means)
        half = norm.ppf(0.975) * np.array([release.location_std for release in path])
        corners = display.bands_[j].get_paths()[0].vertices[:, 1]
        ends = [np.min(means - half), np.max(means + half)]
        np.testing.assert_allclose([corners.min(), corners.max()], ends)
    assert legend_of(display) == ["feature 0", "feature 1"]
    assert display.ax_.get_ylabel() == "released mean, 95% of the noise"


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["average", Window(50)])
def test_bands_of_streams_cover_as_many_exact_means_as_they_say(workload):
    """Steps of one stream are correlated: 200 streams, .03 is 5 deviations or more."""
    X = np.random.default_rng(0).normal(0.1, 0.3, size=(600, 3))
    covered, exact = [], JMECovariance(epsilon=None, workload=workload)
    with pytest.warns(match="without privacy"):
        means = [release.location for release in exact.release_path(X, every=150)]
    for seed in range(200):
        model = JMECovariance(workload=workload, noise_seed=seed)
        for release, mean in zip(model.release_path(X, every=150), means, strict=True):
            half = norm.ppf(0.975) * release.location_std
            covered.append(np.abs(release.location - mean) <= half)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize(
    ("moments", "given", "message"),
    [
        ("assume-centered", {}, "moments"),
        (JointMoments(second_workload=Window(5)), {}, "moments"),
        ("jme", {"line_width": 1}, "line_width"),
    ],
)
def test_streams_that_cannot_be_drawn_are_refused(moments, given, message):
    path = JMECovariance(moments=moments).release_path(np.eye(20), every=5)
    with pytest.raises((ValueError, AttributeError), match=message):
        StreamDisplay.from_path(path, **given)


# -- clients ---------------------------------------------------------------------------


def test_clients_are_ordered_by_weight():
    X, _ = make_spiked_covariance(3000, 5, random_state=0)
    clients = np.repeat(["c", "a", "b"], [500, 2000, 500])
    pca = FederatedDPPCA(1, noise_seed=0, weights={"c": 1, "a": 6, "b": 3})
    display = ClientWeightsDisplay.from_estimator(pca.fit(X, clients=clients))
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == ["c", "b", "a"]
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, [0.1, 0.3, 0.6])


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
