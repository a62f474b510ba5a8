"""Python processes that find the libraries imported: forks of one that waits.

A fresh interpreter takes seconds to import numpy, scipy, scikit-learn and pytest. One
that has done so, and has never seen the package, is forked for each run: what the run
imports of the package is what lies in its folder, and nothing passes from one run to
the next.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

# What the package and most tests import, and nothing of either.
LIBRARIES = (
    "joblib",
    "matplotlib.figure",
    "numpy.testing",
    "pandas",
    "pytest",
    "randomgen",
    "scipy.optimize",
    "scipy.signal",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.calibration",
    "sklearn.compose",
    "sklearn.ensemble",
    "sklearn.feature_selection",
    "sklearn.frozen",
    "sklearn.impute",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "sklearn.multioutput",
    "sklearn.pipeline",
    "threadpoolctl",
)


def child_of(function):
    """Fork; in the child, call and leave with 0, or with 1 after an error."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def in_child(function):
    """Return what a function raises, or says, in a forked child."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = function()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(sender, str(said)[:4000].encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def wait_for(child, patience=60.0):
    """Return the exit code of a child, or None after having ended one that hangs."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def run_tests_on(processor, file, chosen):
    """Run some tests of a file with the kernels of OpenBLAS for another processor."""
    code = (
        "import sys, pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', "
        f"'--assert=plain', '-k', {chosen!r}, {file!r}]))"
    )
    environment = {**os.environ, "OPENBLAS_CORETYPE": processor}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-2000:]


@dataclass(frozen=True)
class Done:
    """What has come of a run."""

    returncode: int
    stdout: str
    stderr: str


class ForkedPython:
    """An interpreter that is forked for each run; a context manager.

    Where the system has no fork, each run is a fresh interpreter's.
    """

    def __init__(self):
        self._folders = ExitStack()
        self._parent = None

    def __enter__(self):
        self._output = Path(self._folders.enter_context(tempfile.TemporaryDirectory()))
        return self

    def __exit__(self, *exception):
        if self._parent is not None:
            self._parent.stdin.close()  # which ends it
            self._parent.wait()
            self._parent.stdout.close()
        self._folders.close()

    def run(self, folder, code, *arguments):
        """Run code in a folder, whose modules come before any others."""
        request = {
            "folder": str(folder),
            "code": code,
            "arguments": list(map(str, arguments)),
        }
        files = {name: self._output / name for name in ("stdout", "stderr")}
        request |= {name: str(path) for name, path in files.items()}
        status = self._fork(request) if hasattr(os, "fork") else _run_afresh(request)
        return Done(status, *(path.read_text() for path in files.values()))

    def _fork(self, request):
        if self._parent is None:
            self._parent = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        print(json.dumps(request), file=self._parent.stdin, flush=True)
        return int(self._parent.stdout.readline())


def _run_afresh(request):
    environment = {**os.environ, "PYTHONPATH": request["folder"]}
    command = [sys.executable, "-c", request["code"], *request["arguments"]]
    with open(request["stdout"], "w") as out, open(request["stderr"], "w") as err:
        return subprocess.run(
            command,
            cwd=request["folder"],
            env=environment,
            stdout=out,
            stderr=err,
            check=False,
        ).returncode


def _serve():
    """Fork once a line of stdin, and write the exit status of each."""
    sys.path.pop(0)  # the folder of this file
    for name in LIBRARIES:
        import_module(name)
    assert "skdpspectral" not in sys.modules
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            answers.close()
            _run_and_exit(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, file=answers, flush=True)


def _run_and_exit(request):
    """Be a new interpreter, but for what it has imported."""
    _redirect(os.devnull, 0, os.O_RDONLY)
    for name, number in (("stdout", 1), ("stderr", 2)):
        _redirect(request[name], number, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    # Processes that the run starts import the same.
    os.environ["PYTHONPATH"] = request["folder"]
    os.chdir(request["folder"])
    sys.path.insert(0, request["folder"])
    sys.argv = ["-c", *request["arguments"]]
    main = sys.modules["__main__"] = ModuleType("__main__")
    status = 1
    try:
        exec(compile(request["code"], "<string>", "exec"), vars(main))
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _redirect(path, number, flags):
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, number)
    os.close(opened)


if __name__ == "__main__":
    _serve()
