"""Releases of equal cost: they are equal to the last bit, and compose to the budget."""

from dataclasses import replace

from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.accounting._gaussian import calibrate_alike


def test_rounds_differ_in_their_names_alone():
    first, *others = calibrate_alike("abcd", 1.0, 1.0, (2,))
    assert first == calibrate_gaussian("a", 1.0, 0.5, (2,))
    assert others == [replace(first, name=name) for name in "bcd"]
