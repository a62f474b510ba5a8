"""The harness of audits: worst-case neighbors for every private estimator.

Each case gives an estimator and two neighboring data sets on which its release is
as revealing as the lemma allows. Run as a script, it audits one case with whatever
copy of the package is on the path, and prints the result as JSON::

    python tests/tools/audit_cases.py <case>
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

import federated_tools
import item_tools
import lrs_tools
import numpy as np
import stream_tools
from audit_power import (
    DELTA,
    FORGOTTEN_ROOT,
    LOW_NOISE,
    STRONG,
    early_window,
    least_found,
)
from lrs_tools import TranscriptRatio, alike, table
from pca_tools import audit_releases, cost_of, quick_fits
from ridge_tools import RIDGE_CASES, RidgeCase
from scaler_tools import SCALER_CASES, ScalerCase

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPCovariance,
    DPItemEmbedding,
    DPMatrixFactorization,
    FederatedDPPCA,
    JMECovariance,
    LRSMLPRegressor,
    LRSRegressor,
)
from skdpspectral.accounting import gaussian_mu
from skdpspectral.audit import audit_epsilon
from skdpspectral.covariance import BaselineMoments, JointMoments, Window
from skdpspectral.decomposition import ComponentCovariance, PrivateMean
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.neural_network import AlternatingAdam, UserNetwork

CONFIDENCE = 0.99
# Planted mistakes are mostly so large that few fits show them, even at this level.
FIRST_TRIALS, FIRST_CONFIDENCE = 400, 0.999
# Where tests run side by side, each takes one core.
JOBS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
# Of the claim, what an audit must find; less is found by chance once in 20 000 seeds.
POWER = 0.85
# Fits on either side; most cases are passed by half of them.
N_TRIALS = 3_200
_BACKGROUND = 3
_OTHER_USERS, _CANARY = 2, 9


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
    epsilon : float
        Where the audit is made; few trials are enough where epsilon is large.
    n_trials : int
        Fits on either side.
    """

    make: Callable
    row: np.ndarray
    replacement: np.ndarray
    tight: bool = True
    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    power = POWER

    def data(self):
        """Return the two neighboring data sets; the other rows are zero."""
        X = np.zeros((1 + _BACKGROUND, len(self.row)))
        neighbor = X.copy()
        X[0], neighbor[0] = self.row, self.replacement
        return X, neighbor

    def arguments(self, epsilon):
        """Return what `audit_epsilon` is called with."""
        X, neighbor = self.data()
        return {
            "factory": quick_fits(self.make(epsilon)),
            "X": X,
            "X_neighbor": neighbor,
        }


@dataclass(frozen=True)
class StageCase:
    """One worst case of one release of a fit that makes several.

    Parameters
    ----------
    parameters : dict
        Of the estimator.
    row, replacement : array of shape (p,)
        The row that differs between the two data sets.
    prefix : str
        Releases that are audited, given all others; "" for the whole transcript.
    epsilon : float
        Budget at which their own claim is of the order of one to five.
    background : array of shape (m, p)
        The other rows.
    tight : bool
        Whether the release moves by all of its sensitivity.
    n_trials : int
        Fits on either side.
    kind : type
        Class of the estimator.
    """

    parameters: dict
    row: np.ndarray
    replacement: np.ndarray
    prefix: str
    epsilon: float
    background: np.ndarray
    tight: bool = True
    n_trials: int = 1_000
    kind: type = DPPCA
    # Few trials leave a wide confidence interval.
    power = 0.75

    def make(self, epsilon):
        """Return the estimator."""
        return self.kind(epsilon=epsilon, **{"center": "none", **self.parameters})

    def data(self):
        """Return the two neighboring data sets."""
        sides = (self.row, self.replacement)
        return [np.vstack([row, self.background]) for row in sides]

    def audit(self, epsilon, n_trials, **options):
        """Audit the releases in question against their own claim."""
        model = self.make(epsilon)
        return audit_releases(model, *self.data(), self.prefix, n_trials, **options)


