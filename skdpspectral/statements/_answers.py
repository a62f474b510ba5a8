"""The questions that a statement answers, with their answers in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from ..accounting import gaussian_epsilon
from ..mechanisms import Concern, Remark
from ..mechanisms._plan import by_weight
from ._facts import Facts

# Remarks that the first part has; the others stand with their plans.
_MOST_REMARKS = 4
# More than a million times as likely.
_HUGE = 13.8
# A number of rows beyond which there is no useful limit anyway.
_MANY = 10**300
_CHANGES = {
    "replace-one": "is replaced by any other",
    "add-remove-one": "joins or leaves",
    "zero-out-one": "is left out of every sum",
}
_GUESSES = {
    "replace-one": "which of two {}s is in the data",
    "add-remove-one": "whether a {} is in the data",
    "zero-out-one": "whether a {} was left out",
}


# -- numbers in words, rounded up ------------------------------------------------------


def _rounded(x: float, digits: int) -> str:
    short = Context(digits, ROUND_CEILING).create_decimal(Decimal(repr(x)))
    return f"{short.normalize():,f}" if abs(short) >= 1e-4 else f"{float(short):g}"


def number(x: float | None) -> str:
    """Return a bound as pages show it."""
    return "unlimited" if x is None else _rounded(x, 5)


def _one_in(x: float) -> str:
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


def _times_of_steps(n: float, epsilon: float, delta: float) -> str:
    """Return the promise of n steps from one data set to the other."""
    grown = n
    if epsilon > 0.0 and n * epsilon <= _HUGE:
        grown = max(math.expm1(n * epsilon) / math.expm1(epsilon), 1.0)
    return _times(n * epsilon, delta * grown)


def _right(epsilon: float, delta: float) -> str:
    """Return the largest success rate of guessing one bit, in percent."""
    odds = math.exp(-epsilon)
    return _rounded(100.0 * min(1.0, (1.0 + delta * odds) / (1.0 + odds)), 3)


def _pair(facts: Facts) -> str:
    return f"epsilon = {number(facts.epsilon)}, delta = {facts.delta:g}"


def _only(facts: Facts, text: str = "It holds only") -> str:
    return "".join(f" {text} {condition}." for condition in facts.conditions)


def claim(facts: Facts) -> str:
    """Return the guarantee in one or two sentences."""
    if not facts.entries:
        return "Nothing has been released so far."
    if not facts.private:
        return f"There is no privacy protection. {facts.why_not}"
    epsilon, budget = facts.epsilon or 0.0, facts.budget
    becomes = f"becomes {_times(epsilon, facts.delta)}"
    if epsilon > _HUGE:
        becomes = "may become more than a million times as likely"
    noun = "one user, with all of their rows," if facts.unit == "user" else "one row"
    said = (
        f"If {noun} {_CHANGES[facts.neighbors]}, whatever anyone may conclude from the "
        f"results {becomes} ({_pair(facts)}).{_only(facts, 'This holds only')}"
    )
    if budget:
        said += " This requires all computations to be planned beforehand."
    if budget and facts.filtered:
        most, delta = budget["epsilon"], budget["delta"]
        said += (
            f" In any case, the budget sets the limit: {_times(most, delta)} "
            f"(epsilon = {number(most)}, delta = {delta:g})."
        )
    return said + " An audit refutes it: see part two." * facts.refuted


def title(facts: Facts) -> str:
    """Return the title, as it was given or by what the statement is of."""
    return str(facts.stated.get("title") or f"Privacy statement: {facts.name}")


# -- questions -------------------------------------------------------------------------


class _Answers(list[tuple[str, list[str]]]):
    """Questions with the paragraphs of their answers."""

    def ask(self, question: str, *paragraphs: Any) -> None:
        """Add a question, with the paragraphs that are not empty."""
        self.append((question, [said for said in paragraphs if said]))


def _stated(facts: Facts, name: str) -> str:
    if name not in facts.stated:
        return "Not stated by the curator."
    return f"The curator states: {facts.stated[name]}"


def _to_people(facts: Facts, odds: Callable[[float], str], ids: str) -> str:
    """Return a promise to people with several rows or user ids, or some examples."""
    most = facts.stated.get("units_per_person")
    sizes = (2, 5, 10) if most is None else (most,)
    return "; ".join(f"{k:,d} {ids}: {odds(float(min(k, _MANY)))}" for k in sizes)


def _several(facts: Facts, ids: str) -> Iterator[str]:
    """Yield how people with several rows or user ids are protected."""
    most, budget = facts.stated.get("units_per_person"), facts.budget
    if most == 1:
        yield "The curator states that no person has more than one."
        return
    yield f"A person with several {ids} is protected less than this page says."
    if most:
        yield f"The curator states that no person has more than {most}."
    if "spiked-gaussian" in facts.assumptions:
        yield "How much less is not known: the promise rests on a model of single rows."
    else:

        def odds(n: float) -> str:
            if facts.mu is not None:
                return _times(gaussian_epsilon(n * facts.mu, facts.delta), facts.delta)
            return _times_of_steps(n, facts.epsilon or 0.0, facts.delta)

        yield f"If all of them change, {_to_people(facts, odds, ids)}."
        if facts.ledger:
            yield "Like the total, this assumes that all fits were planned in advance."
    if budget and facts.filtered:
        pair = budget["epsilon"], budget["delta"]
        limit = _to_people(facts, lambda n: _times_of_steps(n, *pair), ids)
        yield (
            "Whatever was fitted, and however it was chosen, the budget sets the "
            f"limit. {limit}."
        )
    if not most and "unit_meaning" not in facts.stated:
        yield f"How many {ids} a person may have: not stated by the curator."


def _steps_left(facts: Facts) -> str:
    """Return the remaining steps of a stream, if public."""
    releases = [m for plan in facts.read_plans() for m in plan.releases()]
    most = min(filter(None, (getattr(m, "max_steps", 0) for m in releases)), default=0)
    made = facts.n_units
    if made is None or any(getattr(m, "renewed", False) for m in releases):
        return ""
    left = f"The other {most - made:,d} cost nothing further."
    return f"{made:,d} of {most:,d} steps were made. {left}" if made < most else ""


def _remarks(facts: Facts) -> str:
    found = [Remark.of(said) for plan in facts.read_plans() for said in plan.remarks]
    dull = Concern.MEASURED, Concern.OTHER
    told = [said for said in by_weight(found) if said.concern not in dull]
    return " ".join(list(dict.fromkeys(told))[:_MOST_REMARKS])


def for_the_person_responsible(facts: Facts) -> _Answers:
    """Answer in plain words; without a promise, no figure and no comfort."""
    answers, ledger, unit = _Answers(), facts.ledger, facts.unit
    promised, private, stated = facts.promised, facts.private, facts.stated
    ids, clients = "user ids" if unit == "user" else "rows", facts.clients
    server, node = "server" in facts.noise_by, "node" in facts.noise_by
    summed, separate = facts.summed, facts.separate
    external, several = "approximate-dp" in facts.kinds, len(clients) > 1
    stream, search = facts.kind == "stream", facts.kind == "search"
    n_clients = f"{len(clients)} client{'s' * several}"
    who = "Each user, with all of their rows: one value of the column of users."
    answers.ask(
        "Who is protected?",
        not private and f"Nobody. {facts.why_not}",
        private and not promised and "Nothing was released.",
        promised and (who if unit == "user" else "Every single row of the data."),
        "unit_meaning" in stated and _stated(facts, "unit_meaning"),
    )
    if promised:
        answers.ask(f"What if one person has several {ids}?", *_several(facts, ids))
        own = "Each client is trusted with its own rows."
        answers.ask(
            "Against whom?",
            "Against anybody who sees what was released, whatever they already know, "
            "even all other rows of the data.",
            (separate or node)
            and not (summed or server)
            and f"The server and the other clients are among them. {own}",
            server
            and "Not against the server that adds the noise: it is trusted with the "
            "exact sums over the users of each client. The promise holds against the "
            f"other clients. {own}",
            summed
            and "It holds against those who see only sums over all parties, and no "
            "single part. Each party is trusted with its own rows, and to add its "
            "share of noise.",
            not (separate or summed or facts.noise_by)
            and "Not against those who hold or process the data: they are trusted.",
        )
        answers.ask("How strong is the protection?", *_strength(facts))
        n_units, n = stated.get("n_units"), facts.n_units or stated.get("n_units")
        secret = facts.neighbors == "add-remove-one"
        public = f"No. The number of {unit}s is taken to be public"
        answers.ask(
            "Is the number of people or rows secret?",
            secret and f"Yes. The number of {unit}s is protected.",
            secret and n_units and f"The curator states it all the same: {n_units}.",
            not secret and (f"{public}: {n}." if n else f"{public}."),
        )
    answers.ask(
        "What is not protected?",
        *(
            [
                "What is taken to be public: names and types of columns, classes and "
                "categories that were given, bounds, and every other parameter. They "
                "must not have been read off the data.",
                "How long a computation took, how much memory it used, and its errors.",
                "Exact scores, plots and summaries, and results of other tools that "
                "are not in the figures.",
                ledger
                and "What other steps read from the data. A ledger does not know about "
                "them, except for the steps of a PrivatePipeline.",
                stream
                and "The state of the running stream, and saved copies of it: whoever "
                "has them can compute rows. Keep them like the data, and never run two "
                "copies.",
                "Predictions and transformed rows of private data, which are like "
                "these rows.",
                clients
                and "Which clients there are, and how many rows each of them has.",
                facts.noise_by and not clients and "Which clients there are.",
            ]
            if private
            else ["All that was learned from the data."]
        ),
    )
    searched = search or "exponential" in facts.kinds
    answers.ask(
        "Was anything chosen or tuned on the data outside this account?",
        promised
        and searched
        and "Parameters were chosen by a private search: its cost is in the figures. "
        "Anything else:",
        _stated(facts, "tuning"),
        promised
        and "What the curator names here is not in the figures. If anything was chosen "
        "by looking at the data, the promise at the top does not cover what that "
        "choice reveals.",
    )
    answers.ask(
        "Were the same data used for other releases?",
        _stated(facts, "other_releases"),
        external and "Entries of other tools, on their word, are in the figures.",
    )
    if promised:
        noisy = (
            "noisy releases, the names of clients and their numbers of rows, and never "
            "a row."
        )
        answers.ask(
            "What do a server and other parties see?",
            summed
            and "Each party adds a share of the noise. The promise of this page holds "
            "against those who see only sums. Those who see the message of one party, "
            "as a server does if no mask hides it, learn more about that party.",
            separate
            and not summed
            and f"The data are those of {n_clients}. Each adds noise before "
            f"anything leaves it. The server and the others see {noisy}",
            clients
            and not (separate or summed)
            and f"The rows of {n_clients} were in one program, and whoever ran it "
            "could see them. Each client's releases have noise of their own: on "
            f"machines of their own, a server would see {noisy}",
            server
            and "Each client sends exact sums over its users to a server, which adds "
            "the noise. The server sees these sums. All others see noisy sums, and "
            "never a row.",
            node
            and not separate
            and "Each client adds all of the noise before anything leaves it. The "
            "server and the others see noisy sums, and never a row.",
            not (clients or summed or facts.noise_by)
            and (
                "A ledger does not record other parties."
                if ledger
                else "No server and no other party took part, as far as this fit knows."
            ),
            several
            and "Somebody with rows at several clients is a person with several rows.",
            facts.noise_by
            and not several
            and "Somebody with rows at several clients is protected less than this "
            "page says.",
        )
        rely = "rely only on the budget" if facts.filtered else "it is not a promise"
        but = ", except in the figures of other tools" * external
        answers.ask(
            "What does the promise rest on?",
            *(f"The promise holds only {each}." for each in facts.conditions),
            not facts.conditions and "Nothing is assumed of the values in the data.",
            "Bounds, classes and other settings must not have been read off the data.",
            facts.divisions
            and "It relies on an assertion that the blocks of these divisions are "
            f"disjoint: {', '.join(facts.divisions)}",
            server
            and "The server adds the planned noise, and shows nobody the exact sums.",
            external and "What other tools spent is taken at their word.",
            ledger
            and "The total assumes that all fits were planned in advance. If results "
            f"decided what was fitted next, {rely}.",
            "The program is unchanged, and nobody can predict the random numbers that "
            "make up its noise.",
            f"Rounding by the computer is counted in the figures{but}.",
        )
    answers.ask(
        "What was released?",
        not facts.entries and "Nothing so far.",
        ledger and facts.entries and "The releases in the table of entries.",
        not ledger
        and (
            f"What {facts.name} learned from the data: the noisy releases that part "
            "two lists, and what follows from them."
            if private
            else "Values from the data, which noise does not protect."
        ),
        promised
        and "thresholded-gaussian" in facts.kinds
        and "Frequent texts of the table (such as names of cities) are released as "
        f"they are; texts of a single {unit} are hidden, except with a small "
        "probability.",
        promised and _remarks(facts),
    )
    budget, alone = facts.budget or {}, private and not ledger
    left = budget.get("remaining_epsilon")
    answers.ask(
        "What has been spent, and what is left?",
        not private and "No figure limits what was given away.",
        private
        and stream
        and "All steps of the stream, those to come included, are paid for together.",
        private and stream and _steps_left(facts),
        private and f"Spent: {_pair(facts)}.",
        private and ledger and not budget and "No budget limits what may follow.",
        alone
        and "This page is of one fit. What else was spent on the same rows, and what "
        "is left, is in the ledger that it was charged to, if there was one: ask for "
        "the statement of that ledger.",
        alone
        and not search
        and "If it is a step of a pipeline, or the best_estimator_ of a search, its "
        "figure is not that of everything that was released: ask for the statement of "
        "the whole.",
        private
        and budget
        and f"The budget is epsilon = {budget['epsilon']:g} at delta = "
        f"{budget['delta']:g}. The ledger refuses what would exceed it, before any "
        "value is read.",
        private
        and budget
        and (
            f"One more fit may cost up to epsilon = {_floored(left)}. Costs do not add "
            "up linearly."
            if left
            else "Nothing of it remains."
        ),
    )
    answers.ask(
        "What if a fit failed?",
        "It stays charged: a cost is entered before any value is read, and counts "
        "whether or not there was a result. The figures include every failed fit. What "
        "the ledger refused released nothing, and is not in them."
        if ledger
        else "Earlier fits cost privacy as well, even those that failed. They are in "
        "the ledger that they were charged to, if there was one, and not in these "
        "figures, which cover only this fit.",
        f"Which fits failed: {_stated(facts, 'failed_fits')}",
    )
    answers.ask(
        "How can this be checked?",
        "Ask for the ledger's file and run: skdpspectral-ledger verify STATEMENT "
        "LEDGER. This makes the statement again from the ledger's entries, reports any "
        "difference, and names what no ledger can confirm: what the curator states, "
        "versions, the number of rows, remarks on the result of a fit, and an audit. "
        "It cannot notice that both files were rewritten together.",
        facts.refuted and "AN AUDIT REFUTES THE PROMISE: part two has its figures.",
        facts.audit
        and not facts.refuted
        and "An audit tried to break the promise and could not: see part two.",
    )
    return answers


def _strength(facts: Facts) -> Iterator[Any]:
    """Yield how strong the protection is, as the success of a guess."""
    by_pair, budget = _right(facts.epsilon or 0.0, facts.delta), facts.budget
    guess = _GUESSES[facts.neighbors].format(facts.unit)
    right, why = by_pair, "the worst of all methods with this epsilon and delta."
    if facts.distance is not None:
        right = _rounded(50.0 * (1.0 + facts.distance), 3)
        why = (
            "the noise that was used. From epsilon and delta alone, for the worst of "
            f"all methods, it would be {by_pair} %."
        )
    yield claim(facts)
    yield (
        f"For example, somebody has to guess {guess}, and both are equally likely. "
        f"With the results, the guess is right in at most {right} % of cases. Without "
        f"them, it is 50 %. This is the limit for {why}"
    )
    if budget and facts.filtered:
        most = _right(budget["epsilon"], budget["delta"])
        yield (
            "If results decided what was fitted next, it is at most "
            f"{most} %, by the budget."
        )
    yield (facts.epsilon or 0.0) > 10.0 and "This is little protection by itself."
    yield (
        "The results describe the whole group, and may therefore suggest something "
        "about one person. They would do so even without that person's data."
    )


def _floored(x: float) -> str:
    return f"{Context(5, ROUND_FLOOR).create_decimal(Decimal(repr(x))).normalize():f}"


def for_the_auditor(facts: Facts) -> _Answers:
    """Answer what an auditor asks, with names of lemmas."""
    answers, promised, private = _Answers(), facts.promised, facts.private
    ledger, audit = facts.ledger or {}, facts.audit or {}
    external = "approximate-dp" in facts.kinds
    unknown = external and "Nothing is known of this in other tools' entries."
    exact = set(facts.kinds) == {"exact"} and "No noise was added."
    own = not exact and bool({*facts.kinds} - {"approximate-dp"})
    of_noise = "" if private or facts.seeded else "Of releases with noise alone: "
    mu = "" if facts.mu is None else f", mu = {_rounded(facts.mu, 6)}"
    answers.ask(
        "Guarantee",
        not private and f"None. {facts.why_not}",
        private and not promised and "Nothing was released so far.",
        promised
        and f"({number(facts.epsilon)}, {facts.delta:g})-differential privacy{mu}, per "
        f"{facts.unit} under {facts.neighbors}: neighboring data differ in that a "
        f"{facts.unit} {_CHANGES[facts.neighbors]}.{_only(facts)}",
        promised
        and facts.mu is not None
        and "Gaussian differential privacy with this mu gives epsilon at any delta. It "
        f"is zero-concentrated with rho = {_rounded(0.5 * facts.mu**2, 4)}.",
    )
    exponential = "exponential" in facts.kinds and not facts.curves
    limits = "The budget is a filter whose limits were fixed when the ledger was made"
    answers.ask(
        "Composition",
        not promised and "No total is stated.",
        promised
        and facts.curves
        and "Some costs are privacy curves: totals are upper bounds by privacy-loss "
        "distributions, for mechanisms that were fixed beforehand (lemma dominating).",
        promised
        and exponential
        and "All costs are mu: of Gaussian mechanisms exactly, of exponential ones as "
        "an upper bound.",
        promised
        and not (exponential or facts.curves)
        and "All mechanisms are Gaussian, and totals are exact.",
        promised
        and not facts.curves
        and "Squares of mu add up, also where later releases of a fit were chosen by "
        "earlier ones (lemma composition).",
        promised
        and facts.mu is None
        and not facts.curves
        and "What may fail has a probability of its own, which delta includes.",
        promised
        and facts.filtered
        and f"{limits}; it holds for entries chosen adaptively (lemma box-filter).",
        promised
        and facts.budget
        and not facts.filtered
        and f"{limits}. Bounds of a model of rows hold in it only for fits that were "
        "chosen beforehand (lemma box-filter).",
        promised
        and ledger
        and not facts.budget
        and "Without a budget, a total is no bound if results chose when to state it.",
        promised
        and (facts.divisions or facts.clients)
        and "Disjoint blocks of one division cost what the dearest of them costs.",
    )
    answers.ask(
        "Floating point",
        exact,
        own
        and f"{of_noise}Values and noise lie on a grid of a power of two, far finer "
        "than the noise (the table of releases has it), on which they add exactly. "
        "Rounding to it, and errors of summation, are part of the sensitivity by which "
        "each mu is computed (lemmas grid and charge).",
        unknown,
    )
    seed = (
        "A seed that was given (noise_seed): there is no privacy against who knows it."
    )
    fresh = (
        f"{of_noise}A cryptographic generator in counter mode (AES-128, or ChaCha20 "
        "where the processor has no AES), with fresh keys of the operating system that "
        "no two fits share. The guarantee is that of truly random noise, as far as "
        "nobody can tell its output from that."
    )
    answers.ask(
        "Source of randomness",
        exact,
        own and (seed if facts.seeded else fresh),
        unknown,
    )
    answers.ask(
        "Software",
        ", ".join(f"{name} {version}" for name, version in facts.versions.items()),
        "Of the process that made this statement; a ledger does not record versions.",
    )
    n, days = ledger.get("entries"), [ledger.get(f"{k}_day") for k in ("first", "last")]
    when = f"on {days[0]}" if days[0] == days[1] else "from {} to {}".format(*days)
    answers.ask(
        "Ledger",
        not ledger
        and "A statement of a fit alone: verify looks for its entry in a ledger.",
        facts.separate
        and not ledger
        and "Each client has a ledger of its own, and can make a statement of it.",
        ledger
        and f"{'1 entry' if n == 1 else f'{n} entries'} of the ledger {ledger['id']}.",
        n and f"Charged {when}, by the clock of their hosts, in UTC.",
        ledger
        and f"Digest of all entries: {ledger['digest'] or 'none'}. It has no key.",
    )
    answers.ask(
        "Leaks",
        "Steps of a PrivatePipeline that leak are refused, or void its guarantee. "
        "privacy_report has verdicts on the steps of other compositions.",
    )
    answers.ask(
        "Audit",
        f"Lower bound on epsilon by {audit['n_trials']:g} fits on each of two "
        f"neighbors: {audit['epsilon']:.5g} at delta = {audit['delta']:g}, with "
        f"confidence {audit['confidence']:g}; the audited fit claims "
        f"{number(audit['claimed_epsilon'])}. A bound above a claim at this delta "
        "refutes it; one below does not prove it."
        if audit
        else "No result of an audit was given.",
    )
    return answers


# The questions of NIST SP 800-226 by its sections: the question above that answers
# them, "@" and what the curator states, or the answer.
_NIST = {
    "2.2 Which privacy parameters?": "Guarantee",
    "2.3 Which variant of differential privacy?": "Guarantee; Composition",
    "2.4 Which unit of privacy?": "Who is protected?",
    "2.5 With what may the guarantee be compared?": "Only with guarantees of the same "
    "unit, the same relation of neighbors and the same delta.",
    "2.6 Are there other releases?": "Were the same data used for other releases?",
    "3.1 Which mechanisms and sensitivities?": "The tables of releases",
    "3.2 How accurate are the results?": "@utility",
    "3.3 Which biases may there be?": "Noise is unbiased where it is added; clipping "
    "and thresholds need not be, and small groups lose more than large ones. @bias",
    "3.5 How were models chosen?": "Was anything chosen or tuned on the data outside "
    "this account?",
    "4.1 Who may ask queries?": "Those who can charge the ledger",
    "4.2 Which threats, and who is trusted?": "Against whom? What do a server and "
    "other parties see?",
    "4.3 How is the implementation protected?": "Floating point; Source of randomness. "
    "Running time and memory are not protected: nobody else may observe them.",
    "4.4 How are data and access secured?": "@access",
    "4.5 How exposed are the collected data?": "@collection",
}


def nist_table(facts: Facts) -> list[tuple[str, str]]:
    """Return the questions of NIST SP 800-226 with their answers."""
    rows = [("Section and question", "Answer, or the question above that has it")]
    for question, answer in _NIST.items():
        said, _, name = answer.partition("@")
        rows.append((question, said + (_stated(facts, name) if name else "")))
    return rows
