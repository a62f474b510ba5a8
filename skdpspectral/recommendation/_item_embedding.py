"""Private embeddings of items, from the ratings of users."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .. import _linalg, sensitivity
from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, check_input_features, output_container
from .._linalg import recommendation as user_item
from .._tables.id_index import IdIndex
from .._tables.ids import column_names
from .._tables.masks import refuse_masked
from .._tables.rows import Unread, table_shape
from .._tables.targets import unread_targets
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact, Neighbors, PrivacyPlan, Unit
from ..mechanisms._numbers import check_count
from ._catalog import (
    N_BUCKETS,
    catalog_of_data,
    index_of,
    item_codes,
    of_one_type,
    read_catalog,
)
from ._ratings_tables import (
    UnreadRatings,
    find_columns,
    join_columns,
    read_ratings,
    unread_ratings,
)

# Users that sums are exact for.
_MOST_USERS = 2.0**31


@documented
class DPItemEmbedding(TransformerMixin, PrivateEstimator):
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
        Position or name of the column of users. The default stands for the first
        column where X has neither "user_id" nor "item_id"; for a dataframe with a
        warning, since movies that are taken for users would be all that is protected.
    item_feature : int or str, default="item_id"
        Position or name of the column of items; the second one likewise.
    items : array-like of shape (n_items,), int or None, default=None
        Public catalog of item ids (``range(n)`` for ids 0 to n - 1); ratings of other
        items are left out, and embed as zero. It must not be read off the ratings: an
        item that only one user rated would give that user away. A number hashes ids
        into so many buckets. None takes the items of the data with ``epsilon=None``,
        and with a budget 512 buckets, with a warning: name the catalog if you can.
        With a sparse matrix None takes its columns, whose number is public.
    item_features : array-like of shape (n_items, n_item_features) or None, default=None
        Public features of the items in the order of `items`, which stand before the
        embedding: genres, years, prices. Columns of a dataframe keep their names.
    {epsilon}
    {delta}
        Well below one over the number of users.
    rating_range : tuple (low, high), default=(1, 5)
        Public range of ratings; others are clipped to it.
    max_ratings_per_user : int or None, default=None
        How many ratings of a user count, the last ones in the table; None for all.
        The norm of a user is one in any case: this bounds the work.
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

    What to expect: the noise is a symmetric matrix of spectral norm about
    :math:`2 \sigma \sqrt{p / 2}` for p items, and a component survives it if its
    eigenvalue stands out by more. With thousands of items and thousands of users that
    is one component at :math:`\epsilon = 1`; public features of items then do more.

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
        "items": ["array-like", Interval(Integral, 1, None, closed="left"), None],
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

    def privacy_plan(self, n_items):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_items : int
            Number of items of the catalog, or of buckets.

        Returns
        -------
        PrivacyPlan
            What a fit is charged with, whatever the number of users and ratings.

        Raises
        ------
        ValueError
            If a parameter is invalid.
        """
        self._check_parameters()
        return self._plan(check_count("n_items", n_items))

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_ratings, n_columns)
            Ratings, as for :meth:`fit`. Of a table nothing is used, of a sparse
            matrix its width; only without privacy are the items of a table read that
            has no catalog.

        Returns
        -------
        PrivacyPlan
            What that fit is charged with; ``privacy_plan`` of the number of items.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid, or the catalog.
        """
        self._check_parameters()
        table_shape(X)
        table = None
        if self.items is None and (sparse.issparse(X) or not self._is_private()):
            table = unread_ratings(clone(self), X, reset=True)
        return self.privacy_plan(len(self._catalog(table)))

    def _plan(self, n_items: int) -> PrivacyPlan:
        epsilon, mu = self._budget()
        shape, mechanisms = (n_items, n_items), ()
        if self.n_components and math.isfinite(mu):
            mechanisms = (
                calibrate_gaussian(
                    "second_moment",
                    sensitivity.projector_sum_sensitivity(Neighbors.ADD_REMOVE_ONE),
                    mu,
                    shape,
                    symmetric=True,
                    magnitude=_MOST_USERS,
                ),
            )
        elif self.n_components:
            mechanisms = (Exact("second_moment", shape, symmetric=True),)
        return PrivacyPlan(
            epsilon=epsilon,
            delta=float(self.delta),
            mechanisms=mechanisms,
            estimator=type(self).__name__,
            unit=Unit.USER,
            neighbors=Neighbors.ADD_REMOVE_ONE,
            seeded=self.noise_seed is not None,
            remarks=("The catalog of items is taken to be public.",),
        )

    def _range(self) -> tuple[float, float]:
        low = high = math.nan
        if all(_is_real(value) for value in self.rating_range):
            with contextlib.suppress(ValueError, OverflowError):
                low, high = (float(value) for value in self.rating_range)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(
                "rating_range must be a pair (low, high) of finite numbers, low < high"
            )
        return low, high

    # -- the estimator ---------------------------------------------------------------

    def fit(self, X, y=None):
        """Release embeddings of the items.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table: users, items, and further columns, which are not used. Of
            several ratings of an item by a user the last one counts. Or a sparse
            matrix of users x items, whose stored entries are the ratings, those of one
            place added up; it stands for the table of its row and column numbers.
        y : array-like of shape (n_ratings,)
            Ratings; None with a sparse matrix.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        {invalid_data}
        {no_budget}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            self._range()
            unread = unread_ratings(self, X, reset=True)
            targets = self._unread_targets(unread, y)
            catalog = self._catalog(unread)
            self._warn_of_buckets(catalog)
            features = self._public_features(len(catalog), unread)
            plan = self._plan(len(catalog))
            # It is charged here, and values are read from here on.
            release, table, *y = self._start_release(plan, unread, *targets)
            (y,) = y or (table.ratings,)
            users = IdIndex(table.users, "user_feature")
            if len(users) > _MOST_USERS:
                raise ValueError("user_feature must hold at most 2**31 users")
            items = item_codes(catalog, table.items)
            moment = None
            if self.n_components:
                moment = self._second_moment(users.codes, items, y, len(catalog))
                moment = release("second_moment", moment, overwrite=True)
            self._set_embedding(catalog, features, moment)
            self.privacy_ = plan
        return self

    def _unread_targets(self, table: UnreadRatings, y) -> list[Unread]:
        """Ratings beside a table; none beside a sparse matrix, which holds them."""
        if table.n_items is None:
            return [unread_targets(self, y, table.n_rows)]
        if y is not None:
            raise ValueError(
                "y must be None where X is a sparse matrix of users x items, whose "
                "entries are the ratings; for a pipeline make a table of X.tocoo()"
            )
        return []

    def _catalog(self, table: UnreadRatings | None):
        """Return an index of items, or a number of buckets."""
        if self.items is None and table is not None and table.n_items is not None:
            return index_of(np.arange(table.n_items))
        if self.items is None and not self._is_private():
            self._check_affordable()
            return catalog_of_data(table.read().items)
        return read_catalog(self.items)

    def _check_affordable(self) -> None:
        """Let a budget refuse a fit without privacy, before its items are read."""
        accountant = self._governing_accountant()
        if accountant is not None:
            accountant.check(self._plan(1))

    def _warn_of_buckets(self, catalog) -> None:
        if isinstance(catalog, range) and self.items is None:
            warnings.warn(
                f"items=None: item ids are hashed into {N_BUCKETS} buckets, since "
                "those of the data are private; pass the public catalog as items=...",
                UserWarning,
                stacklevel=3,
            )

    def _public_features(self, n_items: int, table: UnreadRatings) -> np.ndarray:
        if self.item_features is None:
            return np.zeros((n_items, 0))
        if self.items is None and table.n_items is None:
            raise ValueError("item_features need items=..., whose order they follow")
        refuse_masked(self.item_features, "item_features")
        features = np.empty(0)
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            given = np.asarray(self.item_features)
            if given.dtype.kind in "biufO":
                features = given.astype(np.float64)
        if features.ndim != 2 or len(features) != n_items:
            raise ValueError(
                "item_features must hold numbers, of shape (n_items, n_item_features) "
                f"with n_items = {n_items} as in items"
            )
        if not np.isfinite(features).all():
            raise ValueError("item_features must be finite; fill in what is missing")
        return features

    def _second_moment(self, users, items, y, n_items: int) -> np.ndarray:
        """Sum over users of x x', exact: items x items."""
        low, high = self._range()
        known = np.flatnonzero(items >= 0)
        # Halves first: neither the middle nor the difference overflows.
        centered = np.clip(y[known], low, high) - (0.5 * low + 0.5 * high)
        with np.errstate(all="ignore"):  # an error would tell of somebody's ratings
            return user_item.second_moment(
                users[known], items[known], centered, n_items, self.max_ratings_per_user
            )

    def _set_embedding(self, catalog, features, moment) -> None:
        """Post-process the released second moment into public attributes."""
        n_items = len(catalog)
        rank = min(self.n_components, n_items)
        self.components_ = np.zeros((0, n_items))
        self.explained_variance_ = np.zeros(0)
        if rank:
            values, self.components_ = _linalg.top_eigh(moment, rank)
            self.explained_variance_ = np.maximum(values, 0.0)
        # Unit root mean square: a scale that regressors expect, and public.
        scaled = self.components_.T * math.sqrt(n_items)
        self.item_embeddings_ = np.hstack([features, scaled])
        names = column_names(self.item_features) or ()
        self.item_feature_names_ = np.array([str(name) for name in names], dtype=object)
        self.hashed_ = isinstance(catalog, range)
        self.items_ = (
            np.arange(n_items)
            if self.hashed_
            else of_one_type(catalog.ids, "items").copy()
        )

    def transform(self, X):
        """Write each item's features and embedding in the place of its id.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Table with the columns of fit, or a sparse matrix of users x items, which
            stands for the table of its stored entries, by rows.

        Returns
        -------
        ndarray or dataframe of shape (n_rows, n_columns_out)
            Users first, then all other columns in their order, the item's embedding in
            its place. Dataframes keep the dtypes of columns; it is an array of objects
            if one holds no numbers. Items that are not in the catalog are zero.
        """
        check_is_fitted(self)
        table = read_ratings(self, X, reset=False)
        catalog = range(len(self.items_))
        if not self.hashed_:
            catalog = index_of(self.items_)
        codes = item_codes(catalog, table.items)
        unknown = np.zeros((1, self.item_embeddings_.shape[1]))
        embedded = np.vstack([self.item_embeddings_, unknown])[codes]
        names = table.names
        if names is None:
            names = [f"x{j}" for j in range(len(table.columns))]
        return join_columns(
            _users_first(table.given, table.user, table.item, list(embedded.T)),
            self._names_out(names, table.user, table.item),
            output_container(self),
            X,
        )

    def _n_columns_out(self, X) -> int | None:
        """Return the number of columns that :meth:`transform` makes of a table's."""
        if sparse.issparse(X):  # its rows are not those that come out
            return None
        n_items = self.plan_for(X).mechanisms[0].shape[0] if self.n_components else 0
        public = 0 if self.item_features is None else np.shape(self.item_features)[1]
        return table_shape(X)[1] - 1 + public + min(self.n_components, n_items)

    def _names_out(self, names: list, user: int, item: int) -> list:
        stem, public = names[item], list(self.item_feature_names_)
        if not public:
            n_public = self.item_embeddings_.shape[1] - len(self.components_)
            public = [f"{stem}_feature{j}" for j in range(n_public)]
        embedded = [f"{stem}_embedding{j}" for j in range(len(self.components_))]
        return _users_first(names, user, item, [*public, *embedded])

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of :meth:`transform`.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; None takes those of fit, or x0, x1, ...

        Returns
        -------
        ndarray of str objects
            Names.
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


def _users_first(columns, user: int, item: int, embedded: list) -> list:
    """Put the users' column in front, so that a regressor finds it at position 0."""
    rest = [
        embedded if j == item else [column]
        for j, column in enumerate(columns)
        if j != user
    ]
    return [columns[user], *itertools.chain(*rest)]


def _is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