@dataclass(frozen=True)
class UserCase:
    """One worst case of a user with all their rows.

    The statistic is the likelihood ratio of the whole transcript, of one release
    given those before it. Fits end with the last release, which costs a third of the
    time and changes no bit of the transcript.

    Parameters
    ----------
    parameters : dict
        Of the estimator.
    user, replacement : tuple of (rows, targets) or None
        The user in both data sets; None where there is none.
    tight : bool
        Whether every release moves by its whole sensitivity, whatever the earlier
        ones were.
    epsilon : float
        Where the audit is made; few trials are enough where epsilon is large.
    n_trials : int
        Fits on either side.
    """

    parameters: dict
    user: tuple | None
    replacement: tuple | None
    tight: bool = True
    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    power = POWER

    def make(self, epsilon):
        """Return the estimator."""
        common = {"sparsity": 0, "user_feature": 0, "epsilon": epsilon}
        return LRSRegressor(**{**common, **self.parameters})

    def users(self):
        """Return the users of both data sets; two of them are always there."""
        rows, _ = self.user or self.replacement
        background = alike(_OTHER_USERS, *np.shape(rows))
        sides = (self.user, self.replacement)
        return [background | ({_CANARY: user} if user else {}) for user in sides]

    def arguments(self, epsilon, *, whole_fits=False):
        """Return what `audit_epsilon` is called with."""
        users, others = self.users()
        model = self.make(epsilon)
        quick = lrs_tools.ReleasesAlone(**model.get_params(deep=False))
        X, y = table(users)
        X_neighbor, y_neighbor = table(others)
        return {
            "factory": model if whole_fits else quick,
            "X": X,
            "X_neighbor": X_neighbor,
            "y": y,
            "y_neighbor": y_neighbor,
            "statistic": TranscriptRatio(model, users, others),
        }


@dataclass(frozen=True)
class RatingsCase:
    """A user who joins or leaves a table of ratings, at nearly the whole sensitivity.

    Both tables are fitted, and the bound is the same whichever comes first.

    Parameters
    ----------
    epsilon : float
        Where the audit is made.
    n_trials : int
        Fits on either side.
    """

    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    tight: bool = True
    power = POWER

    def make(self, epsilon, cls=DPItemEmbedding):
        """Return the estimator."""
        ids = {"user_feature": 0, "item_feature": 1, "items": range(2)}
        ids["rating_range"] = (1, 5)
        return cls(1, method="moment", epsilon=epsilon, **ids)

    def arguments(self, epsilon, cls=item_tools.ReleasesAlone):
        """Return what `audit_epsilon` is called with."""
        users, others = item_tools.OTHERS, item_tools.JOINED
        mean, other_mean = item_tools.MEANS
        (X, y), (X_neighbor, y_neighbor) = map(item_tools.table, (users, others))
        return {
            "factory": self.make(epsilon, cls),
            "X": X.astype(float),
            "X_neighbor": X_neighbor.astype(float),
            "y": y,
            "y_neighbor": y_neighbor,
            "statistic": item_tools.Ratio(other_mean - mean, 0.5 * (mean + other_mean)),
        }


@dataclass(frozen=True)
class FactorsCase:
    """A user who joins or leaves a model of items, at nearly the whole sensitivity.

    The other user rates items outside the catalog alone, and answers with zeros. Both
    tables are fitted, and the bound is the same whichever comes first.

    Parameters
    ----------
    estimator : type
        What is audited.
    parameters : dict
        Of the estimator.
    n_rated : int
        Ratings of the user who joins.
    epsilon : float
        Where the audit is made.
    n_trials : int
        Fits on either side.
    """

    estimator: type = DPMatrixFactorization
    parameters: dict = field(default_factory=dict)
    n_rated: int = 4
    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    tight: bool = True
    power = POWER

    def make(self, epsilon, cls=None):
        """Return the estimator."""
        features = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
        ids = {"user_feature": 0, "item_feature": 1, "items": range(4)}
        ids |= {"item_features": features, "rating_range": (1, 5), **self.parameters}
        return (cls or self.estimator)(epsilon=epsilon, **ids)

    def arguments(self, epsilon, cls=None):
        """Return what `audit_epsilon` is called with."""
        nobody = {0: [(9, 5.0)]}
        rated = [(0, 5.0), (1, 5.0), (2, 1.0), (3, 5.0)][: self.n_rated]
        users = [nobody, nobody | {item_tools.CANARY: rated}]
        (X, y), (X_neighbor, y_neighbor) = map(item_tools.table, users)
        statistic = item_tools.FactorRatio(rated, 4)
        return {
            "factory": self.make(epsilon, item_tools.quick_fits(cls or self.estimator)),
            "X": X.astype(float),
            "X_neighbor": X_neighbor.astype(float),
            "y": y,
            "y_neighbor": y_neighbor,
            "statistic": statistic,
        }


