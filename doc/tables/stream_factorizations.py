"""Errors of workloads of streams with each factorization of their noise."""

import math

import numpy as np

from skdpspectral.factorizations import (
    Exponential,
    NoiseGain,
    Prefix,
    Window,
    factorize,
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


def workload_error(workload, factorization, n):
    """Return the error of a workload, in units of the noise of a single row."""
    core = NoiseGain(workload, factorization).push(n)
    divisors = workload.divisors(np.arange(1, n + 1))
    return factorization.column_norm * math.sqrt(float(np.mean(core / divisors**2)))


def measure(setting, seed):
    """Return the root mean squared errors."""
    workload, n_steps = setting
    return {
        name: workload_error(workload, factorize(workload, name, n_steps), n_steps)
        for name in ("trivial", "sqrt", "bisr", "blt")
    }
