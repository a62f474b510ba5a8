"""Weights of clients, as parameters have them, by the names that a server knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._tables.masks import refuse_masked


def weights_by_name(weights, groups: Sequence):
    """Return weights as a server takes them: by names, or how they are found.

    Parameters
    ----------
    weights : str, mapping of client to float, or array-like of shape (n_clients,)
        As the estimators have it.
    groups : sequence of Group
        The clients, in the order of their first rows.

    Returns
    -------
    str or dict of str to float
        What is no mapping is one now, unless it is a word.

    Raises
    ------
    ValueError
        If clients and weights are not the same ones, or some are masked.
    """
    refuse_masked(weights, "weights")
    if isinstance(weights, str):
        return weights
    if not isinstance(weights, Mapping):
        values = np.asarray(weights)
        if values.shape != (len(groups),) or values.dtype.kind not in "iuf":
            raise ValueError(
                "weights must have a number for each client, in their order in "
                f"clients_: shape ({len(groups)},), got {values.shape}"
            )
        weights = {g.client: w for g, w in zip(groups, values.tolist(), strict=True)}
    names = {group.client: group.name for group in groups}
    unknown = [client for client in weights if client not in names]
    if unknown:
        raise ValueError(
            f"weights names the client {unknown[0]!r}, which has no rows here"
        )
    return {names[client]: value for client, value in weights.items()}
