"""The registry of strategies: what is known by name is written and read, no more."""

import json
from numbers import Real
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
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
    _parameter_constraints: ClassVar[dict] = {
        "inner": [Inner],
        "ends": ["array-like"],
    }
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


def test_alike_is_alike_in_value():
    value = Outer(Inner(0.5))
    assert strategies.same_value(value, clone(value))
    assert not strategies.same_value(value, Outer(Inner(0.25)))
    assert not strategies.same_value(value, Outer(Inner(0.5), ends=(1.0, 2.5)))
    assert not strategies.same_value(Inner(), "inner")
    assert not strategies.same_value("inner", Inner())
    assert not strategies.same_value(Inner(), Longer())
    assert strategies.same_value(np.eye(2), np.eye(2))
    assert not strategies.same_value(np.eye(2), np.eye(3))


def test_a_snapshot_stays():
    value = Outer(Inner(0.5))
    kept = strategies.snapshot(value)
    value.set_params(inner__rate=0.75)
    assert kept.inner.rate == 0.5
    array = np.eye(2)
    kept = strategies.snapshot(array)
    array[0, 0] = 5.0
    assert kept.tolist() == np.eye(2).tolist()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Inner(2.0), ("rate", "Inner")),
        (Inner(True), ("rate", "Got True")),
        (Inner([0.5]), ("rate", "array")),
        (Outer("inner"), ("inner", "Outer")),
        (Outer(Inner(-1.0)), ("rate", "Inner")),
        (Outer(Longer()), ("inner", "Longer")),
        (Outer(StandardScaler()), ("inner", "StandardScaler")),
    ],
)
def test_errors_name_the_parameter(value, words):
    with pytest.raises(ValueError, match=words[0]) as caught:
        strategies.check_values(value)
    # What is no strategy at all is an error of the type.
    assert words[1] in str(caught.value) or "instance" in str(caught.value)


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


def test_what_can_be_registered():
    class Careless(BaseEstimator):
        def __init__(self, rate=0.5):
            self.rate = rate

    with pytest.raises(TypeError, match="constraints"):
        strategies.register(Careless)
    with pytest.raises(TypeError, match="BaseEstimator"):
        strategies.register(dict)

    other = type("Inner", (Inner,), {"__module__": "elsewhere"})
    with pytest.raises(ValueError, match="Inner"):
        strategies.register(other)
    assert strategies.register(Inner) is Inner


def test_a_snapshot_is_checked_again():
    changed = Inner()
    changed.rate = 2.0
    with pytest.raises(ValueError, match="rate"):
        strategies.snapshot(changed)
    changed.rate, changed.rows = 0.25, np.ones(3)
    assert vars(strategies.snapshot(changed)) == {"rate": 0.25}
