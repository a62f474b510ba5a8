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
    LedgerEntry,
    Remaining,
    Spent,
    Summary,
    exported,
    read_entry,
    summary_html,
)
from .locks import uninterrupted
from .planned_fits import PlannedFit, planned_fits
from .server import AnyLedger, ledger_at, open_path
from .sqlite_file import TemporaryFolder
from .step_shares import allocated

# The largest delta below 1.
_LARGEST_DELTA = 1.0 - 2.0**-53


class TotalAtDelta(NamedTuple):
    """Cost of all entries, read under the lock; its epsilon is computed after it."""

    total: Total
    delta: float

    def spent(self) -> Spent:
        """Return the cost; of some ledgers that takes seconds."""
        return Spent(self.total.epsilon(self.delta), self.delta)


class _Before(NamedTuple):
    """A ledger before a charge to a block: terms, total, the block's slack, if any."""

    terms: LedgerTerms
    spent: Total
    slack: Share
    first: bool

    @classmethod
    def of(cls, transaction: Transaction, part: DisjointBlock) -> _Before:
        """Return what a transaction holds so far."""
        found = transaction.slack(part), transaction.is_first(part)
        return cls(transaction.terms(), transaction.total(), *found)


def _secret_total(transaction: Transaction) -> Total:
    """Return the total, in which noise from a seed costs without limit."""
    total = transaction.total()
    return total._replace(mu=math.inf) if transaction.any_seeded() else total


class PrivacyAccountant:
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
    failures : float or None, default=None
        Part of `delta` that a new ledger sets aside for mechanisms that are no
        Gaussians: fits on samples, private selections, deltas of other tools and of
        models (:ref:`filters`). None sets a tenth of `delta` aside, which costs
        Gaussian mechanisms .4 to .5 % of mu. With 0 their limit is exact, and fits on
        samples cost what they would without sampling.
    pure : float or None, default=None
        Part of `epsilon` that a new ledger sets aside for :meth:`charge_external`. None
        takes the epsilon of the first entry, if that is one of another tool, else 0.
        Beyond it such entries are let in at the cost of a Gaussian mechanism that
        covers them, which is dear unless their epsilons are small.
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
            raise ValueError(f"{parts}: only parts of a budget, give epsilon{where}")
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
        note_charge([plan], self._enter(plan.estimator, [(self._own_part(), plan)]))

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
            Whom its guarantee protects.
        neighbors : {"replace-one", "add-remove-one", "zero-out-one"}
            The change that it hides. A ledger of replaced rows or users counts what
            hides that one joins or leaves as ``(2 * epsilon, (1 + exp(epsilon)) *
            delta)``, and the entry says so.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        PrivacyBudgetError
            If it does not fit the budget.
        LedgerError
            If the ledger's unit or relation does not follow from the one that is given,
            or it cannot be used.

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
        """Raise what rolls fits back that were entered, if they exceed the budget."""
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
            excess = replace(excess, plan=plan, cost=cost, n=n)
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
        y : array-like or None, default=None
            Ignored: what a fit costs does not depend on targets.
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
        if isinstance(y, Integral):
            raise TypeError(f"y must be targets, got {y}: give n_fits={y} by its name")
        n_fits = check_count("n_fits", n_fits)
        fits = planned_fits(what, X, groups)
        fits = [fit for fit in fits if self._handle_of(fit)._id == self._id]
        return self._total_after(fits, n_fits).spent()

    def allocate(
        self,
        what: Any,
        X: Any,
        epsilon: float | None = None,
        delta: float | None = None,
        shares: Any = "auto",
    ) -> Any:
        r"""Return a clone of a pipeline whose private steps share a budget.

        For pipelines whose class cannot be changed: each step is charged by itself.
        :class:`~skdpspectral.pipeline.PrivatePipeline` is one entry, and composes a
        step on Poisson samples with all others exactly.

        Parameters
        ----------
        what : estimator
            A ``Pipeline``, ``ColumnTransformer`` or ``FeatureUnion`` of private steps,
            whose own `epsilon` and `delta` are replaced.
        X : array-like or dataframe
            Rows of the fit, of which the shape, names and dtypes are used.
        epsilon, delta : float or None, default=None
            Budget of all steps together; None takes what remains of this ledger's.
        shares : "auto" or dict of str to float, default="auto"
            Shares of :math:`\mu^2`, as of
            :class:`~skdpspectral.pipeline.PrivatePipeline`.

        Returns
        -------
        estimator
            An unfitted clone. One fit of it is within the budget, and within that of
            this ledger; nothing is charged before.

        Raises
        ------
        PrivacyBudgetError
            If the ledger has too little left.
        ValueError, TypeError
            If it is not known beforehand what is fitted, or a share is of no step.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.pipeline import make_pipeline
        >>> from skdpspectral import DPPCA, DPStandardScaler, PrivacyAccountant
        >>> X = np.random.default_rng(0).normal(size=(1000, 5))
        >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
        >>> model = make_pipeline(DPStandardScaler(), DPPCA(2))
        >>> model = accountant.allocate(model, X, epsilon=2.0)
        >>> [round(step.epsilon, 1) for _, step in model.steps]
        [1.1, 1.6]
        """
        left = self.remaining()
        if epsilon is None and self._budget is None:
            raise ValueError("epsilon must be given, as this ledger has no budget")
        epsilon = left.epsilon if epsilon is None else epsilon
        budget = check_budget(epsilon, left.delta if delta is None else delta)
        assert budget is not None
        # Its own budget, in a ledger that knows of nothing else.
        alone = PrivacyAccountant(budget.epsilon, budget.delta)

        def check(model: Any) -> None:
            alone.check(model, X)
            self.check(model, X)

        return allocated(what, budget.epsilon, budget.delta, shares, check)

    @uninterrupted
    def _total_after(self, fits: Sequence[PlannedFit], n_fits: int) -> TotalAtDelta:
        """Return what so many fits would come to, or refuse them; charge nothing."""
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
                return self._total_at_delta(transaction)
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
            a budget. Seeded fits that were let in count at face value. ``str()``
            explains it.

        Raises
        ------
        ValueError
            If `k` is no positive integer.

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
        """Return the block of rows that entries of this handle are about."""
        if self._division is None or self._label is None:
            return whole_data()
        division, unit = self._division
        return asserted_block(division, self._label, unit)

    def _remaining(self, budget: Budget, transaction: Transaction, k: int = 1) -> float:
        first = transaction.is_first(self._own_part())
        return budget.remaining(transaction.total(), transaction.terms(), k, first)

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
        ``pandas.DataFrame(accountant.ledger)`` is a table of them. `epsilon`,
        `delta` and `mu` are those of the fit alone, `ledger_mu` is its cost in the
        ledger's unit and relation, and `plan` has all of it
        (:meth:`~skdpspectral.mechanisms.PrivacyPlan.from_json`).
        """
        return tuple(map(read_entry, self._ledger().entries()))

    @uninterrupted
    def _total(self) -> Total:
        with self._ledger().transaction(keep=False) as transaction:
            return _secret_total(transaction)

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
    """Return numbers of entries, totals after them, and what one more fit may ask for.

    Of a long ledger they are about `n_points` moments, the first and the last included.
    What is left is empty without a budget.
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
