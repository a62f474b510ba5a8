"""The accountant: what is charged to a ledger, and what it says was spent.

A ledger also holds positions of streams. A stream that is copied, or read back from a
file, would draw the noise of its next steps a second time; the difference of the two
releases would show the rows. So every advance is a compare-and-swap on the position
that the ledger holds. A copy that is behind may take over at that position, with noise
that no copy has used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...mechanisms import ParallelPlan, PrivacyPlan, Unit
from ...mechanisms._relations import check_count, shown
from .._composition import Total
from .._errors import LedgerError
from .._gaussian import MIN_DELTA
from .budget import (
    ANY,
    DEFAULT_DELTA,
    GAUSSIAN,
    Budget,
    DisjointBlock,
    agreed_budget,
    asserted_block,
    check_budget,
    check_division,
    check_flag,
    check_mechanisms,
    check_plans,
    check_relation,
    checked_blocks,
    external_plan,
    new_name,
    terms_of,
    whole_data,
)
from .context import close_block, open_block
from .entries import LedgerEntry, Spent, Summary, as_html, exported, read_entry
from .locks import uninterrupted
from .planned_fits import PlannedFit, planned_fits
from .server import AnyLedger, ledger_at, open_path
from .store import TemporaryFolder
from .transaction import Transaction, conversion_factor

# The largest delta below 1.
_LARGEST_DELTA = 1.0 - 2.0**-53


class TotalAtDelta(NamedTuple):
    """Cost of all entries, read under the lock; its epsilon is computed after it."""

    total: Total
    delta: float

    def spent(self) -> Spent:
        """Return the cost; of some ledgers that takes seconds."""
        return Spent(self.total.epsilon(self.delta), self.delta)


class LedgerReports:
    """Totals and tables of a ledger."""

    _path: str
    _id: str
    _budget: Budget | None

    def _ledger(self) -> AnyLedger:
        return ledger_at(self._path, self._id)

    def _total_at_delta(
        self, transaction: Transaction, delta: float | None = None
    ) -> TotalAtDelta:
        """Return the cost of everything that the ledger holds in a transaction."""
        total = _secret_total(transaction)
        if delta is None and self._budget:
            delta = self._budget.delta
        elif delta is None:
            delta = transaction.smallest_delta() or DEFAULT_DELTA
            # Several fits may fail more often than one of them allows for.
            least = max(2.0 * total.additive, MIN_DELTA)
            delta = min(max(delta, least), _LARGEST_DELTA)
        return TotalAtDelta(total, delta)

    @uninterrupted
    def _read_total_at_delta(self, delta: float | None = None) -> TotalAtDelta:
        with self._ledger().transaction(keep=False) as transaction:
            return self._total_at_delta(transaction, delta)

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

        Notes
        -----
        Of Gaussian mechanisms the cost is exact. Others are composed by distributions
        of privacy loss, which give an upper bound, and hold for mechanisms that were
        not chosen by the results of earlier ones. A budget is watched by other means
        (:ref:`filters`), so that less may be spent than it says.
        """
        return self._read_total_at_delta(delta).spent()

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
                return Spent(math.inf, self._total_at_delta(transaction).delta)
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
        standing, summary = self._read_summary()
        return summary._replace(spent=standing.spent())

    @uninterrupted
    def _read_summary(self) -> tuple[TotalAtDelta, Summary]:
        """Return what is read of the ledger, before its cost is worked out."""
        with self._ledger().transaction(keep=False) as transaction:
            remaining = None
            if self._budget is not None:
                kinds = transaction.mechanisms()
                left = self._budget.remaining(transaction.total(), kinds)
                remaining = Spent(left, self._budget.delta)
            standing = self._total_at_delta(transaction)
            summary = Summary(
                relation=transaction.relation(),
                spent=Spent(math.inf, standing.delta),
                budget=self._budget,
                remaining=remaining,
                entries=tuple(map(read_entry, transaction.entries())),
            )
            return standing, summary

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


