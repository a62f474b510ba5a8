"""Bad calls of optimizers and networks: named, free of charge, nothing changed."""

import traceback

import numpy as np
import pytest
from network_tools import of_adam
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from skdpspectral import (
    DPAdamClassifier,
    DPAdamRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.neural_network import Adam, AlternatingAdam, JMEAdam

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:A column-vector y was passed"),
]
NAN, INF, SECRET = float("nan"), float("inf"), 7321.0625
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
X[3, 1] = SECRET
LABELS = (X[:, 0] > 0.0).astype(int)
TARGETS = X[:, :2].copy()
LEDGER = PrivacyAccountant()

# Parameters that all three take: value, and what the error must name.
SHARED = [
    ("epsilon", 0.0),
    ("epsilon", -1.0),
    ("epsilon", "1"),
    ("epsilon", NAN),
    ("delta", 0.0),
    ("delta", 1.0),
    ("delta", 1e-16),
    ("noise_multiplier", 0.0),
    ("noise_multiplier", -2.0),
    ("noise_multiplier", INF),
    ("noise_multiplier", True),
    ("batch_size", 0),
    ("batch_size", 2.5),
    ("batch_size", "auto"),
    ("batch_size", True),
    ("n_epochs", 0),
    ("n_epochs", 1.0),
    ("n_epochs", None),
    ("sampling", "shuffle"),
    ("sampling", None),
    ("clip_norm", 0.0),
    ("clip_norm", -1.0),
    ("clip_norm", 1e61),
    ("clip_norm", 1e-31),
    ("clip_norm", [1.0]),
    ("clip_norm", None),
    ("moments", "adam"),
    ("moments", None),
    ("moment_weight", 0.0),
    ("moment_weight", "free"),
    ("moment_weight", INF),
    ("factorization", "optimal"),
    ("neighbors", "add-remove-one"),
    ("neighbors", "users"),
    ("learning_rate", 0.0),
    ("learning_rate", -0.1),
    ("learning_rate", "constant"),
    ("beta_1", 1.0),
    ("beta_1", -0.1),
    ("beta_2", 1.0),
    ("beta_2", NAN),
    ("stability", -1e-9),
    ("accountant", 3),
    ("noise_seed", "zero"),
    ("noise_seed", -1),
]
# What does not go together.
TOGETHER = [
    ({"factorization": "sqrt", "n_epochs": 1}, 'sampling="in-turn"'),
    ({"factorization": "blt", "sampling": "in-turn"}, "n_epochs=1"),
    ({"moments": "pp", "moment_weight": 0.3}, "moment_weight"),
    ({"moments": "pp-debiased", "moment_weight": 0.3}, "moment_weight"),
]
NETWORKS = [
    ("hidden_layer_sizes", (2, 3, 4)),
    ("hidden_layer_sizes", (0,)),
    ("hidden_layer_sizes", -1),
    ("hidden_layer_sizes", (2.5,)),
    ("hidden_layer_sizes", (True,)),
    ("activation", "sigmoid"),
    ("init_seed", -1),
    ("init_seed", None),
    ("optimizer", "sgd"),
    ("optimizer", None),
    ("optimizer", AlternatingAdam()),
    ("verbose", "yes"),
]
CLASSES = [
    ("classes", [0]),
    ("classes", [0, 0, 1]),
    ("classes", "ab"),
    ("classes", {}),
    ("classes", np.array([1, "a"], dtype=object)),
    ("classes", [[0, 1], [2, 3]]),
    ("classes", [0, 1, NAN]),
]
BOUNDS = [
    ("target_bounds", (1.0, 0.0)),
    ("target_bounds", (0.0, INF)),
    ("target_bounds", (0.0,)),
    ("target_bounds", 3.0),
    ("target_bounds", ([0.0, 0.0], [1.0, 1.0, 1.0])),
    ("target_bounds", (0.0, 5e-324)),
    ("target_bounds", (0, 10**400)),
]


def fit_classifier(X=X, y=LABELS, **parameters):
    return DPAdamClassifier(**{"classes": [0, 1], **of_adam(parameters)}).fit(X, y)


