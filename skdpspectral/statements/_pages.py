"""Statements as HTML pages and as Markdown, and the pages that prove their lemmas."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..mechanisms._plan import html_table
from ._answers import number

# Pages of doc/theory, and lemmas that they prove.
_PAGES = {
    "gaussian_mechanism": "privacy-curve composition relations",
    "floating_point": "grid charge",
    "symmetric_noise": "symmetric-noise",
    "mixed_ledgers": "dominating box-filter least-mu",
    "sensitivities": "second-moment private-center",
    "pairs": "pair-means pair-moment sign-moment length-shares",
    "two_stage": "quantile-votes cross-moment projected-moment chosen-branch",
    "whole_covariance": "whole-covariance length-votes",
    "feature_scales": "difference-counts difference-windows phases value-windows"
    " feature-moments",
    "categories": "thresholding",
    "joint_rows": "joint-rows",
    "joint_moments": "joint-moments",
    "streams": "stream",
    "sampled_gradients": "gradient-moments clipped-moments sampled-replacement",
    "spiked": "spiked-law sub-gaussian-rows noisy-projector",
    "user_level": "user-sums projector-sums votes user-gradients",
    "item_models": "answers",
    "federation": "power-product session shared-center",
    "groups": "noise-shares",
    "selection": "score-sums exponential-choice blocks-vote",
}
PAGE_OF = {name: page for page, names in _PAGES.items() for name in names.split()}

# By kind: why the noise suffices for the sensitivity.
_OF_KIND = {
    "gaussian": "privacy-curve charge",
    "correlated-gaussian": "stream charge",
    "sampled-gaussian": "sampled-replacement dominating",
    "shared-gaussian": "noise-shares charge",
    "thresholded-gaussian": "thresholding charge",
    "subsampled-gaussian": "sampled-replacement dominating",
    "exponential": "exponential-choice",
}

# By name, the steps of a pipeline and numbers apart: what bounds the sensitivity. The
# first that matches counts; a name that none matches leads to the index of lemmas.
_OF_NAME = (
    ("moments correlated-gaussian", "joint-moments"),
    ("moments .* user", "user-sums"),
    ("gradients gaussian", "user-gradients"),
    ("gradients", "gradient-moments clipped-moments"),
    ("(target_)?(differences)", "difference-counts"),
    ("windows", "difference-windows"),
    ("cells", "value-windows"),
    ("(target_)?places", "phases"),
    ("(target_)?moments", "feature-moments"),
    ("categories", "thresholding"),
    ("pair_distance|row_reach|target_reach|quantile", "quantile-votes"),
    ("(far_)?center|(target|feature)_means", "private-center"),
    ("second_moment", "second-moment pair-moment sign-moment"),
    ("(near|far)_length", "length-votes"),
    ("lengths", "length-shares shared-center"),
    ("(near|far)_moment", "whole-covariance"),
    ("cross_moment", "cross-moment"),
    ("(weighted|wide|projected)_moment", "projected-moment"),
    ("joint_moment", "joint-rows"),
    ("projector|model_moment", "spiked-law sub-gaussian-rows"),
    ("power", "power-product"),
    ("start", "projector-sums"),
    ("median", "votes"),
    ("(offsets|residuals|factors)", "user-sums answers"),
    ("challenger|support|fit", "blocks-vote"),
)


def lemmas_of(mechanism: Any, choice: str, unit: str) -> list[str]:
    """Return the lemmas of a release by name: of its sensitivity, then of its cost."""
    name, kind = mechanism.name.rpartition(": ")[2], mechanism.kind
    key = f"{re.sub(r'_[0-9]+$', '', name)} {kind} {unit}"
    found = next((of for say, of in _OF_NAME if re.match(say, key)), "")
    noisy = kind.endswith(("gaussian", "exponential"))
    names = found.split() * noisy + _OF_KIND.get(kind, "").split()
    if getattr(mechanism, "symmetric", False) and names:
        names.insert(-1, "symmetric-noise")
    if choice and names:
        names.append("chosen-branch")
    return list(dict.fromkeys(names))


def lemmas_of_step(mechanism: Any) -> list[str]:
    """Return the lemmas of the cost of all releases of a pipeline's step."""
    alone = mechanism.kind == "gaussian"
    return ["composition"] if alone else _OF_KIND[mechanism.kind].split()


