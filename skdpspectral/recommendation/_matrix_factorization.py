"""A private recommender: offsets and factors of items, and a model a user."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.progress import FitProgress
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    Interval,
    with_callbacks,
)
from .._base.unweighted import unweighted
from .._statistics.item_models.answers import MOST_ITEMS
from .._statistics.item_models.clicks import ClicksModel
from .._statistics.item_models.model import RatingsModel
from .._tables.ids import column_names
from ._catalog import of_one_type
from ._choice_of_items import CatalogEstimator
from ._groups import GroupsOfUsers
from ._parameters import public_features
from ._rated_tables import unread_rated
from ._ratings_files import parquet_ratings
from ._ratings_tables import find_columns
from ._recommendations import Recommendations, asks_for_clicks


@documented
class DPMatrixFactorization(
    GroupsOfUsers,
    Recommendations,
    CallbackSupportMixin,
    RegressorMixin,
    CatalogEstimator,
):
    r"""Recommend items to users, by ratings that stay private.

    A user rates an item by the level of all users, the item's offset, and what the user
    adds: a ridge regression on public features of the items, their popularity and
    private factors. Offsets, counts and factors are released, in two or three rounds
    in which every user answers with one bounded vector. What belongs to a user is
    computed from these and the user's own ratings, and stays with that user: the
    :ref:`billboard model <billboard>`. Read more in the
    :ref:`user guide <recommenders>`.

    Parameters
    ----------
    n_components : int, default=3
        Number of private factors, at least 0; capped at the number of item features,
        to 24, plus two. They pay with many users, and cost little with few.
    {epsilon}
        For all releases of a fit together.
    {delta}
        Well below one over the number of users.
    user_feature : int or str, default="user_id"
        Position or name of the column of users. The default stands for the first one
        of arrays, and, with a warning, of dataframes whose columns are only numbered.
    item_feature : int or str, default="item_id"
        Position or name of the column of items; the second one likewise.
    rating_feature : str, default="rating"
        Name of the column of ratings of a dataframe or file that is fitted without y.
    items : array-like of shape (n_items,), int or None, default=None
        Public catalog of item ids, not read off the ratings; ratings of other items are
        left out. A number hashes ids into so many buckets. None takes the columns of a
        sparse matrix; of a table its items with ``epsilon=None``, and with a budget 512
        buckets, with a warning.
    item_features : array-like of shape (n_items, n_item_features) or None, default=None
        Public features of the items in the order of `items`, such as genres. They are
        standardized, and make much of the quality at small budgets.
    rating_range : tuple (low, high), default=(1, 5)
        Public range of ratings; others are clipped to it.
    implicit : bool, default=False
        Whether rows are clicks, purchases or views without ratings: that a user has an
        item is all that counts, and neither y nor a column of ratings is used.
    {accountant}
    {noise_seed}
    {n_jobs}
        They share the users.
    verbose : bool or int, default=0
        Whether to print a line a release.

    Attributes
    ----------
    level_ : float
        Mean of the users' levels, in units of ratings; not of clicks.
    item_offsets_ : ndarray of shape (n_items,)
        What an item is rated above the level, in units of ratings; not of clicks.
    item_popularity_ : ndarray of shape (n_items,)
        Logarithms of released counts of the items' ratings, users of many ratings
        counting less a rating.
    item_factors_ : ndarray of shape (n_items, n_factors)
        What users have weights on: ones, offsets in quarters of the range, components
        of the public features, popularity, and the private factors.
    ridge_ : ndarray of shape (n_factors,)
        Penalties of a user's squared weights.
    items_ : ndarray of shape (n_items,)
        The catalog, or numbers of buckets.
    hashed_ : bool
        Whether ids are hashed into buckets.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    PrivacyLeakWarning
        If privacy is switched off, if scores of users are pooled, or if the estimator
        is pickled with its users' models.

    See Also
    --------
    skdpspectral.DPItemEmbedding : Features of items, for any regressor.
    skdpspectral.LRSRegressor : One sparse model a user.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is
    (`epsilon`, `delta`)-differentially private for one user with all of their ratings,
    under addition or removal of that user, for any data. It covers the public
    attributes and what :meth:`publish` gives, and neither predictions and lists for
    users of the fit, which are for their eyes alone, nor scores pooled over users. In
    every release a user moves a sum by a vector of norm at most one
    (:ref:`lemma-answers`); the number of users is used nowhere but as it is released.

    Of several ratings of an item by a user the last one counts. The penalties and the
    bounds of empirical Bayes are constants of the method, in units of a quarter of the
    range; all else that the method needs to know of the data is released.

    References
    ----------
    Chien, Jain, Krichene, Rendle, Song, Thakurta and Zhang (2021), Private alternating
    least squares, for users' models beside released items.
    Krichene, Mayoraz, Rendle, Song, Thakurta and Zhang (2023), Private learning with
    public features.

    Examples
    --------
    >>> from skdpspectral import DPMatrixFactorization
    >>> from skdpspectral.datasets import make_ratings
    >>> data = make_ratings(2000, 50, random_state=0, as_frame=True)
    >>> model = DPMatrixFactorization(
    ...     items=data.item_ids, item_features=data.item_features, epsilon=2.0
    ... )
    >>> model = model.fit(data.data, data.target)
    >>> items, scores = model.recommend([1, 2], n=3)
    >>> items.shape
    (2, 3)
    """

    _levels_around_fit: ClassVar[int] = CALLBACK_LEVELS + 1  # that of @unweighted
    _array_parameters: ClassVar[tuple[str, ...]] = (
        "items",
        "item_features",
        "rating_range",
    )

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "user_feature": [Integral, str],
        "item_feature": [Integral, str],
        "rating_feature": [str],
        "items": ["array-like", Interval(Integral, 1, MOST_ITEMS, closed="both"), None],
        "item_features": ["array-like", None],
        "rating_range": [tuple, list, np.ndarray],
        "implicit": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=3,
        *,
        epsilon=1.0,
        delta=1e-6,
        user_feature="user_id",
        item_feature="item_id",
        rating_feature="rating",
        items=None,
        item_features=None,
        rating_range=(1, 5),
        implicit=False,
        accountant=None,
        noise_seed=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.user_feature = user_feature
        self.item_feature = item_feature
        self.rating_feature = rating_feature
        self.items = items
        self.item_features = item_features
        self.rating_range = rating_range
        self.implicit = implicit
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _statistic(self, n_items: int) -> RatingsModel | ClicksModel:
        """Return what a fit with so many items releases."""
        if n_items > MOST_ITEMS:
            raise ValueError(
                f"items must be at most 2**26 - 1 = {MOST_ITEMS}, got {n_items}: sums "
                "over the items of a user would not be exact enough for the guarantee"
            )
        features = public_features(self.item_features, n_items)
        kind = ClicksModel if self.implicit else RatingsModel
        return kind(features, self.n_components, self.n_jobs)

    @with_callbacks
    @unweighted
    def fit(self, X, y=None):
        """Release the items' model, and fit every user beside it.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table: users, items, and further columns, which are not used, with
            a warning. Or a sparse matrix of users x items, whose stored entries are
            the ratings. Or a parquet file, as a path, ``pyarrow.parquet.ParquetFile``
            or ``pyarrow.dataset.Dataset``. Files, memory maps and arrays of other
            libraries are read twice, some rows at a time. Users of a dask collection
            answer on its cluster, and have no models here (:ref:`clusters`).
        y : array-like of shape (n_ratings,) or None, default=None
            Ratings, unless X holds them: in the column `rating_feature`, or as the
            entries of a sparse matrix. Not used with `implicit`.

        {outcome_of_fit}
        """
        self._check_parameters()
        with self._progress() as progress, self._unchanged_on_error():
            unread = unread_rated(self, X, y, reset=True)
            self._warn_of_unused(X, y)
            catalog = self._catalog(unread)
            self._warn_of_buckets(catalog)
            statistic = self._statistic(len(catalog))
            plan = self._plan(statistic)
            # It is charged here, and values are read from here on.
            release, table = self._start_release(plan, unread)
            rows, index = self._grouped(table, catalog)
            progress.begin(X, y, plan)
            found = statistic.run(release, rows, progress)
            self._set_items(catalog, found)
            # What belongs to users, apart from all public attributes; of users on a
            # cluster nothing comes here.
            self._personal = self._fitted_users(rows, index)
            self.privacy_ = plan
            progress.end()
        return self

    def _progress(self) -> FitProgress:
        most = 3 if self.n_components else 2 - bool(self.implicit)
        private = self._is_private()
        return FitProgress(self, most, private=private, verbose=self.verbose)

    def _set_items(self, catalog, found) -> None:
        """Set what was released of the items, and what is public."""
        model, quarter = found.model, self._units()[1]
        if self.implicit:
            for name in ("level_", "item_offsets_"):  # of an earlier fit of ratings
                vars(self).pop(name, None)
        else:
            self.level_ = float(self._in_units(model.level))
            self.item_offsets_ = quarter * model.offsets
        self.item_popularity_ = found.popularity
        self.item_factors_, self.ridge_ = model.features, model.ridge
        self.hashed_ = isinstance(catalog, range)
        n_items = len(catalog)
        ids = np.arange(n_items) if self.hashed_ else of_one_type(catalog.ids, "items")
        self.items_ = ids.copy()

    def _warn_of_unused(self, X, y) -> None:
        """Say which columns of a table are not used, lest somebody expects it."""
        file = parquet_ratings(X)
        names = column_names(X) if file is None else file.names
        n_columns = self.n_features_in_ if names is None else len(names)
        if n_columns <= 2:
            return
        used = find_columns(self, names, n_columns)
        labels = [f"x{j}" for j in range(n_columns)] if names is None else names
        rest = [str(label) for j, label in enumerate(labels) if j not in used]
        if y is None and not self.implicit and self.rating_feature in rest:
            rest.remove(self.rating_feature)
        if not rest:
            return
        warnings.warn(
            f"columns of X beside users and items are not used: {', '.join(rest[:5])}"
            f"{', ...' if len(rest) > 5 else ''}",
            UserWarning,
            stacklevel=3 + self._levels_around_fit,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.required = not asks_for_clicks(self)
        tags.target_tags.single_output = True
        tags.input_tags.categorical = True  # ids of users and items
        return tags