class PrivacyAccountant(LedgerReports):
    """A ledger of privacy spending, shared by any number of estimators.

    Every fit is entered before a value of its data is read, so that a fit that fails
    or is killed stays charged; what is known of the data by then is in :ref:`limits`.
    With a budget, what would exceed it is refused with :class:`PrivacyBudgetError`,
    and nothing is charged.

    Parameters
    ----------
    epsilon : float or None, default=None
        Budget, positive; None records without a limit (or takes over the budget
        of the ledger at `path`).
    delta : float or None, default=None
        Budget in [1e-15, 1); None means 1e-6 where `epsilon` is given.
    path : str or path-like or None, default=None
        File of the ledger, on a local disk of one host; created if missing. Or a
        database of a PostgreSQL server, ``"postgresql://user@host/database"``, for
        several hosts (:ref:`server_ledger`). None keeps the ledger in a temporary file
        that ends with this object.
    unit : {"row", "user"} or None, default=None
        Unit of privacy that totals are stated for; None takes the first entry's.
    neighbors : str or None, default=None
        Relation that totals are stated for: "replace-one", "add-remove-one" or
        "zero-out-one"; given together with `unit`.
    mechanisms : {"gaussian", "any"} or None, default=None
        Which mechanisms the budget is kept for: Gaussians alone, up to a limit that is
        exact, or any, as of :meth:`charge_external` and of private selections, for
        which a part of `delta` is set aside beforehand (:ref:`filters`). None takes
        what the first entry is of. Without a budget, everything is recorded.
    allow_seeded : bool, default=False
        Whether this handle lets fits with a `noise_seed` into a budget, at face
        value; for tests and figures. The ledger says that they were seeded, and
        :meth:`spent` is infinite. Copies, pickles and :meth:`named` handles allow
        the same; another handle of the same file says so itself.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    LedgerError
        If the file at `path` is foreign, damaged, of another version, or holds
        another budget, unit or relation; it is left as it is.

    Notes
    -----
    Gaussian mechanisms compose exactly, adaptively chosen ones too: ``mu**2`` adds up
    (:ref:`composition`). Refusing what would exceed a budget that was fixed beforehand
    is sound even if each fit is chosen after seeing the earlier ones; ``spent`` without
    a budget, quoted at a moment that the results have chosen, is not.

    The object is a handle: copies, clones and pickles share one ledger, in worker
    processes too. Unpickling never creates one. A ``with`` block serves the estimators
    of its thread or asyncio task that have no accountant of their own, and takes those
    that are sent to workers along. An estimator that is *made* in a worker process
    knows of no block: give it the accountant as a parameter. Threads, backups, blocks
    of rows and costs that may fail are in the :ref:`user guide <ledger>`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPPCA, PrivacyAccountant
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
    >>> pca = DPPCA(epsilon=1.0, accountant=accountant).fit(X)
    >>> round(accountant.spent().epsilon, 6)
    1.0
    >>> len(accountant.ledger)
    1
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        unit: str | None = None,
        neighbors: str | None = None,
        mechanisms: str | None = None,
        allow_seeded: bool = False,
    ) -> None:
        budget = check_budget(epsilon, delta)
        terms = (budget, check_relation(unit, neighbors), check_mechanisms(mechanisms))
        if mechanisms is not None and path is None and budget is None:
            raise ValueError("mechanisms says what a budget lets in: it needs epsilon")
        if not (path is None or isinstance(path, (str, os.PathLike))):
            raise TypeError(f"path must name a file or be None, got {path!r}")
        self._allow_seeded = check_flag("allow_seeded", allow_seeded)
        self._keeper: TemporaryFolder | None = None
        if path is None:
            self._keeper = TemporaryFolder()
            path = Path(self._keeper.name) / "ledger.db"
        self._path = open_path(path, terms_of(*terms))
        meta = ledger_at(self._path).meta()
        self._id = meta["ledger_id"]
        self._budget = agreed_budget(self._path, meta, *terms)
        self._label: str | None = None
        self._division: tuple[str, Unit] | None = None

    # -- identity: every copy is the same ledger ------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_keeper"] = None
        return state

    def __copy__(self) -> PrivacyAccountant:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyAccountant:
        return self

    def __sklearn_clone__(self) -> PrivacyAccountant:
        return self

    def __enter__(self) -> PrivacyAccountant:
        open_block(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        close_block(self)

    def __repr__(self) -> str:
        budget = "" if self.epsilon is None else f"{self.epsilon:g}, {self.delta:g}"
        return f"PrivacyAccountant({budget})"

    # -- public facts ----------------------------------------------------------

    @property
    def epsilon(self) -> float | None:
        """Budget's epsilon; None without a budget."""
        return None if self._budget is None else self._budget.epsilon

    @property
    def delta(self) -> float | None:
        """Budget's delta; None without a budget."""
        return None if self._budget is None else self._budget.delta

    @property
    def path(self) -> str:
        """File of the ledger, or its address on a server."""
        return self._path

    @property
    def allow_seeded(self) -> bool:
        """Whether this handle lets fits with a seed into a budget."""
        return self._allow_seeded

    def named(
        self,
        label: str,
        *,
        disjoint_within: str | None = None,
        disjoint_unit: str | None = None,
    ) -> PrivacyAccountant:
        """Return a handle of the same ledger whose entries carry a label.

        A label is only a label: entries under different labels compose one after
        another, since nothing says that they are about different rows.

        Parameters
        ----------
        label : str
            Written into each entry.
        disjoint_within : str or None, default=None
            Name of a division of the data of which `label` is one block. Giving
            it **asserts** that no row (or no user, see `disjoint_unit`) lies in two
            blocks of that division, that none ever changes blocks, and that the
            blocks were fixed without looking at the private values; entries then
            cost what the dearest block costs, and ledger and statement say that
            this was asserted.
        disjoint_unit : {"row", "user"} or None, default=None
            What is asserted to lie in no two blocks; None means rows. Of "user",
            a person with all of that person's rows. A ledger that protects users
            accepts nothing less: a user may have rows in two blocks although no row
            is in both.

        Returns
        -------
        PrivacyAccountant
            Another handle of this ledger.
        """
        for name, value in (("label", label), ("disjoint_within", disjoint_within)):
            if not (isinstance(value, str) or (value is None and name != "label")):
                raise ValueError(f"{name} must be a string, got {value!r}")
        handle = object.__new__(type(self))
        handle.__dict__.update(self.__dict__)
        handle._label = label
        handle._division = check_division(disjoint_within, disjoint_unit)
        return handle

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger to a new file, whole, while it is in use.

        Never copy the file of a ledger by other means while a process uses it: the
        copy may be torn. The copy is the same ledger with the same budget. Put
        it in the place of a ledger that was lost, never beside one that is in use,
        and count what was spent since as spent.

        Parameters
        ----------
        path : str or path-like
            File to make, of a ledger on a server, too; one that exists is never
            replaced.

        Raises
        ------
        LedgerError
            If there is a file at `path`, or none can be made.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must name a file, got {shown(path)}")
        self._ledger().back_up(Path(path).absolute())

    # -- spending --------------------------------------------------------------

    def charge(self, plan: PrivacyPlan) -> None:
        """Enter a plan, or refuse it; to be called before any data are read.

        Once this returns, the entry is on the disk.

        Parameters
        ----------
        plan : PrivacyPlan
            What will be released.

        Raises
        ------
        PrivacyBudgetError
            If the plan does not fit the budget, or its noise comes from a seed and
            this handle has a budget and not ``allow_seeded=True``.
        LedgerError
            If the ledger cannot be used, or does not state the plan's relation.
        """
        (plan,) = check_plans([plan])
        self._enter(plan.estimator, [(self._own_part(), plan)])

    def charge_external(
        self, epsilon: float, delta: float, what: str, *, unit: str, neighbors: str
    ) -> None:
        """Enter what another tool has spent on the same rows, or will.

        Parameters
        ----------
        epsilon, delta : float
            Its guarantee: `epsilon` at least 0 and finite, `delta` in [0, 1).
        what : str
            What was done; it stands in the ledger in place of an estimator's name.
        unit : {"row", "user"}
            Whom its guarantee protects; the ledger's unit, if that is fixed.
        neighbors : {"replace-one", "add-remove-one", "zero-out-one"}
            The change that it hides; the ledger's, if that is fixed.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        PrivacyBudgetError
            If it does not fit the budget.
        LedgerError
            If the ledger is of another unit or relation, its budget is kept for
            Gaussian mechanisms, or it cannot be used.

        Examples
        --------
        >>> from skdpspectral import PrivacyAccountant
        >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
        >>> accountant.charge_external(
        ...     1.0, 1e-7, "table of counts", unit="row", neighbors="replace-one"
        ... )
        >>> accountant.ledger[0].kind
        'approximate-dp'
        """
        self.charge(external_plan(epsilon, delta, what, unit, neighbors))

    def _charge_disjoint(self, name: str, plans: Mapping[str, PrivacyPlan]) -> None:
        """Enter the plans of named blocks of rows at once, all or none.

        For estimators that have seen themselves that no row lies in two blocks; anyone
        else's assertion goes through :meth:`named`. `name` is the estimator's, for
        errors.
        """
        parts = checked_blocks(plans)
        entries = [(parts[block], plan) for block, plan in plans.items()]
        self._enter(name, entries)

    @uninterrupted
    def _enter(
        self, name: str, entries: Sequence[tuple[DisjointBlock, PrivacyPlan]]
    ) -> None:
        plans = [plan for _, plan in entries]
        for plan in check_plans(plans):
            if self._budget is not None:
                self._budget.refuse_unlimited(plan, self._allow_seeded)
        with self._ledger().transaction() as transaction:
            before = transaction.total()
            kinds = self._agreed_kinds(transaction, plans)
            for part, plan in entries:
                self._append(transaction, plan, part)
            if self._budget is not None:
                # An error here rolls the transaction back.
                after = transaction.total()
                self._budget.refuse_excess(name, plans, before, after, kinds)

    def _agreed_kinds(
        self, transaction: Transaction, plans: Sequence[PrivacyPlan]
    ) -> str | None:
        """Return which mechanisms a budget lets in; the first entry may say it."""
        if self._budget is None or not plans:
            return None
        kinds = transaction.mechanisms()
        if kinds is None:
            kinds = ANY if any(plan.curves for plan in plans) else GAUSSIAN
            transaction.fix_mechanisms(kinds)
        self._budget.refuse_kinds(plans, kinds)
        return kinds

    def check(
        self, what: Any, X: Any = None, n_fits: int = 1, *, groups: Any = None
    ) -> Spent:
        """Say whether so many fits are affordable; fit nothing, charge nothing.

        A search over parameters turns errors of single fits into missing scores:
        ask before it starts.

        Parameters
        ----------
        what : estimator, PrivacyPlan or iterable of PrivacyPlan
            What is fitted: a private estimator, or a ``Pipeline``, ``FeatureUnion``,
            ``GridSearchCV`` or ``RandomizedSearchCV`` of some, whose candidates are
            planned once a fold, the dearest once more for ``refit``. Or plans, which
            are asked for together.
        X : array-like or dataframe, default=None
            Rows of the fits, of which the shape is used (and who the clients are).
            None with plans, which know it.
        n_fits : int, default=1
            Number of times that all of it is fitted, as once a fold by
            :func:`~sklearn.model_selection.cross_val_score`.
        groups : array-like or None, default=None
            For the splitter of a search that counts its folds by groups.

        Returns
        -------
        Spent
            What the ledger would stand at afterwards. Steps that have an accountant
            of another ledger are left out.

        Raises
        ------
        PrivacyBudgetError
            If the budget does not suffice.
        ValueError, TypeError
            If it is not known beforehand what is fitted, as behind a step that
            chooses its number of columns by the data; the error says what to do.
        """
        n_fits = check_count("n_fits", n_fits)
        fits = planned_fits(what, X, groups)
        fits = [fit for fit in fits if self._handle_of(fit)._id == self._id]
        return self._total_after(fits, n_fits).spent()

    @uninterrupted
    def _total_after(self, fits: Sequence[PlannedFit], n_fits: int) -> TotalAtDelta:
        """Return what so many fits would come to, or refuse them; charge nothing."""
        if self._budget is not None:
            for fit in fits:
                allowed = self._handle_of(fit)._allow_seeded
                self._budget.refuse_unlimited(fit.plan, allowed)
        with self._ledger().transaction(keep=False) as transaction:
            before, plans = transaction.total(), [fit.plan for fit in fits]
            kinds = self._agreed_kinds(transaction, plans)
            for fit in fits:
                self._handle_of(fit)._append_fits(
                    transaction, fit.plan, fit.times * n_fits
                )
            if self._budget is not None and fits:
                count = n_fits * sum(fit.times for fit in fits)
                names = dict.fromkeys(fit.plan.estimator for fit in fits)
                asked = f"{count} fit{'s'[: count > 1]} of {', '.join(names)}"
                after = transaction.total()
                asking = plans * min(count, 2)  # one fit alone may be all there is
                self._budget.refuse_excess(asked, asking, before, after, kinds)
            return self._total_at_delta(transaction)

    def _append_fits(self, transaction: Transaction, plan: PrivacyPlan, n: int) -> None:
        """Enter several fits of a plan, as estimators do."""
        parts = [(self._own_part(), plan)]
        if isinstance(plan, ParallelPlan):
            own = checked_blocks(name for name, _ in plan.blocks)
            parts = [(own[name], block) for name, block in plan.blocks]
        for part, block in parts:
            self._append(transaction, block, part, n)

    def _handle_of(self, fit: PlannedFit) -> PrivacyAccountant:
        """Return the handle that a fit is charged to."""
        return self if fit.accountant is None else fit.accountant

    def _own_part(self) -> DisjointBlock:
        if self._division is None or self._label is None:
            return whole_data()
        division, unit = self._division
        return asserted_block(division, self._label, unit)

    def _append(
        self,
        transaction: Transaction,
        plan: PrivacyPlan,
        part: DisjointBlock,
        times: int = 1,
    ) -> None:
        relation = transaction.relation()
        if relation is None:
            relation = (plan.unit, plan.neighbors)
            transaction.fix_relation(*relation)
        factor = conversion_factor(plan, relation)
        part.check_unit(relation[0])
        transaction.append(plan, factor, part, self._label, times)


