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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...mechanisms import ParallelPlan, PrivacyPlan, Unit, check_count, shown
from .._composition import Total
from .._errors import LedgerError
from .._gaussian import MIN_DELTA
from .budget import (
    DEFAULT_DELTA,
    FAILURES,
    PURE,
    Budget,
    DisjointBlock,
    LedgerTerms,
    Share,
    agreed_budget,
    asserted_block,
    box_of,
    check_box,
    check_budget,
    check_division,
    check_flag,
    check_plans,
    check_relation,
    checked_blocks,
    cost_of,
    external_plan,
    new_name,
    terms_of,
    whole_data,
    with_restatement,
)
from .context import close_block, note_charge, open_block
from .entry_chain import Transaction
from .entry_reports import (
    Excess,
    LastSpent,
    LedgerEntry,
    Remaining,
    Spent,
    Summary,
    exported,
    read_entry,
    summary_html,
)
from .locks import uninterrupted
from .planned_fits import PlannedFit, Refit, planned_fits
from .server import AnyLedger, ledger_at, open_path
from .sqlite_file import TemporaryFolder

# The largest delta below 1.
_LARGEST_DELTA = 1.0 - 2.0**-53


class TotalAtDelta(NamedTuple):
    """Cost of all entries, read under the lock; epsilon is computed later."""

    total: Total
    delta: float
    is_last: bool = False

    def spent(self) -> Spent:
        """Return the cost, which may take seconds."""
        kind = LastSpent if self.is_last else Spent
        return kind(self.total.epsilon(self.delta), self.delta)


class _Before(NamedTuple):
    """A ledger before a charge to a block: terms, total and the block's slack."""

    terms: LedgerTerms
    spent: Total
    slack: Share
    first: bool

    @classmethod
    def of(cls, transaction: Transaction, part: DisjointBlock) -> _Before:
        """Return the state of a ledger in a transaction."""
        found = transaction.slack(part), transaction.is_first(part)
        return cls(transaction.terms(), transaction.total(), *found)


def _secret_total(transaction: Transaction) -> Total:
    """Return the total, with infinite cost if noise was seeded."""
    total = transaction.total()
    return total._replace(mu=math.inf) if transaction.any_seeded() else total


