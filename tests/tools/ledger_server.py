"""A PostgreSQL server of one's own: on a loopback port, in a temporary folder."""

import contextlib
import ctypes
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from skdpspectral import PrivacyAccountant

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/usr/pgsql-*/bin")
_PATIENCE = 60.0  # seconds


def find_programs():
    """Return the folder of initdb and postgres, or None."""
    found = shutil.which("initdb")
    if found:
        return os.path.dirname(os.path.realpath(found))
    folders = sorted(f for place in _PLACES for f in glob.glob(place))
    return next((f for f in reversed(folders) if os.path.exists(f"{f}/initdb")), None)


def unprivileged():
    """Return how to start a process that is not root: the server refuses to be."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("there is no user who may run a PostgreSQL server")


def _end_with_parent():
    """Ask Linux to end the server when the tests are killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


class LedgerServer:
    """A server that runs between :meth:`start` and :meth:`stop` or :meth:`kill`."""

    def __init__(self):
        self._programs = find_programs()
        if self._programs is None:
            pytest.skip("no PostgreSQL server is installed")
        pytest.importorskip("psycopg")
        self._as, self._process = unprivileged(), None
        self._folder = tempfile.mkdtemp(prefix="skdpspectral-server-")
        if self._as:
            os.chown(self._folder, self._as["user"], self._as["group"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", self._data, "-U", "ledger", "-A", "trust", "-N")

    @property
    def _data(self):
        return f"{self._folder}/data"

    def _run(self, program, *arguments):
        command = [f"{self._programs}/{program}", *arguments]
        where = {"cwd": self._folder, "check": True, "capture_output": True}
        subprocess.run(command, **where, **self._as)

    def address(self, database):
        return f"postgresql://ledger@127.0.0.1:{self.port}/{database}"

    def start(self, **settings):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
            "max_connections": 60,
            **settings,
        }
        options = [x for name, s in settings.items() for x in ("-c", f"{name}={s}")]
        with open(f"{self._folder}/log", "ab") as log:
            self._process = subprocess.Popen(
                [f"{self._programs}/postgres", "-D", self._data, *options],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                **self._as,
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "the server did not start"
            assert time.monotonic() < deadline, "the server did not answer"
            time.sleep(0.05)
        return self

    def _answers(self):
        import psycopg

        try:
            psycopg.connect(self.address("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement, database="postgres"):
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, options=""):
        """Return the address of an empty database."""
        name = f"ledger_{uuid.uuid4().hex}"  # also of a forked child
        self.execute(f"CREATE DATABASE {name} {options}")
        return self.address(name)

    def databases(self):
        """Return the names of all databases."""
        return {row[0] for row in self.execute("SELECT datname FROM pg_database")}

    def kill(self):
        """Kill the server and all processes that serve, at once."""
        # They have sessions of their own, and would end what they are at.
        tasks = glob.glob(f"/proc/{self._process.pid}/task/*/children")
        serving = [int(pid) for task in tasks for pid in Path(task).read_text().split()]
        for pid in (*serving, self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(_PATIENCE)

    def stop(self):
        """End the server, and remove what it had."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # at once, in order
            self._process.wait(_PATIENCE)
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def ledgers_on(server):
    """Put every ledger that a test makes in a database of its own."""
    made, original = {}, PrivacyAccountant.__init__

    def on_server(self, *arguments, path=None, **parameters):
        if path is None:
            path = server.new_database()
        elif not str(path).startswith("postgresql://"):
            path = made.setdefault(str(path), server.new_database())
        original(self, *arguments, path=path, **parameters)

    PrivacyAccountant.__init__ = on_server
    before = server.databases()
    try:
        yield
    finally:
        PrivacyAccountant.__init__ = original
        for name in server.databases() - before:  # each takes megabytes
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def running_server():
    server = LedgerServer()
    try:
        yield server.start()
    finally:
        server.stop()
