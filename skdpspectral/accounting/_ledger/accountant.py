"""The accountant: charges plans to a ledger, and says what was spent and is left."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
import uuid
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...mechanisms import (
    ApproximateDP,
    Neighbors,
    ParallelPlan,
    PrivacyPlan,
    Unit,
    check_count,
    check_real,
    shown,
)
from .._errors import LedgerError
from .._gaussian import MIN_DELTA, check_delta, gaussian_mu
from . import costs, store
from .context import close_block, note_charge, open_block
from .costs import LedgerEntry, Remaining, Spent, Standing, Sums
from .planned_fits import Refit, planned_fits


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
        Budget in [1e-15, 1). None means 1e-6 if there is a budget.
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
        Part of `delta` that a new ledger reserves for fits on samples, and for deltas
        of other tools and of models (:ref:`filters`). None reserves a tenth, for 0.4 to
        0.5 % of mu. With 0, fits on samples cost as much as without sampling.
    pure : float or None, default=None
        Part of `epsilon` that a new ledger reserves for :meth:`charge_external`. None
        reserves the epsilon of a first entry that is external. Beyond it, external
        entries cost as much as Gaussian mechanisms that cover them (:ref:`filters`).

    Raises
    ------
    ValueError
        If a parameter is out of range.
    LedgerError
        If the file at `path` is damaged, not a ledger, of another version, or has
        another budget, unit or relation. The file is not changed.

    Notes
    -----
    Gaussian mechanisms compose exactly: ``mu**2`` adds up (:ref:`composition`). A
    budget is valid even if you choose each fit after seeing earlier results. Without
    one, ``spent`` is not valid if results chose when to quote it.

    The object is a handle. Copies, clones and pickles share one ledger, also in worker
    processes, and unpickling never creates a ledger. A ``with`` block applies to
    estimators without an accountant that are fitted in its thread or asyncio task, or
    made, cloned or pickled in it. An estimator *created* in a worker process ignores
    the block: pass it the accountant (:ref:`user guide <ledger>`).

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
    ) -> None:
        parts = {"failures": failures, "pure": pure}
        asked = _checked_budget(epsilon, delta, **parts)
        if (unit is None) != (neighbors is None):
            raise ValueError("unit and neighbors must be given together, or neither")
        words = ("unit", unit, Unit), ("neighbors", neighbors, Neighbors)
        for name, word, kind in words:
            asked[name] = None if word is None else str(_word(name, word, kind))
        has_budget, given = asked["epsilon"] is not None, {**asked, **parts}
        self._keeper = None if path is not None else _TemporaryFolder()
        self._path = place_of(self._keeper.file if self._keeper else path or "")
        on_server = self._path.startswith(store.SERVER)
        if on_server or not os.path.lexists(self._path):
            if not (has_budget or on_server) and any(parts.values()):
                raise ValueError(
                    f"failures and pure are parts of a budget: pass epsilon, as there "
                    f"is no ledger at {self._path}"
                )
            store.create(self._path, asked)
        with store.transaction(self._path, keep=False) as locked:
            locked.check_pages()
            self._id, terms = locked.terms["id"], locked.terms
        for name, value in given.items():
            if value is not None and value != terms[name]:
                raise LedgerError(
                    f"the ledger {self._path} has {name}={terms[name]}, not {value}; "
                    f"leave {name} out. A budget cannot be raised for the same rows: "
                    "use another ledger for other rows"
                )
        self._budget = costs.budget_of(terms)
        self._label: str | None = None

    # -- identity: every copy is the same ledger ------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keeper": None}

    def __copy__(self, memo: Any = None) -> PrivacyAccountant:
        return self

    __deepcopy__ = __sklearn_clone__ = __copy__

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

    def named(self, label: str) -> PrivacyAccountant:
        """Return a handle of the same ledger that adds a label to its entries.

        Entries with different labels may concern the same rows, and cost the same. Use
        a ledger for each set of rows if no row, and no user, is in two of them.

        Parameters
        ----------
        label : str
            Label of each entry.

        Returns
        -------
        PrivacyAccountant
            Another handle of this ledger.
        """
        if not isinstance(label, str):
            raise ValueError(f"label must be a string, got {shown(label)}")
        handle = object.__new__(type(self))
        handle.__dict__.update(self.__dict__, _label=label)
        return handle

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the complete ledger to a new file while it is in use.

        Never copy the ledger file by other means while a process uses it. The backup is
        the same ledger with the same budget. Use it only to replace a lost ledger, and
        treat everything spent since the backup as spent.

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
        store.back_up(self._path, self._id, os.path.abspath(path))

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
            If the plan exceeds the budget, or if there is one and its noise is seeded.
        LedgerError
            If the ledger cannot be used or does not support the neighbor relation.
        """
        (plan,) = costs.check_plans(plan)
        with store.transaction(self._path, self._id) as locked:
            row, terms, sums = self._entered(plan, 1, locked.terms, locked.sums)
            locked.append(row, terms, sums)
        note_charge(plan, row[0])

    def charge_external(
        self, epsilon: float, delta: float, what: str, *, unit: str, neighbors: str
    ) -> None:
        """Charge what another tool has spent, or will spend, on the same rows.

        Parameters
        ----------
        epsilon, delta : float
            Guarantee of that tool: `epsilon` at least 0, finite; `delta` in [0, 1). A
            tool with a finer one is charged with a plan (:ref:`filters`).
        what : str
            Description for the ledger, in place of an estimator's name.
        unit : {"row", "user"}
            Privacy unit of the other tool's guarantee.
        neighbors : {"replace-one", "add-remove-one", "zero-out-one"}
            Neighbor relation of the other tool's guarantee. A ledger with "replace-one"
            counts an "add-remove-one" guarantee as
            ``(2 * epsilon, (1 + exp(epsilon)) * delta)``.

        Examples
        --------
        >>> from skdpspectral import PrivacyAccountant
        >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
        >>> accountant.charge_external(
        ...     1.0, 1e-7, "table of counts", unit="row", neighbors="replace-one"
        ... )
        >>> accountant.ledger[0].kinds
        ['approximate-dp']
        """
        if not (isinstance(what, str) and what.strip()):
            raise ValueError(f"what must describe the release, got {shown(what)}")
        epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
        pair = ApproximateDP(what, epsilon, delta)
        if epsilon and not 1e-300 <= epsilon <= 1e300:
            raise ValueError("epsilon must be 0, or from 1e-300 to 1e300: round it up")
        relation = _word("unit", unit, Unit), _word("neighbors", neighbors, Neighbors)
        self.charge(PrivacyPlan(epsilon, delta, (pair,), what, *relation))

    def check(self, what: Any, X: Any = None, *, n_fits: int = 1) -> Spent:
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
        n_fits : int, default=1
            Number of repetitions, such as the number of folds of
            :func:`~sklearn.model_selection.cross_val_score`.

        Returns
        -------
        Spent
            The total of the ledger after these fits. Steps with an accountant of
            another ledger are not counted.

        Raises
        ------
        PrivacyBudgetError
            If the budget is too small.
        ValueError, TypeError
            If the fits are not known in advance, for example those of other searches.
            The message suggests a remedy.
        """
        n_fits = check_count("n_fits", n_fits)
        fits = planned_fits(what, X)
        with store.transaction(self._path, self._id, keep=False) as locked:
            terms, sums = self._after(fits, n_fits, locked.terms, locked.sums)
        return Standing(terms, sums).spent()

    def _after(
        self, fits: Sequence[Any], n_fits: int, terms: dict[str, Any], sums: Sums
    ) -> tuple[dict[str, Any], Sums]:
        """Return terms and sums after fits; of a refit the dearest candidate counts."""
        for fit in fits:
            if isinstance(fit, Refit):
                terms, sums = max(
                    (self._after(own, n_fits, terms, sums) for own in fit.alternatives),
                    key=lambda after: Standing(*after).spent().epsilon,
                    default=(terms, sums),
                )
                continue
            handle = self if fit.accountant is None else fit.accountant
            if handle._id == self._id:
                times = fit.times * n_fits
                _, terms, sums = handle._entered(fit.plan, times, terms, sums)
        return terms, sums

    def _entered(
        self, plan: PrivacyPlan, times: int, terms: dict[str, Any], sums: Sums
    ) -> tuple[tuple[Any, ...], dict[str, Any], Sums]:
        """Return an entry's row, terms and sums after it; raise if it has no place."""
        if self._budget is not None and not plan.private:
            raise costs.unlimited(plan, self._budget)
        terms, relation = dict(terms), costs.relation_of(terms)
        if relation is None:  # the first entry fixes it
            relation = plan.unit, plan.neighbors
            terms |= {"unit": str(plan.unit), "neighbors": str(plan.neighbors)}
        shared = isinstance(plan, ParallelPlan) and not all(
            own.one_row_each for _, own in plan.blocks
        )
        if relation[0] is Unit.USER and shared:
            raise LedgerError(
                f"{plan.estimator}: this ledger protects users, and blocks that share "
                "no rows may share users; use a ledger of rows"
            )
        cost, share = costs.cost_of(plan, relation), None
        first = sums.empty and times == 1
        before, budget = sums.box, costs.budget_of(terms)
        if budget is not None:
            budget = budget.fixed_by(cost)
            terms["pure"] = budget.pure
            share = budget.share_of(cost, budget.room(before), times)
        of = (plan, cost, share, self._label, times)
        row = costs.new_row(sums.number + 1, sums.digest, time.time(), *of)
        sums = sums.after([LedgerEntry.of(row)])
        after = sums.box
        if budget is None or not plan.mechanisms or budget.admits(after):
            return row, terms, sums
        if first and budget.covers(cost):
            return row, terms, sums
        left = budget.epsilon if first else budget.remaining(before)
        raise costs.refusal(plan, times, budget, before, after, left, relation)

    # -- totals and tables -----------------------------------------------------

    def _totals(self) -> Standing:
        """Return the totals of the ledger as it is now, without its entries."""
        with store.transaction(self._path, self._id, keep=False) as locked:
            return Standing(locked.terms, locked.sums)

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
        privacy loss distributions, an upper bound if earlier results did not choose
        them. Budgets are enforced by other means (:ref:`filters`), so less may be left
        than this suggests, and the total never exceeds a budget.
        """
        return self._totals().spent(delta)

    def remaining(self, k: int = 1) -> Remaining:
        """Return the budget available to each of `k` further equal Gaussian fits.

        The remaining ``mu**2`` is split equally, because it adds up over fits: each of
        `k` fits gets about ``1 / sqrt(k)`` of the remaining budget, not ``1 / k``.

        Parameters
        ----------
        k : int, default=1
            Number of fits, at least 1.

        Returns
        -------
        Spent
            Named tuple (epsilon, delta) at the budget's delta, for Gaussian fits of the
            ledger's unit and relation on all of its rows; infinite without a budget.
            ``str()`` explains the result. Its `failures` and `pure` are what is left
            for other mechanisms (:ref:`filters`).
        """
        return self._totals().remaining(check_count("k", k))

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """All entries, oldest first; ``pandas.DataFrame(accountant.ledger)`` works.

        Of a named tuple, `epsilon`, `delta` and `mu` are the cost of the fit alone, and
        `ledger_mu` is that in the ledger's unit and relation. `plan` has all details
        (:meth:`~skdpspectral.mechanisms.PrivacyPlan.from_json`).
        """
        with store.transaction(self._path, self._id, keep=False) as locked:
            return tuple(locked.entries())

    def _standing(self, n_entries: int | None = None) -> Standing:
        """Return the ledger with its entries: now, or after the first of them."""
        with store.transaction(self._path, self._id, keep=False) as locked:
            found, terms = locked.sums.number, locked.terms
            if n_entries is not None and not 0 <= n_entries <= found:
                raise LedgerError(f"the ledger has {found} entries, not {n_entries}")
            entries = locked.entries(found if n_entries is None else n_entries)
        return Standing(terms, Sums().after(entries), entries)

    def _over_time(self, most: int = 201) -> list[tuple[int, Spent, float]]:
        """Return at `most` moments the number of entries, their cost, what was left."""
        whole, at, sums, moments = self._standing(), 0, Sums(), []
        counts = np.linspace(0, (n := len(whole.entries)), min(n + 1, most)).round()
        for number in sorted(set(map(int, counts))):
            sums = sums.after(whole.entries[at:number])
            then, at = Standing(whole.terms, sums), number
            moments.append((number, then.spent(whole.delta), then.remaining().epsilon))
        return moments

    def __str__(self) -> str:
        return costs.summary(self._standing())


# -- positions of streams --------------------------------------------------------------

# A stream that is copied would draw the noise of its next steps twice, and the
# difference of both would show the rows. So an advance is a compare-and-swap.


def open_stream(accountant: PrivacyAccountant) -> str:
    """Enter a stream at position 0 of a ledger, and return its id."""
    name = uuid.uuid4().hex
    with store.transaction(accountant._path, accountant._id) as locked:
        locked.move_stream(name, None, 0)
    return name


def advance_stream(accountant: PrivacyAccountant, name: str, at: int, n: int) -> None:
    """Advance a stream by n steps if the ledger has it where the caller's copy is."""
    with store.transaction(accountant._path, accountant._id) as locked:
        if not locked.move_stream(name, at, at + n):
            raise LedgerError(
                "this stream was continued elsewhere, or a step of it failed: the "
                f"ledger {accountant._path} does not have it at step {at}. Its noise "
                "must not be drawn twice; continue with the newest copy"
            )


