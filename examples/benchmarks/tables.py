"""What the benchmark scripts share: means with standard errors, times, tables."""

import time
import warnings

import numpy as np

from skdpspectral import PrivacyLeakWarning


def ignore_leak_warnings():
    """Keep tables readable: the data are simulated, or their use is public."""
    warnings.simplefilter("ignore", PrivacyLeakWarning)


def ignore_noise_warnings():
    """Keep tables readable: components that the noise drowns are in the figures."""
    warnings.filterwarnings("ignore", ".*stand out of the noise")


def with_error(values, digits=4):
    """Return mean and standard error as text."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{digits}f} +- {error:.{digits}f}"


def median_cpu(function, repeats):
    """Return the median CPU time and wall time of a call, in seconds."""
    cpu, wall = [], []
    for _ in range(repeats):
        start, clock = time.process_time(), time.perf_counter()
        function()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - clock)
    return float(np.median(cpu)), float(np.median(wall))


def print_row(*cells, widths=24):
    """Print one line of a table."""
    print("  ".join(f"{cell!s:>{widths}}" for cell in cells), flush=True)
