"""The noise of every private estimator, scorer, search and composition.

Noise without a seed, with keys of the test's name: on others, one of a billion runs of
this module fails by chance.
"""

import pytest
from noise_check import FAMILIES, WIDE, NoiseCheck
from sklearn.base import BaseEstimator, clone
from worst_cases import CASES

import skdpspectral
from skdpspectral._base.estimator import PrivateEstimator


@pytest.mark.parametrize("name", WIDE)
def test_noise_is_as_planned(name):
    """Of 18,000 numbers, noise that is 5 % off is found with probability .998."""
    noise = NoiseCheck()
    for model, *data in WIDE[name]():
        noise.add(lambda model=model, data=data: clone(model).fit(*data))
    noise.check(least=18_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_noise_of_all_cases_is_as_planned(name):
    noise = NoiseCheck()
    for case in FAMILIES[name]():
        if "Spiked" not in case.name:  # which needs other rows
            noise.add(lambda case=case: case.act(case.data))
    noise.check(least=20)


def test_every_private_estimator_has_a_worst_case_and_a_check_of_its_noise():
    public = [getattr(skdpspectral, name) for name in skdpspectral.__all__]
    private = {
        c for c in public if isinstance(c, type) and issubclass(c, PrivateEstimator)
    }
    wide = [model for models in WIDE.values() for model, *_ in models()]
    for models in ([case.model for case in CASES.values()], wide):
        assert private == {c for m in models for c in type(m).__mro__ if c in private}
    assert all(issubclass(c, BaseEstimator) for c in private)
