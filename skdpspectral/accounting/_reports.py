"""What a ledger says about what was spent."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..mechanisms._numbers import check_count
from ._arguments import DEFAULT_DELTA
from ._backends import AnyLedger, ledger_at
from ._budget import Budget
from ._composition import Total
from ._entries import LedgerEntry, read_entry
from ._export import exported
from ._gaussian import MIN_DELTA
from ._summary import Spent, Summary, as_html
from ._transaction import Transaction
from ._uninterrupted import uninterrupted

# The largest delta below 1.
_LARGEST_DELTA = 1.0 - 2.0**-53


class Standing(NamedTuple):
    """What a ledger held at one moment; to be stated when it is not locked any more.

    Parameters
    ----------
    total : Total
        Cost of everything.
    delta : float
        Where it is stated.
    """

    total: Total
    delta: float

    def spent(self) -> Spent:
        """Return the cost; of some ledgers that takes seconds."""
        return Spent(self.total.epsilon(self.delta), self.delta)


class LedgerReports:
    """Totals and tables of a ledger; the accountant adds the spending."""

    _path: str
    _id: str
    _budget: Budget | None

    def _ledger(self) -> AnyLedger:
        return ledger_at(self._path, self._id)

    def _standing(
        self, transaction: Transaction, delta: float | None = None
    ) -> Standing:
        """Return the cost of everything that the ledger holds in a transaction."""
        total = _secret_total(transaction)
        if delta is None and self._budget:
            delta = self._budget.delta
        elif delta is None:
            delta = transaction.smallest_delta() or DEFAULT_DELTA
            # Several fits may fail more often than one of them allows for.
            least = max(2.0 * total.additive, MIN_DELTA)
            delta = min(max(delta, least), _LARGEST_DELTA)
        return Standing(total, delta)

    @uninterrupted
    def _stands(self, delta: float | None = None) -> Standing:
        with self._ledger().transaction(keep=False) as transaction:
            return self._standing(transaction, delta)

    def spent(self, delta: float | None = None) -> Spent:
        """Return the tight privacy cost of everything so far.

        Parameters
        ----------
        delta : float or None, default=None
            In [1e-15, 1); None takes the budget's, else the smallest of the entries,
            or twice what they include for failures of a model's bounds, and for other
            tools' deltas, if that is more.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta), for the ledger's unit and relation.
            Infinite once a release was made without noise or with seeded noise, or
            where failures leave nothing of delta.

        Raises
        ------
        ImportError
            If there are entries that are no Gaussian mechanisms, and ``dp-accounting``
            is not installed (``pip install 'skdpspectral[subsampling]'``). One private
            selection beside Gaussians needs it not.

        Notes
        -----
        Of Gaussian mechanisms the cost is exact. Others are composed by distributions
        of privacy loss, which give an upper bound, and hold for mechanisms that were
        not chosen by the results of earlier ones. A budget is watched by other means
        (:ref:`filters`), so that less may be spent than it says.
        """
        return self._stands(delta).spent()

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
            Named tuple (epsilon, delta) at the budget's delta, for Gaussian fits of the
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
            kinds = transaction.mechanisms()
            left = self._budget.remaining(transaction.total(), kinds, k)
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

    def _summary(self) -> Summary:
        """Return totals and entries of one moment."""
        standing, summary = self._summarized()
        return summary._replace(spent=standing.spent())

    @uninterrupted
    def _summarized(self) -> tuple[Standing, Summary]:
        """Return what is read of the ledger, before its cost is worked out."""
        with self._ledger().transaction(keep=False) as transaction:
            remaining = None
            if self._budget is not None:
                kinds = transaction.mechanisms()
                left = self._budget.remaining(transaction.total(), kinds)
                remaining = Spent(left, self._budget.delta)
            standing = self._standing(transaction)
            summary = Summary(
                relation=transaction.relation(),
                spent=Spent(math.inf, standing.delta),
                budget=self._budget,
                remaining=remaining,
                entries=tuple(map(read_entry, transaction.entries())),
            )
            return standing, summary

    @uninterrupted
    def _curve_rows(self) -> list[tuple[int, str, int]]:
        with self._ledger().transaction(keep=False) as transaction:
            return transaction.curve_rows()

    def export(self) -> str:
        """Return the ledger as lines of JSON, for an audit or an archive.

        Returns
        -------
        str
            One JSON object a line: first the ledger with its totals, then its entries,
            oldest first, each with its mechanisms and a sentence of English
            (``"statement"``). What is infinite is null.

        Examples
        --------
        >>> import json
        >>> from skdpspectral import DPPCA, PrivacyAccountant
        >>> accountant = PrivacyAccountant()
        >>> accountant.charge(DPPCA(2, epsilon=1.0).privacy_plan(1000, 5))
        >>> whole, entry = map(json.loads, accountant.export().splitlines())
        >>> whole["entries"], entry["estimator"], round(entry["epsilon"], 3)
        (1, 'DPPCA', 1.0)
        """
        return exported(self._summary(), self._id)

    def __str__(self) -> str:
        return str(self._summary())

    def _repr_html_(self) -> str:
        return as_html(self._summary())


def _secret_total(transaction: Transaction) -> Total:
    """Return the total, in which noise from a seed costs without limit."""
    total = transaction.total()
    return total._replace(mu=math.inf) if transaction.any_seeded() else total
