"""
Stress: what is returned is charged and has its noise, whatever else goes on
=============================================================================

Threads, asyncio tasks, joblib's backends, forks, processes of every start method,
copies, pickles, audits and backups work on the same ledgers and the same streams, and
processes are killed in the middle of a fit. Everybody who gets a result says so in a
log, after the call returned. When time is up, the log is checked against the ledgers:

- every result has its entry, under its own label, in its own ledger;
- no budget was passed;
- all results have noise of the planned law (the rows are public, so that it can be
  seen), and no two have the same;
- nobody hangs, and nobody met an error that is no refusal.

Run on a POSIX system, as

.. code-block:: bash

    python release_stress.py --seconds 120

The numbers of false alarms of the checks are stated in ``stress_log.py``.
"""

import argparse
import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

from stress_actors import IN_MAIN_THREAD, IN_THREADS
from stress_fits import EPSILON, ROWS, Stage
from stress_log import Report, SideLog, check_run

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant
from skdpspectral.accounting import gaussian_epsilon

DELTA = 1e-6
FITS_A_BUDGET = 25


def has_gil() -> bool:
    """Whether threads are one at a time, so that a fork meets no lock of Python itself.

    A free-threaded interpreter loses forked children without any of this package: of
    CPython 3.13.15t, one in some 200 hung that was forked beside six busy threads.
    """
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def make_stage(folder, seconds: float, patience: float, blocks=True) -> Stage:
    """Open the ledgers of a run, or make them."""
    plan = DPPCA(3, epsilon=EPSILON, center="none").privacy_plan(*ROWS.shape)
    # The cost of the planned noise itself, which calibration leaves a little short.
    budget = gaussian_epsilon(FITS_A_BUDGET**0.5 * plan.mu, DELTA)
    ledgers = {
        name: PrivacyAccountant(path=Path(folder) / f"{name}.db")
        for name in ("open", "tasks")
    }
    n_budgets = max(2, int(seconds / 6.0))
    for number in range(n_budgets):
        path = Path(folder) / f"budget {number}.db"
        ledgers[f"budget {number}"] = PrivacyAccountant(budget, DELTA, path=path)
    return Stage(
        folder=str(folder),
        log=SideLog(str(Path(folder) / "log")),
        ledgers=ledgers,
        seconds_a_budget=seconds / n_budgets,
        start=time.time(),
        patience=patience,
        blocks=blocks,
        forks=has_gil(),
    )


# -- the process with the actors -------------------------------------------------


def play(stage: Stage, scenes, end: float, pulses: dict) -> None:
    """Play scenes again and again, and say that one still lives."""
    name = threading.current_thread().name
    for round_ in range(sys.maxsize):
        if time.monotonic() >= end:
            break
        pulses[name] = time.monotonic()
        scene = scenes[round_ % len(scenes)]
        try:
            scene(stage)
        except Exception as error:
            # Where it was raised, but for what differs between runs.
            place = traceback.extract_tb(error.__traceback__)[-1].name
            message = f"{type(error).__name__} in {place}: {error}"
            stage.log.failure(scene.__name__, message.replace(stage.folder, "")[:160])
            time.sleep(0.05)
        else:
            stage.log.count(scene.__name__, "scenes")
    del pulses[name]


def watch(stage: Stage, pulses: dict) -> None:
    """End the process, with the stacks of its threads, where an actor hangs."""
    while True:
        time.sleep(0.5)
        late = [
            name
            for name, pulse in list(pulses.items())
            if time.monotonic() - pulse > 2.0 * stage.patience
        ]
        if late:
            stage.log.failure("watch", f"hangs: {', '.join(sorted(late))}")
            with open(Path(stage.folder) / "hung crowd", "w") as file:
                faulthandler.dump_traceback(file, all_threads=True)
            # Forked children say where they are; others are ended by it.
            for child in set(others_of(os.getpid())) - {os.getpid()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGUSR1)
                time.sleep(0.2)
            os._exit(3)


