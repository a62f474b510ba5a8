"""A scaler of few rows as of many, and its releases without noise."""

from pca_tools import Replay

from skdpspectral import DPStandardScaler
from skdpspectral._statistics.feature_scales import FeatureScales


class ManyRowsScaler(DPStandardScaler):
    """A scaler that treats few rows as if they were many."""

    def _statistic(self, n_samples, n_features):
        return FeatureScales(n_samples, n_features)


def exact_releases(model, plan, transcript, X):
    """Return what is released of X without noise, given a transcript of a fit."""
    replayed = Replay(plan, transcript)
    model._statistic(*X.shape).run(replayed, X)
    return replayed.exact
