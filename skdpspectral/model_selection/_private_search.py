"""A search over parameters under one guarantee."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from .._base.documented import documented
from .._base.estimator import (
    ModelInside,
    PrivateEstimator,
    Seed,
    Self,
    fitted_by,
    unweighted,
)
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import (
    CALLBACK_ATTRIBUTES,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import check_arguments, same_value
from .._release.noise import Coins
from .._tables import columns
from .._tables.table import table_shape
from ..accounting import (
    NoisyFitWarning,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    calibrate_exponential,
    calibrate_gaussian,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._errors import warn, without_warnings
from ..accounting._gaussian import MIN_DELTA
from ..accounting._ledger.context import block_at_hand, without_accountant
from ..accounting._ledger.planned_fits import (
    Composition,
    FormChecked,
    composition_of,
    estimators_within,
    fitted_within,
)
from ..mechanisms import (
    Assumption,
    Concern,
    Neighbors,
    PrivacyPlan,
    Remark,
    Unit,
    check_count,
    shown,
)
from ..metrics._scores import PrivateScorer
from . import _vote
from ._vote import _block, named

# Blocks times the cost of asking them: "auto" takes so many blocks that it is this
# large, and below the second number there is no power, so that nobody is asked.
_ENOUGH, _TOO_LITTLE = 14.0, 4.0

# Share of mu**2 for the votes, standard deviations by which a challenger must win, and
# rows of a block; doc/tables/search_votes has what they find.
_SHARE, _MARGIN, MIN_BLOCK_SIZE = 0.1, 0.5, 20

_CHALLENGER, _SUPPORT, _FIT = "challenger", "support", "fit"
_LEMMA = "blocks-vote"

# Largest number of candidates, each of which is checked before the charge.
_MOST_CANDIDATES = 512

# Made-up rows are fitted with hardly any noise: it is their form that counts.
_CLEAR_MU = 30.0

# A planned cost may exceed what it was made of by rounding.
ROUNDING = 2.0**-41

# Parameters that steps of a search may not have, and why.
_REFUSED = {
    "verbose": "would print lines in every fit of the search, which are secret. Set it "
    "to 0.",
    "memory": "caches fitted steps, so that fits would share their noise. Set it to "
    "None.",
    "accountant": "is the ledger of one step: pass it to the search instead, which is "
    "charged once for all of its fits",
    "noise_seed": "has no effect in a search: set it to None, and the seed of the "
    "search instead",
}

_SIDE_CHANNEL = Remark(
    "The time that the search takes depends on the rows and must not be published.",
    Concern.TRUST,
)


@documented
class PrivateSearchCV(
    ModelInside, CallbackSupportMixin, MetaEstimatorMixin, PrivateEstimator
):
    r"""Private parameter search with a single budget.

    Disjoint blocks of the rows vote on the candidates, whose scores each has from three
    folds. The given estimator is the *incumbent*, which is kept unless the votes
    clearly favor another candidate. The chosen candidate is fitted on all rows with
    nine tenths of the budget. Read more in the :ref:`user guide <choosing_parameters>`.

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
    n_jobs : int or None, default=None
        Number of processes for the blocks. None means 1, unless in a
        ``joblib.parallel_config`` context, and -1 means all cores.
    {accountant}
    {noise_seed}

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
    is read. The guarantee does not cover the duration of a search. Callbacks are
    notified of each block and of the last fit.

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
        "n_jobs": [Integral, None],
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
        n_jobs: int | None = None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.n_blocks = n_blocks
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.accountant = accountant
        self.noise_seed = noise_seed

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
            self.__dict__.update(self._found(X, y))
        return self

    def _found(self, X: Any, y: Any) -> dict[str, Any]:
        """Charge, ask the blocks, and fit; return the fitted attributes."""
        check_rows(X, y)
        found = planned(self, X)
        plan, budgets = found.plan, found.budgets
        ballot = ballot_of(self, found, X, y)
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
            X = columns.read_quietly(
                lambda: _vote.sliceable(X, "X"), "X could not be read"
            )
            y = columns.read_quietly(
                lambda: _vote.sliceable(y, "y"), "y could not be read"
            )
            index, support, std = 0, math.nan, math.nan
            if budgets.n_blocks:
                secret = release.draw_key(), Coins(self.noise_seed)
                said = "the column of users could not be read"
                dealt = columns.read_quietly(
                    lambda: _vote._deal(X, ballot, *secret), said
                )
                votes = _vote._totals(ballot, dealt, X, y, self.n_jobs, progress)
                index, support, std = budgets.choose(release, *votes)
            limit = FitLimit(budgets.mu_fit, plan.failure, (plan.unit, plan.neighbors))
            seed, model = release.draw_seed(), found.models[index]
            model = fitted_within_budget(model, X, y, limit, seed, self)
            progress.step(steps)
        given, chosen = self.estimator.get_params(deep=True), found.candidates[index]
        names = {name for candidate in found.candidates for name in candidate}
        return {
            "best_params_": chosen or {n: given[n] for n in sorted(names & set(given))},
            "best_estimator_": model,
            "kept_": index == 0,
            "support_": support,
            "support_std_": std,
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


# -- candidates --------------------------------------------------------------------


def check_estimator(estimator: Any) -> None:
    """Refuse what has no single budget, a ledger of its own, or tells of blocks."""
    if not isinstance(estimator, PrivateEstimator):
        raise TypeError(
            "estimator must be a private estimator of this package, or several steps "
            f"in make_private_pipeline, got {shown(estimator)}"
        )
    if hasattr(estimator, "client_feature"):
        raise ValueError(
            f"estimator: {type(estimator).__name__} has a budget for each client, and "
            "a search has one: fit it alone"
        )
    # The whole first: a search has a parameter "estimator" of its own.
    inside = [("estimator", estimator), *estimator.get_params(deep=True).items()]
    for name, part in inside:
        last = name.rpartition("__")[2]
        if composition_of(part) is Composition.SEARCH:
            raise ValueError(
                f"{name} is a search, and searches cannot be nested. Search over all "
                "parameters at once."
            )
        given = bool(part) if last == "verbose" else part is not None
        if last in _REFUSED and given:
            raise ValueError(f"{name}={shown(part)} {_REFUSED[last]}")
        if any(hasattr(part, listener) for listener in CALLBACK_ATTRIBUTES):
            raise ValueError(
                f"{name} has callbacks, which would see every fit of the search. "
                "Remove them."
            )


def user_column(estimator: Any) -> Any:
    """Return the column of users of the private estimators in one, if any."""
    parts = estimators_within(estimator).values()
    named = (getattr(part, "user_feature", None) for part in parts)
    return next((feature for feature in named if feature is not None), None)


def candidate_model(
    estimator: BaseEstimator, candidate: Mapping[str, Any], mu: float
) -> Any:
    """Return a candidate's unfitted model, whose fit costs `mu`."""
    model = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_estimator(model)
    if "epsilon" in candidate:
        raise ValueError(
            "epsilon has no effect in this search, because its epsilon replaces that "
            "of the estimator. Remove it from the candidates, or compare budgets with "
            "GridSearchCV."
        )
    real = isinstance(model.epsilon, Real)
    if not real or not 0.0 < float(model.epsilon) < math.inf:
        raise ValueError(
            f"epsilon={model.epsilon!r} is replaced by that of the search, which is "
            "finite: pass a number"
        )
    epsilon = gaussian_epsilon(mu, float(model.delta))
    if not epsilon > 0.0:
        raise ValueError("no budget is left for a fit. Raise epsilon of the search.")
    return model.set_params(epsilon=epsilon)


def candidates_of(search: Any) -> list[dict[str, Any]]:
    """Return different candidates, the incumbent first as {}."""
    grid, absent = list(ParameterGrid(search.param_grid)), object()
    names = sorted({name for candidate in grid for name in candidate})
    given = search.estimator.get_params(deep=True)
    known: list[tuple[Any, ...]] = [tuple(given.get(name, absent) for name in names)]
    found: list[dict[str, Any]] = [{}]
    for candidate in grid:
        values = tuple(map(candidate.get, names, known[0]))
        if not any(all(map(same_value, values, others)) for others in known):
            known.append(values)
            found.append(candidate)
    return found


def check_candidate(
    search: Any,
    candidate: Mapping[str, Any],
    X: Any,
    relation: tuple,
    mu: float,
    users: Any = None,
) -> tuple[Any, PrivacyPlan]:
    """Return a candidate's model and plan, by the form of rows.

    It is refused if it leaks, or if a fit costs more than `mu`.
    """
    with named(candidate):
        model = candidate_model(search.estimator, candidate, mu)
        leaks = report_after_charge(model).leaks
        if leaks:
            raise ValueError(
                f"{leaks[0].name} ({leaks[0].estimator}) leaks: {leaks[0].reason}; a "
                "search is private only if every step is"
            )
        own = user_column(model)
        if relation[0] is Unit.USER and (own is None or own != users):
            raise ValueError(
                f"user_feature={own!r} must name the column of users, and the same in "
                "all candidates: a search passes no users"
            )
        plan = model.plan_for(X)
        FitLimit(mu, 1.0, relation).charge(plan)
    return model, plan


class _UntilCharged:
    """In the place of a ledger: ends a fit that would be charged."""

    def charge(self, plan: PrivacyPlan) -> None:
        raise FormChecked


class FitLimit:
    """In the place of a ledger: what one fit of a search may cost, charged before."""

    def __init__(self, mu: float, failure: float, relation: tuple) -> None:
        self._most, self._relation = {"mu": mu, "failure": failure}, relation
        self._charged = False

    def __reduce__(self) -> Any:
        raise TypeError("the budget of a fit cannot be copied to another process")

    def charge(self, plan: PrivacyPlan) -> None:
        """Count a fit, or refuse what its search does not protect or allow."""
        if plan.assumption is not Assumption.NONE:
            raise PrivacyBudgetError(
                f"{plan.estimator} is private only {plan.assumption.condition}, which "
                "a search does not support: choose another mechanism"
            )
        if plan.curves:
            raise PrivacyBudgetError(
                f"{plan.estimator} draws Poisson samples, or has noise that is not "
                "Gaussian, which a search does not support: pass "
                'optimizer=Adam(sampling="in-turn"), or another mechanism'
            )
        if (plan.unit, plan.neighbors) != self._relation:
            unit, neighbors = self._relation
            raise PrivacyBudgetError(
                f"{plan.estimator} protects one {plan.unit} under {plan.neighbors}, "
                f"but the given estimator protects one {unit} under {neighbors}: all "
                "candidates must protect the same"
            )
        for name, most in self._most.items():
            cost = getattr(plan, name)
            if self._charged or not cost <= most * (1.0 + ROUNDING):
                raise PrivacyBudgetError(
                    f"a fit would cost more than its search allows: {name}={cost:.6g}, "
                    f"but at most {most:.6g} in a single fit"
                )
        self._charged = True


def fitted_within_budget(
    model: Any, X: Any, y: Any, limit: FitLimit, seed: int | None, search: Any
) -> Any:
    """Fit a model within a limit, one job after another; it keeps the search's ledger.

    Later fits of the model, or of its clones, are charged there by themselves.
    """
    _vote.set_sources(model, limit, seed)
    with warnings.catch_warnings(), without_accountant():
        warnings.filterwarnings("ignore", "noise_seed is given", PrivacyLeakWarning)
        given = (X,) if y is None else (X, y)
        fitted_by(functools.partial(model.fit, *given), private=True)
    noted = block_at_hand(getattr(search, "_made_in", None))
    for part in fitted_within(model):  # a pipeline has fitted copies of its steps
        # Of other compositions also what a further fit of them would clone.
        is_private = isinstance(part, PrivateEstimator)
        for own in [part] if is_private else estimators_within(part).values():
            if isinstance(own, PrivateEstimator):
                own._set_source(None, None)
                own.__dict__.pop("_fit_limit", None)
                own.accountant, own._made_in = search.accountant, noted
    return model


# -- the plan, and what is tried before the charge ---------------------------------


@dataclass(frozen=True)
class VoteBudgets:
    """Costs of the votes and of the last fit.

    `power` is the number of blocks times the cost of asking them. Without it, or
    without a challenger, no block votes, and the last fit has the whole budget.
    """

    n_blocks: int
    power: float
    mu_fit: float
    mechanisms: tuple[Any, ...]

    @classmethod
    def within(cls, mu: float, blocks: int, n_challengers: int) -> VoteBudgets:
        """Return the budgets of a search; a single challenger is proposed for free."""
        power = blocks * mu * math.sqrt(_SHARE)
        if not n_challengers or power < _TOO_LITTLE:
            whole = calibrate_gaussian(_FIT, 1.0, mu, (1,), lemma=_LEMMA)
            return cls(0, power, mu, (whole,))
        n_asked, planned = min(n_challengers, 2), list[Any]()
        *asking, fit = split_mu(mu, (*[_SHARE / n_asked] * n_asked, 1.0 - _SHARE))
        if n_asked == 2:
            given = _CHALLENGER, asking[0], n_challengers, 1.0
            planned.append(calibrate_exponential(*given, lemma=_LEMMA))
        count, largest = (_SUPPORT, 1.0, asking[-1], (1,)), float(blocks)
        planned.append(calibrate_gaussian(*count, magnitude=largest, lemma=_LEMMA))
        planned.append(calibrate_gaussian(_FIT, 1.0, fit, (1,), lemma=_LEMMA))
        return cls(blocks, power, fit, tuple(planned))

    def choose(
        self, release: Any, sums: np.ndarray, beats: np.ndarray
    ) -> tuple[int, float, float]:
        """Propose a challenger by sums of votes; keep it if it clearly wins blocks.

        Returns its place among the candidates, 0 if it lost, its support, and the
        standard error of that.
        """
        *proposal, support, _ = self.mechanisms
        proposed = release.choose(_CHALLENGER, sums) if proposal else 0
        (count,) = release(_SUPPORT, beats[proposed : proposed + 1])
        std, m = support.noise_std, self.n_blocks
        lost = count <= 0.5 * m + _MARGIN * std
        return 0 if lost else proposed + 1, float(count) / m, std / m


class Planned(NamedTuple):
    """A search before its charge; `users` is the column of those who are protected."""

    candidates: list[dict[str, Any]]
    models: tuple[Any, ...]
    users: Any
    budgets: VoteBudgets
    plan: PrivacyPlan
    doubts: list[Remark]


def planned(search: Any, X: Any) -> Planned:
    """Return what a search tries, protects and costs; of X only clients are read."""
    candidates, delta = candidates_of(search), float(search.delta)
    with named({}):
        mu = gaussian_mu(float(search.epsilon), delta)
        first = candidate_model(search.estimator, {}, mu).plan_for(X)
        if first.unit is Unit.ROW and first.neighbors is not Neighbors.REPLACE_ONE:
            raise ValueError(
                f"it protects one row under {first.neighbors}: a vote protects rows "
                "that are replaced, and users who are replaced, join or leave"
            )
    relation, users = (first.unit, first.neighbors), None
    n_units = table_shape(X)[0] if first.unit is Unit.ROW else None
    if first.unit is Unit.USER:
        users = user_column(search.estimator)
        if first.neighbors is Neighbors.REPLACE_ONE:  # their number is public
            ids = columns.read_column(X, users, "user_feature")
            n_units = columns.encode_ids(ids, "user_feature")[1]
    failure, highest = -1.0, 0.0
    while highest > failure:  # twice, if values of single rows may be released
        failure = highest
        budgets = _budgets(search, n_units, first.unit, len(candidates) - 1, failure)
        given = X, relation, budgets.mu_fit, users
        found = [check_candidate(search, one, *given) for one in candidates]
        most = max(plan.failure for _, plan in found)
        highest = min(most * (1.0 + ROUNDING), 1.0)
    asked = Remark(f"{budgets.n_blocks} blocks vote.", Concern.OTHER)
    if not budgets.n_blocks:
        why = "there is no other candidate."
        if budgets.power < _TOO_LITTLE:
            why = (
                "the number of blocks times the cost of their votes would be "
                f"{budgets.power:.3g}, and votes have no power below {_TOO_LITTLE:g}."
            )
        said = "No block votes, and the given estimator has the whole budget: "
        asked = Remark(f"{said}{why}", Concern.MEASURED)
    fit = gaussian_epsilon(budgets.mu_fit, delta)
    plan = PrivacyPlan(
        float(search.epsilon),
        delta,
        budgets.mechanisms,
        type(search).__name__,
        *relation,
        seeded=search.noise_seed is not None,
        remarks=(
            asked,
            f"{_FIT!r} stands for all releases of the last fit, which may cost "
            f"epsilon = {fit:.6g} at delta = {delta:g} (mu = {budgets.mu_fit:.6g}).",
            *([_SIDE_CHANNEL] if budgets.n_blocks else []),
        ),
        failure=failure,
    )
    remarks = (remark for _, own in found for remark in own.remarks)
    doubts = dict.fromkeys(one for one in remarks if one.concern is Concern.NOISE)
    models = tuple(model for model, _ in found)
    return Planned(candidates, models, users, budgets, plan, list(doubts))


def _budgets(
    search: Any, n_units: int | None, unit: Unit, n_challengers: int, failure: float
) -> VoteBudgets:
    delta, n_blocks = float(search.delta) - failure, search.n_blocks
    if delta < max(MIN_DELTA, 0.5 * float(search.delta)):
        raise ValueError(
            f"delta={search.delta:g} is too small: it must cover the probability "
            f"{failure:.3g} that values of single rows are found as categories. Lower "
            "delta of the steps that find categories, or pass public categories"
        )
    mu = gaussian_mu(float(search.epsilon), delta)
    if isinstance(n_blocks, str):  # "auto"
        if n_units is None:
            raise ValueError(
                'n_blocks="auto" depends on the number of users, which is private if '
                'they may join or leave: set neighbors="replace-one", or pass '
                "n_blocks=..., so that each block has about twenty users or more"
            )
        wanted = math.ceil(_ENOUGH / (mu * math.sqrt(_SHARE)))
        n_blocks = min(wanted, n_units // MIN_BLOCK_SIZE)
    budgets = VoteBudgets.within(mu, int(n_blocks), n_challengers)
    if n_units is not None and budgets.n_blocks * MIN_BLOCK_SIZE > n_units:
        raise ValueError(
            f"n_blocks={n_blocks} leaves fewer than {MIN_BLOCK_SIZE} {unit}s for a "
            f"block of {n_units}: lower it"
        )
    if not gaussian_epsilon(budgets.mu_fit, delta) > 0.0:
        raise ValueError(
            f"epsilon={search.epsilon:g} leaves no budget for the fits; increase it"
        )
    return budgets


def scorer_of_blocks(search: Any) -> Any:
    """Return a callable ``scorer(model, X, y)`` whose values are not released."""
    if isinstance(search.scoring, PrivateScorer):
        return search.scoring.without_noise()
    try:
        return check_scoring(search.estimator, scoring=search.scoring)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scoring: {error}") from error


def ballot_of(search: Any, found: Planned, X: Any, y: Any) -> _vote.Ballot:
    """Return what blocks have in common; try the form of X and y, also on made-up rows.

    On these all candidates are fitted and scored; if no vote is asked, the one that is
    fitted anyway is fitted.
    """
    first, asks = found.models[0], found.budgets.n_blocks > 0
    scorer = scorer_of_blocks(search) if asks else lambda *_: 0.0
    n_rows = table_shape(X)[0] if found.plan.unit is Unit.ROW else None
    # Users are first by default where columns have no names; fits refuse all others.
    by_place = isinstance(X, (np.ndarray, list, tuple)) and isinstance(found.users, str)
    ballot = _vote.Ballot(
        pack=_vote.packed(found.models if asks else (first,), scorer),
        n_blocks=found.budgets.n_blocks,
        n_rows=n_rows,
        user_feature=0 if by_place else found.users,
        by_rank=found.plan.neighbors is Neighbors.REPLACE_ONE,
        whole_users=getattr(first, "user_feature", None) is not None
        and hasattr(first, "steps")
        and not isinstance(first.steps[-1][1], PersonalEstimator),
    )
    for model in map(clone, found.models):  # until they would be charged
        model._fit_limit = _UntilCharged()
        with contextlib.suppress(FormChecked), without_warnings(), _vote.quiet():
            model.fit(X) if y is None else model.fit(X, y)
    clear = _CLEAR_MU / found.budgets.mu_fit
    on_trial = replace(
        ballot, n_blocks=1, n_rows=n_rows and _vote.N_MADE_UP, clearer=clear
    )
    failed = list[Exception]()
    for numbers in (True, False):  # columns of objects may contain either
        try:
            rows, targets = _vote.made_up(search.estimator, X, y, numbers)
            given = _vote.sliceable(rows, "X"), _vote.sliceable(targets, "y")
            on_trial.rehearse(
                found.candidates, *_block(*given, np.arange(_vote.N_MADE_UP))
            )
            return ballot
        except Exception as error:
            failed.append(error)
    if not isinstance(failed[0], (TypeError, ValueError)):  # by libraries of containers
        raise ValueError(f"X or y has a form that a search does not take: {failed[0]}")
    raise failed[0]


def check_rows(X: Any, y: Any) -> None:
    """Refuse rows on a cluster, and targets that are not one per row."""
    for name, given in (("X", X), ("y", y)):
        columns.refuse_on_cluster(given, "PrivateSearchCV", name)
    if y is not None and columns.shape_of(y, "y")[:1] != table_shape(X)[:1]:
        raise ValueError(f"y must have one entry per row, {table_shape(X)[0]} in total")
