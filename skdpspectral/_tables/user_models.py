"""Numbers that belong to users, found by their ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .id_index import IdIndex


@dataclass(frozen=True)
class UserModels:
    """Parameters of users: arrays with one entry a user along the first axis.

    A subclass names its arrays, and those that may grow wider to make room for the
    models of further users.

    Parameters
    ----------
    index : IdIndex or None
        Ids; None for a single user without an id.
    """

    entries: ClassVar[tuple[str, ...]] = ()
    widened: ClassVar[tuple[str, ...]] = ()

    index: IdIndex | None

    def codes(self, users, n_rows: int, name: str) -> np.ndarray:
        """Codes of the rows' users, -1 for unknown ones; errors name the ids."""
        if users is None:
            return np.zeros(n_rows, dtype=np.intp)
        if self.index is None:
            return np.full(n_rows, -1)
        return self.index.find(users, name)

    def code_of(self, user) -> int:
        """Code of one user, -1 for an unknown one."""
        return int(self.codes([user], 1, "user")[0])

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> UserModels:
        """Make models of what :meth:`arrays` gave of one user."""
        return cls(index, **arrays)

    def check_kind(self, index: IdIndex, name: str) -> None:
        """Refuse ids of another kind than those that there are; errors name them."""
        if self.index is not None:
            self.index.find(index.ids, name)

    def arrays(self, code: int | None = None) -> dict[str, np.ndarray]:
        """Parameters by name: of all users, or of one; none of a negative code."""
        if code is None:
            return {name: getattr(self, name) for name in self.entries}
        if code < 0:
            return {}
        chosen = slice(code, code + 1)
        return {name: getattr(self, name)[chosen].copy() for name in self.entries}

    def updated(self, new: UserModels) -> UserModels:
        """Return models with those of some users replaced or added.

        Parameters
        ----------
        new : UserModels
            Models of users, known or not; of a single one without an id, that alone.
        """
        if self.index is None or new.index is None:
            return new
        codes = self.index.find(new.index.ids, "users")
        known, added = codes >= 0, np.flatnonzero(codes < 0)
        index = self.index
        if len(added):
            index = index.joined(new.index.ids[added])
        arrays = {}
        for name, value in self.arrays().items():
            own = getattr(new, name)
            if name in self.widened:
                value, own = _alike_wide(value, own)
            arrays[name] = np.concatenate([value, own[added]])
            arrays[name][codes[known]] = own[known]
        return replace(self, index=index, **arrays)


def _alike_wide(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Pad rows with zeros to the width of the wider."""
    width = max(first.shape[1], second.shape[1])
    return [np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (first, second)]


def finite_or_zero(values: np.ndarray) -> np.ndarray:
    """Take zero for what a user's extreme rows have put beyond float64."""
    return np.where(np.isfinite(values), values, 0.0)
