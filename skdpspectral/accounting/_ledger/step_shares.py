"""Shares of one budget between the private steps of a composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any

from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils import get_tags

from ...mechanisms import shown
from .._composition import split_mu
from .._errors import PrivacyBudgetError
from .._gaussian import gaussian_epsilon, gaussian_mu
from .planned_fits import Composition, composition_of, parts_of

# Weights of mu**2. A final model learns more numbers from the rows than a scaler does.
_SCALER, _OTHER, _MODEL = 1.0, 2.0, 4.0

# Shares that are written as decimals sum to 1 but for rounding.
_CLOSE = 1e-9


def step_weight(estimator: Any) -> float:
    """Return the public weight of a step: that of its class, or of its kind."""
    own = getattr(estimator, "_budget_weight", None)
    if own is not None:
        return float(own)
    if get_tags(estimator).estimator_type in ("classifier", "regressor"):
        return _MODEL
    return _SCALER if isinstance(estimator, OneToOneFeatureMixin) else _OTHER


def resolved_shares(shares: Any, steps: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of mu**2 of each step, by its path.

    Parameters
    ----------
    shares : "auto" or mapping of str to float
        Shares that sum to 1, by paths of steps or of what holds several of them, which
        split it by their weights.
    steps : mapping of str to estimator
        Private steps that release something, by their paths.
    """
    if isinstance(shares, str) and shares == "auto":
        return _by_weights(steps, 1.0)
    if not isinstance(shares, Mapping):
        raise ValueError(
            f'shares must be "auto" or a dict of step names to numbers, got '
            f"{shown(shares)}"
        )
    for name, share in shares.items():
        _check_share(name, share, steps)
    total = math.fsum(shares.values())
    if abs(total - 1.0) > _CLOSE:
        raise ValueError(
            f"shares must sum to 1, got {dict(shares)}, which sum to {total:g}: divide "
            "each by that"
        )
    found: dict[str, float] = {}
    for name, share in shares.items():
        # A longer path says more of its steps than a shorter one.
        inside = {p: s for p, s in steps.items() if _owner(p, shares) == name}
        if not inside:
            raise ValueError(
                f"shares has an entry for {name!r}, and one for each step in it: leave "
                "one of them out"
            )
        found |= _by_weights(inside, share / total)
    missing = [path for path in steps if path not in found]
    if missing:
        raise ValueError(
            f"shares has no entry for step {missing[0]!r}: give each private step "
            f"a share, {', '.join(map(repr, steps))}"
        )
    return {path: found[path] for path in steps}


def _check_share(name: Any, share: Any, steps: Mapping[str, Any]) -> None:
    """Refuse a share of no step, or one that is no positive number."""
    if not any(is_path_within(path, name) for path in steps):
        raise ValueError(
            f"shares has an entry for {name!r}, which is no private step: the steps "
            f"are {', '.join(map(repr, steps))}"
        )
    number = isinstance(share, Real) and not isinstance(share, bool)
    if not (number and 0.0 < float(share) <= 1.0 + _CLOSE):
        raise ValueError(
            f"shares[{name!r}] must be a number in (0, 1], got {shown(share)}"
        )


def is_path_within(path: str, name: Any) -> bool:
    return isinstance(name, str) and (path == name or path.startswith(f"{name}__"))


def _owner(path: str, shares: Mapping[str, Any]) -> str | None:
    """Return the longest name in `shares` that a path is within."""
    return max((n for n in shares if is_path_within(path, n)), key=len, default=None)


def _by_weights(steps: Mapping[str, Any], share: float) -> dict[str, float]:
    """Split a share by the weights of steps."""
    weights = {path: step_weight(step) for path, step in steps.items()}
    total = math.fsum(weights.values())
    return {path: share * weight / total for path, weight in weights.items()}


# Relative width at which the search for the largest budgets ends, and the least part of
# a budget that is tried.
_NEAR, _LEAST = 2.0**-10, 2.0**-10


def allocated(
    what: Any,
    epsilon: float,
    delta: float,
    shares: Any,
    check: Callable[[Any], object],
) -> Any:
    """Return a clone whose private steps have shares of a budget.

    `check` raises a PrivacyBudgetError for a clone that costs more than is left. The
    budgets are the largest that it lets through, by a search where mechanisms that are
    not Gaussian cost more together than the split counts on.
    """
    steps = dict(_private_leaves("", what))
    if not steps:
        raise ValueError(
            f"no private estimator is fitted in {type(what).__name__}: give a pipeline "
            "of private steps"
        )
    split, mu = resolved_shares(shares, steps), gaussian_mu(epsilon, delta)

    def given(part: float) -> Any:
        mus = split_mu(part * mu, tuple(split.values()))
        budgets: dict[str, float] = {}
        for path, cost in zip(split, mus, strict=True):
            prefix = f"{path}__" if path else ""
            budgets[f"{prefix}epsilon"] = gaussian_epsilon(cost, delta)
            budgets[f"{prefix}delta"] = delta
        model = clone(what).set_params(**budgets)
        check(model)
        return model

    # Rounding of two inverses.
    high = 1.0 - 2.0**-40
    try:
        return given(high)
    except PrivacyBudgetError as error:
        refused = error
    low, found = 0.5 * high, None
    while found is None and low > _LEAST:
        try:
            found = given(low)
        except PrivacyBudgetError as error:
            refused, high, low = error, low, 0.5 * low
    if found is None:
        raise refused
    while high > low * (1.0 + _NEAR):
        middle = math.sqrt(low * high)
        try:
            found, low = given(middle), middle
        except PrivacyBudgetError:
            high = middle
    return found


def _private_leaves(path: str, estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield private estimators with a budget of their own, by their paths."""
    prefix, kind = f"{path}__" if path else "", composition_of(estimator)
    if hasattr(estimator, "plan_for"):
        yield path, estimator
    elif kind in (Composition.PIPELINE, Composition.UNION, Composition.COLUMNS):
        for name, child in parts_of(estimator):
            yield from _private_leaves(prefix + name, child)
