"""The shared ledger of every private release."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..mechanisms import PrivacyPlan, Unit, check_count, shown
from ._ambient import close_block, open_block
from ._arguments import check_budget, check_division, check_plans, check_relation
from ._budget import Budget
from ._errors import LedgerError
from ._ledger import Ledger, Transaction, conversion_factor
from ._ledger_file import TemporaryFolder, create
from ._parts import Part, asserted_block, checked_blocks, whole
from ._reports import LedgerReports, Spent
from ._streams import advance_stream, open_stream, stream_position


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
        File of the ledger, on a local disk of one host; created if missing. None
        keeps the ledger in a temporary file that ends with this object.
    unit : {"row", "user"} or None, default=None
        Unit of privacy that totals are stated for; None takes the first entry's.
    neighbors : str or None, default=None
        Relation that totals are stated for: "replace-one", "add-remove-one" or
        "zero-out-one"; given together with `unit`.

    Attributes
    ----------
    ledger : DataFrame or list of dict
        One row an entry, oldest first; a list where pandas is not installed.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    LedgerError
        If the file at `path` is foreign, damaged, of another version, or holds
        another budget, unit or relation; it is left as it is.

    Notes
    -----
    Gaussian mechanisms compose exactly, adaptively chosen ones too:
    ``mu**2`` adds up. Refusing what would exceed a budget that was fixed
    beforehand is sound even if each fit is chosen after seeing the earlier ones.
    Where a plan has a `failure`, a probability that its costs do not hold, these add
    up: totals are stated at what they leave of delta, and a budget's delta has to hold
    them too. Fits of that kind are to be chosen before results are seen.
    :meth:`spent` is a figure for one moment: stopping at a moment chosen by the
    results, and quoting ``spent`` without a budget, is not covered by a theorem.

    The object is a handle: copies, clones and pickles share one ledger, in worker
    processes too. Unpickling never creates a ledger. SQLite's write-ahead log
    works on one host only, not over a network file system.

    A ``with`` block serves the estimators of its thread or asyncio task that have no
    accountant of their own, and takes those that are sent to workers along. A thread
    without a block is charged to the only ledger open in the process, or refused if
    there are several. An estimator that is *made* in a worker process knows of no
    block: give it the accountant as a parameter.

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
        self, epsilon=None, delta=None, *, path=None, unit=None, neighbors=None
    ):
        budget = check_budget(epsilon, delta)
        relation = check_relation(unit, neighbors)
        if not (path is None or isinstance(path, (str, os.PathLike))):
            raise TypeError(f"path must name a file or be None, got {path!r}")
        self._keeper = None if path is not None else TemporaryFolder()
        file = Path(self._keeper.name) / "ledger.db" if path is None else Path(path)
        self._path = str(file.absolute())
        if not file.exists():
            _create(file, budget, relation)
        meta = Ledger(self._path).meta()
        self._id = meta["ledger_id"]
        self._budget = None
        if meta["epsilon"] is not None:
            self._budget = Budget(meta["epsilon"], meta["delta"])
        self._check_agreement(meta, budget, relation)
        self._label = None
        self._division: tuple[str, Unit] | None = None

    def _check_agreement(self, meta, budget, relation) -> None:
        """Refuse to reopen a ledger under another budget or relation."""
        if budget is not None and budget != self._budget:
            found = self._budget or "none"
            raise LedgerError(
                f"the ledger {self._path} has the budget {found}, not {budget}; open "
                "it without a budget, or start another ledger"
            )
        found = (meta["unit"], meta["neighbors"])
        if relation is not None and tuple(map(str, relation)) != found:
            raise LedgerError(
                f"the ledger {self._path} is kept per unit={found[0]}, "
                f"neighbors={found[1]}, not per unit={relation[0]}, "
                f"neighbors={relation[1]}; start another ledger for these"
            )

    # -- identity: every copy is the same ledger ------------------------------

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_keeper"] = None
        return state

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self

    def __enter__(self):
        open_block(self)
        return self

    def __exit__(self, *exc_info):
        close_block(self)

    def __repr__(self):
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
        """File of the ledger."""
        return self._path

    def named(
        self,
        label: str,
        *,
        disjoint_within: str | None = None,
        disjoint_unit: str | None = None,
    ):
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

    def backup(self, path) -> None:
        """Copy the ledger to a new file, whole, while it is in use.

        Never copy the file of a ledger by other means while a process uses it: the
        copy may be torn. The copy is the same ledger with the same budget. Put
        it in the place of a ledger that was lost, never beside one that is in use,
        and count what was spent since as spent.

        Parameters
        ----------
        path : str or path-like
            File to make; one that exists is never replaced.

        Raises
        ------
        LedgerError
            If there is a file at `path`, or none can be made.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must name a file, got {shown(path)}")
        self._ledger().back_up(Path(path).absolute())

    # -- spending --------------------------------------------------------------

    def charge(self, plan: PrivacyPlan, *, allow_seeded: bool = False) -> None:
        """Enter a plan, or refuse it; to be called before any data are read.

        Once this returns, the entry is on the disk.

        Parameters
        ----------
        plan : PrivacyPlan
            What will be released.
        allow_seeded : bool, default=False
            Whether a budget accepts noise from a seed, at its face value.

        Raises
        ------
        PrivacyBudgetError
            If the plan does not fit the budget.
        LedgerError
            If the ledger cannot be used, or does not state the plan's relation.
        """
        (plan,) = check_plans([plan])
        self._enter(plan.estimator, [(self._own_part(), plan)], allow_seeded)

    def _charge_disjoint(
        self, name: str, plans: Mapping[str, PrivacyPlan], allow_seeded: bool = False
    ) -> None:
        """Enter the plans of blocks of rows at once, all or none.

        For estimators that have seen themselves that no row lies in two blocks; the
        word of anybody else goes through :meth:`named`.

        Parameters
        ----------
        name : str
            What asks, for error messages.
        plans : mapping of str to PrivacyPlan
            The plan of each block.
        allow_seeded : bool, default=False
            As for :meth:`charge`.
        """
        parts = checked_blocks(plans)
        entries = [(parts[block], plan) for block, plan in plans.items()]
        self._enter(name, entries, allow_seeded)

    def _enter(
        self, name: str, entries: Sequence[tuple[Part, PrivacyPlan]], allow_seeded: bool
    ) -> None:
        for _, plan in entries:
            check_plans(plan)
            if self._budget is not None:
                self._budget.refuse_unlimited(plan, allow_seeded)
        with self._ledger().transaction() as transaction:
            before = transaction.total()
            for part, plan in entries:
                self._append(transaction, plan, part)
            if self._budget is not None:
                # An error here rolls the transaction back.
                self._budget.refuse_excess(name, before, transaction.total())

    def check(
        self,
        plan: PrivacyPlan | Iterable[PrivacyPlan],
        repeats: int = 1,
        *,
        allow_seeded: bool = False,
    ) -> Spent:
        """Say whether so many fits of a plan are affordable; charge nothing.

        A search over parameters turns errors of single fits into missing scores:
        ask before it starts.

        Parameters
        ----------
        plan : PrivacyPlan or iterable of PrivacyPlan
            What one fit releases; several plans are asked for together.
        repeats : int, default=1
            Number of fits of every plan. A
            :class:`~sklearn.model_selection.GridSearchCV` fits each candidate once
            a fold, and the best once more.
        allow_seeded : bool, default=False
            As for :meth:`charge`.

        Returns
        -------
        Spent
            What the ledger would stand at afterwards.

        Raises
        ------
        PrivacyBudgetError
            If the budget does not suffice.
        """
        repeats = check_count("repeats", repeats)
        plans = check_plans(plan)
        if self._budget is not None:
            for entry in plans:
                self._budget.refuse_unlimited(entry, allow_seeded)
        with self._ledger().transaction(keep=False) as transaction:
            before = transaction.total()
            for entry in plans:
                self._append(transaction, entry, self._own_part(), repeats)
            if self._budget is not None:
                fits = f"{repeats * len(plans)} fits of {plans[0].estimator}"
                self._budget.refuse_excess(fits, before, transaction.total())
            return self._standing(transaction)

    def open_stream(self) -> str:
        """Enter a stream, and return the id that it advances by."""
        return open_stream(self._ledger())

    def advance_stream(self, name: str, position: int, steps: int) -> None:
        """Move a stream on, or refuse a copy that is not where the ledger has it.

        Parameters
        ----------
        name : str
            Id that :meth:`open_stream` gave.
        position : int
            Steps that the caller's copy has made.
        steps : int
            Steps that it is about to make.

        Raises
        ------
        LedgerError
            If the ledger has the stream elsewhere; nothing is changed.
        """
        advance_stream(self._ledger(), name, position, steps)

    def stream_position(self, name: str) -> int:
        """Return how many steps a stream has made, in whichever copy."""
        return stream_position(self._ledger(), name)

    def _own_part(self) -> Part:
        if self._division is None:
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


def _create(file: Path, budget: Budget | None, relation) -> None:
    if not file.parent.is_dir():
        raise LedgerError(f"path: the folder {file.parent} does not exist; make it")
    unit, neighbors = map(str, relation) if relation else (None, None)
    epsilon, delta = (budget.epsilon, budget.delta) if budget else (None, None)
    meta = {"epsilon": epsilon, "delta": delta, "unit": unit, "neighbors": neighbors}
    create(file, meta)
