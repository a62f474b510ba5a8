"""
One budget for a whole pipeline
===============================

This page is for a table with several private steps: a vectorizer and a classifier. A
:class:`~skdpspectral.pipeline.PrivatePipeline` has one epsilon for all of them, and is
charged once.
"""

# tags: quick

# %%
# A table
# -------
# The possible text values are public, because they are printed in the questionnaire.
# Some incomes are missing.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpspectral import (
    DPAdamClassifier,
    DPTableVectorizer,
    NoisyFitWarning,
    PrivacyAccountant,
)
from skdpspectral.audit import privacy_report
from skdpspectral.pipeline import make_private_pipeline
from skdpspectral.plotting import PrivacyUtilityDisplay

warnings.simplefilter("ignore", NoisyFitWarning)
rng = np.random.default_rng(0)
n, sectors = 6000, ["care", "farming", "trade"]
frame = pd.DataFrame(
    {
        "age": rng.normal(40.0, 12.0, n),
        "income": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(10.0, 0.6, n)),
        "sector": rng.choice(sectors, n),
    }
)
odds = (frame["age"] - 40.0) / 12.0 + 2.0 * (frame["sector"] == "care") - 0.5
labels = (odds + rng.logistic(scale=0.5, size=n) > 0.0).to_numpy()

# %%
# A pipeline
# ----------
# The steps have no budgets. The pipeline has one. The vectorizer standardizes numbers,
# fills missing ones with private means, and encodes public categories, which cost
# nothing. scikit-learn's encoders and imputers are no substitute: the dtypes that they
# keep can tell whether a value is missing. The report shows that nothing leaks.

model = make_private_pipeline(
    DPTableVectorizer(categories={"sector": sectors}),
    DPAdamClassifier(classes=[False, True], n_epochs=5),
    epsilon=1.0,
)
print(privacy_report(model))

# %%
# The cost of a fit follows from the number of rows. It is known before there are data.

print(model.plan_for(frame).details())

# %%
# Scores by budget
# ----------------
# Five budgets on three folds are 15 fits, and 15 entries of a ledger, each with the
# requested budget. The scores are exact and in no ledger. On private rows, they would
# be separate releases. These rows are simulated.

with PrivacyAccountant() as accountant:
    PrivacyUtilityDisplay.from_estimator(
        model, frame, labels, epsilons=[0.1, 0.25, 0.5, 1.0, 2.0], cv=3
    )
plt.show()
entries = pd.DataFrame(accountant.ledger)
print(entries.groupby("epsilon").size())

# %%
# What is published
# -----------------
# The published pipeline holds only releases and the plan.

published = model.fit(frame, labels).publish()
print(published.predict(frame.head()))
print(published["dpadamclassifier"].coefs_[0].round(2).ravel())
