"""Plan and ledger of the private regression of users."""

import math

import numpy as np
import pytest
from lrs_tools import alike, scripted, table
from test_lrs_privacy import SETTINGS

from skdpspectral import (
    DPPCA,
    LedgerError,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral._linalg import per_user
from skdpspectral.accounting import gaussian_delta, gaussian_mu
from skdpspectral.linear_model import Alternation, PrivateRounds, _kernels_shared

X, Y = table(alike(5, 4, 4))
ROOT2 = math.sqrt(2.0)


def sensitivities(d=4, **parameters):
    plan = LRSRegressor(
        **{"solver": PrivateRounds(n_rounds=2), **parameters}
    ).privacy_plan(d)
    return {m.name: m.sensitivity for m in plan.mechanisms}


def stds(d=4, **parameters):
    plan = LRSRegressor(
        **{"solver": PrivateRounds(n_rounds=3), **parameters}
    ).privacy_plan(d)
    return {m.name: m.noise_std for m in plan.mechanisms}


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
    solver = PrivateRounds(2, init="random", **clips)
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
        solver=PrivateRounds(n_rounds=1, init="random", curvature_clip_norm=1.0),
        **replaced,
    ) == {
        "moments_1": 2.0,
        **dict.fromkeys(votes, 1.0),
    }


def test_replacement_takes_twice_the_noise_and_the_start_root_two():
    one, two = stds(), stds(neighbors="replace-one")
    for name, std in one.items():
        factor = ROOT2 if name == "start" else 2.0
        assert two[name] == pytest.approx(factor * std, rel=1e-3), name


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_medians_take_their_share_of_mu_squared(share):
    plan = LRSRegressor(
        solver=PrivateRounds(n_rounds=3, median_share=share)
    ).privacy_plan(4)
    shares = {m.name: m.mu**2 / plan.mu**2 for m in plan.mechanisms}
    for name, found in shares.items():
        median = name.startswith("median")
        wanted = share / 12 if median else (1 - share) / 3
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


class Watched:
    """Rows grouped by user, which note that the data were read."""

    def __init__(self, log):
        self.log, self.make = log, per_user.UserRows

    def __call__(self, *args, **kwargs):
        self.log.append("read")
        return self.make(*args, **kwargs)


def test_a_fit_is_charged_once_before_it_reads(monkeypatch):
    log, accountant = [], PrivacyAccountant(10.0, 1e-6)
    charge = accountant.charge

    def logged_charge(*args, **kwargs):
        charge(*args, **kwargs)
        assert len(accountant.ledger) == 1
        log.append("charged")

    monkeypatch.setattr(accountant, "charge", logged_charge, raising=False)
    monkeypatch.setattr(per_user, "UserRows", Watched(log))
    LRSRegressor(user_feature=0, accountant=accountant).fit(X, Y)
    assert log == ["charged", "read"]


def test_a_refused_fit_reads_nothing(monkeypatch):
    log, accountant = [], PrivacyAccountant(0.5, 1e-6)
    monkeypatch.setattr(per_user, "UserRows", Watched(log))
    model = LRSRegressor(user_feature=0, accountant=accountant)
    with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
        model.fit(X, Y)
    assert log == []
    assert len(accountant.ledger) == 0
    assert not hasattr(model, "n_features_in_")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SETTINGS)
def test_one_entry_a_fit_and_the_right_total(name):
    settings = {
        "user_feature": 0,
        "solver": PrivateRounds(n_rounds=2),
        **SETTINGS[name],
    }
    accountant = PrivacyAccountant()
    for epsilon in (1.0, 0.5):
        LRSRegressor(epsilon=epsilon, accountant=accountant, **settings).fit(X, Y)
    assert len(accountant.ledger) == 2
    mu = math.hypot(gaussian_mu(1.0, 1e-6), gaussian_mu(0.5, 1e-6))
    spent = accountant.spent(1e-6)
    if SETTINGS[name].get("n_components") == 0:
        assert spent.epsilon == 0.0
    else:
        assert gaussian_mu(spent.epsilon, 1e-6) == pytest.approx(mu, rel=1e-6)


