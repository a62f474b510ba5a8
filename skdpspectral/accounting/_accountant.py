"""The shared ledger of every private release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..mechanisms import Unit
from ..mechanisms._numbers import shown
from ._ambient import close_block, open_block
from ._arguments import (
    check_budget,
    check_division,
    check_flag,
    check_mechanisms,
    check_relation,
)
from ._backends import ledger_at, open_path
from ._charges import LedgerCharges
from ._ledger_schema import TemporaryFolder
from ._terms import agreed_budget, terms_of


class PrivacyAccountant(LedgerCharges):
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
