"""DPItemEmbedding: private features of items, from the ratings of users."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Self, unweighted
from .._base.sklearn_compat import StrOptions, check_input_features, output_container
from .._tables.columns import column_names
from . import _kernels
from ._estimator import CatalogEstimator
from ._item_models import RatingsModel
from ._kernels import FACTOR_RIDGE, OFFSET_RIDGE, TASTE_RIDGE
from ._ratings import Ratings, beside_users, find_columns, public_features, read_catalog

# What stands before the public features: a prediction for the average user, and the
# features that tastes differ in beside public ones.
MEASURES = ("mean", "offset", "popularity")
# The penalty of a user's weights that columns are scaled for, whatever they would cost
# on their own: that of LRSRegressor.
PENALTY = 100.0


@documented
@dataclass(eq=False, repr=False)
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
    {epsilon}
    {delta}
    {columns_of_ratings}
    rating_range : tuple (low, high) or None, default=None
        Public range of ratings, which :meth:`fit` requires. Ratings outside this range
        are clipped to it.
    {accountant}
    {noise_seed}
    method : {"offsets", "residuals"}, default="offsets"
        "offsets" makes the same releases as
        :class:`~skdpspectral.DPMatrixFactorization`, in two or three rounds: counts and
        offsets of items, and factors of the users' tastes as components. Their number
        is at most the number of item features, capped at 24, plus two. "residuals"
        releases counts, offsets, and the leading components of the second moment of the
        remaining residuals of users' ratings. Use it for at most a few hundred items
        that many users rate.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_items)
        Private components, leading component first. Their variance over the ratings is
        at most one, and components that consist only of noise are zero.
    {offsets_of_items}
    item_embeddings_ : ndarray of shape (n_items, n_item_columns)
        Values that :meth:`transform` writes for each item: the mean (level plus offset,
        in units of ratings), offset, popularity, public features and components. All
        but the mean are scaled so that a single penalty of 100, the default of
        :class:`~skdpspectral.LRSRegressor`, suits all of a user's weights.
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

    _parameter_constraints: ClassVar[dict] = {
        **CatalogEstimator._parameter_constraints,
        "method": [StrOptions({"offsets", "residuals"})],
    }

    n_components: int = 3
    _: KW_ONLY
    method: str = "offsets"

    # What audit.privacy_report knows of the columns that come out.
    _puts_users_first: ClassVar[bool] = True

    def _statistic(self, n_items: int):
        features = public_features(self.item_features, n_items)
        by_moment = self.method == "residuals"
        how = {"by_moment": by_moment, "has_users": False}
        return RatingsModel(features, self.n_components, **how)

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the embeddings of the items.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table with users, items and other columns, which are ignored with a
            warning. If a user rates an item several times, the last rating counts.
            Alternatively, a sparse matrix of users x items whose stored entries are the
            ratings.
        y : array-like of shape (n_ratings,)
            Ratings. Pass None with a sparse matrix.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            self._limits()
            catalog, self.privacy_, found, *_ = self._released_items(X, y)
            self._set_items(catalog, found)
            model, n_items = found.model, len(catalog)
            last = model.features.shape[1] - self._statistic(n_items).n_factors
            factors = model.features[:, last:]
            self.components_ = factors.T.copy()
            public = public_features(self.item_features, n_items)
            public = _kernels.public_columns(public)
            parts = (
                (OFFSET_RIDGE, model.offsets),
                (TASTE_RIDGE, model.features[:, last - 1]),
                (TASTE_RIDGE, _kernels.measured_columns(public, found.counts)),
                (FACTOR_RIDGE, factors),
            )
            # A weight costs as much as it does under its own penalty.
            scaled = [values * math.sqrt(PENALTY / ridge) for ridge, values in parts]
            means = self._in_units(model.level + model.offsets)
            self.item_embeddings_ = np.column_stack([means, *scaled])
            names = column_names(self.item_features) or ()
            self.item_feature_names_ = np.array([*map(str, names)], dtype=object)
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
        ratings = Ratings(self, X, reset=False, rated=False).read()
        unknown = np.zeros((1, self.item_embeddings_.shape[1]))
        unknown[0, :2] = self.item_embeddings_[:, :2].mean(axis=0)
        codes = read_catalog(self.items_).find(ratings.items, "item_feature")
        embedded = np.vstack([self.item_embeddings_, unknown])[codes]
        names, kind = self._names_out(*ratings.names_of_ids), output_container(self)
        return beside_users(ratings.users, embedded, names, kind, ratings.index)

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
