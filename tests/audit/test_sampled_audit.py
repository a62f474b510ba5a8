"""Audits of Poisson samples: whole fits whose every step is a test of its claim.

One example has a gradient that is always clipped, along the first weight; all others
have none there. So each step of a fit is a draw of the mixture that the lemma on
sampled replacement compares, and a fit of thousands of steps as many draws. What an
event {loss > e} tells of the two data sets, P(event) - exp(e) Q(event), is at most the
delta that the curve of a step claims at e, and is that delta for the worst pair.
"""

import math

import numpy as np
import pytest
from release_tools import record_releases
from scipy.stats import norm

from skdpspectral import DPAdamRegressor
from skdpspectral.accounting._composition import composed_epsilon
from skdpspectral.mechanisms import SubsampledGaussian
from skdpspectral.neural_network import Adam

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
STEPS, N, SIZE = 10_400, 4, 3
# Deviations by which a claim is exceeded, or missed: by one seed of 3000 each.
FAR = norm.isf(1.0 / 3_000)
DELTAS = (0.1, 0.5)
# Moments, relation, the example's target on both sides, noise multiplier.
CASES = {
    "replaced": ("pp", "replace-one", (1e15, -1e15), 1.0),
    "leaves": ("jme", "zero-out-one", (1e15, None), 0.4),
}


def outcomes(seed, moments, neighbors, target, sigma):
    """Return each step's release along what the example adds, in units of that."""
    X, y = np.zeros((N, 1)), np.zeros(N)
    if target is not None:
        X[0], y[0] = 1e6, target
    model = DPAdamRegressor(
        target_bounds=(-1, 1),
        batch_size=SIZE,
        n_epochs=STEPS // 2,
        optimizer=Adam(
            1e-18, moments=moments, neighbors=neighbors, noise_multiplier=sigma
        ),
        noise_seed=seed,
    )
    with record_releases() as released:
        model.fit(X, y)
    (mechanism,) = model.privacy_.mechanisms
    rows = np.asarray(released["gradients"]).reshape(STEPS, -1)
    along = np.zeros(rows.shape[1])
    along[0] = -1.0  # the gradient is that of (output - target)^2 / 2
    if moments == "jme":
        # Recorded are the rows as they are released, squares with their weight.
        along[2] = math.sqrt(0.1)
    along /= np.linalg.norm(along)
    return rows @ along / mechanism.sensitivity, mechanism


def losses(x, q, sigma, replaced):
    """Return the logarithm of the ratio of the densities of both sides."""
    here = np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5) / sigma**2)
    if not replaced:
        return here
    return here - np.logaddexp(math.log1p(-q), math.log(q) + (-x - 0.5) / sigma**2)


def chances(threshold, q, sigma, replaced):
    """Return how probable an outcome beyond a threshold is, on either side."""
    means = (1.0, -1.0 if replaced else 0.0)
    tail = norm.sf(threshold / sigma)
    return [(1 - q) * tail + q * norm.sf((threshold - m) / sigma) for m in means]


def advantage(above, of_neighbor, epsilon, n):
    """Return P - exp(e) Q from two probabilities, and its deviation over n draws."""
    found = above - math.exp(epsilon) * of_neighbor
    variance = above * (1 - above) + math.exp(2 * epsilon) * of_neighbor * (
        1 - of_neighbor
    )
    return found, math.sqrt(variance / n)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_steps_on_samples_show_what_is_claimed_and_no_more(name):
    moments, neighbors, targets, given = CASES[name]
    replaced = neighbors == "replace-one"
    (x, mechanism), (z, _) = (
        outcomes(seed, moments, neighbors, target, given)
        for seed, target in enumerate(targets)
    )
    q, sigma = mechanism.sampling_probability, mechanism.noise_multiplier
    assert (q, sigma) == pytest.approx((SIZE / N, given), rel=1e-6)
    for together in (1, 2):
        n = STEPS // together
        claim = SubsampledGaussian("", q, sigma, together, replaced)
        for delta in DELTAS:
            epsilon = composed_epsilon(0.0, ((claim, 1),), delta)
            rates = [
                np.mean(
                    losses(side, q, sigma, replaced).reshape(n, together).sum(axis=1)
                    > epsilon
                )
                for side in (x, z)
            ]
            found, error = advantage(*rates, epsilon, n)
            assert found < delta + FAR * error, (together, delta, found)
            # The worst case is as bad as is claimed: else nothing was audited.
            assert found > delta - FAR * error - 1e-4, (together, delta, found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mistake", ["noise 10 % low", "samples 10 % larger"])
def test_power_of_the_audit_on_samples(name, mistake):
    """Computed: of single steps, the audit refutes either with more than .99."""
    _, neighbors, _, sigma = CASES[name]
    replaced, q, power = neighbors == "replace-one", SIZE / N, 0.0
    claim = SubsampledGaussian("", q, sigma, 1, replaced)
    for delta in DELTAS:
        epsilon = composed_epsilon(0.0, ((claim, 1),), delta)
        grid = np.linspace(-6.0, 8.0, 20_001)
        threshold = grid[np.argmax(losses(grid, q, sigma, replaced) > epsilon)]
        actual = (q, sigma / 1.1) if mistake.startswith("noise") else (1.1 * q, sigma)
        rates = chances(threshold, *actual, replaced)
        found, error = advantage(*rates, epsilon, STEPS)
        power = max(power, norm.cdf((found - delta) / error - FAR))
    assert power > 0.99
