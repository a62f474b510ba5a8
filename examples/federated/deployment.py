"""A whole federation on this machine: a server, and sites with folders of their own."""

import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
from app.agreed import write_task
from certificates import make_authority, make_node_key, make_server, write_secret
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
        self.folder.mkdir(parents=True, exist_ok=True)

    # -- what each party has before anything runs --------------------------------------

    def give_site(self, name, *, budget, noise_seed=None):
        """Make the folder of a site.

        Parameters
        ----------
        budget : sequence of float
            Epsilon and delta of a ledger, for all of its studies together.
        noise_seed : int or None, default=None
            For tests alone: the ledger has no budget then.
        """
        own = self.folder / name
        own.mkdir(mode=0o700, exist_ok=True)  # rows are for the site alone
        settings = {"name": name, "budget": budget, "noise_seed": noise_seed}
        (own / "site.json").write_text(json.dumps(settings))

    def give_study(self, name, study, rows, task, **how):
        """Make a folder within a site's: something that it has agreed to release.

        Parameters
        ----------
        rows : dict of str to ndarray, or DataFrame
            What the client is made of: ``X``, and of users ``y`` and ``users``; or a
            table with column names, which the site reads as CSV.
        task : SpectralTask or GroupTask
            Of components, or of users.
        **how : float, str or dict
            Epsilon and delta of a session; of nodes that mask their parts `pair_keys`;
            `ledger`, the name of another one than the site's first; `target`, the
            column of a table that is y.
        """
        own = self.folder / name / study
        own.mkdir(mode=0o700, exist_ok=True)
        for earlier in (*own.glob("task.*"), *own.glob("rows.*")):
            earlier.unlink()
        if isinstance(rows, dict):
            np.savez(own / "rows.npz", **rows)
        else:
            rows.to_csv(own / "rows.csv", index=False)
        write_task(own, task)
        write_secret(own / "how.json", json.dumps(how).encode())

    def give_job(self, task, clients, *, job="job", min_clients=None, timeout=120.0):
        """Make the folder of a job; earlier ones of the same name are forgotten."""
        own = self.folder / job
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        write_task(own, task)
        settings = {
            "clients": {name: list(row) for name, row in clients.items()},
            "min_clients": min_clients,
            "timeout": timeout,
        }
        (own / "job.json").write_text(json.dumps(settings))

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
        """Start the processes of sites."""
        for name in names:
            own = self.folder / name
            self.start(name, [sys.executable, HERE / "site_process.py", own])

    def wait_for_sites(self, *names):
        """Wait until sites can be asked."""
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

    def flwr(self, *arguments, name="flwr"):
        """Start a command of ``flwr``."""
        home = self.environment("flwr")["FLWR_HOME"]  # it knows the server
        return self.start(name, [BIN / "flwr", *arguments], FLWR_HOME=home)

    def submit(self, job="job"):
        """Start a job; return at once."""
        own = self.folder / job
        for file in ("outcome.json", "result.npz"):
            (own / file).unlink(missing_ok=True)
        config = f'job="{own}"'
        command = ["run", HERE / "app", "loop", "--run-config", config, "--stream"]
        self.flwr(*command, name=job)

    def wait_until_begun(self, job="job"):
        """Wait until the server's app runs a job, and so is installed for others."""
        path = self.folder / job / "begun"
        self.wait_until(job, path.exists, START_SECONDS)

    def outcome(self, job="job", seconds=180.0, show=None):
        """Wait for a job's end; return what it says and the result's arrays."""
        own, shown = self.folder / job, 0
        path, run = own / "outcome.json", self.running[job]

        def ended():
            nonlocal shown
            shown = self.pass_on(job, shown, show)
            # The stream of the job's output ends a little after it.
            return path.exists() and (show is None or run.poll() is not None)

        self.wait_until(job, ended, seconds)
        said = json.loads(path.read_text())
        if "error" in said:
            return said, None
        with np.load(own / "result.npz") as arrays:
            return said, dict(arrays)

    def wait_until(self, job, reached, seconds):
        """Wait for something, as long as the job runs."""
        deadline = time.monotonic() + seconds
        while not reached():
            failed = self.running[job].poll() and not reached()
            if failed or time.monotonic() > deadline:
                raise RuntimeError(f"{job} did not get there:\n{self.log(job)}")
            time.sleep(0.1)

    def pass_on(self, job, shown, show):
        """Show new lines of a job's output; return how many lines there are."""
        lines = [] if show is None else self.log(job).splitlines()
        for line in lines[shown:]:
            show(line)
        return len(lines)
