"""Networks that are trained by private Adam: what they learn, cost and show."""

import math

import numpy as np
import pandas as pd
import pytest
from release_tools import record_releases
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import skdpspectral as sk
from skdpspectral.accounting._composition import composed_epsilon
from skdpspectral.audit import privacy_report
from skdpspectral.neural_network import Adam
from skdpspectral.neural_network._adam import MOMENTS
from skdpspectral.pipeline import make_private_pipeline

pytestmark = pytest.mark.filterwarnings(
    "ignore:.* is private with epsilon:skdpspectral.PrivacyLeakWarning"
)
DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16.0
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (3000, 3))
Y = np.column_stack([X @ [1.0, -1.0, 0.5], X[:, 0] * X[:, 1]])


# -- what is learned ------------------------------------------------------------------


@pytest.mark.parametrize("moments", MOMENTS)
def test_digits_are_learned_at_a_budget(moments):
    optimizer = Adam(moments=moments)
    model = sk.DPAdamClassifier(epsilon=4.0, classes=range(10), optimizer=optimizer)
    model.fit(DIGITS[:1500], LABELS[:1500])
    assert model.score(DIGITS[1500:], LABELS[1500:]) > 0.7
    found = model.predict_proba(DIGITS[:20])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert model.decision_function(DIGITS[:20]).shape == (20, 10)
    assert model.n_iter_ == 10 * math.ceil(1500 / 256)
    assert not hasattr(model, "loss_curve_")
    assert not hasattr(model, "partial_fit")


# Rows, features and classes or targets, epsilon, and what it scored in four fits, over
# what it scores without noise.
MEASURED = [
    *((60, 64, 10, 0.3, 0.01), (150, 64, 10, 0.3, 0.04), (1200, 64, 10, 1.0, 0.82)),
    *((60, 30, 2, 0.1, 0.02), (60, 30, 2, 3.0, 0.97), (150, 30, 2, 1.0, 0.97)),
    *((60, 13, 3, 0.1, 0.15), (60, 13, 3, 3.0, 0.96), (150, 20, 5, 0.3, 0.04)),
    *((60, 8, 0, 0.3, -1.73), (1200, 8, 0, 1.0, 0.88), (4000, 8, 0, 0.3, 0.87)),
    *((1200, 50, 0, 0.3, -3.74), (4000, 50, 0, 0.3, -2.13), (4000, 50, 0, 3.0, 0.88)),
]


@pytest.mark.parametrize(("n", "p", "n_classes", "epsilon", "score"), MEASURED)
def test_a_plan_tells_noise_from_what_is_learned(n, p, n_classes, epsilon, score):
    model = sk.DPAdamClassifier(classes=range(n_classes), epsilon=epsilon)
    if not n_classes:
        model = sk.DPAdamRegressor(target_bounds=(-2.5, 2.5), epsilon=epsilon)
    remarks = model.privacy_plan(n, p).remarks
    said = [one for one in remarks if one.concern == "noise"]
    assert len(said) == (score < 0.2)
    assert not model.set_params(epsilon=None).privacy_plan(n, p).remarks


def test_hidden_layers_learn_what_a_line_cannot():
    y = X[:, 0] * X[:, 1] > 0.0
    scores = []
    for sizes in ((), (12, 8)):
        given = {"batch_size": 3000, "n_epochs": 150, "classes": [False, True]}
        model = sk.DPAdamClassifier(sizes, epsilon=100, **given)
        scores.append(model.fit(X, y).score(X, y))
    assert scores[0] < 0.65
    assert scores[1] > 0.7


def test_targets_are_learned_in_their_units():
    given = {"epsilon": 30.0, "batch_size": 3000, "n_epochs": 150}
    model = sk.DPAdamRegressor(16, target_bounds=(90.0, 110.0), **given)
    assert model.fit(X, 100.0 + 4 * Y[:, 0]).score(X, 100.0 + 4 * Y[:, 0]) > 0.8


def test_classes_are_public_by_name_or_with_a_warning():
    y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    named = sk.DPAdamClassifier(classes=["yes", "no", "maybe"]).fit(X, y)
    assert list(named.classes_) == ["maybe", "no", "yes"]
    assert set(named.predict(X)) <= {"maybe", "no", "yes"}
    for labels in (y, pd.Series(y).astype("category"), y == "yes"):
        with pytest.warns(sk.PrivacyLeakWarning, match="classes=None") as caught:
            sk.DPAdamClassifier().fit(X, labels)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("alone", [True, False])
