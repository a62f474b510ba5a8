"""What is charged to a ledger: plans, other tools' spending, and what may be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..mechanisms import ParallelPlan, PrivacyPlan, Unit
from ..mechanisms._numbers import check_count
from ._arguments import check_plans, external_plan
from ._filters import ANY, GAUSSIAN
from ._parts import Part, asserted_block, checked_blocks, whole
from ._planned_fits import PlannedFit, planned_fits
from ._reports import LedgerReports, Standing
from ._summary import Spent
from ._transaction import Transaction, conversion_factor
from ._uninterrupted import uninterrupted


class LedgerCharges(LedgerReports):
    """Spending; the accountant adds who may spend, and what a handle is."""

    _allow_seeded: bool
    _label: str | None
    _division: tuple[str, Unit] | None

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
        """Enter the plans of blocks of rows at once, all or none.

        For estimators that have seen themselves that no row lies in two blocks; the
        word of anybody else goes through :meth:`named`.

        Parameters
        ----------
        name : str
            What asks, for error messages.
        plans : mapping of str to PrivacyPlan
            The plan of each block.
        """
        parts = checked_blocks(plans)
        entries = [(parts[block], plan) for block, plan in plans.items()]
        self._enter(name, entries)

    @uninterrupted
    def _enter(self, name: str, entries: Sequence[tuple[Part, PrivacyPlan]]) -> None:
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
        return self._afford(fits, n_fits)

    def _afford(self, fits: Sequence[PlannedFit], n_fits: int) -> Spent:
        """Say what so many fits would come to, or refuse them; charge nothing."""
        return self._afforded(fits, n_fits).spent()

    @uninterrupted
    def _afforded(self, fits: Sequence[PlannedFit], n_fits: int) -> Standing:
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
            return self._standing(transaction)

    def _append_fits(self, transaction: Transaction, plan: PrivacyPlan, n: int) -> None:
        """Enter several fits of a plan, as estimators do."""
        parts = [(self._own_part(), plan)]
        if isinstance(plan, ParallelPlan):
            own = checked_blocks(name for name, _ in plan.blocks)
            parts = [(own[name], block) for name, block in plan.blocks]
        for part, block in parts:
            self._append(transaction, block, part, n)

    def _handle_of(self, fit: PlannedFit) -> LedgerCharges:
        """Return the handle that a fit is charged to."""
        return self if fit.accountant is None else fit.accountant

    def _own_part(self) -> Part:
        if self._division is None or self._label is None:
            return whole()
        division, unit = self._division
        return asserted_block(division, self._label, unit)

    def _append(
        self, transaction: Transaction, plan: PrivacyPlan, part: Part, times: int = 1
    ) -> None:
        relation = transaction.relation()
        if relation is None:
            relation = (plan.unit, plan.neighbors)
            transaction.fix_relation(*relation)
        factor = conversion_factor(plan, relation)
        part.check_unit(relation[0])
        transaction.append(plan, factor, part, self._label, times)
