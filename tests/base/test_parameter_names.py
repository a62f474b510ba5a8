"""Names of parameters, which are read off a signature once for each class."""

import pytest
from estimators import CLASSES
from sklearn.base import BaseEstimator

from skdpspectral import DPPCA


class Further(DPPCA):
    """A class with a parameter of its own."""

    def __init__(self, n_components=2, further=3):
        super().__init__(n_components)
        self.further = further


@pytest.mark.parametrize("cls", [*CLASSES, Further])
def test_names_are_those_of_scikit_learn(cls):
    expected = BaseEstimator._get_param_names.__func__(cls)
    found = cls._get_param_names()
    # Kept for the class, so that no caller may change them.
    assert found == tuple(expected)
    assert sorted(cls().get_params(deep=False)) == expected


def test_a_derived_class_has_names_of_its_own():
    assert Further._get_param_names() == ("further", "n_components")
    assert "further" not in DPPCA().get_params()
    assert Further().set_params(further=4).get_params()["further"] == 4
