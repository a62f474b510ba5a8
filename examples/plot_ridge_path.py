"""
Linear regression with confidence intervals
===========================================

This page is for analysts who want coefficients with confidence intervals.
:class:`~skdpspectral.DPRidge` releases one moment of features and targets. Coefficients
for all penalties and the choice of a penalty are computed from this release. With
``intervals=True``, moments of the residuals are released as well.
"""

# tags: quick

# %%
# A table in raw units
# --------------------
# The table has six features far from the origin, in units from thousandths to
# thousands. The last two have no effect.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPRidge, DPRidgeClassifier, PrivacyAccountant
from skdpspectral.plotting import EffectsDisplay

rng = np.random.default_rng(0)
n, effects = 20_000, np.array([3.0, -2.0, 1.0, 0.5, 0.0, 0.0])
units = 10.0 ** np.arange(-3, 3)
Z = rng.standard_normal((n, 6))
Z[:, 1] += 0.7 * Z[:, 0]
X, y = 100.0 * units + Z * units, 50.0 + Z @ effects + 3.0 * rng.standard_normal(n)

# %%
# One fit
# -------
# The fit gets neither bounds nor magnitudes.

with PrivacyAccountant(epsilon=1.0, delta=1e-6) as accountant:
    model = DPRidge(epsilon=1.0, intervals=True).fit(X, y)
print(model.privacy_)
print(f"R2 = {model.score(X, y):.3f}, alpha_ = {model.alpha_:.0f}")

# %%
# The path and the intervals
# --------------------------
# The fit is one entry in the ledger, and both are free. Coefficients are in units of
# the features, and the dots are the true coefficients.

alphas = np.logspace(1, 7, 60)
coefs, intercepts = model.path(alphas)
intervals = model.conf_int(0.95) * units[:, None]
print(f"entries in the ledger: {len(accountant.ledger)}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
left.semilogx(alphas, coefs * units)
left.set(xlabel="penalty alpha", ylabel="coefficient (units of the feature)")
middle = intervals.mean(axis=1)
right.errorbar(np.arange(6), middle, middle - intervals[:, 0], fmt="_", capsize=4)
right.plot(np.arange(6), effects, "k.", label="true")
right.set(xlabel="feature", title="95 % confidence intervals")
right.legend()
fig.tight_layout()

# %%
# A table of results
# ------------------
# Rows with long features are weighted, and the shares of their squares that are kept
# are public. Here all rows are nearly kept, and the test finds no curvature.

print(np.column_stack([model.coef_, model.conf_int()]))
print(f"kept: {model.kept_.min():.2f}, linear: p = {model.linearity_pvalue_:.2f}")

# %%
# Classes
# -------
# :class:`~skdpspectral.DPRidgeClassifier` makes the same release for indicators of
# classes, which are public.

above = y > 50.0
classifier = DPRidgeClassifier(epsilon=1.0, classes=[False, True]).fit(X, above)
print(f"accuracy = {classifier.score(X, above):.3f}")

# %%
# Shapes of features
# ------------------
# Effects that are not linear need a basis. It is chosen by the numbers of rows and
# features, and the budget.

curved = 4.0 * np.sin(2.0 * Z[:, 2]) + Z[:, 0] ** 2 + rng.standard_normal(n)
shapes = DPRidge(epsilon=2.0, basis="auto").fit(X, curved)
straight = DPRidge(epsilon=2.0).fit(X, curved)
print(f"{shapes.basis_}: R2 {shapes.score(X, curved):.2f}, linear: ", end="")
print(f"{straight.score(X, curved):.2f}")
EffectsDisplay.from_estimator(shapes, features=[0, 2, 5])
plt.tight_layout()

# %%
# What a larger budget is worth
# -----------------------------
# Standard errors include noise and sampling. Beyond some budget, only the sampling
# error is left.

for epsilon in (0.5, 1.0, 2.0, 8.0):
    fitted = DPRidge(epsilon=epsilon, intervals=True).fit(X, y)
    error = np.nanmean(fitted.coef_std_ * units)
    print(f"epsilon = {epsilon}: R2 {fitted.score(X, y):.3f}, error {error:.3f}")
