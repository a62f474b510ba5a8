"""The ledger after its processes ended: by themselves, killed, or out of room."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from ledger_tools import (
    clean_context,
    entries,
    fit_for_ever,
    fit_once,
    needs_fork,
    run_python,
)

from skdpspectral import PrivacyAccountant

pytestmark = pytest.mark.slow

# -- the end of processes ------------------------------------------------------


OWNER = """
import os, sys, pickle
from ledger_tools import fit_once
from skdpspectral import PrivacyAccountant
accountant = PrivacyAccountant()
print(accountant.path, flush=True)
if os.fork() == 0:
    fit_once(accountant)
    del accountant
    sys.exit(0)  # with all of the interpreter's clean-up
assert os.wait()[1] == 0
assert len(accountant.ledger) == 1 and os.path.exists(accountant.path)
"""


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del accountant"])
def test_only_the_owner_deletes_a_temporary_ledger(end):
    (path,) = run_python(OWNER + end)
    assert not Path(path).parent.exists()


KILLED_FIT = """
import os, pickle, signal, sys
import skdpspectral._release.noise as release
from skdpspectral import DPPCA, PrivacyAccountant
from skdpspectral.accounting._ledger import store
from ledger_tools import X
accountant = PrivacyAccountant(path=sys.argv[1])
if os.fork() == 0:
    release.Release.__call__ = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    DPPCA(1, accountant=accountant).fit(X)
assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
if os.fork() == 0:
    append = store.Transaction.append
    def killed(*arguments):
        append(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    store.Transaction.append = killed
    accountant.charge(DPPCA(1).privacy_plan(*X.shape))
assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
print(len(accountant.ledger))
accountant.charge(DPPCA(1).privacy_plan(*X.shape))
print(len(accountant.ledger))
"""


@needs_fork
def test_kills_before_the_release_and_before_the_commit(tmp_path):
    """The first is charged, the second is not; the lock dies with its process."""
    assert run_python(KILLED_FIT, tmp_path / "ledger.db") == ["1", "2"]
    assert len(entries(PrivacyAccountant(path=tmp_path / "ledger.db"))) == 2


@needs_fork
def test_kills_at_random_moments_leave_a_valid_ledger(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    context, returned = clean_context(), 0
    delays = np.random.default_rng(0).uniform(0.0, 0.08, size=12)
    for kill, delay in enumerate(delays, start=1):
        receiver, sender = os.pipe()
        with os.fdopen(receiver, "rb") as results:
            handle = multiprocessing.reduction.DupFd(sender)
            child = context.Process(target=_fit_on_pipe, args=(accountant, handle))
            child.start()
            os.close(sender)
            returned += len(results.read(1))
            time.sleep(delay)
            child.kill()
            child.join(60)
            assert child.exitcode == -signal.SIGKILL
            returned += len(results.read())
        reopened = PrivacyAccountant(path=accountant.path)
        assert returned <= len(entries(reopened)) <= returned + kill
    assert returned >= len(delays)
    fit_once(accountant)


def _fit_on_pipe(accountant, handle):
    fit_for_ever(accountant, handle.detach())


FULL_DISK = """
import resource, sys
from ledger_tools import fit_plan
from skdpspectral import LedgerError, PrivacyAccountant
accountant = PrivacyAccountant(path=sys.argv[1])
accountant.charge(fit_plan())
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for _ in range(3):
    try:
        accountant.charge(fit_plan())
    except LedgerError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
print(len(accountant.ledger))
accountant.charge(fit_plan())
print(len(PrivacyAccountant(path=sys.argv[1]).ledger))
"""


def test_a_full_disk_refuses_the_fit_and_keeps_the_ledger(tmp_path):
    pytest.importorskip("resource")
    *errors, kept, after = run_python(FULL_DISK, tmp_path / "ledger.db")
    assert len(errors) == 3
    assert all("can't be used" in error for error in errors)
    assert (kept, after) == ("1", "2")
