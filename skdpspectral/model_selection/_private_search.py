"""A random search whose best candidate is released under one guarantee."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from operator import attrgetter
from typing import ClassVar

import numpy as np
from sklearn.base import MetaEstimatorMixin, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, noted_caveats, unweighted
from .._base.privacy_report import reason_of_splits
from .._base.sklearn_compat import Interval, StrOptions
from .._release.release import record_release
from .._release.selection import SelectionRelease
from .._tables.entries import read_quietly
from .._tables.rows import shape_of, table_shape
from ..accounting._selection import LAWS, MOST_EXPECTED_RUNS
from ..mechanisms import PrivacyPlan, Unit
from ..mechanisms._relations import check_count, check_real
from ..metrics._private_scorer import PrivateScorer
from ._runs import (
    Exposure,
    Outcome,
    RunBudgets,
    Runs,
    check_candidates,
    check_distributions,
    check_estimator,
    deferred_numbers,
    exposure_of,
    quiet,
    score_plan,
    scorer_of,
    sliceable,
    splits_by_position,
    splitter_of,
    succeeded,
    winner,
    without_seed_warning,
)


def _has(name: str):
    """Return whether the model of a search has a method."""

    def check(search) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return available_if(check)


def _of_best(name: str, summary: str):
    """Return a method of rows that the best model answers, if it has one."""

    def method(self, X):
        return getattr(self._best(), name)(X)

    method.__name__, method.__qualname__ = name, f"BestModel.{name}"
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        X : array-like
            Rows.

        Returns
        -------
        ndarray
            What its ``{name}`` gives.
        """
    return _has(name)(method)


class BestModel:
    """Hand methods on to ``best_estimator_``."""

    def _best(self):
        check_is_fitted(self, "best_params_")
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} has refit=False, and no best_estimator_: "
                "fit a model with best_params_, or search with refit='winner' or True"
            )
        return self.best_estimator_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        within = get_tags(self.estimator)
        tags.estimator_type = within.estimator_type
        tags.classifier_tags = within.classifier_tags
        tags.regressor_tags = within.regressor_tags
        tags.transformer_tags = within.transformer_tags
        tags.target_tags = within.target_tags
        tags.input_tags = within.input_tags
        return tags

    predict = _of_best("predict", "Predict with the best model.")
    predict_proba = _of_best(
        "predict_proba", "Predict probabilities with the best model."
    )
    decision_function = _of_best(
        "decision_function", "Return decision values of the best model."
    )
    score_samples = _of_best(
        "score_samples",
        "Return scores of rows by the best model; each is as private as its row.",
    )
    transform = _of_best("transform", "Transform rows by the best model.")
    inverse_transform = _of_best(
        "inverse_transform", "Map transformed rows back by the best model."
    )

    @_has("transform")
    def fit_transform(self, X, y=None):
        """Search, and transform the same rows by the best model.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        ndarray
            What :meth:`transform` gives: as private as the rows.
        """
        return self.fit(X, y).transform(X)

    @_has("score")
    def score(self, X, y=None):
        """Return the best model's own score, which is exact, and no release.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        float
            What its ``score`` gives: on private rows it is as private as they are.
        """
        best = self._best()
        return best.score(X) if y is None else best.score(X, y)

    @_has("get_feature_names_out")
    def get_feature_names_out(self, input_features=None):
        """Return names of what the best model's ``transform`` makes.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of columns.

        Returns
        -------
        ndarray of str
            The names.
        """
        return self._best().get_feature_names_out(input_features)

    def save(self, path) -> None:
        """Refuse: what was found is saved by itself.

        Parameters
        ----------
        path : str or path-like
            Of no matter.
        """
        check_is_fitted(self)
        raise TypeError(
            "a search is no file of arrays: save best_estimator_, if it is a private "
            "estimator, and keep privacy_.to_json() beside it"
        )

    @property
    def classes_(self):
        """Classes of the best model."""
        return self._best().classes_

    @property
    def n_features_in_(self):
        """Number of columns seen during fit, by the best model."""
        try:
            best = self._best()
        except NotFittedError as error:
            raise AttributeError(
                f"{type(self).__name__} has no attribute n_features_in_ before it has "
                "a fitted model"
            ) from error
        return best.n_features_in_

    @property
    def feature_names_in_(self):
        """Names of columns seen during fit, by the best model."""
        try:
            best = self._best()
        except NotFittedError as error:
            raise AttributeError("there is no fitted model") from error
        return best.feature_names_in_


