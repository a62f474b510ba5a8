"""Audits of whole fits by the public way, and the bounds and refusals of it."""

import numpy as np
import pytest
from lrs_tools import alike, table
from sklearn.base import clone
from worst_cases import CASES, plays

from skdpspectral import DPPCA, LRSRegressor, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.audit import audit_epsilon
from skdpspectral.audit._epsilon import check_neighbors, mu_lower_bound
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.mechanisms import Gaussian, PrivacyPlan


def rows_of(name):
    """Return the two tables of a case."""
    return CASES[name].one[0], CASES[name].other[0]


# Cases whose first releases move alone, or of one release.
UNSEEDED = ("pca", "network-classes", "lrs-replaced-start", "items", "jme")
UNSEEDED += ("federated-matrix",)


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("name", UNSEEDED)
def test_audits_of_whole_fits_see_what_is_really_drawn(name):
    """Without a seed, by the public way: a sound fit is refuted once in a billion."""
    case = CASES[name]
    one, two = (played.tape.asked[-1] for played in plays(case))
    change = two.exact - one.exact
    arguments = dict(zip(("X", "y"), case.one, strict=False))
    others = dict(zip(("X_neighbor", "y_neighbor"), case.other, strict=False))
    result = audit_epsilon(
        lambda: clone(case.model),
        **arguments,
        **others,
        statistic=lambda model, released: np.vdot(
            change, released[one.mechanism.name].reshape(change.shape)
        ),
        n_trials=200,
        confidence=1.0 - 1e-9,
    )
    assert not result.violated, str(result)
    assert result.mu > 0.1 * result.claimed_mu, str(result)


@pytest.mark.slow
def test_a_statistic_of_the_fitted_estimator_and_a_threshold_of_its_own():
    class Sign:
        threshold = 0.0

        def __call__(self, model, released):
            return model.coef_[0]

    case = CASES["lrs-replaced-fixed"]
    (X, y), (X_neighbor, y_neighbor) = case.one, case.other
    data = {"X": X, "y": y, "X_neighbor": X_neighbor, "y_neighbor": y_neighbor}
    # Fits of fixed weights alone have a shared model that is not zero.
    result = audit_epsilon(
        case.model, **data, statistic=Sign(), n_trials=50, random_state=0
    )
    # The target of the canary goes from 1e9 to -1e9: the sign is all there is.
    flipped = audit_epsilon(
        case.model,
        **data,
        statistic=lambda model, released: -model.coef_[0],
        n_trials=50,
        random_state=0,
    )
    assert result.mu == 0.0
    assert 0.0 < flipped.mu < flipped.claimed_mu


@pytest.mark.slow
def test_audit_charges_no_ledger():
    """Its data are made up; its fits without noise must not void a real ledger."""
    own, block = PrivacyAccountant(100.0, 1e-6), PrivacyAccountant(0.1, 1e-6)
    X, neighbor = rows_of("pca")
    with block:
        for jobs in (1, 2):
            audit_epsilon(
                DPPCA(1, center="none", accountant=own),
                X,
                neighbor,
                n_trials=16,
                n_jobs=jobs,
            )
        with pytest.raises(PrivacyBudgetError):
            DPPCA(1).fit(X)
    assert len(own.ledger) == len(block.ledger) == 0


@pytest.mark.slow
def test_audit_does_not_depend_on_the_number_of_jobs():
    model, sides = DPPCA(1, epsilon=4.0, center="none"), rows_of("pca")
    one, two = (
        audit_epsilon(model, *sides, n_trials=200, random_state=0, n_jobs=jobs)
        for jobs in (1, 2)
    )
    assert one == two


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("threshold", [None, "middle"])
def test_bound_holds_and_is_sharp(mu, threshold):
    """Of 200 bounds on a known mu at 95 %, at most 22 may exceed it.

    Binomial(200, .05) exceeds 22 with probability 2e-4.
    """
    rng = np.random.default_rng(0)
    middle = mu / 2 if threshold else None
    bounds = [
        mu_lower_bound(
            rng.standard_normal(4000),
            mu + rng.standard_normal(4000),
            threshold=middle,
            confidence=0.95,
        )
        for _ in range(200)
    ]
    assert sum(bound > mu for bound in bounds) <= 22
    # Half of the trials choose the threshold where none is given.
    assert np.median(bounds) > mu - (0.2 if threshold else 0.3)


