"""The shared ledger of every private release."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..mechanisms import Neighbours, PrivacyPlan, Unit
from ._composition import compose_mu
from ._errors import LedgerError, PrivacyBudgetError
from ._gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from ._ledger import ENTRY_COLUMNS, Ledger, Part, conversion_factor

_DEFAULT_DELTA = 1e-6
_defaults: list[PrivacyAccountant] = []


class Spent(NamedTuple):
    """A privacy cost: the smallest epsilon at this delta."""

    epsilon: float
    delta: float


class _TemporaryFolder:
    """A folder that its creating process deletes when nobody holds it any more."""

    def __init__(self):
        self.name = tempfile.mkdtemp(prefix="skdpspectral-")
        weakref.finalize(self, self._remove, self.name, os.getpid())

    @staticmethod
    def _remove(name: str, owner: int) -> None:
        if os.getpid() == owner:
            shutil.rmtree(name, ignore_errors=True)


def default_accountant() -> PrivacyAccountant | None:
    """Return the accountant of the innermost open ``with`` block, if any."""
    return _defaults[-1] if _defaults else None


class PrivacyAccountant:
    """A ledger of privacy spending, shared by any number of estimators.

    Every fit is entered before its data are read, so that a fit that fails or is
    killed stays charged. With a budget, what would exceed it is refused with
    :class:`PrivacyBudgetError`, and nothing is charged.

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
    neighbours : str or None, default=None
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
    :meth:`spent` is a figure for one moment: stopping at a moment chosen by the
    results, and quoting ``spent`` without a budget, is not covered by a theorem.

    The object is a handle: copies, clones and pickles share one ledger, in worker
    processes too. Unpickling never creates a ledger. SQLite's write-ahead log
    works on one host only, not over a network file system.

    Used in a ``with`` statement, it serves every estimator of this process that
    has no accountant of its own.

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
        self, epsilon=None, delta=None, *, path=None, unit=None, neighbours=None
    ):
        epsilon, delta = _check_budget(epsilon, delta)
        relation = _check_relation(unit, neighbours)
        self._keeper = None if path is not None else _TemporaryFolder()
        file = Path(self._keeper.name) / "ledger.db" if path is None else Path(path)
        self._path = str(file.absolute())
        if not file.exists():
            _create(file, epsilon, delta, relation)
        meta = Ledger(self._path).meta()
        self._check_agreement(meta, epsilon, delta, relation)
        self._id = meta["ledger_id"]
        self._epsilon, self._delta = meta["epsilon"], meta["delta"]
        self._label = None
        self._disjoint_within = None

    def _check_agreement(self, meta, epsilon, delta, relation) -> None:
        """Refuse to reopen a ledger under another budget or relation."""
        found = (meta["epsilon"], meta["delta"])
        if epsilon is not None and (epsilon, delta) != found:
            raise LedgerError(
                f"the ledger {self._path} has the budget epsilon={found[0]}, "
                f"delta={found[1]}, not epsilon={epsilon}, delta={delta}; open it "
                "without a budget, or start another ledger"
            )
        found = (meta["unit"], meta["neighbours"])
        if relation is not None and tuple(map(str, relation)) != found:
            raise LedgerError(
                f"the ledger {self._path} is kept per unit={found[0]}, "
                f"neighbours={found[1]}; start another ledger for {relation}"
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
        _defaults.append(self)
        return self

    def __exit__(self, *exc_info):
        # The innermost opening of this very handle is the one that closes.
        position = max(i for i, entry in enumerate(_defaults) if entry is self)
        del _defaults[position]

    def __repr__(self):
        budget = "" if self.epsilon is None else f"{self.epsilon:g}, {self.delta:g}"
        return f"PrivacyAccountant({budget})"

    # -- public facts ----------------------------------------------------------

    @property
    def epsilon(self) -> float | None:
        """Budget's epsilon; None without a budget."""
        return self._epsilon

    @property
    def delta(self) -> float | None:
        """Budget's delta; None without a budget."""
        return self._delta

    @property
    def path(self) -> str:
        """File of the ledger."""
        return self._path

    def named(self, label: str, *, disjoint_within: str | None = None):
        """Return a handle of the same ledger whose entries carry a label.

        A label is only a label: entries under different labels compose one after
        another, since nothing says that they are about different rows.

        Parameters
        ----------
        label : str
            Written into each entry.
        disjoint_within : str or None, default=None
            Name of a division of the rows of which `label` is one block. Giving
            it **asserts** that no row lies in two blocks of that division, that
            rows never change blocks, and that the blocks were fixed without
            looking at the private values; entries then cost what the dearest
            block costs, and ledger and statement say that this was asserted.

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
        handle._label, handle._disjoint_within = label, disjoint_within
        return handle

    # -- spending --------------------------------------------------------------

    def charge(
        self,
        plan: PrivacyPlan,
        *,
        part: Part | None = None,
        allow_seeded: bool = False,
    ) -> None:
        """Enter a plan, or refuse it; to be called before any data are read.

        Parameters
        ----------
        plan : PrivacyPlan
            What will be released.
        part : Part or None, default=None
            Block of a partition that the library has seen to be disjoint.
        allow_seeded : bool, default=False
            Whether a budget accepts noise from a seed, at its face value.

        Raises
        ------
        PrivacyBudgetError
            If the plan does not fit the budget.
        LedgerError
            If the ledger cannot be used, or does not state the plan's relation.
        """
        if part is None:
            part = self._own_part()
        self.charge_blocks(plan.estimator, {part: plan}, allow_seeded=allow_seeded)

    def charge_blocks(
        self,
        name: str,
        plans: Mapping[Part, PrivacyPlan],
        *,
        allow_seeded: bool = False,
    ) -> None:
        """Enter several plans at once, all or none.

        Parameters
        ----------
        name : str
            What asks, for error messages.
        plans : mapping of Part to PrivacyPlan
            The entries.
        allow_seeded : bool, default=False
            As for :meth:`charge`.
        """
        for plan in plans.values():
            self._refuse_unlimited(plan, allow_seeded)
        with self._ledger().transaction() as transaction:
            before = transaction.total_mu()
            for part, plan in plans.items():
                self._append(transaction, plan, part)
            # An error here rolls the transaction back.
            self._refuse_excess(name, before, transaction.total_mu())

    def check(
        self, plan: PrivacyPlan | Iterable[PrivacyPlan], repeats: int = 1
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

        Returns
        -------
        Spent
            What the ledger would stand at afterwards.

        Raises
        ------
        PrivacyBudgetError
            If the budget does not suffice.
        """
        if isinstance(repeats, bool) or int(repeats) != repeats or repeats < 1:
            raise ValueError(f"repeats must be a positive integer, got {repeats!r}")
        plans = [plan] if isinstance(plan, PrivacyPlan) else list(plan)
        if not plans:
            raise ValueError("plan must be a PrivacyPlan, or several; got none")
        for entry in plans:
            self._refuse_unlimited(entry, allow_seeded=False)
        with self._ledger().transaction() as transaction:
            relation = transaction.relation() or (plans[0].unit, plans[0].neighbours)
            spent = transaction.total_mu()
        mus = [entry.mu * conversion_factor(entry, relation) for entry in plans]
        total = math.hypot(spent, math.sqrt(repeats) * compose_mu(mus))
        fits = f"{repeats * len(plans)} fits of {plans[0].estimator}"
        self._refuse_excess(fits, spent, total)
        delta = self._delta or min(entry.delta for entry in plans)
        if any(entry.seeded for entry in plans):
            total = math.inf
        return Spent(gaussian_epsilon(total, delta), delta)

    def _own_part(self) -> Part:
        if self._disjoint_within is None:
            return Part()
        return Part(f"asserted: {self._disjoint_within}", self._label, True)

    def _append(self, transaction, plan, part) -> None:
        relation = transaction.relation()
        if relation is None:
            relation = (plan.unit, plan.neighbours)
            transaction.fix_relation(*relation)
        factor = conversion_factor(plan, relation)
        transaction.append(plan, factor, part, self._label)

    def _budget_mu(self) -> float | None:
        if self._epsilon is None:
            return None
        return gaussian_mu(self._epsilon, self._delta)

    def _refuse_unlimited(self, plan: PrivacyPlan, allow_seeded: bool) -> None:
        if self._epsilon is None:
            return
        if not math.isfinite(plan.mu):
            raise PrivacyBudgetError(
                f"{plan.estimator} with epsilon=None spends without limit, but this "
                "accountant has a budget; give epsilon a number",
                math.inf,
                self._epsilon,
            )
        if plan.seeded and not allow_seeded:
            raise PrivacyBudgetError(
                f"{plan.estimator} draws its noise from random_state, which protects "
                "nothing and counts as an infinite spend; leave random_state=None, or "
                "set allow_seeded=True where the results are never published",
                math.inf,
                self._epsilon,
            )

    def _refuse_excess(self, what: str, spent: float, total: float) -> None:
        """Raise if a total cost exceeds the budget."""
        budget = self._budget_mu()
        if budget is None or total <= budget:
            return
        left = math.sqrt(max(budget**2 - spent**2, 0.0))
        asked = math.sqrt(max(total**2 - spent**2, 0.0))
        remaining = gaussian_epsilon(left, self._delta)
        requested = gaussian_epsilon(asked, self._delta)
        raise PrivacyBudgetError(
            f"{what} asks for epsilon={requested:.6g} at delta={self._delta:g}, but "
            f"only epsilon={remaining:.6g} of the accountant's budget "
            f"epsilon={self._epsilon:g} remains; nothing was charged",
            requested,
            remaining,
        )

    # -- reports ----------------------------------------------------------------

    def _ledger(self) -> Ledger:
        return Ledger(self._path, self._id)

    def _spent_mu(self) -> float:
        """Total cost; infinite once a release had no secret noise."""
        with self._ledger().transaction() as transaction:
            if transaction.any_seeded():
                return math.inf
            return transaction.total_mu()

    def _report_delta(self, delta: float | None) -> float:
        if delta is not None:
            return delta
        if self._delta is not None:
            return self._delta
        deltas = [entry["delta"] for entry in self._ledger().entries()]
        return min(deltas, default=_DEFAULT_DELTA)

    def spent(self, delta: float | None = None) -> Spent:
        """Return the tight privacy cost of everything so far.

        Parameters
        ----------
        delta : float or None, default=None
            In [1e-15, 1); None takes the budget's, else the smallest of the entries.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta), for the ledger's unit and relation.
            Infinite once a release was made without noise or with seeded noise.
        """
        delta = self._report_delta(delta)
        return Spent(gaussian_epsilon(self._spent_mu(), delta), delta)

    def remaining(self) -> Spent:
        """Return what one more fit may ask for at the budget's delta.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta); infinite without a budget. Seeded fits
            that were let in count at face value.
        """
        if self._epsilon is None:
            return Spent(math.inf, self._report_delta(None))
        with self._ledger().transaction() as transaction:
            spent = transaction.total_mu()
        left = math.sqrt(max(self._budget_mu() ** 2 - spent**2, 0.0))
        return Spent(gaussian_epsilon(left, self._delta), self._delta)

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
        mu = self._spent_mu()
        epsilons = np.asarray(epsilons, dtype=np.float64)
        deltas = [gaussian_delta(mu, float(epsilon)) for epsilon in epsilons.ravel()]
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
        unit = f" per {meta['unit']}, {meta['neighbours']}" if meta["unit"] else ""
        text = (
            f"{len(entries)} entries: epsilon={spent.epsilon:.6g} at "
            f"delta={spent.delta:g}{unit}."
        )
        asserted = sorted({e["partition"] for e in entries if e["asserted"]})
        if asserted:
            text += (
                " This rests on the user's word that these divisions of the rows are "
                f"disjoint: {', '.join(name.split(': ', 1)[1] for name in asserted)}."
            )
        models = sorted({e["assumption"] for e in entries} - {"none"})
        if models:
            text += f" It holds only for data that satisfy: {', '.join(models)}."
        return text


def _check_budget(epsilon, delta):
    """Return a valid budget as floats, or (None, None)."""
    if epsilon is None:
        if delta is not None:
            raise ValueError("delta needs epsilon: a budget is given by both")
        return None, None
    delta = _DEFAULT_DELTA if delta is None else delta
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise ValueError(f"{name} of a budget must be a number, got {value!r}")
    if not 0.0 < epsilon < math.inf:
        raise ValueError(
            f"epsilon of a budget must be positive and finite, got {epsilon}; leave it "
            "None to record without a limit"
        )
    gaussian_mu(float(epsilon), float(delta))  # refuses a delta out of range
    return float(epsilon), float(delta)


def _check_relation(unit, neighbours):
    """Return a (Unit, Neighbours) pair, or None."""
    if (unit is None) != (neighbours is None):
        raise ValueError("unit and neighbours fix a ledger's relation together")
    if unit is None:
        return None
    try:
        return Unit(unit), Neighbours(neighbours)
    except ValueError as error:
        choices = [str(w) for w in (*Unit, *Neighbours)]
        raise ValueError(f"unit or neighbours: {error}; known: {choices}") from None


def _create(file: Path, epsilon, delta, relation) -> None:
    if not file.parent.is_dir():
        raise LedgerError(f"path: the folder {file.parent} does not exist; make it")
    unit, neighbours = map(str, relation) if relation else (None, None)
    meta = {"epsilon": epsilon, "delta": delta, "unit": unit, "neighbours": neighbours}
    Ledger.create(file, meta)
