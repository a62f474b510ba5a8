"""Entries of docstrings that several estimators share: filled in, and said once."""

import inspect
import pydoc
import re
import subprocess
import sys
from functools import wraps
from pathlib import Path

import pytest
from estimators import CLASSES
from sklearn.utils.metaestimators import available_if

import skdpspectral
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


@pytest.mark.parametrize("cls", CLASSES)
def test_help_shows_what_stands_in_the_table(cls):
    shown = re.sub(r"[ |]+", " ", pydoc.plain(pydoc.render_doc(cls)))
    for name in ("accountant", "noise_seed", "no_budget", "feature_names_in_"):
        assert re.sub(" +", " ", ENTRIES[name]) in shown, name


@pytest.mark.parametrize("cls", CLASSES)
def test_tooltips_of_scikit_learn_show_each_parameter(cls):
    common = pytest.importorskip("sklearn.utils._repr_html.common")
    for name in inspect.signature(cls).parameters:
        assert common.get_docstring(cls, "Parameters", name), name
    said = common.get_docstring(cls, "Parameters", "noise_seed")
    assert "voids" in said

    class Linked(cls):
        """A class with pages of its own, which tooltips need."""

        __doc__ = cls.__doc__

        def _get_doc_link(self):
            return "https://example.org/page.html"

    assert "Anything else voids" in Linked()._repr_html_()


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


def test_all_kinds_of_methods_are_filled_and_other_braces_stay():
    def passed_on(method):
        @wraps(method)
        def wrapper(self):
            return method(self)

        return wrapper

    def text():
        return "{y_ignored}\n    More.\n    {1: 2} and {y_ignored} in a line\n{not so}"

    @documented
    class Many:
        @classmethod
        def first(cls): ...

        @staticmethod
        def second(): ...

        @property
        def third(self): ...

        @available_if(lambda self: True)
        @passed_on
        def fourth(self): ...

        for _method in (first, second, third, fourth):
            _method.__doc__ = text()
            for _inner in ("__func__", "fget", "fn"):
                if hasattr(_method, _inner):
                    getattr(_method, _inner).__doc__ = text()

        def without(self): ...

    expected = text().replace("{y_ignored}", ENTRIES["y_ignored"], 1)
    found = [Many.first, Many.second, vars(Many)["third"], Many.fourth, Many().fourth]
    assert [thing.__doc__ for thing in found] == [expected] * 5
    assert Many.without.__doc__ is None
    assert documented(Many) is Many  # and a second time changes nothing
    assert Many.second.__doc__ == expected


@pytest.mark.slow
@pytest.mark.dependencies
def test_python_may_drop_docstrings():
    code = (
        "import skdpspectral as s; assert s.DPPCA.__doc__ is None; "
        "assert s.DPPCA.fit.__doc__ is None"
    )
    subprocess.run([sys.executable, "-OO", "-c", code], check=True, cwd=ROOT.parent)
