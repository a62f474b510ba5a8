"""Callbacks of scikit-learn: what they see of a private fit, and what they may do."""

import numpy as np
import pytest
from lrs_tools import alike, table

from skdpspectral import LRSRegressor, PrivacyAccountant
from skdpspectral.linear_model import Alternation, PrivateRounds, _kernels_lrs

X, Y = table(alike(5, 4, 4))
needs_callbacks = pytest.mark.skipif(
    not hasattr(LRSRegressor, "set_callbacks"), reason="scikit-learn has no callbacks"
)


class Spy:
    """A callback that keeps all that it is given, and wants to stop."""

    def __init__(self):
        self.estimators, self.given, self.tasks = [], [], []

    def setup(self, estimator, context):
        self.estimators.append(estimator)

    def teardown(self, estimator, context):
        self.estimators.append(estimator)
        self.tasks.append("teardown")

    def on_fit_task_begin(
        self,
        estimator,
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        self.estimators.append(estimator)
        self.given += [X, y, metadata, fitted_estimator]

    def on_fit_task_end(
        self,
        estimator,
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        self.estimators.append(estimator)
        self.given += [X, y, metadata, fitted_estimator]
        self.tasks.append(context.task_name)
        return True


@needs_callbacks
@pytest.mark.parametrize("fails", [False, True])
def test_callbacks_of_a_private_fit_learn_that_a_step_was_made(fails, monkeypatch):
    """Neither data nor an estimator that is fitted now, or will be afterwards."""
    spy, accountant = Spy(), PrivacyAccountant(10.0, 1e-6)
    model = LRSRegressor(
        user_feature=0, solver=PrivateRounds(n_rounds=3), accountant=accountant
    )
    model.set_callbacks(spy)
    if fails:
        monkeypatch.setattr(_kernels_lrs, "solve_moments", None)
        with pytest.raises(TypeError):
            model.fit(X, Y)
    else:
        model.fit(X, Y)
        assert model.n_iter_ == 3
        assert spy.tasks == ["step"] * 3 + ["fit", "teardown"]
    assert spy.tasks[-1] == "teardown"
    assert all(value is None for value in spy.given)
    parameters = {*model.get_params(), "_skl_callbacks"}
    for estimator in spy.estimators:
        assert estimator is not model
        assert set(vars(estimator)) <= parameters
        assert estimator.accountant is None
    assert len(accountant.ledger) == 1


@needs_callbacks
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_callbacks_of_a_fit_without_privacy_see_and_stop_it():
    spy = Spy()
    model = LRSRegressor(
        user_feature=0, epsilon=None, solver=Alternation(tol=0.0, max_iter=7)
    )
    assert model.fit(X, Y).n_iter_ == 7
    model.set_callbacks(spy).fit(X, Y)
    assert model.n_iter_ == 1
    assert spy.tasks == ["step", "fit", "teardown"]
    assert all(np.shape(X) == np.shape(value) for value in spy.given[::4])
