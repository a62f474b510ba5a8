"""The noise of fits, in planned standard deviations: what no replay can see.

Released minus exact numbers are independent standard normals, whatever the data are.
Sums of them are compared with their law at `LIMIT` standard deviations: by chance, one
comparison in ten billion fails. The noise of a test has keys of its name, so that a
test that has passed keeps passing.
"""

import functools
import math
from collections import defaultdict

import numpy as np
import replay_cases
from replay import Counts, Tape, _whitened, play
from scipy.special import ndtri
from scipy.stats import chi2

import skdpspectral as sk
from skdpspectral.linear_model import PrivateRounds

LIMIT = 6.5


def standardized(tape):
    """Yield the kind and the standardized noise of each release, as it was drawn."""
    streams = {}
    for asked in tape.asked:
        mechanism, exact = asked.mechanism, asked.exact
        if exact is None or asked.seeded or not hasattr(mechanism, "grid"):
            continue
        if isinstance(exact, Counts):
            yield "counts", _of_counts(mechanism, exact.counts, asked.released)
            continue
        drawn = asked.released - exact * mechanism.grid
        if asked.stream is not None:
            streams.setdefault(asked.stream, (asked, []))[1].append(drawn)
            continue
        drawn = drawn / mechanism.drawn_std
        if mechanism.symmetric:
            i, j = np.tril_indices(len(drawn), -1)
            yield "diagonal", np.diagonal(drawn)
            yield "beside the diagonal", math.sqrt(2.0) * drawn[i, j]
        else:
            # By name: a release of few numbers is lost among those of others.
            yield f"entries of {mechanism.name.rstrip('_0123456789')}", drawn.ravel()
    for asked, parts in streams.values():
        whitened = _whitened(asked, np.concatenate(parts))
        yield "streams", (whitened / asked.mechanism.noise_std).ravel()


def _of_counts(mechanism, counts, released):
    """Return the noise of counts so large that no noise brings them to a threshold."""
    least = mechanism.threshold + 8.0 * mechanism.noise_std
    noise = [
        found[value] - count
        for column, found in zip(counts, released, strict=True)
        for value, count in column.items()
        if count > least
    ]
    return np.array(noise) / mechanism.noise_std


class NoiseCheck:
    """Sums over the noise of many fits, each of which is made twice."""

    def __init__(self):
        # Of each comparison: the number of terms, and their sum.
        self.sums = defaultdict(lambda: [0, 0.0])
        # Units in samples: how many there are, and their mean and variance by the plan.
        self.sampled = np.zeros(3)

    def add(self, act):
        """Make two fits with noise of their own, and add up what there is of it."""
        fits = []
        for _ in range(2):
            played = play(lambda: {"fit": act()}, Tape(fresh=True))
            assert played.error is None, played.error
            fits.append(list(standardized(played.tape)))
            for size, n, rate in played.tape.sizes:
                self.sampled += size, n * rate, n * rate * (1.0 - rate)
        for kind, noise in (*fits[0], *fits[1]):
            self._note(f"squares: {kind}", len(noise), noise @ noise)
            self._note(f"mean: {kind}", len(noise), noise.sum())
            self._note("next to each other", len(noise) - 1, noise[1:] @ noise[:-1])
        for (_, one), (_, two) in zip(*fits, strict=False):
            self._products("between fits", one, two)
        for (_, one), (_, two) in zip(fits[0], fits[0][1:], strict=False):
            self._products("between releases", one, two)

    def _products(self, name, one, two):
        n = min(len(one), len(two))
        self._note(name, n, one[:n] @ two[:n])

    def _note(self, name, number, total):
        self.sums[name][0] += max(number, 0)
        self.sums[name][1] += float(total)

    def scores(self):
        """Return each comparison in standard deviations of its law."""
        found = {}
        for name, (n, total) in self.sums.items():
            if not n:
                continue
            if name.startswith("squares"):
                low, high = chi2.logcdf(total, n), chi2.logsf(total, n)
                found[name] = _deviations(low) if low < high else -_deviations(high)
            else:
                found[name] = total / math.sqrt(n)
        number, mean, variance = self.sampled
        if variance:
            found["sizes of samples"] = (number - mean) / math.sqrt(variance)
        return found

    def check(self, least=0):
        """Compare all, of so many numbers at least."""
        scores = self.scores()
        far = {k: v for k, v in scores.items() if not abs(v) < LIMIT}
        assert not far, far
        n = sum(n for name, (n, _) in self.sums.items() if name.startswith("squares"))
        assert n >= least, n


def _deviations(log_probability):
    """Return the normal quantile of a probability, however small."""
    if log_probability > -700.0:
        return ndtri(math.exp(log_probability))
    return -math.sqrt(-2.0 * log_probability)


# -- what is checked -------------------------------------------------------------------


def _rows(n, p):
    return np.random.default_rng(0).standard_normal((n, p))


def _labels(n):
    return np.arange(n) % 2


