"""Which splitters choose rows without looking at anything private."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from ..mechanisms import Unit
from ..mechanisms._numbers import shown

# These go by the number of rows alone, which is public where one row is replaced.
_BY_POSITION = (
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
_INSTEAD = {
    Unit.ROW: "take PrivateSplit() or KFold()",
    Unit.USER: "take PrivateSplit(user_feature=...)",
}


def reason_of_splits(cv: Any, unit: Unit, *, classifier: bool) -> str | None:
    """Say why folds void a guarantee; None where they are sound.

    What is counted for one row, or one user, must stay in its fold and move no other.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        As searches and :func:`~sklearn.model_selection.cross_val_score` take it.
    unit : Unit
        What is protected: a row that is replaced, or a user who joins or leaves.
    classifier : bool
        Whether the estimator is one, for which a number of folds means stratified ones.

    Returns
    -------
    str or None
        A reason, with what to take instead.
    """
    instead = _INSTEAD[Unit(unit)]
    own = getattr(cv, "_splits_by", None)
    if own is not None and type(cv).__module__.startswith("skdpspectral."):
        if own is unit:
            return None
        return f"its folds are made for a guarantee of one {own}: {instead}"
    number = cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool))
    if number and classifier:
        return (
            f"cv={cv} means StratifiedKFold for a classifier, by which one label moves "
            f"other rows between folds: {instead}"
        )
    if number or type(cv) in _BY_POSITION:
        if unit is Unit.ROW:
            return None
        return (
            "folds by position: whoever joins or leaves moves the rows of others "
            f"between folds: {instead}"
        )
    kind = type(cv).__name__ if hasattr(cv, "split") else shown(cv)
    return (
        f"{kind} may look at labels, groups or users, by which one row moves others "
        f"between folds: {instead}"
    )
