"""Whom a task of groups trusts: what must be said of it, and in which words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..accounting import gaussian_epsilon
from ..mechanisms import PrivacyPlan

_ONCE = "A user with rows at k nodes is protected by k times the cost mu alone."


def check_trust(
    noise: str, n_shares: int | None, masked: Sequence[str] | None, trusted_sum: bool
) -> None:
    """Refuse shares of noise that nobody adds up before they are seen, unless allowed.

    Raises
    ------
    ValueError
        If a sum must be trusted and is not, or the other way round.
    """
    if not isinstance(trusted_sum, bool):
        raise ValueError(f"trusted_sum must be True or False, got {trusted_sum!r}")
    # One share that is all of the noise needs no trust: so does noise="node".
    needed = noise == "distributed" and masked is None and n_shares != 1
    if needed and not trusted_sum:
        raise ValueError(
            f'noise="distributed" with n_shares={n_shares} protects users against '
            "those who see sums over nodes alone: name all nodes in masked, so that "
            "nobody sees more; or set trusted_sum=True, where a transport adds up the "
            "answers unseen, or whoever receives them is trusted to look at no other "
            'sum, which ledgers then say; or take noise="node"'
        )
    if trusted_sum and not needed:
        raise ValueError(
            'trusted_sum has no use but with noise="distributed", n_shares of 2 or '
            "more, and no masked nodes"
        )


def trust_remarks(
    plan: PrivacyPlan, noise: str, n_shares: int | None, masked: Sequence[str] | None
) -> tuple[str, ...]:
    """Say who is trusted with what.

    Parameters
    ----------
    plan : PrivacyPlan
        What sums over all nodes cost.
    noise, n_shares, masked
        As of a :class:`GroupTask`.

    Returns
    -------
    tuple of str
        Sentences, for the plan.
    """
    if noise == "server":
        return (
            "Nodes send exact sums over their users to a server, which adds the "
            "noise: the guarantee is against everybody but that server.",
            _ONCE,
        )
    if noise == "node":
        return (
            "Every node adds all of the noise to its own sums: the guarantee is "
            "against the server and all other nodes.",
            _ONCE.replace("k times", "sqrt(k) times"),
        )
    single = plan.mu * math.sqrt(n_shares or 1)
    epsilon = gaussian_epsilon(single, plan.delta)
    if masked is not None:
        seen = (
            "What a node sends is masked by keys that it shares with each of the "
            f"{len(masked)} nodes: to a server, and nodes that collude with "
            "it, it tells the sum over all other nodes and nothing else, as long as "
            "the stream cipher ChaCha20 is not broken."
        )
    elif n_shares == 1:
        seen = "One share is all of the noise: what a node sends may be seen by itself."
    else:
        seen = (
            "Answers are not masked: whoever receives them one by one is trusted to "
            "look at nothing but their sum. Against one who is not, no more holds than "
            f"mu {single:.6g}, epsilon {epsilon:.4g}."
        )
    return (
        f"Every node adds one share of the noise, of which {n_shares} are all of it: "
        "the guarantee is against whoever sees sums over nodes alone, as secure "
        f"aggregation grants, and does not know {n_shares} or more of the shares in "
        f"them. Where h shares are unknown, mu is sqrt({n_shares} / h) times as large; "
        f"for who sees what a node sends by itself it is {single:.6g}, epsilon "
        f"{epsilon:.4g}.",
        seen,
        _ONCE,
    )