# -- arguments -------------------------------------------------------------------------


class _TemporaryFolder:
    """A folder that its creating process deletes after its last use."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="skdpspectral-")
        self.file = os.path.join(self.name, "ledger.db")
        weakref.finalize(self, self._remove, self.name, os.getpid())

    @staticmethod
    def _remove(name: str, owner: int) -> None:
        if os.getpid() == owner:
            shutil.rmtree(name, ignore_errors=True)


def place_of(path: str | os.PathLike[str]) -> str:
    """Return the location of a ledger: the address of a server, or an absolute path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must name a file or be None, got {shown(path)}")
    text = os.fsdecode(path)
    if text.startswith(store.SERVER):
        return store.check_address(text)
    if "://" in text:  # not quoted: it may have a password
        raise ValueError(
            "path must be a file, or an address that begins with postgresql://"
        )
    return os.path.abspath(text)


def _word(name: str, value: object, kind: type) -> Any:
    """Return a word of a vocabulary; errors list the vocabulary."""
    known = [str(choice) for choice in kind]  # type: ignore[attr-defined]
    if isinstance(value, str) and value in known:
        return kind(value)
    raise ValueError(f"{name} must be one of {known}, got {shown(value)}")


def _checked_budget(
    epsilon: Any, delta: Any, failures: Any, pure: Any
) -> dict[str, Any]:
    """Return the terms of the budget of a new ledger, which are None without one."""
    if isinstance(epsilon, str):
        raise ValueError(
            f"epsilon of a budget must be a number, got {epsilon!r}; pass the file of "
            "a ledger as path="
        )
    terms = {"epsilon": epsilon, "delta": delta, "failures": failures, "pure": pure}
    if epsilon is None:
        if delta is not None:
            raise ValueError("delta requires epsilon: a budget has both")
        return terms
    terms["delta"] = costs.DEFAULT_DELTA if delta is None else delta
    for name, value in terms.items():
        if value is not None:
            terms[name] = check_real(f"{name} of a budget", value)
    if not 0.0 < (epsilon := terms["epsilon"]) < math.inf:
        raise ValueError(
            f"epsilon of a budget must be positive and finite, got {epsilon}; leave it "
            "as None to record without a limit"
        )
    delta, lost = check_delta(terms["delta"]), terms["failures"]
    if lost is None:
        share = costs.FAILURES * delta
        lost = terms["failures"] = share if delta - share >= 2.0 * MIN_DELTA else 0.0
    left = (delta - lost) / (1.0 - lost) if 0.0 <= lost < delta else 0.0
    if not left >= MIN_DELTA:
        raise ValueError(
            f"failures must be at least 0 and leave {MIN_DELTA:g} or more of delta="
            f"{delta:g}, got {lost:g}"
        )
    gaussian_mu(epsilon, delta)  # refuses an epsilon out of range
    if pure is not None and not 0.0 <= terms["pure"] < epsilon:
        raise ValueError(f"pure must be in [0, {epsilon:g}), got {terms['pure']:g}")
    return terms
