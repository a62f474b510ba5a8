"""Bounds of audits against laws that are known, and the lemma against a linear program.

Bounds hold with the confidence that is asked for: numbers of false alarms are compared
with a quantile of their law that sound bounds exceed once in 5,000 seeds.
"""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import binom, nct

from skdpspectral.audit import (
    _approximate_curve,
    _bound_of_guesses,
    _bound_of_normals,
    _gaussian_curve,
)


def largest_chance(right, guesses, coins, mu):
    """Return the largest probability of so many right guesses, by all constraints."""
    k = np.arange(guesses + 1)
    levels = np.r_[np.logspace(-12, -1, 120), np.linspace(0.1, 0.999, 200)]
    # A concave curve lies below its tangents.
    powers = ndtr(ndtri(levels) + mu)
    slopes = np.exp(-mu * ndtri(levels) - mu**2 / 2)
    rows, limits = [], []
    for j in range(1, guesses + 1):
        x = np.where(k >= j, k, 0) / coins
        y = np.where(k >= j - 1, guesses - k, 0) / coins
        rows.append(x - slopes[:, None] * y)
        limits.append(powers - slopes * levels)
    found = linprog(
        -1.0 * (k >= right),
        A_ub=np.vstack(rows),
        b_ub=np.concatenate(limits),
        A_eq=np.ones((1, guesses + 1)),
        b_eq=[1.0],
        bounds=(0, 1),
    )
    return -found.fun


@pytest.mark.parametrize(
    ("right", "guesses", "coins", "mu"),
    [(5, 6, 6, 0.5), (6, 6, 6, 0.5), (7, 8, 20, 1.0), (4, 4, 30, 1.5)],
)
def test_guesses_are_bounded_as_a_linear_program_says(right, guesses, coins, mu):
    chance = largest_chance(right, guesses, coins, mu)
    found = _bound_of_guesses(right, guesses, coins, _gaussian_curve, 1.0 - chance)
    assert found == pytest.approx(mu, abs=1e-3)
    assert _bound_of_guesses(right, guesses, coins, _gaussian_curve, 0.9999) < mu


@pytest.mark.parametrize("coins", [20, 200])
def test_guesses_of_randomized_response_are_binomial(coins):
    """Its coins are independent, and no pure guarantee allows more right guesses."""
    epsilon = 0.7
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    right = int(binom.isf(0.01, coins, chance)) + 1
    confidence = 1.0 - binom.sf(right - 1, coins, chance)
    found = _bound_of_guesses(right, coins, coins, _approximate_curve(0.0), confidence)
    assert found == pytest.approx(epsilon, abs=0.01)


@pytest.mark.parametrize("n", [3, 20, 5000])
def test_bound_of_normals_is_exact(n):
    rng = np.random.default_rng(n)
    tails, heads = rng.standard_normal(n), rng.standard_normal(n + 1) + 2.0
    mu, freedom = _bound_of_normals(tails, heads, 0.99), 2 * n - 1
    factor = math.sqrt(n * (n + 1) / (2 * n + 1))
    squares = n * tails.var() + (n + 1) * heads.var()
    found = factor * (heads.mean() - tails.mean()) / math.sqrt(squares / freedom)
    if mu:
        assert nct.sf(found, freedom, mu * factor) == pytest.approx(0.01, rel=2e-3)
    else:
        assert nct.sf(found, freedom, 0.0) > 0.01


def test_bounds_of_normals_hold_and_are_sharp():
    """Of 200 bounds at 95 %, 22 or more exceed mu with probability 2e-4 at most."""
    rng = np.random.default_rng(0)
    found = [
        _bound_of_normals(
            rng.standard_normal(2000), 1.0 + rng.standard_normal(2000), 0.95
        )
        for _ in range(200)
    ]
    assert sum(mu > 1.0 for mu in found) <= 22
    assert np.median(found) > 0.75


def test_nothing_is_found_in_nothing():
    same, other = np.random.default_rng(0).standard_normal((2, 1000))
    assert _bound_of_normals(same, other, 0.95) < 0.2
    assert _bound_of_guesses(500, 1000, 1000, _gaussian_curve, 0.99) == 0.0
    assert _bound_of_normals(same[:1], other, 0.99) == 0.0
    assert _bound_of_normals(np.zeros(9), np.zeros(9), 0.99) == 0.0
