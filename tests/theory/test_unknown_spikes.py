"""A spiked model with private variances: its bounds, its plan, and what it refuses."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, chi2, norm
from sklearn.base import clone

from skdpspectral import FederatedDPPCA, PrivacyAccountant
from skdpspectral._linalg.walks import RowWalk, Walked
from skdpspectral.accounting import gaussian_mu
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition import SpikedModel, SpikedPCA
from skdpspectral.decomposition._spiked import (
    STEPS,
    PrivateScales,
    SignalBound,
    UnknownSpikes,
    chi_square_median,
)
from skdpspectral.metrics import subspace_distance
from skdpspectral.sensitivity import spiked_projector_sensitivity

PRIVATE = SpikedModel("private", "private")

SIGNAL, RANK, P = 3.0, 2, 7


class Noisy:
    """A release that adds noise, and keeps what it was given and what it gave."""

    def __init__(self, plan, rng, std=None):
        self.plan, self.given, self.gave = plan, {}, {}
        self._rng, self._std = rng, std

    def __call__(self, name, value, overwrite=False):
        self.given[name] = np.array(value, dtype=float)
        std = self._std or self.plan[name].noise_std
        noise = std * self._rng.standard_normal(self.given[name].shape)
        symmetric = name in ("projector", "direction_moment")
        noise = np.tril(noise) + np.tril(noise, -1).T if symmetric else noise
        self.gave[name] = value + noise
        return self.gave[name].copy()


def votes(n, std, directions, rng, norm_range=(1e-3, 1e3)):
    """Cells of lengths of rows of the model, by noisy votes."""
    spread = np.sqrt(np.r_[np.full(RANK, SIGNAL + 1.0), np.ones(P - RANK)])
    rows = Walked(rng.standard_normal((n, P)) * spread, RowWalk())
    scales = PrivateScales(n, P, norm_range)
    plan = {"quantile_1": SimpleNamespace(noise_std=std)}
    return scales.run(Noisy(plan, rng, std), rows, directions)


def test_the_bound_is_above_the_signal_as_seldom_as_it_says():
    # The directions are the model's, for which it is tightest. More than a tenth of 300
    # draws and 4.5 deviations is a false alarm with a probability below 1e-5. What
    # medians say without allowance is above the signal in about half of the draws.
    rng, n, std, failure = np.random.default_rng(0), 400, 12.0, 0.1
    bound = SignalBound(n, std, (RANK, P - RANK), failure)
    medians = [chi_square_median(k) for k in (RANK, P - RANK)]
    above, without = 0, 0
    for _ in range(300):
        cells = votes(n, std, np.eye(RANK, P), rng)
        above += bound.signal(cells[0].low, cells[1].high) > SIGNAL
        ratio = cells[0].middle / medians[0] / (cells[1].middle / medians[1])
        without += ratio - 1.0 > SIGNAL
    limit = 300 * failure + 4.5 * math.sqrt(300 * failure * (1.0 - failure))
    assert above <= limit < without


@pytest.mark.parametrize(
    ("n", "std", "rank", "others", "failure"),
    [(401, 12.3, 2, 5, 0.1), (5000, 30.1, 1, 19, 5e-7), (300, 20.7, 3, 3, 1e-4)],
)
def test_the_bound_is_that_of_the_statement(n, std, rank, others, failure):
    """Written down once more, by the laws of scipy.stats."""
    bound, e = SignalBound(n, std, (rank, others), failure), failure / 4
    reach = -std * norm.ppf(e / 12)
    k, least = math.floor(n / 2 + reach), math.ceil(n / 2 - reach)
    along = chi2.ppf(beta.isf(e, k + 1, n - k), rank)
    across = chi2.ppf(beta.ppf(e, least, n - least + 1), others)
    assert (bound.along, bound.across) == pytest.approx((along, across), rel=1e-9)
    ratio = (7.0 / along) / (0.3 / across) - 1.0
    assert bound.signal(7.0, 0.3) == pytest.approx(max(ratio, 0.0), rel=1e-5)


def test_ends_that_no_vote_moved_are_no_ends():
    rng = np.random.default_rng(5)
    for norm_range, (low, high) in (
        ((1e-9, 1e-3), (True, False)),
        ((1e3, 1e9), (False, True)),
    ):
        for cell in votes(1000, 1.0, np.eye(RANK, P), rng, norm_range):
            assert (cell.low > 0.0, cell.high < math.inf) == (low, high)


def ends_of(votes, norm_range):
    """The ends of a bisection, by the signs of its votes; 0 and infinity at first."""
    logs, moved = 2.0 * np.log(norm_range), [False, False]
    for vote in votes:
        upper = int(vote > 0.0)
        logs[upper], moved[upper] = logs.mean(), True
    return np.exp(logs[0]) * moved[0], np.exp(logs[1]) if moved[1] else math.inf


@pytest.mark.parametrize("seed", range(3))
def test_what_is_released_is_by_the_votes_of_the_second_half(seed):
    n, p, rank, norm_range = 4001, 6, 2, (1e-6, 1e6)
    X, _ = make_spiked_covariance(n, p, n_components=rank, random_state=seed)
    statistic = UnknownSpikes(n, p, rank)
    plan = statistic.plan(2.0, 1e-5, estimator="DPPCA")
    release = Noisy(plan, np.random.default_rng(seed))
    statistic.run(release, X)
    U = np.linalg.eigh(release.gave["direction_moment"])[1][:, -rank:]
    voters = X[n // 2 :]
    along = ((voters @ U) ** 2).sum(axis=1)
    middle = np.prod(norm_range)
    for part, squares in enumerate((along, (voters**2).sum(axis=1) - along)):
        exact = (squares <= middle).sum() - len(voters) / 2
        assert release.given["quantile_1"][part] == exact
    said = np.array([release.gave[f"quantile_{step}"] for step in range(1, 13)])
    low, high = ends_of(said[:, 0], norm_range)[0], ends_of(said[:, 1], norm_range)[1]
    failure, std = 0.5 * plan.failure, plan["quantile_1"].noise_std
    bound = SignalBound(len(voters), std, (rank, p - rank), failure)
    signal = bound.signal(low, high)
    wanted = math.sqrt(2.0 * rank)
    if signal >= 0.05:
        model = [signal] * rank, 1.0, n, p, failure
        wanted = min(spiked_projector_sensitivity(*model), wanted)
    divisor = math.sqrt(rank) / np.linalg.norm(release.given["projector"])
    assert divisor == pytest.approx(wanted, rel=1e-9)


def test_roundings_count_as_what_the_bound_makes_of_them():
    statistic = UnknownSpikes(5000, 9, 1)
    plan = statistic.plan(1.0, 1e-5, estimator="DPPCA")
    least = spiked_projector_sensitivity([1e4], 1.0, 5000, 9, 0.5 * plan.failure)
    # Of a signal that is a twentieth of the noise, over the least bound.
    assert plan["projector"].summation_error >= 2.0**-44 * 9 * 21.0 / least
    assert plan["projector"].magnitude >= 1.0 / least


def test_other_directions_lower_the_bound():
    rng, half = np.random.default_rng(1), math.sqrt(0.5)
    bound = SignalBound(20_000, 20.0, (RANK, P - RANK), 1e-6)
    turned = np.eye(RANK, P) * half + np.eye(RANK, P, RANK) * half
    found = []
    for directions in (np.eye(RANK, P), turned):
        cells = votes(20_000, 20.0, directions, rng)
        found.append(bound.signal(cells[0].low, cells[1].high))
    assert SIGNAL > found[0] > 0.7 * SIGNAL
    assert found[1] < 0.6 * found[0]


def test_votes_that_say_nothing_bound_nothing():
    bound = SignalBound(100, 1.0, (1, 5), 1e-6)
    assert bound.signal(0.0, 1.0) == 0.0
    assert bound.signal(1.0, math.inf) == 0.0
    drowned = SignalBound(100, 100.0, (1, 5), 1e-6)
    assert drowned.signal(50.0, 1.0) == 0.0
    assert SignalBound(10**6, 1.0, (1, 5), 1e-6).signal(1e30, 1.0) == 1e4
    assert STEPS == 12  # which the plan and the allowance for noise share


@pytest.mark.parametrize(("n", "p", "rank"), [(300, 5, 1), (2000, 20, 3), (50, 8, 2)])
def test_the_sensitivity_falls_with_the_signal(n, p, rank):
    ratios = np.geomspace(0.05, 1e4, 60)
    bounds = [
        spiked_projector_sensitivity([ratio] * rank, 1.0, n, p, 1e-6)
        for ratio in ratios
    ]
    with np.errstate(invalid="ignore"):
        steps = np.diff(bounds)
    # Roots are found up to 1e-4.
    assert np.all((steps <= 2e-4 * np.array(bounds[1:])) | np.isnan(steps))
    assert bounds[-1] < 0.1


def statement(s, level, z, w):
    """The right-hand side of statement 1, for one level of statement 2."""
    a0, b, nu, n = level
    a = a0 * s**2
    below = a - b - nu**2 / n
    theta = min(1.0, nu * math.sqrt(a / n) / below) if below > 0.0 else 1.0
    v, gap = w + theta * s * z, n * (a - b)
    return math.sqrt(2) * (s * z + theta * w) * v / (gap - v**2) if gap > v**2 else 1e9


def test_the_bound_of_each_pair_falls_with_the_signal():
    rng = np.random.default_rng(2)
    for _ in range(300):
        level = rng.uniform(0.1, 1), rng.uniform(0.5, 3), rng.uniform(0.5, 9), 50
        z, w = rng.chisquare([2, 9]) ** 0.5
        values = [statement(s, level, z, w) for s in np.geomspace(1.0, 60.0, 200)]
        assert np.all(np.diff(values) <= 1e-12 * np.abs(values[1:]))


def test_the_projector_is_over_a_bound_for_the_true_signal():
    X, _ = make_spiked_covariance(20_000, 10, random_state=0)
    statistic = UnknownSpikes(20_000, 10, 1)
    plan = statistic.plan(1.0, 1e-5, estimator="DPPCA")
    release = Noisy(plan, np.random.default_rng(3))
    statistic.run(release, X)
    divisor = 1.0 / np.linalg.norm(release.given["projector"])
    truth = spiked_projector_sensitivity([10.0], 1.0, 20_000, 10, 0.5 * plan.failure)
    assert truth < divisor < 1.6 * truth
    assert plan["projector"].sensitivity == 1.0
    assert np.abs(release.given["projector"]).max() < plan["projector"].magnitude
    # Directions are those of the first half, and voters the others.
    half = X[:10_000] / np.linalg.norm(X[:10_000], axis=1, keepdims=True)
    moment = np.tril(half.T @ half) / 10_000
    np.testing.assert_allclose(np.tril(release.given["direction_moment"]), moment)
    assert np.abs(release.given["quantile_1"]).max() <= 5_000


def test_without_a_bound_noise_is_for_any_two_projectors():
    rows = np.random.default_rng(0).standard_normal((3000, 6))
    statistic = UnknownSpikes(3000, 6, 1)
    release = Noisy(
        statistic.plan(1.0, 1e-5, estimator="DPPCA"), np.random.default_rng(4)
    )
    statistic.run(release, rows)
    divisor = 1.0 / np.linalg.norm(release.given["projector"])
    assert divisor == pytest.approx(math.sqrt(2))


def test_the_plan_adds_up_and_says_what_it_rests_on():
    plan = SpikedPCA(1, delta=1e-5).privacy_plan(10_000, 20)
    assert plan.failure == pytest.approx(1e-6)
    assert plan.mu <= gaussian_mu(1.0, 9e-6) < 1.001 * plan.mu
    names = [mechanism.name for mechanism in plan.mechanisms]
    assert names[0] == "direction_moment"
    assert names[-1] == "projector"
    assert len(names) == STEPS + 2
    assert plan.assumption == "spiked-gaussian"
    assert "whatever its variances" in plan.details()


def test_components_and_variances_are_found():
    X, truth = make_spiked_covariance(50_000, 10, n_components=2, random_state=0)
    pca = SpikedPCA(2, noise_seed=0).fit(X)
    assert subspace_distance(pca.components_, truth) < 0.1
    np.testing.assert_allclose(pca.explained_variance_, 11.0, rtol=0.15)
    assert pca.noise_variance_ == pytest.approx(1.0, rel=0.1)


@pytest.mark.filterwarnings("ignore:epsilon=None")
def test_without_privacy_it_is_pca():
    X, _ = make_spiked_covariance(500, 6, random_state=0)
    pca = SpikedPCA(1, epsilon=None).fit(X)
    wanted = np.linalg.eigh(X.T @ X)[1][:, -1:]
    assert subspace_distance(pca.components_, wanted.T) < 1e-7


@pytest.mark.parametrize(
    ("parameters", "shape", "said"),
    [
        ({"noise_variance": 1.0}, (100, 5), 'both "private"'),
        ({"signal_variance": 1.0}, (100, 5), 'both "private"'),
        (
            {"signal_variance": "secret", "noise_variance": "secret"},
            (100, 5),
            "private",
        ),
        ({"mean": "unknown"}, (100, 5), "mean="),
        ({"calibration": "paper"}, (100, 5), "calibration="),
        ({"release": "covariance"}, (1000, 5), "needs public variances"),
        ({}, (8, 5), "more rows"),
        ({"delta": 1e-15}, (1000, 5), "too small"),
    ],
)
def test_what_has_no_bound_is_refused(parameters, shape, said):
    with pytest.raises(ValueError, match=said):
        SpikedPCA(1, **parameters).privacy_plan(*shape)


def test_clients_with_private_variances():
    """Clients of larger budgets count for more, by the error that is expected."""
    X, components = make_spiked_covariance(60_000, 10, random_state=0)
    budgets = {0: 0.3, 1: 1.0, 2: 2.0}
    pca = FederatedDPPCA(1, mechanism=PRIVATE, epsilon=budgets)
    pca.fit(X, clients=np.repeat([0, 1, 2], 20_000))
    assert abs(components[0] @ pca.components_[0]) > 0.999
    assert np.all(np.diff(pca.client_weights_) > 0.0)
    assert 0.9 < pca.noise_variance_ < 1.1
    for _, plan in pca.privacy_.blocks:
        assert plan.assumption == "spiked-gaussian"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"mechanism__release": "covariance"}, "needs public variances"),
        ({"aggregation": "matrix"}, "needs? public variances"),
    ],
)
def test_what_clients_need_public_variances_for(parameters, said):
    X = np.zeros((40, 5))
    accountant = PrivacyAccountant()
    pca = FederatedDPPCA(1, mechanism=clone(PRIVATE), accountant=accountant)
    pca.set_params(**parameters)
    with pytest.raises(ValueError, match=said):
        pca.fit(X, clients=np.arange(40) % 2)
    assert not len(accountant.ledger)
