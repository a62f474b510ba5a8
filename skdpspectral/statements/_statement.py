"""The statement: what was promised, as a page, a record and a registry entry.

Facts are plain values, from one plan or from entries of a ledger. Each question that a
statement answers has an answer in plain words.
"""

from __future__ import annotations

import datetime
import html
import json
import math
import os
import platform
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..accounting import PrivacyAccountant, gaussian_epsilon
from ..mechanisms import (
    Assumption,
    Concern,
    Neighbors,
    ParallelPlan,
    PrivacyPlan,
    SharedGaussian,
    Unit,
    html_table,
    shown,
)
from ..mechanisms._plan import (
    HEADS,
    NODE_NOISE,
    SERVER_NOISE,
    by_weight,
    on_one_line,
)

FORMAT = "skdpspectral-statement-5"
# Groups of entries that a page shows.
MOST_SHOWN = 40
# Facts that no ledger has.
UNCONFIRMED = ("stated", "versions")
# What a curator states in numbers.
NUMBERS = ("n_units", "units_per_person")
# The kind of what is entered on the word of others.
EXTERNAL = "approximate-dp"
_CURVES = {"sampled-gaussian", "subsampled-gaussian", "approximate-dp"}


class Facts(SimpleNamespace):
    """What a statement has, in values of JSON that :func:`_facts` lists."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        numbers = {name: self.stated.get(name) for name in NUMBERS}
        for name, number in (*numbers.items(), ("n_units", self.n_units)):
            if number is not None and not (type(number) is int and number >= 1):
                raise ValueError(f"{name} must be at least 1, got {shown(number)}")

    @property
    def private(self) -> bool:
        """Whether there is a guarantee, of nothing or of something."""
        return self.why_not is None

    @property
    def promised(self) -> bool:
        """Whether something was released with a guarantee."""
        return self.private and bool(self.entries)

    @property
    def conditions(self) -> list[str]:
        """Conditions of the guarantee, to follow on "only"."""
        return [Assumption(name).condition for name in self.assumptions]

    @property
    def curves(self) -> bool:
        """Whether costs are privacy curves, which no ``mu`` describes."""
        return not _CURVES.isdisjoint(self.kinds)

    @property
    def external(self) -> bool:
        """Whether other tools have spent something."""
        return EXTERNAL in self.kinds

    @property
    def limit(self) -> tuple[float, float] | None:
        """What a budget bounds, whatever results decided what was fitted next."""
        if self.budget is None or Assumption.SPIKED_GAUSSIAN in self.assumptions:
            return None
        return self.budget["epsilon"], self.budget["delta"]

    def read_plans(self) -> list[PrivacyPlan]:
        """Return the plans that are shown."""
        return [PrivacyPlan.from_json(json.dumps(own["plan"])) for own in self.entries]


def facts_in(record: Mapping[str, Any]) -> Facts:
    """Return the facts of a record; an error for no record of ours."""
    if record["format"] != FORMAT:
        raise ValueError(f"the statement is not of the format {FORMAT}")
    words = ("format", "title", "claim")
    return Facts(**{k: value for k, value in record.items() if k not in words})


def software_versions() -> dict[str, str]:
    """Return the versions of what a fit in this process computes with."""
    own = sys.modules["skdpspectral"].__version__
    others = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"skdpspectral": own, "python": platform.python_version(), **others}


def finite(x: float) -> float | None:
    """Return a number, or None if it is infinite."""
    return x if math.isfinite(x) else None


def ledger_facts(
    accountant: PrivacyAccountant, n_entries: int | None = None, **more: Any
) -> Facts:
    """Return the facts of a ledger after some entries."""
    found = accountant._standing(n_entries)
    ledger = {"id": found.terms["id"], "entries": len(found.entries)}
    ledger["digest"] = found.digest
    days = [f"{entry.time:%Y-%m-%d}" for entry in found.entries]
    ledger |= {"first_day": days[0], "last_day": days[-1]} if days else {}
    return _facts("ledger", "PrivacyAccountant", found, ledger=ledger, **more)


_KINDS = {
    "PrivatePipeline": "pipeline",
    "PrivateSearchCV": "search",
    "JMECovariance": "stream",
}


def fit_facts(plan: PrivacyPlan, n_units: int | None = None, **more: Any) -> Facts:
    """Return the facts of one fit, by its plan and a number of rows, if public."""
    alone = PrivacyAccountant()
    alone.charge(plan)
    kind = _KINDS.get(plan.estimator, "estimator")
    kind = "federation" if isinstance(plan, ParallelPlan) else kind
    public = plan.unit is Unit.ROW and plan.neighbors is not Neighbors.ADD_REMOVE_ONE
    more |= {"n_units": n_units if public else None, "entries": [_group([], plan)]}
    # What was asked for, to the last digit.
    more |= {"epsilon": finite(plan.epsilon), "delta": plan.delta}
    return _facts(kind, plan.estimator, alone._standing(), **more)


def _parties(plan: PrivacyPlan) -> Iterator[str]:
    """Yield who adds the noise of sums over groups of users, and where clients are."""
    shares = [m.n_shares for m in plan.releases() if isinstance(m, SharedGaussian)]
    if max(shares, default=1) > 1:
        yield "parts"
    if NODE_NOISE in plan.remarks or (shares and min(shares) == 1):
        yield "node"
    if SERVER_NOISE in plan.remarks:
        yield "server"
    if isinstance(plan, ParallelPlan):
        trust = any(one.concern is Concern.TRUST for one in plan.remarks)
        yield "separate" if trust else "together"


def _facts(kind: str, name: str, found: Any, **more: Any) -> Facts:
    entries, total, budget = found.entries, found.total, found.budget
    alike: dict[tuple[str, str | None], list[Any]] = {}
    for entry in entries:
        alike.setdefault((entry.plan, entry.label), []).append(entry)
    plans = [PrivacyPlan.from_json(text) for text, _ in alike]
    epsilon = found.spent().epsilon
    void = [plan.guarantee() for plan in plans if not plan.private]
    remarks = (remark for plan in plans for remark in plan.remarks)
    void += [str(said) for said in remarks if said.concern is Concern.LEAK]
    void += ["The total cost has no limit at this delta."] * (epsilon == math.inf)
    unit, neighbors = map(str, (entries and found.relation) or ("", ""))
    blocks = (name for plan in plans for name, _ in getattr(plan, "blocks", ()))
    if budget is not None:
        pair = {"epsilon": budget.epsilon, "delta": budget.delta}
        budget = {**pair, "remaining_epsilon": found.remaining().epsilon}
    own = {
        "kind": kind,
        "name": name,
        "why_not": next(iter(void), None),  # there is no guarantee
        "epsilon": finite(epsilon),  # None if it is infinite
        "delta": found.delta,
        # Unless all mechanisms are Gaussian.
        "mu": None if total.curves or total.failure else finite(total.mu),
        "distance": total.distance,  # None if epsilon and delta alone bound it
        "unit": unit,
        "neighbors": neighbors,
        "assumptions": sorted({str(e.assumption) for e in entries} - {"none"}),
        "seeded": any(entry.seeded for entry in entries),
        "budget": budget,
        "ledger": None,
        # Groups of equal plans and labels, some of n_groups.
        "entries": list(map(_group, alike.values(), plans))[:MOST_SHOWN],
        "n_groups": len(plans),
        "kinds": sorted({m.kind for plan in plans for m in plan.releases()}),
        "n_clients": len(set(blocks)),
        "parties": sorted({how for plan in plans for how in _parties(plan)}),
        "n_units": None,  # rows that a fit has seen, if public
    }
    return Facts(**{**own, **more})


def _group(entries: list[Any], plan: PrivacyPlan) -> dict[str, Any]:
    """Return entries that have the same plan and label; none of a fit alone."""
    n, ends = len(entries), sorted({e.id for e in (*entries[:1], *entries[-1:])})
    label = entries[0].label if entries else None
    return {"n_entries": n, "ends": ends, "label": label, "plan": plan.to_dict()}


# -- answers ---------------------------------------------------------------------------

Answers = list[tuple[str, list[str]]]

# Remarks that the first part has; the others stand with their plans.
_MOST_REMARKS = 4
# More than a million times as likely.
_HUGE = 13.8
# A number of rows beyond which there is no useful limit anyway.
_MANY = 10**300
# What happens to a unit, and what somebody may have to guess.
_CHANGES = {
    "replace-one": ("is replaced by any other", "which of two {}s is in the data"),
    "add-remove-one": ("joins or leaves", "whether a {} is in the data"),
    "zero-out-one": ("is left out of every sum", "whether a {} was left out"),
}


# -- numbers in words, rounded up ------------------------------------------------------


def _rounded(x: float, digits: int, way: str = ROUND_CEILING) -> str:
    short = Context(digits, way).create_decimal(Decimal(repr(x)))
    return f"{short.normalize():,f}" if abs(short) >= 1e-4 else f"{float(short):g}"


def number(x: float | None) -> str:
    """Return a bound as pages show it."""
    return "unlimited" if x is None else _rounded(x, 5)


def _times(epsilon: float, delta: float) -> str:
    """Explain the largest change of probabilities: the definition in words."""
    if delta >= 1.0 or epsilon > _HUGE:
        return "no useful limit"
    said = f"at most {_rounded(math.exp(epsilon), 3)} times as likely"
    if delta <= 0.0:
        return said
    inverse = Context(3, ROUND_FLOOR).divide(Decimal(1), Decimal(repr(delta)))
    chance = f"{_rounded(100.0 * delta, 2)} %" if delta >= 0.01 else ""
    return f"{said}, plus a chance of {chance or f'1 in {int(inverse):,d}'}"


def _times_of_steps(n: float, epsilon: float, delta: float) -> str:
    """Return the promise of n steps from one data set to the other."""
    grown = n
    if epsilon > 0.0 and n * epsilon <= _HUGE:
        grown = max(math.expm1(n * epsilon) / math.expm1(epsilon), 1.0)
    return _times(n * epsilon, delta * grown)


def _pair(epsilon: float | None, delta: float) -> str:
    return f"epsilon = {number(epsilon)}, delta = {delta:g}"


def claim(facts: Facts) -> str:
    """Return the guarantee in one or two sentences."""
    if not facts.entries:
        return "Nothing has been released so far."
    if not facts.private:
        return f"There is no privacy protection. {facts.why_not}"
    epsilon = facts.epsilon or 0.0
    becomes = f"becomes {_times(epsilon, facts.delta)}"
    if epsilon > _HUGE:
        becomes = "may become more than a million times as likely"
    noun = "one user, with all of their rows," if facts.unit == "user" else "one row"
    said = [
        f"If {noun} {_CHANGES[facts.neighbors][0]}, whatever anyone may conclude from "
        f"the results {becomes} ({_pair(facts.epsilon, facts.delta)}).",
        *(f"This holds only {condition}." for condition in facts.conditions),
    ]
    if facts.budget:
        said.append("This requires all computations to be planned beforehand.")
    if facts.limit:
        said.append(
            f"In any case, the budget sets the limit: {_times(*facts.limit)} "
            f"({_pair(*facts.limit)})."
        )
    return " ".join(said)


def title_of(facts: Facts) -> str:
    """Return the title, as it was given or by what the statement is of."""
    return str(facts.stated.get("title") or f"Privacy statement: {facts.name}")


# -- the person responsible ------------------------------------------------------------


def _answered(asked: dict[str, Iterable[Any]]) -> Answers:
    """Return the questions that have answers, without empty paragraphs."""
    found = ((question, list(filter(None, said))) for question, said in asked.items())
    return [(question, said) for question, said in found if said]


def _stated(facts: Facts, name: str) -> str:
    said = facts.stated.get(name)
    return (
        "Not stated by the curator." if said is None else f"The curator states: {said}"
    )


def _several(facts: Facts, ids: str) -> Iterator[str]:
    """Yield how people with several rows or user ids are protected."""
    most, limit = facts.stated.get("units_per_person"), facts.limit
    if most == 1:
        yield "The curator states that no person has more than one."
        return

    def odds(n: float) -> str:
        if limit:  # whatever was fitted, and however it was chosen
            return _times_of_steps(n, *limit)
        if facts.mu is not None:
            return _times(gaussian_epsilon(n * facts.mu, facts.delta), facts.delta)
        return _times_of_steps(n, facts.epsilon or 0.0, facts.delta)

    yield f"A person with several {ids} is protected less than this page says."
    if most:
        yield f"The curator states that no person has more than {most}."
    elif "unit_meaning" not in facts.stated:
        yield f"How many {ids} a person may have: not stated by the curator."
    if "spiked-gaussian" in facts.assumptions:
        yield "How much less is not known: the promise rests on a model of single rows."
        return
    sizes = (2, 5, 10) if most is None else (most,)
    each = (f"{k:,d} {ids}: {odds(float(min(k, _MANY)))}" for k in sizes)
    yield f"If all of them change, {'; '.join(each)}."
    if facts.ledger and not limit:
        yield "Like the total, this assumes that all fits were planned in advance."


_AMONG = (
    "The server and the other clients are among them. Each client is trusted with its "
    "own rows."
)
_HOLDERS = "Not against those who hold or process the data: they are trusted."
_NOISY = "noisy releases, the names of clients and their numbers of rows, never a row."
# By how others take part, the weakest promise first: against whom it holds, and what
# they see.
_PARTIES = {
    "parts": (
        "It holds against those who see only sums over all parties, and no single "
        "part. Each party is trusted with its own rows, and to add its share of noise.",
        "Each party adds a share of the noise. Those who see the message of one party, "
        "as a server does if no mask hides it, learn more about that party.",
    ),
    "server": (
        "Not against the server that adds the noise: it is trusted with exact sums of "
        "each client. Each client is trusted with its own rows.",
        "Each client sends exact sums over its users to a server, which adds the "
        "noise. The server sees these sums. All others see noisy sums, never a row.",
    ),
    "separate": (
        _AMONG,
        f"Each client adds noise before anything leaves it. Others see {_NOISY}",
    ),
    "node": (
        _AMONG,
        "Each client adds all of the noise before anything leaves it. Others see noisy "
        "sums, never a row.",
    ),
    "together": (
        _HOLDERS,
        "The rows of all clients were in one program, and whoever ran it could see "
        f"them. On machines of their own, a server would see {_NOISY}",
    ),
    "ledger": (_HOLDERS, "A ledger does not record other parties."),
    "alone": (_HOLDERS, "As far as this fit knows, no other party took part."),
}


def _remarks(facts: Facts) -> str:
    found = by_weight(said for plan in facts.read_plans() for said in plan.remarks)
    dull = Concern.MEASURED, Concern.OTHER
    told = dict.fromkeys(said for said in found if said.concern not in dull)
    return " ".join(list(told)[:_MOST_REMARKS])


def _strength(facts: Facts) -> Iterator[Any]:
    """Yield how strong the protection is, as the success of a guess."""
    odds = math.exp(-(facts.epsilon or 0.0))
    worst = 100.0 * min(1.0, (1.0 + facts.delta * odds) / (1.0 + odds))
    right = by_pair = _rounded(worst, 3)
    why = "the worst of all methods with this epsilon and delta."
    if facts.distance is not None:
        right = _rounded(50.0 * (1.0 + facts.distance), 3)
        why = (
            "the noise that was used. From epsilon and delta alone, for the worst of "
            f"all methods, it would be {by_pair} %."
        )
    yield claim(facts)
    yield (
        "For example, somebody has to guess "
        f"{_CHANGES[facts.neighbors][1].format(facts.unit)}, and both are equally "
        f"likely. With the results, the guess is right in at most {right} % of cases. "
        f"Without them, it is 50 %. This is the limit for {why}"
    )
    yield (
        "The results describe the whole group, and may therefore suggest something "
        "about one person. They would do so even without that person's data."
    )


def _spent(facts: Facts) -> Iterator[Any]:
    """Yield what was spent, and what is left."""
    if not facts.private:
        yield "No figure limits what was given away."
        return
    if facts.kind == "stream":
        yield "All steps of the stream, those to come included, are paid for together."
    yield f"Spent: {_pair(facts.epsilon, facts.delta)}."
    if not facts.ledger:
        yield (
            "This page is of one fit. A ledger has all else that was spent on the same "
            "rows: ask for the statement of that ledger. Of a step of a pipeline, or "
            "the best_estimator_ of a search, ask for the statement of the whole."
        )
    elif not (budget := facts.budget):
        yield "No budget limits what may follow."
    else:
        left = _rounded(budget["remaining_epsilon"], 5, ROUND_FLOOR)
        yield (
            f"The budget is epsilon = {budget['epsilon']:g} at delta = "
            f"{budget['delta']:g}. The ledger refuses what would exceed it, before any "
            f"value is read. One more fit may cost up to epsilon = {left}; costs do "
            "not add up linearly."
        )


def for_the_person_responsible(facts: Facts) -> Answers:
    """Answer in plain words; without a promise, no figure and no comfort."""
    ledger, unit, kinds, stated = facts.ledger, facts.unit, facts.kinds, facts.stated
    promised, private = facts.promised, facts.private
    ids = "user ids" if unit == "user" else "rows"
    others = [name for name in _PARTIES if name in facts.parties]
    weaker = [name for name in others if name in ("parts", "server")]
    how = weaker or others[:1] or ["ledger" if ledger else "alone"]
    n = facts.n_units or stated.get("n_units")
    secret, public = facts.neighbors == "add-remove-one", f"number of {unit}s"
    rely = "rely only on the budget" if facts.limit else "it is not a promise"
    who = "Each user, with all of their rows: one value of the column of users."
    of_promises: dict[str, Iterable[Any]] = {
        f"What if one person has several {ids}?": _several(facts, ids),
        "Against whom?": [
            "Against anybody who sees the results, even if they know all other rows.",
            *(_PARTIES[name][0] for name in how),
        ],
        "How strong is the protection?": _strength(facts),
        "Is the number of people or rows secret?": [
            f"Yes. The {public} is protected."
            if secret
            else f"No. The {public} is taken to be public{f': {n}' if n else ''}.",
            secret and n and f"The curator states it all the same: {n}.",
        ],
        "What do a server and other parties see?": [
            facts.n_clients and f"The data are those of {facts.n_clients} clients.",
            *(_PARTIES[name][1] for name in how),
            others
            and "Somebody with rows at several clients is protected less than this "
            "page says.",
        ],
        "What does the promise rest on?": [
            *(f"The promise holds only {each}." for each in facts.conditions),
            not facts.conditions and "Nothing is assumed of the values in the data.",
            "server" in how
            and "The server adds the planned noise, and shows nobody the exact sums.",
            ledger
            and "The total assumes that all fits were planned in advance. If results "
            f"decided what was fitted next, {rely}.",
            "The program is unchanged, and nobody can predict its random numbers.",
        ],
    }
    asked: dict[str, Iterable[Any]] = {
        "Who is protected?": [
            not private and f"Nobody. {facts.why_not}",
            private and not promised and "Nothing was released.",
            promised and (who if unit == "user" else "Every single row of the data."),
            "unit_meaning" in stated and _stated(facts, "unit_meaning"),
        ],
        **(of_promises if promised else {}),
        "What is not protected?": [
            "Names and types of columns, classes, categories, bounds, and all other "
            "parameters. They are public, and must not have been read off the data.",
            "How long a computation took, how much memory it used, and its errors.",
            "Exact scores, plots, summaries, and results that are not in the figures.",
            ledger and "What other steps read, except for those of a PrivatePipeline.",
            facts.kind == "stream"
            and "The state of the running stream, and saved copies of it, which reveal "
            "rows. Keep them like the data, and never run two copies.",
            "Predictions and transformed rows of private data.",
            others and "Which clients there are.",
            facts.n_clients and "How many rows each client has.",
        ]
        if private
        else ["All that was learned from the data."],
        "Was anything chosen or tuned on the data outside this account?": [
            promised
            and (facts.kind == "search" or "exponential" in kinds)
            and "The figures have the cost of a private search. Anything else:",
            _stated(facts, "tuning"),
            promised
            and "What the curator names here is not in the figures: the promise does "
            "not cover what a choice by looking at the data reveals.",
        ],
        "Were the same data used for other releases?": [
            _stated(facts, "other_releases"),
            facts.external
            and "Entries of other tools, on their word, are in the figures.",
        ],
        "What was released?": [
            not facts.entries and "Nothing so far.",
            ledger and facts.entries and "The releases in the table of entries.",
            not private and "Values from the data, which noise does not protect.",
            private
            and not ledger
            and "The noisy releases that part two lists, and what follows from them.",
            promised
            and "thresholded-gaussian" in kinds
            and "Frequent texts of the table are released as they are; texts of a "
            f"single {unit} are hidden, except with a small probability.",
            promised and _remarks(facts),
        ],
        "What has been spent, and what is left?": _spent(facts),
        "What if a fit failed?": [
            "It stays charged: a cost is entered before any value is read. The figures "
            "include every failed fit."
            if ledger
            else "Failed fits cost privacy as well. They are in a ledger, if there was "
            "one, and not in these figures, which cover only this fit.",
        ],
        "How can this be checked?": [
            "Ask for the ledger's file and run: skdpspectral-ledger verify STATEMENT "
            "LEDGER. It makes the statement again from the ledger's entries, and names "
            "what no ledger can confirm. Both may have been rewritten together."
            if ledger
            else "Ask for the statement of its ledger, which can be made again.",
        ],
    }
    return _answered(asked)


# -- the auditor -----------------------------------------------------------------------


def _composition(facts: Facts) -> Iterator[Any]:
    """Yield how costs were added up."""
    if not facts.promised:
        yield "No total is stated."
        return
    if facts.curves:
        yield (
            "Some costs are privacy curves: totals are upper bounds by privacy-loss "
            "distributions, for mechanisms fixed beforehand (lemma dominating)."
        )
    elif "exponential" in facts.kinds:
        yield "Choices by votes have a mu as an upper bound."
    else:
        yield "All mechanisms are Gaussian, and totals are exact."
    if not facts.curves:
        yield (
            "Squares of mu add up, also where later releases of a fit were chosen by "
            "earlier ones (lemma composition)."
        )
        if facts.mu is None:
            yield "A probability of failure is included in delta."
    if facts.budget:
        yield (
            "The budget is a filter whose limits were fixed when the ledger was made. "
            "It holds for entries chosen adaptively (lemma box-filter)"
            f"{'' if facts.limit else ', but not for bounds of a model of rows'}."
        )
    elif facts.ledger:
        yield "Without a budget, a total is no bound if results chose when to state it."
    if facts.n_clients:
        yield "The disjoint rows of clients cost what those of the dearest cost."


def for_the_auditor(facts: Facts) -> Answers:
    """Answer what an auditor asks, with names of lemmas."""
    promised, private, ledger = facts.promised, facts.private, facts.ledger or {}

    own = set(facts.kinds) - {EXTERNAL, "exact"}
    drawn = (
        "A seed that was given: no privacy against anybody who knows it."
        if facts.seeded
        else "Noise comes from a cryptographic generator (AES-128 in counter mode, or "
        "ChaCha20), with fresh keys of the operating system for each fit. The "
        "guarantee holds if nobody can tell its output from truly random numbers."
    )
    mu = "" if facts.mu is None else f", mu = {_rounded(facts.mu, 6)}"
    n, days = ledger.get("entries"), [ledger.get(f"{k}_day") for k in ("first", "last")]
    asked: dict[str, Iterable[Any]] = {
        "Guarantee": [
            not private and f"None. {facts.why_not}",
            private and not promised and "Nothing was released so far.",
            promised
            and f"({number(facts.epsilon)}, {facts.delta:g})-differential privacy{mu}, "
            f"per {facts.unit} under {facts.neighbors}: neighboring data differ in "
            f"that a {facts.unit} {_CHANGES[facts.neighbors][0]}.",
            *(promised and f"It holds only {each}." for each in facts.conditions),
            promised
            and facts.mu is not None
            and "Gaussian differential privacy with this mu gives epsilon at any "
            f"delta. It is zero-concentrated with rho = "
            f"{_rounded(0.5 * facts.mu**2, 4)}.",
        ],
        "Composition": _composition(facts),
        "Noise": [
            facts.kinds == ["exact"] and "No noise was added.",
            own
            and "Values and noise are added exactly, on a grid of a power of two that "
            "the table of releases has. Rounding to it, and errors of summation, are "
            "part of each mu (lemmas grid and charge).",
            own and drawn,
            facts.external and "Nothing is known of other tools' entries.",
        ],
        "Software": [
            ", ".join(f"{name} {version}" for name, version in facts.versions.items()),
            "Of the process that made this statement: a ledger has no versions.",
        ],
        "Ledger": [
            f"{'1 entry' if n == 1 else f'{n} entries'} of the ledger {ledger['id']}."
            if ledger
            else "A statement of a fit alone.",
            "separate" in facts.parties
            and not ledger
            and "Each client has a ledger of its own, and can make a statement of it.",
            n
            and f"Charged on {' to '.join(dict.fromkeys(days))}, by the clock of their "
            "hosts, in UTC.",
            ledger
            and f"Digest of all entries: {ledger['digest'] or 'none'}. It has no key.",
        ],
    }
    return _answered(asked)


# -- tables ----------------------------------------------------------------------------


def lemmas_of(mechanism: Any, choice: str = "") -> list[str]:
    """Return the lemmas of a release by name: of its sensitivity, then of its cost."""
    names = [*mechanism.lemma.split(), *mechanism.cost_lemma.split()]
    if mechanism.lemma == "composition":
        names = names[:1] if mechanism.kind == "gaussian" else names
    elif names and getattr(mechanism, "symmetric", False):
        names.insert(-1, "symmetric-noise")
    names += ["chosen-branch"] * bool(choice and names)
    return list(dict.fromkeys(names))


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
