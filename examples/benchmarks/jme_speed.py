"""CPU time and peak memory of JMECovariance with every step released.

python examples/benchmarks/jme_speed.py [--largest 1000000]

Each line is a process of its own; peak memory is that of the whole process, with rows
that are made block by block (a stream by partial_fit).
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
from tables import print_row

from skdpspectral import JMECovariance

FEATURES, BATCH = 50, 5_000


def run(n_rows, factorization):
    """Stream rows; return CPU seconds and peak memory in MB."""
    rows = np.random.default_rng(0).normal(0.0, 0.1, (BATCH, FEATURES))
    stream = JMECovariance(horizon=n_rows, factorization=factorization)
    start = time.process_time()
    for _ in range(0, n_rows, BATCH):
        stream.partial_fit(rows)
    seconds = time.process_time() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=2)
    options = parser.parse_args()
    if options.one:
        print(*run(int(options.one[0]), options.one[1]))
        return
    print_row("steps", "factorization", "CPU seconds", "peak MB")
    cases = [(10_000, name) for name in ("trivial", "blt", "sqrt")]
    cases += [(100_000, "blt"), (options.largest, "blt")]
    for n_rows, name in cases:
        command = [sys.executable, __file__, "--one", str(n_rows), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, memory = map(float, done.stdout.split())
        print_row(n_rows, name, f"{seconds:.2f}", f"{memory:.0f}")


if __name__ == "__main__":
    main()
