"""DPItemEmbedding: private features of items, from the ratings of users."""

from __future__ import annotations

import math
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.sklearn_compat import (
    Interval,
    StrOptions,
    check_input_features,
    output_container,
)
from .._tables.columns import column_names
from ..accounting import PrivacyAccountant
from . import _kernels_models
from ._estimator import CatalogEstimator
from ._item_models import ItemComponents, ItemFeatures
from ._kernels_models import FACTOR_RIDGE, OFFSET_RIDGE, TASTE_RIDGE
from ._ratings import Ratings, beside_users, find_columns, public_features, read_catalog

# What stands before the public features: a prediction for the average user, and the
# features that tastes differ in beside public ones.
MEASURES = ("mean", "offset", "popularity")
# The penalty of a user's weights that columns are scaled for, whatever they would cost
# on their own: that of LRSRegressor.
PENALTY = 100.0


@documented
class DPItemEmbedding(TransformerMixin, CatalogEstimator):
    r"""Replace item ids in a ratings table with private item features.

    An item is described by its expected rating from the average user, its popularity,
    its public features, and private components that are common to users. Each rating
    becomes a row of features and the user id, for :class:`~skdpspectral.LRSRegressor`
    or any other regressor. Read more in the :ref:`user guide <recommenders>`.

    Parameters
    ----------
    n_components : int, default=3
        Number of private components, at least 0. `method` may cap it.
    method : {"offsets", "residuals"}, default="offsets"
        "offsets" makes the same releases as
        :class:`~skdpspectral.DPMatrixFactorization`, in two or three rounds: counts and
        offsets of items, and factors of the users' tastes as components. Their number
        is at most the number of item features, capped at 24, plus two. "residuals"
        releases counts, offsets, and the leading components of the second moment of the
        remaining residuals of users' ratings. Use it for at most a few hundred items
        that many users rate.
    user_feature : int or str, default="user_id"
        Position or name of the column of users. With the default, dataframes with
        neither "user_id" nor "item_id" use the first column, with a warning.
    item_feature : int or str, default="item_id"
        Position or name of the column of items. The default likewise uses the second
        column.
    items : array-like of shape (n_items,) or None, default=None
        Public catalog of item ids (``range(n)`` for ids 0 to n - 1), which must not be
        read from the ratings. Ratings of other items are ignored, and these items embed
        as the average one. None uses the columns of a sparse matrix, and with
        ``epsilon=None`` the items of a table; with a budget, a table needs a catalog.
    item_features : array-like of shape (n_items, n_item_features) or None, default=None
        Public features of the items in the order of `items`, placed before the
        components. Columns of a dataframe keep their names. Features are centered and
        scaled.
    {epsilon}
    {delta}
    rating_range : tuple (low, high) or None, default=None
        Public range of ratings, which :meth:`fit` requires. Ratings outside this range
        are clipped to it.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_items)
        Private components, leading component first. Their variance over the ratings is
        at most one, and components that consist only of noise are zero.
    level_ : float
        Mean of the users' levels, in units of ratings.
    item_offsets_ : ndarray of shape (n_items,)
        Expected rating of the item minus the level, in units of ratings.
    item_popularity_ : ndarray of shape (n_items,)
        Logarithms of the released numbers of ratings per item. Each rating of a user
        with many ratings has a smaller weight.
    item_embeddings_ : ndarray of shape (n_items, n_item_columns)
        Values that :meth:`transform` writes for each item: the mean (level plus offset,
        in units of ratings), offset, popularity, public features and components. All
        but the mean are scaled so that a single penalty of 100, the default of
        :class:`~skdpspectral.LRSRegressor`, suits all of a user's weights.
    items_ : ndarray of shape (n_items,)
        The catalog.
    item_feature_names_ : ndarray of shape (n_item_features,)
        Names of the public features, empty if they have none.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    skdpspectral.LRSRegressor : Fits one model per user on these features.
    skdpspectral.DPPCA : Components of rows of a table, with row-level privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one user with all of their ratings, under
    addition or removal of that user, for any data. The number of users is only used as
    released. In every release a user changes a sum by a vector of norm at most one
    (:ref:`lemma-answers`), or a second moment by a matrix of Frobenius norm at most one
    (:ref:`lemma-exact-projectors`).

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss, algorithm 1, for users.
    Krichene, Mayoraz, Rendle, Song, Thakurta and Zhang (2023), Private learning with
    public features.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPItemEmbedding, LRSRegressor
    >>> from skdpspectral.datasets import make_ratings
    >>> from skdpspectral.linear_model import UserIntercept
    >>> data = make_ratings(2000, 50, random_state=0, as_frame=True)
    >>> embedding = DPItemEmbedding(
    ...     items=data.item_ids,
    ...     item_features=data.item_features,
    ...     epsilon=2.0,
    ...     rating_range=(1, 5),
    ... )
    >>> intercept = UserIntercept(ridge=5.0, offset_feature=1)
    >>> users = LRSRegressor(0, None, user_feature=0, fit_intercept=intercept)
    >>> model = make_pipeline(embedding, users).fit(data.data, data.target)
    >>> embedding.get_feature_names_out()[:4].tolist()
    ['user_id', 'item_id_mean', 'item_id_offset', 'item_id_popularity']
    """

    _array_parameters: ClassVar[tuple[str, ...]] = (
        "items",
        "item_features",
        "rating_range",
    )

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "method": [StrOptions({"offsets", "residuals"})],
        "user_feature": [Integral, str],
        "item_feature": [Integral, str],
        "items": ["array-like", None],
        "item_features": ["array-like", None],
        "rating_range": [tuple, list, np.ndarray, None],
    }

    def __init__(
        self,
        n_components: int = 3,
        *,
        method: str = "offsets",
        user_feature: int | str = "user_id",
        item_feature: int | str = "item_id",
        items=None,
        item_features=None,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        rating_range=None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.user_feature = user_feature
        self.item_feature = item_feature
        self.items = items
        self.item_features = item_features
        self.epsilon = epsilon
        self.delta = delta
        self.rating_range = rating_range
        self.accountant = accountant
        self.noise_seed = noise_seed

    # What audit.privacy_report knows of the columns that come out.
    _puts_users_first: ClassVar[bool] = True

    def _statistic(self, n_items: int):
        features = public_features(self.item_features, n_items)
        kind = ItemComponents if self.method == "residuals" else ItemFeatures
        return kind(features, self.n_components)

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the embeddings of the items.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table with users, items and other columns, which are ignored with a
            warning. If a user rates an item several times, the last rating counts.
            Alternatively, a sparse matrix of users x items whose stored entries are the
            ratings. Users of a dask collection are summed on its cluster.
        y : array-like of shape (n_ratings,)
            Ratings. Pass None with a sparse matrix.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            self._limits()
            fitted = self._released_items(X, y)
            model, counts = fitted.found.model, fitted.found.counts
            self._set_offsets(model)
            self.item_popularity_ = fitted.found.popularity
            last = model.features.shape[1] - self._statistic(len(counts)).n_factors
            factors = model.features[:, last:]
            self.components_ = factors.T.copy()
            public = public_features(self.item_features, len(counts))
            public = _kernels_models.public_columns(public)
            parts = (
                (OFFSET_RIDGE, model.offsets),
                (TASTE_RIDGE, model.features[:, last - 1]),
                (TASTE_RIDGE, _kernels_models.measured_columns(public, counts)),
                (FACTOR_RIDGE, factors),
            )
            # A weight costs as much as it does under its own penalty.
            scaled = [values * math.sqrt(PENALTY / ridge) for ridge, values in parts]
            means = self._in_units(model.level + model.offsets)
            self.item_embeddings_ = np.column_stack([means, *scaled])
            names = column_names(self.item_features) or ()
            self.item_feature_names_ = np.array([*map(str, names)], dtype=object)
            self.items_ = fitted.catalog.ids.copy()
            self.privacy_ = fitted.plan
        return self

    def transform(self, X):
        """Replace each item id with the features and embedding of the item.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Table with the same columns as in fit, or a sparse matrix of users x items,
            which stands for the table of its stored entries in row order.

        Returns
        -------
        ndarray or dataframe of shape (n_rows, n_columns_out)
            Ids of users first, then the columns of the items. Items outside the catalog
            get the values of the average item. Arrays with ids that float64 cannot hold
            have dtype object.
        """
        check_is_fitted(self)
        ratings = Ratings(self, X, reset=False, rated=False)
        users, items = ratings.read().ids()
        unknown = np.zeros((1, self.item_embeddings_.shape[1]))
        unknown[0, :2] = self.item_embeddings_[:, :2].mean(axis=0)
        codes = read_catalog(self.items_).find(items, "item_feature")
        embedded = np.vstack([self.item_embeddings_, unknown])[codes]
        names, kind = self._names_out(*ratings.names_of_ids), output_container(self)
        return beside_users(users, embedded, names, kind, ratings.index)

    def _n_columns_out(self, X) -> int | None:
        """Return the number of columns that :meth:`transform` makes of a table's."""
        if sparse.issparse(X):  # its rows are not those that come out
            return None
        n_items = self.plan_for(X).mechanisms[1].shape[0] - 1
        n_public = public_features(self.item_features, n_items).shape[1]
        return 1 + len(MEASURES) + n_public + self._statistic(n_items).n_factors

    def _names_out(self, user, item) -> list:
        total, n_embedded = self.item_embeddings_.shape[1], len(self.components_)
        n_public = total - n_embedded - len(MEASURES)
        public = list(self.item_feature_names_)
        public = public or [f"{item}_feature{j}" for j in range(n_public)]
        first = [f"{item}_{name}" for name in MEASURES]
        last = [f"{item}_embedding{j}" for j in range(n_embedded)]
        return [user, *first, *public, *last]

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of :meth:`transform`.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X. None uses the names seen in fit, or x0, x1, ...

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        names = list(check_input_features(self, input_features))
        known = names if hasattr(self, "feature_names_in_") else None
        user, item = find_columns(self, known, len(names))
        return np.asarray(self._names_out(names[user], names[item]), dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True  # ids of users and items
        return tags
