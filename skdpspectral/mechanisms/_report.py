"""Reports: a title, a line beneath it, sentences and a table, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


def on_one_line(text: str) -> str:
    """Return a text without line breaks, which names that are given may have."""
    return " ".join(text.split())


class Details(str):
    """A text of several lines that consoles and notebooks show as it is."""

    __repr__ = str.__str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


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
        cells = (f'<{tag} style="text-align: left">{as_cell(c)}</{tag}>' for c in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


@dataclass(frozen=True)
class Report:
    """Two lines, and the sentences and the table that explain them.

    The first of `rows` has the heads of the table. Columns without entries are left
    out of the text. Without rows, the details have `nothing` in place of the table.
    """

    title: str
    line: str = ""
    sentences: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    nothing: str = ""

    def __str__(self) -> str:
        return "\n".join(map(on_one_line, filter(None, (self.title, self.line))))

    def table(self) -> Iterator[str]:
        """Yield the lines of the table, with aligned columns."""
        columns = [c for c in zip(*self.rows, strict=True) if any(c[1:])]
        widths = [max(map(len, column)) for column in columns]
        for row in zip(*columns, strict=True):
            yield "  ".join(map(str.ljust, row, widths)).rstrip()

    def details(self) -> Details:
        """Return title, sentences and table as text, without the second line."""
        said = map(on_one_line, (self.title, *self.sentences))
        table = list(self.table()) or [self.nothing]
        return Details("\n".join((*said, "", *table)).rstrip("\n"))

    def _repr_html_(self) -> str:
        listed = "".join(f"<li>{_escaped(said)}</li>" for said in self.sentences)
        return (
            f"<div><strong>{_escaped(self.title)}</strong><br>{_escaped(self.line)}"
            f"<details><summary>Details</summary><ul>{listed}</ul>"
            f"{html_table(self.rows)}</details></div>"
        )
