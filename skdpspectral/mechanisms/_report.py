"""Remarks of a guarantee in the order of their weight, and tables as text and HTML."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ._planned_releases import CURVE_TYPES, Exact, SampledGaussian, Word


class Concern(Word):
    """The subject of a remark, in the order of weight: ``str(plan)`` has the first.

    ``leak``
        A step leaks, so that the guarantee of the whole is void.
    ``model``
        The guarantee holds for data of a model alone.
    ``weaker``
        The guarantee is weaker than what was asked for, or that of a search.
    ``trust``
        Who may see what, and what nobody has checked.
    ``center``
        The estimator gave up its private center.
    ``noise``
        Noise hides what was asked for.
    ``public``
        What is taken to be public.
    ``measured``
        What was measured instead of the usual.
    ``other``
        Everything else, which only ``details()`` has.
    """

    LEAK = "leak"
    MODEL = "model"
    WEAKER = "weaker"
    TRUST = "trust"
    CENTER = "center"
    NOISE = "noise"
    PUBLIC = "public"
    MEASURED = "measured"
    OTHER = "other"


_WEIGHTS = {concern: place for place, concern in enumerate(Concern)}


class Remark(str):
    """A sentence about a guarantee, and its subject."""

    concern: Concern

    def __new__(cls, text: str, concern: Concern | str = Concern.OTHER) -> Remark:
        remark = super().__new__(cls, text)
        remark.concern = Concern(concern)
        return remark

    @classmethod
    def of(cls, text: str) -> Remark:
        """Return a sentence as a remark; one that is a remark stays as it is."""
        return text if isinstance(text, Remark) else cls(text)

    def under(self, path: str) -> Remark:
        """Return the remark as one on a step of a pipeline."""
        return Remark(f"{path}: {self}", self.concern)


def by_weight(remarks: Iterable[Remark]) -> list[Remark]:
    """Return remarks, the one that matters most first."""
    return sorted(remarks, key=lambda remark: _WEIGHTS[remark.concern])


def on_one_line(text: str) -> str:
    """Return a text without line breaks, which names that are given may have."""
    return " ".join(text.split())


class Details(str):
    """A text of several lines that consoles and notebooks show as it is."""

    __repr__ = str.__str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose columns are aligned; empty ones are left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _escaped(cell: object) -> str:
    return html.escape(str(cell))


def html_table(
    rows: Iterable[Sequence[object]],
    heads: int = 1,
    as_cell: Callable[[Any], str] = _escaped,
) -> str:
    """Return rows as an HTML table whose first ones are heads; all text is escaped."""
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if number < heads else "td"
        style = ' style="text-align: left"'
        cells = (f"<{tag}{style}>{as_cell(cell)}</{tag}>" for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def as_html(
    title: str, line: str, sentences: Iterable[str], rows: Sequence[Sequence[object]]
) -> str:
    """Return two lines, and what unfolds beneath them: sentences and a table."""
    first, second = map(html.escape, (title, line))
    listed = "".join(f"<li>{html.escape(said)}</li>" for said in sentences)
    return (
        f"<div><strong>{first}</strong><br>{second}<details><summary>Details</summary>"
        f"<ul>{listed}</ul>{html_table(rows)}</details></div>"
    )


_HEADS = ("release", "times", "shape", "noise sd", "sensitivity", "mu", "notes")


def release_rows(
    releases: Iterable[tuple[Any, str]],
    more: Mapping[str, Callable[[Any, str], str]] | None = None,
) -> list[tuple[str, ...]]:
    """Return a table of releases and their conditions, those that are alike in one row.

    These follow each other and differ in their names alone. `more` has further columns,
    by head: what each says of a release and its condition.
    """
    more = more or {}
    rows: list[tuple[str, ...]] = [(*_HEADS, *more)]
    groups = itertools.groupby(
        releases, lambda pair: (replace(pair[0], name=""), *pair[1:])
    )
    for (_, condition), group in groups:
        (first, _), *others = group
        name = f"{first.name} to {others[-1][0].name}" if others else first.name
        noted = "; ".join(filter(None, (condition, first.notes())))
        times = str(len(others) + 1)
        others_say = (say(first, condition) for say in more.values())
        cells = (name, times, *_numbers(first), noted, *others_say)
        rows.append(tuple(map(on_one_line, cells)))
    return rows


def _numbers(mechanism: Any) -> tuple[str, ...]:
    """Return shape, noise, sensitivity and mu of a release."""
    noise = getattr(mechanism, "noise_std", None)
    moved = getattr(mechanism, "charged_sensitivity", None)
    mu = format(mechanism.mu, ".6g")
    if isinstance(mechanism, (*CURVE_TYPES, SampledGaussian)):
        mu = "a curve"
    elif isinstance(mechanism, Exact):
        noise = 0.0
    shown = ("" if number is None else f"{number:.6g}" for number in (noise, moved))
    return str(mechanism.shape) if mechanism.shape else "", *shown, mu


def cost_line(mu: float, failure: float) -> str:
    """Return the cost of a plan in a sentence; empty if it is that of a curve alone."""
    but = f", but for a probability of {failure:g}, which delta includes"
    but = but if failure else ""
    if not math.isfinite(mu):
        return f"The cost holds{but[1:]}." if but else ""
    return f"Its cost is mu = {mu:.6g} in Gaussian differential privacy{but}."
