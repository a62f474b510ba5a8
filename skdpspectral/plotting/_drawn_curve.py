"""How a curve of scores against epsilon is drawn."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ._arguments import check_curve, check_style, pyplot_or_error


class DrawnCurve:
    """Draw means over folds, with their deviations, over an axis of epsilon."""

    # What is drawn.
    epsilons: Any
    scores: Any
    baseline_score: Any
    score_name: Any
    noise_std: Any

    def plot(
        self,
        ax=None,
        *,
        std_display_style="fill_between",
        line_kw=None,
        fill_between_kw=None,
        errorbar_kw=None,
        baseline_kw=None,
    ):
        """Draw the curve, over a logarithmic axis of epsilon.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        std_display_style : {"fill_between", "errorbar"} or None, \
                default="fill_between"
            How to show one standard deviation of the scores over folds.
        line_kw : dict or None, default=None
            Further arguments of ``ax.plot``, for the mean.
        fill_between_kw : dict or None, default=None
            Further arguments of ``ax.fill_between``.
        errorbar_kw : dict or None, default=None
            Further arguments of ``ax.errorbar``.
        baseline_kw : dict or None, default=None
            Further arguments of ``ax.axhline``, for the score without privacy.

        Returns
        -------
        PrivacyUtilityDisplay
            This object.

        Raises
        ------
        ValueError
            If a value is out of range, or shapes disagree.
        ImportError
            If matplotlib is not installed.
        """
        pyplot = pyplot_or_error()
        check_style(std_display_style)
        epsilons, scores, noise = check_curve(
            self.epsilons, self.scores, self.noise_std
        )
        self.ax_ = pyplot.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.line_ = self.fill_between_ = self.errorbar_ = self.baseline_ = None
        mean, std = scores.mean(axis=1), np.hypot(scores.std(axis=1), noise)
        if std_display_style == "errorbar":
            kwargs = {"marker": "o", "label": "private", **(errorbar_kw or {})}
            self.errorbar_ = self.ax_.errorbar(epsilons, mean, std, **kwargs)
        else:
            kwargs = {"marker": "o", "label": "private", **(line_kw or {})}
            (self.line_,) = self.ax_.plot(epsilons, mean, **kwargs)
        if std_display_style == "fill_between":
            self._draw_band(epsilons, mean - std, mean + std, fill_between_kw)
        if self.baseline_score is not None:
            self._draw_baseline(baseline_kw)
        self.ax_.set(xscale="log", xlabel="epsilon", ylabel=self.score_name or "Score")
        return self

    def _draw_band(self, epsilons, low, high, kwargs) -> None:
        from matplotlib import cbook, collections

        # Aliases such as "fc" must replace the defaults, not stand beside them.
        kwargs = cbook.normalize_kwargs(kwargs, collections.PolyCollection)
        defaults = {"facecolor": self.line_.get_color(), "alpha": 0.3}
        self.fill_between_ = self.ax_.fill_between(
            epsilons, low, high, **{**defaults, **kwargs}
        )

    def _draw_baseline(self, kwargs) -> None:
        from matplotlib import cbook, lines

        kwargs = cbook.normalize_kwargs(kwargs, lines.Line2D)
        defaults = {"color": "0.4", "linestyle": "--", "label": "without privacy"}
        self.baseline_ = self.ax_.axhline(self.baseline_score, **{**defaults, **kwargs})
        self.ax_.legend()

    @classmethod
    def _check_drawing(cls, drawing: dict) -> None:
        """Refuse what `plot` does not take, before anything is fitted."""
        pyplot_or_error()
        given = inspect.signature(cls.plot).bind(None, **drawing).arguments
        check_style(given.get("std_display_style"))
