"""
Encode text, dates and missing values
=====================================

This page is for tables with text, dates and missing values (NaN). scikit-learn's
imputers and encoders would publish means and categories of private rows.
:class:`~skdpspectral.DPTableVectorizer` turns such a table into numbers with one
budget.
"""

# tags: quick

# %%
# The table
# ---------
# The table is simulated. Column names and dtypes are public, so declare dtypes when you
# read a file.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from skdpspectral import DPAdamClassifier, DPTableVectorizer, NoisyFitWarning
from skdpspectral.pipeline import make_private_pipeline

rng = np.random.default_rng(0)
n = 20_000
cities = np.array(["Graz", "Linz", "Wien", "Bad Aussee"], dtype=object)
city = rng.choice(cities, n, p=[0.3, 0.3, 0.399, 0.001])
age = rng.normal(45.0, 15.0, n)
joined = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D")
complains = rng.random(n) < 0.3
note = np.where(complains, "late and rude service", "all was fine")
score = 0.05 * (age - 45.0) + 1.5 * (city == "Wien") - 2.0 * complains
leaves = rng.random(n) < 1.0 / (1.0 + np.exp(score))
table = pd.DataFrame(
    {
        "age": np.where(rng.random(n) < 0.15, np.nan, age),
        "city": np.where(rng.random(n) < 0.05, None, city),
        "joined": joined,
        "note": note,
    }
)
print(table.head().to_string())

# %%
# What a fit will release
# -----------------------
# The plan depends only on public values: shape, names and dtypes.

vectorizer = DPTableVectorizer(epsilon=1.0)
print(vectorizer.plan_for(table).details())

# %%
# Encoded columns
# ---------------
# Missing values are set to the private mean, which is 0. A city with 20 customers
# counts as rare: its name is not released. A warning counts columns that noise hides.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    vectors = vectorizer.set_output(transform="pandas").fit_transform(table)
print(*(warning.message for warning in caught))
print(vectorizer.categories_)
print(vectors.iloc[:5, :11].round(2).to_string())

# %%
# Public categories cost nothing and leave the budget to the numbers. The column of
# other cities, with 20 customers, stays below the noise in all fits of this page.

warnings.simplefilter("ignore", NoisyFitWarning)

public = DPTableVectorizer(
    epsilon=1.0, categories={"city": ["Graz", "Linz", "Wien"]}
).fit(table.drop(columns="note"))
print(public.get_feature_names_out().tolist())

# %%
# From the table to a prediction
# ------------------------------
# Both steps share one budget, which is charged before any value is read.

train, test, y_train, y_test = train_test_split(table, leaves, random_state=0)
model = make_private_pipeline(
    DPTableVectorizer(),
    DPAdamClassifier(classes=[False, True]),
    epsilon=2.0,
    delta=1e-6,
).fit(train, y_train)
print(f"accuracy {model.score(test, y_test):.3f}, {1.0 - leaves.mean():.3f} stay")

# %%
# How rare a category may be
# --------------------------
# The plot shows the threshold for private counts, by the budget and the number of
# columns in which categories are searched for.

budgets = np.geomspace(0.25, 8.0, 6)
fig, ax = plt.subplots()
for n_columns in (1, 5, 20):
    plans = [
        DPTableVectorizer(epsilon=e).privacy_plan(n, 0, n_columns) for e in budgets
    ]
    thresholds = [plan["categories"].threshold for plan in plans]
    ax.plot(budgets, thresholds, ".-", label=f"{n_columns} columns of text")
ax.set_xscale("log", base=2)
ax.set_xticks(budgets, [f"{e:g}" for e in budgets])
ax.set(yscale="log", xlabel="epsilon", ylabel="rows that a category needs")
ax.legend()
plt.show()
