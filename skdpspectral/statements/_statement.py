"""The statement: what was promised, on a page, as JSON, Markdown and registry entry."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from ..accounting import PrivacyAccountant
from ..accounting._ledger.step_shares import SHARES_OF_STEPS
from ..mechanisms import Gaussian, ParallelPlan, PrivacyPlan, shown
from ..mechanisms._plan import on_one_line, release_rows
from ._answers import claim, questions_answered, shown_of
from ._pages import html_page, lemmas_of, lemmas_of_step, markdown_page
from ._records import MOST_SHOWN, Facts, facts_of, record_of
from ._registry import REGISTRY_FIELDS, as_registry_yaml

FORMAT = "skdpspectral-statement-1"


@dataclass(frozen=True, repr=False)
class Statement:
    """Document of the privacy guarantees of releases, created by :func:`statement`.

    Equal inputs give identical bytes. The contents are parameters, plans, ledger
    entries, and information given by the curator. No data are read.
    """

    _facts: Facts
    _content: dict[str, Any] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Not a cached property: a child that is forked would inherit its lock.
        object.__setattr__(self, "_content", _content(self._facts))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that follow ``skdpspectral/statements/schema.json``."""
        return json.loads(self.to_json())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the statement as JSON, with NaN and infinity replaced by null.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        text = json.dumps(self._content, indent=1, allow_nan=False)
        return _written(f"{text}\n", path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the statement as one HTML page, without scripts or requests.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        return _written(html_page(self._content), path)

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the statement as Markdown, with user-provided text escaped.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        return _written(markdown_page(self._content), path)

    def to_registry_yaml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an entry for OpenDP's registry of deployments, following its schema.

        Missing information is marked by ``TODO``. With a `path`, the entry is also
        written to this file; an existing file is replaced.
        """
        return _written(as_registry_yaml(self._facts, self._content), path)

    def _repr_html_(self) -> str:
        return html_page(self._content, page=False)

    def __str__(self) -> str:
        return f"{self._content['title']}\n{self._content['claim']}"

    def __repr__(self) -> str:
        subject = self._content["subject"]
        return f"Statement({subject['kind']} {subject['name']})"


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return text


# What a curator states in numbers.
_NUMBERS = ("n_units", "units_per_person")


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
    failed_fits: str | None = None,
    access: str | None = None,
    collection: str | None = None,
    utility: str | None = None,
    bias: str | None = None,
    docs_url: str | None = None,
    audit: Any = None,
    registry: Mapping[str, str] | None = None,
) -> Statement:
    """Create a statement of privacy guarantees, for those responsible for the data.

    The first part is one page in plain language, the second part is for auditors, and
    the appendix answers the questions of NIST SP 800-226. Nothing is released.

    Parameters
    ----------
    of : fitted estimator, PrivacyAccountant or FederatedResult
        A fitted private estimator, a pipeline of private estimators, a private search,
        an unfinished stream, a result of a federation, or a ledger with its entries.
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
    failed_fits : str or None, default=None
        Fits that failed.
    access : str or None, default=None
        Who has access to the data, and how the data are secured.
    collection : str or None, default=None
        How the data were collected, and how long they are kept.
    utility : str or None, default=None
        Accuracy of the results, by public or private measures.
    bias : str or None, default=None
        Groups that the results serve less well.
    docs_url : str or None, default=None
        Root URL of the documentation of this package, for links to proofs.
    audit : AuditResult or None, default=None
        Result of :func:`~skdpspectral.audit.audit_epsilon`.
    registry : mapping of str to str or None, default=None
        Other fields of the registry entry, such as
        ``{"data_product_region": "Global"}``.

    Returns
    -------
    Statement
        Has ``to_html``, ``to_json``, ``to_markdown`` and ``to_registry_yaml``, and is
        displayed as a page in notebooks.

    Raises
    ------
    TypeError
        If `of` has no plan and is not a ledger, or a parameter has the wrong type.
    ValueError
        If `date` is not a date, `n_units` or `units_per_person` is below 1, or
        `registry` has an unknown field.
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
    stated = {k: v for k, v in locals().items() if k not in ("of", "audit")}
    for name, text in stated.items():
        if name in ("date", *_NUMBERS, "registry") or text is None:
            continue
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a string or None, got {shown(text)}")
    if docs_url is not None and not re.match(r"https?://", docs_url):
        raise ValueError(f"docs_url must begin with https://, got {docs_url!r}")
    for name in _NUMBERS:
        number = stated[name]
        if number is not None and not isinstance(number, Integral):
            raise TypeError(f"{name} must be an integer or None, got {shown(number)}")
        stated[name] = None if number is None else int(number)
        _check_number(name, stated[name])
    stated["date"] = _checked_date(date)
    stated["registry"] = _checked(registry)
    accountant = of if isinstance(of, PrivacyAccountant) else None
    return made_of(record_of(of, stated, audit), accountant)


def made_of(
    record: Mapping[str, Any], accountant: PrivacyAccountant | None
) -> Statement:
    """Return the statement of a record, with its ledger, if any."""
    for name in _NUMBERS:  # also of a record of anybody's
        _check_number(name, record["stated"].get(name))
    return Statement(facts_of(record, accountant))


def _check_number(name: str, number: Any) -> None:
    if number is not None and not (type(number) is int and number >= 1):
        raise ValueError(f"{name} must be at least 1, got {shown(number)}")


def _checked_date(date: Any) -> str | None:
    if date is None:
        return None
    try:
        return datetime.date.fromisoformat(str(date)[:10]).isoformat()
    except ValueError:
        raise ValueError(
            f"date must have the form 2026-01-31, got {shown(date)}"
        ) from None


def _checked(registry: Any) -> dict[str, str]:
    given = dict(registry or {})
    unknown = sorted(given.keys() - REGISTRY_FIELDS)
    if unknown:
        known = ", ".join(sorted(REGISTRY_FIELDS))
        raise ValueError(f"registry has unknown fields {unknown}; known: {known}")
    for name, text in given.items():
        if not isinstance(text, str):
            raise TypeError(f"registry[{name!r}] must be a string, got {shown(text)}")
    return given


def _content(facts: Facts) -> dict[str, Any]:
    """Return what a statement says, in plain values."""
    record, stated = facts.record, facts.stated
    parts = {
        part: [{"question": asked, "answer": said} for asked, said in answers]
        for part, answers in questions_answered(facts).items()
    }
    title = stated.get("title") or f"Privacy statement: {record['name']}"
    given = {
        k: stated.get(k) for k in ("curator", "intended_use", "description", "date")
    }
    return {
        "format": FORMAT,
        "title": title,
        **given,
        "subject": {"kind": record["kind"], "name": record["name"]},
        "claim": claim(facts),
        "guarantee": {
            "private": facts.private,
            "epsilon": facts.epsilon if facts.private else None,
            "delta": facts.delta,
            "mu": facts.mu if facts.private else None,
            "unit": facts.unit or None,
            "neighbors": facts.neighbors or None,
            "assumptions": list(map(str, facts.assumptions)),
            "seeded": facts.seeded,
        },
        "budget": facts.budget,
        "ledger": record["ledger"],
        "for_the_person_responsible": parts["for_the_person_responsible"],
        "groups": list(facts.groups),
        "more_groups": shown_of(len(facts.groups), facts.n_groups),
        "for_the_auditor": parts["for_the_auditor"],
        "report": record["report"],
        "plans": list(map(_plan, facts.plans, facts.headings)),
        "more_plans": facts.n_plans - len(facts.plans),
        "docs_url": stated.get("docs_url"),
        "nist_sp_800_226": parts["nist_sp_800_226"],
        "record": record,
    }


def _short(x: float | None) -> str:
    return f"{x:.6g}" if x else ""


def _few(names: list[str]) -> str:
    """Return the first names, and how many others there are."""
    others = f" and {len(names) - 3} others" if len(names) > 3 else ""
    return on_one_line(", ".join(names[:3])) + others


_OF_STEPS = (
    "This is what a pipeline was charged before its fit: each line bounds the cost of "
    "all releases of a step together. The releases themselves, with noise, sensitivity "
    "and lemma, are listed by a statement of the fitted pipeline, and by "
    "privacy_.details() of it."
)


def _is_of_steps(plan: PrivacyPlan) -> bool:
    """Return whether a plan is the charge of a pipeline, with a cost for each step."""
    if not plan.noisy or not plan.releases():
        return False
    named = plan.estimator == "PrivatePipeline" or any(
        said.startswith(SHARES_OF_STEPS) for said in plan.remarks
    )
    return named and all(
        isinstance(m, Gaussian)
        and (m.sensitivity, m.magnitude, m.shape) == (1.0, 1.0, (1,))
        and ": " not in m.name  # releases of a fit have the names of their steps
        for m in plan.releases()
    )


def _steps(plan: PrivacyPlan) -> list[tuple[str, ...]]:
    """Return the table of a pipeline's charge: no figures of single releases."""
    more = {
        "kind": lambda release, _: release.kind,
        "grid": lambda *_: "",
        "lemmas": lambda release, _: " ".join(lemmas_of_step(release)),
    }
    found = []
    for step in plan.releases():
        heads, row = release_rows([(step, "")], more)
        cells = dict(zip(heads, row, strict=True))
        hidden = dict.fromkeys(("shape", "noise sd", "sensitivity"), "")
        found.append(tuple({**cells, "times": "all", **hidden}.values()))
    return [heads, *found]


def _plan(plan: PrivacyPlan, heading: str) -> dict[str, Any]:
    """Return what plans say of themselves, with the lemmas of their releases."""
    more = {
        "kind": lambda release, _: release.kind,
        "grid": lambda release, _: _short(getattr(release, "grid", None)),
        "lemmas": lambda release, choice: " ".join(
            lemmas_of(release, choice, str(plan.unit))
        ),
    }
    sentences = plan.sentences()
    if _is_of_steps(plan):
        sentences.append(_OF_STEPS)
    alike: dict[Any, tuple[list[str], PrivacyPlan]] = {}
    if isinstance(plan, ParallelPlan):
        for name, block in plan.blocks:
            alike.setdefault(block.mechanisms, ([], block))[0].append(name)
    said = shown_of(MOST_SHOWN, len(alike))
    sentences += [f"Releases of clients: {said}"] if said else []
    heads, *rows = _steps(plan) if _is_of_steps(plan) else plan.table(more)
    groups = list(alike.values())[:MOST_SHOWN]
    if groups:  # plan.table() is of one of the clients
        rows = [
            (f"{_few(alike_names)}: {row[0]}", *row[1:])
            for alike_names, block in groups
            for row in block.table(more)[1:]
        ]
    table = [["unlimited" if c == "inf" else c for c in row] for row in (heads, *rows)]
    names = {"estimator": plan.estimator, "heading": heading}
    return {**names, "sentences": sentences, "releases": table}
