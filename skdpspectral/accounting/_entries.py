"""Entries of a ledger, as they are read."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

from ..mechanisms import Assumption, Neighbors, Unit


class LedgerEntry(NamedTuple):
    """One entry of a ledger; ``pandas.DataFrame(accountant.ledger)`` is a table.

    Parameters
    ----------
    id : int
        Number of the entry.
    time : datetime
        When it was charged, in UTC, by this host's clock.
    estimator : str
        What was fitted.
    label : str or None
        Label of the handle that was charged; see :meth:`PrivacyAccountant.named`.
    partition, block : str
        Division of the rows that the entry belongs to, and its part of it. Blocks
        of one partition cost what the dearest of them costs.
    asserted : bool
        Whether it is only somebody's word that these blocks are disjoint.
    epsilon, delta : float
        The guarantee of the fit alone.
    mu : float
        Its cost in Gaussian differential privacy.
    ledger_mu : float
        Its cost for the ledger's unit and relation.
    failure : float
        Part of `delta`: probability that the costs do not hold for data of a model.
    unit : Unit
        Whom the fit's guarantee protects.
    neighbors : Neighbors
        The change of the data that it hides.
    assumption : Assumption
        What it asks of the data.
    seeded : bool
        Whether its noise came from a seed, so that it protects nothing.
    plan : str
        All of it, for :func:`~skdpspectral.mechanisms.read_plan`.
    kind : str, default="gaussian"
        Kinds of its mechanisms. Beside others than Gaussians, `mu` is infinite, and
        `ledger_mu` is the cost of the Gaussians among them.
    """

    id: int
    time: datetime
    estimator: str
    label: str | None
    partition: str
    block: str
    asserted: bool
    epsilon: float
    delta: float
    mu: float
    ledger_mu: float
    failure: float
    unit: Unit
    neighbors: Neighbors
    assumption: Assumption
    seeded: bool
    plan: str
    kind: str = "gaussian"


def read_entry(row: dict[str, Any]) -> LedgerEntry:
    """Return an entry of a row of the file."""
    return LedgerEntry(**row)._replace(
        time=datetime.fromtimestamp(row["time"], timezone.utc),
        asserted=bool(row["asserted"]),
        unit=Unit(row["unit"]),
        neighbors=Neighbors(row["neighbors"]),
        assumption=Assumption(row["assumption"]),
        seeded=bool(row["seeded"]),
    )
