"""Where an entry stands among disjoint blocks of a ledger's rows or users."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from ..mechanisms import Unit
from ._errors import LedgerError

# Names of partitions on somebody's word; those that were checked have random names.
_PREFIXES = {Unit.ROW: "asserted: ", Unit.USER: "asserted of users: "}


def new_name() -> str:
    """Return a name that nothing else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Part:
    """A block of a partition; made by the functions of this module alone.

    Parameters
    ----------
    partition : str
        Name of the partition.
    block : str
        Name of the block.
    asserted : bool
        Whether disjointness is only somebody's word.
    unit : Unit or None
        What is in no two blocks of the partition; None for a block without others.
    """

    partition: str
    block: str
    asserted: bool
    unit: Unit | None

    def check_unit(self, protected: Unit) -> None:
        """Refuse blocks that do not divide what the ledger protects.

        Users that lie in one block each divide the rows, too; rows that do leave it
        open in how many blocks a user is.
        """
        if self.unit in (None, Unit.USER, protected):
            return
        remedy = "use a ledger of rows"
        if self.asserted:
            remedy = (
                "if no user has rows in two blocks, say so by "
                'named(..., disjoint_unit="user"); otherwise leave disjoint_within out'
            )
        raise LedgerError(
            f"block {self.block!r}: that no row lies in two blocks says nothing of the "
            f"users that this ledger protects, whose rows may lie in several; {remedy}"
        )


def whole() -> Part:
    """Return a part that nothing else is disjoint from."""
    return Part(new_name(), "all rows", False, None)


def asserted_block(division: str, block: str, unit: Unit) -> Part:
    """Return a block of a division, on the word of whoever names it."""
    return Part(_PREFIXES[unit] + division, block, True, unit)


def checked_blocks(names: Iterable[str]) -> dict[str, Part]:
    """Return the blocks of a fresh partition whose rows were seen to be disjoint.

    Only what has compared the rows of the blocks itself may call this. Nothing can be
    added to the partition afterwards.
    """
    partition = new_name()
    return {name: Part(partition, name, False, Unit.ROW) for name in names}


def division_of(partition: str) -> tuple[Unit, str]:
    """Return what an asserted partition divides, and the name of the division."""
    for unit, prefix in _PREFIXES.items():
        if partition.startswith(prefix):
            return unit, partition.removeprefix(prefix)
    return Unit.ROW, partition
