"""
Kill -9 at random moments: what the ledger knows afterwards
===========================================================

Processes fit again and again, and report each result that they were handed. Each is
killed at a random moment. A result without an entry would be an unrecorded release:
the ledger must open, be whole, and hold at least as many entries as results were
returned, and at most one more for each killed process (the fit that was charged and
never came to its end). Run on a POSIX system, as

.. code-block:: bash

    python ledger_kill.py --kills 200
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant


def fit_for_ever(path, X, pipe):
    """Fit until killed; write a byte after each result."""
    pca = DPPCA(1, epsilon=0.1, accountant=PrivacyAccountant(path=path))
    while True:
        pca.fit(X)
        os.write(pipe, b".")


def results_before_the_kill(path, X, delay):
    """Fork a process that fits, kill it after a delay, and count its results."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            fit_for_ever(path, X, sender)
        finally:
            os._exit(1)  # an error: the kill never found it
    os.close(sender)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != -signal.SIGKILL:
        raise SystemExit(f"a fit failed before it was killed (exit status {status})")
    with os.fdopen(receiver, "rb") as pipe:
        return len(pipe.read())


def run(kills, longest_delay, seed):
    """Kill so many processes on one ledger; return (results, entries) after each."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((60, 4))
    counts, returned = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        PrivacyAccountant(path=path)
        for delay in generator.uniform(0.0, longest_delay, size=kills):
            returned += results_before_the_kill(path, X, delay)
            # Opening checks the file; it raises where it is not whole.
            try:
                counts.append((returned, len(PrivacyAccountant(path=path).ledger)))
            except LedgerError as error:
                message = f"after {len(counts) + 1} kills and {returned} results: "
                raise SystemExit(message + str(error)) from error
    return counts


def main(arguments=None):
    """Print the totals; return 0 if the ledger kept its promise after every kill."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--longest-delay", type=float, default=0.08, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    # Python 3.12 warns of forks of a process with threads, as BLAS starts them.
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)
    start = time.perf_counter()
    counts = run(options.kills, options.longest_delay, options.seed)
    seconds = time.perf_counter() - start
    broken = [
        kill
        for kill, (results, entries) in enumerate(counts, start=1)
        if not results <= entries <= results + kill
    ]
    results, entries = counts[-1]
    print(f"processes killed:             {options.kills} in {seconds:.1f} s")
    print(f"results returned:             {results}")
    print(f"entries in the ledger:        {entries}")
    print(f"charged, but never returned:  {entries - results}")
    print(f"kills after which it was off: {len(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
