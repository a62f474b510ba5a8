"""Fits of rows on a dask cluster: equal to those in memory, and what travels.

Two workers of one thread each, on this machine. For every estimator the releases of a
fit in memory and of one on the cluster are compared, with the same seed; the bytes that
came to the client, and those that went between the workers, are counted.

Run ``python cluster.py --quick`` for small tables.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np

from skdpspectral import DPPCA, DPStandardScaler, PrivacyAccountant


def rows(n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) + 1.0
    X[:, 0] *= 3.0
    return X


def tables(size):
    """Yield estimators with what they are fitted to, here and on the cluster."""
    import dask.array as da

    n = int(1e6 * size)
    X = rows(n, 50)
    distant = da.from_array(X, chunks=(n // 8, 50)).persist()
    yield "DPPCA", DPPCA, {}, (X,), (distant,)
    yield "DPPCA, pairs", DPPCA, {"center": "pairs"}, (X,), (distant,)
    yield "DPStandardScaler", DPStandardScaler, {}, (X,), (distant,)


def released(estimator, data):
    """Releases of a fit, its time, and entries in its ledger."""
    from skdpspectral._release.noise import record_releases

    with record_releases() as transcript, PrivacyAccountant() as accountant:
        start = time.perf_counter()
        estimator.fit(*data)
        return transcript, time.perf_counter() - start, len(accountant.ledger)


class Incoming:
    """Bytes that come to the client, and between workers."""

    def __init__(self, client):
        self.client, self.n_bytes, get = client, 0, type(client).get

        # Of the class: dask knows its client by this method.

        def weigh(client, *arguments, **how):
            found = get(client, *arguments, **how)
            self.n_bytes += sum(_bytes(part) for part in found)
            return found

        type(client).get = weigh

    def between_workers(self):
        def total(dask_worker):
            return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)

        return sum(self.client.run(total).values())


def _bytes(found):
    if isinstance(found, (list, tuple)):
        return sum(map(_bytes, found))
    return np.asarray(found).nbytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the sizes")
    size = 0.02 if parser.parse_args().quick else 1.0

    from dask.distributed import Client

    warnings.simplefilter("ignore")
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    print("fit, the same releases, s in memory, s on the cluster, entries, bytes to")
    print("the client, bytes between workers, bytes of the table")
    with Client(**how) as client:
        incoming = Incoming(client)
        for name, kind, parameters, here, there in tables(size):
            make = partial(kind, noise_seed=0, **parameters)
            measure(incoming, name, make, here, there)


def measure(incoming, name, make, here, there):
    wanted, in_memory, _ = released(make(), here)
    before = incoming.n_bytes, incoming.between_workers()
    found, distant, entries = released(make(), there)
    same = wanted.keys() == found.keys() and all(
        np.array_equal(wanted[key], found[key]) for key in wanted
    )
    moved = incoming.n_bytes - before[0], incoming.between_workers() - before[1]
    size = sum(np.asarray(part).nbytes for part in here)
    print(
        f"{name:32s} {same!s:5s} {in_memory:7.2f} {distant:7.2f} {entries:3d} "
        f"{moved[0]:11,d} {moved[1]:13,d} {size:13,d}",
        flush=True,
    )


if __name__ == "__main__":
    main()
