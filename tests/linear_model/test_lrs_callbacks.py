"""Callbacks of scikit-learn: what they see of a private fit, and what they may do."""

import numpy as np
import pytest
from lrs_tools import alike, scripted, table
from sklearn.base import clone

from skdpspectral import (
    DPAdamRegressor,
    JMECovariance,
    LRSMLPRegressor,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral.linear_model import Alternation, PrivateRounds, _kernels_shared

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
        monkeypatch.setattr(_kernels_shared, "solve_moments", None)
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


class Switch(Spy):
    """A callback that sets epsilon of what it is told about."""

    def __init__(self, epsilon):
        super().__init__()
        self.epsilon = epsilon

    def setup(self, estimator, context):
        super().setup(estimator, context)
        estimator.set_params(epsilon=self.epsilon)


@needs_callbacks
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        LRSRegressor(),
        LRSMLPRegressor(hidden_layer_sizes=2),
        JMECovariance(),
        DPAdamRegressor(target_bounds=(-1, 1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_callbacks_change_no_fit(model):
    for epsilon, other in ((None, 1.0), (1.0, None)):
        spy = Switch(other)
        fitted = clone(model).set_params(epsilon=epsilon).set_callbacks(spy).fit(X, Y)
        assert fitted.epsilon == epsilon
        assert fitted.privacy_.private is (epsilon is not None)
        assert any(value is not None for value in spy.given) is (epsilon is None)


@needs_callbacks
def test_what_another_thread_makes_private_is_not_shown(monkeypatch):
    start = LRSRegressor._unread

    def switched(model, *data):
        model.set_params(epsilon=1.0)
        return start(model, *data)

    monkeypatch.setattr(LRSRegressor, "_unread", switched)
    spy = Spy()
    model = LRSRegressor(user_feature=0, epsilon=None).set_callbacks(spy).fit(X, Y)
    assert model.privacy_.private
    assert all(value is None for value in spy.given)


@needs_callbacks
def test_callbacks_leave_the_transcript_as_it_is():
    transcripts = []
    for callbacks in ([], [Spy()]):
        with scripted() as asked:
            model = LRSRegressor(user_feature=0, solver=PrivateRounds(n_rounds=3))
            transcripts.append((model.set_callbacks(*callbacks).fit(X, Y), asked))
    (plain, one), (watched, other) = transcripts
    assert list(one) == list(other)
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])
    np.testing.assert_array_equal(plain.components_, watched.components_)


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


@needs_callbacks
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_progress_bars_run(epsilon, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    model = LRSRegressor(user_feature=0, epsilon=epsilon)
    if epsilon is None:
        model.set_params(solver=Alternation(max_iter=3))
    model.set_callbacks(ProgressBar()).fit(X, Y)
    assert "LRSRegressor" in capsys.readouterr().out
