"""Files of what is published, and of one user's own model beside it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .._tables.id_index import IdIndex

# Names of a user's entries, beside those of `publish`, begin so.
_OF_USER = "user_"


def write_user_entries(save: Callable, path, user, own: Mapping) -> None:
    """Write what is published, and then the entries of one user.

    Parameters
    ----------
    save : callable
        ``save(path)`` writes what is published.
    path : str or path-like
        File to write.
    user : str or int or None
        The user; None for nobody.
    own : mapping of str to ndarray
        That user's arrays; empty if there is no model of that user.

    Raises
    ------
    ValueError
        If there is no model; no file is written.
    TypeError
        If the id is neither a string nor a number; no file is written.
    """
    if user is None:
        save(path)
        return
    if not own:
        raise ValueError("user has no model: personalize it first")
    plain = user.item() if isinstance(user, np.generic) else user
    if not isinstance(plain, (str, int, float)):
        raise TypeError("user must be a string or a number to be written")
    save(path)
    entries = {"id": np.array(json.dumps(plain)), **own}
    with zipfile.ZipFile(path, "a") as archive:
        for name, value in entries.items():
            with archive.open(f"{_OF_USER}{name}.npy", "w") as file:
                np.save(file, value, allow_pickle=False)


def read_user_entries(arrays: dict, names: Sequence[str]) -> tuple:
    """Take a user's entries out of those of a file.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Entries of a file; a user's are removed.
    names : sequence of str
        Names of a user's arrays.

    Returns
    -------
    index : IdIndex or None
        Of that user alone; None if there is none.
    own : dict of str to ndarray
        That user's arrays.
    """
    user = arrays.pop(f"{_OF_USER}id", None)
    own = {name: arrays.pop(f"{_OF_USER}{name}", None) for name in names}
    if user is None:
        return None, {}
    return IdIndex([json.loads(str(user))], "user").without_codes(), own
