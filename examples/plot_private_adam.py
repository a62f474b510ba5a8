"""
Private Adam: three sources of the second moment
================================================

This page is for users of Adam who may choose ``moments``. Adam divides a mean of
gradients by the square root of a mean of their squares. With a budget, the squares are
either released beside the gradients or computed from released values. The figures show
the errors of both.
"""

# tags: quick

# %%
# Errors of the second moment
# ---------------------------
# Lemma 4.4 of Kalinin, Upadhyay and Lampert (2025) gives the expected squared error for
# a million parameters and 1000 steps. It covers joint moments (JME), and squared noisy
# gradients with and without their bias. The noise is that of the exact Gaussian
# mechanism for a sensitivity of one; replacing an example moves its gradient by two.
# The noise is either independent from step to step, or shaped by the square root of the
# matrix of weights, as when each example is in one step. Shaping helps only joint
# moments, because squares of shaped noise are larger.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral.factorizations import Exponential, factorize

d, n, beta = 1e6, 1000, 0.999
steps = np.arange(n)
A = (1 - beta) * np.tril(beta ** (steps[:, None] - steps).clip(0))
sigma = np.logspace(-4, 1, 8000)


def squared_errors(name):
    """Return the errors of all three methods, for every noise."""
    shaping = factorize(Exponential(beta), name, n)
    inverse = np.linalg.inv(shaping.matrix(n))
    unit = inverse @ inverse.T  # covariance of the noise of one entry
    s = 2 * sigma * shaping.column_norm
    norm = np.sum((A @ inverse) ** 2)
    own = 2 * d * np.trace(A @ unit**2 @ A.T) * s**4 + 4 * norm * s**2
    bias = d * np.sum((A @ np.diag(unit)) ** 2) * s**4
    return {
        "joint moments": 2 * d * norm * s**2,
        "squared": own + bias,
        "squared, debiased": own,
    }


fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for ax, name in zip(axes, ("trivial", "sqrt"), strict=True):
    errors = squared_errors(name)
    for kind, values in errors.items():
        ax.loglog(sigma, np.sqrt(values), label=kind)
    for kind in ("squared", "squared, debiased"):
        crossing = sigma[np.argmax(errors[kind] > errors["joint moments"])]
        ax.axvline(crossing, color="gray", linewidth=0.5)
        print(f"{name}: joint moments beat {kind} from a noise of {crossing:.4f} on")
    ax.set(title=name, xlabel="standard deviation of the noise")
axes[0].set_ylabel("error of the second moment")
axes[1].legend()

# %%
# These are errors of vectors of length one. In the mean of a batch of hundreds, the
# noise is a hundredth of a gradient's length, and squared noise is the lesser evil.
#
# Digits
# ------
# All three second moments have the same budget. The learning rates suit each kind of
# moments: a second moment that is drowned by its noise is kept above the noise, which
# makes steps shorter. Accuracies of single fits differ by a few hundredths.
# ``examples/benchmarks/adam_regimes.py`` has the settings of the paper.

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdpspectral import DPAdamClassifier
from skdpspectral.neural_network import Adam

X, y = load_digits(return_X_y=True)
parts = train_test_split(X / 16.0, y, random_state=0)
rates = {"jme": 0.3, "pp": 0.1, "pp-debiased": 0.05}
for epsilon in (1.0, 4.0):
    for moments, rate in rates.items():
        model = DPAdamClassifier(
            epsilon=epsilon, classes=range(10), optimizer=Adam(rate, moments=moments)
        )
        score = model.fit(parts[0], parts[2]).score(parts[1], parts[3])
        print(f"epsilon={epsilon}, {moments:12} {score:.3f}")
plt.show()
