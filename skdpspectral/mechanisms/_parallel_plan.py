"""What several holders of disjoint rows release in one fit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from ._plan import PrivacyPlan


@dataclass(frozen=True)
class ParallelPlan(PrivacyPlan):
    """One plan a block of disjoint rows, and their common guarantee.

    A row lies in one block, and what its block releases is all that depends on it. So
    the dearest block's budget and mechanisms, which are this plan's own, hold for
    every row; most rows may be protected better.

    Parameters
    ----------
    epsilon, delta, mechanisms, estimator, unit, neighbors, assumption, seeded, \
remarks, failure
        Those of the dearest block; see :class:`PrivacyPlan`.
    blocks : tuple of tuple (str, PrivacyPlan)
        Name and plan of every block; made by :meth:`of`.
    """

    blocks: tuple[tuple[str, PrivacyPlan], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        blocks = tuple((str(name), plan) for name, plan in self.blocks)
        object.__setattr__(self, "blocks", blocks)
        names = [name for name, _ in self.blocks]
        if not names or len(set(names)) != len(names):
            raise ValueError("blocks must have names, and all of them must differ")
        if any(plan.curves for _, plan in self.blocks):
            raise ValueError("blocks must release by Gaussian mechanisms alone")
        if max(plan.mu for _, plan in self.blocks) > self.mu:
            raise ValueError("the plan of all blocks must be that of the dearest")

    @classmethod
    def of(cls, plans: dict[str, PrivacyPlan]) -> ParallelPlan:
        """Return the plan of blocks whose rows are disjoint.

        Parameters
        ----------
        plans : dict of str to PrivacyPlan
            Names and plans of the blocks, at least one.

        Returns
        -------
        ParallelPlan
            With the guarantee of the dearest.
        """
        dearest = max(plans.values(), key=lambda plan: plan.mu)
        own = {f.name: getattr(dearest, f.name) for f in fields(PrivacyPlan) if f.init}
        return cls(**own, blocks=tuple(plans.items()))

    def __str__(self) -> str:
        return " ".join((super().__str__(), *self._blocks_sentences()))

    def _blocks_sentences(self) -> Iterator[str]:
        """Say who the blocks are, those of one budget together."""
        if len(self.blocks) == 1:
            return
        yield (
            f"The rows are those of {len(self.blocks)} clients, no row of two: the "
            "guarantee above is that of the client with the least protection, and "
            "each row has that of its own client. Somebody with rows at several "
            "clients has less."
        )

        def budget(block: tuple[str, PrivacyPlan]) -> tuple[float, float]:
            return block[1].epsilon, block[1].delta

        groups = itertools.groupby(sorted(self.blocks, key=budget), key=budget)
        for (epsilon, delta), group in groups:
            names = [repr(name) for name, _ in group]
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            count = "1 client" if len(names) == 1 else f"{len(names)} clients"
            yield f"({epsilon:g}, {delta:g}): {count} ({shown})."

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        blocks = [{"name": name, **plan.to_dict()} for name, plan in self.blocks]
        return {**super().to_dict(), "blocks": blocks}

    @classmethod
    def from_json(cls, text: str) -> ParallelPlan:
        """Read a plan that :meth:`to_json` wrote."""
        plans = {}
        for entry in json.loads(text)["blocks"]:
            name = entry.pop("name")
            plans[name] = PrivacyPlan.from_json(json.dumps(entry))
        return cls.of(plans)


def read_plan(text: str) -> PrivacyPlan:
    """Read a plan of any kind that ``to_json`` wrote."""
    kind = ParallelPlan if "blocks" in json.loads(text) else PrivacyPlan
    return kind.from_json(text)
