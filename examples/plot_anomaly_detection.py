"""
Detect anomalies with a private covariance
==========================================

This page is for networks and machines whose normal rows are private. The covariance of
normal connections is released once. Scoring with the Mahalanobis distance is
post-processing. The connections are from KDD Cup 1999: they have 122 columns, most of
them nearly constant.

The page needs KDD Cup 1999 in the folder of SKDPSPECTRAL_DATA.
The data are public. On private data, the curves below would be separate releases.
"""

# tags: quick

# %%
# Normal connections and attacks
# ------------------------------
# The model is fitted to 60,000 normal connections. Other normal connections, and
# attacks of all kinds, are scored.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.metrics import roc_auc_score, roc_curve

from skdpspectral import DPCovariance, PrivacyLeakWarning
from skdpspectral.datasets import make_spiked_covariance

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from real_tables import load_kddcup99

# The seeds below keep the page the same. A private fit has no seed.
warnings.simplefilter("ignore", PrivacyLeakWarning)


def load():
    """Return normal connections, others and attacks to score, and bounds."""
    rng = np.random.default_rng(0)
    try:
        data = load_kddcup99()
    except FileNotFoundError as error:
        print(f"Simulated rows stand for the connections. {error}")
        normal, _ = make_spiked_covariance(20_000, 20, random_state=0)
        return normal[:15_000], normal[15_000:], 3.0 * normal[:5000, ::-1], (-30, 30)
    normal = np.flatnonzero(data.target == "normal.")
    attacks = np.flatnonzero(data.target != "normal.")
    rng.shuffle(normal)
    rows = [normal[:60_000], normal[60_000:], rng.choice(attacks, 40_000, False)]
    return *(data.data[np.sort(part)].astype(float) for part in rows), data.bounds


train, normal, attacks, bounds = load()
rows = np.vstack([normal, attacks])
is_attack = np.r_[np.zeros(len(normal)), np.ones(len(attacks))]
print(f"{len(train)} connections with {train.shape[1]} columns make the model")

# %%
# One release, and distances
# --------------------------
# ``DPCovariance`` releases a covariance that is positive definite. Its
# smallest eigenvalue is of the size of the noise, which is public. Columns that never
# change do not get a disproportionate weight, as they would with the inverse of the
# measured covariance.

model = DPCovariance(epsilon=1.0, bounds=bounds, noise_seed=0).fit(train)
distances = model.mahalanobis(rows)
print(model.privacy_)
print(f"area under the curve: {roc_auc_score(is_attack, distances):.4f}")

# %%
# Accuracy against epsilon
# ------------------------
# The reference without privacy uses the inverse of the measured covariance.

exact = EmpiricalCovariance().fit(train)
scores = {"no privacy": exact.mahalanobis(rows)}
for epsilon in (0.1, 0.5, 2.0):
    model.set_params(epsilon=epsilon).fit(train)
    scores[f"epsilon = {epsilon}"] = model.mahalanobis(rows)

figure, axes = plt.subplots(figsize=(6, 4.5))
for name, found in scores.items():
    alarms, caught, _ = roc_curve(is_attack, found)
    area = roc_auc_score(is_attack, found)
    axes.plot(alarms, caught, label=f"{name}: area {area:.4f}")
    at_one = np.interp(0.01, alarms, caught)
    print(f"{name}: {at_one:.1%} of the attacks at 1 % false alarms")
axes.set_xscale("log")
axes.set_xlim(1e-3, 1)
axes.set_xlabel("normal connections that raise an alarm")
axes.set_ylabel("attacks that are caught")
axes.legend()
figure.tight_layout()

# %%
# Choosing a threshold
# --------------------
# You may look at distances of rows that are not part of the fit, as here, as far as the
# scored rows' own privacy allows. A quantile of the distances of the **training** rows
# is a separate release, which nothing accounts for. For normally distributed rows, the
# quantiles of the chi-square distribution need no data at all. These connections are
# far from a normal distribution, so choose the threshold on public connections.

plt.show()
