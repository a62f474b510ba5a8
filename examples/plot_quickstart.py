"""
Private principal components of images
======================================

This page is for a first fit. The bundled digits are 1,797 images of 8 x 8 pixels with
values between 0 and 16. These bounds are public. :class:`~skdpspectral.DPPCA` finds the
principal axes of the images without revealing any single image.
"""

# tags: quick

# %%
# A plan before there is any data
# -------------------------------
# The releases of a fit and their cost depend only on public numbers.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skdpspectral import DPPCA, PrivacyAccountant
from skdpspectral.metrics import captured_variance

pca = DPPCA(n_components=2, epsilon=1.0, delta=1e-6, bounds=(0, 16))
plan = pca.privacy_plan(n_samples=1797, n_features=64)
print(plan)

# %%
# The plan prints two lines by default. The table of details lists all releases and
# noise.

print(plan.details())

# %%
# The fit, and the ledger
# -----------------------
# An accountant with a budget refuses any fit that would exceed it. The fit is entered
# before a single pixel is read.

X, digit = load_digits(return_X_y=True)
accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
pca.set_params(accountant=accountant).fit(X)
print(accountant)
print(accountant.remaining(4))

# %%
# How good is it?
# ---------------
# The output shows the share of the images' variance that two components keep, beside
# the best possible two. (This computation looks at the data: on private data, it would
# be a separate release.)

best = captured_variance(PCA(n_components=2).fit(X), X)
kept = captured_variance(pca, X)
print(f"{kept:.3f} of the variance, {kept / best:.1%} of what PCA keeps")

# %%
# The plot shows the scores of the images on the private components. You may publish the
# components, but the scores of a row are as private as the row.

scores = pca.transform(X)
fig, ax = plt.subplots()
points = ax.scatter(*scores.T, c=digit, cmap="tab10", s=8)
fig.colorbar(points, ax=ax, label="digit")
ax.set(
    xlabel="first private component",
    ylabel="second private component",
    title=f"epsilon = {pca.epsilon:g} for 1,797 images",
)

# %%
# What you may publish
# --------------------
# ``publish`` returns a copy with only the releases and the plan.

published = pca.publish()
print(published.privacy_)
