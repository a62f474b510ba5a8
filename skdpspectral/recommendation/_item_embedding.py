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
from .._tables.ids import IdIndex
from .._tables.table import table_shape
from ..accounting import PrivacyAccountant
from . import _kernels_models
from ._estimator import CatalogEstimator
from ._item_models import (
    MOST_RATERS,
    CodedRatings,
    FoundItems,
    ItemComponents,
    ItemFeatures,
    ItemMoment,
)
from ._kernels_models import (
    FACTOR_RIDGE,
    OFFSET_RIDGE,
    TASTE_RIDGE,
    ItemModel,
    weighted_variance,
)
from ._ratings_by_part import (
    ClusterCodes,
    ClusterParts,
    ClusterRatings,
    RatingRows,
    group_ratings,
    unread_parts,
)
from ._table_columns import (
    embedded_names,
    find_columns,
    item_codes,
    join_columns,
    kept_columns,
    public_features,
    read_ratings,
    units,
    users_first,
)

# What stands before the public features: a prediction for the average user, and the
# features that tastes differ in beside public ones.
MEASURES = ("mean", "offset", "popularity")
# The penalty of a user's weights that columns are scaled for, whatever they would cost
# on their own: that of LRSRegressor.
PENALTY = 100.0


def columns_of_model(
    model: ItemModel, features: np.ndarray, counts, n_factors: int, units
) -> np.ndarray:
    """Return the columns that a model of items rests on: (n_items, n_columns)."""
    middle, quarter = units
    last = model.features.shape[1] - n_factors
    means = middle + quarter * (model.level + model.offsets)
    public = _kernels_models.measured_columns(
        _kernels_models.public_columns(features), counts
    )
    columns = [
        means,
        _scaled(model.offsets, OFFSET_RIDGE),
        _scaled(model.features[:, last - 1], TASTE_RIDGE),
        _scaled(public, TASTE_RIDGE),
        _scaled(model.features[:, last:], FACTOR_RIDGE),
    ]
    return np.column_stack(columns)


def _scaled(values: np.ndarray, ridge: float) -> np.ndarray:
    """Scale features so that a weight costs ``PENALTY`` as much as `ridge` before."""
    return values * math.sqrt(PENALTY / ridge)


def with_unknown(table: np.ndarray, n_measures: int) -> np.ndarray:
    """Append what is written for items outside the catalog: the average offset."""
    unknown = np.zeros((1, table.shape[1]))
    if n_measures:
        unknown[0, :2] = table[:, :2].mean(axis=0)
    return np.vstack([table, unknown])


