"""Raw Adult through one private pipeline, beside budgets split by hand.

The table has numbers in years and dollars, and eight columns of texts whose values are
public. A vectorizer scales numbers privately and encodes texts, and a private
classifier follows. Printed are accuracies on the original test rows, and entries of the
ledger. ::

    SKDPSPECTRAL_DATA=... python examples/benchmarks/private_pipeline.py --repeats 5
"""

import argparse
import os
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpspectral import (
    DPAdamClassifier,
    DPTableVectorizer,
    LedgerError,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.pipeline import make_private_pipeline

DELTA = 1e-6


def raw_adult():
    """Return the frame as recorded, the labels, test rows, and the public values."""
    path = os.path.join(os.environ["SKDPSPECTRAL_DATA"], "adult", "adult.npz")
    with np.load(path, allow_pickle=False) as raw:
        frame = pd.DataFrame(raw["numeric"], columns=raw["numeric_names"].tolist())
        values = {}
        for column, name in enumerate(raw["categorical_names"].tolist()):
            levels = raw[f"levels_{name}"].tolist()
            codes = raw["categorical"][:, column]
            frame[name] = np.append(levels, "?")[np.minimum(codes, len(levels))]
            values[name] = levels
        return frame, raw["income_gt_50k"], raw["is_test"] == 1, values


def without_privacy(numbers, values):
    """Return a column transformer that scales numbers and encodes texts."""
    encoder = OneHotEncoder(
        categories=list(values.values()), handle_unknown="ignore", sparse_output=False
    )
    return make_column_transformer((StandardScaler(), numbers), (encoder, list(values)))


def by_hand(columns, network, epsilon, share, accountant):
    """Return an ordinary pipeline whose vectorizer has a share of epsilon."""
    columns = clone(columns).set_params(epsilon=share * epsilon, accountant=accountant)
    network = clone(network).set_params(
        epsilon=(1.0 - share) * epsilon, accountant=accountant
    )
    return make_pipeline(columns, network)


def measured(name, make, data, repeats):
    """Print the accuracy of several fits, and entries and total of a ledger."""
    X, y, test = data
    found, seconds, said = [], [], ""
    for _ in range(repeats):
        model, accountant = make()
        started = time.perf_counter()
        try:
            model.fit(X[~test], y[~test])
        except (LedgerError, PrivacyBudgetError) as error:
            said = f"{type(error).__name__}: {error}"
        else:
            found.append(model.score(X[test], y[test]))
        seconds.append(time.perf_counter() - started)
    spent = "no ledger"
    if accountant is not None:
        spent = f"{len(accountant.ledger)} entries, {accountant.spent().epsilon:.3f}"
    scores = f"{np.mean(found):.4f} +- {np.std(found):.4f}" if found else said[:90]
    print(f"{name:34} {scores}  {spent}  {np.median(seconds):.2f} s", flush=True)


def main():
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    frame, y, test, values = raw_adult()
    data, numbers = (frame, y, test), [c for c in frame if c not in values]
    plain = make_pipeline(
        without_privacy(numbers, values), LogisticRegression(max_iter=1000)
    )
    measured("scikit-learn, no privacy", lambda: (clone(plain), None), data, 1)
    columns = DPTableVectorizer(categories=values)
    network = DPAdamClassifier(classes=[0, 1])
    for epsilon in (3.0, 1.0):

        def whole(epsilon=epsilon):
            accountant = PrivacyAccountant(epsilon, DELTA)
            steps = clone(columns), clone(network)
            return (
                make_private_pipeline(*steps, epsilon=epsilon, accountant=accountant),
                accountant,
            )

        measured(f"epsilon={epsilon:g}, one pipeline", whole, data, repeats)
        for share in (0.5, 0.1):

            def split(epsilon=epsilon, share=share):
                accountant = PrivacyAccountant(epsilon, DELTA)
                return by_hand(columns, network, epsilon, share, accountant), accountant

            measured(f"epsilon={epsilon:g}, by hand, {share:g}", split, data, repeats)


if __name__ == "__main__":
    main()
