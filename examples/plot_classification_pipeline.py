"""
Find the steps of a pipeline that leak
======================================

This page is for users who put :class:`~skdpspectral.DPPCA` into a
:class:`~sklearn.pipeline.Pipeline`. The guarantee covers what **DPPCA** releases. The
steps before and after it may leak.
"""

# tags: quick

# %%
# A classifier behind private components
# --------------------------------------
# The pipeline computes ten private components of the digits and then fits a logistic
# regression. A fit warns if some of its components may be noise alone. The classifier
# finds out which. The plot compares its accuracy on held-out images with the same
# pipeline without privacy:

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpspectral import DPPCA, NoisyFitWarning, PrivacyAccountant
from skdpspectral.audit import privacy_report
from skdpspectral.datasets import load_digits

warnings.simplefilter("ignore", NoisyFitWarning)
digits = load_digits()
X, y = digits.data, digits.target
pca = DPPCA(n_components=10, epsilon=1.0, delta=1e-6, bounds=digits.bounds)
pipeline = make_pipeline(pca, LogisticRegression(max_iter=2000))

with PrivacyAccountant() as accountant:
    scores = cross_val_score(pipeline, X, y)
plain = cross_val_score(make_pipeline(PCA(10), pipeline[-1]), X, y)
print(f"accuracy {scores.mean():.3f}, without privacy {plain.mean():.3f}")
print(accountant)

# %%
# Five folds are five fits, and the ledger lists all of them. The accuracies themselves
# are computed from held-out rows without noise. On private rows, they would be releases
# that no ledger lists.
#
# The step after: coefficients
# ----------------------------
# Which steps are private? ``privacy_report`` looks at the steps, and needs no data.

print(privacy_report(pipeline))

# %%
# The classifier leaks. It was fitted to the scores of the rows, which are as private
# as the rows, and its coefficients have no noise. Somebody who knows the other
# 1,796 images and has a guess about the last one can refit the classifier and
# compare: the right guess reproduces the coefficients, and a wrong guess does not.

fitted = clone(pipeline).fit(X, y)
components, published = fitted[0], fitted[-1].coef_


def distance_from_published(last_image, last_digit):
    """Refit the classifier on a guess about the last row."""
    images = np.vstack([X[:-1], last_image])
    guess = clone(fitted[-1]).fit(
        components.transform(images), np.append(y[:-1], last_digit)
    )
    return np.abs(guess.coef_ - published).max()


print(f"right guess: {distance_from_published(X[-1], y[-1]):.1e}")
print(f"wrong guess: {distance_from_published(X[0], y[0]):.1e}")

# %%
# So publish the components, and keep the classifier where the rows are. Or fit the
# classifier to public labeled rows, projected on the private components.

released = components.publish()
print(privacy_report(released))
print(released.privacy_)

# %%
# The step before: scaling
# ------------------------
# A ``StandardScaler`` in front looks harmless but voids the guarantee. DPPCA assumes
# that its input rows do not depend on each other, but the scaler has put the
# mean and the spread of all rows into each row.

scaled = make_pipeline(
    StandardScaler(), DPPCA(n_components=10, epsilon=1.0, delta=1e-6)
)
print(privacy_report(scaled))

# %%
# The mean alone reveals an image. If you know all other images, subtract them
# from n times the mean: what is left **is** the last image. The same subtraction from
# the private mean of DPPCA leaves noise.

others = X[:-1].sum(axis=0)
from_scaler = len(X) * StandardScaler().fit(X).mean_ - others
from_dppca = len(X) * components.mean_ - others

fig, axes = plt.subplots(1, 3, figsize=(8, 3.2))
titles = ("the last image", "from StandardScaler.mean_", "from DPPCA.mean_")
for ax, title, image in zip(
    axes, titles, (X[-1], from_scaler, from_dppca), strict=True
):
    ax.imshow(image.reshape(8, 8), cmap="gray_r")
    ax.set(title=title, xticks=[], yticks=[])
fig.tight_layout()
plt.show()

# %%
# Bounds replace the scaler
# -------------------------
# A scaler provides an origin and a unit. DPPCA takes both from public ``bounds``: rows
# are clipped into the box, its midpoint is the origin, and its half-width is the unit.
# A private mean is paid from the budget. If features have different units,
# ``scale="bounds"`` divides each feature by its own half-width. The bounds must be
# known without the data. Here, a pixel is between 0 and 16 by construction.

pca = DPPCA(
    n_components=10, epsilon=1.0, delta=1e-6, bounds=digits.bounds, scale="bounds"
)
print(privacy_report(pca))
print(pca.privacy_plan(n_samples=len(X), n_features=X.shape[1]))
