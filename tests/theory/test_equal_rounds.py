"""Releases of equal cost: they are equal to the last bit, and compose to the budget."""

from dataclasses import replace

from skdpspectral._statistics.statistic import Statistic
from skdpspectral.accounting import calibrate_gaussian


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
