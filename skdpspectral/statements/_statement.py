"""The statement: what was promised, as a page, a record and a registry entry."""

from __future__ import annotations

import datetime
import html
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from ..accounting import PrivacyAccountant
from ..mechanisms import PrivacyPlan, html_table, shown
from ..mechanisms._plan import HEADS, on_one_line
from ._facts import (
    EXTERNAL,
    FORMAT,
    MOST_SHOWN,
    NUMBERS,
    Facts,
    claim,
    finite,
    fit_facts,
    for_the_auditor,
    for_the_person_responsible,
    ledger_facts,
    number,
    software_versions,
    title_of,
)


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
    yield _tagged("h1", title_of(facts))
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
        f"<title>{html.escape(printable(title_of(facts)))}</title>\n"
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
            "name": title_of(facts),
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
        },
        "administrative": {
            "status": "Draft",
            "registry_authors": [stated["curator"]],
            "tier": 1,
        },
    }
    slug = re.sub(r"[^a-z0-9]+", "-", title_of(facts).lower()).strip("-") or "todo"
    entry = {"url_slug": slug, "deployment": deployment}
    text = json.dumps(_printable(entry), indent=1, ensure_ascii=False)
    return re.sub(r": (\d+)e-", r": \1.0e-", text) + "\n"  # a text to YAML otherwise


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return list(map(_printable, value))
    return printable(value) if isinstance(value, str) else value


# -- the document ---------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Statement:
    """Document of the privacy guarantees of releases, created by :func:`statement`.

    Equal inputs give identical bytes. The contents are parameters, plans, ledger
    entries, and information given by the curator. No data are read.
    """

    _facts: Facts

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values: format, title, claim, and all facts."""
        return json.loads(self.to_json())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the record as JSON, in which infinite numbers are null.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        words = {"format": FORMAT, "title": title_of(self._facts)}
        record = {**words, "claim": claim(self._facts), **vars(self._facts)}
        return _written(f"{json.dumps(record, indent=1, allow_nan=False)}\n", path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the statement as one HTML page, without scripts or requests.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        return _written(html_page(self._facts, self.to_json()), path)

    def to_registry(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an entry for OpenDP's registry of deployments, following its schema.

        It is JSON, and therefore YAML. Missing information is marked by ``TODO``. With
        a `path`, it is also written to this file; an existing file is replaced.
        """
        return _written(registry_entry(self._facts), path)

    def _repr_html_(self) -> str:
        return html_page(self._facts, self.to_json(), page=False)

    def __str__(self) -> str:
        return f"{title_of(self._facts)}\n{claim(self._facts)}"

    def __repr__(self) -> str:
        return f"Statement({self._facts.kind} {self._facts.name})"


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return text


def statement(
    of: Any,
    *,
    title: str | None = None,
    curator: str | None = None,
    intended_use: str | None = None,
    description: str | None = None,
    date: str | datetime.date | None = None,
    unit_meaning: str | None = None,
    n_units: int | None = None,
    units_per_person: int | None = None,
    tuning: str | None = None,
    other_releases: str | None = None,
) -> Statement:
    """Create a statement of privacy guarantees, for those responsible for the data.

    The first part is one page in plain language, the second part is for auditors.
    Nothing is released.

    Parameters
    ----------
    of : fitted estimator or PrivacyAccountant
        A fitted private estimator, private pipeline or private search, an unfinished
        stream, or a ledger with its entries.
    title : str or None, default=None
        Title of the page.
    curator : str or None, default=None
        Person or organization responsible for the data.
    intended_use : str or None, default=None
        Intended use of the results.
    description : str or None, default=None
        Description of the results.
    date : str or date or None, default=None
        Date of the statement, such as ``"2026-01-31"``. The clock is not read: without
        `date`, pages only contain the dates of the ledger.
    unit_meaning : str or None, default=None
        Meaning of one row or one user.
    n_units : int or None, default=None
        Number of rows or users, if it is public.
    units_per_person : int or None, default=None
        Largest possible number of rows or user ids of one person, at least 1, such as
        the number of visits that are kept per patient.
    tuning : str or None, default=None
        Choices made on the data without a charge, such as parameters, features, models
        or the budget itself. State explicitly if there were none.
    other_releases : str or None, default=None
        Other publications based on the same data: scores, summaries, plots.

    Returns
    -------
    Statement
        Has ``to_html``, ``to_json`` and ``to_registry``, and is displayed as a page in
        notebooks.

    Raises
    ------
    TypeError
        If `of` has no plan and is not a ledger, or a parameter has the wrong type.
    ValueError
        If `date` is not a date, or `n_units` or `units_per_person` is below 1.
    LedgerError
        If the ledger cannot be read.

    Examples
    --------
    >>> from skdpspectral import DPPCA, statement
    >>> from skdpspectral.datasets import load_digits
    >>> digits = load_digits()
    >>> pca = DPPCA(n_components=2, epsilon=1.0, bounds=digits.bounds).fit(digits.data)
    >>> page = statement(pca, title="Digits", tuning="Nothing was.")
    >>> print(page)  # doctest: +ELLIPSIS
    Digits
    If one row is replaced by any other, whatever anyone may conclude from ...
    >>> page.to_html().startswith("<!DOCTYPE html>")
    True
    """
    given = {k: v for k, v in locals().items() if k != "of"}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if name in NUMBERS:
            if not isinstance(value, Integral):
                raise TypeError(f"{name} must be an integer, got {shown(value)}")
            given[name] = int(value)
        elif name != "date" and not isinstance(value, str):
            raise TypeError(f"{name} must be a string or None, got {shown(value)}")
    if date is not None:
        try:
            given["date"] = datetime.date.fromisoformat(str(date)[:10]).isoformat()
        except ValueError:
            raise ValueError(
                f"date must have the form 2026-01-31, got {shown(date)}"
            ) from None
    more: dict[str, Any] = {
        "stated": {name: value for name, value in given.items() if value != ""},
        "versions": software_versions(),
    }
    if isinstance(of, PrivacyAccountant):
        return Statement(ledger_facts(of, **more))
    of = _with_plan(of)
    n = getattr(of, "n_samples_", getattr(of, "n_samples_seen_", None))
    return Statement(fit_facts(of.privacy_, None if n is None else int(n), **more))


def _with_plan(of: Any) -> Any:
    """Return a fitted estimator that has one plan, or explain why there is none."""
    if isinstance(getattr(of, "privacy_", None), PrivacyPlan):
        return of
    if hasattr(of, "steps") or hasattr(of, "estimator") or hasattr(of, "transformers"):
        raise TypeError(
            f"the fits of a {type(of).__name__} are charged one by one, and no ledger "
            "can tell which of them belong together: pass statement the "
            "PrivacyAccountant, or fit with make_private_pipeline or PrivateSearchCV"
        )
    raise TypeError(
        "of must be a fitted private estimator, a fitted PrivatePipeline or a "
        f"PrivacyAccountant, got a {type(of).__name__} that has no privacy_"
    )
