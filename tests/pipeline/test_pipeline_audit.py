"""A statistical audit of a whole pipeline: below its claim, and not for lack of power.

The likelihood ratio of all releases of two steps that see the same rows, each of which
moves by its whole sensitivity. A Clopper-Pearson bound at 99 %: an honest pipeline is
refuted in at most 1 of 100 audits; seeds are fixed.
"""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion

from skdpspectral import DPPCA
from skdpspectral._release import noise
from skdpspectral.audit._epsilon import mu_lower_bound
from skdpspectral.pipeline import make_private_pipeline

N_TRIALS = 2_500
ROWS = np.zeros((4, 2))
ROWS[0], NEIGHBOR = [1.0, 0.0], np.zeros((4, 2))
NEIGHBOR[0] = [0.0, 1.0]
BRANCHES = [("a", DPPCA(1, center="none")), ("b", DPPCA(1, center="none"))]
PIPELINES = {
    "union": FeatureUnion(BRANCHES),
    "columns": ColumnTransformer([(name, step, [0, 1]) for name, step in BRANCHES]),
}
_add_noise = noise._add_noise


def releases(model, X, seeds, monkeypatch):
    """Return each release of each fit with its mechanism, and what it is exactly."""
    fits, exact = [], []

    def noted(mechanism, value, generator):
        exact.append(noise.mirror_lower(value.copy("F")))
        _add_noise(mechanism, value, generator)
        fits[-1].append((mechanism, noise.mirror_lower(value.copy("F"))))
        return value

    monkeypatch.setattr(noise, "_add_noise", noted)
    for seed in seeds:
        fits.append([])
        model._run_seed = seed
        model.fit(X)
    return fits, exact[: len(fits[0])]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:noise_seed is given")
@pytest.mark.parametrize(
    ("name", "shares"), [("union", (0.2, 0.8)), ("columns", "auto")]
)
def test_a_whole_pipeline_is_as_private_as_it_claims(name, shares, monkeypatch):
    step = type(PIPELINES[name]).__name__.lower()
    if shares != "auto":
        shares = {f"{step}__{b}": s for (b, _), s in zip(BRANCHES, shares, strict=True)}
    model = make_private_pipeline(PIPELINES[name], epsilon=8.0, shares=shares)
    claim = model.plan_for(ROWS).mu
    one, exact = releases(model, ROWS, range(N_TRIALS), monkeypatch)
    seeds = range(N_TRIALS, 2 * N_TRIALS)
    two, other = releases(model, NEIGHBOR, seeds, monkeypatch)
    assert len(exact) == len(BRANCHES)

    def scores(fits):
        """Return likelihood ratios; off-diagonals have half the variance, twice."""
        return [
            sum(
                np.sum((value - (a + b) / 2) * (b - a)) / mechanism.noise_std**2
                for (mechanism, value), a, b in zip(fit, exact, other, strict=True)
            )
            for fit in fits
        ]

    mu = mu_lower_bound(scores(one), scores(two), threshold=0.0, confidence=0.99)
    assert 0.9 * claim < mu <= claim, (mu, claim)