@uninterrupted
def open_stream(accountant: PrivacyAccountant) -> str:
    """Enter a stream at position 0 of a ledger, and return its id."""
    name = new_name()
    with accountant._ledger().transaction() as transaction:
        transaction.change_stream(name, None, 0)
    return name


@uninterrupted
def advance_stream(
    accountant: PrivacyAccountant, name: str, position: int, steps: int
) -> None:
    """Move a stream on, if it has made as many steps as the caller's copy believes.

    Otherwise nothing is changed, and a LedgerError says how to go on.
    """
    ledger = accountant._ledger()
    with ledger.transaction() as transaction:
        if not transaction.change_stream(name, position, position + steps):
            raise LedgerError(
                "this stream was continued elsewhere, or a step of it failed: the "
                f"ledger {ledger.path} does not have it at step {position}. Its noise "
                "must not be drawn twice; go on with the newest copy. If that one is "
                "lost, resume() goes on where the ledger is, without the rows between; "
                "or clone the estimator to begin a new stream"
            )


@uninterrupted
def stream_position(accountant: PrivacyAccountant, name: str) -> int:
    """Return how many steps a stream has made, in whichever copy."""
    ledger = accountant._ledger()
    with ledger.transaction(keep=False) as transaction:
        query = "SELECT position FROM streams WHERE id = ?"
        row = transaction.execute(query, (name,)).fetchone()
    if row is None:
        raise LedgerError(
            f"the ledger {ledger.path} does not know this stream: it is an older copy "
            "of the ledger; clone the estimator to begin a new stream"
        )
    return int(row[0])
