"""Fits that are refused, beside the tables of bad calls: by budgets and warnings."""

import bad_calls_federated
import bad_calls_items
import bad_calls_lrs
import bad_calls_networks as networks
import bad_calls_scaler
import bad_calls_streams as streams
import numpy as np
import pytest
import sklearn
from bad_calls_pca import INF, NAN
from release_tools import record_releases
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPStandardScaler,
    FederatedDPPCA,
    JMECovariance,
    PrivacyAccountant,
    PrivacyLeakWarning,
    SparseDPPCA,
)
from skdpspectral.accounting import PrivacyBudgetError
from skdpspectral.neural_network import Adam


@pytest.fixture
def scene(tmp_path):
    return bad_calls_lrs.Scene(tmp_path)


def test_an_exhausted_budget_stays_as_it_is(scene):
    accountant = PrivacyAccountant(1.0)
    scene.fit(accountant=accountant)
    components = scene.pca.components_.copy()
    with pytest.raises(PrivacyBudgetError, match=r"epsilon=1 at .* nothing still fits"):
        scene.fit(accountant=accountant)
    assert len(accountant.ledger) == 1
    assert np.array_equal(scene.pca.components_, components)


@pytest.mark.parametrize("parameters", [{"epsilon": NAN}, {"clip_norm": -1.0}])
def test_a_ledger_of_a_with_block_is_not_charged(scene, parameters):
    with scene.accountant, pytest.raises(ValueError, match=r"epsilon|clip_norm"):
        DPPCA(**parameters).fit(scene.X)
    scene.check_untouched()


@pytest.mark.parametrize("shape", [(10**10, 10**10), (2**62, 2)])
def test_a_table_of_more_values_than_an_array_can_have_costs_nothing(shape):
    accountant, X = PrivacyAccountant(), sparse.coo_array(shape)
    for estimator in (DPPCA(1), DPStandardScaler(with_mean=False)):
        estimator.set_params(accountant=accountant)
        for use in (estimator.plan_for, estimator.fit):
            with pytest.raises(ValueError, match=r"X has more values than an array"):
                use(X)
    assert not accountant.ledger


# -- warnings --------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{"epsilon": None}, {"delta": 0.1}])
def test_a_warning_that_is_raised_as_an_error_costs_nothing(scene, parameters):
    scene.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning):
        scene.fit(**parameters)
    scene.check_untouched()


@pytest.mark.parametrize("parameters", [{"epsilon": None}, {"epsilon": INF}])
def test_a_warning_of_another_estimator_costs_nothing_either(scene, parameters):
    scene.lrs.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning, match="without privacy"):
        scene.lrs.fit(**parameters)
    scene.check_untouched()


def test_warnings_of_items_cost_nothing(tmp_path):
    scene = bad_calls_items.Scene(tmp_path)
    scene.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning):
        scene.fit(epsilon=None)
    with pytest.raises(UserWarning, match="pass the public catalog"):
        scene.fit(items=None)
    scene.check_untouched()


def assert_warns(model, *data):
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        model.fit(*data)
    assert not model.privacy_.private


@pytest.mark.filterwarnings("ignore:columns of X besides users:UserWarning")
def test_privacy_is_switched_off_loudly(tmp_path):
    for privacy_off in (None, INF):
        assert_warns(DPPCA(epsilon=privacy_off), np.eye(9, 4))
    ratings = bad_calls_items.Scene(tmp_path)
    embedding = DPItemEmbedding(2, epsilon=None, remainder=[], rating_range=(1, 5))
    for model in (
        embedding,
        DPMatrixFactorization(2, epsilon=None, rating_range=(1, 5)),
    ):
        assert_warns(model, ratings.X, ratings.y)


# -- what nobody looked for, and what is not fitted ------------------------------------


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_values_that_nobody_looked_for_make_no_release_infinite(tmp_path):
    scene = bad_calls_scaler.Scene(tmp_path)
    for value in (NAN, INF, -INF):
        for parameters in ({}, {"with_mean": False}, {"bounds": (-1e3, 1e3)}):
            model = DPStandardScaler(epsilon=20.0, **parameters)
            trusted = sklearn.config_context(assume_finite=True)
            with trusted, record_releases() as released:
                model.fit(scene.changed(value))
            assert all(np.isfinite(found).all() for found in released.values())
            assert np.isfinite(model.scale_).all()


@pytest.mark.parametrize("cls", [FederatedDPPCA, SparseDPPCA])
def test_nothing_is_given_before_a_fit(cls, tmp_path):
    X = bad_calls_federated.Scene(tmp_path).X
    for call in (cls().transform, cls().inverse_transform):
        with pytest.raises(NotFittedError):
            call(X)


# -- streams ---------------------------------------------------------------------------

