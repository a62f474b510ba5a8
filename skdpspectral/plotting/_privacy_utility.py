"""The curve of a score against epsilon."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv, cross_val_score

from .._base.documented import documented
from ..accounting import PrivacyLeakWarning
from ..accounting._ledger.planned_fits import estimators_within, is_private
from ..pipeline import PrivatePipeline
from ._displays import Display


def _checked_epsilons(epsilons) -> np.ndarray:
    """Return budgets as an array, or an error that names them."""
    values = np.asarray(epsilons, dtype=np.float64)
    distinct = values.ndim == 1 and 0 < len(np.unique(values)) == len(values)
    if not (distinct and np.all((values > 0.0) & np.isfinite(values))):
        raise ValueError(
            "epsilons must be a sequence of distinct, positive, finite numbers, at "
            f"least one, got {epsilons!r}"
        )
    return values


@documented
class PrivacyUtilityDisplay(Display):
    """Visualization of the held-out score of a private estimator against epsilon.

    Create it with :meth:`from_estimator`, or directly from scores, such as those of a
    search over epsilon. Its attributes can be modified after drawing.

    .. warning::
        An exact score on held-out private rows is a release that no ledger records. So
        are the curve and a choice of epsilon based on it. Use similar public rows or
        private scores (:func:`~skdpspectral.metrics.make_private_scorer`), or keep the
        curve as private as the rows.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Privacy budgets of one fit, positive and finite.
    scores : array-like of shape (n_epsilons, n_folds)
        Held-out scores for each epsilon.
    baseline_score : float or None, default=None
        Mean held-out score without privacy, drawn as a horizontal line.
    score_name : str or None, default=None
        Label of the vertical axis. None uses "Score".

    Attributes
    ----------
    {axes_of_display}
    line_ : matplotlib Line2D
        Mean scores.
    fill_between_ : matplotlib PolyCollection
        Band of one standard deviation over folds.
    baseline_ : matplotlib Line2D or None
        Score without privacy, if known.

    See Also
    --------
    skdpspectral.metrics.captured_variance : Score for principal components.
    sklearn.model_selection.ValidationCurveDisplay : Curve for any parameter.

    Examples
    --------
    >>> from skdpspectral.plotting import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     epsilons=[0.1, 1.0],
    ...     scores=[[0.52, 0.58], [0.81, 0.83]],
    ...     baseline_score=0.86,
    ...     score_name="Captured variance",
    ... )
    >>> display.plot().ax_.get_xscale()
    'log'
    """

    def __init__(self, *, epsilons, scores, baseline_score=None, score_name=None):
        self.epsilons, self.scores = epsilons, scores
        self.baseline_score, self.score_name = baseline_score, score_name

    def _draw(self, ax, line_kw):
        epsilons = _checked_epsilons(self.epsilons)
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.ndim != 2 or len(scores) != len(epsilons) or not scores.size:
            raise ValueError(
                f"scores must have shape (n_epsilons, n_folds) with n_epsilons="
                f"{len(epsilons)}, got {scores.shape}"
            )
        order = np.argsort(epsilons)
        epsilons, mean = epsilons[order], scores[order].mean(axis=1)
        std = scores[order].std(axis=1)
        self._start(ax)
        style = self._styled(line_kw, marker="o", label="private")
        (self.line_,) = self.ax_.plot(epsilons, mean, **style)
        self.fill_between_ = self.ax_.fill_between(
            *(epsilons, mean - std, mean + std),
            facecolor=self.line_.get_color(),
            alpha=0.3,
        )
        self.baseline_ = None
        if self.baseline_score is not None:
            style = {"color": "0.4", "linestyle": "--", "label": "without privacy"}
            self.baseline_ = self.ax_.axhline(self.baseline_score, **style)
            self.ax_.legend()
        self.ax_.set(xscale="log", xlabel="epsilon", ylabel=self.score_name or "Score")
        shown: list[float] = []  # labels that do not overlap
        for epsilon in epsilons:
            if not shown or epsilon >= 1.3 * shown[-1]:
                shown.append(float(epsilon))
        self.ax_.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown])
        self.ax_.set_xticks([], minor=True)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        epsilons,
        groups=None,
        cv=None,
        scoring=None,
        n_jobs=None,
        baseline=False,
        params=None,
        score_name=None,
        ax=None,
        **line_kw,
    ):
        """Cross-validate at each epsilon and plot the curve.

        All n_epsilons x n_folds fits are charged one after another to the accountant of
        the estimator or of the enclosing ``with`` block. To find out beforehand whether
        the budget suffices, use :meth:`~skdpspectral.PrivacyAccountant.check`. If the
        budget runs out in between, completed fits stay charged.

        Parameters
        ----------
        estimator : estimator
            A private estimator, or a pipeline or other meta-estimator that contains
            one. It is cloned for every fit. Its only epsilon of a private estimator
            varies.
        X : array-like of shape (n_samples, n_features)
            Rows, which are split into folds.
        y : array-like of shape (n_samples,) or None, default=None
            Targets, if the estimator or the score needs them.
        epsilons : array-like of shape (n_epsilons,)
            Distinct, positive and finite budgets of one fit.
        groups, cv, n_jobs
            As in :func:`~sklearn.model_selection.cross_val_score`. The rows are split
            once, and every epsilon uses the same folds.
        scoring : str, callable or None, default=None
            A single score, such as :func:`~skdpspectral.metrics.captured_variance` for
            components. None uses the estimator's ``score``.
        baseline : bool, default=False
            Whether to add n_folds fits **without privacy**, with ``epsilon=None`` but
            without its :class:`~skdpspectral.PrivacyLeakWarning`. A ledger records
            these fits with infinite cost. A ledger with a budget refuses them before
            any other fit.
        params : dict or None, default=None
            Parameters passed to ``fit``.
        score_name : str or None, default=None
            Label of the vertical axis. None derives it from `scoring`.
        ax, **line_kw
            As in :meth:`plot`.

        {drawn}
        ValueError, TypeError, AttributeError
            If an argument is invalid; no fit is run.
        PrivacyBudgetError
            If the accountant refuses a fit.

        Warnings
        --------
        The scores are not private; see the warning in the class documentation.

        Examples
        --------
        >>> from skdpspectral import DPPCA
        >>> from skdpspectral.datasets import make_spiked_covariance
        >>> from skdpspectral.metrics import captured_variance
        >>> from skdpspectral.plotting import PrivacyUtilityDisplay
        >>> X, _ = make_spiked_covariance(2000, 10, random_state=0)
        >>> display = PrivacyUtilityDisplay.from_estimator(
        ...     DPPCA(n_components=1), X, epsilons=[0.1, 1, 10],
        ...     scoring=captured_variance,
        ... )
        >>> display.scores.shape
        (3, 5)
        """
        cls._check_style(**line_kw)
        epsilons = _checked_epsilons(epsilons)
        names = [
            f"{path}__epsilon" if path else "epsilon"
            for path, part in estimators_within(estimator).items()
            if is_private(part)
        ]
        if isinstance(estimator, PrivatePipeline):
            names = ["epsilon"]  # its steps have no budgets of their own
        if len(names) != 1:
            raise ValueError(
                "estimator must have one epsilon of a private estimator, which varies, "
                f"got {names}: use a PrivatePipeline for several steps"
            )
        if isinstance(scoring, (list, tuple, set, dict)):
            raise ValueError(f"scoring must be a single score, got {scoring!r}")
        splitter = check_cv(cv, y, classifier=is_classifier(estimator))
        # As a list: a splitter that shuffles would divide each time anew.
        folds = list(splitter.split(X, y, groups))

        def scores_at(epsilon) -> np.ndarray:
            model = clone(estimator).set_params(**{names[0]: epsilon})
            how = {"scoring": scoring, "cv": folds, "n_jobs": n_jobs, "params": params}
            return cross_val_score(model, X, y, **how, error_score="raise")

        if score_name is None:
            name_of_score = getattr(scoring, "__name__", scoring)
            if isinstance(name_of_score, str):
                shown = name_of_score.replace("neg_", "negative ", 1)
                score_name = shown.replace("_", " ").capitalize()
        level = None
        if baseline:  # first: a budget refuses it before anything is spent
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                level = float(scores_at(None).mean())
        display = cls(
            baseline_score=level,
            epsilons=epsilons,
            scores=np.stack([scores_at(epsilon) for epsilon in epsilons.tolist()]),
            score_name=score_name,
        )
        return display.plot(ax, **line_kw)