@dataclass(frozen=True)
class _Entry:
    """One entry of what the first step of a network releases."""

    position: int
    threshold = 0.0

    def __call__(self, model, released) -> float:
        return float(np.ravel(released["gradients"])[self.position])


@dataclass(frozen=True)
class NetworkCase:
    """An example whose clipped gradient turns round, in the one step of a network.

    Parameters
    ----------
    estimator : type
        What is trained.
    parameters : dict
        Of the estimator.
    value : float
        The one feature of the example.
    targets : tuple of float
        Its target in both data sets; the others have a zero.
    position : int
        Entry of the gradient that takes all of the change: 0, or 1 for the intercept.
    epsilon : float
        Where the audit is made.
    n_trials : int
        Fits on either side.
    """

    estimator: type
    parameters: dict
    value: float
    targets: tuple
    position: int
    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    tight: bool = True
    power = POWER

    def make(self, epsilon):
        """Return the estimator: all examples are in its one step."""
        return self.estimator(epsilon=epsilon, n_epochs=1, **self.parameters)

    def arguments(self, epsilon):
        """Return what `audit_epsilon` is called with."""
        X = np.zeros((1 + _BACKGROUND, 1))
        X[0] = self.value
        sides = [np.zeros(len(X)) for _ in self.targets]
        for y, target in zip(sides, self.targets, strict=True):
            y[0] = target
        return {
            "factory": self.make(epsilon),
            "X": X,
            "X_neighbor": X.copy(),
            "y": sides[0],
            "y_neighbor": sides[1],
            "statistic": _Entry(self.position),
        }


@dataclass(frozen=True)
class _AllRounds:
    """The likelihood ratio of all rounds, where each moves one entry alike."""

    position: int
    threshold = 0.0

    def __call__(self, model, released) -> float:
        return float(sum(np.ravel(sums)[self.position] for sums in released.values()))


@dataclass(frozen=True)
class UserNetworkCase:
    """A user whose gradient by an intercept turns round, and is clipped in each round.

    Parameters
    ----------
    epsilon : float
        Where the audit is made.
    n_trials : int
        Fits on either side.
    """

    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    tight: bool = True
    power = POWER

    def make(self, epsilon):
        """Return the estimator, of one feature and an intercept."""
        solver = AlternatingAdam(
            n_rounds=2, n_local_steps=1, n_own_steps=1, neighbors="replace-one"
        )
        return LRSMLPRegressor(
            1,
            0,
            hidden_layer_sizes=[],
            epsilon=epsilon,
            user_feature=0,
            user_network=UserNetwork(shared_weights="fixed", fit_intercept=False),
            solver=solver,
        )

    def arguments(self, epsilon):
        """Return what `audit_epsilon` is called with."""
        # Two other users have no features, and the targets that they are predicted.
        X, y = np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 0.0]]), np.array([0.0, 0.0, 1e9])
        return {
            "factory": self.make(epsilon),
            "X": X,
            "X_neighbor": X.copy(),
            "y": y,
            "y_neighbor": -y,
            "statistic": _AllRounds(1),
        }


@dataclass(frozen=True)
class ClientCase:
    """A row of one client of two, and all messages that leave this client.

    Parameters
    ----------
    cls : type
        Estimator that records its messages.
    parameters : dict
        Of the estimator.
    row, replacement : array of shape (p,)
        The row that differs.
    tight : bool
        Whether every round moves by its whole sensitivity.
    company : array of shape (m, p), optional
        The client's other rows; by default two that are zero.
    """

    cls: type
    parameters: dict
    row: np.ndarray
    replacement: np.ndarray
    tight: bool = True
    company: np.ndarray | None = None
    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    power = POWER

    def make(self, epsilon):
        """Return the estimator."""
        common = {"n_components": 1, "epsilon": epsilon, "client_feature": 0}
        common["center"] = "none"
        return self.cls(**{**common, **self.parameters})

    def data(self):
        """Return neighboring data sets; the other client's rows are others."""
        p = len(self.row)
        company = np.zeros((2, p)) if self.company is None else self.company
        X = np.zeros((3 + len(company), 1 + p))
        X[2:, 0] = federated_tools.AUDITED
        X[:2, 1:] = np.eye(p)[-2:]
        X[3:, 1:] = company
        neighbor = X.copy()
        X[2, 1:], neighbor[2, 1:] = self.row, self.replacement
        return X, neighbor

    def arguments(self, epsilon):
        """Return what `audit_epsilon` is called with."""
        X, neighbor = self.data()
        model, data = self.make(epsilon), (X, neighbor)
        return {
            "factory": model,
            "X": X,
            "X_neighbor": neighbor,
            "statistic": federated_tools.MessageRatio(*data),
        }


