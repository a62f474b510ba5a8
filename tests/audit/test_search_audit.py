"""Audits of private scores and searches, on the releases that they make.

Clopper-Pearson limits at 99 %: an honest release is refuted in at most 1 of 100 audits.
"""

import math

import numpy as np
import pytest
from scipy.special import betaincinv

from skdpspectral import DPPCA
from skdpspectral._release.noise import noise_generator, release_entries
from skdpspectral._release.selection import SelectionRelease, VoteRelease
from skdpspectral.accounting import (
    calibrate_selection,
    gaussian_epsilon,
    gaussian_mu,
    selection_epsilon,
)
from skdpspectral.audit._epsilon import mu_lower_bound
from skdpspectral.mechanisms import PrivacyPlan
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, RandomRuns, Vote
from skdpspectral.model_selection._vote import VoteBudgets

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:noise_seed")]
DELTA = 1e-6


class Answers:
    """A classifier that says what a row's first column is."""

    def predict(self, X):
        """Return the first column."""
        return X[:, 0]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_score_comes_up_to_its_claim(epsilon):
    """One row of fifty is predicted rightly, or not: the release is one Gaussian."""
    X = np.zeros((50, 1))
    neighbor = X.copy()
    neighbor[0] = 1.0
    y, generator = np.zeros(50), noise_generator(0)
    scorer = make_private_scorer("accuracy", epsilon)
    plan = scorer.privacy_plan(50)
    sides = []
    for rows in (neighbor, X):
        mean = scorer.measure(Answers(), rows, y).values.mean()
        released = np.full(400_000, mean)
        release_entries(plan["score"], released, generator)
        sides.append(released)
    found = mu_lower_bound(*sides, threshold=0.5 - 0.5 / 50)
    assert found <= plan.mu
    assert gaussian_epsilon(found, DELTA) > 0.9 * epsilon


def epsilon_bound(first, second, delta, confidence=0.99):
    """Lower bound on epsilon from how often an event happens on each side."""
    alpha, n = (1.0 - confidence) / 2.0, len(first)
    hits, misses = int(np.sum(first)), int(np.sum(second))
    low = betaincinv(hits, n - hits + 1, alpha) if hits else 0.0
    high = betaincinv(misses + 1, n - misses, 1.0 - alpha) if misses < n else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0


@pytest.mark.parametrize("law", ["logarithmic", "geometric", "poisson"])
@pytest.mark.parametrize("epsilon", [4.0])
def test_the_best_of_gaussian_runs_stays_below_its_claim(law, epsilon):
    """The neighbor makes one candidate better and the other worse: another one wins."""
    selection = calibrate_selection("best", epsilon, DELTA, 10.0, law=law)
    mu, rng = selection.run_mu, np.random.default_rng(0)
    plan = PrivacyPlan(epsilon, DELTA, (selection,), "Search", seeded=True)
    sides = []
    for sign in (0.5, -0.5):

        def runs(candidates, sign=sign):
            for candidate, _ in candidates:
                shift = sign * mu if candidate["a"] else -sign * mu
                yield candidate["a"], rng.normal() + shift

        found = [
            SelectionRelease(plan, None, seed).best({"a": [0, 1]}, runs, lambda o: o[1])
            for seed in range(2500)
        ]
        sides.append(found)
    bound = max(
        epsilon_bound(*([one(o) for o in side] for side in sides), DELTA)
        for one in (
            lambda o: o is not None and o[0] == 1,
            lambda o: o is not None and o[0] == 1 and o[1] > 2.0,
            lambda o: o is not None and o[0] == 1 and o[1] > 1.0,
        )
    )
    assert 0.0 < bound <= selection_epsilon(selection, DELTA) <= epsilon


def test_a_whole_search_stays_below_its_claim():
    """A row decides which of two candidates is the better one."""
    X = np.repeat([[1.0, 0.0]], 12, axis=0)
    neighbor = X.copy()
    neighbor[:1] = [-1.0, 0.0]
    sides = []
    for rows in (neighbor, X):
        hits = []
        for seed in range(100):
            search = PrivateSearchCV(
                DPPCA(1, center="none"),
                {"clip_norm": [0.1, 1.0]},
                epsilon=4.0,
                strategy=RandomRuns(expected_n_iter=2, n_iter_law="geometric"),
                scoring=make_private_scorer("captured_variance", clip_norm=2.0),
                noise_seed=seed,
            ).fit(rows)
            hits.append(search.best_score_ > 0.5)
        sides.append(hits)
    assert epsilon_bound(*sides, DELTA) <= 4.0
    assert epsilon_bound(*sides[::-1], DELTA) <= 4.0


@pytest.mark.parametrize("epsilon", [4.0, 8.0])
def test_votes_and_fit_come_up_to_their_claim(epsilon):
    """The worst block: its votes on two challengers, and who beats whom, change places.

    The statistic is the likelihood ratio of all that is released. The exponential
    mechanism is a little better than the Gaussian one that it is charged as.
    """
    mu = gaussian_mu(epsilon, DELTA)
    budgets = VoteBudgets.within(mu, 0.5, lambda _: 40, 2, 1.0)
    plan = PrivacyPlan(epsilon, DELTA, budgets.mechanisms(), "Search", seeded=True)
    odds = 0.5 * budgets.challenger.epsilon
    sides = []
    for number, sign in enumerate((0.5, -0.5)):
        votes, statistics = np.array([20.0 + sign, 20.0 - sign]), []
        for seed in range(8000):
            release = VoteRelease(plan, None, [number, seed])
            choice = budgets.choose(release, votes, votes, 0.0)
            (fit,) = release("fit", [sign])
            which = 1.0 if choice.proposed == 1 else -1.0
            moved = which * (choice.support * 40 - 20.0) * budgets.support.mu**2
            statistics.append(which * odds + moved + fit * budgets.fit.mu**2)
        sides.append(np.array(statistics))
    found = mu_lower_bound(*sides[::-1], threshold=0.0)
    assert 0.8 * mu < found <= mu


def worst(model, X, y=None):
    """One row tells which candidate is the better one."""
    known = bool((X > 5.0).any())
    return float(known == (model.clip_norm == 9.0))


def test_a_whole_search_by_votes_stays_below_its_claim():
    X = np.random.default_rng(0).normal(size=(8, 2))
    neighbor = X.copy()
    neighbor[0] = 6.0
    sides = []
    for rows in (neighbor, X):
        hits = []
        for seed in range(150):
            search = PrivateSearchCV(
                DPPCA(1, center="none", clip_norm=1.0),
                {"clip_norm": [9.0]},
                epsilon=10.0,
                strategy=Vote(0.95, 2, min_block_size=4, cv=2, smooth=False),
                scoring=worst,
                noise_seed=seed,
            )
            hits.append(not search.fit(rows).kept_)
            assert search.n_blocks_ in (0, 2)
        sides.append(hits)
    assert 0.0 <= epsilon_bound(*sides, DELTA) <= 10.0
    assert epsilon_bound(*sides[::-1], DELTA) <= 10.0
