"""Fits of public rows whose exact statistics are known, so that the noise is seen.

Every fit is of rows that were made up: what a release has beyond the exact statistic
is its noise, and must have the planned law, whatever else the process does.
"""

import contextlib
import os
import uuid
from dataclasses import dataclass

import numpy as np
from stress_log import SideLog

from skdpspectral import (
    DPPCA,
    FederatedDPPCA,
    JMECovariance,
    LRSRegressor,
    PrivacyAccountant,
    SparseDPPCA,
)
from skdpspectral.factorizations import Average, factorize
from skdpspectral.linear_model import PrivateRounds

EPSILON = 0.5
N_STEPS = 600  # of a stream: several blocks
ROWS = np.tile(np.eye(3), (200, 1))  # no direction stands out
CLIENTS = np.repeat(["north", "south"], 300)
ROW = np.array([0.3, -0.2, 0.1])
STREAM = np.tile(ROW, (N_STEPS, 1))


class LoggedPCA(DPPCA):
    """A DPPCA that writes every result to the side log, wherever it is fitted."""

    def __init__(
        self, log=None, label="", ledger=None, *, accountant=None, min_gap=1.0
    ):
        super().__init__(3, epsilon=EPSILON, center="none", accountant=accountant)
        self.log, self.label, self.ledger = log, label, ledger
        self.min_gap = min_gap

    def fit(self, X, y=None):
        """Fit, and acknowledge."""
        super().fit(X)
        log, actor = SideLog(self.log), self.label.split("/")[0]
        log.release(actor, self.ledger, self.label, [moment_noise(self, X)],
                    law="normal")  # fmt: skip
        return self


def moment_noise(pca, X) -> np.ndarray:
    """Noise of a released second moment, from all of its components."""
    axes = pca.components_
    noise = axes.T @ (pca.explained_variance_[:, None] * axes) - X.T @ X / len(X)
    noise /= pca.privacy_["second_moment"].noise_std
    noise *= np.sqrt(2.0) - (np.sqrt(2.0) - 1.0) * np.eye(len(axes))
    return noise[np.tril_indices(len(axes))]


def path_noise(model, locations, factorization="trivial") -> np.ndarray:
    """Noise of the first steps of a path, without its correlation: one row a step."""
    sums = np.arange(1, len(locations) + 1)[:, None] * np.asarray(locations)
    noise = np.diff(sums, axis=0, prepend=0.0) - ROW
    shaping = factorize(Average(), factorization, N_STEPS).matrix(N_STEPS)
    noise = shaping[: len(noise), : len(noise)] @ noise
    return noise / model.privacy_plan(N_STEPS, 3)["moments"].noise_std


def location_noise(model, location) -> np.ndarray:
    """Noise of the mean after all steps, which are independent of each other."""
    noise = np.sqrt(N_STEPS) * (location - ROW)
    return noise / model.privacy_plan(N_STEPS, 3)["moments"].noise_std


def make_stream(accountant=None, factorization="trivial") -> JMECovariance:
    """Return a stream whose noise can be told from its releases."""
    return JMECovariance(
        epsilon=EPSILON,
        factorization=factorization,
        horizon=N_STEPS,
        accountant=accountant,
    )


@dataclass
class Stage:
    """Where a stress takes place: its ledgers and its log. It can be pickled.

    Parameters
    ----------
    folder : str
        With the ledgers.
    log : SideLog
        Where results are acknowledged.
    ledgers : dict of str to PrivacyAccountant
        "open" and "tasks" without a budget; "budget 0" and so on with one.
    seconds_a_budget : float
        For how long each budget is raced for.
    start : float
        When the stress began, by `time.time`.
    patience : float
        Seconds after which somebody who does not go on is taken to hang.
    blocks : bool, default=True
        Whether accountants are given by ``with`` blocks, or always as parameters.
    forks : bool, default=True
        Whether the process with the threads is forked.
    """

    folder: str
    log: SideLog
    ledgers: dict
    seconds_a_budget: float
    start: float
    patience: float
    blocks: bool = True
    forks: bool = True

    @contextlib.contextmanager
    def block(self, handle: PrivacyAccountant):
        """Open a block of a handle, and yield the parameter that fits inside need.

        Without blocks, that is the handle itself.
        """
        with handle if self.blocks else contextlib.nullcontext():
            yield None if self.blocks else handle

    def fit(self, actor: str, accountant: PrivacyAccountant, kind="pca") -> None:
        """Fit under a label of its own, and acknowledge what comes out."""
        handle = self.labeled(actor, accountant)
        self.fit_labeled(actor, handle, handle, kind)

    def labeled(self, actor: str, accountant: PrivacyAccountant) -> PrivacyAccountant:
        """Return a handle with a label that nobody else has."""
        return accountant.named(f"{actor}/{os.getpid()}/{uuid.uuid4().hex}")

    def fit_labeled(self, actor, handle, parameter, kind="pca") -> None:
        """Fit with an accountant, or None in a block, of the handle's label."""
        draw, law, entries = FITS[kind](parameter)
        self.log.release(
            actor, handle.path, handle._label, [draw], law=law, entries=entries
        )


def _fit_pca(accountant):
    pca = DPPCA(3, epsilon=EPSILON, center="none", accountant=accountant).fit(ROWS)
    return moment_noise(pca, ROWS), "normal", 1


def _fit_sparse(accountant):
    model = SparseDPPCA(1, epsilon=EPSILON, accountant=accountant).fit(ROWS)
    return model.components_[0], "sphere", 1


def _fit_federated(accountant):
    model = FederatedDPPCA(1, epsilon=EPSILON, center="none", accountant=accountant)
    model.fit(ROWS, clients=CLIENTS)
    return model.components_[0], "sphere", 1


def _fit_regression(accountant):
    model = LRSRegressor(
        sparsity=0, solver=PrivateRounds(1), epsilon=0.2, fit_intercept=False,
        accountant=accountant,
    )  # fmt: skip
    model.fit(ROWS, np.ones(len(ROWS)), users=np.arange(len(ROWS)))
    return model.components_.ravel(), "sphere", 1


def _fit_stream(accountant):
    model = make_stream(accountant).fit(STREAM)
    return location_noise(model, model.location_), "normal", 1


FITS = {
    "pca": _fit_pca,
    "federated": _fit_federated,
    "regression": _fit_regression,
    "stream": _fit_stream,
    "sparse": _fit_sparse,
}