# Attributes that one method alone has.
_OF_OFFSETS = ("level_", "item_offsets_", "item_popularity_")
_REMEDY = "; name columns to use as features with remainder=[...], or pass remainder=[]"


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
    method : {"offsets", "residuals", "moment"}, default="offsets"
        "offsets" makes the same releases as
        :class:`~skdpspectral.DPMatrixFactorization`, in two or three rounds: counts and
        offsets of items, and factors of the users' tastes as components. Their number
        is at most the number of item features, capped at 24, plus two. "residuals"
        releases counts, offsets, and the leading components of the second moment of the
        remaining residuals of users' ratings. Use it for at most a few hundred items
        that many users rate. "moment" releases the leading components of the ratings
        themselves, without offsets; with ``n_components=0`` nothing is released.
    user_feature : int or str, default="user_id"
        Position or name of the column of users. With the default, dataframes with
        neither "user_id" nor "item_id" use the first column, with a warning.
    item_feature : int or str, default="item_id"
        Position or name of the column of items. The default likewise uses the second
        column.
    items : array-like of shape (n_items,), int or None, default=None
        Public catalog of item ids (``range(n)`` for ids 0 to n - 1), which must not be
        read from the ratings. Ratings of other items are ignored, and these items embed
        as zero. An integer hashes ids into this many buckets. None uses the columns of
        a sparse matrix. For a table, None uses its items with ``epsilon=None``, and 512
        buckets with a budget, with a warning.
    item_features : array-like of shape (n_items, n_item_features) or None, default=None
        Public features of the items in the order of `items`, placed before the
        components. Columns of a dataframe keep their names. Features are centered and
        scaled, except with ``method="moment"``.
    {epsilon}
    {delta}
    rating_range : tuple (low, high) or None, default=None
        Public range of ratings, which :meth:`fit` requires. Ratings outside this range
        are clipped to it.
    max_ratings_per_user : int or None, default=None
        Maximum number of ratings per user; the last ones in the table are used. None
        uses all ratings. This limits the computation, not the sensitivity.
    remainder : {"drop", "passthrough"} or array-like, default="drop"
        Other columns to keep: none (with a warning), all, or the columns with these
        names or positions. Do not keep a rating column: it would become a feature.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_items)
        Private components, leading component first. They are orthonormal for
        ``method="moment"``. Otherwise their variance over the ratings is at most one,
        and components that consist only of noise are zero.
    explained_variance_ : ndarray of shape (n_components,)
        For ``method="moment"``, released eigenvalues, at least 0, of sums over users of
        unit norm. Otherwise, variances of the components over the ratings.
    level_ : float
        Mean of the users' levels, in units of ratings. Like the next two attributes, it
        is not set for ``method="moment"``.
    item_offsets_ : ndarray of shape (n_items,)
        Expected rating of the item minus the level, in units of ratings.
    item_popularity_ : ndarray of shape (n_items,)
        Logarithms of the released numbers of ratings per item. Each rating of a user
        with many ratings has a smaller weight.
    item_embeddings_ : ndarray of shape (n_items, n_item_columns)
        Values that :meth:`transform` writes for each item: the mean (level plus offset,
        in units of ratings), offset, popularity, public features and components. All
        but the mean are scaled so that a single penalty of 100, the default of
        :class:`~skdpspectral.LRSRegressor`, suits all of a user's weights. For
        ``method="moment"``: public features, and components of unit RMS over the
        catalog.
    items_ : ndarray of shape (n_items,)
        The catalog, or the numbers of the buckets.
    item_feature_names_ : ndarray of shape (n_item_features,)
        Names of the public features, empty if they have none.
    hashed_ : bool
        Whether ids are hashed into buckets.
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

    A component of the second moment exceeds the noise if its eigenvalue is well above
    :math:`2 \sigma \sqrt{p / 2}` for p items. With thousands of items and users, one
    component remains at :math:`\epsilon = 1`; offsets and public features help more.

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
        "remainder",
    )

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "method": [StrOptions({"offsets", "residuals", "moment"})],
        "user_feature": [Integral, str],
        "item_feature": [Integral, str],
        "items": ["array-like", Interval(Integral, 1, 2**31, closed="both"), None],
        "item_features": ["array-like", None],
        "rating_range": [tuple, list, np.ndarray, None],
        "max_ratings_per_user": [Interval(Integral, 1, None, closed="left"), None],
        "remainder": [StrOptions({"drop", "passthrough"}), "array-like"],
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
        max_ratings_per_user: int | None = None,
        remainder="drop",
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
        self.max_ratings_per_user = max_ratings_per_user
        self.remainder = remainder
        self.accountant = accountant
        self.noise_seed = noise_seed

    # What audit.privacy_report knows of the columns that come out.
    _puts_users_first: ClassVar[bool] = True

    def _statistic(self, n_items: int):
        if self.method == "moment":
            known = self.rating_range is not None  # a plan does not depend on it
            limits, most = (
                self._limits() if known else (0, 1),
                self.max_ratings_per_user,
            )
            return ItemMoment(n_items, self.n_components, limits, most)
        features = public_features(self.item_features, n_items)
        kind = ItemComponents if self.method == "residuals" else ItemFeatures
        return kind(features, self.n_components)

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the embeddings of the items.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table with users, items and other columns, which `remainder`
            selects. If a user rates an item several times, the last rating counts.
            Alternatively, a sparse matrix of users x items whose stored entries are the
            ratings. Users of a dask collection are summed on its cluster.
        y : array-like of shape (n_ratings,)
            Ratings. Pass None with a sparse matrix.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            self._limits()
            unread = unread_parts(self, X, y, reset=True)
            kept = kept_columns(self, column_names(X), self.n_features_in_)
            if isinstance(self.remainder, str):
                self._warn_of_columns(X, kept, _REMEDY)
            catalog = self._catalog(unread)
            self._warn_of_buckets(catalog)
            features = public_features(self.item_features, len(catalog))
            statistic = self._statistic(len(catalog))
            plan = self._plan(statistic)
            # It is charged here, and values are read from here on.
            release, table = self._start_release(plan, unread)
            found = table if isinstance(table, ClusterParts) else table.whole()
            given = found, catalog
            if isinstance(statistic, ItemMoment):
                found = statistic.run(release, self._coded_ratings(*given))
                self._set_moment(found, features)
            else:
                found = statistic.run(release, self._user_ratings(*given))
                self._set_model(found, features, statistic.n_factors)
            self._set_items(catalog)
            self.privacy_ = plan
        return self

    def _user_ratings(self, table: RatingRows | ClusterParts, catalog):
        """Return the ratings of known items, grouped by user, in quarters."""
        index, how = (
            self._user_index(table),
            (self.rating_range, self.max_ratings_per_user),
        )
        if isinstance(table, ClusterParts):
            return ClusterRatings(table, catalog, *how)
        codes = item_codes(catalog, table.items)
        return group_ratings(index, codes, table.ratings, len(catalog), *how)

    def _coded_ratings(self, table: RatingRows | ClusterParts, catalog):
        """Return all ratings as they are, by codes."""
        if isinstance(table, ClusterParts):
            return ClusterCodes(table, catalog)
        codes = self._user_index(table).codes
        return CodedRatings(codes, item_codes(catalog, table.items), table.ratings)

    def _user_index(self, table: RatingRows | ClusterParts) -> IdIndex | None:
        """Return the users of a fit, who must not be more than sums are exact for."""
        if isinstance(table, ClusterParts):
            return None
        index = IdIndex(table.users, "user_feature")
        if len(index) > MOST_RATERS:
            raise ValueError("user_feature must contain at most 2**31 users")
        return index

    def _set_moment(self, found, features: np.ndarray) -> None:
        """Set what comes of a second moment."""
        self.components_, self.explained_variance_ = found
        # Components of unit root mean square over the items.
        embedded = found[0].T * math.sqrt(len(features))
        self.item_embeddings_ = np.hstack([features, embedded])
        for name in _OF_OFFSETS:  # of an earlier fit
            self.__dict__.pop(name, None)

    def _set_model(self, found: FoundItems, features, n_factors: int) -> None:
        model, counts = found.model, found.counts
        middle, quarter = units(self.rating_range)
        self.level_ = float(middle + quarter * model.level)
        self.item_offsets_ = quarter * model.offsets
        self.item_popularity_ = found.popularity
        factors = model.features[:, model.features.shape[1] - n_factors :]
        self.components_ = factors.T.copy()
        self.explained_variance_ = np.array(
            [weighted_variance(factor, counts) for factor in factors.T]
        )
        self.item_embeddings_ = columns_of_model(
            model, features, counts, n_factors, (middle, quarter)
        )

    def _set_items(self, catalog) -> None:
        names = column_names(self.item_features) or ()
        self.item_feature_names_ = np.array([str(name) for name in names], dtype=object)
        self._set_catalog(catalog)

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
            Users first, then the columns selected by `remainder` in their order, with
            item columns in place of the item. Items outside the catalog get the values
            of the average item, or zeros for ``method="moment"``. Dataframes keep the
            dtypes of their columns. Arrays with a non-numeric column have dtype object.
        """
        check_is_fitted(self)
        found = read_ratings(self, X)
        user, item, names = found.user, found.item, found.table.names
        kept = kept_columns(self, names, self.n_features_in_)
        given = found.columns(kept)
        codes = item_codes(self._fitted_catalog(), found.items)
        columns = with_unknown(self.item_embeddings_, self._n_measures()).T.copy()
        embedded = list(np.take(columns, codes, axis=1, mode="wrap"))
        names = names or [f"x{j}" for j in range(len(given))]
        return join_columns(
            users_first(given, user, item, embedded, kept),
            self._names_out(names, user, item, kept),
            output_container(self),
            X,
        )

    def _n_columns_out(self, X) -> int | None:
        """Return the number of columns that :meth:`transform` makes of a table's."""
        if sparse.issparse(X):  # its rows are not those that come out
            return None
        self._check_parameters()
        public = 0 if self.item_features is None else np.shape(self.item_features)[1]
        planned = {found.name: found.shape for found in self.plan_for(X).mechanisms}
        if self.method == "offsets":
            width = planned.get("factors", (0, 0))[1]
        else:
            width = min(self.n_components, planned.get("second_moment", (0, 0))[0])
        width += 0 if self.method == "moment" else len(MEASURES)
        kept = kept_columns(self, column_names(X), table_shape(X)[1])
        return 1 + len(kept) + public + width

    def _n_measures(self) -> int:
        return len(MEASURES) if hasattr(self, "item_offsets_") else 0

    def _names_out(self, names: list, user: int, item: int, kept) -> list:
        total, n_embedded = self.item_embeddings_.shape[1], len(self.components_)
        first = MEASURES[: self._n_measures()]
        n_public = total - n_embedded - len(first)
        public = list(self.item_feature_names_)
        embedded = embedded_names(names[item], first, public, n_public, n_embedded)
        return users_first(names, user, item, embedded, kept)

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
        kept = kept_columns(self, known, len(names))
        return np.asarray(self._names_out(names, user, item, kept), dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True  # ids of users and items
        return tags
