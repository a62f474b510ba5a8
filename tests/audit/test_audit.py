"""Audits of whole fits by the public way, and the refusals of it."""

import numpy as np
import pytest
from sklearn.base import clone
from worst_cases import CASES, plays

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.audit import Canaries, audit_in_few_fits, pairs_of_features

PCA = DPPCA(1, epsilon=4.0, center="none")
X = np.eye(5, 2)
NEIGHBOR = np.vstack([[0.0, 1.0], X[1:]])


def second(model, released):
    """Tell the two tables apart."""
    return released["second_moment"][1, 1]


def two_tables(one, other, statistic, **guarantee):
    """Let one coin decide between the data of two fits."""
    return Canaries(
        1,
        lambda coins: other if coins[0] else one,
        lambda model, released: [statistic(model, released)],
        **guarantee,
    )


# Cases whose first releases move alone, or of one release.
UNSEEDED = ("pca", "network-classes", "lrs-replaced-start", "clicks", "jme")
UNSEEDED += ("federated-matrix",)


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("name", UNSEEDED)
def test_audits_of_whole_fits_see_what_is_really_drawn(name):
    """Without a seed, by the public way: a sound fit is refuted once in a billion."""
    case = CASES[name]
    one, two = (played.tape.asked[-1] for played in plays(case))
    change = two.exact - one.exact

    def statistic(model, released):
        return np.vdot(change, released[one.mechanism.name].reshape(change.shape))

    plan = case.model.plan_for(case.one[0])
    guarantee = {"unit": plan.unit, "neighbors": plan.neighbors}
    tables = two_tables(case.one, case.other, statistic, **guarantee)
    given = {"assume": "gaussian", "confidence": 1.0 - 1e-9}
    result = audit_in_few_fits(clone(case.model), tables, 400, **given)
    assert not result.violated, str(result)
    assert result.mu > 0.35 * result.claimed_mu, str(result)


def test_one_fit_certifies_most_of_a_gaussian_release():
    """A sound fit is refuted once in a million."""
    result = audit_in_few_fits(
        PCA,
        pairs_of_features(100),
        1,
        assume="gaussian",
        confidence=1.0 - 1e-6,
        random_state=0,
    )
    assert 0.8 * result.claimed_mu < result.mu < result.claimed_mu
    assert result.repeated is None
    assert result.epsilon == gaussian_epsilon(result.mu, 1e-6)
    assert result.n_coins == len(result.scores[0]) + len(result.scores[1]) == 4950


@pytest.mark.parametrize(
    "claim", [{"mu": 1.0}, {"epsilon": gaussian_epsilon(1.0, 1e-3), "delta": 1e-3}]
)
@pytest.mark.parametrize("assume", ["nothing", "gaussian"])
def test_a_function_with_too_little_noise_is_refuted(assume, claim):
    """Its claim is the mu of deviation 1, and it draws .4: any audit sees that."""
    rng = np.random.default_rng(0)
    coins = Canaries(500, lambda coins: (coins,), lambda found, released: found)
    for deviation in (1.0, 0.4):
        result = audit_in_few_fits(
            lambda coins, d=deviation: coins + d * rng.standard_normal(len(coins)),
            coins,
            10,
            assume=assume,
            random_state=0,
            **claim,
        )
        assert result.violated == (deviation < 1.0)
        assert (result.mu is None) == ("mu" not in claim)
        assert ("REFUTED" in str(result)) == result.violated


def coins_as_rows(n_coins):
    """Canaries whose data are the coins, and what is published are scores."""
    return Canaries(n_coins, lambda coins: (coins,), lambda found, _: found)


@pytest.mark.parametrize(
    ("n_fits", "n_coins", "epsilon"), [(1, 300, 2.0), (1, 1_770, 0.5), (800, 1, 1.0)]
)
def test_few_coins_without_any_noise_refute_a_claim(n_fits, n_coins, epsilon):
    given = {"n_fits": n_fits, "epsilon": epsilon, "random_state": 0}
    assert audit_in_few_fits(np.double, coins_as_rows(n_coins), **given).violated


def test_coins_are_not_the_numbers_of_a_function_with_the_same_seed():
    def noisy(coins):
        return coins - np.random.default_rng(0).laplace(size=len(coins))

    given = {"n_fits": 1, "epsilon": 1.0, "random_state": 0}
    assert not audit_in_few_fits(noisy, coins_as_rows(1_000), **given).violated


@pytest.mark.parametrize("given", [{"delta": -0.1}, {"assume": "gaussian"}])
def test_deltas_are_possible_ones(given):
    with pytest.raises(ValueError, match="delta"):
        audit_in_few_fits(np.double, coins_as_rows(20), epsilon=1.0, **given)


def test_noise_of_one_seed_in_all_fits_is_found():
    audited = clone(PCA).set_params(noise_seed=3)
    found = [
        audit_in_few_fits(model, pairs_of_features(20), 3).repeated
        for model in (audited, PCA)
    ]
    assert found == [True, False]


def test_audit_charges_no_ledger():
    """Its data are made up; a ledger of the estimator or of a block is not touched."""
    own, block = PrivacyAccountant(100.0, 1e-6), PrivacyAccountant(0.1, 1e-6)
    model = clone(PCA).set_params(accountant=own)
    with block:
        audit_in_few_fits(model, pairs_of_features(3), 4)
        with pytest.raises(PrivacyBudgetError):
            DPPCA(1).fit(X)
    assert len(own.ledger) == len(block.ledger) == 0


TWO = (X,), (NEIGHBOR,)
CANARIES = two_tables(*TWO, second)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_fits": 0}, "n_fits"),
        ({"confidence": 1.0}, "confidence"),
        ({"assume": "normal"}, "assume must be one of"),
        ({"epsilon": 1.0}, "are for functions"),
        ({"estimator": len}, "claim of a function"),
        ({"estimator": DPPCA(1, epsilon=None)}, "has no guarantee"),
        ({"canaries": two_tables(*TWO, second, unit="user")}, "unit='row'"),
        ({"canaries": two_tables(*TWO, lambda *_: np.nan)}, "finite"),
        ({"canaries": Canaries(2, lambda c: (X,), lambda *_: [1.0])}, "shape"),
        ({"canaries": pairs_of_features(3, "moment")}, "none of the releases"),
    ],
)
def test_bad_arguments(changed, message):
    with pytest.raises(ValueError, match=message):
        audit_in_few_fits(**{"estimator": PCA, "canaries": CANARIES, **changed})


def test_pairs_need_two_features():
    with pytest.raises(ValueError, match="n_features must be at least 2"):
        pairs_of_features(1)