def fit_regressor(X=X, y=TARGETS, **parameters):
    return DPAdamRegressor(**of_adam(parameters)).fit(X, y)


def make_optimizer(n_parameters=3, n_samples=30, **parameters):
    return JMEAdam(n_parameters, n_samples, **parameters)


def refusal(call, error=(ValueError, TypeError), charges=0, **parameters):
    """Return how a call is refused; check what it has cost, and that it is silent."""
    before = len(LEDGER.ledger)
    given = {"accountant": LEDGER, **parameters}
    with pytest.raises(error) as caught:
        call(**given)
    assert len(LEDGER.ledger) == before + charges
    report = "".join(traceback.format_exception_only(caught.value))
    assert f"{SECRET:.0f}" not in report
    return str(caught.value)


@pytest.mark.parametrize("call", [fit_classifier, fit_regressor, make_optimizer])
def test_bad_parameters_are_named(call):
    for name, value in SHARED:
        assert name in refusal(call, **{name: value}), (name, value)
    for parameters, words in TOGETHER:
        assert words in refusal(call, **parameters)
    assert "small" in refusal(call, epsilon=1e-14, delta=1e-15)
    assert "noise_multiplier" in refusal(call, noise_multiplier=1e30, batch_size=5)


def test_bad_parameters_of_networks_are_named():
    for name, value in NETWORKS:
        for call in (fit_classifier, fit_regressor):
            assert name in refusal(call, **{name: value}), (name, value)
    for name, value in CLASSES:
        assert name in refusal(fit_classifier, **{name: value}), (name, value)
    for name, value in BOUNDS:
        assert name in refusal(fit_regressor, **{name: value}), (name, value)


def test_no_plan_is_made_of_parameters_that_do_not_go_together():
    """Also if another thread changes the optimizer after it was checked."""
    made = DPAdamRegressor._layout

    def changed_then(model, *shape):
        model.optimizer.set_params(sampling="in-turn", factorization="blt")
        return made(model, *shape)

    model = DPAdamRegressor(n_epochs=2, optimizer=Adam(), accountant=LEDGER)
    model._layout = changed_then.__get__(model)
    before = len(LEDGER.ledger)
    with pytest.raises(ValueError, match="n_epochs=1"):
        model.fit(X, TARGETS)
    assert len(LEDGER.ledger) == before


def test_the_optimizer_is_searched_as_a_nested_parameter():
    grid = {"optimizer__learning_rate": [0.01, 0.1], "optimizer__moments": ["pp"]}
    model = DPAdamRegressor(n_epochs=1, optimizer=Adam())
    search = GridSearchCV(model, grid, cv=2).fit(X, TARGETS)
    assert search.best_estimator_.optimizer.learning_rate in (0.01, 0.1)
    with pytest.raises(ValueError, match="optimizer='adam' has no parameters"):
        DPAdamRegressor().set_params(optimizer__learning_rate=0.1)


def test_bad_parameters_of_optimizers_are_named():
    for name in ("n_parameters", "n_samples"):
        for value in (0, -3, 2.5, "many", None, True):
            assert name in refusal(make_optimizer, **{name: value})


def test_bad_data_are_refused_before_the_charge():
    for call in (fit_classifier, fit_regressor):
        assert "y" in refusal(call, y=None)
        assert "inconsistent" in refusal(call, y=LABELS[:-1])
        assert "X" in refusal(call, X=X[0])
        assert "X" in refusal(call, X=X[:, :0])
        assert "sparse" in refusal(call, X=sparse.csr_array(X)).lower()
        assert "complex" in refusal(call, X=X * 1j).lower()
        refusal(call, PrivacyBudgetError, accountant=PrivacyAccountant(1e-9))
    for labels in (TARGETS, X[:, 1] + 1j, sparse.csr_array(TARGETS[:, :1])):
        for classes in ([0, 1], None):
            assert "y" in refusal(fit_classifier, y=labels, classes=classes)
    assert "sample_weight" in refusal(
        lambda **p: DPAdamRegressor(**p).fit(X, LABELS, sample_weight=np.ones(30))
    )