def _unit(*entries):
    return np.array(entries) / np.linalg.norm(entries)


def _pca(center="none", **parameters):
    return lambda epsilon: DPPCA(1, epsilon=epsilon, center=center, **parameters)


CASES = {
    # Unit rows, orthogonal along the axes: all of the change on the diagonal.
    "pca": Case(_pca(), _unit(1, 0), _unit(0, 1)),
    # Orthogonal along the bisectors: all of the change off the diagonal.
    "pca-off-diagonal": Case(_pca(), _unit(1, 1), _unit(1, -1)),
    # Rows far outside the clip norm.
    "pca-clipped": Case(_pca(clip_norm=1.0), 10 * _unit(1, 0), 10 * _unit(0, 1)),
    # A long row against a short one: normalizing must bound both.
    "pca-canary": Case(_pca(), 30 * _unit(1, 0), _unit(0, 1) / 30),
    # All pairs of one row turn by a right angle; those of the other rows are ties.
    "pca-pairs": Case(_pca("pairs"), _unit(1, 0), _unit(0, 1)),
    "pca-pairs-off-diagonal": Case(_pca("pairs"), 1e9 * _unit(1, 1), _unit(1, -1)),
    "pca-pairs-clipped": Case(
        _pca("pairs", clip_norm=1.0), 10 * _unit(1, 0), 10 * _unit(0, 1)
    ),
    # Signs of all pairs of one row turn by a right angle.
    "pca-ranks": Case(
        _pca("pairs", scale="ranks"), np.array([3.0, 0.0]), np.array([0.0, 1e-300])
    ),
    "pca-ranks-off-diagonal": Case(
        _pca("auto", scale="ranks"), np.array([1e308, 1.0]), np.array([5e-324, -2.0])
    ),
    # A private mean first: opposite corners of the box move it furthest.
    "pca-mean": Case(
        _pca(PrivateMean(), bounds=(-1, 1)), np.ones(2), -np.ones(2), tight=False
    ),
    "pca-mean-clipped": Case(
        _pca(PrivateMean(), clip_norm=1.0),
        3 * _unit(1, 0),
        -3 * _unit(1, 0),
        tight=False,
    ),
    "pca-mean-radius": Case(
        _pca(center=PrivateMean(1.0)),
        5 * _unit(1, 0),
        -5 * _unit(1, 0),
        tight=False,
    ),
    "pca-box": Case(
        _pca(bounds=([0, 0], [2, 8]), scale="bounds", clip_norm=1.0, center="none"),
        np.array([50.0, 4.0]),
        np.array([1.0, -50.0]),
    ),
}

CASES |= {
    "network-classes": NetworkCase(
        DPAdamClassifier, {"classes": [0, 1]}, 1e6, (1.0, 0.0), 0
    ),
    "network-targets": NetworkCase(
        DPAdamRegressor, {"target_bounds": (-1, 1)}, 0.0, (1e9, -1e9), 1
    ),
    "user-networks-replaced": UserNetworkCase(),
}


# Rows far beyond every clip, along and across the first axis or two.
_FAR = 1e6 * np.eye(4)
_ALONG_FIRST, _ALONG_TWO = 3.0 * np.eye(4)[[0] * 6], 3.0 * np.eye(4)[[0, 1] * 4]
# Rows in order of their first feature, of which the last are far from the others.
_IN_ORDER = np.zeros((39, 4))
_IN_ORDER[:, 0], _IN_ORDER[30:, 1] = 1e-6 * np.arange(39), 1.0
_TWO_STAGE, _AUTO = {"mechanism": "two-stage"}, {"mechanism": "auto"}
# One client, whose projections are clipped at a public length.
_CLIENT = {"n_components": 2, "release": ComponentCovariance(2.0)}

