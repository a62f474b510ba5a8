"""The curve of a score against epsilon."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._arguments import check_epsilons, check_scoring_is_one, name_of_score
from ._cross_validation import CrossValidation
from ._drawn_curve import DrawnCurve
from ._search_results import (
    best_of_private_searches,
    best_scores_per_epsilon,
    candidate_epsilons,
    epsilon_parameters,
    fold_scores,
    resolve_parameter,
)


class PrivacyUtilityDisplay(DrawnCurve):
    """Held-out score of a private estimator against its epsilon.

    Create it with :meth:`from_estimator` or :meth:`from_search`, or from scores at
    hand; the attributes of what is drawn can then be changed.

    .. warning::
        An exact score on held-out private rows is itself a release that no ledger
        lists. So is the curve, and so is the choice of an epsilon by it. Draw it from
        public rows of the same kind, or from private scores
        (:func:`~skdpspectral.metrics.make_private_scorer`), or keep it as private as
        the rows.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Privacy budgets of one fit, positive and finite.
    scores : array-like of shape (n_epsilons, n_folds)
        Held-out scores at each of them.
    baseline_score : float or None, default=None
        Mean held-out score without privacy, drawn as a level line.
    score_name : str or None, default=None
        Label of the vertical axis; None gives "Score".
    noise_std : array-like of shape (n_epsilons,) or None, default=None
        Standard errors of private scores by their noise, which deviations over folds do
        not show. Both are drawn together, as the root of the sum of squares.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure of the axes.
    line_ : matplotlib Line2D or None
        Mean scores; None with ``std_display_style="errorbar"``.
    fill_between_ : matplotlib PolyCollection or None
        Band of one standard deviation over folds, if drawn.
    errorbar_ : matplotlib ErrorbarContainer or None
        Mean scores with bars of one standard deviation over folds, if drawn.
    baseline_ : matplotlib Line2D or None
        The score without privacy, if known.

    See Also
    --------
    skdpspectral.metrics.captured_variance : A score for principal components.
    sklearn.model_selection.ValidationCurveDisplay : The curve of any parameter.

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

    def __init__(
        self,
        *,
        epsilons,
        scores,
        baseline_score=None,
        score_name=None,
        noise_std=None,
    ):
        self.noise_std = noise_std
        self.epsilons = epsilons
        self.scores = scores
        self.baseline_score = baseline_score
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        epsilons,
        param_name=None,
        groups=None,
        cv=None,
        scoring=None,
        n_jobs=None,
        baseline=False,
        params=None,
        score_name=None,
        **drawing,
    ):
        """Cross-validate at each epsilon, and draw the curve.

        Every one of the n_epsilons x n_folds fits is charged to the accountant of
        the estimator or of the enclosing ``with`` block, one after another. Ask
        :meth:`~skdpspectral.PrivacyAccountant.check` beforehand whether a budget
        suffices: where it runs out half-way, the fits so far stay charged.

        Parameters
        ----------
        estimator : estimator
            A private estimator, or a pipeline or other meta-estimator with one; it
            is cloned for every fit.
        X : array-like of shape (n_samples, n_features)
            Rows, split into folds.
        y : array-like of shape (n_samples,) or None, default=None
            Target, if the estimator or the score needs one.
        epsilons : array-like of shape (n_epsilons,)
            Budgets of one fit: distinct, positive, finite.
        param_name : str or None, default=None
            Parameter to vary; None finds the one epsilon of a private estimator.
        groups, cv, n_jobs
            As in :func:`~sklearn.model_selection.cross_val_score`. The rows are
            divided once: every epsilon sees the same folds.
        scoring : str, callable or None, default=None
            One score; for components, :func:`~skdpspectral.metrics.captured_variance`.
            None takes the estimator's ``score``.
        baseline : bool, default=False
            Whether to fit **without privacy** too, n_folds times, with
            ``epsilon=None`` and without the
            :class:`~skdpspectral.PrivacyLeakWarning` of such a fit. A ledger lists
            these fits as an infinite spend; one with a budget refuses them, before
            any other fit.
        params : dict or None, default=None
            Passed to ``fit``.
        score_name : str or None, default=None
            Label of the vertical axis; None derives it from `scoring`.
        **drawing : object
            Arguments of :meth:`plot`, `ax` among them.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If an argument is invalid; no fit has run.
        PrivacyBudgetError
            If the accountant refuses a fit.
        TypeError
            If `plot` has no such argument; no fit has run.
        ImportError
            If matplotlib is not installed; no fit has run.

        Warnings
        --------
        The scores are not private; see the warning of the class.

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
        cls._check_drawing(drawing)
        epsilons = check_epsilons(epsilons, distinct=True)
        known = estimator.get_params(deep=True)
        validation = CrossValidation(
            estimator,
            X,
            y,
            groups,
            param_name=resolve_parameter(
                param_name, epsilon_parameters(estimator), known
            ),
            cv=cv,
            scoring=check_scoring_is_one(scoring),
            n_jobs=n_jobs,
            params=params,
        )
        # The baseline first: a budget refuses it before anything is spent.
        display = cls(
            baseline_score=validation.baseline_score() if baseline else None,
            epsilons=epsilons,
            scores=validation.scores(epsilons.tolist()),
            score_name=name_of_score(scoring) if score_name is None else score_name,
        )
        return display.plot(**drawing)

    @classmethod
    def from_search(
        cls,
        search,
        *,
        param_name=None,
        metric=None,
        score_name=None,
        **drawing,
    ):
        """Draw the curve from a fitted search; nothing is fitted again.

        Where the search varied other parameters too, each epsilon is shown with
        the candidate of the highest mean score among those of that epsilon. The
        highest of several noisy means is a little too good, the more so the more
        candidates there are.

        Parameters
        ----------
        search : fitted GridSearchCV or RandomizedSearchCV
            With epsilon among its parameters. Candidates with ``epsilon=None`` or
            infinity, if any, give the score without privacy.
        param_name : str or None, default=None
            The parameter that is epsilon; None finds the one that was varied.
        metric : str or None, default=None
            Which of several metrics; None takes the one that the search refits by.
        score_name, **drawing
            As in :meth:`from_estimator`.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If epsilon was not varied, if several parameters may be meant, or if
            candidates were scored on different numbers of rows (successive
            halving).
        sklearn.exceptions.NotFittedError
            If the search is not fitted.

        Warnings
        --------
        The scores are not private; see the warning of the class.
        """
        cls._check_drawing(drawing)
        check_is_fitted(search, "cv_results_")
        results = search.cv_results_
        if "n_resources" in results:
            raise ValueError(
                f"{type(search).__name__} compares candidates on different numbers of "
                "rows: their scores make no curve; use GridSearchCV"
            )
        varied = {
            key.removeprefix("param_") for key in results if key.startswith("param_")
        }
        own = epsilon_parameters(search.estimator)
        name = resolve_parameter(param_name, sorted(varied & set(own)), varied)
        epsilons, scores = best_scores_per_epsilon(
            candidate_epsilons(search, name), fold_scores(search, metric)
        )
        private = np.isfinite(epsilons)
        level = None if private.all() else float(scores[~private].mean())
        if score_name is None:
            score_name = name_of_score(metric or search.scoring)
        display = cls(
            epsilons=epsilons[private],
            scores=scores[private],
            baseline_score=level,
            score_name=score_name,
        )
        return display.plot(**drawing)

    @classmethod
    def from_private_search(cls, searches, *, score_name=None, **drawing):
        """Draw the best scores of private searches against their budgets.

        Parameters
        ----------
        searches : fitted PrivateSearchCV, or sequence of them
            With the same score, and distinct epsilons, of whole searches.
        score_name : str or None, default=None
            Label of the vertical axis; None derives it from the score.
        **drawing : object
            Arguments of :meth:`plot`. Bars of the standard errors by the noise are
            drawn by default.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError, TypeError
            If they are no such searches.
        sklearn.exceptions.NotFittedError
            If one is not fitted.

        Notes
        -----
        Each search is a release of its own: together they cost what the ledger says. A
        best score is the highest of several noisy ones, and a little too good.
        """
        cls._check_drawing(drawing)
        epsilons, best, stds, score = best_of_private_searches(searches)
        display = cls(
            epsilons=check_epsilons(epsilons, distinct=True),
            scores=[[value] for value in best],
            noise_std=stds,
            score_name=name_of_score(score) if score_name is None else score_name,
        )
        return display.plot(**{"std_display_style": "errorbar", **drawing})
