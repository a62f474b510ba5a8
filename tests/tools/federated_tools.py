"""Audits of one client by all messages that leave it, in sessions as they are held."""

import numpy as np
from sklearn.utils import check_random_state

from skdpspectral import FederatedDPPCA, SparseDPPCA
from skdpspectral.decomposition._federated_client import answers_of
from skdpspectral.decomposition._kernels import orthonormal_columns
from skdpspectral.federation import LocalClient, Registration, Reply, Server, Topic

# The first column names clients: the one that is audited comes last.
OTHER, AUDITED = 0.0, 1.0


class Recorder(Server):
    """A server that keeps what it sends, and the bytes that one client answers."""

    malicious = False

    def __init__(self, *args, **parameters):
        super().__init__(*args, **parameters)
        self.sent, self.received = [], []

    def request(self, basis=None):
        if basis is not None and self.malicious:
            # What reveals most of the first axes, and five times too long.
            basis = 5.0 * np.eye(*basis.shape)
        self.sent.append(super().request(basis))
        return self.sent[-1]

    def collect(self, answers):
        self.received.append(Reply.from_bytes(answers[str(AUDITED)]))
        return super().collect(answers)


class MaliciousRecorder(Recorder):
    """One that sends the same long basis in every round."""

    malicious = True


class _Recorded:
    """Keeps the messages of a fit, which ends with the last of them.

    Plans are made once for all fits of the same rows, and clients whose answers have
    no say in what the audited one is asked are not asked themselves: its messages are
    those of a whole fit.
    """

    _recorder_class = Recorder
    _asked = (AUDITED,)

    def fit(self, X, y=None):
        if getattr(self, "_fitted_to", (None,))[0] is not X:
            self._fitted_to = X, self._task(X.shape[1] - 1), self._clients(X)
        _, task, clients = self._fitted_to
        source = check_random_state(self.noise_seed)
        seeds = source.randint(2**62, size=2, dtype=np.int64).tolist()
        members = {
            name: LocalClient._charged(
                name, rows, task, plan, self.epsilon, seeds[position]
            )
            for name, position, rows, plan in clients
        }
        registered = {
            name: Registration(len(rows), self.epsilon, self.delta)
            for name, _, rows, _ in clients
        }
        rounds = self._rounds(self._server(registered, task, self.weights))
        while not rounds.done:
            rounds.collect(answers_of(rounds, members))
        return self

    def _clients(self, X):
        """Name, place among all, rows and plan of those that are asked."""
        plans = dict(self.plan_for(X).blocks)
        order = [OTHER, AUDITED]
        return [
            (str(c), order.index(c), X[X[:, 0] == c, 1:].copy(), plans[str(c)])
            for c in self._asked
        ]

    def _server(self, names, task, weights):
        self._recorder = self._recorder_class(names, task)
        return self._recorder


class RecordedPCA(_Recorded, FederatedDPPCA):
    pass


class RecordedSparse(_Recorded, SparseDPPCA):
    """The server makes its requests of all answers."""

    _asked = (OTHER, AUDITED)


class MaliciousSparse(_Recorded, SparseDPPCA):
    _recorder_class = MaliciousRecorder


def with_whole_fits(cls):
    """Return the same with fits of the estimator as it is."""
    return type(cls.__name__, (cls,), {"fit": super(_Recorded, cls).fit})


def unit_rows(X):
    rows = np.asarray(X)[:, 1:]
    rows = rows[np.asarray(X)[:, 0] == AUDITED]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


class MessageRatio:
    """Log likelihood ratio of all messages of a client, each given those before.

    Parameters
    ----------
    X, X_neighbor : ndarray of shape (n, 1 + p)
        Rows after the column of clients, without bounds.
    """

    threshold = 0.0

    def __init__(self, X, X_neighbor):
        rows, others = unit_rows(X), unit_rows(X_neighbor)
        first, second = (r.T @ r / len(r) for r in (rows, others))
        self.change, self.middle = second - first, 0.5 * (first + second)

    def __call__(self, estimator, released) -> float:
        recorder = estimator._recorder
        return sum(map(self._one, recorder.sent, recorder.received))

    def _one(self, request, reply) -> float:
        variance = reply.numbers[0] ** 2
        if reply.topic is Topic.POWER:
            basis = orthonormal_columns(request.basis)[0]
            off = reply.values - self.middle @ basis
            return float(np.vdot(off, self.change @ basis)) / variance
        lower = np.tril_indices(len(self.change))
        weights = np.where(lower[0] == lower[1], 1.0, 2.0)
        off = reply.values - self.middle[lower]
        return float(np.sum(weights * off * self.change[lower])) / variance