CASES |= {
    "pca-stages": StageCase(
        {"n_components": 1, **_TWO_STAGE},
        _FAR[0] + _FAR[1],
        -_FAR[0] + _FAR[1],
        "",
        16.0,
        _ALONG_FIRST,
        tight=False,
    ),
    # The signs of projections flip, residuals stay.
    "pca-cross": StageCase(
        {"n_components": 1, **_TWO_STAGE},
        _FAR[0] + _FAR[1],
        -_FAR[0] + _FAR[1],
        "cross",
        40.0,
        _ALONG_FIRST,
    ),
    "pca-weighted": StageCase(
        {"n_components": 2, **_TWO_STAGE}, *_FAR[:2], "weighted", 600.0, _ALONG_TWO
    ),
    "pca-wide": StageCase(
        {"n_components": 2, **_TWO_STAGE}, *_FAR[:2], "wide", 900.0, _ALONG_TWO
    ),
    # Votes on the other side of every tried length, along and across.
    "pca-quantiles": StageCase(
        {"n_components": 1, **_TWO_STAGE},
        1e-12 * np.ones(4),
        1e12 * np.ones(4),
        "quantile",
        300.0,
        np.zeros((6, 4)),
        n_trials=2_000,
    ),
    # Between nearly all lengths that are tried: a vote less, or one more.
    "pca-near-length": StageCase(
        {},
        1.01e-6 * np.eye(4)[0],
        0.99e6 * np.eye(4)[0],
        "near_length",
        60.0,
        np.zeros((6, 4)),
        kind=DPCovariance,
    ),
    "pca-near-moment": StageCase(
        {},
        *_FAR[:2],
        "near_moment",
        16.0,
        _ALONG_TWO,
        kind=DPCovariance,
    ),
    "pca-far-length": StageCase(
        {},
        1e-3 * _FAR[0],
        1e-6 * _FAR[1],
        "far_length",
        250.0,
        np.tile(_ALONG_TWO, (20, 1)),
        tight=False,
        kind=DPCovariance,
    ),
    "pca-far-moment": StageCase(
        {},
        *_FAR[:2],
        "far_moment",
        60.0,
        np.tile(_ALONG_TWO, (20, 1)),
        kind=DPCovariance,
    ),
    "pca-whole": StageCase(
        {},
        *_FAR[:2],
        "",
        16.0,
        _ALONG_TWO,
        tight=False,
        kind=DPCovariance,
    ),
    "pca-again": StageCase(
        {"n_components": 2, **_AUTO},
        *_FAR[:2],
        "second_moment_again",
        # So much that votes on their lengths are not drowned, and there is a choice.
        50.0,
        _ALONG_TWO,
    ),
    "client-covariance": StageCase(
        _CLIENT, *_FAR[:2], "projected", 60.0, _ALONG_TWO, kind=FederatedDPPCA
    ),
    "client-pairs-covariance": StageCase(
        {"center": "pairs", **_CLIENT},
        *_FAR[:2],
        "projected",
        60.0,
        np.zeros((8, 4)),
        # Pairs of zero rows leave directions to noise.
        tight=False,
        kind=FederatedDPPCA,
    ),
    # A row that goes from the end of an order to its middle: were rows paired with the
    # next in order, some of the others would change partners too, and half again of
    # what its own pairs move.
    "pca-pairs-far": StageCase(
        {"n_components": 1, "center": "pairs"},
        np.array([-1e9, 0.0, 0.0, 0.0]),
        np.array([15.5e-6, 1e9, 0.0, 0.0]),
        "",
        16.0,
        _IN_ORDER,
        n_trials=2_000,
    ),
    "pca-pairs-stages": StageCase(
        {"n_components": 1, "center": "pairs", **_TWO_STAGE},
        _FAR[0] + _FAR[1],
        -_FAR[0] + _FAR[1],
        "",
        16.0,
        _ALONG_FIRST,
        tight=False,
    ),
    "pca-pairs-near-moment": StageCase(
        {"center": "pairs"},
        *_FAR[:2],
        "near_moment",
        16.0,
        np.zeros((8, 4)),
        kind=DPCovariance,
    ),
    "pca-pairs-near-length": StageCase(
        {"center": "pairs"},
        1.5e-6 * np.eye(4)[0],
        0.9e6 * np.eye(4)[0],
        "near_length",
        60.0,
        np.zeros((6, 4)),
        kind=DPCovariance,
    ),
    # Distances of one row from all others on the other side of every tried length.
    "pca-distances": StageCase(
        {"n_components": 1, "center": "private"},
        np.zeros(4),
        1e59 * np.eye(4)[0],
        "pair_distance",
        40.0,
        np.zeros((6, 4)),
        # Near the end of the range the answers no longer depend on the row.
        tight=False,
    ),
    "pca-steps": StageCase(
        {"n_components": 1, "center": "private"},
        *(1e30 * np.eye(4)[0] * np.array([[1.0], [-1.0]])),
        "center_",
        100.0,
        # So many that votes hardly ever take them for rows that lie far away.
        np.eye(4)[[0, 1, 2, 3] * 6],
        n_trials=2_000,
    ),
    # A fit that chooses between a center and pairs, by all that it releases.
    "pca-searched": StageCase(
        {"n_components": 1, "center": "auto"},
        1e3 * np.eye(4)[0],
        -1e3 * np.eye(4)[0],
        "",
        32.0,
        np.vstack([np.eye(4), -np.eye(4)] * 6),
        tight=False,
    ),
    # Differences from node to node, and then unit rows about the origin.
    "pca-scaled": StageCase(
        {"n_components": 1, "scale": "private", "center": "none"},
        np.ones(4),
        8.0 * np.ones(4),
        "differences",
        33.0,
        np.zeros((6, 4)),
    ),
    "pca-scaled-whole": StageCase(
        {"n_components": 1, "scale": "private"},
        _FAR[0],
        -_FAR[1],
        "",
        16.0,
        np.zeros((6, 4)),
        tight=False,
    ),
    "pca-rank": StageCase(
        {"n_components": "auto", **_AUTO},
        *_FAR[:2],
        "",
        16.0,
        _ALONG_TWO,
        tight=False,
    ),
}