def crowd(folder, seconds, patience, repeat, blocks, left_out) -> None:
    """Let all actors play at once, in this process."""
    warnings.simplefilter("ignore")
    sys.setswitchinterval(5e-4)
    stacks = [
        open(Path(folder) / f"hung {what}", "a")  # noqa: SIM115
        for what in ("crash", "forks")
    ]
    faulthandler.enable(stacks[0])
    faulthandler.register(signal.SIGUSR1, stacks[1], all_threads=True)
    stage = make_stage(folder, seconds, patience, blocks)
    end, pulses = time.monotonic() + seconds, {}
    threading.Thread(target=watch, args=(stage, pulses), daemon=True).start()
    threads = [
        threading.Thread(
            target=play,
            args=(stage, [scene], end, pulses),
            name=f"{scene.__name__} {number}",
            daemon=True,
        )
        for number, scene in enumerate(IN_THREADS * repeat)
        if scene.__name__ not in left_out
    ]
    for thread in threads:
        thread.start()
    in_main = [scene for scene in IN_MAIN_THREAD if scene.__name__ not in left_out]
    if in_main:
        play(stage, in_main, end, pulses)
    for thread in threads:
        thread.join()
    stage.log.count("crowd", "came to its end")


# -- the process that starts it, and judges --------------------------------------


def others_of(group: int) -> list[int]:
    """Processes of a group that are left, where the system tells."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def run(folder, options) -> Report:
    """Stress, and check."""
    report, start = Report(), time.perf_counter()
    seconds, patience = options.seconds, options.patience
    make_stage(folder, seconds, patience)
    command = [sys.executable, __file__, "--crowd", str(folder)]
    for name in ("seconds", "patience", "repeat"):
        command += [f"--{name}", str(getattr(options, name))]
    command += ["--leave-out", *options.leave_out]
    command += [] if options.blocks else ["--no-blocks"]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait(timeout=seconds + 5.0 * patience + 60.0)
        report.expect(status == 0, f"the crowd ended with {status}")
    except subprocess.TimeoutExpired:
        report.faults.append("the crowd did not come to its end")
    finally:
        for _ in range(20):  # helpers of joblib and multiprocessing end by themselves
            left = others_of(process.pid)
            if not left:
                break
            time.sleep(0.25)
        report.figures.append(f"{len(left)} processes had to be ended")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    forks = "" if has_gil() else ", without the GIL, and so without forks"
    seconds = time.perf_counter() - start
    report.figures.append(f"{seconds:.0f} s on Python {sys.version}{forks}")
    judge(folder, report)
    return report


def judge(folder, report: Report) -> None:
    """Check what a run left in its folder."""
    ledgers, budgets = {}, {}
    for path in sorted(map(str, Path(folder).glob("*.db"))):
        if not Path(path).name.startswith(("open", "tasks", "budget")):
            continue
        try:
            accountant = PrivacyAccountant(path=path)
            entries = [entry._asdict() for entry in accountant.ledger]
        except LedgerError as error:
            report.faults.append(f"a ledger is lost: {error}")
            continue
        ledgers[path] = entries
        if accountant.epsilon is not None:
            budgets[path] = FITS_A_BUDGET
    records = SideLog(str(Path(folder) / "log")).records()
    check_run(records, ledgers, budgets, report)
    for file in sorted(Path(folder).glob("hung *")):
        stacks = file.read_text()
        report.expect(not stacks, f"{file.name}:\n{stacks[:3000]}")


def main(arguments=None):
    """Print figures and faults; return 0 if there is no fault."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds")
    parser.add_argument("--repeat", type=int, default=1, help="threads of each actor")
    parser.add_argument("--folder", help="where to keep ledgers and log")
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="ACTOR")
    parser.add_argument("--no-blocks", dest="blocks", action="store_false",
                        help="accountants as parameters alone")  # fmt: skip
    parser.add_argument("--crowd", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.crowd:
        crowd(
            options.crowd, options.seconds, options.patience, options.repeat,
            options.blocks, options.leave_out,
        )  # fmt: skip
        return 0
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(tempfile.TemporaryDirectory())
        folder = Path(folder).absolute()
        report = run(folder, options)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