def _clients(n, p):
    return np.column_stack([_labels(n), _rows(n, p)])


def _users(n, m, d):
    X = np.column_stack([np.repeat(np.arange(n), m), _rows(n * m, d)])
    return X, _rows(n * m, 1)[:, 0]


def _rated(n_items):
    items = np.random.default_rng(0).integers(n_items, size=18)
    return np.column_stack([np.repeat(np.arange(6), 3), items]), 1.0 + items % 5


_PAIRS = {"user_feature": 0, "item_feature": 1, "rating_range": (1, 5)}
_BOX = {"bounds": (-3, 3), "epsilon": 400.0}
# Fits of many numbers, by what they are of: estimators, and what `fit` is given.
WIDE = {
    "DPPCA": lambda: [
        (sk.DPPCA(1, center="none"), _rows(6, 120)),
        (sk.DPPCA(2, epsilon=200.0), _rows(6, 80)),
    ],
    "SpikedPCA": lambda: [
        (sk.SpikedPCA(1, signal_variance=1e9, noise_variance=1.0), _rows(900, 140))
    ],
    "DPCovariance": lambda: [(sk.DPCovariance(), _rows(8, 140))],
    "FederatedDPPCA": lambda: [
        (sk.FederatedDPPCA(1, client_feature=0, aggregation="matrix"), _clients(8, 110))
    ],
    "SparseDPPCA": lambda: [(sk.SparseDPPCA(1, client_feature=0), _clients(8, 110))],
    "JMECovariance": lambda: [
        (sk.JMECovariance(), _rows(8, 50)),
        (sk.JMECovariance(factorization="sqrt"), _rows(8, 30)),
    ],
    # Half of 2,000 rows in each of 20 samples: a rate that is 5 % off is seen.
    "DPAdamClassifier": lambda: [
        (
            sk.DPAdamClassifier(classes=[0, 1], batch_size=1000, n_epochs=10),
            _rows(2000, 450),
            _labels(2000),
        )
    ],
    "DPAdamRegressor": lambda: [
        (
            sk.DPAdamRegressor(target_bounds=(-1, 1), batch_size=20, n_epochs=15),
            _rows(40, 350),
            _rows(40, 1)[:, 0],
        )
    ],
    "LRSRegressor": lambda: [
        (
            sk.LRSRegressor(1, user_feature=0, solver=PrivateRounds(2)),
            *_users(5, 3, 90),
        ),
        (
            sk.LRSRegressor(3, user_feature=0, solver=PrivateRounds(100)),
            *_users(5, 3, 3),
        ),
    ],
    "LRSMLPRegressor": lambda: [
        (sk.LRSMLPRegressor(2, user_feature=0, n_rounds=20), *_users(5, 3, 40))
    ],
    "DPItemEmbedding": lambda: [
        (sk.DPItemEmbedding(1, items=range(2500), **_PAIRS), *_rated(2500)),
        (
            sk.DPItemEmbedding(1, items=range(140), method="residuals", **_PAIRS),
            *_rated(140),
        ),
    ],
    "DPMatrixFactorization": lambda: [
        (sk.DPMatrixFactorization(1, items=range(2500), **_PAIRS), *_rated(2500))
    ],
    "DPRidge": lambda: [
        (
            sk.DPRidge(target_bounds=(-9, 9), **_BOX),
            _rows(400, 140),
            _rows(400, 1)[:, 0],
        )
    ],
    "DPRidgeClassifier": lambda: [
        (sk.DPRidgeClassifier(classes=[0, 1], **_BOX), _rows(400, 140), _labels(400))
    ],
    "DPStandardScaler": lambda: [
        (sk.DPStandardScaler(), _rows(6, 3)),
        (sk.DPStandardScaler(epsilon=300.0), _rows(24, 3)),
        (sk.DPStandardScaler(bounds=(-3, 3)), _rows(24, 1500)),
    ],
    "DPTableVectorizer": lambda: [(sk.DPTableVectorizer(), _rows(6, 3))],
}


def _of_settings(kind):
    from test_common import ESTIMATORS

    return replay_cases.cases_of_settings(kind, ESTIMATORS)


def _scores(cases):
    for number in range(100):
        yield from cases(np.random.default_rng(number), "array")


# Cases of replays, by family.
FAMILIES = {
    kind: functools.partial(_of_settings, kind) for kind in replay_cases.CLASSES
}
FAMILIES |= {
    kind: functools.partial(replay_cases.other_cases, kind, "array")
    for kind in (
        "compositions",
        "validation",
        "optimizers",
        "searches",
        "searches of users",
    )
}
FAMILIES |= {
    "scorers": lambda: _scores(replay_cases.scorer_cases),
    "scorers of users": lambda: _scores(replay_cases.user_scorer_cases),
    "tables": lambda: replay_cases.other_cases("tables", "pandas"),
    "groups": lambda: replay_cases.group_cases(np.random.default_rng(8)),
}