FAILURES = {
    "NaN": ({}, {"X": np.where(X[3, 2] == X, np.nan, X)}),
    "infinite target": ({}, {"y": np.where(Y[3] == Y, np.inf, Y)}),
    "short targets": ({}, {"y": Y[1:]}),
    "no targets": ({}, {"y": None}),
    "no rows": ({}, {"X": X[:0], "y": Y[:0]}),
    "no such column": ({"user_feature": 7}, {}),
    "ids twice": ({}, {"users": X[:, 0]}),
    "missing ids": ({"user_feature": None}, {"users": [None] * len(Y)}),
    "few ids": ({"user_feature": None}, {"users": [1, 2]}),
    "components": ({"n_components": -1}, {}),
    "unknown users": ({"unknown_user": "raise"}, {}),
    "moments": ({"solver": PrivateRounds(init="moments")}, {}),
    "start of another shape": ({"solver": PrivateRounds(init=[[1.0, 2.0]])}, {}),
    "scale": ({"scale": [1.0, 0.0, 1.0, 1.0]}, {}),
    "clip": ({"solver": PrivateRounds(curvature_clip_norm=0.0)}, {}),
    "share": ({"solver": PrivateRounds(median_share=1.0)}, {}),
    "solver": ({"solver": Alternation()}, {}),
    "relation": ({"neighbors": "zero-out-one"}, {}),
}


# What is wrong there is a value: it is read after the charge.
IN_VALUES = {"NaN", "infinite target", "missing ids"}


@pytest.mark.parametrize("name", FAILURES)
def test_what_fails_before_values_are_read_costs_nothing(name, monkeypatch):
    parameters, arguments = FAILURES[name]
    log, accountant = [], PrivacyAccountant(10.0, 1e-6)
    monkeypatch.setattr(per_user, "UserRows", Watched(log))
    model = LRSRegressor(**{"user_feature": 0, "accountant": accountant, **parameters})
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError)):
        model.fit(**{"X": X, "y": Y, **arguments})
    assert log == []
    assert len(accountant.ledger) == (name in IN_VALUES)
    assert vars(model) == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"unknown_user": "raise"},
            "an error would reveal who was in the training set",
        ),
        ({"solver": Alternation(init="moments")}, "solver=.* needs epsilon=None"),
    ],
)
def test_what_would_leak_is_refused_under_a_budget_alone(parameters, message):
    with pytest.raises(ValueError, match=message):
        LRSRegressor(user_feature=0, **parameters).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        LRSRegressor(user_feature=0, **parameters).privacy_plan(4)
    exact = LRSRegressor(user_feature=0, epsilon=None, **parameters)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        exact.fit(X, Y)


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

    monkeypatch.setattr(_kernels_shared, "solve_moments", stop)
    with pytest.raises(error):
        model.fit(X, Y)
    assert len(accountant.ledger) == 1
    assert accountant.spent().epsilon == pytest.approx(1.0)
    assert vars(model) == before


def test_users_and_rows_in_one_ledger():
    """A user's guarantee holds for rows at four times the cost; not vice versa."""
    rows = PrivacyAccountant(10.0, 1e-6)
    DPPCA(1, accountant=rows).fit(X)
    LRSRegressor(user_feature=0, accountant=rows).fit(X, Y)
    one = gaussian_mu(1.0, 1e-6)
    total = gaussian_mu(rows.spent().epsilon, 1e-6)
    assert total == pytest.approx(math.hypot(one, 4 * one), rel=1e-6)
    replaced = PrivacyAccountant(10.0, 1e-6)
    DPPCA(1, accountant=replaced).fit(X)
    LRSRegressor(user_feature=0, neighbors="replace-one", accountant=replaced).fit(X, Y)
    total = gaussian_mu(replaced.spent().epsilon, 1e-6)
    assert total == pytest.approx(math.hypot(one, 2 * one), rel=1e-6)
    for neighbors in ("add-remove-one", "replace-one"):
        users = PrivacyAccountant(10.0, 1e-6)
        model = LRSRegressor(user_feature=0, neighbors=neighbors, accountant=users)
        model.fit(X, Y)
        with pytest.raises(LedgerError, match="per user"):
            DPPCA(1, accountant=users).fit(X)
        assert len(users.ledger) == 1
        assert users.spent().epsilon == pytest.approx(1.0)
    # The guarantee of a replacement does not say who took part.
    strict = PrivacyAccountant(10.0, unit="user", neighbors="add-remove-one")
    with pytest.raises(LedgerError, match="replace-one, which implies nothing"):
        LRSRegressor(user_feature=0, neighbors="replace-one", accountant=strict).fit(
            X, Y
        )


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({"epsilon": None, "solver": Alternation(tol=1e9)}, "epsilon=None"),
        ({"noise_seed": 0}, "seed|stat"),
    ],
)
def test_no_privacy_and_seeds_are_entered_as_such(parameters, refusal):
    tight, free = PrivacyAccountant(10.0, 1e-6), PrivacyAccountant()
    model = LRSRegressor(user_feature=0, accountant=free, **parameters).fit(X, Y)
    assert not model.privacy_.private
    assert free.spent().epsilon == math.inf
    with pytest.raises(PrivacyBudgetError, match=refusal):
        model.set_params(accountant=tight).fit(X, Y)
    assert len(tight.ledger) == 0
