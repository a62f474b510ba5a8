"""Entries of docstrings that several estimators share: filled in, and said once."""

import inspect
import re
from pathlib import Path

import pytest
from estimators import CLASSES
from sklearn.base import BaseEstimator

import skdpspectral
from skdpspectral import DPPCA
from skdpspectral._base.documented import ENTRIES, documented

ROOT = Path(skdpspectral.__file__).parent
PLACE = re.compile(r"^ *\{([A-Za-z]\w*)\}$", re.MULTILINE)


def sections(text):
    """Names of entries by section of a numpydoc docstring, in order."""
    lines = inspect.cleandoc(text).splitlines()
    heads = [i for i, line in enumerate(lines) if re.fullmatch(r"-{3,}", line)]
    found = {}
    for head, end in zip(heads, [*(h - 1 for h in heads[1:]), None], strict=True):
        entries = [
            line.split(" : ")[0]
            for line in lines[head + 1 : end]
            if line and not line.startswith(" ")
        ]
        found[lines[head - 1]] = [n for entry in entries for n in entry.split(", ")]
    return found


def sources():
    for path in sorted(ROOT.rglob("*.py")):
        if path.name != "documented.py":
            yield path, path.read_text()


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_is_left_open(cls):
    texts = {"": cls.__doc__}
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        texts[name] = inspect.getdoc(getattr(cls, name))
        texts[f"{name}, as it stands"] = getattr(member, "__doc__", None)
    # What is in the class's own dictionary may be wrapped, as by set_output.
    for name, text in texts.items():
        assert not PLACE.search(text or ""), name


@pytest.mark.parametrize("cls", CLASSES)
def test_each_parameter_has_an_entry_in_the_order_of_the_signature(cls):
    found = sections(cls.__doc__)
    assert found["Parameters"] == list(inspect.signature(cls).parameters)
    assert {"n_features_in_", "feature_names_in_", "privacy_"} <= set(
        found["Attributes"]
    )
    fit = sections(cls.fit.__doc__)
    assert fit["Parameters"] == list(inspect.signature(cls.fit).parameters)[1:]
    assert fit["Raises"][:3] == ["ValueError", "TypeError", "PrivacyBudgetError"]


def test_each_entry_is_used_by_several_and_said_nowhere_else():
    """What two places say is in the table; what one says is not."""
    table = (ROOT / "_base" / "documented.py").read_text()
    texts = [table, *(text for _, text in sources())]
    used = [name for text in texts for name in PLACE.findall(text)]
    once = {name for name in ENTRIES if used.count(name) < 2}
    assert set(used) == ENTRIES.keys()
    assert not once
    for path, text in sources():
        if not re.search(r"^@documented$", text, re.MULTILINE):
            continue
        flat = re.sub(r"\s+", " ", text)
        for name, entry in ENTRIES.items():
            assert re.sub(r"\s+", " ", entry) not in flat, (path, name)


def test_names_that_there_are_not_are_an_error_of_import():
    with pytest.raises(ValueError, match=r"Wrong.fit asks for \{epsilom\}"):

        @documented
        class Wrong:
            def fit(self):
                """Fit.

                {epsilom}
                """


# -- names of parameters, which are read off a signature once for each class ----------


class Further(DPPCA):
    """A class with a parameter of its own."""

    def __init__(self, n_components=2, further=3):
        super().__init__(n_components)
        self.further = further


@pytest.mark.parametrize("cls", [*CLASSES, Further])
def test_names_are_those_of_scikit_learn(cls):
    expected = BaseEstimator._get_param_names.__func__(cls)
    found = cls._get_param_names()
    # Names are kept for the class, so that no caller may change them.
    assert found == tuple(expected)
    assert sorted(cls().get_params(deep=False)) == expected


def test_a_derived_class_has_names_of_its_own():
    assert Further._get_param_names() == ("further", "n_components")
    assert "further" not in DPPCA().get_params()
    assert Further().set_params(further=4).get_params()["further"] == 4