# What reads parameters, of a stream of the rows of X.
CALLS = {
    "fit": lambda model: model.fit(streams.X),
    "fit_transform": lambda model: model.fit_transform(streams.X),
    "partial_fit": lambda model: model.partial_fit(streams.X),
    "release_path": lambda model: model.release_path(streams.X),
    "privacy_plan": lambda model: model.privacy_plan(*streams.X.shape),
    "plan_for": lambda model: model.plan_for(streams.X),
    "check of the ledger": lambda model: PrivacyAccountant().check(model, streams.X),
    "resume": lambda model: model.resume(),
    "transform": lambda model: model.transform(streams.X),
}
# Of a stream that has begun; what is wrong with a shape is known by then.
UNDER_WAY = {"resume", "transform"}
# Methods that read releases alone, or nothing.
WITHOUT_PARAMETERS = {
    "error_norm",
    "get_feature_names_out",
    "get_metadata_routing",
    "get_params",
    "get_precision",
    "load",
    "mahalanobis",
    "publish",
    "save",
    "score",
    "score_samples",
    "set_callbacks",
    "set_output",
    "set_params",
}


def error_of(call, model):
    with pytest.raises(ValueError) as caught:
        call(model)
    return str(caught.value)


def test_every_public_method_is_in_the_table():
    methods = {
        name
        for name in dir(JMECovariance)
        if not name.startswith("_") and callable(getattr(JMECovariance, name))
    }
    assert methods - WITHOUT_PARAMETERS == set(CALLS) - {"check of the ledger"}


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_every_method_says_the_same_of_a_bad_parameter(every):
    """No method has an error of its own, and none of them is charged."""
    budget = PrivacyAccountant(5.0)
    for parameters, *_ in streams.PARAMETERS[::every]:
        given = {"accountant": budget, **parameters}
        wanted = error_of(CALLS["fit"], JMECovariance(**given))
        for name in CALLS.keys() - UNDER_WAY:
            assert error_of(CALLS[name], JMECovariance(**given)) == wanted, name
        try:
            JMECovariance(**given)._check_parameters()
        except ValueError:
            begun = JMECovariance(horizon=30, accountant=PrivacyAccountant())
            begun.partial_fit(streams.X[:5]).set_params(**given)
            for name in UNDER_WAY:
                assert error_of(CALLS[name], begun) == wanted, name
    assert len(budget.ledger) == 0


def test_a_stream_without_a_horizon_has_no_partial_fit():
    assert not hasattr(JMECovariance(), "partial_fit")
    assert hasattr(JMECovariance(workload="mean"), "partial_fit")


# -- networks --------------------------------------------------------------------------


def test_no_plan_is_made_of_parameters_that_do_not_go_together():
    """Also if another thread changes the optimizer after it was checked."""
    ledger = PrivacyAccountant()
    made = DPAdamRegressor._layout

    def changed_then(model, *shape):
        model.optimizer.set_params(sampling="in-turn", factorization="blt")
        return made(model, *shape)

    model = DPAdamRegressor(
        target_bounds=(-1, 1), n_epochs=2, optimizer=Adam(), accountant=ledger
    )
    model._layout = changed_then.__get__(model)
    with pytest.raises(ValueError, match="n_epochs=1"):
        model.fit(networks.X, networks.TARGETS)
    assert len(ledger.ledger) == 0


def test_the_optimizer_is_searched_as_a_nested_parameter():
    grid = {"optimizer__learning_rate": [0.01, 0.1], "optimizer__moments": ["pp"]}
    model = DPAdamRegressor(target_bounds=(-1, 1), n_epochs=1, optimizer=Adam())
    search = GridSearchCV(model, grid, cv=2).fit(networks.X, networks.TARGETS)
    assert search.best_estimator_.optimizer.learning_rate in (0.01, 0.1)
    with pytest.raises(ValueError, match="optimizer='adam' has no parameters"):
        DPAdamRegressor().set_params(optimizer__learning_rate=0.1)


def test_bounds_of_any_size_bring_targets_to_the_same_range():
    for bounds in ((-1.7e308, 1.7e308), (1.0, np.nextafter(1.0, 2.0))):
        model = networks.fit_regressor(y=networks.TARGETS[:, 0], target_bounds=bounds)
        assert np.isfinite([model.target_center_, model.target_scale_]).all()
        assert (model.target_scale_ > 0.0).all()


def test_bad_gradients():
    adam = networks.make_optimizer(batch_size=30)
    batch = next(adam.batches())
    gradients = np.random.default_rng(0).normal(size=(len(batch), 3))
    for wrong in (
        gradients[:-1],
        gradients[:, :2],
        gradients[0],
        gradients * 1j,
        np.ma.masked_array(gradients),
        gradients.astype(str),
        gradients.astype(object),
        None,
        "abc",
        3.0,
        [],
    ):
        with pytest.raises(ValueError, match="gradients") as caught:
            adam.step(wrong, batch)
        assert str(len(batch)) not in str(caught.value)  # secret of a sample
    assert adam.position == 0
    gradients[0], gradients[1] = NAN, INF  # which are of examples, and count as zero
    assert np.isfinite(adam.step(gradients, batch)).all()
    with pytest.raises(ValueError, match="accountant"):
        adam.resume()
