"""DPRidgeClassifier: agreement with RidgeClassifier, accuracy, forms of labels."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from skdpspectral import DPRidgeClassifier, PrivacyAccountant, PrivacyLeakWarning

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")


def table(n_samples, n_classes, seed=0):
    """Rows of classes with different means, in mixed units far from the origin."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n_samples)
    means = 2.0 * rng.standard_normal((n_classes, 5))
    Z = means[labels] + rng.standard_normal((n_samples, 5))
    return 1e3 + Z * 10.0 ** rng.uniform(-3, 3, 5), labels


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("alpha", [0.0, 300.0])
def test_without_noise_it_is_a_ridge_classifier(n_classes, alpha):
    X, y = table(800, n_classes)
    model = DPRidgeClassifier(alpha, epsilon=None).fit(X, y)
    Z = (X - model.mean_) / model.scale_
    other = RidgeClassifier(alpha).fit(Z, y)
    found, expected = model.decision_function(X), other.decision_function(Z)
    if n_classes > 2:  # indicators of 0 and 1, and of -1 and 1
        expected = 0.5 * (expected + 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), other.predict(Z))
    n_rows = 1 if n_classes == 2 else n_classes
    assert model.coef_.shape == (n_rows, 5)
    assert model.intercept_.shape == (n_rows,)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_raw_units_need_no_bounds(n_classes):
    X, y = table(30_000, n_classes)
    best = RidgeClassifier().fit((X - X.mean(0)) / X.std(0), y)
    best = best.score((X - X.mean(0)) / X.std(0), y)
    model = DPRidgeClassifier(classes=range(n_classes), noise_seed=0).fit(X, y)
    assert best - 0.03 < model.score(X, y)


def test_digits_in_public_bounds():
    """About .9 of RidgeClassifier's .95; a model of noise has .1."""
    X, y = load_digits(return_X_y=True)
    fits = DPRidgeClassifier(epsilon=4.0, classes=range(10), bounds=(0, 16))
    scores = [fits.set_params(noise_seed=s).fit(X, y).score(X, y) for s in range(3)]
    assert np.mean(scores) > 0.85


def test_no_fit_of_much_noise_predicts_one_class():
    """A third of these had .1, where no floor promised to be better than constants.

    About the middle of the bounds, and not a mean, they have .6 on average.
    """
    X, y = load_digits(return_X_y=True)
    fits = DPRidgeClassifier(epsilon=0.6, classes=range(10), bounds=(0, 16))
    scores = [fits.set_params(noise_seed=s).fit(X, y).score(X, y) for s in range(20)]
    assert min(scores) > 0.3
    assert np.mean(scores) > 0.7


def test_rows_that_are_clipped_to_little_still_tell_classes():
    """Private scales that are too small by chance had a share of .07 at .48."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    X = rng.standard_normal((2000, 30))
    X[:, :4] += np.where(y, 0.5, -0.5)[:, None]
    fits = DPRidgeClassifier(epsilon=0.8, classes=[0, 1], bounds=(-5, 5))
    scores = [fits.set_params(noise_seed=s).fit(X, y).score(X, y) for s in (48, 56, 65)]
    assert min(scores) > 0.75


@pytest.mark.filterwarnings("ignore:no feature can be seen")
def test_few_rows_are_of_the_most_frequent_class():
    """Of 3 classes of 150 rows, one has 120; false alarms are below 1e-9."""
    X, y = table(150, 2)
    y = np.where(np.arange(150) < 120, 2, y)
    model = DPRidgeClassifier(epsilon=1.0, classes=[0, 1, 2], noise_seed=0).fit(X, y)
    assert not model.coef_.any()
    assert np.isinf(model.alpha_)
    assert set(model.predict(X)) == {2}


def test_labels_of_any_type_and_a_ledger():
    X, y = table(3000, 3)
    names = np.array(["north", "south", "west"])
    accountant = PrivacyAccountant()
    model = DPRidgeClassifier(
        epsilon=4.0, classes=names, accountant=accountant, noise_seed=0
    ).fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    other = DPRidgeClassifier(epsilon=4.0, classes=[0, 1, 2], noise_seed=0).fit(X, y)
    np.testing.assert_array_equal(names[other.predict(X)], model.predict(X))
    assert len(accountant.ledger) == 1
    assert not hasattr(model, "predict_proba")


def test_classes_that_are_not_named_are_warned_of():
    X, y = table(300, 3)
    with pytest.warns(PrivacyLeakWarning, match="classes=None") as warned:
        DPRidgeClassifier(epsilon=50.0).fit(X, y)
    (one,) = [w for w in warned if "classes=None" in str(w.message)]
    assert one.filename == __file__