def test_targets_without_bounds_are_refused_before_the_charge(alone):
    accountant = sk.PrivacyAccountant(1.0, 1e-6)
    model = sk.DPAdamRegressor(accountant=accountant)
    if not alone:
        model = make_private_pipeline(
            sk.DPStandardScaler(), sk.DPAdamRegressor(), accountant=accountant
        )
    for ask in (model.plan_for, lambda rows: model.fit(rows, 1e3 * Y[:, 0])):
        with pytest.raises(ValueError, match="target_bounds is required"):
            ask(X)
    assert len(accountant.ledger) == 0


def test_predictions_are_within_the_bounds_of_targets():
    given = {"epsilon": None, "batch_size": 3000, "n_epochs": 60}
    model = sk.DPAdamRegressor(target_bounds=(9, 11), **given)
    with pytest.warns(sk.PrivacyLeakWarning, match="without privacy"):
        model.fit(X, Y[:, 0] * 2.0 + 10.0)
    found = model.predict(100.0 * X)
    assert (found.min(), found.max()) == (9.0, 11.0)


# -- what it costs --------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", ["replace-one", "zero-out-one"])
@pytest.mark.parametrize("sampling", ["poisson", "in-turn"])
def test_a_fit_costs_what_it_was_asked_to_cost(sampling, neighbors):
    accountant = sk.PrivacyAccountant()
    optimizer = Adam(sampling=sampling, neighbors=neighbors)
    model = sk.DPAdamRegressor(
        2,
        target_bounds=(-1, 1),
        epsilon=3.0,
        optimizer=optimizer,
        accountant=accountant,
    )
    plan = model.plan_for(X)
    model.fit(X, Y[:, 0])
    assert model.privacy_ == plan
    assert plan.neighbors == neighbors
    found = accountant.spent(1e-6).epsilon
    assert 2.9 < found <= 3.0
    (mechanism,) = plan.mechanisms
    if sampling == "poisson":
        curve = mechanism.curve(neighbors)
        assert composed_epsilon(0.0, ((curve, 1),), 1e-6) == found
        assert mechanism.sampling_probability == pytest.approx(256 / 3000)


def test_one_ledger_holds_components_and_networks():
    with sk.PrivacyAccountant() as accountant:
        model = make_pipeline(
            sk.DPPCA(10, epsilon=1.0),
            sk.DPAdamClassifier(epsilon=3.0, classes=range(10)),
        )
        model.fit(DIGITS, LABELS)
    assert len(accountant.ledger) == 2
    # Of two budgets together, as curves and not as sums.
    assert 3.0 < accountant.spent(2e-6).epsilon < 4.0
    assert model.score(DIGITS, LABELS) > 0.4
    report = privacy_report(model)
    assert report.private, str(report)
    assert [line.verdict for line in report] == ["private", "private"]


def test_a_budget_of_one_fit_lets_one_fit_in():
    accountant = sk.PrivacyAccountant(3.0, 1e-6)
    in_turn = Adam(sampling="in-turn")
    model = sk.DPAdamRegressor(
        target_bounds=(-1, 1), epsilon=3.0, optimizer=in_turn, accountant=accountant
    )
    model.fit(X, Y[:, 0])
    with pytest.raises(RuntimeError):
        model.fit(X, Y[:, 0])
    assert len(accountant.ledger) == 1


# -- what it reveals ------------------------------------------------------------------


def test_a_sample_is_not_of_positions(monkeypatch):
    """Were samples the same in all fits, a member could be told by its gradient."""
    y, seen = X[:, 0] > 0, []
    for _ in range(2):
        with record_releases() as released:
            optimizer = Adam(noise_multiplier=1e-3)
            model = sk.DPAdamClassifier(n_epochs=1, optimizer=optimizer)
            model.set_params(classes=[False, True]).fit(X, y)
        seen.append(released["gradients"][0])
    # Noise is a thousandth of one example: what differs are the samples.
    assert np.abs(seen[0] - seen[1]).max() > 0.01 * np.abs(seen[0]).max()
