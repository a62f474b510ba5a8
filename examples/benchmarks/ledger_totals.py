"""Seconds that the total of a ledger of ten thousand entries takes, by their kind.

    python examples/benchmarks/ledger_totals.py [entries]

Entries are equal, or all different; the second total of the same ledger finds its
distribution of losses again, and reads the entries alone.
"""

import sys
import time

from skdpspectral import PrivacyAccountant
from skdpspectral.mechanisms import (
    ApproximateDP,
    Gaussian,
    PrivacyPlan,
    SubsampledGaussian,
)

RELATION = {"unit": "user", "neighbors": "add-remove-one"}
# The k-th mechanism of those that differ; the first is that of equal ones.
KINDS = {
    "gaussian": lambda k: Gaussian("moment", 1e-3 + 1e-8 * k, 1.0, (1,)),
    "subsampled": lambda k: SubsampledGaussian(
        "steps", 5e-4 + 5e-8 * k, 2.0 + 1e-5 * k, 10
    ),
    "pair": lambda k: ApproximateDP("other", 5e-3 + 1e-6 * k, 1e-12),
}


def ledger_of(mechanisms):
    """A ledger of one entry a mechanism."""
    accountant = PrivacyAccountant(**RELATION)
    for mechanism in mechanisms:
        plan = PrivacyPlan(50.0, 1e-5, (mechanism,), "Benchmark", **RELATION)
        accountant.charge(plan)
    return accountant


def seconds_of(accountant):
    start = time.perf_counter()
    spent = accountant.spent(1e-5)
    return time.perf_counter() - start, spent.epsilon


def main(count=10_000):
    print("kind         entries     first s   again s   epsilon")
    for kind, mechanism in KINDS.items():
        for which, spread in (("equal", 0), ("different", 1)):
            accountant = ledger_of(mechanism(spread * k) for k in range(count))
            first, epsilon = seconds_of(accountant)
            again, _ = seconds_of(accountant)
            print(f"{kind:12} {which:10} {first:8.2f} {again:9.2f} {epsilon:9.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
