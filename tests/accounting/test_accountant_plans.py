"""What an accountant says before a fit: fits of estimators, searches, and the rest."""

import numpy as np
import pytest
from ledger_tools import DELTA, X, fit_plan, y
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneGroupOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
)
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import gaussian_mu
from skdpspectral.accounting._ledger.costs import floored

CLASSIFIER = LogisticRegression()
EPSILONS = {"dppca__epsilon": [0.1, 0.4]}


def searched(**parameters):
    model = make_pipeline(DPPCA(1), CLASSIFIER)
    return GridSearchCV(model, EPSILONS, error_score="raise", **parameters)


# Each is fitted once; a check must promise to the bit what the ledger then says.
FITTED = {
    "estimator": DPPCA(2, epsilon=0.5),
    "pipeline": make_pipeline(DPPCA(2), CLASSIFIER),
    "two private steps": make_pipeline(DPPCA(3), DPPCA(1, epsilon=0.3), CLASSIFIER),
    "behind a scaler": make_pipeline(StandardScaler(), DPPCA(2), DPPCA(1)),
    "behind a PCA": make_pipeline(PCA(2), DPPCA(2)),
    "behind a union": make_pipeline(make_union(PCA(1), DPPCA(2)), DPPCA(3)),
    "behind a pipeline": make_pipeline(make_pipeline(DPPCA(2), "passthrough"), DPPCA()),
    "chosen by the data, but last": make_pipeline(DPPCA(2), VarianceThreshold(0.0)),
    "search": searched(cv=3),
    "search by a list": searched(cv=[(np.arange(30), np.arange(30, 60))] * 2),
    "search without a refit": searched(cv=ShuffleSplit(4, random_state=0), refit=False),
    "repeated folds": searched(cv=RepeatedKFold(n_splits=2, n_repeats=3)),
    "search over grids": GridSearchCV(
        make_pipeline(DPPCA(), CLASSIFIER),
        [EPSILONS, {"dppca__n_components": [1, 2]}],
        cv=2,
    ),
    "a step that was fitted before": make_pipeline(
        FrozenEstimator(DPPCA(2).fit(X)), DPPCA(1)
    ),
}
# The candidate that is fitted again is not known: the dearest is planned.
BOUNDS = {name for name, fit in FITTED.items() if "search" in name or "folds" in name}
BOUNDS -= {"search without a refit"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FITTED)
@pytest.mark.filterwarnings("ignore:.*delta:skdpspectral.PrivacyLeakWarning")
def test_a_check_of_an_estimator_promises_what_its_fit_costs(name):
    fitted = FITTED[name]
    accountant = PrivacyAccountant(20.0, DELTA)
    promised = accountant.check(fitted, X)
    assert accountant.ledger == ()
    twice = accountant.check(fitted, X, n_fits=2)
    with accountant:
        clone(fitted).fit(X, y)
    spent = accountant.spent()
    if name in BOUNDS:
        assert 0.8 * promised.epsilon < spent.epsilon <= promised.epsilon * (1 + 1e-9)
    else:
        assert promised.epsilon == pytest.approx(spent.epsilon, rel=1e-12)
    mus = [gaussian_mu(cost.epsilon, DELTA) for cost in (promised, twice)]
    assert mus[1] == pytest.approx(mus[0] * 2**0.5, rel=1e-9)


def test_a_search_is_checked_to_the_last_fit():
    """Two candidates, three folds, and the dearest once more: 4 and 3 fits."""
    wanted = (
        3 * gaussian_mu(0.1, DELTA) ** 2 + 4 * gaussian_mu(0.4, DELTA) ** 2
    ) ** 0.5
    found = PrivacyAccountant().check(searched(cv=3), X)
    assert gaussian_mu(found.epsilon, DELTA) == pytest.approx(wanted, rel=1e-9)
    budget = found.epsilon * (1 + 1e-9), DELTA
    PrivacyAccountant(*budget, failures=0).check(searched(cv=3), X)
    with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
        PrivacyAccountant(found.epsilon * 0.999, DELTA).check(searched(cv=3), X)


class Unread(np.ndarray):
    """Rows of which no value may be read."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("values were read")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FITTED)
def test_a_check_reads_a_shape_alone(name):
    rows = X.view(Unread)
    nowhere = np.full_like(X, np.nan)
    costs = [
        PrivacyAccountant().check(FITTED[name], table) for table in (rows, nowhere)
    ]
    assert costs[0] == costs[1] == PrivacyAccountant().check(FITTED[name], X)


REFUSED = {
    "a meta-estimator": (CalibratedClassifierCV(make_pipeline(DPPCA(1))), "n_fits"),
    "a search at random": (
        RandomizedSearchCV(DPPCA(1), {"epsilon": [1.0, 2.0]}, n_iter=1),
        "number of times that RandomizedSearchCV",
    ),
    "an iterator of folds": (searched(cv=iter([])), "cv is an iterator"),
    "groups": (searched(cv=LeaveOneGroupOut()), "groups"),
    "a search in a pipeline": (
        make_pipeline(DPPCA(3), GridSearchCV(DPPCA(1), {}, cv=2)),
        "number of times that GridSearchCV",
    ),
    "nothing private": (make_pipeline(CLASSIFIER), "no private estimator"),
    "a class": (DPPCA, "X must be left out with plans"),
    "too few columns": (make_pipeline(PCA(2), DPPCA(3)), "n_components=3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_planned_is_an_error(name):
    what, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        PrivacyAccountant().check(what, X)


def test_plans_and_rows_are_not_mixed_up():
    with pytest.raises(ValueError, match="n_fits, got"):
        PrivacyAccountant().check(fit_plan(), 7)
    with pytest.raises(ValueError, match="X is required"):
        PrivacyAccountant().check(DPPCA())


def test_steps_of_other_ledgers_are_left_out():
    own, other = PrivacyAccountant(), PrivacyAccountant()
    model = make_pipeline(DPPCA(2, accountant=other), DPPCA(1, epsilon=0.3))
    assert own.check(model, X).epsilon == pytest.approx(0.3, rel=1e-9)
    assert other.check(model, X).epsilon > 1.0  # in its own block, both


# -- as text ---------------------------------------------------------------------------


def test_text_says_what_remains():
    accountant = PrivacyAccountant(20.0, DELTA)
    assert "udget" not in str(PrivacyAccountant())
    accountant.named("<script>&").charge(fit_plan(0.125))
    accountant.named("b<i>").charge(fit_plan())
    left = f"{floored(accountant.remaining().epsilon):g}"
    assert f"so a fit of up to epsilon={left} still fits." in str(accountant)
