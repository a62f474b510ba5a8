"""Statements as HTML pages and as Markdown, from their content alone."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from ..mechanisms._report import html_table
from ._answers import number
from ._lemmas import page_of

# Letters of Arabic and Indic scripts join by these, which print as nothing.
_JOINERS = "\u200c\u200d"

_STYLE = """
.skdp{--ink:#1c2024;--soft:#5b6470;--line:#d5dae0;--back:#fff;--note:#f3f5f8;
--link:#0b57a4;color:var(--ink);background:var(--back);
font:1rem/1.55 system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif;
max-width:58rem;margin:0 auto;padding:1.5rem 1rem;overflow-wrap:anywhere}
.skdp h1{font-size:1.7rem;line-height:1.25;margin:0 0 .5rem}
.skdp h2{font-size:1.3rem;margin:2.5rem 0 .5rem;padding-top:1rem;
border-top:2px solid var(--line)}
.skdp h3{font-size:1.02rem;margin:1.2rem 0 .1rem}
.skdp p{margin:.15rem 0 .45rem}
.skdp a{color:var(--link)}
.skdp .claim{background:var(--note);border-left:4px solid var(--link);
padding:.7rem 1rem;margin:1rem 0}
.skdp .wide{overflow-x:auto;margin:.5rem 0 1rem}
.skdp table{border-collapse:collapse;font-size:.85rem;width:100%;overflow-wrap:normal}
.skdp th,.skdp td{border-bottom:1px solid var(--line);padding:.3rem .6rem .3rem 0;
text-align:left;vertical-align:top}
.skdp th{color:var(--soft);font-weight:600}
.skdp td{font-variant-numeric:tabular-nums}
.skdp pre{background:var(--note);padding:.7rem;overflow-x:auto;font-size:.75rem;
white-space:pre-wrap}
@media (prefers-color-scheme:dark){.skdp{--ink:#e6e9ed;--soft:#a3adb8;--line:#3a424c;
--back:#14171a;--note:#1f2429;--link:#7db7f2}}
@page{size:A4;margin:11mm}
@media print{.skdp{--ink:#000;--soft:#444;--line:#bbb;--back:#fff;--note:#f5f5f5;
--link:#000;font-size:9pt;line-height:1.35;max-width:none;padding:0}
.skdp .wide{overflow:visible}.skdp table{font-size:7pt}.skdp h1{font-size:16pt}
.skdp .plain{columns:2;column-gap:1.6em;font-size:8.4pt;line-height:1.3}
.skdp .part~.part{break-before:page}.skdp h2{font-size:12pt;margin-top:.4rem}
.skdp h3{break-after:avoid;font-size:9pt;margin-top:.45rem}.skdp p{margin-bottom:.2rem}
.skdp .claim{margin:.4rem 0;padding:.3rem .6rem}.skdp .wide{margin:.2rem 0}
.skdp th,.skdp td{padding:.12rem .5rem .12rem 0}.skdp tr{break-inside:avoid}
.skdp details{display:none}}
"""
_PAGE_STYLE = (
    "html{background:#fff}@media (prefers-color-scheme:dark){html{background:#14171a}}"
)
_PRINT_STYLE = "@media print{html{background:#fff}}body{margin:0}"


def shown(text: Any) -> str:
    """Return a text without control characters, or marks that reverse others."""
    return "".join(
        c if c.isprintable() or c in _JOINERS or c == "\n" else ascii(c)[1:-1]
        for c in str(text)
    )


# A part of a page: its kind, and its text or rows. Both writers know all kinds.
Block = tuple[str, Any]


def _blocks(content: dict[str, Any]) -> Iterator[Block]:
    """Yield what a statement shows, in order."""
    yield "h1", content["title"]
    names = ("curator", "intended_use", "description", "date")
    about = [
        (n.replace("_", " ").capitalize(), content[n]) for n in names if content[n]
    ]
    kind, name = content["subject"].values()
    of = "a ledger" if kind == "ledger" else f"{name} ({kind})"
    yield "table", [("Statement of", of), *about]
    yield "claim", content["claim"]
    yield "part", "Part one: for the person responsible"
    yield "plain", True
    yield from _questions(content["for_the_person_responsible"])
    yield "plain", False
    yield from _entries(content)
    yield "part", "Part two: for the auditor"
    for each in content["for_the_auditor"]:
        yield from _questions([each])
        if each["question"] == "Leaks" and content["report"]:
            rows = [tuple(step.values()) for step in content["report"]]
            yield "table", [("Step", "Class", "Verdict", "Reason"), *rows]
    for plan in content["plans"]:
        yield "h3", f"Releases of {plan['estimator']}"
        if not content["guarantee"]["private"]:
            yield "p", "What follows is of these releases alone. As a whole it is void."
        yield from (("p", text) for text in plan["sentences"])
        docs = content["docs_url"]
        heads, *rows = plan["releases"]
        linked = [(*row[:-1], [(n, docs) for n in row[-1].split()]) for row in rows]
        yield "table", [heads, *linked]
    if content["more_plans"]:
        yield "p", f"{content['more_plans']} further plans are in the ledger's export."
    yield "part", "Appendix: the questions of NIST SP 800-226, by its sections"
    yield from _questions(content["nist_sp_800_226"])
    yield "record", json.dumps(content["record"], indent=1)


def _questions(answers: list[dict[str, Any]]) -> Iterator[Block]:
    for each in answers:
        yield "h3", each["question"]
        yield from (("p", text) for text in each["answer"])


_PAIR = ("epsilon", "delta")


def _entries(content: dict[str, Any]) -> Iterator[Block]:
    """Yield the table of what was released, on the page of plain words."""
    rows: list[tuple[Any, ...]] = [
        ("Entries", "What", "Label", "Epsilon of each", "Delta of each", "Number")
    ]
    for group in content["groups"]:
        ends = {group["first"], group["last"]} - {None}
        what = group["what"] + (" (another tool)" if group["external"] else "")
        figures = ["" if group[k] is None else number(group[k]) for k in _PAIR]
        if not content["guarantee"]["private"]:
            figures = ["no promise", ""]
        place = " to ".join(map(str, sorted(ends)))
        rows.append((place, what, group["label"] or "", *figures, group["entries"]))
    if len(rows) > 2 or (content["ledger"] and content["groups"]):
        said = (
            "Each release by itself: its cost is for what it protects on its own, so "
            "that costs cannot simply be added up."
        )
        yield "p", f"{said} {content['more_groups']}".strip()
        yield "table", rows


# -- HTML ------------------------------------------------------------------------------


def as_html(content: dict[str, Any], *, page: bool = True) -> str:
    """Return one page without scripts or requests, or a fragment for notebooks."""
    body = "\n".join(map(_html, _blocks(content)))
    if not page:
        return f'<style>{_STYLE}</style><div class="skdp">\n{body}\n</div>'
    title = html.escape(shown(content["title"]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n"
        f"<style>{_PAGE_STYLE}{_PRINT_STYLE}{_STYLE}</style>\n</head>\n"
        f'<body>\n<main class="skdp">\n{body}\n</main>\n</body>\n</html>\n'
    )


_TAGS = {
    "claim": '<p class="claim">{}</p>',
    "part": '<h2 class="part">{}</h2>',
    "record": "<details><summary>Record, for <code>skdpspectral-ledger verify</code>"
    '</summary><pre id="record">{}</pre></details>',
}


def _html(block: Block) -> str:
    kind, given = block
    if kind == "table":
        table = html_table(given, heads=len(given[0]) > 2, as_cell=_cell)
        return f'<div class="wide">{table}</div>'
    if kind == "plain":
        return '<div class="plain">' if given else "</div>"
    return _TAGS.get(kind, f"<{kind}>{{}}</{kind}>").format(
        html.escape(given) if kind == "record" else _isolated(given)
    )


def _isolated(text: Any) -> str:
    """Return a text that neither is markup nor turns the direction of others."""
    escaped = html.escape(shown(text)).replace("\n", "<br>")
    return f"<bdi>{escaped}</bdi>" if not escaped.isascii() else escaped


def _cell(cell: Any) -> str:
    if not isinstance(cell, list):
        return _isolated(cell)
    found = []
    for lemma, docs_url in cell:
        place = page_of(lemma)
        if re.match("https?://", docs_url or ""):  # also of a record of anybody's
            url = html.escape(f"{docs_url.rstrip('/')}/{place}")
            found.append(f'<a href="{url}">{lemma}</a>')
        else:
            found.append(f'<span title="{place}">{lemma}</span>')
    return ", ".join(found)


# -- Markdown --------------------------------------------------------------------------


def as_markdown(content: dict[str, Any]) -> str:
    """Return the same as Markdown, in which texts of others are no markup."""
    return "\n\n".join(filter(None, map(_markdown, _blocks(content)))) + "\n"


def _escaped(text: Any) -> str:
    """Return a text of one line that is no markup, and no link by itself."""
    said = html.escape(shown(text), quote=False).replace("\n", " ").strip()
    said = re.sub(r"([\\`*_\[\]|#~$]|^[-+=]|^\d+(?=[.)](?: |$)))", _backslash, said)
    said = re.sub("(?i)://|www[.]|@", lambda m: _entities(m[0]), said)
    return said


def _backslash(match: re.Match[str]) -> str:
    found = match[0]
    return f"{found}\\" if found.isdigit() else f"\\{found}"


def _entities(text: str) -> str:
    return f"{text[:-1]}&#{ord(text[-1])};" if text[-1] != "/" else "&#58;//"


_MARKS = {"h1": "# ", "part": "## ", "h3": "### ", "claim": "> ", "p": ""}


def _markdown(block: Block) -> str:
    kind, given = block
    if kind == "plain":
        return ""
    if kind == "record":
        return f"```json\n{given}\n```"
    if kind != "table":
        return f"{_MARKS[kind]}{_escaped(given)}"
    rows = given if len(given[0]) > 2 else [("", ""), *given]
    lines = []
    for row in rows:
        cells = (", ".join(n for n, _ in c) if isinstance(c, list) else c for c in row)
        lines.append(f"| {' | '.join(map(_escaped, cells))} |")
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])


# -- reading ---------------------------------------------------------------------------


def record_in(text: str) -> dict[str, Any]:
    """Return the record that a page, a Markdown or a JSON statement holds."""
    _, found, rest = text.partition('<pre id="record">')
    if found:
        return dict(json.loads(html.unescape(rest.partition("</pre>")[0])))
    _, found, rest = text.partition("\n```json\n")
    if found:
        return dict(json.loads(rest.partition("\n```\n")[0]))
    return dict(json.loads(text)["record"])