def test_bad_labels_are_refused_after_the_charge():
    """Also where those that occur are public: what is wrong with them is not."""
    one = refusal(fit_classifier, classes=None, y=np.zeros(30), charges=1)
    assert "one class" in one
    bad = (Talkative(), [*LABELS[:-1], 1j], [*LABELS[:-1], NAN], [*LABELS[:-1], {}])
    for labels in bad:
        for classes in ([0, 1], None):
            said = refusal(fit_classifier, y=labels, classes=classes, charges=1)
            assert "y" in said


class Talkative:
    """What quotes a value when it is to become an array."""

    shape = (30,)

    def __len__(self):
        return 30

    def __array__(self, *given, **named):
        raise RuntimeError(f"cannot convert {SECRET}")


class Incomparable:
    """What quotes a value whenever it is compared."""

    def __lt__(self, other):
        raise RuntimeError(f"cannot compare {SECRET}")


def test_masked_targets_are_refused():
    """What lies under a mask would be used, and in several targets it was."""
    hidden = {"mask": LABELS == 1}
    masked = np.ma.array(LABELS, **hidden)
    for classes in ([0, 1], None):
        words = refusal(fit_classifier, y=masked, classes=classes, charges=1)
        assert "masked" in words
    several = np.ma.array(TARGETS, mask=np.column_stack([LABELS, 1 - LABELS]))
    for y in (masked, several):
        assert "masked" in refusal(fit_regressor, y=y, charges=1)


def test_bounds_of_any_size_bring_targets_to_the_same_range():
    for bounds in ((-1.7e308, 1.7e308), (1.0, np.nextafter(1.0, 2.0))):
        model = fit_regressor(y=TARGETS[:, 0], target_bounds=bounds)
        assert np.isfinite([model.target_center_, model.target_scale_]).all()
        assert (model.target_scale_ > 0.0).all()


def changed(value):
    rows = X.copy()
    rows[5, 1] = value
    return rows


def test_errors_of_values_are_charged_and_quote_nothing():
    for call in (fit_classifier, fit_regressor):
        for value in (NAN, INF, -INF):
            assert "X" in refusal(call, X=changed(value), charges=1)
    assert "y" in refusal(fit_regressor, y=changed(NAN)[:, 1], charges=1)
    for labels in (
        LABELS + 5,
        LABELS + 0.5,
        np.array(["a", "b"])[LABELS],
        np.array([0, "b"], dtype=object)[LABELS],
        np.array([0, SECRET])[LABELS],
        np.array([Incomparable() for _ in LABELS]),
        np.where(LABELS, NAN, 0.0),
    ):
        assert "not among classes" in refusal(fit_classifier, y=labels, charges=1)


def test_bad_calls_of_fitted_networks():
    for model in (fit_classifier(), fit_regressor()):
        for rows in (X[:, :2], X[0], changed(NAN), X * 1j):
            with pytest.raises(ValueError, match=r"X|feature|omplex"):
                model.predict(rows)
        for shape in ((0, 3), (30, 0), (2.5, 3), ("30", 3)):
            with pytest.raises(ValueError, match=r"n_samples|n_features"):
                model.privacy_plan(*shape)
    with pytest.raises(ValueError, match="n_classes"):
        fit_classifier().privacy_plan(30, 3, 0)
    with pytest.raises(ValueError, match="n_outputs"):
        fit_regressor().privacy_plan(30, 3, "two")


def test_noise_and_no_noise_at_once():
    given = {"epsilon": None, "noise_multiplier": 1.0}
    with pytest.raises(ValueError, match="noise_multiplier"):
        make_optimizer(**given)
    with pytest.raises(ValueError, match="noise_multiplier"):
        DPAdamRegressor(**of_adam(given)).fit(X, TARGETS)


def test_bad_gradients():
    adam = make_optimizer(batch_size=30)
    batch = next(adam.batches())
    gradients = rng.normal(size=(len(batch), 3))
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
