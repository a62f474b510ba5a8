"""``skdpspectral-ledger``, with the making and the checking of statements."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..accounting import PrivacyAccountant
from ..accounting._errors import LedgerError
from ..accounting._ledger import command
from ..mechanisms import ParallelPlan, PrivacyPlan
from ._pages import record_in
from ._records import ledger_facts, record_of, software_versions
from ._statement import _NUMBERS, Statement, made_of, statement

_WRITERS: dict[str, Callable[[Statement], str]] = {
    "html": Statement.to_html,
    "json": Statement.to_json,
    "md": Statement.to_markdown,
    "yaml": Statement.to_registry_yaml,
}
# What to pass, by parameter of `statement`.
_HELP = {
    "title": "title of the page (default: what it is a statement of)",
    "curator": "person or organization responsible for the data",
    "intended_use": "what the results are used for",
    "description": "what the results are, in a sentence or two",
    "date": "date of the statement, such as 2026-01-31 (default: no date)",
    "unit_meaning": (
        "what one row or one user is, such as 'A row is a household.' Guarantees are "
        "per row or per user"
    ),
    "n_units": "number of rows or users, only if it is public",
    "units_per_person": (
        "largest number of rows or user ids that one person may have; the page says "
        "how well all of them together are protected"
    ),
    "tuning": (
        "what was chosen by looking at the data and is not in the ledger: parameters, "
        "features, models, the budget itself; say so if nothing was"
    ),
    "other_releases": (
        "what else was published about the same data and is not in the ledger: scores, "
        "summaries, plots, results of other tools; say so if nothing was"
    ),
    "failed_fits": "which fits failed, and what their errors showed to whom",
    "access": "who can read the data, and how they are secured",
    "collection": "how the data were collected, and how long they are kept",
    "utility": "how accurate the results are, and on which rows this was measured",
    "bias": "groups of people for whom the results are worse",
    "docs_url": (
        "address of this package's documentation, such as https://example.org/docs/, "
        "to which the page links its proofs"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 for good, 1 for faults, 2 for errors."""
    return command.run_command(arguments, (_add_statement, _add_verify))


