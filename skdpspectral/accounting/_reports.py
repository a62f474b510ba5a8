"""What a ledger says about what was spent."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..mechanisms._numbers import check_count
from ._arguments import DEFAULT_DELTA
from ._budget import Budget
from ._composition import Total
from ._entries import LedgerEntry, read_entry
from ._ledger import Ledger, Transaction
from ._summary import Spent, Summary, as_html
from ._uninterrupted import uninterrupted

# The largest delta below 1.
_LARGEST_DELTA = 1.0 - 2.0**-53


class LedgerReports:
    """Totals and tables of a ledger; the accountant adds the spending."""

    _path: str
    _id: str
    _budget: Budget | None

    def _ledger(self) -> Ledger:
        return Ledger(self._path, self._id)

    def _standing(self, transaction: Transaction, delta: float | None = None) -> Spent:
        """Return the cost of everything that the ledger holds in a transaction."""
        total = _secret_total(transaction)
        if delta is None and self._budget:
            delta = self._budget.delta
        elif delta is None:
            delta = transaction.smallest_delta() or DEFAULT_DELTA
            # Several fits may fail more often than one of them allows for.
            delta = min(max(delta, 2.0 * total.failure), _LARGEST_DELTA)
        return Spent(total.epsilon(delta), delta)

    @uninterrupted
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

    @uninterrupted
    def remaining(self, k: int = 1) -> Spent:
        """Return what each of `k` further equal fits may ask for.

        What is left is split by ``mu**2``, as fits compose: each of `k` fits gets
        about ``1 / sqrt(k)`` of it, which is more than one `k`-th.

        Parameters
        ----------
        k : int, default=1
            Number of fits, at least 1.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta) at the budget's delta, for fits of the
            ledger's unit and relation that concern all of its rows; infinite without
            a budget. Seeded fits that were let in count at face value.

        Raises
        ------
        ValueError
            If `k` is no positive integer.

        Examples
        --------
        >>> from skdpspectral import PrivacyAccountant
        >>> round(PrivacyAccountant(epsilon=2.0, delta=1e-6).remaining(10).epsilon, 3)
        0.577
        """
        k = check_count("k", k)
        with self._ledger().transaction(keep=False) as transaction:
            if self._budget is None:
                return Spent(math.inf, self._standing(transaction).delta)
            left = self._budget.remaining(transaction.total(), k)
        return Spent(left, self._budget.delta)

    def privacy_curve(self, epsilons: npt.ArrayLike) -> npt.NDArray[np.float64]:
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
            points = np.asarray(epsilons, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("epsilons must be numbers") from None
        total = self._total()
        deltas = [total.delta(float(epsilon)) for epsilon in points.ravel()]
        return np.array(deltas).reshape(points.shape)

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """All entries, oldest first, of one type whatever is installed.

        Each is a named tuple with its time in UTC, so that
        ``pandas.DataFrame(accountant.ledger)`` is a table of them.
        """
        return tuple(map(read_entry, self._ledger().entries()))

    @uninterrupted
    def _total(self) -> Total:
        with self._ledger().transaction(keep=False) as transaction:
            return _secret_total(transaction)

    @uninterrupted
    def _summary(self) -> Summary:
        """Return totals and entries of one moment."""
        with self._ledger().transaction(keep=False) as transaction:
            remaining = None
            if self._budget is not None:
                left = self._budget.remaining(transaction.total())
                remaining = Spent(left, self._budget.delta)
            return Summary(
                relation=transaction.relation(),
                spent=self._standing(transaction),
                budget=self._budget,
                remaining=remaining,
                entries=tuple(map(read_entry, transaction.entries())),
            )

    def __str__(self) -> str:
        return str(self._summary())

    def _repr_html_(self) -> str:
        return as_html(self._summary())


def _secret_total(transaction: Transaction) -> Total:
    """Return the total, in which noise from a seed costs without limit."""
    total = transaction.total()
    return total._replace(mu=math.inf) if transaction.any_seeded() else total
