"""Shared pieces of the accountant's tests; importable from worker processes."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

import skdpspectral
from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.accounting._ledger import store
from skdpspectral.mechanisms import Gaussian, PrivacyPlan
from skdpspectral.statements._command import faults_of

DELTA = 1e-6
PATIENCE = 120.0  # seconds, on a busy machine
FORMS = ("parameter", "with")
MU = gaussian_mu(1.0, DELTA)  # of one fit
# Python 3.12 warns of any fork of a process with threads, as joblib's pool does.
ignore_fork_warning = pytest.mark.filterwarnings(
    "ignore:This process .*multi-threaded:DeprecationWarning"
)
needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the system has no fork"
)
_generator = np.random.default_rng(0)
X = _generator.standard_normal((60, 4))
y = np.arange(60) % 2


def fit_plan(epsilon=1.0, **parameters):
    """Plan of a fit of X, as a user would ask for it."""
    return DPPCA(1, epsilon=epsilon, **parameters).privacy_plan(*X.shape)


def plan_with_mu(mu, unit="row", neighbors="replace-one", **fields):
    """Plan of one release whose charged cost is `mu`, but for a rounding error."""
    draft = Gaussian("statistic", 1.0, 1.0 / mu, (1,))
    noise_std = draft.noise_std * draft.mu / mu
    release = Gaussian("statistic", 1.0, noise_std, (1,))
    # The epsilon is rounded up by less than a millionth: a plan may not claim less.
    epsilon = gaussian_epsilon(release.mu, DELTA) * (1.0 + 1e-6)
    fields = {"epsilon": epsilon, "delta": DELTA, "estimator": "Statistic", **fields}
    return PrivacyPlan(mechanisms=(release,), unit=unit, neighbors=neighbors, **fields)


def entries(accountant):
    """Entries as a list of plain dicts."""
    return [entry._asdict() for entry in accountant.ledger]


def forget(accountant):
    """Let this process know nothing of what it has seen in a ledger."""
    store._seen.pop(accountant._id, None)


@contextlib.contextmanager
def refused(match=None, error=ValueError):
    """Yield an accountant, which is not charged for what is refused here."""
    accountant = PrivacyAccountant()
    with pytest.raises(error, match=match):
        yield accountant
    assert accountant.ledger == ()


def faults(accountant):
    """Return what ``skdpspectral-ledger check`` finds, a sentence each."""
    return faults_of(accountant.path)[0]


def box_of(accountant):
    """Return what is used of the budget: squared mu, failure, pure epsilon."""
    with store.transaction(accountant.path, keep=False) as locked:
        return tuple(locked.sums.box)


def budget_of_fits(count):
    """Budget (epsilon, delta) of so many fits at epsilon = 1, and no more.

    A tenth of delta is kept for failures.
    """
    kept = 0.1 * DELTA
    left = (DELTA - kept) / (1.0 - kept)
    return gaussian_epsilon(count**0.5 * MU, left), DELTA


@contextlib.contextmanager
def charging(form, *budget, path=None):
    """Yield an accountant and a DPPCA that is charged to it, in either form."""
    accountant = PrivacyAccountant(*budget, path=path)
    if form == "parameter":
        yield accountant, DPPCA(1, accountant=accountant)
    else:
        with accountant:
            yield accountant, DPPCA(1)


def classifier(pca, memory=None):
    """Return a classifier that fits `pca` once a fit."""
    steps = [("pca", pca), ("classify", LogisticRegression())]
    return Pipeline(steps, memory=memory)


# -- processes -----------------------------------------------------------------


def clean_context():
    """Context whose children start quickly and inherit no threads or locks."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    preload = ["skdpspectral", "pytest", "sklearn.linear_model", "sklearn.pipeline"]
    context.set_forkserver_preload(preload)
    return context


def run_python(script, *arguments):
    """Run a script in a fresh interpreter; return its output, lines stripped."""
    folders = [str(Path(skdpspectral.__file__).parents[1]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def in_processes(function, count, *arguments):
    """Run ``function(*arguments, barrier)`` at once in processes; return results."""
    context = clean_context()
    barrier = context.Barrier(count)
    pipes = [context.Pipe(duplex=False) for _ in range(count)]
    processes = [
        context.Process(target=_report, args=(sender, function, *arguments, barrier))
        for _, sender in pipes
    ]
    for process in processes:
        process.start()
    results = []
    for receiver, _ in pipes:
        assert receiver.poll(PATIENCE), "a child did not report"
        results.append(receiver.recv())
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0
    return results


def _report(sender, function, *arguments):
    sender.send(function(*arguments))


def race_for_budget(accountant, barrier):
    """One of several simultaneous fits: say whether it was let in."""
    pca = DPPCA(1, accountant=accountant)
    barrier.wait(PATIENCE)
    try:
        pca.fit(X)
    except PrivacyBudgetError:
        return "refused"
    return "fitted" if hasattr(pca, "components_") else "neither"


def charge_from_threads(accountant, n_threads, n_charges, barrier):
    """Charge from several threads of one process: (successes, error messages)."""
    plan, successes, errors = fit_plan(0.1), [], []

    def charge_often():
        for _ in range(n_charges):
            try:
                accountant.charge(plan)
                successes.append(1)
            except Exception as error:
                errors.append(str(error))

    threads = [threading.Thread(target=charge_often) for _ in range(n_threads)]
    barrier.wait(PATIENCE)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(successes), errors


def open_at_once(path, barrier):
    """Create or open the ledger at `path`: return its lasting identity."""
    barrier.wait(PATIENCE)
    accountant = PrivacyAccountant(2.0, DELTA, path=path)
    accountant.charge(fit_plan(0.1))
    return accountant._id


def fit_once(accountant):
    DPPCA(1, accountant=accountant).fit(X)


def fit_for_ever(accountant, sender):
    """Fit until killed; send a byte after each result was returned."""
    pca = DPPCA(1, epsilon=0.1, accountant=accountant)
    while True:
        pca.fit(X)
        os.write(sender, b".")