_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?$")
# Letters of Arabic and Indic scripts join by these, which print as nothing.
_JOINERS = "\u200c\u200d"

_STYLE = "\n" + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
_PAGE_STYLE = (
    "html{background:#fff}@media (prefers-color-scheme:dark){html{background:#14171a}}"
    "@media print{html{background:#fff}}body{margin:0}"
)


def printable(text: Any) -> str:
    """Return a text without control characters, or marks that reverse others."""
    return "".join(
        c if c.isprintable() or c in _JOINERS or c == "\n" else ascii(c)[1:-1]
        for c in str(text)
    )


# A part of a page: its kind, and its text or rows. Both writers know all kinds.
PagePart = tuple[str, Any]


def _blocks(content: dict[str, Any]) -> Iterator[PagePart]:
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
        yield "h3", plan["heading"]
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


def _questions(answers: list[dict[str, Any]]) -> Iterator[PagePart]:
    for each in answers:
        yield "h3", each["question"]
        yield from (("p", text) for text in each["answer"])


_PAIR = ("epsilon", "delta")


def _entries(content: dict[str, Any]) -> Iterator[PagePart]:
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
            "Each line is the cost of that release alone. The total above is not the "
            "sum of the lines."
        )
        yield "p", f"{said} {content['more_groups']}".strip()
        yield "table", rows


# -- HTML ------------------------------------------------------------------------------


def html_page(content: dict[str, Any], *, page: bool = True) -> str:
    """Return one page without scripts or requests, or a fragment for notebooks."""
    body = "\n".join(map(_html, _blocks(content)))
    if not page:
        return f'<style>{_STYLE}</style><div class="skdp">\n{body}\n</div>'
    title = html.escape(printable(content["title"]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n"
        f"<style>{_PAGE_STYLE}{_STYLE}</style>\n</head>\n"
        f'<body>\n<main class="skdp">\n{body}\n</main>\n</body>\n</html>\n'
    )


_TAGS = {
    "claim": '<p class="claim">{}</p>',
    "part": '<h2 class="part">{}</h2>',
    "record": "<details><summary>Record, for <code>skdpspectral-ledger verify</code>"
    '</summary><pre id="record">{}</pre></details>',
}


def _html(block: PagePart) -> str:
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
    escaped = html.escape(printable(text)).replace("\n", "<br>")
    return f"<bdi>{escaped}</bdi>" if not escaped.isascii() else escaped


def _cell(cell: Any) -> str:
    if not isinstance(cell, list):
        said = _isolated(cell)
        return f'<span class="n">{said}</span>' if _NUMBER.match(said) else said
    found = []
    for lemma, docs_url in cell:
        place = f"theory/{PAGE_OF[lemma]}.html#lemma-{lemma}"
        if re.match("https?://", docs_url or ""):  # also of a record of anybody's
            url = html.escape(f"{docs_url.rstrip('/')}/{place}")
            found.append(f'<a href="{url}">{lemma}</a>')
        else:
            found.append(f'<span title="{place}">{lemma}</span>')
    return ", ".join(found)


# -- Markdown --------------------------------------------------------------------------


def markdown_page(content: dict[str, Any]) -> str:
    """Return the same as Markdown, in which texts of others are no markup."""
    return "\n\n".join(filter(None, map(_markdown, _blocks(content)))) + "\n"


def _escaped(text: Any) -> str:
    """Return a text of one line that is no markup, and no link by itself."""
    said = html.escape(printable(text), quote=False).replace("\n", " ").strip()
    said = re.sub(r"([\\`*_\[\]|#~$]|^[-+=]|^\d+(?=[.)](?: |$)))", _backslash, said)
    said = re.sub("(?i)://|www[.]|@", lambda m: _entities(m[0]), said)
    return said


def _backslash(match: re.Match[str]) -> str:
    found = match[0]
    return f"{found}\\" if found.isdigit() else f"\\{found}"


def _entities(text: str) -> str:
    return f"{text[:-1]}&#{ord(text[-1])};" if text[-1] != "/" else "&#58;//"


_MARKS = {"h1": "# ", "part": "## ", "h3": "### ", "claim": "> ", "p": ""}


def _markdown(block: PagePart) -> str:
    kind, given = block
    if kind == "plain":
        return ""
    if kind == "record":
        return f"Record, for `skdpspectral-ledger verify`:\n\n```json\n{given}\n```"
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
