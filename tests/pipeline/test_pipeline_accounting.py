"""What pipelines cost, composed by dp-accounting, which knows nothing of this package.

Random pipelines have 2 to 6 private steps, in columns and nested pipelines, with a
last step on Poisson samples in half of them. A replaced row moves what it adds to a
sample from one end of a ball to the other: dp-accounting's REPLACE_ONE, whose
sensitivity is that of one row.
"""

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline

from skdpspectral import DPPCA, DPAdamClassifier, DPAdamRegressor, DPStandardScaler
from skdpspectral.mechanisms import SampledGaussian
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import PrivatePipeline

N_COLUMNS = 12


def random_pipeline(rng):
    """Return a pipeline of 2 to 6 private steps, and the number of them."""
    n_private, steps = int(rng.integers(2, 7)), []
    left = n_private - 1
    while left:
        kind = rng.choice(["one", "columns", "nested", "union"])
        size = min(left, int(rng.integers(1, 3)))
        inner = [DPStandardScaler() for _ in range(size)]
        if kind == "one":
            size, step = 1, DPPCA(N_COLUMNS)
        elif kind == "columns":
            ends = np.linspace(0, N_COLUMNS, size + 1).astype(int)
            parts = [
                (f"part{k}", scaler, list(range(ends[k], ends[k + 1])))
                for k, scaler in enumerate(inner)
            ]
            step = ColumnTransformer(parts)
        elif kind == "nested":
            step = make_pipeline(*inner)
        else:
            parts = [(f"part{k}", DPPCA(N_COLUMNS // size)) for k in range(size)]
            step = FeatureUnion(parts)
        steps.append((f"step{len(steps)}", step))
        left -= size
    n = int(10 ** rng.uniform(math.log10(30), 6))
    sampled = rng.random() < 0.5
    batch = max(1, int(n * 10 ** rng.uniform(-3, -0.5))) if sampled else n
    optimizer = Adam(sampling="poisson")
    final = DPAdamRegressor(
        target_bounds=(-1, 1),
        batch_size=batch,
        n_epochs=int(rng.integers(1, 20)),
        optimizer=optimizer,
    )
    if rng.random() < 0.5:
        final = DPAdamClassifier(
            classes=[0, 1], batch_size=batch, n_epochs=3, optimizer=optimizer
        )
    steps.append(("final", final))
    epsilon = float(10 ** rng.uniform(-1, 1))
    delta = float(10 ** rng.uniform(-8, -4))
    return PrivatePipeline(steps, epsilon=epsilon, delta=delta), n, n_private


def composed_epsilon(plan, delta):
    """Epsilon of a plan by dp-accounting, of its mechanisms as they are described."""
    mu = math.sqrt(
        sum(m.mu**2 for m in plan.mechanisms if not isinstance(m, SampledGaussian))
    )
    samples = [m for m in plan.mechanisms if isinstance(m, SampledGaussian)]
    if not samples:
        # Their tool takes a minute for what is known exactly: delta of a Gaussian.
        def excess(epsilon):
            tail = norm.logcdf(-mu / 2 - epsilon / mu) + epsilon
            return norm.cdf(mu / 2 - epsilon / mu) - math.exp(tail) - delta

        low, high = 0.0, 100.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return high
    (drawn,) = samples
    # Of the loss of one step: their grid must be finer than that.
    q, sigma = drawn.sampling_probability, drawn.noise_multiplier
    deviation = min(2.0 / sigma, 2.0 * q * math.sqrt(math.expm1(min(sigma**-2, 50.0))))
    step = min(1e-3, 0.02 * deviation)
    one = pld.from_gaussian_mechanism(
        sigma,
        sensitivity=1.0,
        value_discretization_interval=step,
        sampling_prob=q,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    whole = one.self_compose(drawn.max_steps)
    if mu:
        gaussians = pld.from_gaussian_mechanism(
            1.0 / mu, value_discretization_interval=step
        )
        whole = whole.compose(gaussians)
    return whole.get_epsilon_for_delta(delta)


def check(seed):
    model, n, n_private = random_pipeline(np.random.default_rng(seed))
    plan = model.privacy_plan(n, N_COLUMNS)
    assert len(plan.mechanisms) == n_private
    assert (plan.epsilon, plan.delta) == (model.epsilon, model.delta)
    found = composed_epsilon(plan, model.delta)
    assert 0.98 * model.epsilon <= found <= model.epsilon * (1.0 + 1e-6), (
        seed,
        found / model.epsilon,
    )


@pytest.mark.parametrize("seed", range(10))
def test_random_pipelines_cost_what_was_asked_for(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("decade", range(1, 20))
def test_more_random_pipelines(decade):
    for seed in range(10 * decade, 10 * decade + 10):
        check(seed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch_size", [400, 50])
def test_each_step_costs_what_was_planned(batch_size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, N_COLUMNS))
    final = DPAdamClassifier(classes=[False, True], batch_size=batch_size, n_epochs=2)
    model = PrivatePipeline(
        [("scaler", DPStandardScaler()), ("pca", DPPCA(3)), ("final", final)],
        epsilon=2.0,
    )
    planned = {m.name: m for m in model.plan_for(X).mechanisms}
    model.fit(X, X[:, 0] > 0)
    for name, mechanism in planned.items():
        plan = model[name].privacy_
        if isinstance(mechanism, SampledGaussian):
            (curve,), wanted = plan.curves, mechanism.curve("replace-one")
            assert curve.sampling_probability == wanted.sampling_probability
            assert curve.steps == wanted.steps
            assert curve.noise_multiplier >= wanted.noise_multiplier * (1 - 1e-12)
            assert curve.noise_multiplier <= wanted.noise_multiplier * (1 + 1e-6)
        else:
            assert plan.mu <= mechanism.mu * (1 + 1e-12)
            assert plan.mu == pytest.approx(mechanism.mu, rel=1e-9)
