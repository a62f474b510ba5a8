"""Statements as HTML pages, and as entries of OpenDP's registry of deployments."""

from __future__ import annotations

import html
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..mechanisms import PrivacyPlan, html_table
from ..mechanisms._plan import HEADS, on_one_line
from ._answers import (
    claim,
    for_the_auditor,
    for_the_person_responsible,
    number,
    title,
)
from ._facts import EXTERNAL, MOST_SHOWN, Facts, finite


def lemmas_of(mechanism: Any, choice: str = "") -> list[str]:
    """Return the lemmas of a release by name: of its sensitivity, then of its cost."""
    names = [*mechanism.lemma.split(), *mechanism.cost_lemma.split()]
    if mechanism.lemma == "composition":
        names = names[:1] if mechanism.kind == "gaussian" else names
    elif names and getattr(mechanism, "symmetric", False):
        names.insert(-1, "symmetric-noise")
    names += ["chosen-branch"] * bool(choice and names)
    return list(dict.fromkeys(names))


# -- tables ----------------------------------------------------------------------------

_OF_STEPS = (
    "A pipeline was charged before its fit: each line bounds the cost of all releases "
    "of a step together. A statement of the fitted pipeline lists them."
)


def release_table(plan: PrivacyPlan) -> list[list[Any]]:
    """Return the releases of a plan; of a federation, of clients that are alike."""
    alike: dict[Any, tuple[list[str], PrivacyPlan]] = {}
    for name, block in getattr(plan, "blocks", ()):
        alike.setdefault(block.mechanisms, ([], block))[0].append(name)
    table: list[list[Any]] = [[*HEADS, "kind", "grid", "lemmas"]]
    for names, own in list(alike.values())[:MOST_SHOWN] or [([], plan)]:
        others = f" and {len(names) - 3} others" if len(names) > 3 else ""
        before = f"{on_one_line(', '.join(names[:3]))}{others}: " if names else ""
        for mechanism, choice, row in own.rows():
            cells = [
                before + row[0],
                *("unlimited" if c == "inf" else c for c in row[1:]),
            ]
            grid = getattr(mechanism, "grid", None)
            shown = f"{grid:.6g}" if grid else ""
            if mechanism.lemma == "composition":  # the whole of a step
                cells[1:5], shown = ["all", "", "", ""], ""
            lemmas = ", ".join(lemmas_of(mechanism, choice))
            table.append([*cells, mechanism.kind, shown, lemmas])
    return table


def _releases(group: dict[str, Any], plan: PrivacyPlan, facts: Facts) -> Iterator[str]:
    """Yield the releases of a plan, for the auditor."""
    heading = f"Releases of {plan.estimator}"
    if group["ends"]:
        n_others, first = group["n_entries"] - 1, f"Entry {group['ends'][0]}"
        like = f" and {n_others} like it" if n_others else ""
        name = ", ".join(filter(None, (first, group["label"])))
        heading = f"{name}{like}: {plan.estimator}"
    yield _tagged("h3", heading)
    said = plan.sentences()
    if not facts.private:
        said.insert(0, "These releases alone follow. As a whole there is no guarantee.")
    if any(mechanism.lemma == "composition" for mechanism in plan.releases()):
        said.append(_OF_STEPS)
    if len(getattr(plan, "blocks", ())) > MOST_SHOWN:
        said.append("Some clients are left out of the table.")
    yield from (_tagged("p", text) for text in said)
    yield _table(release_table(plan))


def _entries(facts: Facts, plans: list[PrivacyPlan]) -> Iterator[str]:
    """Yield the table of what was released, on the page of plain words."""
    rows: list[Any] = [
        ("Entries", "What", "Label", "Epsilon of each", "Delta of each", "Number")
    ]
    for group, plan in zip(facts.entries, plans, strict=True):
        external = EXTERNAL in {m.kind for m in plan.releases()}
        what = plan.estimator + (" (another tool)" if external else "")
        figures = [number(finite(plan.epsilon)), number(plan.delta)]
        figures = figures if facts.private else ["no promise", ""]
        ends = " to ".join(map(str, group["ends"]))
        rows.append((ends, what, group["label"] or "", *figures, group["n_entries"]))
    yield _tagged("p", "The total above is not the sum of the lines.")
    if facts.n_groups > len(plans):
        more = facts.n_groups - len(plans)
        yield _tagged("p", f"{more} further plans are in the ledger.")
    yield _table(rows)


# -- HTML ------------------------------------------------------------------------------

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


def _isolated(text: Any) -> str:
    """Return a text that neither is markup nor turns the direction of others."""
    escaped = html.escape(printable(text)).replace("\n", "<br>")
    return f"<bdi>{escaped}</bdi>" if not escaped.isascii() else escaped


