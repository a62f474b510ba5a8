"""
Mean and covariance of a stream at every step
=============================================

This page is for readings that arrive one by one. :class:`~skdpspectral.JMECovariance`
publishes the mean and the covariance of all rows so far after each row, under **one**
guarantee for all steps. The noise is correlated between steps, so that it nearly
cancels in running means.
"""

# tags: quick

# %%
# A plan before there is any data
# -------------------------------
# The horizon is the number of steps that the noise is made for. It is public, and it
# may be larger than needed: a horizon twice as large costs about 3 % of accuracy.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import JMECovariance, PrivacyAccountant

horizon = 4000
print(JMECovariance(horizon=horizon).privacy_plan(n_features=3).details())

# %%
# The stream
# ----------
# Three sensors have readings that drift. Batches may have any size: the releases are
# the same. The budget of the whole stream is charged with the first batch.

rng = np.random.default_rng(0)
drift = 0.4 * np.sin(np.linspace(0, 3, horizon))[:, None] * [1.0, 0.5, -0.5]
X = drift + rng.multivariate_normal(np.zeros(3), 0.02 * np.eye(3) + 0.02, horizon)

accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
stream = JMECovariance(epsilon=1.0, horizon=horizon, accountant=accountant)
seen = []
for batch in np.array_split(X, 100):
    stream.partial_fit(batch)
    seen.append((stream.n_samples_seen_, *stream.location_))
    done = stream.n_samples_seen_ * 40 // horizon
    if stream.n_samples_seen_ % 800 == 0:
        print(f"[{'#' * done:40}] {stream.n_samples_seen_:4} rows", stream.location_)
print(accountant)

# %%
# The band of the noise is public. It follows from the plan and the factorization,
# not from the rows.

from skdpspectral.factorizations import Average, NoiseGain, factorize

steps, *means = np.array(seen).T
gain = NoiseGain(Average(), factorize(Average(), "blt", horizon)).push(horizon)
band = (
    2 * stream.privacy_["moments"].noise_std * np.sqrt(gain) / np.arange(1, horizon + 1)
)

fig, ax = plt.subplots()
exact = np.cumsum(X, axis=0) / np.arange(1, horizon + 1)[:, None]
for feature, mean in enumerate(means):
    (line,) = ax.plot(steps, mean, label=f"sensor {feature}")
    ax.plot(exact[:, feature], color=line.get_color(), linewidth=0.7, linestyle="--")
    where = steps.astype(int) - 1
    low, high = mean - band[where], mean + band[where]
    ax.fill_between(steps, low, high, color=line.get_color(), alpha=0.2)
ax.set(
    xlabel="number of rows",
    ylabel="running mean",
    ylim=(-0.6, 0.8),
    title="private means, twice their noise, exact means (dashed)",
)
ax.legend()

# %%
# A density over time
# -------------------
# Mean and covariance define a Gaussian density. Its mean log-likelihood of fresh rows,
# which is computed here without privacy, rises as noise is averaged out.

fresh = drift.mean(axis=0) + rng.multivariate_normal(
    np.zeros(3), 0.02 * np.eye(3) + 0.02, 500
)
path = JMECovariance(epsilon=1.0, min_eigenvalue=1e-2).release_path(X, every=100)
curve = []
scored = JMECovariance()
for step, location, covariance, _ in path:
    scored.location_, scored.covariance_ = location, covariance
    curve.append((step, scored.score(fresh)))
fig, ax = plt.subplots()
ax.plot(*np.array(curve).T)
ax.set(
    xlabel="number of rows",
    ylabel="mean log-likelihood",
    title="private Gaussian density",
)

# %%
# What you may publish
# --------------------
# A live stream holds the secret state of its noise. The published copy does not.

print(stream.publish().covariance_.round(3))
