"""Private embeddings of items, from the ratings of users."""

from __future__ import annotations

import math
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, check_input_features, output_container
from .._base.unweighted import unweighted
from .._statistics.item_moment import MOST_USERS, CodedRatings, ItemMoment
from .._tables.id_index import IdIndex
from .._tables.ids import column_names
from .._tables.rows import table_shape
from ._catalog import index_of, item_codes, of_one_type
from ._choice_of_items import CatalogEstimator
from ._parameters import item_moment, public_features
from ._ratings_tables import (
    RatingsTable,
    find_columns,
    read_ratings,
    unread_ratings,
    unread_ratings_beside,
)
from ._written_tables import embedded_names, join_columns, users_first


@documented
class DPItemEmbedding(TransformerMixin, CatalogEstimator):
    r"""Replace items of a ratings table by private embeddings, and public features.

    Each user is one row of users x items: the ratings, measured from the middle of
    their public range and scaled to unit norm. The second moment of these rows,
    summed over users, is released with noise; its leading eigenvectors embed the
    items. Rows of ratings become rows of features, with their user beside them, for
    :class:`~skdpspectral.LRSRegressor` or any other regressor. Read more in the
    :ref:`user guide <recommenders>`.

    Parameters
    ----------
    n_components : int, default=50
        Length of the embedding, at least 0; capped at the number of items. With 0
        nothing is released, and items have their public features alone.
    user_feature : int or str, default="user_id"
        Position or name of the column of users. The default stands for the first one,
        with a warning, of dataframes with neither "user_id" nor "item_id".
    item_feature : int or str, default="item_id"
        Position or name of the column of items; the second one likewise.
    items : array-like of shape (n_items,), int or None, default=None
        Public catalog of item ids (``range(n)`` for ids 0 to n - 1), not read off the
        ratings; ratings of other items are left out, and embed as zero. A number
        hashes ids into so many buckets. None takes the columns of a sparse matrix; of
        a table its items with ``epsilon=None``, and with a budget 512 buckets, with a
        warning.
    item_features : array-like of shape (n_items, n_item_features) or None, default=None
        Public features of the items in the order of `items`, which stand before the
        embedding. Columns of a dataframe keep their names.
    {epsilon}
    {delta}
        Well below one over the number of users.
    rating_range : tuple (low, high), default=(1, 5)
        Public range of ratings; others are clipped to it.
    max_ratings_per_user : int or None, default=None
        How many ratings of a user count, the last ones in the table; None for all.
        This bounds the work, and no sensitivity.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_items)
        Orthonormal rows, leading first.
    explained_variance_ : ndarray of shape (n_components,)
        Released eigenvalues, floored at 0: sums over users of unit norm.
    item_embeddings_ : ndarray of shape (n_items, n_item_features + n_components)
        What :meth:`transform` writes for each item: public features, and components of
        unit root mean square over the catalog.
    items_ : ndarray of shape (n_items,)
        The catalog, or numbers of buckets.
    item_feature_names_ : ndarray of shape (n_item_features,)
        Names of the public features; empty if they have none.
    hashed_ : bool
        Whether ids are hashed into buckets.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    skdpspectral.LRSRegressor : One model a user on these features.
    skdpspectral.DPPCA : The same for rows of a table, private by row.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is
    (`epsilon`, `delta`)-differentially private for one user with all of their
    ratings, under addition or removal of that user, for any data. The number of users
    is used nowhere. A user moves the sum by a matrix of Frobenius norm at most one
    (:ref:`lemma-projector-sums`).

    A component survives the noise if its eigenvalue is well above
    :math:`2 \sigma \sqrt{p / 2}` for p items: with thousands of items and of users
    that is one at :math:`\epsilon = 1`, and public features of items then do more.

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss, algorithm 1, for users.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPItemEmbedding
    >>> X = np.array([[0, 10], [0, 11], [1, 10], [1, 12]])
    >>> embedding = DPItemEmbedding(2, items=[10, 11, 12], epsilon=1.0)
    >>> embedding.fit_transform(X, y=[5, 1, 4, 3]).shape
    (4, 3)
    """

    _levels_around_fit: ClassVar[int] = 1  # that of @unweighted
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
        "items": ["array-like", Interval(Integral, 1, 2**31, closed="both"), None],
        "item_features": ["array-like", None],
        "rating_range": [tuple, list, np.ndarray],
        "max_ratings_per_user": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components=50,
        *,
        user_feature="user_id",
        item_feature="item_id",
        items=None,
        item_features=None,
        epsilon=1.0,
        delta=1e-6,
        rating_range=(1, 5),
        max_ratings_per_user=None,
        accountant=None,
        noise_seed=None,
    ):
        self.n_components = n_components
        self.user_feature = user_feature
        self.item_feature = item_feature
        self.items = items
        self.item_features = item_features
        self.epsilon = epsilon
        self.delta = delta
        self.rating_range = rating_range
        self.max_ratings_per_user = max_ratings_per_user
        self.accountant = accountant
        self.noise_seed = noise_seed

    # What audit.privacy_report knows of the columns that come out.
    _puts_users_first: ClassVar[bool] = True

    # -- what a fit will release -----------------------------------------------------

    def _statistic(self, n_items: int) -> ItemMoment:
        """Return what a fit with so many items releases."""
        return item_moment(self, n_items)

    # -- the estimator ---------------------------------------------------------------

    @unweighted
    def fit(self, X, y=None):
        """Release embeddings of the items.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table: users, items, and further columns, which are not used. Of
            several ratings of an item by a user the last one counts. Or a sparse
            matrix of users x items, whose stored entries are the ratings.
        y : array-like of shape (n_ratings,)
            Ratings; None with a sparse matrix.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = unread_ratings(self, X, reset=True)
            targets = unread_ratings_beside(self, unread, y)
            catalog = self._catalog(unread)
            self._warn_of_buckets(catalog)
            features = public_features(self.item_features, len(catalog))
            moment = self._statistic(len(catalog))
            plan = self._plan(moment)
            # It is charged here, and values are read from here on.
            release, table, *y = self._start_release(plan, unread, *targets)
            rows = _coded(table, catalog, *y)
            self.components_, self.explained_variance_ = moment.run(release, rows)
            self._set_items(catalog, features)
            self.privacy_ = plan
        return self

    def _set_items(self, catalog, features: np.ndarray) -> None:
        """Set what is public of the items, beside what was released."""
        n_items = len(catalog)
        # Unit root mean square, which regressors expect, and public.
        embedded = self.components_.T * math.sqrt(n_items)
        self.item_embeddings_ = np.hstack([features, embedded])
        names = column_names(self.item_features) or ()
        self.item_feature_names_ = np.array([str(name) for name in names], dtype=object)
        self.hashed_ = isinstance(catalog, range)
        ids = np.arange(n_items) if self.hashed_ else of_one_type(catalog.ids, "items")
        self.items_ = ids.copy()

    def transform(self, X):
        """Write each item's features and embedding in the place of its id.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Table with the columns of fit, or a sparse matrix of users x items, for the
            table of its stored entries, by rows.

        Returns
        -------
        ndarray or dataframe of shape (n_rows, n_columns_out)
            Users first, then all other columns in their order, the item's embedding in
            its place, which is zero outside the catalog. Dataframes keep the dtypes of
            columns; it is an array of objects if one holds no numbers.
        """
        check_is_fitted(self)
        table = read_ratings(self, X, reset=False)
        catalog = range(len(self.items_)) if self.hashed_ else index_of(self.items_)
        codes = item_codes(catalog, table.items)
        embedded = np.where((codes < 0)[:, None], 0.0, self.item_embeddings_[codes])
        names = table.names or [f"x{j}" for j in range(len(table.columns))]
        return join_columns(
            users_first(table.given, table.user, table.item, list(embedded.T)),
            self._names_out(names, table.user, table.item),
            output_container(self),
            X,
        )

    def _n_columns_out(self, X) -> int | None:
        """Return the number of columns that :meth:`transform` makes of a table's."""
        if sparse.issparse(X):  # its rows are not those that come out
            return None
        self._check_parameters()
        n_items = self.plan_for(X).mechanisms[0].shape[0] if self.n_components else 0
        public = 0 if self.item_features is None else np.shape(self.item_features)[1]
        return table_shape(X)[1] - 1 + public + min(self.n_components, n_items)

    def _names_out(self, names: list, user: int, item: int) -> list:
        total, n_embedded = self.item_embeddings_.shape[1], len(self.components_)
        public = list(self.item_feature_names_)
        embedded = embedded_names(names[item], public, total - n_embedded, n_embedded)
        return users_first(names, user, item, embedded)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of :meth:`transform`.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; None takes those of fit, or x0, x1, ...

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        names = list(check_input_features(self, input_features))
        known = names if hasattr(self, "feature_names_in_") else None
        user, item = find_columns(self, known, len(names))
        return np.asarray(self._names_out(names, user, item), dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True  # ids of users and items
        return tags


def _coded(table: RatingsTable, catalog, y: np.ndarray | None = None) -> CodedRatings:
    """Return the ratings of a table, or of targets beside it, by codes."""
    users = IdIndex(table.users, "user_feature")
    if len(users) > MOST_USERS:
        raise ValueError("user_feature must hold at most 2**31 users")
    values = table.ratings if y is None else y
    return CodedRatings(users.codes, item_codes(catalog, table.items), values)
