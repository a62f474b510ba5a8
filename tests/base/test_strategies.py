"""The registry of strategies: what is known by name is written and read, no more."""

import json
from numbers import Real
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

from skdpspectral._base import strategies
from skdpspectral._base.sklearn_compat import Interval


class Inner(BaseEstimator):
    _parameter_constraints: ClassVar[dict] = {
        "rate": [Interval(Real, 0, 1, closed="both")]
    }

    def __init__(self, rate=0.5):
        self.rate = rate


class Outer(BaseEstimator):
    _parameter_constraints: ClassVar[dict] = {"inner": [Inner], "ends": ["array-like"]}
    _array_parameters: ClassVar[tuple] = ("ends",)

    def __init__(self, inner, ends=(1.0, 2.0)):
        self.inner, self.ends = inner, ends


class Longer(Inner):
    """Not registered, though its base is."""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(strategies, "_CLASSES", {})
    strategies.register(Inner)
    strategies.register(Outer)


def written(value):
    return json.dumps(value, default=strategies.json_default)


def there_and_back(value):
    return strategies.read_plain(json.loads(written(value)))


def test_there_and_back():
    value = Outer(Inner(np.float32(0.25)), ends=np.array([1.0, 3.0]))
    found = there_and_back(value)
    assert type(found) is Outer
    assert type(found.inner) is Inner
    assert found.inner.rate == 0.25
    assert found.ends == [1.0, 3.0]
    assert strategies.same_value(found, value)


INNER = {"strategy": "Inner", "parameters": {"rate": 0.5}}


@pytest.mark.parametrize(
    "plain",
    [
        {**INNER, "strategy": "Longer"},
        {**INNER, "strategy": "StandardScaler"},
        {**INNER, "strategy": "os.system"},
        {**INNER, "strategy": ["Inner"]},
        {**INNER, "strategy": None},
        {**INNER, "parameters": {}},
        {**INNER, "parameters": {"rate": 0.5, "more": 1}},
        {**INNER, "parameters": [0.5]},
        {**INNER, "parameters": {"rate": 7.0}},
        {**INNER, "parameters": {"rate": True}},
        {**INNER, "parameters": {"rate": INNER}},
        {**INNER, "more": 1},
        {"strategy": "Inner"},
        {},
    ],
    ids=str,
)
def test_nothing_else_is_read(plain):
    assert strategies.read_plain(INNER).rate == 0.5
    with pytest.raises(ValueError, match=r"strategy|parameter|rate"):
        strategies.read_plain(plain)


def test_nothing_else_is_written():
    for value in (Longer(), StandardScaler(), Inner, Inner(object())):
        with pytest.raises(TypeError, match="strategy"):
            written(value)
