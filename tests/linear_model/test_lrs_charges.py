"""Plan and ledger of the private regression of users."""

import math

import numpy as np
import pytest
from lrs_tools import alike, scripted, table
from test_lrs_privacy import SETTINGS

from skdpspectral import LRSRegressor, PrivacyAccountant
from skdpspectral.accounting import gaussian_delta, gaussian_mu
from skdpspectral.linear_model import PrivateRounds, _kernels_lrs

X, Y = table(alike(5, 4, 4))
ROOT2 = math.sqrt(2.0)


def mechanisms(n_rounds=2, **parameters):
    given = {"solver": PrivateRounds(n_rounds=n_rounds), **parameters}
    return LRSRegressor(**given).privacy_plan(4).mechanisms


def sensitivities(**parameters):
    return {m.name: m.sensitivity for m in mechanisms(**parameters)}


# -- the plan --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_plan_costs_what_was_asked(name):
    for epsilon in (1e-3, 0.5, 1.0, 20.0):
        delta = 1e-7
        model = LRSRegressor(epsilon=epsilon, delta=delta, **SETTINGS[name])
        plan = model.privacy_plan(4)
        budget = gaussian_mu(epsilon, delta) if model.n_components else 0.0
        assert budget * (1 - 1e-10) <= plan.mu <= budget
        assert plan.mu == math.sqrt(sum(m.mu**2 for m in plan.mechanisms))
        assert gaussian_delta(plan.mu, epsilon) <= delta
        assert (plan.epsilon, plan.delta) == (epsilon, delta)
        assert (plan.unit, plan.neighbors) == ("user", model.neighbors)
        assert plan.assumption == "none"
        assert plan.private
        assert "billboard" in str(plan)
        for mechanism in plan.mechanisms:
            assert mechanism.mu == mechanism.charged_sensitivity / mechanism.noise_std
            assert mechanism.sensitivity > 0.99 * mechanism.charged_sensitivity
            # Sums of 2^32 users are exact, and so is noise on top of them.
            assert mechanism.magnitude >= 2.0**31
            assert mechanism.magnitude / mechanism.grid <= 2.0**51


@pytest.mark.parametrize("d", [1, 50, 150])
def test_plan_costs_what_was_asked_in_many_dimensions(d):
    plan = LRSRegressor(min(d, 2), solver=PrivateRounds(n_rounds=4)).privacy_plan(d)
    assert plan.mu == pytest.approx(gaussian_mu(1.0, 1e-6), rel=1e-10)
    rank = min(d, 2)
    curvature = rank * (rank + 1) * d * (d + 1) // 4
    assert plan["moments_3"].shape == (curvature + rank * d,)
    assert plan["start"].shape == (d * (d + 1) // 2,)


def test_planned_sensitivities():
    """The lemmas' numbers, written out once more."""
    votes = {f"median_{step}": 0.5 * ROOT2 for step in range(1, 13)}
    clips = {"curvature_clip_norm": 3.0, "gradient_clip_norm": 0.1}
    assert sensitivities() == {"start": 1.0, "moments_1": 1.0, **votes}
    assert list(sensitivities()) == ["start", *votes, "moments_1"]
    solver = PrivateRounds(2, init=np.eye(1, 4), **clips)
    assert sensitivities(solver=solver) == {"moments_1": 1.0, "moments_2": 1.0}
    one = dict.fromkeys(votes, 0.5)
    for name in ("curvature", "gradient"):
        solver = PrivateRounds(2, init=np.eye(1, 4), **{f"{name}_clip_norm": 3.0})
        found = sensitivities(solver=solver)
        assert found == {"moments_1": 1.0, "moments_2": 1.0, **one}
    assert sensitivities(solver=PrivateRounds(n_rounds=1)) == {"start": 1.0}
    assert sensitivities(n_components=0) == {}
    fixed = sensitivities(shared_weights="fixed", solver=PrivateRounds(2, **clips))
    assert fixed == {"moments_1": 1.0, "moments_2": 1.0}
    replaced = {"neighbors": "replace-one"}
    assert sensitivities(**replaced) == {
        "start": ROOT2,
        "moments_1": 2.0,
        **dict.fromkeys(votes, ROOT2),
    }
    assert sensitivities(
        solver=PrivateRounds(1, init=np.eye(1, 4), curvature_clip_norm=1.0), **replaced
    ) == {"moments_1": 2.0, **dict.fromkeys(votes, 1.0)}


def test_replacement_takes_twice_the_noise_and_the_start_root_two():
    twice = mechanisms(3, neighbors="replace-one")
    for one, two in zip(mechanisms(3), twice, strict=True):
        factor = ROOT2 if one.name == "start" else 2.0
        assert two.name == one.name
        assert two.noise_std == pytest.approx(factor * one.noise_std, rel=1e-3)


def test_medians_take_a_tenth_of_mu_squared():
    plan = LRSRegressor(solver=PrivateRounds(n_rounds=3)).privacy_plan(4)
    shares = {m.name: m.mu**2 / plan.mu**2 for m in plan.mechanisms}
    for name, found in shares.items():
        median = name.startswith("median")
        wanted = 0.1 / 12 if median else 0.9 / 3
        assert found == pytest.approx(wanted, rel=1e-9)
    assert len(shares) == 15


@pytest.mark.parametrize("name", SETTINGS)
def test_a_fit_releases_what_is_planned_and_says_the_same_plan(name):
    model = LRSRegressor(user_feature=0, **SETTINGS[name])
    with scripted() as asked:
        model.fit(X, Y)
    plan = model.privacy_plan(4 - (name == "offsets"))
    assert model.privacy_ == plan == model.plan_for(X)
    assert {key: value.shape for key, value in asked.items()} == {
        m.name: m.shape for m in plan.mechanisms
    }
    # The plan knows nothing of the data.
    assert model.plan_for(X[:1]) == plan


# -- the ledger ------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_is_cut_off_stays_charged_and_leaves_no_trace(error, monkeypatch):
    accountant = PrivacyAccountant(10.0, 1e-6)
    model = LRSRegressor(user_feature=0, accountant=accountant)
    before = dict(vars(model))
    steps = []

    def stop(*args, **kwargs):
        steps.append(1)
        if len(steps) == 2:
            raise error
        return np.ones((4, 1))

    monkeypatch.setattr(_kernels_lrs, "solve_moments", stop)
    with pytest.raises(error):
        model.fit(X, Y)
    assert len(accountant.ledger) == 1
    assert accountant.spent().epsilon == pytest.approx(1.0)
    assert vars(model) == before
