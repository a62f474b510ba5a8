"""The words of a statement: questions with answers, for three readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from ..accounting import gaussian_epsilon
from ..accounting._ledger.budget import Budget
from ..mechanisms import Assumption, Exact
from ..mechanisms._report import Concern, Remark, by_weight
from ._records import MOST_SHOWN, Facts

# Remarks that the first part has; the others stand with their plans.
MOST_REMARKS = 4

Answers = list[tuple[str, list[str]]]

_UNSTATED = "Not stated by the curator."
_CHANGES = {
    "replace-one": "is replaced by any other",
    "add-remove-one": "joins or leaves",
    "zero-out-one": "is left out of every sum",
}


def _rounded(x: float, digits: int, rounding: str = ROUND_CEILING) -> str:
    """Return a number that is no smaller, if not told otherwise."""
    short = Context(digits, rounding).create_decimal(Decimal(repr(x)))
    return f"{short.normalize():,f}" if abs(short) >= 1e-4 else f"{float(short):g}"


def number(x: float | None) -> str:
    """Return a bound as pages show it: rounded up."""
    return "unlimited" if x is None else _rounded(x, 5)


def one_in(x: float) -> str:
    """Return a small probability in words, rounded up."""
    if x >= 0.01:
        return f"{_rounded(100.0 * x, 2)} %"
    inverse = Context(3, ROUND_FLOOR).divide(Decimal(1), Decimal(repr(x)))
    return f"1 in {int(inverse):,d}"


# More than a million times as likely.
_HUGE = 13.8


def _times(epsilon: float, delta: float) -> str:
    """Say how much likelier anything may become: the definition in words."""
    if delta >= 1.0 or epsilon > _HUGE:
        return "no useful limit"
    said = f"at most {_rounded(math.exp(epsilon), 3)} times as likely"
    return f"{said}, plus a chance of {one_in(delta)}" if delta > 0.0 else said


def _stated(facts: Facts, name: str) -> list[str]:
    """Return the words of the curator, in a paragraph of their own."""
    found = facts.stated.get(name)
    return [_UNSTATED] if found is None else ["The curator states:", str(found)]


def _pair(facts: Facts) -> str:
    return f"epsilon = {number(facts.epsilon)}, delta = {facts.delta:g}"


def _change(facts: Facts) -> str:
    noun = "one user, with all of their rows," if facts.unit == "user" else "one row"
    return f"{noun} {_CHANGES[facts.neighbors]}"


def claim(facts: Facts) -> str:
    """Return the whole in a sentence or two."""
    if not facts.groups:
        return "Nothing was released so far."
    if not facts.private:
        return f"There is no privacy protection. {facts.why_not}"
    epsilon = facts.epsilon or 0.0
    becomes = f"becomes {_times(epsilon, facts.delta)}"
    if epsilon > _HUGE:
        becomes = "may become more than a million times as likely"
    said = (
        f"If {_change(facts)}, whatever anyone may conclude from the results {becomes} "
        f"({_pair(facts)})."
    )
    for one in facts.assumptions:
        said += f" This holds only {one.condition}."
    return said + " An audit refutes it: see part two." * _refuted(facts)


def _refuted(facts: Facts) -> bool:
    audit = facts.record["audit"] or {}
    claims = [audit.get("claimed_epsilon"), facts.epsilon]
    found = audit.get("epsilon")
    return found is not None and any(c is not None and found > c for c in claims)


# -- for the person responsible --------------------------------------------------------


def plain_answers(facts: Facts) -> Answers:
    """Return the first part: no mathematics."""
    asked: list[tuple[str, Iterable[str]]] = [
        ("Who is protected?", _who(facts)),
        ("What is not protected?", _not_covered(facts)),
        (
            "Was anything chosen or tuned on the data outside this account?",
            _stated(facts, "tuning"),
        ),
        ("Were the same data used for other releases?", _other_releases(facts)),
        ("What was released?", _released(facts)),
        ("What has been spent, and what is left?", _spent(facts)),
        ("What if a fit failed?", _failed(facts)),
        ("How can this be checked?", _checks(facts)),
    ]
    if _promises(facts):
        asked[1:1] = [
            (f"What if one person has several {_ids(facts)}?", _several_rows(facts)),
            ("Against whom?", _against(facts)),
            ("How strong is the protection?", _strength(facts)),
            ("Is the number of people or rows secret?", _number_of_units(facts)),
        ]
        asked[-4:-4] = [
            ("What do a server and other parties see?", _parties(facts)),
            ("What does the promise rest on?", _assumptions(facts)),
        ]
    return [(question, list(found)) for question, found in asked]


def _promises(facts: Facts) -> bool:
    return facts.private and bool(facts.groups)


def _who(facts: Facts) -> Iterator[str]:
    if not facts.private:
        yield f"Nobody. {facts.why_not}"
    elif not facts.groups:
        yield "Nothing was released, so that nothing can be learned of anybody."
    elif facts.unit == "user":
        yield "Each user, with all of their rows: one value of the column of users."
    else:
        yield "Each single row of the data."
    if "unit_meaning" in facts.stated:
        yield from _stated(facts, "unit_meaning")


def _several_rows(facts: Facts) -> Iterator[str]:
    yield f"A person with several {_ids(facts)} is protected less than this page says."
    if Assumption.SPIKED_GAUSSIAN in facts.assumptions:
        yield "How much less is not known: the promise rests on a model of single rows."
    else:
        odds = (f"{k} {_ids(facts)}: {_group_odds(facts, k)}" for k in (2, 5, 10))
        yield f"If all of them change, {'; '.join(odds)}."
    if "unit_meaning" not in facts.stated:
        yield f"How many {_ids(facts)} a person may have: not stated by the curator."


def _ids(facts: Facts) -> str:
    return "user ids" if facts.unit == "user" else "rows"


def _group_odds(facts: Facts, k: int) -> str:
    assert facts.epsilon is not None
    if facts.mu is not None:
        return _times(gaussian_epsilon(k * facts.mu, facts.delta), facts.delta)
    # Of k steps from one data set to the other.
    grown = sum(math.exp(min(i * facts.epsilon, 700.0)) for i in range(k))
    return _times(k * facts.epsilon, facts.delta * grown)


def _against(facts: Facts) -> Iterator[str]:
    yield (
        "Against anybody who sees what was released, whatever they know already: also "
        "if they know all other rows of the data."
    )
    if facts.separate and not facts.summed:
        yield (
            "The server and the other clients are among them. Each client is trusted "
            "with its own rows."
        )
    elif facts.summed:
        yield "It holds against those who see sums over all parties, and no part alone."
        yield "Each party is trusted with its own rows, and to add its share of noise."
    else:
        yield "Not against those who hold or process the data: they are trusted."


def _strength(facts: Facts) -> Iterator[str]:
    yield claim(facts)
    assert facts.epsilon is not None
    odds = math.exp(-facts.epsilon)
    most = _rounded(100.0 * min(1.0, (1.0 + facts.delta * odds) / (1.0 + odds)), 3)
    what = f"which of two {facts.unit}s is in the data"
    if facts.neighbors == "add-remove-one":
        what = f"whether a {facts.unit} is in the data"
    elif facts.neighbors == "zero-out-one":
        what = f"whether a {facts.unit} was left out"
    yield (
        f"For example, whoever has to guess {what}, where both are equally likely, is "
        f"right with a chance of at most {most} %. Without the results it is 50 %."
    )
    if facts.epsilon > 10.0:
        yield "This is little protection by itself."
    yield (
        "What the results say of everybody may still say something about a person. It "
        "would be said without that person's data, too."
    )


def _number_of_units(facts: Facts) -> Iterator[str]:
    known, given = facts.record["n_units"], facts.stated.get("n_units")
    if facts.neighbors == "add-remove-one":
        yield f"Yes. The number of {facts.unit}s is protected."
        if given:
            yield f"The curator states it all the same: {given}."
        return
    yield f"No. The number of {facts.unit}s is taken to be public" + (
        f": {known or given}." if known or given else "."
    )


def _not_covered(facts: Facts) -> Iterator[str]:
    if not facts.private:
        yield "All that was learned from the data."
        return
    yield (
        "What is taken to be public: names and types of columns, classes and "
        "categories that were given, bounds, and every other parameter. They must not "
        "have been read off the data."
    )
    yield "How long a computation took, how much memory it used, and its errors."
    yield (
        "Exact scores, plots and summaries, and results of other tools that are not in "
        "the figures."
    )
    if facts.ledger:
        yield "What other steps read from the data: a ledger does not know of them."
    yield "Predictions and transformed rows of private data, which are like these rows."
    if facts.parties:
        yield "Which clients there are, and how many rows each of them has."


def _other_releases(facts: Facts) -> Iterator[str]:
    yield from _stated(facts, "other_releases")
    if facts.external:
        yield "Entries of other tools, on their word, are in the figures."


def _parties(facts: Facts) -> Iterator[str]:
    n = len(facts.parties)
    seen = (
        "noisy releases, the names of clients and their numbers of rows, and never a "
        "row"
    )
    if facts.summed:
        yield (
            "Parties add a share of the noise each. Who sees sums alone has the "
            "promise of this page. Who sees the message of one party, as a server does "
            "if no mask hides it, learns more of it."
        )
    elif facts.separate:
        yield (
            f"The data are those of {n} clients. Each adds noise before anything "
            f"leaves it. The server and the others see {seen}."
        )
    elif n:
        yield (
            f"The rows of {n} client{'s'[: n > 1]} were in one program, and whoever "
            "ran it could see them. Each client's releases have noise of their own: on "
            f"machines of their own, a server would see {seen}."
        )
    elif facts.ledger:
        yield "A ledger does not record other parties."
    else:
        yield "No server and no other party took part, as far as this fit knows."
    if n > 1:
        yield "Somebody with rows at several clients is a person with several rows."


def _assumptions(facts: Facts) -> Iterator[str]:
    for one in facts.assumptions:
        yield f"The promise holds only {one.condition}."
    if not facts.assumptions:
        yield "Nothing is assumed of the values in the data."
    yield "Bounds, classes and other settings must not have been taken from the data."
    if facts.asserted:
        yield "It rests on somebody's word that blocks of these divisions are disjoint:"
        yield ", ".join(facts.asserted)
    if facts.external:
        yield "What other tools spent is taken at their word."
    if facts.ledger:
        yield (
            "The total takes all fits to be planned beforehand. If results decided "
            "what was fitted next, "
            + ("rely on the budget alone." if facts.budget else "it is no promise.")
        )
    yield (
        "The program is unchanged, and nobody can predict the random numbers that its "
        "noise is made of."
    )
    if facts.private:
        yield "Rounding by the computer is counted in the figures" + (
            ", but for those of other tools." if facts.external else "."
        )


def _released(facts: Facts) -> Iterator[str]:
    if not facts.groups:
        yield "Nothing so far."
        return
    if facts.ledger:
        yield "What the table of entries lists."
    elif facts.private:
        yield (
            f"What {facts.record['name']} learned from the data: the noisy releases "
            "that part two lists, and what follows from them."
        )
    else:
        yield "Values from the data, which noise does not protect."
    found = [Remark.of(said) for plan in facts.plans for said in plan.remarks]
    told = [r for r in by_weight(found) if r.concern not in _DULL]
    if told and facts.private:
        yield " ".join(list(dict.fromkeys(told))[:MOST_REMARKS])


_DULL = (Concern.MEASURED, Concern.OTHER)


def _spent(facts: Facts) -> Iterator[str]:
    if not facts.private:
        yield "No figure limits what was given away."
        return
    if facts.record["kind"] == "stream":
        yield "All steps of the stream, those to come included, are paid for together."
    if facts.budget is None:
        yield f"Spent: {_pair(facts)}."
        yield "No budget limits what may follow" + (
            "." if facts.ledger else ", as far as this statement knows."
        )
        return
    budget, left = Budget(facts.budget["epsilon"], facts.budget["delta"]), facts.budget
    said = budget.in_words(facts.epsilon or 0.0, left["remaining_epsilon"])
    yield said if said[0].isupper() else f"The budget: {said}"
    yield "The ledger refuses what would exceed the budget, before any value is read."


def _failed(facts: Facts) -> Iterator[str]:
    if facts.ledger:
        yield (
            "It stays charged: a cost is entered before any value is read, and counts "
            "whether or not there was a result. The figures include every failed fit. "
            "What the ledger refused released nothing, and is not in them."
        )
    else:
        yield (
            "Earlier fits, those that failed too, cost privacy as well. They are in "
            "the ledger that they were charged to, if there was one, and not in these "
            "figures, which are of this fit alone."
        )
    if "failed_fits" in facts.stated:
        yield from _stated(facts, "failed_fits")
    else:
        yield "Which fits failed: not stated by the curator."


def _checks(facts: Facts) -> Iterator[str]:
    yield (
        "The command skdpspectral-ledger verify STATEMENT LEDGER makes this statement "
        "again from the ledger's file, and reports changed figures, removed entries "
        "and a ledger that is not the right one. It can't check what the curator "
        "states, versions, the number of rows, verdicts on leaks, or an audit, nor "
        "notice that both files were rewritten together."
    )
    if _refuted(facts):
        yield "AN AUDIT REFUTES THE PROMISE: part two has its figures."
    elif facts.record["audit"]:
        yield "An audit tried to break the promise and could not: see part two."
    elif facts.record["report"]:
        yield (
            "The settings of each step were looked at for leaks: part two has the "
            "verdicts."
        )


# -- for the auditor -------------------------------------------------------------------


def auditor_answers(facts: Facts) -> Answers:
    """Return the second part, beside its tables."""
    versions = ", ".join(f"{k} {v}" for k, v in facts.record["versions"].items())
    report = "Not in a ledger: privacy_report tells them of a pipeline."
    if facts.record["report"] is not None:
        report = "Verdicts of privacy_report on the steps, from their parameters alone:"
    return [
        ("Guarantee", [_guarantee(facts)]),
        ("Composition", list(_composition(facts))),
        ("Floating point", _noise(facts, _FLOATS)),
        (
            "Source of randomness",
            _noise(facts, _random(facts)),
        ),
        ("Software", [versions, _VERSIONS]),
        ("Ledger", list(_ledger(facts))),
        ("Leaks", [report]),
        ("Audit", list(_audit(facts))),
    ]


_FLOATS = (
    "Values and noise lie on a grid of a power of two, far finer than the noise (the "
    "table of releases has it), on which they add exactly. Rounding to it, and errors "
    "of summation, are part of the sensitivity by which each mu is computed (lemmas "
    "grid and charge)."
)
_RANDOM = (
    "A cryptographic generator in counter mode (AES-128, or ChaCha20 where the "
    "processor has no AES), with fresh keys of the operating system that no two fits "
    "share. The guarantee is that of truly random noise, as far as nobody can tell its "
    "output from that."
)
_SEEDED = (
    "A seed that was given (noise_seed): there is no privacy against who knows it."
)
_VERSIONS = (
    "Of the process that made this statement; a ledger does not record versions."
)


def _guarantee(facts: Facts) -> str:
    if not facts.private:
        return f"None. {facts.why_not}"
    if not facts.groups:
        return "Nothing was released so far."
    mu = "" if facts.mu is None else f", mu = {_rounded(facts.mu, 6)}"
    return (
        f"({number(facts.epsilon)}, {facts.delta:g})-differential privacy{mu}, per "
        f"{facts.unit} under {facts.neighbors}: neighboring data differ in that a "
        f"{facts.unit} {_CHANGES[facts.neighbors]}."
        + "".join(f" It holds only {one.condition}." for one in facts.assumptions)
    )


def _noise(facts: Facts, said: str) -> list[str]:
    """Return what is said of noise, as far as there is any, and is ours."""
    kinds = {type(m) for plan in facts.plans for m in plan.releases()}
    own = [said] if any(not group["external"] for group in facts.groups) else []
    if kinds == {Exact}:
        own = ["No noise was added."]
    elif not facts.private and not facts.seeded:
        own = [f"Of releases with noise alone: {one}" for one in own]
    others = "Nothing is known of this in other tools' entries."
    return [*own, *[others] * facts.external]


def _random(facts: Facts) -> str:
    return _SEEDED if facts.seeded else _RANDOM


def _composition(facts: Facts) -> Iterator[str]:
    if not _promises(facts):
        yield "No total is stated."
        return
    if facts.curves:
        yield (
            "Some costs are privacy curves: totals are upper bounds by privacy-loss "
            "distributions, for mechanisms that were fixed beforehand (lemma "
            "dominating)."
        )
    else:
        yield (
            "All mechanisms are Gaussian: squares of mu add up, exactly, also where "
            "later releases of a fit were chosen by earlier ones (lemma composition)."
        )
        if facts.mu is None:
            yield "What may fail has a probability of its own, which delta includes."
    if facts.ledger and not facts.budget:
        yield "Without a budget, a total is no bound if results chose when to state it."
    if facts.budget:
        yield (
            "The budget is a filter whose limits were fixed when the ledger was made; "
            "it holds for entries that were chosen adaptively (lemma box-filter)."
        )
    if facts.asserted or facts.parties:
        yield "Disjoint blocks of one division cost what the dearest of them costs."


def _ledger(facts: Facts) -> Iterator[str]:
    if facts.ledger is None:
        yield "A statement of a fit alone: verify looks for its entry in a ledger."
        if facts.separate:
            yield "Each client has a ledger of its own, and can make a statement of it."
        return
    yield f"{facts.ledger['entries']} entries of the ledger {facts.ledger['id']}."
    if facts.period:
        first, last = facts.period
        yield f"Charged from {first} to {last}, by the clock of their hosts, in UTC."
    yield f"Digest of all entries: {facts.ledger['digest'] or 'none'}. It has no key."


def _audit(facts: Facts) -> Iterator[str]:
    audit = facts.record["audit"]
    if audit is None:
        yield "No result of an audit was given."
        return
    yield (
        f"Lower bound on epsilon by {audit['n_trials']:g} fits on each of two "
        f"neighbors: {audit['epsilon']:.5g} at delta = {audit['delta']:g}, with "
        f"confidence {audit['confidence']:g}; the audited fit claims "
        f"{number(audit['claimed_epsilon'])}. A bound above a claim at this delta "
        "refutes it; one below does not prove it."
    )


# -- NIST SP 800-226 -------------------------------------------------------------------


def nist_answers(facts: Facts) -> Answers:
    """Return the appendix: what NIST SP 800-226 asks, by its sections."""
    threats = parameters = who = list(_who(facts))
    if _promises(facts):
        who = [*who, *_several_rows(facts)]
        threats = [*_against(facts), *_parties(facts)]
        parameters = [f"{_pair(facts)}."]
    noise = dict.fromkeys([*_noise(facts, _FLOATS), *_noise(facts, _random(facts))])
    return [
        ("2.2 Which privacy parameters?", parameters),
        ("2.3 Which variant of differential privacy?", [_variant(facts)]),
        ("2.4 Which unit of privacy?", who),
        ("2.5 With what may the guarantee be compared?", [_COMPARED]),
        ("2.6 Are there other releases of the same data?", [*_other_releases(facts)]),
        ("3.1 Which mechanisms, and how is sensitivity bounded?", [_MECHANISMS]),
        ("3.2 How accurate are the results?", _stated(facts, "utility")),
        ("3.3 Which biases may there be?", [_BIAS, *_stated(facts, "bias")]),
        ("3.5 How were models and their parameters chosen?", _stated(facts, "tuning")),
        ("4.1 Who may ask queries?", [_queries(facts)]),
        ("4.2 Which threats, and who is trusted?", threats),
        (
            "4.3 How is the implementation protected?",
            [*noise, "Running time and memory are not: nobody else may observe them."],
        ),
        ("4.4 How are data and access secured?", _stated(facts, "access")),
        ("4.5 How exposed are the collected data?", _stated(facts, "collection")),
    ]


_COMPARED = (
    "With guarantees of the same unit, the same relation of neighbors and the same "
    "delta alone."
)
_MECHANISMS = (
    "The table of releases has noise, sensitivity and the lemmas that bound it."
)
_BIAS = (
    "Noise is unbiased where it is added; clipping, thresholds and what follows need "
    "not be, and small groups lose more than large ones."
)


def _variant(facts: Facts) -> str:
    if not _promises(facts):
        return "None."
    if facts.mu is None:
        return "Approximate, (epsilon, delta)."
    return (
        f"Gaussian differential privacy with mu = {_rounded(facts.mu, 6)}, which gives "
        "epsilon at any delta. It is zero-concentrated with rho = "
        f"{_rounded(0.5 * facts.mu**2, 4)}."
    )


def _queries(facts: Facts) -> str:
    if facts.ledger is None:
        return "Nobody: results are published as they are."
    return "Whoever may charge the ledger: see the labels in the table of entries."


def shown_of(shown: int, all_of_them: int) -> str:
    """Say that a table has been cut, if it has."""
    if all_of_them <= MOST_SHOWN:
        return ""
    return f"The first {shown} of {all_of_them}; the ledger's export lists them all."
