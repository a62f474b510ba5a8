"""Audits of whole fits by the public way, and the refusals of it."""

import numpy as np
import pytest
from lrs_tools import alike, table
from sklearn.base import clone
from worst_cases import CASES, plays

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    DPTableVectorizer,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.audit import (
    Canaries,
    audit_in_few_fits,
    clipped_gradients,
    joining_users,
    pairs_of_categories,
    pairs_of_features,
    two_tables,
)
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.neural_network import Adam

PCA = DPPCA(1, epsilon=4.0, center="none")
X = np.eye(5, 2)
NEIGHBOR = np.vstack([[0.0, 1.0], X[1:]])


def second(model, released):
    """Tell the two tables apart."""
    return released["second_moment"][1, 1]


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

    (X, *y), (X_neighbor, *y_neighbor) = case.one, case.other
    targets = {"y": y[0], "y_neighbor": y_neighbor[0]} if y else {}
    users = getattr(case.model, "user_feature", None)
    if case.model.plan_for(X).unit == "user" and users is None:
        users = 0
    tables = two_tables(X, X_neighbor, statistic, **targets, user_feature=users)
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


ASSUMED = {"nothing": 0.4, "independent": 0.6, "gaussian": 0.75}


@pytest.mark.parametrize("assume", ASSUMED)
def test_few_fits_of_gradients(assume):
    model = DPAdamRegressor(
        epsilon=8.0, target_bounds=(-1, 1), batch_size=600, optimizer=Adam(1e-18)
    )
    result = audit_in_few_fits(
        model, clipped_gradients(600), 4, assume=assume, random_state=0
    )
    assert not result.violated
    assert not result.repeated
    assert result.mu > ASSUMED[assume] * result.claimed_mu


@pytest.mark.parametrize(
    "claim", [{"mu": 1.0}, {"epsilon": gaussian_epsilon(1.0, 1e-3), "delta": 1e-3}]
)
@pytest.mark.parametrize("assume", ASSUMED)
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


def test_a_generator_that_a_function_holds_is_not_copied_into_jobs():
    """Correlations of 4 fits of 500 numbers are called so once in a million."""
    rng = np.random.default_rng(0)
    coins = Canaries(500, lambda coins: (coins,), lambda found, released: found)
    noisy = lambda coins: coins + rng.standard_normal(len(coins))  # noqa: E731
    found = audit_in_few_fits(noisy, coins, 4, mu=1.0, n_jobs=2, random_state=0)
    assert not found.repeated


def coins_as_rows(n_coins):
    """Canaries whose data are the coins, and what is published are scores."""
    return Canaries(n_coins, lambda coins: (coins,), lambda found, _: found)


@pytest.mark.parametrize(("n_coins", "epsilon"), [(300, 2.0), (1_770, 0.5)])
def test_few_coins_without_any_noise_refute_a_claim(n_coins, epsilon):
    given = {"n_fits": 1, "epsilon": epsilon, "random_state": 0}
    assert audit_in_few_fits(np.double, coins_as_rows(n_coins), **given).violated


def test_coins_are_not_the_numbers_of_a_function_with_the_same_seed():
    def noisy(coins):
        return coins - np.random.default_rng(0).laplace(size=len(coins))

    given = {"n_fits": 1, "epsilon": 1.0, "assume": "independent", "random_state": 0}
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


def test_users_who_join():
    """Of 30 users, each with one rating of an item of its own."""
    noise = np.random.default_rng(0)

    def sums(users, ratings):
        return np.bincount(users, ratings, minlength=30) + noise.standard_normal(30)

    users = [(np.array([k]), np.array([1.0])) for k in range(30)]
    canaries = joining_users(users, lambda found, released: found)
    claim = {"epsilon": gaussian_epsilon(1.0, 1e-6), "delta": 1e-6}
    given = {"assume": "gaussian", "random_state": 0, **claim}
    result = audit_in_few_fits(sums, canaries, 20, **given)
    assert 0.6 < result.epsilon / claim["epsilon"] < 1.2
    assert [len(part) for part in canaries.data(np.zeros(30, bool))] == [0, 0]
    with_others = joining_users(users, None, others=(np.array([7, 8]), np.ones(2)))
    assert len(with_others.data(np.ones(30, bool))[0]) == 32
    rows = joining_users([(np.eye(3),)], None, others=(np.eye(3),))
    with pytest.raises(ValueError, match="unit='row'"):
        audit_in_few_fits(PCA, rows)


def test_pairs_of_categories():
    model = DPTableVectorizer(epsilon=8.0)
    result = audit_in_few_fits(
        model, pairs_of_categories(200, 100), 2, assume="gaussian", random_state=0
    )
    assert 0.7 < result.mu / result.claimed_mu < 1.0
    with pytest.raises(ValueError, match="all categories are found"):
        audit_in_few_fits(model, pairs_of_categories(5, 1), random_state=0)


def test_audit_charges_no_ledger():
    """Its data are made up; a ledger of the estimator or of a block is not touched."""
    own, block = PrivacyAccountant(100.0, 1e-6), PrivacyAccountant(0.1, 1e-6)
    model = clone(PCA).set_params(accountant=own)
    with block:
        for jobs in (1, 2):
            audit_in_few_fits(model, pairs_of_features(3), 4, n_jobs=jobs)
        with pytest.raises(PrivacyBudgetError):
            DPPCA(1).fit(X)
    assert len(own.ledger) == len(block.ledger) == 0


