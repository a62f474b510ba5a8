"""
Standardize features with unknown bounds
========================================

This page is for tables in raw units (years, dollars, seconds since 1970) without public
bounds. A ``StandardScaler`` would reveal means of all rows.
:class:`~skdpspectral.DPStandardScaler` estimates means and standard deviations
privately.
"""

# tags: quick

# %%
# The table
# ---------
# The table is simulated, so the true scales are known. The last two columns are hard: a
# value that occurs once in a thousand rows, and a constant.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpspectral import DPStandardScaler, PrivacyAccountant
from skdpspectral.audit import privacy_report

rng = np.random.default_rng(0)
n = 20_000
age = rng.integers(18, 90, n)
table = pd.DataFrame(
    {
        "age": age,
        "income": rng.lognormal(10.0, 0.6, n) * (1.0 + age / 100.0),
        "last_login": 1.7e9 + rng.normal(0.0, 2e6, n),
        "owns_house": rng.random(n) < 0.3,
        "fraction": rng.beta(2.0, 5.0, n) * 1e-6,
        "very_rare": rng.random(n) < 0.001,
        "constant": np.full(n, 42),
    }
)
bought = (table["income"] * 1e-4 + 2.0 * table["owns_house"] + rng.normal(size=n)) > 6.0

# %%
# One fit
# -------
# Before the fit, the plan states from public numbers what is released.

scaler = DPStandardScaler(epsilon=1.0)
print(scaler.privacy_plan(*table.shape).details())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    scaler.set_output(transform="pandas").fit(table)
print(*(warning.message for warning in caught))
found = pd.DataFrame(
    {
        "standard deviation": table.std(ddof=0),
        "private": scaler.scale_,
        "mean": table.mean(),
        "private mean": scaler.mean_,
        "unseen": scaler.unseen_features_,
    }
)
print(found.to_string(float_format="{:.4g}".format))

# %%
# ``unseen_features_`` marks a feature that is too rare to be seen in the noise. Its
# values become zero, and the warning counts such features.
#
# More budget, less error
# -----------------------
# The plot shows ratios of private to true standard deviations, in ten fits per budget.

seen = table.columns[:5]
budgets = (0.25, 0.5, 1.0, 2.0, 4.0)
fig, ax = plt.subplots()
for number, name in enumerate(seen):
    fits = [
        [DPStandardScaler(epsilon=e).fit(table[seen]).scale_[number] for _ in range(10)]
        for e in budgets
    ]
    ratios = np.array(fits) / table[name].std(ddof=0)
    place = np.array(budgets) * 1.06 ** (number - 2)
    ax.plot(place, ratios, ".", color=f"C{number}")
    ax.plot([], [], ".", color=f"C{number}", label=name)
ax.axhline(1.0, color="black", linewidth=0.8)
ax.set_xscale("log", base=2)
ax.set(xlabel="epsilon", ylabel="private / true standard deviation")
ax.set_xticks(budgets, [f"{e:g}" for e in budgets])
ax.legend()
plt.show()

# %%
# In front of a model
# -------------------
# In a ``ColumnTransformer``, other columns may bypass the scaler, which costs less. The
# report states for each step whether it is private. The classifier itself is not.

columns = ColumnTransformer([("scaled", DPStandardScaler(epsilon=1.0), list(seen))])
model = make_pipeline(columns, LogisticRegression())
print(privacy_report(columns))
with PrivacyAccountant(epsilon=1.0, delta=1e-6) as accountant:
    model.fit(table, bought)
print(f"accuracy {model.score(table, bought):.3f}, {bought.mean():.3f} bought")
