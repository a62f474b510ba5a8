"""A search over parameters under one guarantee."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    with_callbacks,
)
from .._base.strategies import (
    check_arguments,
    check_values,
    is_strategy,
    snapshot,
)
from ..accounting import PrivacyAccountant, gaussian_epsilon
from ..mechanisms import check_count, check_real
from ..metrics._private_scorer import PrivateScorer
from ._candidates import check_distributions, check_estimator
from ._random_runs import RandomRuns
from ._vote import Vote

# Columns of rows that are planned for without any.
_STAND_IN_COLUMNS = 64


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

    method.__name__, method.__qualname__ = name, f"PrivateSearchCV.{name}"
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


@documented
class PrivateSearchCV(CallbackSupportMixin, MetaEstimatorMixin, PrivateEstimator):
    r"""Search over parameters under one budget, charged once.

    With the default strategy, disjoint blocks of the rows vote on the candidates. The
    estimator as given, the *incumbent*, is kept unless the votes are clearly for
    another candidate. The chosen one is fitted on all rows, with nine tenths of the
    budget. Read more in the :ref:`user guide <choosing_parameters>`.

    Parameters
    ----------
    estimator : estimator
        A private estimator of this package, or a pipeline in which every step that is
        fitted on rows is private or harmless, as
        :func:`~skdpspectral.audit.privacy_report` says. Its `accountant` and
        `noise_seed` are left at None: the search has both. It is the incumbent of
        :class:`Vote`.
    param_distributions : dict or list of dicts
        Lists or distributions (with a method ``rvs``) a parameter, as of
        :class:`~sklearn.model_selection.RandomizedSearchCV`. They are public.
    epsilon : float, default=1.0
        Privacy budget of the whole search, positive and finite.
    {delta}
    strategy : "vote", Vote or RandomRuns, default="vote"
        How the search chooses; "vote" means ``Vote()``.
    scoring : str, callable or PrivateScorer, default=None
        What is measured. With :class:`Vote`: any scorer of scikit-learn, by its name or
        as a callable ``scorer(estimator, X, y)``; None uses the estimator's ``score``.
        Its values are never released. It must be a function of its arguments, and
        picklable; a ledger that it holds is None in blocks. With :class:`RandomRuns`:
        what :func:`~skdpspectral.metrics.make_private_scorer` returns, without an
        epsilon of its own, or the name of such a score that needs no parameters.
    step_budgets : {"scaled", "given"}, default="scaled"
        What the epsilons of private steps mean. "scaled": together a fit costs what it
        may, and they only say how steps share it. "given": what they are; a candidate
        that asks for more is refused (see :meth:`privacy_plan`).
    n_jobs : int or None, default=None
        Number of processes for the blocks of :class:`Vote`; None is 1, unless in a
        ``joblib.parallel_config`` context, and -1 all cores.
    {accountant}
    {noise_seed}
    verbose : bool or int, default=0
        Whether to print a line for each block of :class:`Vote`, and for the last fit;
        none shows a vote. Callbacks of scikit-learn are told of the same steps.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the candidate that was chosen. If the incumbent was kept: its
        values of the parameters that were searched.
    best_estimator_ : estimator
        The chosen candidate, fitted on all rows. With :class:`RandomRuns` see its
        `refit`.
    kept_ : bool
        Whether the incumbent was kept (:class:`Vote`).
    n_blocks_ : int
        Number of blocks that voted; 0 if the search did not ask (:class:`Vote`).
    support_ : float
        Noisy share of blocks in which the proposed challenger beats the incumbent; NaN
        if the search did not ask (:class:`Vote`).
    support_std_ : float
        Standard error of `support_` by its noise (:class:`Vote`).
    best_score_ : float
        Score of the best run, with noise. The highest of several noisy scores is a
        little too good (:class:`RandomRuns`).
    best_score_std_ : float
        Standard error of `best_score_`, by the noise of one score
        (:class:`RandomRuns`).
    cv_results_ : dict of ndarray
        As of other searches, but for scores: with :class:`Vote` all candidates, the
        incumbent first, and `support` of the one that was proposed; with
        :class:`RandomRuns` the best candidate alone.
    best_index_ : int
        Place of the chosen candidate in `cv_results_`.
    n_splits_, multimetric_ : int, bool
        As of other searches.
    scorer_ : callable
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
    but what belongs to users as in the estimators themselves. Proofs:
    :ref:`lemma-blocks-vote` and :ref:`lemma-selection-profile`.

    The whole search is one entry of the ledger, charged before a value is read.
    Warnings of fits that only vote or compete are not shown. Doubts about listed
    candidates that follow from shapes and parameters alone are warned of before the
    charge. How long a search takes is not covered by the guarantee.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.metrics import captured_variance
    >>> from skdpspectral.model_selection import PrivateSearchCV
    >>> X, _ = make_spiked_covariance(20_000, 10, random_state=0)
    >>> def kept(model, X, y=None):
    ...     return captured_variance(model, X)
    >>> search = PrivateSearchCV(
    ...     DPPCA(1, clip_norm=0.05),
    ...     {"clip_norm": [None, 5.0], "center": ["none", "pairs"]},
    ...     epsilon=1.0,
    ...     scoring=kept,
    ... ).fit(X)
    >>> sorted(search.best_params_)
    ['center', 'clip_norm']
    >>> search.privacy_.epsilon
    1.0
    """

    _selects_privately: ClassVar[bool] = True
    _levels_around_fit: ClassVar[int] = CALLBACK_LEVELS + 1  # that of @unweighted
    _array_parameters: ClassVar[tuple[str, ...]] = ("estimator", "param_distributions")

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "estimator": "no_validation",
        "param_distributions": "no_validation",
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "strategy": [StrOptions({"vote"}), Vote, RandomRuns],
        "scoring": [PrivateScorer, str, callable, None],
        "step_budgets": [StrOptions({"scaled", "given"})],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        strategy="vote",
        scoring=None,
        step_budgets: str = "scaled",
        n_jobs: int | None = None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.strategy = strategy
        self.scoring = scoring
        self.step_budgets = step_budgets
        self.n_jobs = n_jobs
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.verbose = verbose

    def privacy_plan(self, n_samples, n_features=None):
        """Describe what a search will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows; of no matter where users are protected.
        n_features : int or None, default=None
            Number of columns; of no matter but for candidates that need more than 64.

        Returns
        -------
        PrivacyPlan
            What a search is charged with. Its remarks, and :meth:`fit_epsilon`, say
            what one fit may ask for, and whether blocks will be asked.

        Raises
        ------
        ValueError
            If a parameter is invalid, or the budget too small.
        """
        self._check_parameters()
        return self._strategy()._plan(self, _stand_in(n_samples, n_features))

    def fit_epsilon(self, n_samples, n_features=None):
        """Return what one fit may ask for at the delta of the search.

        Parameters
        ----------
        n_samples, n_features : int
            As in :meth:`privacy_plan`.

        Returns
        -------
        float
            Epsilon of a fit, to be given to steps with ``step_budgets="given"``.
        """
        self._check_parameters()
        mu = self._strategy()._fit_mu(self, _stand_in(n_samples, n_features))
        return gaussian_epsilon(mu, float(self.delta))

    def _strategy(self) -> Any:
        """Return the strategy as it is now, for it may be changed during a fit."""
        return Vote() if isinstance(self.strategy, str) else snapshot(self.strategy)

    def _check_parameters(self) -> None:
        if self.epsilon is None or self.epsilon == math.inf:
            raise ValueError(
                "epsilon of a private search must be a number: without privacy, take "
                "RandomizedSearchCV"
            )
        for name in ("epsilon", "delta"):
            check_real(name, getattr(self, name))
        # The estimator is no strategy: what it holds is checked by its own fit.
        values = self.get_params(deep=False)
        constraints, arrays = self._parameter_constraints, self._array_parameters
        check_arguments(type(self).__name__, constraints, values, arrays)
        if not isinstance(self.strategy, str):
            if not is_strategy(self.strategy):
                raise ValueError('strategy must be "vote", a Vote or a RandomRuns')
            check_values(self.strategy, getattr(self.strategy, "_array_parameters", ()))
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be None or a number of processes, not 0")
        self._check_budget()
        check_distributions(self.param_distributions)
        check_estimator(self.estimator)
        self._strategy()._check(self)

    def _reason_of_leak(self) -> str | None:
        reason: str | None = self._strategy()._reason_of_leak(self)
        return reason

    def _fits_as_given(self) -> bool:
        return isinstance(self._strategy(), Vote)

    def _users_scored(self) -> tuple[Any, bool]:
        scored: tuple[Any, bool] = self._strategy()._users_scored(self)
        return scored

    @with_callbacks
    @unweighted
    def fit(self, X, y=None) -> Self:
        """Search, and fit the chosen candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the estimator takes them.
        y : array-like of shape (n_samples,), default=None
            Targets, if the estimator or the score needs them.

        {outcome_of_fit}
        RuntimeError
            If no run of :class:`RandomRuns` was drawn, or none came to a score; the
            search is charged.
        """
        with self._unchanged_on_error(own_arithmetic=False):
            self._check_parameters()
            # As it is now, for it may be changed during the search.
            taken = object.__new__(type(self))
            taken.__dict__.update(self.__dict__, estimator=clone(self.estimator))
            found = self._strategy()._search(taken, X, y)
            earlier = [name for name in vars(self) if name.endswith("_")]
            for name in set(earlier) - set(found):
                self.__dict__.pop(name, None)
            self.__dict__.update(found)
        return self

    # -- methods of the best model ---------------------------------------------------

    def _best(self):
        check_is_fitted(self, "best_params_")
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} was fitted with refit=False, and has no "
                "best_estimator_: fit a model with best_params_, or search with "
                "refit='winner' or True"
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

    def _seen_by_best(self, name: str):
        try:
            return getattr(self._best(), name)
        except NotFittedError as error:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name} before it has a fitted "
                "model"
            ) from error

    @property
    def n_features_in_(self):
        """Number of columns seen during fit, by the best model."""
        return self._seen_by_best("n_features_in_")

    @property
    def feature_names_in_(self):
        """Names of columns seen during fit, by the best model."""
        return self._seen_by_best("feature_names_in_")


def _stand_in(n_samples: Any, n_features: Any) -> np.ndarray:
    """Return zeros that take no memory, for plans without data."""
    n_rows = check_count("n_samples", n_samples)
    n_columns = _STAND_IN_COLUMNS
    if n_features is not None:
        n_columns = check_count("n_features", n_features)
    return np.broadcast_to(0.0, (n_rows, n_columns))
