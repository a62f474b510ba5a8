"""A SuperLink, SuperNodes and sites as processes of this machine, and their end.

Every process is started here and stopped by its id, with what it has started itself.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
GRACE_SECONDS = 8.0


def end_with_parent():
    """Ask the system to end this process when the thread that starts it does (Linux).

    So nothing is left even of a run that is itself killed.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """Processes that end with the ``with`` block, however it ends."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(*self.running)

    def start(self, name, command, **environment):
        """Start a process whose output goes to a file of its name."""
        self.stop(name)
        log = open(self.folder / f"{name}.log", "wb")  # noqa: SIM115
        with log:
            self.running[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(name) | environment,
                start_new_session=True,  # Ctrl-C is for whoever started them all
                preexec_fn=end_with_parent,
            )
        return self.running[name]

    def environment(self, name):
        home = self.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        inherited = ("LANG", "LC_ALL", "PYTHONPATH", "TMPDIR", "HOME")
        inherited += ("OPENBLAS_CORETYPE",)  # the same bits as in this process
        given = {key: os.environ[key] for key in inherited if key in os.environ}
        return given | {
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name):
        """End a process as a crash would, and wait for what it had started."""
        process = self.running.pop(name)
        family = descendants(process.pid)
        process.kill()
        process.wait()
        end(family)

    def stop(self, *names):
        """Ask processes to end, then end them, with all that they have started."""
        processes = [self.running.pop(name) for name in names if name in self.running]
        family = {}
        for process in processes:
            family |= descendants(process.pid)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        end(family)


def descendants(pid):
    """Processes that a process has started, and theirs, with when (Linux)."""
    seen = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            seen[int(entry.name)] = status(entry.name)
    found, last = {}, {pid}
    while last:
        last = {i for i, (_, parent, _) in seen.items() if parent in last} - {*found}
        found |= {i: seen[i][2] for i in last}
    return found


def status(pid):
    """State, parent and start of a process: an id alone may come again."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def alive(pid, start):
    try:
        state, _, begun = status(pid)
    except OSError:
        return False
    return state != "Z" and begun == start


def end(family):
    """End what ended processes have started; most watch their parent and go."""
    for seconds, number in ((1.0, signal.SIGTERM), (2.0, signal.SIGKILL), (1.0, None)):
        deadline = time.monotonic() + seconds
        while any(alive(*item) for item in family.items()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for pid, start in family.items():
            if number is not None and alive(pid, start):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