# Of two users' rows and targets: a target that is clipped whatever the unit.
_HUGE = 1e12
# One feature: a user who is clipped moves every sum by one, whatever U is.
_LOUD = (np.array([[1.0], [-1.0]]), _HUGE * np.array([1.0, -1.0]))
# With a ridge these have weights that let the gradient drown the curvature, and the
# second feature's sign is that of the gradient (lemma on sums over users).
_OPPOSITE = [(1e-4 * np.array([[0.01, sign]]), np.array([_HUGE])) for sign in (1, -1)]
# Weights that are fixed leave the sign of the gradient to the targets.
_SIGNED = [(np.ones((1, 1)), sign * np.array([1e9])) for sign in (1, -1)]
_UNIT = {"curvature_clip_norm": 1.0, "gradient_clip_norm": 1.0}
_UNIT_CLIPS = {"solver": PrivateRounds(2, **_UNIT)}

CASES |= {
    # The start and the moments, both by all of what is planned.
    "lrs-joins": UserCase(
        {"fit_intercept": False, **_UNIT_CLIPS},
        None,
        _LOUD,
    ),
    # The same and the medians, and centered rows.
    "lrs-leaves": UserCase({"solver": PrivateRounds(n_rounds=2)}, _LOUD, None),
    # Rows and targets of 1e60: squares are far beyond every clip, and finite.
    "lrs-extreme": UserCase(
        {
            "solver": PrivateRounds(n_rounds=2, curvature_clip_norm=1e-3),
            "fit_intercept": False,
        },
        None,
        (np.full((2, 1), 1e60), np.full(2, -1e60)),
    ),
    # All weights alike on all directions, and rows alike in all features: most of
    # the curvature is off both diagonals.
    "lrs-rank-3": UserCase(
        {
            "n_components": 3,
            "solver": PrivateRounds(
                n_rounds=2, init=np.eye(3).tolist(), curvature_clip_norm=1e-8
            ),
            "fit_intercept": False,
        },
        None,
        (np.ones((2, 3)), np.full(2, _HUGE)),
    ),
    "lrs-replaced": UserCase(
        {
            "solver": PrivateRounds(1, init=[[1.0, 0.0]], **_UNIT),
            "fit_intercept": False,
            "neighbors": "replace-one",
        },
        *_OPPOSITE,
    ),
    "lrs-replaced-fixed": UserCase(
        {
            "shared_weights": "fixed",
            "fit_intercept": False,
            "neighbors": "replace-one",
            **_UNIT_CLIPS,
        },
        *_SIGNED,
    ),
    # Projectors on orthogonal lines are only the root of two apart.
    "lrs-replaced-start": UserCase(
        {
            "solver": PrivateRounds(n_rounds=1),
            "fit_intercept": False,
            "neighbors": "replace-one",
        },
        *((row[None], np.ones(1)) for row in np.eye(2)),
    ),
    # Votes on both sides of every threshold, at most of the budget.
    "lrs-replaced-medians": UserCase(
        {
            "solver": PrivateRounds(n_rounds=1, init=[[1.0]], median_share=0.95),
            "fit_intercept": False,
            "neighbors": "replace-one",
        },
        (np.full((1, 1), 1e-9), np.full(1, 1e-9)),
        (np.ones((1, 1)), np.full(1, _HUGE)),
        tight=False,
    ),
}