def test_bound_of_nothing_is_nothing():
    same = np.random.default_rng(0).standard_normal((2, 1000))
    assert mu_lower_bound(*same) < 0.2
    assert mu_lower_bound(same[0], same[0] - 100.0, threshold=0.0) == 0.0


def test_likelihood_ratio_finds_a_leak_that_needs_no_noise():
    """Perfectly separated releases give the largest bound that the trials allow."""
    scores = np.zeros(1000)
    assert mu_lower_bound(scores, scores + 1, threshold=0.5, confidence=0.99) > 5.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_trials": 2}, "n_trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"X_neighbor": np.zeros((3, 2))}, "same shape"),
        ({"X_neighbor": -np.ones((4, 2))}, "differ in one row, but differ in 4"),
        ({"X_neighbor": rows_of("pca")[0]}, "but differ in 0"),
        ({"factory": lambda: DPPCA(1, epsilon=None)}, "has no guarantee"),
    ],
)
def test_bad_arguments(arguments, message):
    X, neighbor = rows_of("pca")
    defaults = {
        "factory": lambda: DPPCA(1, center="none"),
        "X": X,
        "X_neighbor": neighbor,
    }
    with pytest.raises(ValueError, match=message):
        audit_epsilon(**{**defaults, **arguments})


# -- neighbors ------------------------------------------------------------------------

_USERS = alike(3, 2, 2)
_ONE_LESS = {user: _USERS[user] for user in (1, 2)}
_LONGER = {**_USERS, 2: (np.ones((4, 2)), np.ones(4))}
_RENAMED = {(9 if user == 2 else user): _LONGER[user] for user in _USERS}


def audit_users(users, others, **parameters):
    """An audit too small to find anything."""
    (X, y), (X_neighbor, y_neighbor) = table(users), table(others)
    return audit_epsilon(
        LRSRegressor(
            **{"user_feature": 0, "solver": PrivateRounds(n_rounds=1), **parameters}
        ),
        X,
        X_neighbor,
        lambda model, released: float(released["start"].sum()),
        4,
        y=y,
        y_neighbor=y_neighbor,
        random_state=0,
    )


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
    assert audit_users(users, others, neighbors=neighbors).n_trials == 4
    wrong = {"add-remove-one": "replace-one", "replace-one": "add-remove-one"}
    with pytest.raises(ValueError, match="must differ by one user who"):
        audit_users(users, others, neighbors=wrong[neighbors])


@pytest.mark.parametrize(
    ("others", "found"),
    [
        (_USERS, "0 users are only in X, 0 only in X_neighbor, and 0 have"),
        ({1: _USERS[1]}, "2 users are only in X"),
        ({**_LONGER, 1: _LONGER[2]}, "2 have different rows"),
        # The same rows in another order are other data of that user.
        ({**_ONE_LESS, 1: tuple(part[::-1] for part in _USERS[1])}, "1 have different"),
    ],
)
def test_users_who_differ_otherwise(others, found):
    with pytest.raises(ValueError, match=found):
        audit_users(_USERS, others)


def test_targets_belong_to_a_users_data():
    X, y = table(_USERS)
    changed = y.copy()
    changed[0] += 1.0
    users = {"factory": LRSRegressor(user_feature=0, neighbors="replace-one")}
    users |= {"X": X, "X_neighbor": X, "statistic": lambda *_: 0.0, "n_trials": 4}
    assert audit_epsilon(**users, y=y, y_neighbor=changed, random_state=0).mu == 0.0
    with pytest.raises(ValueError, match="and 0 have different rows"):
        audit_epsilon(**users, y=y)
    with pytest.raises(ValueError, match="y_neighbor must contain one target"):
        audit_epsilon(**users, y=y, y_neighbor=changed[1:])
    with pytest.raises(ValueError, match="y was not"):
        audit_epsilon(**users, y_neighbor=y)