def test_audit_does_not_depend_on_the_number_of_jobs():
    one, two = (
        audit_in_few_fits(PCA, pairs_of_features(30), 4, random_state=0, n_jobs=jobs)
        for jobs in (1, 2)
    )
    assert one == two
    np.testing.assert_array_equal(one.scores[0], two.scores[0])


TWO = two_tables(X, NEIGHBOR, second)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_fits": 0}, "n_fits"),
        ({"confidence": 1.0}, "confidence"),
        ({"assume": "normal"}, "assume must be one of"),
        ({"epsilon": 1.0}, "are for functions"),
        ({"estimator": len}, "claim of a function"),
        ({"estimator": DPPCA(1, epsilon=None)}, "has no guarantee"),
        ({"canaries": two_tables(X, X[1:], second)}, "neighbors='replace-one'"),
        ({"canaries": two_tables(X, NEIGHBOR, lambda *_: np.nan)}, "finite"),
        ({"canaries": Canaries(2, lambda c: (X,), lambda *_: [1.0])}, "shape"),
        ({"canaries": pairs_of_features(3, "moment")}, "none of the releases"),
    ],
)
def test_bad_arguments(changed, message):
    with pytest.raises(ValueError, match=message):
        audit_in_few_fits(**{"estimator": PCA, "canaries": TWO, **changed})


def test_pairs_need_two_features():
    with pytest.raises(ValueError, match="n_features must be at least 2"):
        pairs_of_features(1)


# -- neighbors ------------------------------------------------------------------------

_USERS = alike(3, 2, 2)
_ONE_LESS = {user: _USERS[user] for user in (1, 2)}
_LONGER = {**_USERS, 2: (np.ones((4, 2)), np.ones(4))}
_RENAMED = {(9 if user == 2 else user): _LONGER[user] for user in _USERS}


def tables_of(users, others, **changed):
    """Return one coin of two tables of users."""
    (X, y), (X_neighbor, y_neighbor) = table(users), table(others)
    targets = {"y": y, "y_neighbor": y_neighbor, "user_feature": 0}
    return two_tables(X, X_neighbor, lambda *_: 0.0, **{**targets, **changed})


@pytest.mark.parametrize(
    ("users", "others", "neighbors"),
    [
        (_USERS, _ONE_LESS, "add-remove-one"),
        (_ONE_LESS, _USERS, "add-remove-one"),
        (_USERS, _LONGER, "replace-one"),
        (_USERS, _RENAMED, "replace-one"),
    ],
)
def test_users_who_differ(users, others, neighbors):
    tables = tables_of(users, others)
    assert (tables.unit, tables.neighbors) == ("user", neighbors)
    given = {"user_feature": 0, "solver": PrivateRounds(n_rounds=1)}
    model = LRSRegressor(**given, neighbors=neighbors)
    assert audit_in_few_fits(model, tables, 2, random_state=0).mu == 0.0


@pytest.mark.parametrize(
    "others",
    [
        _USERS,
        {1: _USERS[1]},
        {**_LONGER, 1: _LONGER[2]},
        # The same rows in another order are other data of that user.
        {**_ONE_LESS, 1: tuple(part[::-1] for part in _USERS[1])},
    ],
)
def test_users_who_differ_otherwise(others):
    with pytest.raises(ValueError, match="must differ in one row, or one user"):
        tables_of(_USERS, others)


def test_targets_belong_to_a_users_data():
    X, y = table(_USERS)
    changed = y.copy()
    changed[0] += 1.0
    given = {"X": X, "X_neighbor": X, "statistic": len, "user_feature": 0}
    assert two_tables(**given, y=y, y_neighbor=changed).neighbors == "replace-one"
    with pytest.raises(ValueError, match="must differ in one row, or one user"):
        two_tables(**given, y=y)
    with pytest.raises(ValueError, match="y_neighbor must contain one target"):
        two_tables(**given, y=y, y_neighbor=changed[1:])
    with pytest.raises(ValueError, match="y was not"):
        two_tables(**given, y_neighbor=y)


def test_users_in_a_dataframe():
    pd = pytest.importorskip("pandas")
    (X, _), (X_neighbor, _) = table(_USERS), table(_ONE_LESS)
    frames = [pd.DataFrame(rows, columns=["who", "a", "b"]) for rows in (X, X_neighbor)]
    assert two_tables(*frames, len, user_feature="who").neighbors == "add-remove-one"
    with pytest.raises(ValueError, match="no column of that name"):
        two_tables(*frames, len, user_feature="whose")


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ([[1, 2], [5, 6]], "add-remove-one"),
        ([[1, 2], [3, 4]], "add-remove-one"),
        ([[0, 0], [1, 2], [3, 4], [5, 6]], "add-remove-one"),
        ([[1, 2], [3, 4], [5, 0]], "replace-one"),
        ([[1, 2], [3, 4], [5, 6]], None),
        ([[1, 2], [3, 0], [5, 0]], None),
        ([[1, 2]], None),
        ([[5, 6], [1, 2]], None),
        ([[1], [5]], None),
    ],
)
def test_rows_that_differ(others, found):
    given = np.array([[1, 2], [3, 4], [5, 6]]), np.array(others), len
    if found is None:
        with pytest.raises(ValueError, match="must differ in one row"):
            two_tables(*given)
    else:
        assert two_tables(*given).neighbors == found
