"""Audits of private scores and searches, on the releases that they make.

Clopper-Pearson limits at 99 %: an honest release is refuted in at most 1 of 100 audits.
"""

import numpy as np
import pytest

from skdpspectral._release.noise import noise_generator, release_entries
from skdpspectral._release.selection import VoteRelease
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.audit._bounds import bound_at, gaussian_curve
from skdpspectral.mechanisms import PrivacyPlan
from skdpspectral.metrics import make_private_scorer
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
        mean = scorer.measure(Answers(), rows, y).mean()
        released = np.full(400_000, mean)
        release_entries(plan["score"], released, generator)
        sides.append(released)
    found = bound_at(*sides, 0.5 - 0.5 / 50, gaussian_curve, 0.99)
    assert found <= plan.mu
    assert gaussian_epsilon(found, DELTA) > 0.9 * epsilon


@pytest.mark.parametrize("epsilon", [4.0, 8.0])
def test_votes_and_fit_come_up_to_their_claim(epsilon):
    """The worst block: its votes on two challengers, and who beats whom, change places.

    The statistic is the likelihood ratio of all that is released. The exponential
    mechanism is a little better than the Gaussian one that it is charged as.
    """
    mu = gaussian_mu(epsilon, DELTA)
    budgets = VoteBudgets.within(mu, 40, 2, 1.0)
    plan = PrivacyPlan(epsilon, DELTA, budgets.mechanisms, "Search", seeded=True)
    challenger, support, last = budgets.mechanisms
    odds = 0.5 * challenger.epsilon
    sides = []
    for number, sign in enumerate((0.5, -0.5)):
        votes, statistics = np.array([20.0 + sign, 20.0 - sign]), []
        for seed in range(8000):
            release = VoteRelease(plan, None, [number, seed])
            choice = budgets.choose(release, votes, votes)
            (fit,) = release("fit", [sign])
            which = 1.0 if choice.proposed == 1 else -1.0
            moved = which * (choice.support * 40 - 20.0) * support.mu**2
            statistics.append(which * odds + moved + fit * last.mu**2)
        sides.append(np.array(statistics))
    found = bound_at(*sides[::-1], 0.0, gaussian_curve, 0.99)
    assert 0.8 * mu < found <= mu


def worst(model, X, y=None):
    """One row tells which candidate is the better one."""
    known = bool((X > 5.0).any())
    return float(known == (model.n_components == 2))
