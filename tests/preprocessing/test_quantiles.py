"""Private quantiles of columns, and private histograms of scores."""

import math
from functools import partial

import numpy as np
import pytest
from ledger_tools import refused

import skdpspectral as sk
from skdpspectral.accounting import gaussian_mu
from skdpspectral.plotting import ScoresDisplay
from skdpspectral.preprocessing import private_quantiles
from skdpspectral.preprocessing._quantiles import ColumnQuantiles, PairCounts

pytest.importorskip("matplotlib").use("Agg")
LEVELS = [0.1, 0.5, 0.9]

pytestmark = pytest.mark.filterwarnings("ignore:.*leave noise_seed=None")


def table(n_rows=20_000):
    rng = np.random.default_rng(0)
    return rng.normal([40.0, -6e4, 1e-9], [12.0, 2e4, 1e-10], size=(n_rows, 3))


class Exactly(list):
    """A release without noise, which keeps the statistics."""

    def __call__(self, name, value, *, overwrite=False):
        self.append(np.array(value))
        return self[-1]


def moved(statistic, one, other, *given):
    """Return by how much a replaced row moves all releases up to the first choice."""
    found = []
    for rows in (one, other):
        release = Exactly()
        statistic.run(release, rows, *given)
        found.append(release[0])
    return found[0] - found[1]


# -- quantiles -------------------------------------------------------------------------


def test_quantiles_are_those_of_numpy_without_noise():
    X = table()
    with pytest.warns(sk.PrivacyLeakWarning, match="epsilon=None"):
        found = private_quantiles(X, LEVELS, epsilon=None)
    # Between ranks, numpy interpolates.
    exact = np.quantile(X, LEVELS, axis=0)
    np.testing.assert_allclose(found, exact, rtol=2.0**-11 * 1.001)
    assert found.shape == (3, 3)


def test_quantiles_of_any_magnitude_are_near_the_true_ranks():
    """Each rank is within six deviations of one vote: false alarms below 1e-5."""
    X = table()
    found = private_quantiles(X, LEVELS, epsilon=1.0, noise_seed=0)
    noise = math.sqrt(9 * 24) / gaussian_mu(1.0, 1e-6)
    ranks = np.array([(row > X).sum(axis=0) for row in found])
    wanted = np.array(LEVELS)[:, None] * len(X)
    assert np.all(np.abs(ranks - wanted) < 6.0 * noise + 0.002 * len(X))


def test_missing_values_are_the_largest():
    X = table()[:, :1]
    X[:15_000] = np.nan
    low, high = private_quantiles(X, [0.1, 0.5], noise_seed=0)
    assert low < 100.0 < 1e300 < high


def test_a_row_moves_votes_by_the_sensitivity():
    rng = np.random.default_rng(0)
    statistic = ColumnQuantiles(6, 2, (0.2, 0.7))
    bound, largest = math.sqrt(4), 0.0
    for _ in range(300):
        one = rng.choice([-5.0, 0.0, 3.0, np.nan], size=(6, 2))
        other = one.copy()
        other[rng.integers(6)] = rng.choice([-5.0, 0.0, 3.0, np.nan], size=2)
        largest = max(largest, np.linalg.norm(moved(statistic, one, other)))
    assert largest == bound
    mu = 0.5
    (plan, *rest) = statistic.mechanisms(mu)
    assert len(rest) == 23
    assert plan.noise_std == pytest.approx(bound * math.sqrt(24) / mu, rel=1e-6)


def test_the_budget_is_charged_before_values_are_read():
    X = table(1000)
    X[0] = np.inf
    with sk.PrivacyAccountant(epsilon=1.0) as accountant:
        with pytest.raises(ValueError, match=r"infin.*this fit stays charged"):
            private_quantiles(X, 0.5)
        assert [entry.estimator for entry in accountant.ledger] == ["private_quantiles"]
        with pytest.raises(sk.PrivacyBudgetError):
            private_quantiles(X, 0.5)  # which would raise another error if it were read


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"q": 1.0}, "q must be"),
        ({"q": []}, "q must be"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"noise_seed": "no"}, "noise_seed"),
        ({"X": np.array([["a", "b"]])}, "X has dtype"),
        ({"X": [1.0, 2.0]}, "2D"),
    ],
)
def test_wrong_arguments_cost_nothing(given, message):
    with refused(message, (ValueError, TypeError)) as accountant, accountant:
        private_quantiles(**{"X": table(1000), **given})


def test_ranks_that_noise_hides_are_named():
    with pytest.warns(sk.NoisyFitWarning, match="first and last ranks"):
        private_quantiles(table(100), 0.01)


