"""The harness of audits: worst-case neighbours for every private estimator.

Each case gives an estimator and two neighbouring data sets on which its release is
as revealing as the lemma allows. Run as a script, it audits one case with whatever
copy of the package is on the path, and prints the result as JSON::

    python tests/privacy/audit_cases.py <case> --epsilon 4 --trials 20000
"""

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

import skdpspectral
from skdpspectral import DPPCA
from skdpspectral.audit import audit_epsilon

CONFIDENCE = 0.99
_BACKGROUND = 3


@dataclass(frozen=True)
class Case:
    """One worst case.

    Parameters
    ----------
    make : callable
        ``make(epsilon) -> estimator``.
    row, replacement : array of shape (p,)
        The row that differs between the two data sets.
    tight : bool
        Whether one Gaussian mechanism moves by its whole sensitivity, so that the
        audit must find nearly all of the claim.
    """

    make: Callable
    row: np.ndarray
    replacement: np.ndarray
    tight: bool = True

    def data(self):
        """Return the two neighbouring data sets; the other rows are zero."""
        X = np.zeros((1 + _BACKGROUND, len(self.row)))
        neighbour = X.copy()
        X[0], neighbour[0] = self.row, self.replacement
        return X, neighbour


def _unit(*entries):
    return np.array(entries) / np.linalg.norm(entries)


def _pca(**parameters):
    return lambda epsilon: DPPCA(1, epsilon=epsilon, **parameters)


CASES = {
    # Unit rows, orthogonal along the axes: all of the change on the diagonal.
    "pca": Case(_pca(), _unit(1, 0), _unit(0, 1)),
    # Orthogonal along the bisectors: all of the change off the diagonal.
    "pca-off-diagonal": Case(_pca(), _unit(1, 1), _unit(1, -1)),
    # Rows far outside the clip norm.
    "pca-clipped": Case(_pca(clip_norm=1.0), 10 * _unit(1, 0), 10 * _unit(0, 1)),
    # A long row against a short one: normalising must bound both.
    "pca-canary": Case(_pca(), 30 * _unit(1, 0), _unit(0, 1) / 30),
    # A private mean first: opposite corners of the box move it furthest.
    "pca-mean": Case(_pca(bounds=(-1, 1)), np.ones(2), -np.ones(2), tight=False),
    "pca-mean-clipped": Case(
        _pca(clip_norm=1.0, center="private"),
        3 * _unit(1, 0),
        -3 * _unit(1, 0),
        tight=False,
    ),
    "pca-mean-radius": Case(
        _pca(center="private", center_clip_norm=1.0),
        5 * _unit(1, 0),
        -5 * _unit(1, 0),
        tight=False,
    ),
    "pca-box": Case(
        _pca(
            bounds=([0, 0], [2, 8]), scale_by_bounds=True, clip_norm=1.0, center="none"
        ),
        np.array([50.0, 4.0]),
        np.array([1.0, -50.0]),
    ),
}


def audit(name, epsilon, n_trials, *, random_state=0, n_jobs=None):
    """Audit one case."""
    case = CASES[name]
    X, neighbour = case.data()
    return audit_epsilon(
        lambda: case.make(epsilon),
        X,
        neighbour,
        n_trials=n_trials,
        confidence=CONFIDENCE,
        n_jobs=n_jobs,
        random_state=random_state,
    )


def main():
    """Audit the case named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = audit(
            options.case,
            options.epsilon,
            options.trials,
            random_state=options.seed,
            n_jobs=options.jobs,
        )
    report = {**asdict(result), "package": skdpspectral.__file__}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