@documented
class PrivateSearchCV(BestModel, MetaEstimatorMixin, PrivateEstimator):
    r"""Search over parameters, and pay for the best candidate instead of for all.

    A run draws a candidate, fits it on each split and releases one score of what was
    held out. The number of runs is drawn at random and **stays secret**, and of all
    runs only the one of the best score is released, with its noisy score. That costs
    some two runs where a hundred are tried, and the whole search is one entry of the
    ledger, charged before a row is read. Read more in the
    :ref:`user guide <choosing_parameters>`.

    Parameters
    ----------
    estimator : estimator
        A private estimator of this package, or a pipeline in which every step that is
        fitted on rows is private or harmless, as
        :func:`~skdpspectral.audit.privacy_report` says. Its `accountant` and
        `noise_seed` are left at None: the search has both.
    param_distributions : dict or list of dicts
        Lists or distributions (with a method ``rvs``) a parameter, as of
        :class:`~sklearn.model_selection.RandomizedSearchCV`. Values are drawn with
        replacement, of lists uniformly. They are public.
    epsilon : float, default=1.0
        Privacy budget of the whole search, positive and finite.
    {delta}
    expected_n_iter : float, default=20
        Number of runs on average.
    n_iter_law : {"auto", "logarithmic", "geometric", "poisson"}, default="auto"
        Law of the number of runs, from the cheapest, under which few runs are likely,
        to the one that is nearest to its mean. "auto" takes of the logarithmic and,
        from 14 runs on, the Poisson law the one that leaves more for a run. A Poisson
        law may draw no run at all, which is an error.
    scoring : PrivateScorer or str
        What :func:`~skdpspectral.metrics.make_private_scorer` gives, without an
        epsilon of its own; or the name of a score that needs no parameters.
    cv : int, splitter or None, default=None
        How rows are held out, without looking at values: None holds out a quarter, by
        :class:`PrivateSplit` with ``n_splits=1``; a number means so many of its folds.
        Of k folds a row pays for k - 1 fits, and of one split for a fit or a score.
    refit : {"winner"} or bool, default="winner"
        What becomes `best_estimator_`: "winner" is the best run's own fit on the first
        split, which is free; True pays for one more fit, on all rows; False is none.
    score_share : float, default=0.2
        Share of a run's :math:`\mu^2` that its score has, where the same rows pay for
        both fits and scores.
    step_budgets : {"scaled", "given"}, default="scaled"
        What the epsilons of private steps mean. "scaled": together a fit costs what it
        may, and they only say how steps share it. "given": what they are; a candidate
        that asks for more is refused (see :meth:`privacy_plan`).
    {accountant}
    {noise_seed}

    Attributes
    ----------
    best_params_ : dict
        Parameters of the best run.
    best_score_ : float
        Its score, with noise. The highest of several noisy scores is a little too good.
    best_score_std_ : float
        Standard error of `best_score_`, by the noise of one score.
    best_estimator_ : estimator
        See `refit`. The guarantee is that of `privacy_`, and not of its own.
    cv_results_ : dict of ndarray
        As of other searches, with the best candidate alone.
    n_splits_, best_index_, multimetric_ : int, int, bool
        As of other searches; 0 and False.
    scorer_ : PrivateScorer
        What was measured.
    {privacy_}

    See Also
    --------
    sklearn.model_selection.GridSearchCV : With a private scorer it shows the scores of
        all candidates, and each is paid for.
    PrivateSplit : Folds under which guarantees hold.

    Notes
    -----
    **Formal guarantee.** With ``noise_seed=None`` the search is
    (`epsilon`, `delta`)-differentially private for what its estimators protect, one row
    that is replaced or one user who joins or leaves: all fitted attributes together,
    but what belongs to users as in the estimators themselves. With E[K] runs on average
    and runs that are :math:`\mu`-Gaussian differentially private, delta is that of one
    run times E[K], and epsilon that of one run plus
    :math:`(1 + \eta) \ln (\Phi(\Phi^{-1}(\gamma) + \mu) / \gamma)`, for parameters of
    the law (:ref:`theory_selection`).

    Warnings of runs are not shown. Doubts about listed candidates that follow from
    shapes and parameters alone are warned of before the charge.

    Each fit has a ledger of its own that refuses more than its part. What fails, for
    whatever reason, has the worst score. If no run succeeds, an error says so and no
    more. Nothing tells the number of runs but time: no attribute, warning, line or file
    that stays. So there is no limit of time or of runs, and no number of jobs: runs
    follow each other, and their jobs are threads. Meanwhile the global generators of
    numpy and Python have secret seeds; afterwards they are as they were.

    References
    ----------
    Papernot and Steinke (2022), Hyperparameter tuning with Renyi differential privacy.
    Koskela, Redberg and Wang (2024), Privacy profiles for private selection.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPPCA, DPStandardScaler
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.metrics import make_private_scorer
    >>> from skdpspectral.model_selection import PrivateSearchCV
    >>> X, _ = make_spiked_covariance(20_000, 10, random_state=0)
    >>> search = PrivateSearchCV(
    ...     DPPCA(2),
    ...     {"center": ["none", "pairs", "private"], "clip_norm": [None, 5.0, 10.0]},
    ...     epsilon=1.0,
    ...     expected_n_iter=10,
    ...     scoring=make_private_scorer("captured_variance", clip_norm=10.0),
    ... ).fit(X)
    >>> sorted(search.best_params_)
    ['center', 'clip_norm']
    >>> search.privacy_.epsilon
    1.0
    """

    _selects_privately: ClassVar[bool] = True
    _levels_around_fit: ClassVar[int] = 1  # of @unweighted
    _array_parameters: ClassVar[tuple[str, ...]] = ("param_distributions", "cv")

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "estimator": "no_validation",
        "param_distributions": "no_validation",
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "expected_n_iter": [Interval(Real, 0, MOST_EXPECTED_RUNS, closed="right")],
        "n_iter_law": [StrOptions({"auto", *LAWS})],
        "scoring": [PrivateScorer, str],
        "cv": "no_validation",
        "refit": [StrOptions({"winner"}), "boolean"],
        "score_share": [Interval(Real, 0, 1, closed="neither")],
        "step_budgets": [StrOptions({"scaled", "given"})],
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        epsilon=1.0,
        delta=1e-6,
        expected_n_iter=20,
        n_iter_law="auto",
        scoring=None,
        cv=None,
        refit="winner",
        score_share=0.2,
        step_budgets="scaled",
        accountant=None,
        noise_seed=None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.expected_n_iter = expected_n_iter
        self.n_iter_law = n_iter_law
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.score_share = score_share
        self.step_budgets = step_budgets
        self.accountant = accountant
        self.noise_seed = noise_seed

    def privacy_plan(self, n_samples, n_features=None):
        """Describe what a search will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows; of no matter where users are protected.
        n_features : int or None, default=None
            Of no matter; for the signature of other estimators.

        Returns
        -------
        PrivacyPlan
            What a search is charged with. Its remarks, and :meth:`fit_epsilon`, say
            what one fit may ask for.

        Raises
        ------
        ValueError
            If a parameter is invalid, or the budget too small.
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        scorer = scorer_of(self.scoring)
        return self._plan(scorer, self._budgets(self._exposure(scorer, n_samples)))

    def fit_epsilon(self, n_samples):
        """Say what one fit of a run may ask for at the delta of the search.

        Parameters
        ----------
        n_samples : int
            As in :meth:`privacy_plan`.

        Returns
        -------
        float
            Epsilon of a fit, to be given to steps with ``step_budgets="given"``.
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        exposure = self._exposure(scorer_of(self.scoring), n_samples)
        return self._budgets(exposure).fit_epsilon(self.delta)

    def _exposure(self, scorer: PrivateScorer, n_samples: int) -> Exposure:
        cv = splitter_of(self.cv, scorer)
        return exposure_of(cv, splits_by_position(cv, scorer, n_samples), n_samples)

    def _check_parameters(self) -> None:
        if self.epsilon is None or self.epsilon == math.inf:
            raise ValueError(
                "epsilon of a private search must be a number: without privacy, take "
                "RandomizedSearchCV"
            )
        if self.scoring is None:
            raise ValueError(
                "scoring must be given: make_private_scorer(...), or a name of a score "
                "that needs no parameters, as 'accuracy'"
            )
        self._check_values()
        check_distributions(self.param_distributions)
        check_estimator(self.estimator)
        scorer = scorer_of(self.scoring)
        classifier = is_classifier(self.estimator)
        unit = scorer.relation[0]
        cv = splitter_of(self.cv, scorer)
        reason = reason_of_splits(
            cv, unit, classifier=classifier, users=scorer.user_feature
        )
        if reason is not None:
            raise ValueError(f"cv: {reason}")

    def _check_values(self) -> None:
        """Check each parameter on its own, but for what is searched."""
        for name in ("epsilon", "delta", "expected_n_iter", "score_share"):
            check_real(name, getattr(self, name))
        self._validate_params()
        if self.expected_n_iter <= 1 and self.n_iter_law != "poisson":
            raise ValueError(
                f"expected_n_iter must be above 1, got {self.expected_n_iter}: what is "
                "tried once needs no search"
            )
        self._check_budget()

    def _budgets(self, exposure: Exposure) -> RunBudgets:
        budgets = RunBudgets.within(
            float(self.epsilon),
            float(self.delta),
            exposure,
            expected_n_iter=float(self.expected_n_iter),
            law=self.n_iter_law,
            score_share=float(self.score_share),
            refit=self.refit is True,
        )
        if not budgets.fit_epsilon(self.delta) > 0.0:
            raise ValueError(
                f"epsilon={self.epsilon:g} leaves nothing for a fit of each run: raise "
                "it, or lower expected_n_iter"
            )
        return budgets

    def _plan(self, scorer: PrivateScorer, budgets: RunBudgets) -> PrivacyPlan:
        return budgets.plan(
            float(self.epsilon),
            float(self.delta),
            estimator=type(self).__name__,
            relation=scorer.relation,
            seeded=self.noise_seed is not None,
        )

    @unweighted
    def fit(self, X, y=None):
        """Search, and release the best candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the estimator takes them.
        y : array-like of shape (n_samples,), default=None
            Targets, if the estimator or the score needs them.

        {outcome_of_fit}
        RuntimeError
            If no run was drawn, or none came to a score; the search is charged.
        """
        with self._unchanged_on_error(own_arithmetic=False):
            self._check_parameters()
            scorer = scorer_of(self.scoring)
            cv = splitter_of(self.cv, scorer)
            unread = deferred_numbers(self.estimator, X)
            n_rows = unread.shape[0] if unread is not None else table_shape(X)[0]
            if y is not None and shape_of(y, "y")[:1] != (n_rows,):
                raise ValueError(f"y must have one entry a row, {n_rows} of them")
            splits = splits_by_position(cv, scorer, n_rows)
            budgets = self._budgets(exposure_of(cv, splits, n_rows))
            plan = self._plan(scorer, budgets)
            n_train = n_rows if splits is None else len(splits[0][0])
            with noted_caveats() as caveats:
                checked = check_candidates(
                    self.estimator,
                    self.param_distributions,
                    X,
                    n_train,
                    scorer.relation,
                    budgets,
                    self.step_budgets == "scaled",
                    float(self.delta),
                    scorer.user_feature,
                )
            # Warnings of runs stay in them: these go by public numbers alone.
            for caveat in dict.fromkeys(caveats):
                said = f"of a candidate in param_distributions: {caveat}"
                warnings.warn(said, stacklevel=2 + self._levels_around_fit)
            by_rows = scorer.relation[0] is Unit.ROW
            # It is charged here, and values are read from here on.
            release, *read = self._start_release(
                plan,
                *([] if unread is None else [unread]),
                n_public=n_rows if by_rows else None,
                kind=SelectionRelease,
            )
            X = read_quietly(lambda: sliceable(X, "X", *read), "X could not be read")
            y = read_quietly(lambda: sliceable(y, "y"), "y could not be read")
            if splits is None:
                splits = list(cv.split(X))
            runs = Runs(
                estimator=self.estimator,
                X=X,
                y=y,
                splits=splits,
                scorer=scorer,
                score_plan=score_plan(plan, scorer, splits, n_rows, budgets),
                mu_fit=budgets.mu_fit,
                delta=float(self.delta),
                scaled=self.step_budgets == "scaled",
                checked=checked,
            )
            with quiet():
                best = release.best(self.param_distributions, runs, attrgetter("score"))
            best = succeeded(best)
            self._set_best(best, plan, scorer, len(splits))
            if self.refit is True:
                with without_seed_warning():
                    seed = release.draw_seed()
                    self.best_estimator_ = runs.fitted(best.candidate, None, seed)
            self.privacy_ = plan
        return self

    def _set_best(self, best: Outcome, plan: PrivacyPlan, scorer, n_splits) -> None:
        """Turn the outcome of the best run into public attributes."""
        self.best_params_, self.best_index_ = best.candidate, 0
        self.best_score_, self.best_score_std_ = best.score, best.std
        self.n_splits_, self.scorer_, self.multimetric_ = n_splits, scorer, False
        record_release("best", np.array([best.score]))
        self.cv_results_ = best.results()
        if self.refit == "winner":
            self.best_estimator_ = winner(best.model, plan)
        elif hasattr(self, "best_estimator_"):
            del self.best_estimator_