# -- histograms of scores --------------------------------------------------------------


def test_a_row_moves_counts_by_the_root_of_two():
    rng = np.random.default_rng(0)
    limits, largest = np.array([[-1.0, -1.0], [1.0, 1.0]]), [0.0, 0.0]
    statistic = PairCounts((2, 3, 3), 5)
    for _ in range(500):
        counts = []
        rows, groups = rng.normal(size=(5, 2)), rng.integers(-1, 2, size=5)
        for _ in range(2):
            release = Exactly()
            statistic.run(release, rows, limits, groups)
            counts.append(release[0])
            rows, groups = rows.copy(), groups.copy()
            rows[3], groups[3] = rng.normal(size=2), rng.integers(-1, 2)
        difference = np.subtract(*counts)
        for order in (1, 2):
            norm = np.linalg.norm(difference.ravel(), ord=order)
            largest[order - 1] = max(largest[order - 1], norm)
    assert largest == [2.0, math.sqrt(2.0)]
    (plan,) = statistic.mechanisms(0.5)
    assert plan.noise_std == pytest.approx(math.sqrt(2.0) / 0.5, rel=1e-6)


@pytest.fixture(scope="module")
def pca_and_rows():
    X = np.random.default_rng(0).normal(size=(4_000, 5)) * [5.0, 3.0, 1.0, 1.0, 1.0]
    return sk.DPPCA(2, epsilon=4.0).fit(X), X


def test_noise_of_counts_is_that_of_the_plan(pca_and_rows):
    """In 14,400 cells a variance is 6 % off in less than one of 1e6 seeds."""
    pca, X = pca_and_rows
    with sk.PrivacyAccountant() as accountant:
        display = ScoresDisplay.from_estimator(
            pca, X, groups=np.full(len(X), "b"), group_names=["a"], n_bins=120
        )
    assert [entry.estimator for entry in accountant.ledger] == ["ScoresDisplay"]
    mu = gaussian_mu(1.0, 1e-6) * math.sqrt(0.7)
    assert display.noise_std == pytest.approx(math.sqrt(2.0) / mu, rel=1e-4)
    # No row is of a group that is drawn.
    assert np.var(display.counts) == pytest.approx(display.noise_std**2, rel=0.06)


def test_counts_are_those_of_the_scores(pca_and_rows):
    pca, X = pca_and_rows
    signs = np.where(X[:, 0] > 0, "right", "left")
    draw = partial(ScoresDisplay.from_estimator, pca, X, epsilon=50.0, n_bins=8)
    display = draw(groups=signs, group_names=["left", "right"])
    for name, counts in zip(display.group_names, display.counts, strict=True):
        scores = pca.transform(X[signs == name]).T
        scores = np.clip(scores, display.edges[:, :1], display.edges[:, -1:])
        exact, _, _ = np.histogram2d(*scores, bins=display.edges)
        assert np.all(np.abs(counts - exact) < 8.0 * display.noise_std + 0.5)
    # Three deviations of scores are within the edges.
    reach = display.edges[:, -1] / pca.transform(X).std(axis=0)
    assert np.all((reach > 2.5) & (reach < 3.5))
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == [
        "left",
        "right",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": ["a"]}, "groups must have shape"),
        ({"n_bins": 0}, "n_bins"),
        ({"X": np.zeros((9, 4))}, "features"),
        ({"estimator": None}, "two components"),
    ],
)
def test_wrong_displays_cost_nothing(pca_and_rows, given, message):
    estimator, X = pca_and_rows
    if "estimator" in given:
        given = {"estimator": sk.DPPCA(1).fit(X)}
    with refused(message) as accountant, accountant:
        ScoresDisplay.from_estimator(**{"estimator": estimator, "X": X, **given})


def test_scores_are_charged_to_the_ledger_of_their_estimator():
    """Rows of users who have several are refused, before the charge."""
    X, ledger = np.random.default_rng(0).normal(size=(500, 4)), sk.PrivacyAccountant()
    pca = sk.DPPCA(2, accountant=ledger).fit(X)
    ScoresDisplay.from_estimator(pca, X)
    assert len(ledger.ledger) == 2
    pairs = np.column_stack([np.arange(300) // 3, np.arange(300) % 5])
    items = sk.DPItemEmbedding(
        2, items=range(5), rating_range=(1, 5), accountant=ledger
    )
    items.fit(pairs, np.arange(300) % 4 + 1.0)
    with pytest.raises(ValueError, match="protects users"):
        ScoresDisplay.from_estimator(items, pairs)
    assert len(ledger.ledger) == 3
