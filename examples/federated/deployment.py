"""A whole federation on this machine: a server, and sites with folders of their own."""

import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
from app.agreed import write_task
from certificates import make_authority, make_node_key, make_server
from processes import BIN, HERE, Processes, free_port

START_SECONDS = 60.0


class Deployment(Processes):
    """A SuperLink, and for each site its process and a SuperNode.

    Parameters
    ----------
    folder : path
        For everything that is made; short, for the paths of sockets.
    secure : bool, default=False
        Whether the server has a certificate and lets registered nodes in alone.
        Without it everybody on this machine can join: for trials on a loopback.
    """

    def __init__(self, folder, secure=False):
        super().__init__(folder)
        self.port, self.secure = free_port(), secure
        self.job = self.folder / "job"
        self.job.mkdir(parents=True, exist_ok=True)

    # -- what each party has before anything runs --------------------------------------

    def give_site(self, name, rows, task, *, budget, noise_seed=None, **how):
        """Make the folder of a site.

        Parameters
        ----------
        rows : dict of str to ndarray
            What the client is made of: ``X``, and of users ``y`` and ``users``.
        task : SpectralTask or dict
            Of components, or of users: a model's class, parameters, and who adds noise.
        budget : sequence of float
            Epsilon and delta of the ledger.
        **how : float
            Epsilon and delta of a session, for components.
        """
        own = self.folder / name
        own.mkdir(mode=0o700, exist_ok=True)  # rows are for the site alone
        np.savez(own / "rows.npz", **rows)
        for earlier in own.glob("task.*"):
            earlier.unlink()
        write_task(own, task)
        settings = {"name": name, "budget": budget, "noise_seed": noise_seed, **how}
        (own / "site.json").write_text(json.dumps(settings))

    def give_job(self, task, clients, *, min_clients=1, timeout=120.0, **steps):
        """Make the folder of a job; earlier ones of the same name are forgotten."""
        shutil.rmtree(self.job)
        self.job.mkdir()
        write_task(self.job, task)
        job = {
            "clients": {name: list(row) for name, row in clients.items()},
            "min_clients": min_clients,
            "timeout": timeout,
            "rounds": steps,
        }
        (self.job / "job.json").write_text(json.dumps(job))

    # -- processes ---------------------------------------------------------------------

    def start_link(self):
        """Start the SuperLink, and tell ``flwr`` where it is."""
        security = "insecure = true"
        options = ["--insecure"]
        if self.secure:
            keys = self.keys()
            security = f'root-certificates = "{keys / "authority.pem"}"'
            options = ["--enable-supernode-auth"]
            options += ["--ssl-ca-certfile", keys / "authority.pem"]
            options += ["--ssl-certfile", keys / "server.pem"]
            options += ["--ssl-keyfile", keys / "server.key"]
        config = Path(self.environment("flwr")["FLWR_HOME"]) / "config.toml"
        config.write_text(
            f'[superlink]\ndefault = "loop"\n\n[superlink.loop]\n'
            f'address = "127.0.0.1:{self.port}"\n{security}\n'
        )
        command = [BIN / "flower-superlink", "--host", "127.0.0.1"]
        command += ["--port", self.port, "--disable-runtime-dependency-installation"]
        self.start("link", [*command, *options])
        self.wait_for("link", "Application startup complete")

    def keys(self):
        """Folder of certificates and keys, made at the first call."""
        folder = self.folder / "keys"
        if not folder.exists():
            folder.mkdir()
            make_server(folder, make_authority(folder))
        return folder

    def register_node(self, name):
        """Make a node's key; let whoever has it speak for the client of that name."""
        make_node_key(self.keys(), name)
        public = self.keys() / f"{name}.pub"
        command = ["supernode", "register", public, "loop", "--name", name]
        if self.flwr(*command).wait(START_SECONDS):
            raise RuntimeError(self.log("flwr"))

    def start_sites(self, *names):
        """Start the processes of sites, and wait until they can be asked."""
        for name in names:
            own = self.folder / name
            self.start(name, [sys.executable, HERE / "site_process.py", own])
        for name in names:
            self.wait_for(name, "ready")

    def start_node(self, name, *options):
        """Start the SuperNode of a site; by its key and the authority, or not."""
        path = self.folder / name / "site.socket"
        command = [BIN / "flower-supernode", "--superlink", f"127.0.0.1:{self.port}"]
        command += ["--port", free_port(), "--node-config", f'site="{path}"']
        if self.secure and not options:
            keys = self.keys()
            options = ["--root-certificates", keys / "authority.pem"]
            options += ["--auth-supernode-private-key", keys / f"{name}.key"]
        self.start(f"{name}-node", [*command, *(options or ["--insecure"])])

    def wait_for(self, name, *texts):
        """Wait until a process has said one of these."""
        deadline = time.monotonic() + START_SECONDS
        while not any(text in self.log(name) for text in texts):
            if self.running[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start:\n{self.log(name)}")
            time.sleep(0.1)

    def flwr(self, *arguments):
        """Start a command of ``flwr``."""
        return self.start("flwr", [BIN / "flwr", *arguments])

    def submit(self):
        """Start the job; return at once."""
        for file in ("outcome.json", "result.npz"):
            (self.job / file).unlink(missing_ok=True)
        config = f'job="{self.job}"'
        command = ["run", HERE / "app", "loop", "--run-config", config, "--stream"]
        self.flwr(*command)

    def outcome(self, seconds=180.0, show=None):
        """Wait for the job's end; return what it says and the result's arrays."""
        deadline, shown = time.monotonic() + seconds, 0
        path, job = self.job / "outcome.json", self.running["flwr"]
        # The stream of the job's output ends a little after it.
        while not path.exists() or (show is not None and job.poll() is None):
            shown = self.pass_on(shown, show)
            failed = not path.exists() and job.poll()
            if failed or time.monotonic() > deadline:
                raise RuntimeError(f"the job did not end:\n{self.log('flwr')}")
            time.sleep(0.2)
        self.pass_on(shown, show)
        said = json.loads(path.read_text())
        if "error" in said:
            return said, None
        with np.load(self.job / "result.npz") as arrays:
            return said, dict(arrays)

    def pass_on(self, shown, show):
        """Show new lines of the job's output; return how many lines there are."""
        lines = [] if show is None else self.log("flwr").splitlines()
        for line in lines[shown:]:
            show(line)
        return len(lines)
