"""What a transcript of releases of rows tells about which of two data sets it is of.

Each release is Gaussian given those before it, and its mean is a function of the rows
and of earlier releases. `ReleaseRatio` runs the package's own code on both data sets
with the transcript in place of noise, and so learns both means.
"""

import math
from dataclasses import replace

import numpy as np

from skdpspectral import (
    DPPCA,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
)
from skdpspectral._release.noise import Release
from skdpspectral._statistics.feature_scales import FeatureScales
from skdpspectral.audit import audit_epsilon
from skdpspectral.linear_model._joint_moment import JointRows


class Replay:
    """A release that answers with a transcript, and notes what it was asked."""

    def __init__(self, plan, transcript):
        self.plan = plan
        self.transcript = transcript
        self.exact = {}

    def __call__(self, name, value, *, overwrite=False):
        self.exact[name] = np.array(value, dtype=float)
        return self.transcript[name].copy()


class Noted:
    """A release with noise, and a note of what it was asked."""

    def __init__(self, release):
        self.plan = release.plan
        self._release = release
        self.exact = {}

    def __call__(self, name, value, *, overwrite=False):
        self.exact[name] = np.array(value, dtype=float)
        return self._release(name, value, overwrite=overwrite)


def releases_of(model, shape):
    """Return ``run(release, X)``, which makes the releases of a fit, and no more."""
    return model._statistic(*shape).run


class _Quick:
    """Fits that end with the last release, and plan once for all fits of the same rows.

    What is released has the same bits as in a whole fit.
    """

    def fit(self, X, y=None):
        if getattr(self, "_fitted_to", (None,))[0] is not X:
            self._fitted_to = X, self.plan_for(X), releases_of(self, X.shape)
        _, plan, run = self._fitted_to
        self._noted = Noted(Release(plan, None, self.noise_seed))
        run(self._noted, X)
        return self


class ReleasesAlone(_Quick, DPPCA):
    pass


class ScalesAlone(_Quick, DPStandardScaler):
    pass


class ManyRowsScaler(DPStandardScaler):
    """A scaler that treats few rows as if they were many."""

    def _statistic(self, n_samples, n_features):
        return FeatureScales(n_samples, n_features)


class ManyRowsAlone(_Quick, ManyRowsScaler):
    pass


class NumbersOfTables(DPTableVectorizer):
    """A vectorizer whose table has numbers alone."""

    def _statistic(self, n_samples, n_features):
        return self._statistics(n_samples, n_features, 0).parts()["numbers"]


class NumbersAlone(_Quick, NumbersOfTables):
    pass


class _TargetLast:
    """A linear model of tables whose last column is the target, or the label."""

    def fit(self, X, y=None):
        return super().fit(X[:, :-1], X[:, -1])

    def plan_for(self, X):
        return super().plan_for(X[:, :-1])

    def _statistic(self, n_samples, n_columns, n_targets=None):
        if n_targets is not None:
            return super()._statistic(n_samples, n_columns, n_targets)
        return _OfTable(super()._statistic(n_samples, n_columns - 1), self._indicators)

    @staticmethod
    def _indicators(column):
        return column


class _OfTable:
    """A statistic that is given features and target as one table."""

    def __init__(self, statistic, indicators):
        self.statistic, self.indicators = statistic, indicators

    def run(self, release, X):
        targets = self.indicators(X[:, -1:])
        return self.statistic.run(release, JointRows(X[:, :-1], targets))


class TargetLast(_TargetLast, DPRidge):
    pass


class LabelLast(_TargetLast, DPRidgeClassifier):
    """Labels are 0 and 1."""

    @staticmethod
    def _indicators(column):
        return 2.0 * column - 1.0


class CoefficientsAlone(_Quick, TargetLast):
    pass


class ClassesAlone(_Quick, LabelLast):
    pass


def quick_fits(model):
    """Return the same estimator, whose fits end with the last release."""
    quick = {
        DPPCA: ReleasesAlone,
        DPStandardScaler: ScalesAlone,
        ManyRowsScaler: ManyRowsAlone,
        TargetLast: CoefficientsAlone,
        LabelLast: ClassesAlone,
        NumbersOfTables: NumbersAlone,
    }
    return quick[type(model)](**model.get_params(deep=False))


class ReleaseRatio:
    """Log likelihood ratio of the named releases, given all earlier ones."""

    threshold = 0.0

    def __init__(self, model, X, neighbor, prefix=""):
        self.sides, self.prefix = (X, neighbor), prefix
        self.plan, self.run = model.plan_for(X), releases_of(model, X.shape)

    def __call__(self, fitted, released):
        means = [self._means(fitted, X, released) for X in self.sides]
        chosen = [name for name in released if name.startswith(self.prefix)]
        return transcript_ratio(self.plan, means, released, chosen)

    def _means(self, fitted, X, released):
        if fitted._fitted_to[0] is X:  # as the fit itself had them
            return fitted._noted.exact
        replay = Replay(self.plan, released)
        self.run(replay, X)
        return replay.exact


def transcript_ratio(plan, means, released, names=None):
    """Log likelihood ratio of releases whose means on both data sets are known."""
    total = 0.0
    for name in released if names is None else names:
        mechanism = plan[name]
        low, high = (_whole(mechanism, side[name]) for side in means)
        distance = np.vdot(high - low, released[name] - 0.5 * (low + high))
        total += distance / mechanism.noise_std**2
    return total


def _whole(mechanism, value):
    """A matrix of which the lower triangle was given."""
    if not mechanism.symmetric:
        return value
    lower = np.tril(value)
    return lower + np.tril(lower, -1).T


def cost_of(plan, prefix):
    """Claimed cost of the named releases."""
    costs = [m.mu for m in plan.releases() if m.name.startswith(prefix)]
    return math.hypot(*costs)


def audit_releases(model, X, neighbor, prefix, n_trials, **options):
    """Audit the named releases alone, against their own claim."""
    from skdpspectral.accounting import gaussian_epsilon

    statistic = ReleaseRatio(model, X, neighbor, prefix)
    result = audit_epsilon(
        quick_fits(model), X, neighbor, statistic, n_trials, **options
    )
    claimed = cost_of(statistic.plan, prefix) if prefix else statistic.plan.mu
    epsilon = gaussian_epsilon(claimed, result.delta)
    return replace(result, claimed_mu=claimed, claimed_epsilon=epsilon)