def _add_statement(add: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add(
        "statement",
        _state,
        "Write a statement for people who are responsible for data.",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help=(
            "new file to write: a page (.html), the same as Markdown (.md) or JSON "
            "(.json), or an entry for OpenDP's registry of deployments (.yaml)"
        ),
    )
    said = parser.add_argument_group(
        "what the curator states",
        "The page shows these texts and numbers as they are given, and nobody checks "
        "them. What is left out is shown as not stated.",
    )
    for name, what in _HELP.items():
        kind, metavar = (int, "N") if name in _NUMBERS else (str, "TEXT")
        option = f"--{name.replace('_', '-')}"
        said.add_argument(option, type=kind, metavar=metavar, help=what)


def _add_verify(add: Callable[..., argparse.ArgumentParser]) -> None:
    what = "Check a statement against a ledger; exit with 1 if they differ."
    parser = add("verify", _verify, what, before="statement")
    parser.description = f"{what} What the curator states is not checked."


def _state(options: argparse.Namespace) -> int:
    ending = options.output.rpartition(".")[2].lower()
    if ending not in _WRITERS:
        raise ValueError(f"--output must end with one of {', '.join(_WRITERS)}")
    given = {name: getattr(options, name) for name in _HELP}
    made = statement(PrivacyAccountant(path=options.ledger), **given)
    with open(options.output, "x", encoding="utf-8", newline="\n") as file:
        file.write(_WRITERS[ending](made))
    return 0


def _verify(options: argparse.Namespace) -> int:
    with open(options.statement, encoding="utf-8", newline="") as file:
        text = file.read(_MOST + 1)
    if len(text) > _MOST:
        raise ValueError("the statement is too large to be valid")
    ledger = PrivacyAccountant(path=options.ledger)
    try:
        record = record_in(text)
        fault = next(statement_faults(text, record, ledger), None)
    except LedgerError:
        raise
    except Exception:  # damage has errors of every type
        fault = (
            "the statement has no record (a registry entry has none), or its record "
            "is damaged"
        )
    if fault is not None:
        print(command.plain(fault))
        return 1
    stated, later = record["ledger"] or {}, ""
    n, found = stated.get("entries"), len(ledger.ledger)
    if n is not None and n < found:
        later = f" It covers the first {n} entries: {found - n} came later."
    print(f"The statement matches the ledger.{later}")
    return 0


# Characters of a statement.
_MOST = 2**27


def statement_faults(
    text: str, record: Mapping[str, Any], ledger: PrivacyAccountant
) -> Iterator[str]:
    """Yield the differences of a statement and a ledger, a sentence each."""
    faults, _ = command.faults(ledger.path)
    yield from (f"the ledger is damaged: {fault}" for fault in faults)
    stated = record["ledger"]
    if stated is None:
        yield from _missing_entries(record, ledger)
    else:
        n, own, now = stated["entries"], len(ledger.ledger), record_of(ledger, {}, None)
        others = now["ledger"]["id"]
        if stated["id"] != others:
            yield (
                f"the statement is of a different ledger: {stated['id']}, not {others}"
            )
        if n > own:
            yield f"the statement has {n} entries, and the ledger {own}"
        then = ledger_facts(ledger.standing(n))
        if stated != then:
            yield f"entries 1 to {n} of the ledger do not match the statement"
        for name in ("kind", "name", "plans", "report", "n_units"):
            if record[name] != now[name]:
                yield f"the record's {name} does not match the ledger"
    made = made_of(record, None if stated is None else ledger)
    again = _WRITERS[_format_of(text)](made)
    if text != again:
        yield _first_difference(text, again, record)


def _format_of(text: str) -> str:
    if text.lstrip().startswith("{"):
        return "json"
    return "html" if '<pre id="record">' in text else "md"


def _first_difference(text: str, again: str, record: Mapping[str, Any]) -> str:
    """Return the first difference between a statement and its record."""
    letters = enumerate(itertools.zip_longest(text, again))
    at = next(place for place, (a, b) in letters if a != b)
    stated, right = (said[max(at - 30, 0) : at + 30] for said in (text, again))
    line, note = text.count("\n", 0, at) + 1, ""
    made_by = record["versions"]["skdpspectral"]
    if made_by != software_versions()["skdpspectral"]:
        note = f" (it was made by release {made_by}, which may word it differently)"
    return f"line {line} says {stated!r} where it must say {right!r}{note}"


def _missing_entries(
    record: Mapping[str, Any], accountant: PrivacyAccountant
) -> Iterator[str]:
    """Yield fits of a statement without an entry in the ledger."""
    entries = [PrivacyPlan.from_json(e.plan) for e in accountant.ledger]
    for _, fields in record["plans"]:
        plan = PrivacyPlan.from_json(json.dumps(fields))
        alike = (at for at, other in enumerate(entries) if _is_charged(plan, other))
        found = next(alike, None)
        if found is not None:
            del entries[found]  # each fit has one of its own
            continue
        yield (
            f"the ledger has no entry of {plan.estimator} with epsilon="
            f"{plan.epsilon:g}, delta={plan.delta:g} and these releases"
        )


def _is_charged(fitted: PrivacyPlan, charged: PrivacyPlan) -> bool:
    """Return whether a plan is the charged one, apart from remarks of the fit.

    Releases of a pipeline's steps get their shapes in the fit, at the cost charged.
    """
    if any(": " in mechanism.name for mechanism in fitted.mechanisms):
        costs = fitted.mu_beside_curves, charged.mu_beside_curves
        counts = len(fitted.curves), len(charged.curves)
        if math.isclose(*costs, rel_tol=1e-9) and counts[0] == counts[1]:
            fitted = replace(fitted, mechanisms=charged.mechanisms)
    both = [replace(plan, remarks=()) for plan in (fitted, charged)]
    for at, plan in enumerate(both):
        if isinstance(plan, ParallelPlan):
            blocks = ((n, replace(block, remarks=())) for n, block in plan.blocks)
            both[at] = replace(plan, blocks=tuple(blocks))
    return both[0] == both[1]


if __name__ == "__main__":
    sys.exit(main())