def test_users_must_be_a_column():
    with pytest.raises(ValueError, match="user_feature must name the column"):
        audit_users(_USERS, _ONE_LESS, user_feature=None)


def test_users_in_a_dataframe():
    pd = pytest.importorskip("pandas")
    (X, y), (X_neighbor, y_neighbor) = table(_USERS), table(_ONE_LESS)
    names = ["who", "a", "b"]
    frames = [pd.DataFrame(rows, columns=names) for rows in (X, X_neighbor)]
    model = LRSRegressor(user_feature="who", solver=PrivateRounds(n_rounds=1))
    arguments = {"y": y, "y_neighbor": y_neighbor, "n_trials": 4}
    arguments["statistic"] = lambda model, released: 0.0
    assert audit_epsilon(model, *frames, **arguments).mu == 0.0
    with pytest.raises(ValueError, match="no column of that name"):
        audit_epsilon(model.set_params(user_feature="whose"), *frames, **arguments)


def test_another_algorithm_needs_a_statistic():
    """Without privacy the regression makes no sums that could be compared."""
    (X, y), (X_neighbor, y_neighbor) = table(_USERS), table(_ONE_LESS)
    with pytest.raises(ValueError, match="statistic must be given for LRSRegressor"):
        audit_epsilon(
            LRSRegressor(user_feature=0),
            X,
            X_neighbor,
            y=y,
            y_neighbor=y_neighbor,
        )


@pytest.mark.parametrize(
    ("unit", "neighbors", "others", "message"),
    [
        ("row", "add-remove-one", [[1, 2], [5, 6]], None),
        ("row", "add-remove-one", [[1, 2], [3, 4]], None),
        ("row", "add-remove-one", [[0, 0], [1, 2], [3, 4], [5, 6]], None),
        ("row", "add-remove-one", [[1, 2], [3, 4], [5, 6]], "joins or leaves"),
        ("row", "add-remove-one", [[1, 2]], "joins or leaves"),
        ("row", "add-remove-one", [[5, 6], [1, 2]], "joins or leaves"),
        ("row", "add-remove-one", [[1], [5]], "same shape"),
        ("row", "replace-one", [[1, 2], [3, 4], [5, 0]], None),
        ("row", "zero-out-one", [[1, 2], [3, 4], [0, 0]], None),
        ("row", "zero-out-one", [[1, 2], [3, 4]], "number of rows is public"),
        ("user", "zero-out-one", [[1, 2], [3, 4], [0, 0]], "there is no audit"),
    ],
)
def test_neighbors_of_every_relation(unit, neighbors, others, message):
    plan = PrivacyPlan(
        1.0,
        1e-6,
        (Gaussian("sum", 1.0, 1.0, (1,)),),
        "any",
        unit=unit,
        neighbors=neighbors,
    )
    data = (np.array([[1, 2], [3, 4], [5, 6]]),), (np.array(others),)
    if message is None:
        return check_neighbors(None, plan, *data)
    with pytest.raises(ValueError, match=message):
        check_neighbors(None, plan, *data)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_statistic_that_is_not_finite_refutes_nothing(value):
    scores = np.zeros(400)
    broken = np.where(np.arange(400) == 7, value, 0.0)
    for arguments in ((scores, broken), (broken, scores), (broken, broken)):
        with pytest.raises(ValueError, match="must be finite"):
            mu_lower_bound(*arguments)
    with pytest.raises(ValueError, match="threshold must be finite"):
        mu_lower_bound(scores, scores, threshold=value)
    X = np.eye(5, 2)
    neighbor = np.vstack([[0.0, 1.0], X[1:]])
    sound = DPPCA(1, epsilon=4.0, center="none")
    with pytest.raises(ValueError, match="statistic must return a finite number"):
        audit_epsilon(sound, X, neighbor, lambda *_: value, 8, random_state=0)