CASES |= {
    "items": RatingsCase(),
    "factors": FactorsCase(),
    "clicks": FactorsCase(parameters={"implicit": True}, n_rated=3),
    "residuals": FactorsCase(DPItemEmbedding, {"method": "residuals"}),
}


@dataclass(frozen=True)
class StreamCase:
    """One worst case of a row of a stream, by the exact likelihood ratio.

    Parameters
    ----------
    parameters : dict
        Of the estimator.
    row, replacement : tuple of float
        The row in both streams.
    step : int
        Where it is, of `n_steps`.
    company : float
        The other rows are as many times `row`.
    tight : bool
        Whether the stream moves by its whole sensitivity.
    """

    parameters: dict
    row: tuple
    replacement: tuple
    step: int = 0
    company: float = 0.0
    tight: bool = True
    n_steps: int = 6
    epsilon: float = 16.0
    n_trials: int = N_TRIALS
    power = POWER

    def make(self, epsilon):
        """Return the estimator."""
        return JMECovariance(epsilon=epsilon, **self.parameters)

    def arguments(self, epsilon):
        """Return what `audit_epsilon` is called with."""
        X = np.tile(self.company * np.array(self.row), (self.n_steps, 1))
        neighbor = X.copy()
        X[self.step], neighbor[self.step] = self.row, self.replacement
        model = self.make(epsilon)
        quick = stream_tools.ReleasesAlone(**model.get_params(deep=False))
        return {
            "factory": quick,
            "X": X,
            "X_neighbor": neighbor,
            "statistic": stream_tools.StreamRatio(model, X, neighbor),
        }


# Beyond the free weight the worst rows are at an obtuse angle, not opposite.
_OBTUSE = (-0.125, float(np.sqrt(1 - 0.125**2)))
CASES |= {
    "jme": StreamCase({}, (1.0, 0.0), (-1.0, 0.0)),
    "jme-company": StreamCase({}, (1.0, 0.0), (-1.0, 0.0), company=1.0),
    "jme-clipped": StreamCase({"clip_norm": 0.5}, (30.0, 0.0), (-2.0, 0.0)),
    "jme-heavy": StreamCase({"moments": JointMoments(4.0)}, (1.0, 0.0), _OBTUSE),
    "ime": StreamCase(
        {"moments": BaselineMoments("ime")},
        (1.0, 0.0),
        (-0.25, 0.968245836551854),
        tight=False,
    ),
    "jme-window": StreamCase(
        {"workload": Window(3), "factorization": "sqrt"},
        (1.0, 0.0),
        (-1.0, 0.0),
    ),
    # Products by a matrix of their own, with longer columns than that of the rows.
    "jme-two-shapes": StreamCase(
        {
            "factorization": "trivial",
            "moments": JointMoments(4.0, second_factorization="blt"),
        },
        (1.0, 0.0),
        _OBTUSE,
    ),
    # Five blocks of two steps, and the row in the third, among others like it.
    "jme-restarts": StreamCase(
        {"horizon": 2, "on_horizon": "restart"},
        (1.0, 0.0),
        (-1.0, 0.0),
        step=4,
        company=1.0,
        n_steps=10,
    ),
}

