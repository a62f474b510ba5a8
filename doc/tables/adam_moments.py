"""Test accuracies on the digits by the second moment of private Adam and its rate.

Logistic regression, batches of 256, 10 epochs, delta = 1e-5; a third of the rows, drawn
anew in each repeat, is for the test.
"""

from functools import lru_cache

from sklearn.model_selection import train_test_split

from skdpspectral import DPAdamClassifier
from skdpspectral.datasets import load_digits
from skdpspectral.neural_network import Adam

HEADER = "Moments, :math:`\\epsilon`"
ROWS = {
    f'"{moments}", {epsilon}': (moments, epsilon)
    for epsilon in (1, 4)
    for moments in ("pp", "pp-debiased", "jme")
}
REPEATS = 10
RATES = (0.02, 0.05, 0.1, 0.2, 0.5)


@lru_cache
def digits():
    """Return rows in [0, 1], and labels."""
    data = load_digits()
    return data.data / 16.0, data.target


def measure(setting, seed):
    """Return the accuracies of one division of the rows at each rate."""
    moments, epsilon = setting
    X, X_test, y, y_test = train_test_split(
        *digits(), test_size=1 / 3, random_state=seed
    )
    found = {}
    for rate in RATES:
        model = DPAdamClassifier(
            epsilon=epsilon,
            delta=1e-5,
            classes=list(range(10)),
            batch_size=256,
            n_epochs=10,
            optimizer=Adam(rate, moments=moments),
            noise_seed=seed,
        )
        found[f"rate {rate:g}"] = model.fit(X, y).score(X_test, y_test)
    return found
