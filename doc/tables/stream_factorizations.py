"""Errors of workloads of streams with each factorization of their noise."""

from skdpspectral.factorizations import (
    Exponential,
    Prefix,
    Window,
    factorize,
    workload_error,
)

HEADER = "Workload"
ROWS = {
    "prefix sums, 1,000 steps": (Prefix(), 1000),
    "prefix sums, 10,000 steps": (Prefix(), 10_000),
    "exponential, 0.9, 1,000 steps": (Exponential(0.9), 1000),
    "exponential, 0.99, 1,000 steps": (Exponential(0.99), 1000),
    "window of 10, 1,000 steps": (Window(10), 1000),
}
REPEATS = 1


def measure(setting, seed):
    """Return the root mean squared errors."""
    workload, n_steps = setting
    return {
        name: workload_error(workload, factorize(workload, name, n_steps), n_steps)
        for name in ("trivial", "sqrt", "bisr", "blt")
    }
