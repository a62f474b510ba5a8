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
    GaussianDP,
    Neighbors,
    ParallelPlan,
    PrivacyPlan,
    Unit,
    check_count,
    check_real,
    shown,
)
from ...mechanisms._plan import ONE_ROW_OF_EACH
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA, check_delta, gaussian_epsilon, gaussian_mu
from . import report, store
from .context import close_block, note_charge, open_block
from .costs import (
    DEFAULT_DELTA,
    FAILURES,
    budget_of,
    check_plans,
    cost_of,
    relation_of,
)
from .entries import LedgerEntry, Sums, new_row
from .planned_fits import Refit, planned_fits
from .report import Remaining, Spent, Standing


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
    mu : float or None, default=None
        Budget in Gaussian differential privacy, in the place of `epsilon`, which is
        then that of `mu` at `delta`: other mechanisms are held to this epsilon alone.
        `failures` and `pure` are 0 unless they are given.
    rho : float or None, default=None
        Budget in zero-concentrated differential privacy, the same as
        ``mu=sqrt(2 * rho)``.
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
    estimators without an accountant that are fitted in its thread or asyncio task, and
    to those that are made, cloned or pickled in it, wherever they are fitted. An
    estimator *created* in a worker process ignores the block, so pass the accountant as
    a parameter (:ref:`user guide <ledger>`).

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
        mu: float | None = None,
        rho: float | None = None,
        path: str | os.PathLike[str] | None = None,
        unit: str | None = None,
        neighbors: str | None = None,
        failures: float | None = None,
        pure: float | None = None,
    ) -> None:
        parts = {"failures": failures, "pure": pure}
        asked = _checked_budget(epsilon, delta, mu, rho, **parts)
        if (unit is None) != (neighbors is None):
            raise ValueError("unit and neighbors must be given together, or neither")
        asked["unit"] = None if unit is None else str(_word("unit", unit, Unit))
        word = neighbors and str(_word("neighbors", neighbors, Neighbors))
        asked["neighbors"] = word
        has_budget = asked["epsilon"] is not None
        given = {**parts, "unit": unit, "neighbors": neighbors}
        given |= {n: asked[n] for n in ("epsilon", "delta")} if has_budget else {}
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
        self._budget = budget_of(terms)
        self._label: str | None = None

    # -- identity: every copy is the same ledger ------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keeper": None}

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

    def named(self, label: str) -> PrivacyAccountant:
        """Return a handle of the same ledger that adds a label to its entries.

        A label does not change costs: entries with different labels compose
        sequentially, since they may concern the same rows. Use a ledger for each set of
        rows if no row, and no user, is in two of them.

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
        (plan,) = check_plans(plan)
        with store.transaction(self._path, self._id) as locked:
            row, terms, sums = self._entered(plan, 1, locked.terms, locked.sums)
            locked.set_terms(**terms)
            locked.append(row, sums)
        note_charge(plan, row[0])

    def charge_external(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        what: str = "",
        *,
        mu: float | None = None,
        unit: str,
        neighbors: str,
    ) -> None:
        """Charge what another tool has spent, or will spend, on the same rows.

        Parameters
        ----------
        epsilon, delta : float or None, default=None
            Guarantee of that tool: `epsilon` at least 0, finite; `delta` in [0, 1).
        what : str
            Description for the ledger, in place of an estimator's name.
        mu : float or None, default=None
            Guarantee of that tool in Gaussian differential privacy, at least 0, in the
            place of `epsilon` and `delta`. It adds up with the costs of Gaussian fits.
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
        spent: Any
        if mu is None:
            epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
            spent = ApproximateDP(what, epsilon, delta)
        elif epsilon is not None or delta is not None:
            raise ValueError("mu must be given alone, without epsilon and delta")
        else:
            spent, delta = GaussianDP(what, mu), self.delta or DEFAULT_DELTA
            epsilon = gaussian_epsilon(spent.mu, delta)
        if epsilon and not 1e-300 <= epsilon <= 1e300:
            raise ValueError("epsilon must be 0, or from 1e-300 to 1e300: round it up")
        relation = _word("unit", unit, Unit), _word("neighbors", neighbors, Neighbors)
        self.charge(PrivacyPlan(epsilon, delta, (spent,), what, *relation))

    def check(
        self,
        what: Any,
        X: Any = None,
        *,
        n_fits: int = 1,
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
            locked.know_counts()
            terms, sums = self._after(fits, n_fits, locked.terms, locked.sums)
        return Standing(terms, sums).spent()

    def _after(
        self, fits: Sequence[Any], n_fits: int, terms: dict[str, Any], sums: Sums
    ) -> tuple[dict[str, Any], Sums]:
        """Return terms and sums after fits, none of which may exceed the budget.

        Of a refit of one of several candidates, the costliest for this ledger counts.
        """
        for fit in fits:
            if isinstance(fit, Refit):
                found = [
                    self._after(own, n_fits, terms, sums) for own in fit.alternatives
                ]
                dear = lambda after: Standing(*after).spent().epsilon  # noqa: E731
                terms, sums = max(found, key=dear, default=(terms, sums))
                continue
            handle = self if fit.accountant is None else fit.accountant
            if handle._id == self._id:
                times = fit.times * n_fits
                _, terms, sums = handle._entered(fit.plan, times, terms, sums)
        return terms, sums

    def _entered(
        self, plan: PrivacyPlan, times: int, terms: dict[str, Any], sums: Sums
    ) -> tuple[tuple[Any, ...], dict[str, Any], Sums]:
        """Return the row of an entry for fits of a plan, terms and sums after it.

        Raises an error if they exceed the budget, or have no place in the ledger.
        """
        self._refuse_unlimited(plan)
        terms, relation = dict(terms), relation_of(terms)
        if relation is None:  # the first entry fixes it
            relation = plan.unit, plan.neighbors
            terms |= {"unit": str(plan.unit), "neighbors": str(plan.neighbors)}
        shared = isinstance(plan, ParallelPlan) and not all(
            ONE_ROW_OF_EACH in own.remarks for _, own in plan.blocks
        )
        if relation[0] is Unit.USER and shared:
            raise LedgerError(
                f"{plan.estimator}: this ledger protects users, and blocks that share "
                "no rows may share users; use a ledger of rows"
            )
        cost, share = cost_of(plan, relation), None
        first = sums.empty and times == 1
        before, budget = sums.costs().box, budget_of(terms)
        if budget is not None:
            budget = budget.fixed_by(cost)
            terms["pure"] = budget.pure
            share = budget.share_of(cost, budget.room(before), times)
        number, digest = sums.head[:2]
        of = (plan, cost, share, self._label, times)
        row = new_row(number + 1, digest, time.time(), *of)
        sums = sums.copy()
        sums.add(LedgerEntry.of(row))
        after = sums.costs().box
        if budget is None or not plan.mechanisms or budget.admits(after):
            return row, terms, sums
        if first and budget.covers(cost):
            return row, terms, sums
        left = budget.epsilon if first else budget.remaining(before)
        raise report.refusal(plan, times, budget, before, after, left, relation)

    def _refuse_unlimited(self, plan: PrivacyPlan) -> None:
        """Raise if a plan has no finite cost, or its noise is not secret."""
        if self._budget is None or (plan.noisy and not plan.seeded):
            return
        said = (
            f"{plan.estimator} draws its noise from noise_seed, which gives no privacy "
            "and costs an infinite epsilon; leave noise_seed=None. Seeds are for tests "
            "and figures: charge them to a PrivacyAccountant without a budget"
        )
        if not plan.noisy:
            said = (
                f"{plan.estimator} with epsilon=None spends without limit, but this "
                "accountant has a budget; set epsilon to a number"
            )
        raise PrivacyBudgetError(said, math.inf, self._budget.epsilon)

    # -- totals and tables -----------------------------------------------------

    def _read(self) -> Standing:
        """Return the totals of the ledger as it is now, without its entries."""
        with store.transaction(self._path, self._id, keep=False) as locked:
            locked.know_counts()
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
        privacy loss distributions, an upper bound that holds for mechanisms that were
        not chosen based on earlier results. Budgets are enforced by other means
        (:ref:`filters`), so less may be left to spend than this suggests. The total is
        at most what these means count, and so never exceeds a budget.
        """
        return self._read().spent(delta)

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

        Examples
        --------
        >>> from skdpspectral import PrivacyAccountant
        >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
        >>> round(accountant.remaining(10).epsilon, 3)
        0.574
        """
        return self._read().remaining(check_count("k", k))

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """All entries, oldest first; ``pandas.DataFrame(accountant.ledger)`` works.

        Each entry is a named tuple. `epsilon`, `delta` and `mu` are the cost of the fit
        alone, `ledger_mu` is its cost in the ledger's unit and relation, and `plan`
        contains all details (:meth:`~skdpspectral.mechanisms.PrivacyPlan.from_json`).
        """
        with store.transaction(self._path, self._id, keep=False) as locked:
            return tuple(locked.entries())

    def _standing(self, n_entries: int | None = None) -> Standing:
        """Return the ledger with its entries: now, or after the first of them."""
        with store.transaction(self._path, self._id, keep=False) as locked:
            found, terms = locked.sums.head[0], locked.terms
            if n_entries is not None and not 0 <= n_entries <= found:
                raise LedgerError(f"the ledger has {found} entries, not {n_entries}")
            entries = locked.entries(found if n_entries is None else n_entries)
        return Standing(terms, Sums().after(entries), entries)

    def _over_time(self, most: int = 201) -> list[tuple[int, Spent, float]]:
        """Return at `most` moments the number of entries, their cost, what was left."""
        whole, at, sums, moments = self._standing(), 0, Sums(), []
        counts = np.linspace(0, (n := len(whole.entries)), min(n + 1, most)).round()
        for number in sorted(set(map(int, counts))):
            sums.after(whole.entries[at:number])
            then, at = Standing(whole.terms, sums), number
            moments.append((number, then.spent(whole.delta), then.remaining().epsilon))
        return moments

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
        return report.exported(self._standing())

    def __str__(self) -> str:
        return report.summary(self._standing())

    def _repr_html_(self) -> str:
        return report.summary_html(self._standing())


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
    epsilon: Any, delta: Any, mu: Any, rho: Any, failures: Any, pure: Any
) -> dict[str, Any]:
    """Return the terms of the budget of a new ledger, which are None without one."""
    if isinstance(epsilon, str):
        raise ValueError(
            f"epsilon of a budget must be a number, got {epsilon!r}; pass the file of "
            "a ledger as path="
        )
    terms = {"epsilon": epsilon, "delta": delta, "failures": failures, "pure": pure}
    costs = {"epsilon": epsilon, "mu": mu, "rho": rho}
    costs = {name: value for name, value in costs.items() if value is not None}
    if not costs:
        if delta is not None:
            raise ValueError("delta requires epsilon: a budget has both")
        return terms
    if len(costs) > 1:
        raise ValueError(f"a budget has one of epsilon, mu and rho, got {list(costs)}")
    ((kind, cost),) = costs.items()
    cost = check_real(f"{kind} of a budget", cost)
    if not 0.0 < cost < math.inf:
        raise ValueError(
            f"{kind} of a budget must be positive and finite, got {cost}; leave it "
            "as None to record without a limit"
        )
    terms["delta"] = DEFAULT_DELTA if delta is None else delta
    for name in ("delta", "failures", "pure"):
        if terms[name] is not None:
            terms[name] = check_real(f"{name} of a budget", terms[name])
    delta, lost = check_delta(terms["delta"]), terms["failures"]
    if lost is None:
        share = FAILURES * delta
        fits = kind == "epsilon" and delta - share >= 2.0 * MIN_DELTA
        lost = terms["failures"] = share if fits else 0.0
    left = (delta - lost) / (1.0 - lost) if 0.0 <= lost < delta else 0.0
    if not left >= MIN_DELTA:
        raise ValueError(
            f"failures must be at least 0 and leave {MIN_DELTA:g} or more of delta="
            f"{delta:g}, got {lost:g}"
        )
    if kind != "epsilon":
        pure = terms["pure"] = pure or 0.0
        mu = cost if kind == "mu" else math.sqrt(2.0 * cost)
        cost = pure + gaussian_epsilon(mu, left)
        if not 0.0 < cost < math.inf:
            raise ValueError(f"{kind} of a budget has no epsilon at delta={delta:g}")
    gaussian_mu(cost, delta)  # refuses an epsilon out of range
    if pure is not None and not 0.0 <= terms["pure"] < cost:
        raise ValueError(f"pure must be in [0, {cost:g}), got {terms['pure']:g}")
    return {**terms, "epsilon": cost}
