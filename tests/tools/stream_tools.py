"""What the releases of a stream tell about which of two streams they are of."""

import numpy as np

from skdpspectral import JMECovariance
from skdpspectral._release.streams import StreamRelease


class _NoSums:
    """Stands for the sums of a stream that begins: nothing is made of its releases."""

    step = 0

    def push(self, released):
        return released


class ReleasesAlone(JMECovariance):
    """Fits that end with the last release, and plan once for all fits of the same rows.

    What is released has the same bits as in a whole fit.
    """

    def fit(self, X, y=None):
        if getattr(self, "_fitted_to", (None,))[0] is not X:
            self._fitted_to = X, self.plan_for(X), self._moment_stream(*X.shape)
        _, self.privacy_, stream = self._fitted_to
        release = StreamRelease(
            self.privacy_, None, self.noise_seed, factorization=stream.factorization
        )
        for _ in stream.run(release, X, _NoSums()):
            pass
        return self


class StreamRatio:
    """Log likelihood ratio of all steps of a stream, whitened by C.

    Parameters
    ----------
    model : JMECovariance
        What is audited; C and the weights of the moments are read off it.
    X, neighbor : ndarray of shape (n, d)
        The two streams; rows are clipped here, and not by the package.
    """

    def __init__(self, model, X, neighbor):
        stream = model._moment_stream(*X.shape)
        first, second = (stream.rows.pack(self._clip(model, x)) for x in (X, neighbor))
        self.direction = second - first
        # Rows are shaped by one matrix, their products perhaps by another.
        d = stream.rows.n_features if stream.rows.first else 0
        for shape, part in zip(stream.shapes, (slice(d), slice(d, None)), strict=True):
            C = self._shaping(stream, shape, len(X))
            self.direction[:, part] = C.T @ (C @ self.direction[:, part])
        self.threshold = float(np.vdot(self.direction, 0.5 * (first + second)))

    @staticmethod
    def _shaping(stream, shape, n_steps):
        """C of all steps: with restarts, a block of the diagonal for each."""
        size = stream.n_steps if stream.renewed else n_steps
        return np.kron(np.eye(n_steps // size), shape.matrix(size))

    @staticmethod
    def _clip(model, X):
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X * np.minimum(1.0, model.clip_norm / np.maximum(norms, 1e-300))

    def __call__(self, model, released):
        """Return the ratio, but for a factor."""
        return float(np.vdot(self.direction, released["moments"]))