def _tagged(tag: str, text: Any, given: str = "") -> str:
    return f"<{tag}{given}>{_isolated(text)}</{tag}>"


def _cell(cell: Any) -> str:
    said = _isolated(cell)
    return f'<span class="n">{said}</span>' if _NUMBER.match(said) else said


def _table(rows: list[Any], heads: int = 1) -> str:
    return f'<div class="wide">{html_table(rows, heads=heads, as_cell=_cell)}</div>'


def _questions(answers: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    for question, paragraphs in answers:
        yield _tagged("h3", question)
        yield from (_tagged("p", text) for text in paragraphs)


def _body(facts: Facts, record: str) -> Iterator[str]:
    """Yield the parts of a page, in order."""
    yield _tagged("h1", title(facts))
    names = ("curator", "intended_use", "description", "date")
    about = [
        (name.replace("_", " ").capitalize(), facts.stated[name])
        for name in names
        if name in facts.stated
    ]
    of = "a ledger" if facts.ledger else f"{facts.name} ({facts.kind})"
    yield _table([("Statement of", of), *about], heads=0)
    yield _tagged("p", claim(facts), ' class="claim"')
    part = ' class="part"'
    yield _tagged("h2", "Part one: for the person responsible", part)
    yield '<div class="plain">'
    yield from _questions(for_the_person_responsible(facts))
    yield "</div>"
    plans = facts.read_plans()
    if facts.ledger and plans:
        yield from _entries(facts, plans)
    yield _tagged("h2", "Part two: for the auditor", part)
    yield from _questions(for_the_auditor(facts))
    for group, plan in zip(facts.entries, plans, strict=True):
        yield from _releases(group, plan, facts)
    yield (
        "<details><summary>Record, for <code>skdpspectral-ledger verify</code>"
        f'</summary><pre id="record">{html.escape(record)}</pre></details>'
    )


def html_page(facts: Facts, record: str, *, page: bool = True) -> str:
    """Return one page without scripts or requests, or a fragment for notebooks."""
    body = "\n".join(_body(facts, record))
    if not page:
        return f'<style>{_STYLE}</style><div class="skdp">\n{body}\n</div>'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(printable(title(facts)))}</title>\n"
        f"<style>{_PAGE_STYLE}{_STYLE}</style>\n</head>\n"
        f'<body>\n<main class="skdp">\n{body}\n</main>\n</body>\n</html>\n'
    )


def record_in(text: str) -> dict[str, Any]:
    """Return the record that a page or a JSON statement holds."""
    _, found, rest = text.partition('<pre id="record">')
    if found:
        text = html.unescape(rest.partition("</pre>")[0])
    return dict(json.loads(text))


# -- the registry of deployments, by its deployments-schema.yaml -----------------------


def registry_entry(facts: Facts) -> str:
    """Return the entry as JSON, which YAML contains; "TODO" where nobody has said."""
    stated = defaultdict(lambda: "TODO", facts.stated)
    said = {q: "\n".join(a) for q, a in for_the_person_responsible(facts)}
    many = facts.kind in ("stream", "ledger")
    private = {"epsilon": facts.epsilon, "delta": facts.delta}
    deployment: dict[str, dict[str, Any]] = {
        "basic": {
            "name": title(facts),
            "data_curators": [
                {"data_curator_name": stated["curator"], "data_curator_type": "TODO"}
            ],
            "description": facts.stated.get("description", said["What was released?"]),
            "intended_use": stated["intended_use"],
            "data_product_type": "Machine learning model",
            "data_product_region": "TODO",
            # A date is required.
            "publication_date": facts.stated.get("date", "1900-01-01"),
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "unprotected_quantities": said["What is not protected?"],
        },
        "privacy_loss": {
            "privacy_unit": facts.unit or "TODO",
            "privacy_unit_details": said["Who is protected?"],
            "privacy_parameters": private if facts.promised else "TODO",
            "privacy_parameters_details": claim(facts),
        },
        "deployment_model": {
            "model_name": "Federated" if facts.parties else "Central",
            "trust_assumptions": said.get("Against whom?", "TODO"),
            "release_type": "Many releases" if many else "One release",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": stated["tuning"],
            "mechanisms": f"Kinds: {', '.join(facts.kinds) or 'none'}.",
            "utility": stated["utility"],
        },
        "administrative": {
            "status": "Draft",
            "registry_authors": [stated["curator"]],
            "tier": 1,
        },
    }
    slug = re.sub(r"[^a-z0-9]+", "-", title(facts).lower()).strip("-") or "todo"
    entry = {"url_slug": slug, "deployment": deployment}
    text = json.dumps(_printable(entry), indent=1, ensure_ascii=False)
    return re.sub(r": (\d+)e-", r": \1.0e-", text) + "\n"  # a text to YAML otherwise


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return list(map(_printable, value))
    return printable(value) if isinstance(value, str) else value
