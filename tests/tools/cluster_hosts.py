"""Workers of dask as on other hosts: each has a home, and does not see the client's."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

_PATIENCE = 120.0  # seconds, on a busy machine
# An empty file system hides a folder from a process and its children alone.
_HIDE = 'mount -t tmpfs none "$0" && cd "$HOME" && exec "$@"'


def _hiding(folder):
    """Return what begins a command that does not see a folder."""
    mapped = [] if os.getuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--mount", *mapped, "sh", "-c", _HIDE, str(folder)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    except OSError:
        tried = None
    if tried is None or tried.returncode:
        pytest.skip("the system hides no folder from a process")
    return command


@contextlib.contextmanager
def other_hosts(folder, homes):
    """Yield a client of workers, one for each home, that find a folder empty."""
    distributed = pytest.importorskip("dask.distributed")
    hidden, workers = _hiding(folder), []
    how = {"n_workers": 0, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**how) as cluster,
        distributed.Client(cluster) as client,
        contextlib.ExitStack() as ends,
    ):
        for home in homes:
            home.mkdir()
            workers.append(_start_worker(hidden, cluster.scheduler_address, home))
            ends.callback(_end, workers[-1])
        _wait_for(client, workers)
        yield client


def _start_worker(hidden, scheduler, home):
    environment = {
        **os.environ,
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join(sys.path),  # tests, too
    }
    options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--name", home.name]
    python = [sys.executable, "-m", "dask", "worker", scheduler, *options]
    command = [*hidden, *python, "--local-directory", str(home)]
    with open(home / "log", "wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def _wait_for(client, workers):
    deadline = time.monotonic() + _PATIENCE
    while len(client.scheduler_info()["workers"]) < len(workers):
        assert all(worker.poll() is None for worker in workers), "a worker has ended"
        assert time.monotonic() < deadline, "a worker did not come"
        time.sleep(0.05)


def _end(worker):
    worker.terminate()
    try:
        worker.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait(_PATIENCE)
