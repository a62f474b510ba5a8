"""The questions of a statement with their answers: the texts of ``answers.txt``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

from ..accounting import gaussian_epsilon
from ..accounting._ledger.budget import Budget
from ..mechanisms import Assumption, Exact
from ..mechanisms._plan import Concern, Remark, by_weight
from ._records import MOST_SHOWN, Facts

# Remarks that the first part has; the others stand with their plans.
MOST_REMARKS = 4
# More than a million times as likely.
_HUGE = 13.8
# A number of rows beyond which there is no useful limit anyway.
_MANY = 10**300
_DULL = (Concern.MEASURED, Concern.OTHER)
_CHANGES = {
    "replace-one": "is replaced by any other",
    "add-remove-one": "joins or leaves",
    "zero-out-one": "is left out of every sum",
}
_OF_NOISE = "Of releases with noise alone: "
_ONLY_IF = " It holds only {.condition}."
_GUESSES = {
    "replace-one": "which of two {}s is in the data",
    "add-remove-one": "whether a {} is in the data",
    "zero-out-one": "whether a {} was left out",
}


def _rounded(x: float, digits: int) -> str:
    """Return a number rounded up."""
    short = Context(digits, ROUND_CEILING).create_decimal(Decimal(repr(x)))
    return f"{short.normalize():,f}" if abs(short) >= 1e-4 else f"{float(short):g}"


def number(x: float | None) -> str:
    """Return a bound as pages show it: rounded up."""
    return "unlimited" if x is None else _rounded(x, 5)


def _one_in(x: float) -> str:
    """Return a small probability in words, rounded up."""
    if x >= 0.01:
        return f"{_rounded(100.0 * x, 2)} %"
    inverse = Context(3, ROUND_FLOOR).divide(Decimal(1), Decimal(repr(x)))
    return f"1 in {int(inverse):,d}"


def _times(epsilon: float, delta: float) -> str:
    """Explain the largest change of probabilities: the definition in words."""
    if delta >= 1.0 or epsilon > _HUGE:
        return "no useful limit"
    said = f"at most {_rounded(math.exp(epsilon), 3)} times as likely"
    return f"{said}, plus a chance of {_one_in(delta)}" if delta > 0.0 else said


def _pair(facts: Facts) -> str:
    return f"epsilon = {number(facts.epsilon)}, delta = {facts.delta:g}"


def claim(facts: Facts) -> str:
    """Return the guarantee in one or two sentences."""
    if not facts.groups:
        return "Nothing has been released so far."
    if not facts.private:
        return f"There is no privacy protection. {facts.why_not}"
    becomes = f"becomes {_times(facts.epsilon or 0.0, facts.delta)}"
    if (facts.epsilon or 0.0) > _HUGE:
        becomes = "may become more than a million times as likely"
    noun = "one user, with all of their rows," if facts.unit == "user" else "one row"
    said = (
        f"If {noun} {_CHANGES[facts.neighbors]}, whatever anyone may conclude from the "
        f"results {becomes} ({_pair(facts)})."
    )
    said += "".join(f" This holds only {one.condition}." for one in facts.assumptions)
    if facts.budget:
        said += " This requires all computations to be planned beforehand."
    if _filtered(facts):
        most, delta = facts.budget["epsilon"], facts.budget["delta"]
        said += (
            f" In any case, the budget sets the limit: {_times(most, delta)} "
            f"(epsilon = {number(most)}, delta = {delta:g})."
        )
    return said + " An audit refutes it: see part two." * _refuted(facts)


def _filtered(facts: Facts) -> bool:
    """Return whether a budget holds, whatever results decided what was fitted next.

    What bounds of a model of rows cost is known only of fits chosen beforehand.
    """
    return bool(facts.budget) and Assumption.SPIKED_GAUSSIAN not in facts.assumptions


def _refuted(facts: Facts) -> bool:
    audit = facts.record["audit"] or {}
    claims = [audit.get("claimed_epsilon"), facts.epsilon]
    found = audit.get("epsilon")
    return found is not None and any(c is not None and found > c for c in claims)


def _ids(facts: Facts) -> str:
    return "user ids" if facts.unit == "user" else "rows"


def _odds_of_steps(n: float, epsilon: float, delta: float) -> str:
    """Return the promise of n steps from one data set to the other."""
    grown = n
    if n * epsilon > _HUGE:
        return _times(n * epsilon, delta)
    if epsilon > 0.0:
        grown = max(math.expm1(n * epsilon) / math.expm1(epsilon), 1.0)
    return _times(n * epsilon, delta * grown)


def _to_people(facts: Facts, odds: Callable[[float], str]) -> str:
    """Return a promise to people with several rows or user ids.

    That is as many as the curator states, or else some examples.
    """
    most = facts.stated.get("units_per_person")
    sizes = (2, 5, 10) if most is None else (most,)
    return "; ".join(
        f"{k:,d} {_ids(facts)}: {odds(float(min(k, _MANY)))}" for k in sizes
    )


def _group_odds(facts: Facts) -> str:
    """Return what follows from what was spent."""

    def odds(n: float) -> str:
        if facts.mu is not None:
            return _times(gaussian_epsilon(n * facts.mu, facts.delta), facts.delta)
        return _odds_of_steps(n, facts.epsilon or 0.0, facts.delta)

    return _to_people(facts, odds)


def _budget_odds(facts: Facts) -> str:
    """Return what follows from the budget, by its epsilon and delta alone.

    Its limit of mu is no bound: of delta, a part is for failures, and a first fit may
    be all of it.
    """
    most = facts.budget or {}
    return _to_people(
        facts, lambda n: _odds_of_steps(n, most["epsilon"], most["delta"])
    )


def _right_by_pair(epsilon: float, delta: float) -> str:
    """Return the largest success rate of guessing one bit, in percent."""
    odds = math.exp(-epsilon)
    return _rounded(100.0 * min(1.0, (1.0 + delta * odds) / (1.0 + odds)), 3)


def _right(facts: Facts) -> str:
    """Return the same by what is known of the mechanisms."""
    if facts.distance is None:
        return _right_by_pair(facts.epsilon or 0.0, facts.delta)
    return _rounded(50.0 * (1.0 + facts.distance), 3)


def _budget_left(facts: Facts) -> str:
    limit = Budget(facts.budget["epsilon"], facts.budget["delta"])
    said = limit.in_words(facts.epsilon or 0.0, facts.budget["remaining_epsilon"])
    return said if said[0].isupper() else f"The budget: {said}"


def _steps_left(facts: Facts) -> str:
    """Return the remaining steps of a stream, if public."""
    horizons = [
        getattr(m, "max_steps", None) for p in facts.plans for m in p.releases()
    ]
    made, most = facts.record["n_units"], min(filter(None, horizons), default=None)
    if facts.record["kind"] != "stream" or made is None:
        return ""
    if most is None or made >= most:
        return ""
    if any(getattr(m, "renewed", False) for p in facts.plans for m in p.releases()):
        return ""
    return (
        f"{made:,d} of {most:,d} steps were made. The other {most - made:,d} cost "
        "nothing further."
    )


def _remarks(facts: Facts) -> list[str]:
    found = [Remark.of(said) for plan in facts.plans for said in plan.remarks]
    told = [r for r in by_weight(found) if r.concern not in _DULL]
    return [" ".join(list(dict.fromkeys(told))[:MOST_REMARKS])] if told else []


def _kinds(facts: Facts) -> set[str]:
    return {release.kind for plan in facts.plans for release in plan.releases()}


_Told = Callable[[Facts], Any]

# Conditions, and what stands in braces; other names are attributes of the facts.
_VALUES: dict[str, _Told] = {
    "and_mu": lambda f: "" if f.mu is None else f", mu = {_rounded(f.mu, 6)}",
    "audit": lambda f: f.record["audit"],
    "budget_left": _budget_left,
    "budget_odds": _budget_odds,
    "budget_right": lambda f: _right_by_pair(f.budget["epsilon"], f.budget["delta"]),
    "change": lambda f: _CHANGES[f.neighbors],
    "charged": lambda f: (
        f"from {f.period[0]} to {f.period[1]}"
        if f.period[0] != f.period[1]
        else f"on {f.period[0]}"
    ),
    "claim": claim,
    "claimed": lambda f: number(f.record["audit"]["claimed_epsilon"]),
    "digest": lambda f: f.ledger["digest"] or "none",
    "divided": lambda f: f.asserted or f.parties,
    "divisions": lambda f: ", ".join(f.asserted),
    "epsilon": lambda f: number(f.epsilon),
    "exact": lambda f: {type(m) for p in f.plans for m in p.releases()} == {Exact},
    "exponential": lambda f: "exponential" in _kinds(f),
    "failed_fits": lambda f: "failed_fits" in f.stated,
    "filtered": _filtered,
    "gaussian": lambda f: f.mu is not None,
    "group_odds": _group_odds,
    "guess": lambda f: _GUESSES[f.neighbors].format(f.unit),
    "ids": _ids,
    "known": lambda f: f.record["n_units"] or f.stated.get("n_units"),
    "known_distance": lambda f: f.distance is not None,
    "mu": lambda f: _rounded(f.mu, 6),
    "n_clients": lambda f: f"{len(f.parties)} client{'s'[: len(f.parties) > 1]}",
    "n_entries": lambda f: (
        "1 entry" if f.ledger["entries"] == 1 else f"{f.ledger['entries']} entries"
    ),
    "n_parties": lambda f: len(f.parties),
    "n_units": lambda f: f.stated.get("n_units"),
    "named": lambda f: "thresholded-gaussian" in _kinds(f),
    "node_noise": lambda f: "node" in f.noise_by,
    "of_noise": lambda f: "" if f.private or f.seeded else _OF_NOISE,
    "only_if": lambda f: "".join(_ONLY_IF.format(a) for a in f.assumptions),
    "own": lambda f: not all(group["external"] for group in f.groups),
    "pair": _pair,
    "promised": lambda f: f.private and f.groups,
    "pair_right": lambda f: _right_by_pair(f.epsilon, f.delta),
    "refuted": _refuted,
    "released": lambda f: f.groups,
    "report": lambda f: f.record["report"] is not None,
    "rho": lambda f: _rounded(0.5 * f.mu**2, 4),
    "right": _right,
    "searched": lambda f: f.record["kind"] == "search" or "exponential" in _kinds(f),
    "searching": lambda f: f.record["kind"] == "search",
    "secret": lambda f: f.neighbors == "add-remove-one",
    "server_noise": lambda f: "server" in f.noise_by,
    "several_parties": lambda f: len(f.parties) > 1,
    "spiked": lambda f: Assumption.SPIKED_GAUSSIAN in f.assumptions,
    "steps_left": _steps_left,
    "stream": lambda f: f.record["kind"] == "stream",
    "several": lambda f: f.stated.get("units_per_person") != 1,
    "unit_meaning": lambda f: "unit_meaning" in f.stated,
    "units_per_person": lambda f: f.stated.get("units_per_person"),
    "user": lambda f: f.unit == "user",
    "versions": lambda f: ", ".join(
        f"{k} {v}" for k, v in f.record["versions"].items()
    ),
    "weak": lambda f: f.epsilon > 10.0,
}
# What "@" puts in, besides questions and what the curator states.
_LISTS: dict[str, Callable[[Facts], list[str]]] = {
    "assumptions": lambda f: (
        [f"The promise holds only {one.condition}." for one in f.assumptions]
        or ["Nothing is assumed of the values in the data."]
    ),
    "remarks": _remarks,
}


class _Values(dict[str, Any]):
    """Values of facts by name, each computed where a text needs it."""

    def __init__(self, facts: Facts):
        self.facts = facts

    def __missing__(self, name: str) -> Any:
        told = _VALUES.get(name)
        value = getattr(self.facts, name) if told is None else told(self.facts)
        return self.setdefault(name, value)

    def meet(self, conditions: list[str]) -> bool:
        """Return whether all conditions hold, and none of those with "!"."""
        return all(bool(self[c.lstrip("!")]) != c.startswith("!") for c in conditions)


def _lines() -> Iterator[tuple[str, list[str], str]]:
    """Yield the mark, the conditions and the text of each line of ``answers.txt``."""
    text = Path(__file__).with_name("answers.txt").read_text(encoding="utf-8")
    for line in re.sub(r"\n  (?=\S)", " ", text).splitlines():
        match = re.match(r"(==|\?|-) (?:\[(.*?)\] )?(.*)", line)
        if match:
            yield match[1], (match[2] or "").split(), match[3]


_LINES = tuple(_lines())


def questions_answered(facts: Facts) -> dict[str, list[tuple[str, list[str]]]]:
    """Return the questions of each part, with the paragraphs of their answers."""
    values = _Values(facts)
    parts: dict[str, list[tuple[str, list[str]]]] = {}
    above: dict[str, list[str]] = {}
    for mark, conditions, text in _LINES:
        if mark == "==":
            part = parts[text] = []
        elif mark == "?":
            answer = above[text] = []
            asked = values.meet(conditions)
            if asked:
                part.append((text.format_map(values), answer))
        elif asked and values.meet(conditions):
            if not text.startswith("@"):
                answer.append(text.format_map(values))
            elif text[1:] in above:
                answer += [said for said in above[text[1:]] if said not in answer]
            elif text[1:] in _LISTS:
                answer += _LISTS[text[1:]](facts)
            elif text[1:] in facts.stated:
                answer += ["The curator states:", str(facts.stated[text[1:]])]
            else:
                answer.append("Not stated by the curator.")
    return parts


def shown_of(shown: int, all_of_them: int) -> str:
    """Say that a table has been cut, if it has."""
    if all_of_them <= MOST_SHOWN:
        return ""
    return f"The first {shown} of {all_of_them}; the ledger's export lists them all."
