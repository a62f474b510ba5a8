"""What a display asks of its arguments, and how it names a score."""

from __future__ import annotations

import numpy as np

_STYLES = ("fill_between", "errorbar", None)


def pyplot_or_error():
    """Import matplotlib when something is to be drawn, not before."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "plotting needs matplotlib: pip install matplotlib"
        ) from error
    return pyplot


def check_style(style) -> None:
    """Refuse a way of showing deviations that is unknown."""
    if style not in _STYLES:
        raise ValueError(f"std_display_style must be one of {_STYLES}, got {style!r}")


def check_epsilons(epsilons, *, distinct: bool = False) -> np.ndarray:
    """Return budgets as an array, or an error that names them."""
    values = np.asarray(epsilons, dtype=np.float64)
    good = values.ndim == 1 and values.size and np.all(np.isfinite(values))
    if not (good and np.all(values > 0.0)):
        raise ValueError(
            "epsilons must be a sequence of positive, finite numbers, at least one, "
            f"got {epsilons!r}"
        )
    if distinct and len(np.unique(values)) < len(values):
        raise ValueError("epsilons must be distinct: each repetition costs its fits")
    return values


def check_curve(epsilons, scores, noise_std=None) -> tuple[np.ndarray, ...]:
    """Return epsilons in ascending order, their scores, and errors by noise."""
    epsilons = check_epsilons(epsilons)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or len(scores) != len(epsilons) or not scores.size:
        raise ValueError(
            f"scores must have shape (n_epsilons, n_folds) with n_epsilons="
            f"{len(epsilons)}, got {scores.shape}"
        )
    noise = np.zeros(len(epsilons))
    if noise_std is not None:
        noise = np.asarray(noise_std, dtype=np.float64)
    if noise.shape != epsilons.shape or not np.all(noise >= 0.0):
        raise ValueError("noise_std must have a number of at least 0 an epsilon")
    order = np.argsort(epsilons)
    return epsilons[order], scores[order], noise[order]


def check_scoring_is_one(scoring):
    """Return the score, or an error where several are asked for."""
    if isinstance(scoring, (list, tuple, set, dict)):
        raise ValueError(f"scoring must be a single score, got {scoring!r}")
    return scoring


def name_of_score(scoring) -> str | None:
    """Return a label for an axis, or None where the score has no name."""
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", None)
    if name is None:
        return None
    return name.replace("neg_", "negative ", 1).replace("_", " ").capitalize()
