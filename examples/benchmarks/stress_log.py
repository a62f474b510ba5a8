"""What a stress of the ledger says it was given, and whether that may be.

Whoever gets a result writes it to a log beside the ledgers, **after** the call that
gave it returned: a line that a single write appends, so that it survives a kill and
mixes with no other. The checks read nothing but that log and the ledgers' files.
"""

import base64
import json
import math
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

# Each test of a law fails by chance once in a million runs; a run makes some twenty.
FALSE_ALARM = 1e-6
# Noise smaller than this, in standard deviations, has a probability of 8e-7 a number.
NOTHING = 1e-6
# Two releases share noise if three numbers in a row agree to this. Of a million
# normals, or of ten thousand directions, some do so by chance in one of 1e7 runs.
_RESOLUTION = {"normal": 1e-6, "sphere": 1e-8}
_RUN = 3


@dataclass(frozen=True)
class SideLog:
    """The log of a run; every process and thread appends to it.

    Parameters
    ----------
    path : str
        The file.
    """

    path: str

    def _append(self, **record) -> None:
        line = json.dumps({"process": os.getpid(), **record}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def release(self, actor, ledger, label, draws, *, law, entries=1, shared=False):
        """Say that a result was returned.

        Parameters
        ----------
        actor : str
            Who got it.
        ledger : str or None
            File of the ledger that must know of it; None where there is none.
        label : str
            What its entries are labeled.
        draws : list of array
            Noise of each release, in units of its deviation; `law` says of what law.
        law : {"normal", "sphere"}
            Independent standard normals, or a random direction in three dimensions.
        entries : int, default=1
            Entries that it must have; 0 for what follows a result of that label.
        shared : bool, default=False
            Whether other threads may have read this very result, from one object.
        """
        packed = [
            base64.b64encode(np.ascontiguousarray(draw, dtype=np.float64)).decode()
            for draw in draws
        ]
        self._append(
            event="release", actor=actor, ledger=ledger, label=label, law=law,
            entries=entries, shared=shared, draws=packed,
        )  # fmt: skip

    def count(self, actor, what) -> None:
        """Count something that may happen, as a refusal."""
        self._append(event="count", actor=actor, what=what)

    def failure(self, actor, what) -> None:
        """Say that something happened that must not."""
        self._append(event="failure", actor=actor, what=str(what)[:300])

    def records(self) -> list[dict]:
        """Return all records, with draws as arrays."""
        if not os.path.exists(self.path):
            return []
        found = [json.loads(line) for line in Path(self.path).read_text().splitlines()]
        for record in found:
            if "draws" in record:
                record["draws"] = [
                    np.frombuffer(base64.b64decode(draw)) for draw in record["draws"]
                ]
        return found


@dataclass
class Report:
    """Figures of a run, and what is wrong with them.

    Parameters
    ----------
    figures : list of str
        Lines for a reader.
    faults : list of str
        What must not be; empty if all is well.
    """

    figures: list = field(default_factory=list)
    faults: list = field(default_factory=list)

    def expect(self, holds: bool, fault: str) -> None:
        """Note a fault unless something holds."""
        if not holds:
            self.faults.append(fault)

    def __str__(self) -> str:
        verdict = [f"FAULT: {fault}" for fault in self.faults] or ["no fault found"]
        return "\n".join([*self.figures, *verdict])


def check_run(records, ledgers, budgets, report=None) -> Report:
    """Check a log against the ledgers' files.

    Parameters
    ----------
    records : list of dict
        As :meth:`SideLog.records` gives them.
    ledgers : dict of str to list of dict
        Entries of each file that can be read: dicts with a "label".
    budgets : dict of str to int
        How many fits the budget of a file allows.
    report : Report or None, default=None
        What is added to.
    """
    report = report or Report()
    releases = [record for record in records if record["event"] == "release"]
    _check_charges(releases, ledgers, report)
    _check_budgets(releases, ledgers, budgets, report)
    _check_noise(releases, report)
    _check_repeats(releases, report)
    for event in ("count", "failure"):
        found = Counter(
            f"{record['actor']}: {record['what']}"
            for record in records
            if record["event"] == event
        )
        lines = [f"{number} x {what}" for what, number in found.most_common(30)]
        if event == "count":
            report.figures += lines
        else:
            report.faults += lines
    return report


def _check_charges(releases, ledgers, report) -> None:
    """Every result has its entries, under its own label and in its own ledger.

    Fits that were killed after their charge leave entries without a result: sums
    alone would let these hide results without an entry.
    """
    asked = Counter()
    for release in releases:
        if release["ledger"] in ledgers:
            asked[release["ledger"], release["label"]] += release["entries"]
    written = {
        (ledger, label): number
        for ledger, entries in ledgers.items()
        for label, number in Counter(entry["label"] for entry in entries).items()
    }
    short = {
        k: n - written.get(k, 0) for k, n in asked.items() if n > written.get(k, 0)
    }
    report.figures.append(
        f"{sum(asked.values())} entries acknowledged, {sum(written.values())} written, "
        f"{sum(short.values())} of the acknowledged are missing"
    )
    by_actor = Counter()
    for (_, label), missing in short.items():
        by_actor[label.split("/")[0]] += missing
    for actor, missing in by_actor.most_common():
        report.faults.append(f"{actor}: {missing} results without an entry")


def _check_budgets(releases, ledgers, budgets, report) -> None:
    for ledger, allowed in budgets.items():
        results = sum(r["entries"] for r in releases if r["ledger"] == ledger)
        entries = len(ledgers[ledger])
        report.figures.append(
            f"budget {Path(ledger).name}: {allowed} allowed, {entries} entries, "
            f"{results} results"
        )
        within = max(results, entries) <= allowed
        report.expect(within, f"{ledger}: {results} results, {entries} entries, but "
                      f"the budget allows {allowed}")  # fmt: skip


def _once(releases):
    """Yield (actor, law, draw), with what threads read from one object taken once."""
    seen = set()
    for release in releases:
        for draw in release["draws"]:
            key = (release["label"], draw.tobytes())
            if not (release["shared"] and key in seen):
                yield release["actor"], release["law"], draw
            seen.add(key)


def _check_noise(releases, report) -> None:
    """The law of what came out, by actor, and no release without noise."""
    draws = defaultdict(list)
    for actor, law, draw in _once(releases):
        draws[actor, law].append(draw)
    for (actor, law), found in sorted(draws.items()):
        if law == "normal":
            _check_normal(actor, found, report)
        else:
            _check_directions(actor, found, report)


def _check_normal(actor, found, report) -> None:
    bare = sum(bool(np.all(np.abs(draw) < NOTHING)) for draw in found if len(draw) > 1)
    report.expect(not bare, f"{actor}: {bare} of {len(found)} releases without noise")
    values = np.concatenate(found)
    small = int(np.sum(np.abs(values) < NOTHING))
    expected = values.size * math.erf(NOTHING / math.sqrt(2.0))
    chance = stats.poisson.sf(small - 1, expected)
    report.expect(
        chance > FALSE_ALARM,
        f"{actor}: {small} of {values.size} numbers without noise",
    )
    squares = float(values @ values)
    laws = stats.chi2(values.size)
    tail = 2.0 * min(laws.cdf(squares), laws.sf(squares))
    shape = stats.kstest(values, "norm").pvalue
    report.figures.append(
        f"{actor}: {len(found)} releases, {values.size} numbers, deviation "
        f"{math.sqrt(squares / values.size):.4f} (p {tail:.3f}), KS p {shape:.3f}"
    )
    report.expect(tail > FALSE_ALARM, f"{actor}: the noise has another deviation")
    report.expect(shape > FALSE_ALARM, f"{actor}: the noise is not normal")


def _check_directions(actor, found, report) -> None:
    """Check that the entries of random directions in space are uniform, as they are."""
    values = np.abs([draw[0] for draw in found])
    shape = stats.kstest(values, "uniform").pvalue
    report.figures.append(f"{actor}: {len(found)} directions, KS p {shape:.3f}")
    report.expect(shape > FALSE_ALARM, f"{actor}: directions are not those of noise")


def _check_repeats(releases, report) -> None:
    """No two releases share noise, whole or in part, wherever they were made."""
    seen, repeats = {}, Counter()
    for number, (actor, law, draw) in enumerate(_once(releases)):
        if len(draw) < _RUN:
            continue
        steps = np.rint(draw / _RESOLUTION[law]).astype(np.int64)
        runs = np.lib.stride_tricks.sliding_window_view(steps, _RUN)
        for run in set(map(tuple, runs.tolist())):
            owner = seen.setdefault((law, run), (number, actor))
            if owner[0] != number:
                repeats[tuple(sorted({owner[1], actor}))] += 1
                break
    report.figures.append(f"{len(seen)} runs of noise compared with each other")
    for actors, number in repeats.items():
        report.faults.append(f"{' and '.join(actors)}: {number} releases repeat noise")
