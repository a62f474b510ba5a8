"""Relative Frobenius errors of covariances, by DPCovariance and by published methods.

To the covariance of the rows, or of simulated ones to the true one. DPCovariance knows
nothing of the rows; SeparateCov, AdaptiveCov and CoinPress are given the exact mean and
exact clips, radii or bounds (``examples/benchmarks/covariance_accuracy.py``); delta =
1e-6.
"""

from functools import lru_cache

from covariance_accuracy import DATA, Problem

NEEDS_DATA = True
HEADER = "Rows, :math:`\\epsilon`"
TABLES = {
    "digits, 1,797 x 64": "digits",
    "Adult, one-hot, 48,842 x 105": "adult",
    "one direction, 10,000 x 200": "1e4x200",
    "one direction, 100,000 x 50": "1e5x50",
}
ROWS = {
    f"{title}, {epsilon}": (name, float(epsilon))
    for title, name in TABLES.items()
    for epsilon in (1, 2, 4)
}
METHODS = {
    "DPCovariance": "DPCovariance, no bounds",
    "SeparateCov": "SeparateCov",
    "AdaptiveCov": "AdaptiveCov",
    "CoinPress": "CoinPress",
}
SLOW = tuple(row for row in ROWS if "digits" not in row)
REPEATS = dict.fromkeys(SLOW, 5)


@lru_cache(maxsize=1)
def problem_of(name, seed):
    """Return a table and its covariance."""
    return Problem(*DATA[name](seed))


def measure(setting, seed):
    """Return the errors of one repeat."""
    name, epsilon = setting
    problem = problem_of(name, seed if name.startswith("1e") else 0)
    target = "truth" if "truth" in problem.targets else "rows"
    return {
        column: problem.errors(method, epsilon, seed)[target]
        for column, method in METHODS.items()
    }
