"""Releases of equal cost: they are equal to the last bit, and compose to the budget."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdpspectral._statistics.statistic import Statistic
from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.linear_model._kernels_users import LocalRules
from skdpspectral.linear_model._shared_directions import SharedDirections, Users
from skdpspectral.mechanisms import Neighbors


def shared(rank=2, **changed):
    rules = LocalRules(3, 1.0, 1.0, np.zeros(rank))
    users = Users(rules, 7, Neighbors.ADD_REMOVE_ONE)
    return replace(SharedDirections(users, 6, True, None, None, 0.1), **changed)


SETTINGS = {
    "usual": {},
    "one median": {"clip_curvature": 2.0, "clip_share": 0.3},
    "no median": {"clip_curvature": 2.0, "clip_gradient": 1.0},
    "no start": {"release_start": False},
    "start alone": {"n_releases": 1},
    "nothing": {"n_releases": 0, "release_start": False},
}


@pytest.mark.parametrize("mu", [1e-3, 0.27, 5.0])
@pytest.mark.parametrize("name", SETTINGS)
def test_shares_of_single_releases_are_what_they_cost(name, mu):
    statistic = shared(**SETTINGS[name])
    planned = statistic.mechanisms(mu)
    costs = {m.name: m.mu for m in planned}
    total = math.fsum(cost**2 for cost in costs.values())
    assert total == pytest.approx(mu**2 if planned else 0.0, rel=1e-9)
    votes = {cost for key, cost in costs.items() if key.startswith("median")}
    of_U = {cost for key, cost in costs.items() if not key.startswith("median")}
    assert len(votes) <= 1
    # The start has a summation error of its own, which its calibration meets.
    assert max(of_U, default=0.0) == pytest.approx(min(of_U, default=0.0), rel=1e-12)
    share = statistic.clip_share if votes else 0.0
    assert sum(v**2 * 12 for v in votes) == pytest.approx(share * mu**2, rel=1e-9)
    shares, parts = statistic.shares(), statistic.parts()
    total = math.fsum(len(part.names) * shares[key] for key, part in parts.items())
    assert total == pytest.approx(1.0 if planned else 0.0)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_part_plans_what_it_would_at_its_share(name):
    """A part alone, at the cost of its share, plans the releases of the combination."""
    statistic = shared(**SETTINGS[name])
    for key, cost in statistic.costs(0.9).items():
        part = statistic.parts()[key]
        alone = part.mechanisms(cost * math.sqrt(len(part.names)))
        assert [m.name for m in alone] == list(part.names)
        together = [m for m in statistic.mechanisms(0.9) if m.name in part.names]
        for one, other in zip(alone, together, strict=True):
            assert one.noise_std == pytest.approx(other.noise_std, rel=1e-12)
            assert replace(one, noise_std=1.0) == replace(other, noise_std=1.0)


class Numbers(Statistic):
    names = ("a", "b", "c", "d")

    def planned(self, name, mu):
        return calibrate_gaussian(name, 1.0, mu, (2,))

    def run(self, release, rows, *given):
        return [release(name, rows) for name in self.names]


def test_rounds_differ_in_their_names_alone():
    first, *others = Numbers().mechanisms(1.0)
    assert first == calibrate_gaussian("a", 1.0, 0.5, (2,))
    assert others == [replace(first, name=name) for name in "bcd"]
