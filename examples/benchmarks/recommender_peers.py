"""Recommenders of other libraries, and costs, each in a process of its own.

`run` starts this file again, as ``PYTHON recommender_peers.py TASK FOLDER``, with a
Python in which LensKit or implicit may be installed, and hands arrays over in files.
Nothing but NumPy and SciPy is imported before a task is known. One thread is used.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

N_LIST = 20
_GIVEN, _FOUND, _OPTIONS = "given.npz", "found.npz", "options.json"


def run(python, task, arrays, **options):
    """Return what a task finds, by name, or None, with a line that says why."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        np.savez(folder / _GIVEN, **arrays)
        (folder / _OPTIONS).write_text(json.dumps(options))
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, "1")
        environment |= {"LK_NUM_THREADS": "1", "LK_NUM_BACKEND_THREADS": "1"}
        command = [python, __file__, task, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"# {task} is left out with {python}: {reason}", flush=True)
            return None
        with np.load(folder / _FOUND) as found:
            return dict(found)


class Watch:
    """CPU seconds, wall seconds and peak memory of what stands in the block."""

    def __enter__(self):
        # Linux forgets the peak so far; elsewhere it is that of the whole process.
        if Path("/proc/self/clear_refs").exists():
            Path("/proc/self/clear_refs").write_text("5")
        self.before_mb = _peak_mb()
        self._start = time.process_time(), time.perf_counter()
        return self

    def costs(self):
        """Return all that was measured."""
        names = ("cpu_s", "wall_s", "before_mb", "peak_mb")
        return {name: getattr(self, name) for name in names}

    def __exit__(self, *_):
        self.cpu_s = time.process_time() - self._start[0]
        self.wall_s = time.perf_counter() - self._start[1]
        self.peak_mb = _peak_mb()


def _peak_mb():
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def lenskit(users, items, y, test_users, test_items, penalty):
    """Biased matrix factorization of LensKit: predictions of the test rows."""
    import lenskit.data
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.training import TrainingOptions

    names = {"user_id": users, "item_id": items, "rating": y}
    data = lenskit.data.from_interactions_df(pd.DataFrame(names))
    scorer = BiasedMFScorer(features=N_LIST, epochs=10, regularization=penalty)
    with Watch() as watch:
        scorer.train(data, TrainingOptions(rng=0))
    predicted = np.empty(len(test_users))
    order = np.argsort(test_users, kind="stable")
    cuts = np.flatnonzero(np.diff(test_users[order])) + 1
    for rows in np.split(order, cuts):
        wanted = lenskit.data.ItemList(item_ids=test_items[rows])
        predicted[rows] = scorer(int(test_users[rows[0]]), wanted).scores()
    # Items that nobody has rated in training have no score.
    predicted = np.where(np.isfinite(predicted), predicted, y.mean())
    return {"predicted": predicted, "cpu_s": watch.cpu_s}


def implicit(users, items, n_users, n_items, wanted, penalty, alpha):
    """Lists of implicit's ALS on clicks, best first, and what they cost."""
    from implicit.als import AlternatingLeastSquares

    ones = np.full(len(users), 1.0, dtype=np.float32)
    table = sparse.csr_matrix(
        (ones, (users, items)), shape=(int(n_users), int(n_items))
    )
    model = AlternatingLeastSquares(
        factors=N_LIST,
        regularization=penalty,
        alpha=alpha,
        num_threads=1,
        random_state=0,
    )
    with Watch() as fit:
        model.fit(table, show_progress=False)
    with Watch() as watch:
        lists = model.recommend(wanted, table[wanted], N=N_LIST)[0]
    costs = {"fit_cpu_s": fit.cpu_s, "fit_peak_mb": fit.peak_mb} | watch.costs()
    return {"lists": lists} | costs


def ours(data, epsilon):
    """Lists of DPMatrixFactorization for all users of a data set: what they cost."""
    import warnings

    from real_tables import fetch_movielens

    from skdpspectral import DPMatrixFactorization

    warnings.simplefilter("ignore")
    ratings = fetch_movielens(data)
    model = DPMatrixFactorization(
        items=ratings.item_ids,
        item_features=ratings.item_features,
        epsilon=epsilon,
        noise_seed=0,
        rating_range=(1, 5),
    )
    with Watch() as fit:
        model.fit(ratings.data, ratings.target)
    users = np.unique(ratings.data[:, 0])
    with Watch() as watch:
        model.recommend(users, N_LIST)
    costs = {"fit_cpu_s": fit.cpu_s, "fit_peak_mb": fit.peak_mb} | watch.costs()
    published = model.publish()
    new = np.repeat(np.arange(50_000), 16)
    some = np.tile(np.arange(16), 50_000)
    rows = np.column_stack([new, ratings.item_ids[some]])
    with Watch() as watch:
        published.personalize(rows, ratings.target[some])
    return costs | {"new_users_per_cpu_s": 50_000 / watch.cpu_s}


TASKS = {"lenskit": lenskit, "implicit": implicit, "ours": ours}


def main(task, folder):
    """Do one task and write what it finds."""
    folder = Path(folder)
    with np.load(folder / _GIVEN) as arrays:
        given = dict(arrays) | json.loads((folder / _OPTIONS).read_text())
    np.savez(folder / _FOUND, **TASKS[task](**given))


if __name__ == "__main__":
    main(*sys.argv[1:])