class PrivacyAccountant:
    """A ledger of privacy spending, shared by any number of estimators.

    Every fit is charged before it reads any values of its data, so a fit that fails or
    is killed stays charged. :ref:`limits` describes what is known about the data before
    the charge. If a fit would exceed the budget, it raises :class:`PrivacyBudgetError`
    and nothing is charged.

    Parameters
    ----------
    epsilon : float or None, default=None
        Budget, positive. None records without a limit, or uses the budget of an
        existing ledger at `path`.
    delta : float or None, default=None
        Budget in [1e-15, 1). None means 1e-6 if `epsilon` is given.
    path : str or path-like or None, default=None
        Ledger file on a local disk of one host, created if missing; or a database of a
        PostgreSQL server, ``"postgresql://user@host/database"``, for several hosts
        (:ref:`server_ledger`). None uses a temporary file, deleted with this object.
    unit : {"row", "user"} or None, default=None
        Privacy unit of the stated totals. None uses the unit of the first entry.
    neighbors : str or None, default=None
        Neighbor relation of the stated totals: "replace-one", "add-remove-one" or
        "zero-out-one". Must be given together with `unit`.
    failures : float or None, default=None
        Part of `delta` that a new ledger reserves for mechanisms that are not Gaussian:
        fits on samples, and the deltas of other tools and of models (:ref:`filters`).
        None reserves a tenth of `delta`, which costs Gaussian mechanisms 0.4 to 0.5 %
        of mu. With 0 their limit is exact, and fits on samples cost as much as
        without sampling.
    pure : float or None, default=None
        Part of `epsilon` that a new ledger reserves for :meth:`charge_external`. None
        reserves the epsilon of the first entry if that entry is external, and 0
        otherwise. External entries beyond this part cost as much as a Gaussian
        mechanism that covers them, which is expensive unless their epsilons are small.
    allow_seeded : bool, default=False
        Whether this handle charges fits with a `noise_seed` to a budget, at face value.
        Use it only for tests and figures. The ledger records that these fits were
        seeded, and :meth:`spent` is infinite. Copies, pickles and :meth:`named` handles
        inherit this setting; other handles of the same file set it themselves.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    LedgerError
        If the file at `path` is damaged, not a ledger, of another version, or has
        another budget, unit or relation. The file is not changed.

    Notes
    -----
    Gaussian mechanisms compose exactly, even if they are chosen adaptively: ``mu**2``
    adds up (:ref:`composition`). A budget that is fixed in advance is valid even if you
    choose each fit after seeing earlier results. Without a budget, ``spent`` is not
    valid if it is quoted at a time chosen by the results.

    The object is a handle. Copies, clones and pickles share one ledger, also in worker
    processes, and unpickling never creates a ledger. A ``with`` block applies to
    estimators of its thread or asyncio task that have no accountant, including
    estimators sent to workers. An estimator *created* in a worker process ignores the
    block, so pass the accountant as a parameter. Threads, backups, blocks of rows and
    costs with a failure probability are described in the :ref:`user guide <ledger>`.

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
        failures: float | None = None,
        pure: float | None = None,
        allow_seeded: bool = False,
    ) -> None:
        budget = check_budget(epsilon, delta)
        relation = check_relation(unit, neighbors)
        given = {FAILURES: failures, PURE: pure}
        box = check_box(budget, failures, pure)
        if not (path is None or isinstance(path, (str, os.PathLike))):
            raise TypeError(f"path must name a file or be None, got {path!r}")
        new = path is None or not ("://" in os.fsdecode(path) or os.path.lexists(path))
        if budget is None and new and (failures, pure) != (None, None):
            parts = " and ".join(part for part in given if given[part] is not None)
            where = "" if path is None else f" (there is no ledger at {path})"
            raise ValueError(
                f"{parts}: not allowed without a budget; pass epsilon{where}"
            )
        self._allow_seeded = check_flag("allow_seeded", allow_seeded)
        self._keeper: TemporaryFolder | None = None
        if path is None:
            self._keeper = TemporaryFolder()
            path = Path(self._keeper.name) / "ledger.db"
        self._path = open_path(path, terms_of(budget, relation, box))
        meta = ledger_at(self._path).meta()
        self._id = meta["ledger_id"]
        self._budget = agreed_budget(self._path, meta, budget, relation, **given)
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
        """Epsilon of the budget; None without a budget."""
        return None if self._budget is None else self._budget.epsilon

    @property
    def delta(self) -> float | None:
        """Delta of the budget; None without a budget."""
        return None if self._budget is None else self._budget.delta

    @property
    def path(self) -> str:
        """Path of the ledger file, or address of the ledger on a server."""
        return self._path

    @property
    def allow_seeded(self) -> bool:
        """Whether this handle charges seeded fits to a budget."""
        return self._allow_seeded

    def named(
        self,
        label: str,
        *,
        disjoint_within: str | None = None,
        disjoint_unit: str | None = None,
    ) -> PrivacyAccountant:
        """Return a handle of the same ledger that adds a label to its entries.

        A label alone does not change costs: entries with different labels compose
        sequentially, since they may concern the same rows.

        Parameters
        ----------
        label : str
            Label of each entry.
        disjoint_within : str or None, default=None
            Name of a partition of the data that has `label` as one of its blocks. With
            it, you **assert** that no row (or no user, see `disjoint_unit`) is in two
            blocks of the partition, that none ever moves to another block, and that the
            blocks were fixed without looking at private values. All entries together
            then cost as much as the costliest block. The ledger and statements record
            the assertion.
        disjoint_unit : {"row", "user"} or None, default=None
            Unit that is asserted to be in no two blocks; None means rows. "user" means
            a person with all of that person's rows. A ledger that protects users
            requires "user", because a user may have rows in two blocks even if no row
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
        """Copy the complete ledger to a new file while it is in use.

        Never copy the ledger file by other means while a process uses it, because the
        copy may be inconsistent. The backup is the same ledger with the same budget.
        Use it only to replace a lost ledger, never alongside one in use, and treat
        everything spent since the backup as spent.

        Parameters
        ----------
        path : str or path-like
            File to create, also for a ledger on a server. Existing files are never
            replaced.

        Raises
        ------
        LedgerError
            If `path` exists or cannot be created.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must name a file, got {shown(path)}")
        self._ledger().back_up(Path(path).absolute())

    # -- spending --------------------------------------------------------------

    def charge(self, plan: PrivacyPlan) -> None:
        """Charge a plan, or refuse it, before any data are read.

        When this method returns, the entry has been written to disk.

        Parameters
        ----------
        plan : PrivacyPlan
            Plan of the releases.

        Raises
        ------
        PrivacyBudgetError
            If the plan exceeds the budget, or if its noise is seeded and this handle
            has a budget without ``allow_seeded=True``.
        LedgerError
            If the ledger cannot be used or does not support the neighbor relation.
        """
        (plan,) = check_plans([plan])
        note_charge([plan], self._enter(plan.estimator, [(self._own_part(), plan)]))

    def charge_external(
        self, epsilon: float, delta: float, what: str, *, unit: str, neighbors: str
    ) -> None:
        """Charge what another tool has spent, or will spend, on the same rows.

        Parameters
        ----------
        epsilon, delta : float
            Guarantee of that tool: `epsilon` at least 0, finite; `delta` in [0, 1).
        what : str
            Description for the ledger, in place of an estimator's name.
        unit : {"row", "user"}
            Privacy unit of the other tool's guarantee.
        neighbors : {"replace-one", "add-remove-one", "zero-out-one"}
            Neighbor relation of the other tool's guarantee. A ledger with "replace-one"
            counts an "add-remove-one" guarantee as
            ``(2 * epsilon, (1 + exp(epsilon)) * delta)``, and the entry records this.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        PrivacyBudgetError
            If the charge exceeds the budget.
        LedgerError
            If the unit or relation does not imply the ledger's, or the ledger is
            unusable.

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
        """Enter the plans of named blocks of rows, all or none.

        Only for callers that verified that no row is in two blocks; others use
        :meth:`named`. `name` is the estimator's, for errors.
        """
        parts = checked_blocks(plans)
        entries = [(parts[block], plan) for block, plan in plans.items()]
        note_charge(list(plans.values()), self._enter(name, entries))

    @uninterrupted
    def _enter(
        self, name: str, entries: Sequence[tuple[DisjointBlock, PrivacyPlan]]
    ) -> list[int]:
        """Enter plans, all or none, and return the numbers of their entries."""
        plans = [plan for _, plan in entries]
        for plan in check_plans(plans):
            if self._budget is not None:
                self._budget.refuse_unlimited(plan, self._allow_seeded)
        try:
            with self._ledger().transaction() as transaction:
                before = _Before.of(transaction, entries[0][0])
                numbers = [
                    self._append(transaction, plan, part) for part, plan in entries
                ]
                # An error here rolls the transaction back.
                fits = list(zip(plans, [1] * len(plans), strict=True))
                self._refuse_excess(transaction, name, fits, before)
        except Excess as excess:
            assert self._budget is not None
            raise excess.error(self._budget) from None
        return numbers

    def _refuse_excess(
        self,
        transaction: Transaction,
        what: str,
        fits: Sequence[tuple[PrivacyPlan, int]],
        before: _Before,
    ) -> None:
        """Raise, which rolls entered fits back, if they exceed the budget."""
        total = transaction.total()
        terms, spent, slack, first = before
        if self._budget is None or self._budget.admits(
            total, transaction.terms(), first
        ):
            return
        if not any(plan.mechanisms for plan, _ in fits):
            return  # nothing is released: there is room for it also where none is left
        excess = Excess(what, terms, spent, total, slack=slack, first=first)
        (plan, n), *others = fits
        relation = transaction.relation()
        if not others and not isinstance(plan, ParallelPlan) and relation is not None:
            cost = cost_of(plan, relation)
            excess = replace(excess, plan=plan, cost=cost, relation=relation, n=n)
        raise excess

    def check(
        self,
        what: Any,
        X: Any = None,
        y: Any = None,
        *,
        n_fits: int = 1,
        groups: Any = None,
    ) -> Spent:
        """Check whether fits are affordable, without fitting or charging.

        Call it before a parameter search, because a search turns the errors of single
        fits into missing scores.

        Parameters
        ----------
        what : estimator, PrivacyPlan or iterable of PrivacyPlan
            A private estimator, pipeline or search, or a ``Pipeline``,
            ``ColumnTransformer``, ``FeatureUnion`` or ``GridSearchCV`` of private
            estimators. Each candidate of a search is counted once per fold, and the
            most expensive candidate once more for ``refit``. Plans are counted
            together.
        X : array-like or dataframe, default=None
            Rows of the fits. Only their shape, and the identity of clients, is used.
            Pass None with plans, which contain the shape.
        y : array-like or None, default=None
            Ignored, because the cost of a fit does not depend on targets.
        n_fits : int, default=1
            Number of repetitions, such as the number of folds of
            :func:`~sklearn.model_selection.cross_val_score`.
        groups : array-like or None, default=None
            Groups for the splitter of a search whose number of folds depends on them.

        Returns
        -------
        Spent
            The total of the ledger after these fits. Steps with an accountant of
            another ledger are not counted. ``str()`` says so if the ledger will admit
            nothing else, which can happen long before its epsilon is spent.

        Raises
        ------
        PrivacyBudgetError
            If the budget is too small.
        ValueError, TypeError
            If the fits are not known in advance, for example those of other searches.
            The message suggests a remedy.
        """
        if isinstance(y, Integral):
            raise TypeError(
                f"y must be targets, got {y}: pass n_fits={y} as a keyword argument"
            )
        n_fits = check_count("n_fits", n_fits)
        planned = planned_fits(what, X, groups)
        fits = self._charged_here(f for f in planned if isinstance(f, PlannedFit))
        spent = self._total_after(fits, n_fits).spent()
        for refit in (fit for fit in planned if isinstance(fit, Refit)):
            # Whichever candidate is best: all of them must be affordable.
            spents = {}
            for alternative in dict.fromkeys(refit.alternatives):
                again = [*fits, *self._charged_here(alternative)]
                spents[alternative] = self._total_after(again, n_fits).spent()
            dearest = max(spents, key=lambda fits: spents[fits].epsilon)
            fits, spent = [*fits, *self._charged_here(dearest)], spents[dearest]
        return spent

    def _charged_here(self, fits: Iterable[PlannedFit]) -> list[PlannedFit]:
        """Return the fits that are charged to this ledger."""
        return [fit for fit in fits if self._handle_of(fit)._id == self._id]

    @uninterrupted
    def _total_after(self, fits: Sequence[PlannedFit], n_fits: int) -> TotalAtDelta:
        """Return the total after `n_fits` fits, or refuse them, without a charge."""
        if self._budget is not None:
            for fit in fits:
                allowed = self._handle_of(fit)._allow_seeded
                self._budget.refuse_unlimited(fit.plan, allowed)
        try:
            with self._ledger().transaction(keep=False) as transaction:
                own = self._handle_of(fits[0]) if fits else self
                before = _Before.of(transaction, own._own_part())
                for fit in fits:
                    self._handle_of(fit)._append_fits(
                        transaction, fit.plan, fit.times * n_fits
                    )
                if fits:
                    asked = [(fit.plan, fit.times * n_fits) for fit in fits]
                    count = sum(times for _, times in asked)
                    names = dict.fromkeys(fit.plan.estimator for fit in fits)
                    what = f"{count} fit{'s'[: count > 1]} of {', '.join(names)}"
                    # One alone may be all there is.
                    before = before._replace(first=before.first and count == 1)
                    self._refuse_excess(transaction, what, asked, before)
                found = self._total_at_delta(transaction)
                if self._budget is None:
                    return found
                box = box_of(transaction.terms())
                return found._replace(is_last=not box.admits(found.total))
        except Excess as excess:
            assert self._budget is not None
            raise excess.error(self._budget) from None

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

    def _append(
        self,
        transaction: Transaction,
        plan: PrivacyPlan,
        part: DisjointBlock,
        times: int = 1,
    ) -> int:
        """Enter fits of a plan, and return the number of their entry."""
        relation = transaction.relation()
        if relation is None:
            relation = (plan.unit, plan.neighbors)
            transaction.fix_relation(*relation)
        cost = cost_of(plan, relation)
        part.check_unit(relation[0])
        stated = with_restatement(plan, relation)
        return transaction.append(stated, cost, part, self._label, times)

    # -- totals and tables -----------------------------------------------------

    def _ledger(self) -> AnyLedger:
        return ledger_at(self._path, self._id)

    def _total_at_delta(
        self, transaction: Transaction, delta: float | None = None
    ) -> TotalAtDelta:
        """Return the cost of all entries in a transaction."""
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
        """Return the tight total privacy cost of all entries.

        Parameters
        ----------
        delta : float or None, default=None
            Delta in [1e-15, 1). None uses the delta of the budget. Without a budget, it
            uses the smallest delta of the entries or, if larger, twice their deltas for
            failures of a model's bounds and for other tools.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta), for the ledger's unit and relation. Infinite
            after a release with no or seeded noise, or if failures use up delta.

        Notes
        -----
        The cost of Gaussian mechanisms is exact. Other mechanisms are composed with
        privacy loss distributions. These give an upper bound, which holds for
        mechanisms that were not chosen based on earlier results. Budgets are enforced
        by other means (:ref:`filters`), so less may be left to spend than this
        suggests.
        """
        return self._read_total_at_delta(delta).spent()

    @uninterrupted
    def remaining(self, k: int = 1) -> Spent:
        """Return the budget available to each of `k` further equal fits.

        The remaining ``mu**2`` is split equally, because it adds up over fits. Each of
        `k` fits gets about ``1 / sqrt(k)`` of the remaining budget, rather than
        ``1 / k``.

        Parameters
        ----------
        k : int, default=1
            Number of fits, at least 1.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta) at the budget's delta, for Gaussian fits of the
            ledger's unit and relation on all of its rows; infinite without a budget.
            Seeded fits count at face value. ``str()`` explains the result.

        Raises
        ------
        ValueError
            If `k` is not a positive integer.

        Examples
        --------
        >>> from skdpspectral import DPPCA, PrivacyAccountant
        >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
        >>> round(accountant.remaining(10).epsilon, 3)
        0.574
        >>> accountant.charge(DPPCA(2, epsilon=1.0).privacy_plan(1000, 5))
        >>> print(accountant.remaining())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
        epsilon=1 of 2 at delta=1e-06 is spent; costs do not add up linearly, so a fit
        of up to epsilon=1.6... still fits.
        """
        k = check_count("k", k)
        with self._ledger().transaction(keep=False) as transaction:
            budget = self._budget
            if budget is None:
                return Remaining(math.inf, self._total_at_delta(transaction).delta)
            left = self._remaining(budget, transaction, k)
            total, most = transaction.total(), box_of(transaction.terms()).failures
            return Remaining(left, budget.delta, k, budget, total, most)

    def _own_part(self) -> DisjointBlock:
        """Return the block of this handle's entries."""
        if self._division is None or self._label is None:
            return whole_data()
        division, unit = self._division
        return asserted_block(division, self._label, unit)

    def _remaining(self, budget: Budget, transaction: Transaction, k: int = 1) -> float:
        first = transaction.is_first(self._own_part())
        return budget.remaining(transaction.total(), transaction.terms(), k, first)

    def privacy_curve(self, epsilons: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return delta(epsilon) of all entries together, for plots.

        Parameters
        ----------
        epsilons : array-like of float
            Values of epsilon, each at least 0.

        Returns
        -------
        ndarray
            Values of delta, in the shape of `epsilons`.
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
        """All entries, oldest first, in a format that does not depend on dependencies.

        Each entry is a named tuple with its time in UTC, so
        ``pandas.DataFrame(accountant.ledger)`` gives a table. `epsilon`, `delta` and
        `mu` are the cost of the fit alone, `ledger_mu` is its cost in the ledger's unit
        and relation, and `plan` contains all details
        (:meth:`~skdpspectral.mechanisms.PrivacyPlan.from_json`).
        """
        return tuple(map(read_entry, self._ledger().entries()))

    @uninterrupted
    def _total(self) -> Total:
        with self._ledger().transaction(keep=False) as transaction:
            return _secret_total(transaction)

    def export(self) -> str:
        """Return the ledger as JSON lines, for an audit or an archive.

        Returns
        -------
        str
            One JSON object per line: first the ledger with its totals, then its
            entries, oldest first, each with its mechanisms and an English sentence
            (``"statement"``). Infinite values are null.

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
        return exported(summary_of(self), self._id)

    def __str__(self) -> str:
        return str(summary_of(self))

    def _repr_html_(self) -> str:
        return summary_html(summary_of(self))


def summary_of(accountant: PrivacyAccountant, n_entries: int | None = None) -> Summary:
    """Return totals and entries of one moment: now, or after the first `n_entries`."""
    standing, summary = _read_summary(accountant, n_entries)
    return summary._replace(spent=standing.spent())


@uninterrupted
def totals_over_time(
    accountant: PrivacyAccountant, n_points: int = 201
) -> tuple[list[int], list[TotalAtDelta], list[float]]:
    """Return numbers of entries, totals after them, and remaining epsilons.

    Long ledgers are sampled at about `n_points` moments, including the first and the
    last. Remaining epsilons are empty without a budget.
    """
    budget = accountant._budget
    with accountant._ledger().transaction(keep=False) as transaction:
        last, _ = transaction.last()
        delta = accountant._total_at_delta(transaction).delta
        counts = np.unique(np.linspace(0, last, min(last + 1, n_points)).round())
        found = [(int(count), transaction.as_of(int(count))) for count in counts]
        totals = [accountant._total_at_delta(past, delta) for _, past in found]
        left = [accountant._remaining(budget, past) for _, past in found if budget]
    return [count for count, _ in found], totals, left


@uninterrupted
def _read_summary(
    accountant: PrivacyAccountant, n_entries: int | None
) -> tuple[TotalAtDelta, Summary]:
    """Return what is read under the lock, before its cost is worked out."""
    budget = accountant._budget
    with accountant._ledger().transaction(keep=False) as transaction:
        found, _ = transaction.last()
        if n_entries is not None and not 0 <= n_entries <= found:
            raise LedgerError(f"the ledger has {found} entries, not {n_entries}")
        if n_entries is not None and n_entries < found:
            transaction = transaction.as_of(n_entries)
        remaining = None
        if budget is not None:
            left = accountant._remaining(budget, transaction)
            remaining = Spent(left, budget.delta)
        standing = accountant._total_at_delta(transaction)
        summary = Summary(
            relation=transaction.relation(),
            spent=Spent(math.inf, standing.delta),
            budget=budget,
            remaining=remaining,
            entries=tuple(map(read_entry, transaction.entries())),
            total=standing.total,
            digest=transaction.last()[1],
        )
        return standing, summary


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
    """Advance a stream if its position is that of the caller's copy.

    Otherwise nothing is changed, and a LedgerError explains the remedy.
    """
    ledger = accountant._ledger()
    with ledger.transaction() as transaction:
        if not transaction.change_stream(name, position, position + steps):
            raise LedgerError(
                "this stream was continued elsewhere, or a step of it failed: the "
                f"ledger {ledger.path} does not have it at step {position}. Its noise "
                "must not be drawn twice; continue with the newest copy. If that copy "
                "is lost, resume() continues at the step of the ledger, without the "
                "rows in between; or clone the estimator to begin a new stream"
            )


@uninterrupted
def stream_position(accountant: PrivacyAccountant, name: str) -> int:
    """Return the number of steps of a stream over all copies."""
    ledger = accountant._ledger()
    with ledger.transaction(keep=False) as transaction:
        query = "SELECT position FROM streams WHERE id = ?"
        row = transaction.execute(query, (name,)).fetchone()
    if row is None:
        raise LedgerError(
            f"the ledger {ledger.path} does not contain this stream: it is an older "
            "copy of the ledger; clone the estimator to begin a new stream"
        )
    return int(row[0])
