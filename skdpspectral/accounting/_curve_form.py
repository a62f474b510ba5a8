"""Mechanisms that are no Gaussians, as a ledger writes and counts them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..mechanisms import PrivacyPlan
from ..mechanisms._curves import CURVES, Curve
from ._coarse import Counted
from ._errors import LedgerError

_KINDS: dict[str, Any] = {kind.kind: kind for kind in CURVES}
GAUSSIAN_ALONE = "gaussian"


def curve_text(mechanism: Curve) -> str:
    """Return all that a mechanism's cost depends on; equal costs have equal texts."""
    fields = {"kind": mechanism.kind, **asdict(mechanism)}
    del fields["name"]
    return json.dumps(fields, sort_keys=True)


def counted_curves(rows: Iterable[tuple[str, Any]]) -> Counted:
    """Read texts of mechanisms, and how often each of them ran."""
    found = []
    for text, times in rows:
        fields = json.loads(text)
        kind = fields.pop("kind")
        if kind not in _KINDS:
            raise LedgerError(
                f"this ledger has an entry of kind {kind!r}, which this release of "
                "skdpspectral does not know: its total is not known here"
            )
        found.append((_KINDS[kind](name="", **fields), int(times)))
    return tuple(found)


def kinds_of(plan: PrivacyPlan) -> str:
    """Say which kinds of mechanisms a plan has, in alphabetical order."""
    kinds = {curve.kind for curve in plan.curves}
    if len(plan.curves) < len(plan.mechanisms) or not kinds:
        kinds.add(GAUSSIAN_ALONE)
    return ", ".join(sorted(kinds))
