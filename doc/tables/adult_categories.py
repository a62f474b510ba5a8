"""Accuracies on the raw Adult table of a DPTableVectorizer and a DPAdamClassifier.

One PrivatePipeline with its default shares, on a random three quarters of the 48,842
rows; delta = 1e-6. "?" is read as missing. "found": the share of the values of text
columns whose category is found.
"""

from functools import lru_cache

import numpy as np
from real_tables import load_adult
from sklearn.model_selection import train_test_split

from skdpspectral import DPAdamClassifier, DPTableVectorizer
from skdpspectral.pipeline import make_private_pipeline

NEEDS_DATA = True
HEADER = ":math:`\\epsilon`"
ROWS = {"0.5": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}
REPEATS = 10
SLOW = tuple(ROWS)


@lru_cache
def table():
    """Return frame, labels and the public categories."""
    adult = load_adult(as_frame=True)
    return adult.data.replace("?", None), adult.target, adult.categories


def measure(epsilon, seed):
    """Return the accuracies of one split."""
    X, y, categories = table()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    found = {}
    for name, given in (("categories found", None), ("categories public", categories)):
        parameters = {} if given is None else {"categories": given}
        model = make_private_pipeline(
            DPTableVectorizer(**parameters),
            DPAdamClassifier(classes=[0, 1]),
            epsilon=epsilon,
            delta=1e-6,
            noise_seed=seed,
        ).fit(X, y)
        found[name] = model.score(X_test, y_test)
        if given is None:
            kept = model["dptablevectorizer"].categories_
            shares = [
                X_test[column].isin(values).sum() / X_test[column].notna().sum()
                for column, values in kept.items()
            ]
            found["values whose category is found"] = np.mean(shares)
    return found
