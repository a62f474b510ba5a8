"""A search over parameters under one guarantee."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from .._base.documented import documented
from .._base.estimator import (
    ModelInside,
    PrivateEstimator,
    Seed,
    Self,
    has_method,
    unweighted,
)
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import check_arguments
from .._tables.columns import read_quietly
from ..accounting import NoisyFitWarning, PrivacyAccountant
from ..accounting._errors import warn
from ..accounting._ledger.planned_fits import estimators_within
from ..mechanisms import check_count
from ..metrics._private_scorer import PrivateScorer
from ._candidates import (
    FitLimit,
    check_estimator,
    fitted_within_budget,
)
from ._vote import (
    MIN_BLOCK_SIZE,
    ballot_of,
    check_rows,
    elected,
    planned,
    rehearse,
    scorer_of_blocks,
    sliceable,
    sliceable_targets,
)

# Largest number of candidates, each of which is checked before the charge.
_MOST_CANDIDATES = 512


@documented
class PrivateSearchCV(
    ModelInside, CallbackSupportMixin, MetaEstimatorMixin, PrivateEstimator
):
    r"""Private parameter search with a single budget.

    Disjoint blocks of the rows vote on the candidates. The given estimator is the
    *incumbent*, which is kept unless the votes clearly favor another candidate. The
    chosen candidate is fitted on all rows with nine tenths of the budget. Read more in
    the :ref:`user guide <choosing_parameters>`.

    Parameters
    ----------
    estimator : estimator
        A private estimator of this package; several steps are a
        :class:`~skdpspectral.pipeline.PrivatePipeline`. Leave its `accountant` and
        `noise_seed` at None and pass them to the search instead. The search sets its
        `epsilon`. This estimator is the incumbent.
    param_grid : dict or list of dicts
        Lists of values by parameter name, as in
        :class:`~sklearn.model_selection.GridSearchCV`, for at most 512 candidates. They
        are public.
    epsilon : float, default=1.0
        Privacy budget of the whole search, positive and finite.
    {delta}
    n_blocks : int or "auto", default="auto"
        Number of blocks m, at least 2. "auto" uses :math:`\lceil 14 / \mu_v \rceil`,
        where :math:`\mu_v` is the cost of the votes, but at most the number that leaves
        20 rows or users per block. If users may join or leave, their number is private:
        set a number that gives each block about twenty users or more.
    scoring : str, callable or PrivateScorer, default=None
        How blocks score candidates: any scikit-learn scorer, as a name or a callable
        ``scorer(estimator, X, y)``, or the result of
        :func:`~skdpspectral.metrics.make_private_scorer`, without its noise. None uses
        the estimator's ``score`` method. Scores are never released. The scorer must be
        picklable and depend only on its arguments. If it contains a ledger, that ledger
        is None within blocks.
    cv : int, default=3
        Number of folds within a block, from 2 to 20.
    n_jobs : int or None, default=None
        Number of processes for the blocks. None means 1, unless in a
        ``joblib.parallel_config`` context, and -1 means all cores.
    {accountant}
    {noise_seed}
    verbose : bool or int, default=0
        Whether to print one line for each block and for the last fit. The lines contain
        no votes. Callbacks are notified of the same steps.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the chosen candidate, or the incumbent's values of the searched
        ones.
    best_estimator_ : estimator
        The chosen candidate, fitted on all rows. Further fits of it are charged to the
        ledger of the search.
    kept_ : bool
        Whether the incumbent was kept.
    n_blocks_ : int
        Number of blocks that voted, 0 if there was no vote.
    support_ : float
        Noisy share of blocks in which the proposed challenger beats the incumbent, NaN
        if there was no vote. It is close to 0 if fits or scores fail in all blocks.
    support_std_ : float
        Standard error of `support_` due to its noise.
    {privacy_}

    See Also
    --------
    sklearn.model_selection.GridSearchCV : Pays for and shows the scores of all
        candidates, if used with a private scorer.
    PrivateSplit : Folds that preserve guarantees.

    Notes
    -----
    **Formal guarantee.** With ``noise_seed=None`` the search is (`epsilon`,
    `delta`)-differentially private for the privacy unit of its estimators: one row that
    is replaced, or one user who is replaced, joins or leaves. All fitted attributes are
    covered jointly, except user models, as in the estimators themselves. The proof is
    given in :ref:`lemma-blocks-vote`.

    Each row or user is in one block and affects only the votes of that block. A private
    selection proposes one challenger, with :math:`\mu_1 = \mu_v / \sqrt 2`. A private
    count with :math:`\mu_2 = \mu_1` then tests it against the incumbent: it must exceed
    half of the blocks by half a standard deviation of its noise. The last fit costs
    :math:`\mu_f`. Together they cost :math:`\mu^2 = \mu_1^2 + \mu_2^2 + \mu_f^2`, a
    tenth of it for the votes. With a single challenger there is no proposal, and the
    test has :math:`\mu_2 = \mu_v`. The ledger is charged once for all, before any value
    is read. The guarantee does not cover the duration of a search.

    **When there is no vote.** If :math:`m \mu_v < 4`, votes could not distinguish
    candidates, and the incumbent is fitted with the whole budget. This depends only on
    public numbers. ``privacy_plan`` states it, and a fit warns of it.

    **Within a block**, training rows are repeated until there are at least 160, and
    parameters that count rows are scaled, so that the noise relative to the data and
    the number of steps match the last fit. A candidate that fails in a block gets the
    worst score of that block, and a block in which all candidates fail votes for the
    incumbent. Before the charge, each candidate is fitted and scored once on made-up
    rows in the containers and dtypes of X and y. If this fails, the search raises an
    error and nothing is charged. A block of a dataframe keeps column names and dtypes,
    but the categories of a dtype become those of the block's own values. Scorers get
    arrays and indexes of pandas as a series.

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
    ...     DPPCA(1, center="pairs"),
    ...     {"center": ["auto", "none"], "n_components": [1, 2]},
    ...     epsilon=1.0,
    ...     scoring=kept,
    ... ).fit(X)
    >>> sorted(search.best_params_)
    ['center', 'n_components']
    >>> search.privacy_.epsilon
    1.0
    """

    _selects_privately: ClassVar[bool] = True
    _saved_instead: ClassVar[str] = (
        "best_estimator_, if it is a private estimator, and privacy_.to_json() with it"
    )
    _array_parameters: ClassVar[tuple[str, ...]] = ("estimator", "param_grid")

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "estimator": "no_validation",
        "param_grid": "no_validation",
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "n_blocks": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "scoring": [PrivateScorer, str, callable, None],
        "cv": [Interval(Integral, 2, MIN_BLOCK_SIZE, closed="both")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_blocks: Any = "auto",
        scoring=None,
        cv: int = 3,
        n_jobs: int | None = None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.n_blocks = n_blocks
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.verbose = verbose

    def privacy_plan(self, n_samples, n_features=64):
        """Describe what a search will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows, or of users who are replaced. It is not used if users may
            join or leave.
        n_features : int, default=64
            Number of columns, without users. It matters to candidates that need more.

        Returns
        -------
        PrivacyPlan
            The plan that a search is charged for. Its remarks state the maximum epsilon
            of one fit, and whether there will be a vote.

        Raises
        ------
        ValueError
            If a parameter or a candidate is invalid, or the budget is too small.
        """
        self._check_parameters()
        n_rows = check_count("n_samples", n_samples)
        n_columns = check_count("n_features", n_features)
        places = {
            f"{path}__{name}": place
            for path, part in estimators_within(self).items()
            for place, name in enumerate(("user_feature", "item_feature"))
            if isinstance(getattr(part, name, None), str)
        }
        # Of as many users as rows, whichever column has their ids.
        rows = np.broadcast_to(np.arange(n_rows)[:, None], (n_rows, n_columns + 1))
        return planned(clone(self).set_params(**places), rows).plan

    def plan_for(self, X):
        """Describe what a search on X will release and cost; nothing is fitted.

        Tables with text require this method, because the releases of their steps depend
        on dtypes.

        {plan_of_rows}
        """
        self._check_parameters()
        check_rows(X, None)
        return planned(self, X).plan

    def _check_parameters(self) -> None:
        if self.epsilon is None or self.epsilon == math.inf:
            raise ValueError(
                "epsilon of a private search must be a number: without privacy, use "
                "GridSearchCV"
            )
        values = self.get_params(deep=False)
        constraints, arrays = self._parameter_constraints, self._array_parameters
        check_arguments(type(self).__name__, constraints, values, arrays)
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be None or a number of processes, not 0")
        self._check_budget()
        try:
            n_candidates = len(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as error:
            raise type(error)(f"param_grid: {error}") from None
        if not 1 <= n_candidates <= _MOST_CANDIDATES:
            raise ValueError(
                f"param_grid must have 1 to {_MOST_CANDIDATES} candidates, got "
                f"{n_candidates}: list fewer, for example those that ParameterSampler "
                "draws"
            )
        check_estimator(self.estimator)
        scorer_of_blocks(self)

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Run the search and fit the chosen candidate.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_features)
            Rows in a form that the estimator accepts. A table with text, dates or
            missing values needs a pipeline that begins with
            :class:`~skdpspectral.DPTableVectorizer`. Blocks and scorers get dataframes.
        y : array-like of shape (n_samples,), default=None
            Targets, if the estimator or the scorer needs them.

        {outcome_of_fit}
        """
        with self._unchanged_on_error(own_arithmetic=False):
            self._check_parameters()
            found = self._found(X, y)
            earlier = [name for name in vars(self) if name.endswith("_")]
            for name in set(earlier) - set(found):
                self.__dict__.pop(name, None)
            self.__dict__.update(found)
        return self

    def _found(self, X: Any, y: Any) -> dict[str, Any]:
        """Charge, ask the blocks, and fit; return the fitted attributes."""
        check_rows(X, y)
        found = planned(self, X)
        plan, budgets = found.plan, found.budgets
        ballot = ballot_of(self, found, X, scorer_of_blocks(self))
        rehearse(self, found, ballot, X, y)
        # Warnings of blocks stay in them: these go by public numbers alone.
        if not budgets.n_blocks:
            warn(str(plan.remarks[0]), NoisyFitWarning)
        for doubt in found.doubts:
            warn(f"of a candidate in param_grid: {doubt}", NoisyFitWarning)
        steps = budgets.n_blocks + 1  # of the blocks, and of the last fit
        with fit_progress(self, steps) as progress:
            # It is charged here, and values are read from here on.
            (release,) = self._start_release(plan, n_public=ballot.n_rows)
            progress.begin(X, y, plan)
            X = read_quietly(lambda: sliceable(X), "X could not be read")
            y = read_quietly(lambda: sliceable_targets(y), "y could not be read")
            choice = elected(self, budgets, ballot, release, X, y, progress)
            index = 0 if choice.kept else choice.proposed
            limit = FitLimit(budgets.mu_fit, plan.failure, (plan.unit, plan.neighbors))
            model = found.models[index]
            seed = release.draw_seed()
            model = fitted_within_budget(model, X, y, limit, seed, self)
            progress.step(steps)
        given, chosen = self.estimator.get_params(deep=True), found.candidates[index]
        names = {name for candidate in found.candidates for name in candidate}
        return {
            "best_params_": chosen or {n: given[n] for n in sorted(names & set(given))},
            "best_estimator_": model,
            "kept_": choice.kept,
            "support_": choice.support,
            "support_std_": choice.std,
            "n_blocks_": budgets.n_blocks,
            "privacy_": plan,
        }

    # -- methods of the best model ---------------------------------------------------

    _inside: ClassVar[str] = "best_estimator_"

    def _method(self, name: str) -> Any:
        return getattr(getattr(self, self._inside, self.estimator), name)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        within = get_tags(self.estimator)
        kinds = ("classifier", "regressor", "transformer", "target", "input")
        for name in ("estimator_type", *(f"{kind}_tags" for kind in kinds)):
            setattr(tags, name, getattr(within, name))
        return tags

    @has_method("transform")
    def fit_transform(self, X, y=None):
        """Run the search and transform the same rows with the best model.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        ndarray
            Transformed rows, which are as private as the rows.
        """
        return self.fit(X, y).transform(X)
