"""CPU time of a million grid-safe secure normals beside numpy's default generator.

python examples/benchmarks/noise_speed.py [--repeats 51]
"""

import argparse

import numpy as np
from tables import median_cpu, print_row

from skdpspectral._release.noise import Release, grid_noise, noise_generator
from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.mechanisms import PrivacyPlan

COUNT = 1_000_000


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=51)
    options = parser.parse_args()
    secure, plain = noise_generator(), np.random.default_rng()
    out = np.empty(COUNT)
    mechanism = calibrate_gaussian("m", 1.0, 1.0, (COUNT,))
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "benchmark")
    value = np.zeros(COUNT)
    rows = {
        "PCG64 standard_normal": lambda: plain.standard_normal(COUNT),
        "PCG64 standard_normal, in place": lambda: plain.standard_normal(out=out),
        "secure standard_normal, in place": lambda: secure.standard_normal(out=out),
        "grid-safe secure noise": lambda: grid_noise(out, 2.0**26, secure),
        "whole release of a million numbers": lambda: Release(plan)("m", value),
    }
    times = {name: median_cpu(f, options.repeats)[0] for name, f in rows.items()}
    base = times["PCG64 standard_normal"]
    print(f"medians of {options.repeats}, a million numbers")
    print_row("", "CPU ms", "ratio", widths=36)
    for name, seconds in times.items():
        print_row(name, f"{1e3 * seconds:.2f}", f"{seconds / base:.2f}", widths=36)


if __name__ == "__main__":
    main()
