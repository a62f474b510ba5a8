"""What every private estimator reveals of its worst neighbors, to six digits.

Replays have no chance in them: a release that moves a millionth too far is found.
"""

import pytest
from replay import ROUNDING
from worst_cases import CASES, DELTA, realized

from skdpspectral.accounting import gaussian_mu
from skdpspectral.mechanisms import Gaussian


@pytest.mark.parametrize("name", CASES)
def test_the_worst_neighbor_moves_releases_as_far_as_is_planned(name):
    """And no further; all else is a function of the releases."""
    case, found = CASES[name], realized(CASES[name])
    assert not found.told
    assert all(ratio <= 1.0 + ROUNDING for _, ratio in found.releases), found
    assert found.planned_mu <= found.stated_mu * (1.0 + ROUNDING), found
    # From the budget, and not from what a plan says of itself.
    budget = gaussian_mu(case.model.epsilon, DELTA)
    assert found.mu <= found.planned_mu * (1.0 + ROUNDING), found
    assert found.planned_mu <= budget * (1.0 + ROUNDING), found
    assert case.least <= found.share < case.least + 1e-3, found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].least > 0.99][:-2])
def test_a_sensitivity_that_is_ten_per_cent_too_small_is_found(name, monkeypatch):
    charged = Gaussian._charged
    monkeypatch.setattr(Gaussian, "_charged", lambda self: 0.9 * charged(self))
    assert max(ratio for _, ratio in realized(CASES[name]).releases) > 1.09
