"""What a ledger says about what was spent."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..mechanisms import Unit
from ._arguments import DEFAULT_DELTA
from ._budget import Budget
from ._composition import Total
from ._ledger import Ledger, Transaction
from ._ledger_file import ENTRY_COLUMNS
from ._parts import division_of

_CLAIMS = {
    Unit.ROW: "the user's word that these divisions of the rows are disjoint",
    Unit.USER: "somebody's word that no person is in two blocks of these divisions",
}


# The largest delta below 1.
_LARGEST_DELTA = 1.0 - 2.0**-53


class Spent(NamedTuple):
    """A privacy cost: the smallest epsilon at this delta."""

    epsilon: float
    delta: float


class LedgerReports:
    """Totals and tables of a ledger; the accountant adds the spending."""

    _path: str
    _id: str
    _budget: Budget | None

    def _ledger(self) -> Ledger:
        return Ledger(self._path, self._id)

    def _standing(self, transaction: Transaction, delta=None) -> Spent:
        """Return the cost of everything that the ledger holds in a transaction."""
        total = _secret_total(transaction)
        if delta is None and self._budget:
            delta = self._budget.delta
        elif delta is None:
            delta = transaction.smallest_delta() or DEFAULT_DELTA
            # Several fits may fail more often than one of them allows for.
            delta = min(max(delta, 2.0 * total.failure), _LARGEST_DELTA)
        return Spent(total.epsilon(delta), delta)

    def spent(self, delta: float | None = None) -> Spent:
        """Return the tight privacy cost of everything so far.

        Parameters
        ----------
        delta : float or None, default=None
            In [1e-15, 1); None takes the budget's, else the smallest of the entries,
            or twice what they include for failures of a model's bounds if that is
            more.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta), for the ledger's unit and relation.
            Infinite once a release was made without noise or with seeded noise, or
            where failures leave nothing of delta.
        """
        with self._ledger().transaction() as transaction:
            return self._standing(transaction, delta)

    def remaining(self) -> Spent:
        """Return what one more fit may ask for at the budget's delta.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta); infinite without a budget. Seeded fits
            that were let in count at face value.
        """
        with self._ledger().transaction() as transaction:
            if self._budget is None:
                return Spent(math.inf, self._standing(transaction).delta)
            left = self._budget.remaining(transaction.total())
        return Spent(left, self._budget.delta)

    def privacy_curve(self, epsilons) -> np.ndarray:
        """Return delta(epsilon) of everything so far, for plots.

        Parameters
        ----------
        epsilons : array-like of float
            Each at least 0.

        Returns
        -------
        ndarray
            Of the same shape as `epsilons`.
        """
        try:
            epsilons = np.asarray(epsilons, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("epsilons must be numbers") from None
        with self._ledger().transaction() as transaction:
            total = _secret_total(transaction)
        deltas = [total.delta(float(epsilon)) for epsilon in epsilons.ravel()]
        return np.array(deltas).reshape(epsilons.shape)

    @property
    def ledger(self):
        """All entries, oldest first: a DataFrame, or a list without pandas."""
        entries = self._ledger().entries()
        try:
            import pandas as pd
        except ImportError:
            return entries
        return pd.DataFrame(entries, columns=list(ENTRY_COLUMNS))

    def __str__(self):
        meta, spent = self._ledger().meta(), self.spent()
        entries = self._ledger().entries()
        unit = f" per {meta['unit']}, {meta['neighbors']}" if meta["unit"] else ""
        count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        total = f"epsilon={spent.epsilon:.6g} at delta={spent.delta:g}{unit}"
        return " ".join([f"{count}: {total}.", *_conditions(entries)])


def _secret_total(transaction: Transaction) -> Total:
    """Return the total, in which noise from a seed costs without limit."""
    total = transaction.total()
    return total._replace(mu=math.inf) if transaction.any_seeded() else total


def _conditions(entries: list[dict]) -> list[str]:
    """Sentences about what a total rests on."""
    sentences = []
    asserted = {division_of(e["partition"]) for e in entries if e["asserted"]}
    for unit, claim in _CLAIMS.items():
        names = sorted(name for divided, name in asserted if divided is unit)
        if names:
            sentences.append(f"This rests on {claim}: {', '.join(names)}.")
    models = sorted({e["assumption"] for e in entries} - {"none"})
    if models:
        sentences.append(f"It holds only for data that satisfy: {', '.join(models)}.")
    if any(e["failure"] for e in entries):
        sentences.append("Its delta includes that their bounds fail.")
    return sentences
