"""Time and memory of FederatedDPPCA over many clients.

python examples/benchmarks/federated_speed.py [--clients 1000]
"""

import argparse
import resource
import time

import numpy as np
from tables import print_row

from skdpspectral import FederatedDPPCA, PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition import SpikedModel

MODES = {
    "gaussian": {},
    "gaussian, matrix": {"aggregation": "matrix"},
    # More signal than the rows have: the model knows no bound for clients so small.
    "spiked": {"mechanism": SpikedModel(signal_variance=1e4, noise_variance=1.0)},
}


def main():
    """Print wall and CPU seconds without a ledger and with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    options = parser.parse_args()
    m, n, p = options.clients, 100, 100
    X, _ = make_spiked_covariance(m * n, p, random_state=0)
    clients = np.repeat(np.arange(m), n)
    rng = np.random.default_rng(0)
    budgets = dict(enumerate(rng.uniform(0.5, 2.0, m)))
    FederatedDPPCA(1).fit(X[:1000])  # warm
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print_row("mechanism", "ledger", "wall s", "CPU s")
    for mode, parameters in MODES.items():
        for accountant in (None, PrivacyAccountant()):
            pca = FederatedDPPCA(
                1, epsilon=budgets, accountant=accountant, **parameters
            )
            wall, cpu = time.perf_counter(), time.process_time()
            pca.fit(X, clients=clients)
            wall = time.perf_counter() - wall
            cpu = time.process_time() - cpu
            ledger = "no" if accountant is None else "yes"
            print_row(mode, ledger, f"{wall:.2f}", f"{cpu:.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"data {X.nbytes / 2**20:.0f} MiB; peak beyond it and the imports "
        f"{(peak - before) / 2**10:.0f} MiB"
    )


if __name__ == "__main__":
    main()
