"""Largest relative error of the calibration, against fifty digits and a PLD.

    python examples/benchmarks/calibration_accuracy.py

The grid is epsilon in [1e-4, 100] by delta in [1e-15, 0.5]. The oracle for single
mechanisms is mpmath; loss distributions (dp-accounting, if installed) are compared
where they are quick, within their own discretization.
"""

import itertools

import mpmath as mp
import numpy as np

from skdpspectral.accounting import gaussian_delta, gaussian_epsilon, gaussian_mu

EPSILONS = np.geomspace(1e-4, 100, 25)
DELTAS = [*np.geomspace(1e-15, 1e-1, 15), 0.3, 0.5]


def exact_delta(mu, epsilon):
    """The curve of Balle and Wang in fifty digits."""
    mu, epsilon = mp.mpf(float(mu)), mp.mpf(float(epsilon))
    near = mp.ncdf(mu / 2 - epsilon / mu)
    return near - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def errors(epsilon, delta):
    """Relative errors of the curve, of mu, and of the inverse's delta."""
    mu = gaussian_mu(epsilon, delta)
    exact = exact_delta(mu, epsilon)
    slope = mp.npdf(mp.mpf(epsilon) / mu - mp.mpf(mu) / 2)
    return (
        abs(gaussian_delta(mu, epsilon) / exact - 1),
        abs((delta - exact) / (slope * mu)),
        abs(exact_delta(mu, gaussian_epsilon(mu, delta)) / delta - 1),
        exact > delta,
    )


def compare_with_loss_distributions():
    """Print the largest relative difference to dp-accounting's PLD accountant."""
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    except ImportError:
        print("dp-accounting is not installed")
        return
    worst, count = 0.0, 0
    for epsilon, delta in itertools.product((0.1, 0.5, 1, 2, 4, 8), (1e-9, 1e-6, 1e-3)):
        accountant = PLDAccountant(value_discretization_interval=1e-5)
        event = dp_accounting.GaussianDpEvent(1 / gaussian_mu(float(epsilon), delta))
        accountant.compose(event)
        worst = max(worst, abs(accountant.get_epsilon(delta) / epsilon - 1))
        count += 1
    print(
        f"PLD (interval 1e-5), {count} budgets: largest relative difference {worst:.1e}"
    )


def main():
    """Print the largest errors."""
    mp.mp.dps = 50
    table = [errors(*budget) for budget in itertools.product(EPSILONS, DELTAS)]
    curve, root, inverse, unsafe = zip(*table, strict=True)
    print(f"mpmath, {len(table)} budgets: largest relative error")
    print(f"  of delta(mu, epsilon)      {float(max(curve)):.1e}")
    print(f"  of mu(epsilon, delta)      {float(max(root)):.1e}")
    print(f"  of delta at epsilon(mu)    {float(max(inverse)):.1e}")
    print(f"  calibrations that exceed delta in exact arithmetic: {sum(unsafe)}")
    compare_with_loss_distributions()


if __name__ == "__main__":
    main()
