"""Worst-case neighbors for every private estimator, and what their releases reveal.

A fit on the first data is replayed on the second, which gives the realized cost of each
release to six digits. Each case states the share of the planned cost that it attains.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from lrs_tools import alike, table
from replay import Tape, leaving, play, shares
from scaler_tools import ManyRowsScaler
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion

import skdpspectral as sk
from skdpspectral.covariance import JointMoments, Window
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.pipeline import make_private_pipeline

DELTA = 1e-6


class Worst(NamedTuple):
    """An estimator and two neighbors, on which its releases differ as far as they can.

    `one` and `other` are what `fit` is given, by `DELTA`.
    """

    model: Any
    one: tuple
    other: tuple
    # What the names of the releases in question begin with.
    release: str = ""
    # The share of their planned cost that is realized, rounded down.
    least: float = 0.9999
    # Of how many each has a budget of its own.
    n_clients: int = 1


class Realized(NamedTuple):
    """Shares of releases by name, of those in question, and costs by whose account."""

    releases: list
    share: float
    mu: float
    planned_mu: float
    stated_mu: float
    told: list


def plays(case):
    """Return a fit on the first data of a case, and its replay on the other."""

    def act(data):
        return leaving(clone(case.model).fit(*data))

    first = play(lambda: act(case.one), Tape())
    return first, play(lambda: act(case.other), Tape(first.tape))


def realized(case):
    """Replay a case; return what its releases reveal, and what else differs."""
    first, second = plays(case)
    told = [k for k in first.seen if first.seen[k] != second.seen.get(k)]
    told += [e for e in (first.error, second.error, second.tape.apart) if e]
    found = list(shares(first.tape, second.tape))
    chosen = [(m, r) for m, r in found if m.name.startswith(case.release)]
    mus = [math.hypot(*(r * m.mu for m, r in part)) for part in (chosen, found)]
    # A row is with one client alone.
    costs, planned = (
        math.hypot(*(m.mu for m, _ in part)) / math.sqrt(case.n_clients)
        for part in (chosen, found)
    )
    releases = [(m.name, r) for m, r in found]
    stated = max(plan.mu_beside_curves for plan in first.tape.plans)
    return Realized(releases, mus[0] / costs, mus[1], planned, stated, told)


def changed(row, replacement, background=3):
    """Return two tables that differ in their first row; others are zero, or given."""
    if isinstance(background, int):
        background = np.zeros((background, len(row)))
    return tuple((np.vstack([first, background]),) for first in (row, replacement))


def _unit(*entries):
    return np.array(entries) / np.linalg.norm(entries)


def _pca(row, replacement, center="none", least=0.9999, **parameters):
    model = sk.DPPCA(1, epsilon=16.0, center=center, **parameters)
    return Worst(model, *changed(row, replacement), "", least)


CASES = {
    # Unit rows, orthogonal along the axes: all of the change on the diagonal.
    "pca": _pca(_unit(1, 0), _unit(0, 1)),
    # Orthogonal along the bisectors: all of the change off the diagonal.
    "pca-off-diagonal": _pca(_unit(1, 1), _unit(1, -1)),
    # A long row against a short one: normalizing must bound both.
    "pca-canary": _pca(30 * _unit(1, 0), _unit(0, 1) / 30),
    # All pairs of one row turn by a right angle; those of the other rows are ties.
    "pca-pairs": _pca(_unit(1, 0), _unit(0, 1), "pairs"),
    "pca-pairs-off-diagonal": _pca(1e9 * _unit(1, 1), _unit(1, -1), "pairs"),
    # Signs of all pairs of one row turn by a right angle.
    "pca-ranks": _pca(
        3.0 * np.eye(2)[0], 1e-300 * np.eye(2)[1], "pairs", scale="ranks"
    ),
    "pca-ranks-off-diagonal": _pca(
        np.array([1e308, 1.0]), np.array([5e-324, -2.0]), "auto", scale="ranks"
    ),
    "pca-box": _pca(
        np.array([50.0, 4.0]),
        np.array([1.0, -50.0]),
        bounds=([0, 0], [2, 8]),
        scale="bounds",
    ),
}


def _stages(
    row, other, release, epsilon, rest, least=0.9999, /, cls=sk.DPPCA, **parameters
):
    """Return a case of one release of a fit that makes several."""
    model = cls(epsilon=epsilon, **{"center": "none", **parameters})
    return Worst(model, *changed(row, other, rest), release, least)


# Rows far beyond every clip, along and across the first axis or two.
_FAR = 1e6 * np.eye(4)
_FLIPPED = _FAR[0] + _FAR[1], -_FAR[0] + _FAR[1]
_ALONG_FIRST, _ALONG_TWO = 3.0 * np.eye(4)[[0] * 6], 3.0 * np.eye(4)[[0, 1] * 4]
# Rows in order of their first feature, of which the last are far from the others.
_IN_ORDER = np.zeros((39, 4))
_IN_ORDER[:, 0], _IN_ORDER[30:, 1] = 1e-6 * np.arange(39), 1.0
_ONE, _TWO = {"n_components": 1}, {"n_components": 2}
_WHOLE = {"cls": sk.DPCovariance}
# One client, whose projections are clipped at a public length.
_ALONE = {"cls": sk.FederatedDPPCA, "projection_norm": 2.0, **_TWO}
_E, _MANY = np.eye(4)[0], np.tile(_ALONG_TWO, (20, 1))
_FIRST = *_FAR[:2], "near_moment", 16.0

CASES |= {
    # Between nearly all lengths that are tried: a vote less, or one more.
    "covariance-near-length": _stages(
        0.0045 * _E, 220.0 * _E, "near_length", 60.0, _ALONG_TWO / 3.0, **_WHOLE
    ),
    "covariance-near-moment": _stages(*_FIRST, _ALONG_TWO, **_WHOLE),
    "covariance-far-length": _stages(
        1e-3 * _FAR[0], 1e-6 * _FAR[1], "far_length", 250.0, _MANY, **_WHOLE
    ),
    "covariance-far-moment": _stages(*_FAR[:2], "far_moment", 60.0, _MANY, **_WHOLE),
    "covariance": _stages(*_FAR[:2], "", 16.0, _ALONG_TWO, 0.748, **_WHOLE),
    # Unclipped, these would still be within the range of released numbers.
    "client-covariance": _stages(
        *(1e-3 * _FAR[:2]), "projected", 60.0, _ALONG_TWO, **_ALONE
    ),
    # A row that goes from the end of an order to its middle: were rows paired with the
    # next in order, some of the others would change partners too, and half again of
    # what its own pairs move.
    "pca-pairs-far": _stages(
        np.array([-1e9, 0, 0, 0]),
        np.array([15.5e-6, 1e9, 0, 0]),
        "",
        4.0,
        _IN_ORDER,
        **_ONE,
        center="pairs",
    ),
    "covariance-pairs-near-moment": _stages(
        *_FIRST, _ALONG_TWO, center="pairs", **_WHOLE
    ),
    # Pairs of zero rows leave directions to noise.
    "client-pairs-covariance": _stages(
        *_FAR[:2], "projected", 60.0, 8, 0.836, center="pairs", **_ALONE
    ),
    # From an octave to another, with all of its pairs: these are between two octaves.
    "pca-lengths": _stages(_E, 512.0 * _E, "lengths", 200.0, 24, **_ONE),
    "pca-pair-lengths": _stages(
        *(math.sqrt(2.0) * _E, math.sqrt(2.0) * 512.0 * _E, "lengths", 200.0, 24),
        *(0.866,),
        **_ONE,
        center="pairs",
    ),
    # From the center to the last knot, which a part of the vote misses.
    "pca-votes": _stages(0.0 * _E, 1e6 * _E, "votes", 200.0, _MANY, 0.9995, **_ONE),
    "pca-pair-votes": _stages(
        3.0 * _E, 1e6 * _E, "votes", 200.0, _MANY, 0.9995, **_ONE, center="pairs"
    ),
    # So many that lengths hardly ever take them for rows that lie far away.
    "pca-steps": _stages(
        1e30 * _E,
        -1e30 * _E,
        "center_",
        100.0,
        np.eye(4)[[0, 1, 2, 3] * 6],
        **_ONE,
        center="auto",
    ),
    # A fit that chooses between a center and pairs, by all that it releases.
    "pca-searched": _stages(
        1e3 * _E,
        -1e3 * _E,
        "",
        100.0,
        np.vstack([np.eye(4), -np.eye(4)] * 6),
        0.168,
        **_ONE,
        center="auto",
    ),
    "pca-rank": _stages(*_FAR[:2], "", 16.0, _ALONG_TWO, n_components="auto"),
}

# Rows of the model but for one, which is as long along and across the first axis as the
# theorem takes rows to be, or nearly.
_MODEL = {"signal_variance": 99.0, "noise_variance": 1.0, "epsilon": 16.0}
_OF_MODEL = 2.0 * np.tile(np.diag([10.0, 1.0, 1.0, 1.0]), (500, 1))
_SIDES = np.array([[35.5, 3.55, 0.0, 0.0], [35.5, -3.55, 0.0, 0.0]])
CASES |= {
    "model": Worst(sk.SpikedPCA(1, **_MODEL), *changed(*_SIDES, _OF_MODEL), "", 0.998),
    "model-covariance": Worst(
        sk.SpikedPCA(1, release="covariance", **_MODEL),
        *changed(58.3 * _E, 0.0 * _E, _OF_MODEL),
        "model_moment",
        0.996,
    ),
}


def _targets(model, value, first, second, least=0.9999):
    """Return a case of one row of four, whose target differs."""
    X, sides = np.zeros((4, 1)), []
    X[0] = value
    for target in (first, second):
        y = np.zeros(4)
        y[0] = target
        sides.append((X, y))
    return Worst(model, *sides, "", least)


_FEW_STEPS = {"n_rounds": 2, "n_own_steps": 1}
# Two other users have no features, and the targets that they are predicted.
_LOUD_USER = np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 0.0]]), np.array([0.0, 0.0, 1e9])
CASES |= {
    # A clipped gradient turns round, in the one step of a network.
    "network-classes": _targets(
        sk.DPAdamClassifier(epsilon=16.0, n_epochs=1, classes=[0, 1]), 1e6, 1.0, 0.0
    ),
    "network-targets": _targets(
        sk.DPAdamRegressor(epsilon=16.0, n_epochs=1, target_bounds=(-1, 1)),
        0.0,
        1e9,
        -1e9,
    ),
    # A user whose gradient by an intercept turns round, clipped in each round.
    "user-networks-replaced": Worst(
        sk.LRSMLPRegressor(
            1,
            0,
            hidden_layer_sizes=[],
            epsilon=16.0,
            user_feature=0,
            shared_weights="fixed",
            fit_intercept=False,
            neighbors="replace-one",
            **_FEW_STEPS,
        ),
        _LOUD_USER,
        (_LOUD_USER[0], -_LOUD_USER[1]),
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


def _users(user, replacement, solver, least=0.9999, **parameters):
    """Return a case of one user beside two that are always there."""
    model = sk.LRSRegressor(
        sparsity=0, user_feature=0, epsilon=16.0, solver=solver, **parameters
    )
    others = alike(2, *np.shape((user or replacement)[0]))
    sides = (others | ({9: who} if who else {}) for who in (user, replacement))
    return Worst(model, *map(table, sides), "", least)


_REPLACED = {"fit_intercept": False, "neighbors": "replace-one"}
CASES |= {
    # The start and the moments, both by all of what is planned.
    "lrs-joins": _users(None, _LOUD, PrivateRounds(2, **_UNIT), fit_intercept=False),
    # The same and the medians, and centered rows.
    "lrs-leaves": _users(_LOUD, None, PrivateRounds(2)),
    # Rows and targets of 1e60: squares are far beyond every clip, and finite.
    "lrs-extreme": _users(
        None,
        (np.full((2, 1), 1e60), np.full(2, -1e60)),
        PrivateRounds(2, curvature_clip_norm=1e-3),
        fit_intercept=False,
    ),
    # All weights alike on all directions, and rows alike in all features: most of
    # the curvature is off both diagonals.
    "lrs-rank-3": _users(
        None,
        (np.ones((2, 3)), np.full(2, _HUGE)),
        PrivateRounds(2, init=np.eye(3).tolist(), curvature_clip_norm=1e-8),
        n_components=3,
        fit_intercept=False,
    ),
    "lrs-replaced": _users(
        *_OPPOSITE, PrivateRounds(1, init=[[1.0, 0.0]], **_UNIT), **_REPLACED
    ),
    "lrs-replaced-fixed": _users(
        *_SIGNED, PrivateRounds(2, **_UNIT), shared_weights="fixed", **_REPLACED
    ),
    # Projectors on orthogonal lines are only the root of two apart.
    "lrs-replaced-start": _users(
        *((row[None], np.ones(1)) for row in np.eye(2)), PrivateRounds(1), **_REPLACED
    ),
}


def _ratings(cls, others, rated, least, *component, **parameters):
    """Return a case of a user who joins with some ratings."""
    ids = {"user_feature": 0, "item_feature": 1, "rating_range": (1, 5)}
    model = cls(*component, **{"epsilon": 16.0, **ids, **parameters})
    sides = []
    for users in ({0: others}, {0: others, 77: rated}):
        rows = [(user, *one) for user, ones in users.items() for one in ones]
        sides.append((np.array(rows)[:, :2], np.array(rows)[:, 2]))
    return Worst(model, *sides, "", least)


_OF_ITEMS = {
    "items": range(4),
    "item_features": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]],
}
# The other user rates items outside the catalog alone, and answers with zeros.
_RATED = [(9, 5.0)], [(0, 5.0), (1, 5.0), (2, 1.0), (3, 5.0)]
_CLICKED = _RATED[0], _RATED[1][:3]
CASES |= {
    "factors": _ratings(sk.DPMatrixFactorization, *_RATED, 0.992, **_OF_ITEMS),
    "clicks": _ratings(
        sk.DPMatrixFactorization, *_CLICKED, 0.9998, implicit=True, **_OF_ITEMS
    ),
    # Half of many items, of which pairs are asked for with so large a budget.
    "clicks-pairs": _ratings(
        sk.DPMatrixFactorization,
        [(999, 5.0)],
        [(j, 5.0) for j in range(200)],
        0.994,
        implicit=True,
        items=range(400),
        epsilon=1e5,
    ),
    "residuals": _ratings(
        sk.DPItemEmbedding, *_RATED, 0.995, method="residuals", **_OF_ITEMS
    ),
}


def _stream(row, replacement, *, step=0, company=0.0, n_steps=6, least=0.9999, **how):
    """Return a case of one row of a stream; the others are `company` times `row`."""
    X = np.tile(company * np.array(row), (n_steps, 1))
    neighbor = X.copy()
    X[step], neighbor[step] = row, replacement
    return Worst(sk.JMECovariance(epsilon=16.0, **how), (X,), (neighbor,), "", least)


_AHEAD, _BACK = (1.0, 0.0), (-1.0, 0.0)
# Beyond the free weight the worst rows are at an obtuse angle, not opposite.
_OBTUSE = (-0.125, float(np.sqrt(1 - 0.125**2)))
_SECOND = JointMoments(4.0, second_factorization="blt")
CASES |= {
    "jme": _stream(_AHEAD, _BACK),
    "jme-company": _stream(_AHEAD, _BACK, company=1.0),
    "jme-clipped": _stream((30.0, 0.0), (-2.0, 0.0), clip_norm=0.5),
    "jme-heavy": _stream(_AHEAD, _OBTUSE, moments=JointMoments(4.0)),
    "jme-centered": _stream(_AHEAD, (0.0, 1.0), moments="assume-centered"),
    "jme-window": _stream(_AHEAD, _BACK, workload=Window(3), factorization="sqrt"),
    # Products by a matrix of their own, with longer columns than that of the rows.
    "jme-two-shapes": _stream(
        _AHEAD, _OBTUSE, factorization="trivial", moments=_SECOND
    ),
}


class MaliciousSparse(sk.SparseDPPCA):
    """Clients of a server that sends what reveals most, five times too long."""

    def _task(self, n_features, weights="optimal"):
        task = super()._task(n_features, weights)
        for query in task.queries:
            if query.basis_shape != (0, 0):
                query.ask = lambda rounds, own=query: 5.0 * np.eye(*own.basis_shape)
        return task


def _client(model, row, replacement, company=None, least=0.9999):
    """Return a case of a row of one client of two."""
    p = len(row)
    company = np.zeros((2, p)) if company is None else company
    X = np.zeros((3 + len(company), 1 + p))
    X[2:, 0], X[:2, 1:], X[3:, 1:] = 1.0, np.eye(p)[-2:], company
    neighbor = X.copy()
    X[2, 1:], neighbor[2, 1:] = row, replacement
    how = {"epsilon": 16.0, "client_feature": 0, "center": model.center or "none"}
    return Worst(model.set_params(**how), (X,), (neighbor,), "", least, 2)


_AXES = np.eye(3)
_TURNED = _AXES[0], 9 * _AXES[1]
_BY_MATRIX = {"aggregation": "matrix", "center": None}
_ROUNDS = {"n_rounds": 2, "center": None}
_TWO_AXES = {"n_components": 2, "n_rounds": 2}
CASES |= {
    # The noisy second moment, as it is sent.
    "federated-matrix": _client(sk.FederatedDPPCA(1, **_BY_MATRIX), *_TURNED),
    "federated-off-diagonal": _client(
        sk.FederatedDPPCA(1, **_BY_MATRIX), _unit(1, 1, 0), _unit(1, -1, 0)
    ),
    "federated-pairs": _client(
        sk.FederatedDPPCA(1, aggregation="matrix", center="pairs"),
        *_TURNED,
        np.zeros((3, 3)),
    ),
    "sparse-pairs": _client(MaliciousSparse(**_TWO_AXES, center="pairs"), *_AXES[:2]),
    # A start and three rounds that an honest server makes of what it got.
    "sparse-honest": _client(
        sk.SparseDPPCA(1, n_rounds=3, center=None), *_AXES[:2], least=0.867
    ),
    # A server that sends in every round what reveals most, five times too long.
    "sparse-malicious": _client(
        MaliciousSparse(1, **_ROUNDS), 20 * _AXES[0], _AXES[1] / 20
    ),
    "sparse-two-columns": _client(
        MaliciousSparse(**_TWO_AXES, center=None), *_AXES[:2]
    ),
}


def _scaler(row, replacement, release, epsilon=16.0, least=0.9999, cls=None, **how):
    """Return a case of one row of five, whose features are all alike."""
    sides = changed(np.full(4, float(row)), np.full(4, float(replacement)), 4)
    model = (cls or sk.DPStandardScaler)(epsilon=epsilon, **how)
    return Worst(model, *sides, release, least)


# Half a turn and more on circles of the length 16, of 4 times as much, and so on.
_AROUND = 8.0 * sum(4.0**k for k in range(9))
_MANY_ROWS, _MISSING = {"cls": ManyRowsScaler}, {"missing": "mean"}
CASES |= {
    # From one node to another, of both pairs that the row is in.
    "scaler-differences": _scaler(1, 8, "differences", 30.0, **_MANY_ROWS),
    # From one octave to the one that shares no window with it.
    "scaler-windows": _scaler(1, 16, "windows", with_mean=False),
    "scaler-places": _scaler(0, _AROUND, "places", 60.0, 0.784, **_MANY_ROWS),
    # From one cell to another; scales are 1 where none is seen.
    "scaler-cells": _scaler(0, 100, "cells", 48.0),
    "scaler-missing-cells": _scaler(0, np.nan, "cells", 48.0, **_MISSING),
    "scaler-moments": _scaler(-1e12, 1e12, "moments", 32.0),
    # A missing value, and one at the edge.
    "scaler-holes": _scaler(np.nan, 1e12, "moments", 32.0, **_MISSING),
    "table-holes": _scaler(np.nan, 1e12, "moments", 32.0, cls=sk.DPTableVectorizer),
    "scaler": _scaler(-1e12, 1e12, "", 16.0, 0.653, **_MANY_ROWS),
    "scaler-few-rows": _scaler(-1e12, 1e12, "", 16.0, 0.632),
    "scaler-box": _scaler(-50, 50, "", 16.0, 0.55, bounds=(-1, 1)),
}


def _ridge(model, row, replacement, release, n_rows=5, least=0.9999):
    """Return a case of one row, whose last entry is the target; the others are zero."""
    sides = []
    for first in (row, replacement):
        X, y = np.zeros((n_rows, 3)), np.zeros(n_rows)
        X[0], y[0] = first[:-1], first[-1]
        sides.append((X, y))
    return Worst(model, *sides, release, least)


def _weighted(replacement, release, least=0.9999):
    """Return a case of intervals, of one row among normal ones."""
    rows = np.random.default_rng(0).standard_normal((1000, 4))
    rows[0] = 20.0, 0.0, 0.0, 1e3
    other = rows.copy()
    other[0] = replacement
    sides = [(side[:, :-1], side[:, -1]) for side in (rows, other)]
    return Worst(sk.DPRidge(epsilon=16.0, intervals=True), *sides, release, least)


def _in_box(epsilon=16.0, **more):
    return sk.DPRidge(epsilon=epsilon, bounds=(-1, 1), target_bounds=(-1, 1), **more)


# Images that are orthogonal but for the constant, and longer than the radius.
_ALIKE, _CROSSED = (9.0,) * 4, (9.0, 9.0, -9.0, -9.0)
# Above and below every limit of a halving.
_LARGEST = float(np.finfo(float).max)
CASES |= {
    # Of fewer rows no moment is released.
    "ridge-moment": _ridge(_in_box(), _ALIKE, _CROSSED, "joint_moment", 12, 0.995),
    "ridge-square": _ridge(_in_box(130.0), (0.0,) * 4, (1e3,) * 4, "mean_square"),
    # Fewer are outvoted by the noise.
    "ridge-median": _ridge(
        sk.DPRidge(epsilon=16.0, bounds=(-1, 1)),
        (0.0, 0.0, 0.0, -_LARGEST),
        (0.0, 0.0, 0.0, _LARGEST),
        "median",
        24,
    ),
    "ridge-mean": _ridge(_in_box(), (0, 0, 0, -1e3), (0, 0, 0, 1e3), "target_means"),
    "ridge-box": _ridge(_in_box(), _ALIKE, _CROSSED, "", 12, 0.97),
    # All other rows have the label 0.
    "ridge-classes": _ridge(
        sk.DPRidgeClassifier(epsilon=16.0, bounds=(-1, 1), classes=[0.0, 1.0]),
        (9.0, 9.0, 9.0, 0.0),
        (9.0, 9.0, -9.0, 1.0),
        "joint_moment",
        14,
        0.98,
    ),
    # Targets of opposite signs, that waves of the features hardly weigh against.
    "ridge-basis": _ridge(
        _in_box(basis="additive"),
        (0, 0, 0, 1e3),
        (1e3, -1e3, 1e3, 1e3),
        "joint_moment",
        12,
        0.8811,
    ),
    # Images that are orthogonal, and residuals of opposite signs far from the center.
    "ridge-weighted": _weighted([-7.2, 18.66, 0.0, 1e3], "joint_moment", 0.999),
    "ridge-scores": _weighted([20.0, 0.0, 0.0, -1e3], "scores"),
    "ridge-far-scores": _weighted([20.0, 0.0, 0.0, -1e3], "far_scores"),
    "ridge": _ridge(sk.DPRidge(epsilon=16.0), (-1e12,) * 4, (1e12,) * 4, "", 5, 0.51),
}

# Two steps that see the same rows, each of which moves by its whole sensitivity.
_STEPS = [("a", sk.DPPCA(1, center="none")), ("b", sk.DPPCA(1, center="none"))]
_UNION, _COLUMNS = FeatureUnion(_STEPS), [(*step, [0, 1]) for step in _STEPS]
CASES |= {
    name: Worst(make_private_pipeline(step, epsilon=8.0), *changed(*np.eye(2)))
    for name, step in (
        ("pipeline-union", _UNION),
        ("pipeline-columns", ColumnTransformer(_COLUMNS)),
    )
}