_AXES = np.eye(3)
CASES |= {
    # The noisy second moment, as it is sent.
    "federated-matrix": ClientCase(
        federated_tools.RecordedPCA, {"aggregation": "matrix"}, _AXES[0], 9 * _AXES[1]
    ),
    "federated-off-diagonal": ClientCase(
        federated_tools.RecordedPCA,
        {"aggregation": "matrix"},
        _unit(1, 1, 0),
        _unit(1, -1, 0),
    ),
    "federated-pairs": ClientCase(
        federated_tools.RecordedPCA,
        {"aggregation": "matrix", "center": "pairs"},
        _AXES[0],
        9 * _AXES[1],
        company=np.zeros((3, 3)),
    ),
    "sparse-pairs": ClientCase(
        federated_tools.MaliciousSparse,
        {"n_components": 2, "n_rounds": 2, "init": _AXES[:2].tolist()}
        | {"center": "pairs"},
        _AXES[0],
        _AXES[1],
    ),
    # A start and three rounds that an honest server makes of what it got.
    "sparse-honest": ClientCase(
        federated_tools.RecordedSparse,
        {"n_rounds": 3},
        _AXES[0],
        _AXES[1],
        tight=False,
        n_trials=1_500,
    ),
    # A server that sends in every round what reveals most, five times too long.
    "sparse-malicious": ClientCase(
        federated_tools.MaliciousSparse,
        {"n_rounds": 2},
        20 * _AXES[0],
        _AXES[1] / 20,
    ),
    "sparse-two-columns": ClientCase(
        federated_tools.MaliciousSparse,
        {"n_components": 2, "n_rounds": 2, "init": _AXES[:2].tolist()},
        _AXES[0],
        _AXES[1],
    ),
}


CASES |= SCALER_CASES
CASES |= RIDGE_CASES


def audit(
    name,
    epsilon=None,
    n_trials=None,
    *,
    random_state=0,
    n_jobs=None,
    confidence=CONFIDENCE,
    **options,
):
    """Audit one case; epsilon and trials are the case's own unless given."""
    case = CASES[name]
    epsilon = case.epsilon if epsilon is None else epsilon
    n_trials = case.n_trials if n_trials is None else n_trials
    common = {"n_jobs": n_jobs, "confidence": confidence, "random_state": random_state}
    if isinstance(case, StageCase | ScalerCase | RidgeCase):
        return case.audit(epsilon, n_trials, **common, **options)
    arguments = case.arguments(epsilon, **options)
    return audit_epsilon(**arguments, n_trials=n_trials, **common)


def is_of_stages(case):
    """Whether a case is of one release among several."""
    return isinstance(case, StageCase)


def claim_of(case):
    """What the releases of a case claim to cost."""
    if isinstance(case, StageCase | ScalerCase | RidgeCase):
        plan = case.make(case.epsilon).plan_for(case.data()[0])
        return cost_of(plan, case.prefix)
    return gaussian_mu(case.epsilon, DELTA)


def early_loss(case):
    """Probability that an early look passes a mistake that all fits must find."""
    return 2e-3 if case.tight and not is_of_stages(case) else 4e-4


def early_look(case):
    """Return the fits of an early look, and least and largest bound that pass it."""
    mistake, strong, n_trials = LOW_NOISE, LOW_NOISE, case.n_trials // 2
    if case.tight and is_of_stages(case):
        mistake, strong = FORGOTTEN_ROOT, STRONG
        n_trials = 2 * case.n_trials // 5
    elif not case.tight:
        # Far below the claim there is little to find.
        strong, n_trials = None, FIRST_TRIALS
    claim, loss = claim_of(case), early_loss(case)
    least, largest = early_window(claim, n_trials, CONFIDENCE, mistake, strong, loss)
    if case.tight:
        least = max(least, least_found(claim, case.power))
    return n_trials, least, min(largest, claim)


def audit_in_looks(name, **options):
    """Audit one case by an early look, and by all of its fits unless that passes it.

    A claim is refuted by all fits alone, so that there are no more false alarms.
    """
    n_trials, least, largest = early_look(CASES[name])
    early = audit(name, None, n_trials, **options)
    if least <= early.mu <= largest:
        return early
    return audit(name, **options)


def first_look(name, **options):
    """Audit one case by few fits, and refute it at a confidence that is higher."""
    return audit(name, None, FIRST_TRIALS, confidence=FIRST_CONFIDENCE, **options)


def main():
    """Audit the case named on the command line, by a first look or by two.

    An honest package is refuted by the first look with probability at most 0.1 %, and
    by the second at most 1 %.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--looks", type=int, choices=(1, 2), default=2)
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Worst cases have few rows.
        warnings.simplefilter("ignore", skdpspectral.NoisyFitWarning)
        result = first_look(options.case, n_jobs=options.jobs)
        if not result.violated and options.looks == 2:
            result = audit(options.case, n_jobs=options.jobs)
    # Their values of the statistic are arrays.
    report = {**asdict(replace(result, scores=None)), "package": skdpspectral.__file__}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
