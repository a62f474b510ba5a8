"""DPMatrixFactorization and DPItemEmbedding: items of a catalog, from ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Self, unweighted
from .._base.personal import KeepsUsers, UserModels, pooled_score
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    check_input_features,
    fit_progress,
    output_container,
)
from .._base.strategies import check_arguments
from .._statistics.user_sums import Billboard
from .._tables.columns import IdIndex, column_names, id_array
from . import _kernels
from ._item_models import ClicksModel, FoundItems, RatingsModel
from ._kernels import ItemModel, UserRatings
from ._ratings import (
    CatalogEstimator,
    Ratings,
    beside_users,
    find_columns,
    public_features,
    read_catalog,
    units,
)

# What stands before the public features: a prediction for the average user, and the
# features that tastes differ in beside public ones.
MEASURES = ("mean", "offset", "popularity")
# The penalty of a user's weights that columns are scaled for, whatever they would cost
# on their own: that of LRSRegressor.
PENALTY = 100.0
# Private factors of ratings by default.
_N_FACTORS = 3
# Scores of users and items that are in memory together.
_PART_NUMBERS = 1 << 18


def is_implicit(estimator) -> bool:
    """Return whether `implicit` is True; what is no boolean is refused by checks."""
    return isinstance(estimator.implicit, (bool, np.bool_)) and bool(estimator.implicit)


# Arguments of `recommend`.
_LISTS: dict[str, list] = {
    "n": [Interval(Integral, 1, None, closed="left")],
    "exclude_seen": ["boolean"],
    "popularity": [Interval(Real, 0, None, closed="left")],
}


@dataclass(frozen=True)
class RaterModels(UserModels):
    """Weights of users on the items' features, and an array of each user's items."""

    entries: ClassVar[tuple[str, ...]] = ("weights", "items")

    items: np.ndarray

    def find(self, users, name: str) -> np.ndarray:
        """Return codes of ids, -1 for unknown ones; errors name them."""
        ids = id_array(users, name)
        return self.codes(ids, len(ids), name)

    def weights_or_prior(self) -> np.ndarray:
        """Weights, and a row of zeros behind them that code -1 stands for."""
        return np.pad(self.weights, ((0, 1), (0, 0)))

    def seen(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of a place in `codes` and an item that this user rated."""
        none = np.zeros(0, dtype=np.intp)
        own = [none if code < 0 else self.items[code] for code in codes]
        places = np.repeat(np.arange(len(codes)), list(map(len, own)))
        return places, np.concatenate([none, *own])

    def arrays(self, code: int | None = None) -> dict[str, np.ndarray]:
        """Return arrays by name, of all users or one; none of a negative code."""
        found = super().arrays(code)
        if found and code is not None:
            found["items"] = found["items"][0]
        return found

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> RaterModels:
        return cls(index, arrays["weights"], _of_arrays([arrays["items"]]))


def _of_arrays(arrays: list) -> np.ndarray:
    """Return an array of arrays, which numpy does not join."""
    out = np.empty(len(arrays), dtype=object)
    for place, array in enumerate(arrays):
        out[place] = array
    return out


@documented
@dataclass(eq=False, repr=False)
class DPMatrixFactorization(
    KeepsUsers, CallbackSupportMixin, RegressorMixin, CatalogEstimator
):
    r"""Recommend items to users while keeping their ratings private.

    A predicted rating is the overall level plus the item's offset plus a user term. The
    user term is a ridge regression on public features of the items, their popularity
    and private factors. Offsets, counts and factors are released in two or three
    rounds, in which every user contributes one bounded vector. The user term is
    computed from these releases and the user's own ratings, and never leaves that user:
    the :ref:`billboard model <billboard>`. Read more in the
    :ref:`user guide <recommenders>`.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of private factors, at least 0. None uses 3 for ratings. It is capped at
        the number of item features (at most 24) plus 2, so at 2 without
        `item_features`, and ``privacy_`` states the cap if it applies. With `implicit`
        it is the largest number: factors are those that stand out of the noise, and
        None keeps all of them. Factors help if there are many users, and cost little if
        there are few.
    {epsilon}
        This covers all releases of a fit together.
    {delta}
    {columns_of_ratings}
    {rating_range}
    {accountant}
    {noise_seed}
    rating_feature : str, default="rating"
        Name of the column of ratings, for dataframes and files fitted without y.
    implicit : bool, default=False
        Whether rows are clicks, purchases or views without ratings. Only the pairs of
        users and items are then used, and y and a column of ratings are ignored.
    {n_jobs}
        Threads share the users.
    verbose : bool or int, default=0
        Whether to print one line per release.

    Attributes
    ----------
    {offsets_of_items}
    item_factors_ : ndarray of shape (n_items, n_factors)
        Features that users have weights on: ones, offsets in quarters of the rating
        range, components of the public features, popularity, and the private factors.
        With `implicit`, uncorrelated combinations of all but the first two; there are
        no levels and offsets then.
    ridge_ : ndarray of shape (n_factors,)
        Penalties on the squared weights of a user.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    PrivacyLeakWarning
        If privacy is switched off, if scores are pooled over users, or if the estimator
        is pickled with the users' models.

    See Also
    --------
    skdpspectral.DPItemEmbedding : Computes item features for any regressor.
    skdpspectral.LRSRegressor : One sparse model per user.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one user with all of their ratings, under
    addition or removal of that user, for any data. It covers the public attributes and
    the result of :meth:`publish`. It covers neither predictions and lists for users of
    the fit, which only that user may see, nor scores pooled over users. In every
    release a user changes a sum by a vector of norm at most one (:ref:`lemma-answers`,
    and :ref:`lemma-click-pairs` for clicks). The number of users is only used as
    released.

    If a user rates an item several times, the last rating counts. The penalties and the
    bounds of empirical Bayes are constants of the method, in units of a quarter of the
    rating range. Everything else that the method uses about the data is released.

    References
    ----------
    Chien, Jain, Krichene, Rendle, Song, Thakurta and Zhang (2021), Private alternating
    least squares, for user models computed from released items.
    Krichene, Mayoraz, Rendle, Song, Thakurta and Zhang (2023), Private learning with
    public features.

    Examples
    --------
    >>> from skdpspectral import DPMatrixFactorization
    >>> from skdpspectral.datasets import make_ratings
    >>> data = make_ratings(2000, 50, random_state=0, as_frame=True)
    >>> model = DPMatrixFactorization(
    ...     items=data.item_ids,
    ...     item_features=data.item_features,
    ...     epsilon=2.0,
    ...     rating_range=(1, 5),
    ... )
    >>> model = model.fit(data.data, data.target)
    >>> items, scores = model.recommend([1, 2], n=3)
    >>> items.shape
    (2, 3)
    """

    _models_class: ClassVar[type] = RaterModels
    _pooled_values: ClassVar[str] = "ratings"
    _parameter_constraints: ClassVar[dict] = {
        **CatalogEstimator._parameter_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left"), None],
        "rating_feature": [str],
        "implicit": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    _: KW_ONLY
    rating_feature: str = "rating"
    implicit: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    def _statistic(self, n_items: int) -> RatingsModel | ClicksModel:
        features = public_features(self.item_features, n_items)
        kind = ClicksModel if self.implicit else RatingsModel
        n_components = self.n_components
        if n_components is None and not self.implicit:
            n_components = _N_FACTORS
        return kind(features, n_components, self.n_jobs)

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the item model, and fit a model for each user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_ratings, n_columns)
            Ratings table with users, items and other columns, which are ignored with a
            warning. Alternatively, a sparse matrix of users x items whose stored
            entries are the ratings, or parquet files as a path or a
            ``pyarrow.dataset.Dataset``. Files, memory maps and arrays of other
            libraries are read in blocks of rows, and the columns that are used of dask
            collections into memory.
        y : array-like of shape (n_ratings,) or None, default=None
            Ratings, unless X contains them in the column `rating_feature` or as the
            entries of a sparse matrix. Ignored with `implicit`.

        {outcome_of_fit}
        """
        self._check_parameters()
        self._limits()
        most = 2 if self.implicit else 3
        most -= self.n_components == 0
        with self._unchanged_on_error(), fit_progress(self, most) as progress:
            _, *found = self._released_items(X, y, progress)
            self._keep(*found)
        return self

    def _keep(self, catalog, plan, found: FoundItems, rows=None, index=None) -> None:
        """Set public attributes, and the models of users whose rows are at hand."""
        self._set_items(catalog, found)
        self.item_factors_, self.ridge_ = found.model.features, found.model.ridge
        if rows is not None:
            # What belongs to users, apart from all public attributes.
            self._personal = self._fitted_users(rows, index)
        self.privacy_ = plan

    # -- several groups of users ------------------------------------------------------

    def _billboard(self, n_features=None) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        if not self._is_private():
            raise ValueError("epsilon=None: groups of users need a budget")
        if n_features is not None:
            raise ValueError(
                "n_features is not used for a recommender: leave it as None"
            )
        catalog = self._catalog()
        rows = (catalog.ids, self._limits(), bool(self.implicit))
        return Billboard(self._statistic(len(catalog)), (), rows)

    def _unread_group(self, board: Billboard, names, X, y=None) -> Callable:
        """Check the form of a group's ratings; return what reads them, and users."""
        unread = Ratings(self, X, y, reset=True)
        columns = (self.user_feature, self.item_feature)
        if hasattr(self, "feature_names_in_") and not all(
            isinstance(column, str) for column in columns
        ):
            raise ValueError(
                "user_feature and item_feature must be column names if X has column "
                "names: other nodes may have their columns in another order"
            )
        return lambda: self._grouped(unread.read(), self._catalog(X))

    def _finish(self, board: Billboard, found, plan, rows=None, index=None) -> None:
        """Make public attributes of what was released, and models of users at hand."""
        if rows is None:
            self.n_features_in_ = 2
        self._keep(self._catalog(), plan, found, rows, index)

    def _of_clicks(self) -> bool:
        """Return whether the last fit was one of clicks without ratings."""
        return not hasattr(self, "item_offsets_")

    def _item_model(self) -> ItemModel:
        """Return the model of the items, of public attributes alone."""
        level, features = 0.0, self.item_factors_
        if self._of_clicks():
            return ItemModel(level, self.item_popularity_, features, self.ridge_)
        middle, quarter = units(self._limits())
        level = (self.level_ - middle) / quarter
        return ItemModel(level, features[:, 1], features, self.ridge_)

    def _fitted_users(self, rows: UserRatings, index: IdIndex) -> RaterModels:
        """Fit every user beside the items' model, each from their rows alone."""
        model = self._item_model()
        fit = _kernels.click_weights if self._of_clicks() else _kernels.user_weights
        weights = list(rows.map(lambda block: fit(block, model), self.n_jobs))
        weights = np.vstack([np.zeros((0, len(model.ridge))), *weights])
        items = np.split(rows.items, rows.pointer[1:-1])[: rows.n_users]
        return RaterModels(index.without_codes(), weights, _of_arrays(items))

    def _models(self) -> RaterModels:
        none = np.zeros((0, len(self.ridge_))), np.zeros(0, dtype=object)
        return getattr(self, "_personal", RaterModels(None, *none))

    def predict(self, X):
        """Predict ratings of users for items, using each user's own model.

        Parameters
        ----------
        {ratings_like_fit}

        Returns
        -------
        ndarray of shape (n_rows,)
            Ratings within `rating_range`. Users who were neither in the fit nor
            personalized get the ratings expected from the average user. Items outside
            the catalog are treated as the average item. With `implicit`, numbers that
            rank the items of a user: logarithms of how often the user is expected to
            pick each item, up to a constant.

        Warns
        -----
        UserWarning
            If users without a model are predicted as the average user. The warning
            counts their rows, and thereby reveals who was in the fit. A published copy
            has no models and issues this warning for every user.
        """
        check_is_fitted(self)
        ratings = Ratings(self, X, reset=False, rated=False).read()
        own = self._models().find(ratings.users, "user_feature")
        self._warn_of_unknown(own)
        return self._predicted(own, ratings.items)

    def _shared_prediction(self) -> str:
        known = "item_popularity_" if self._of_clicks() else "level_ and item_offsets_"
        return f"{known}, for the average user"

    def _predicted(self, own: np.ndarray, items) -> np.ndarray:
        """Predict ratings of users by their codes; unknown items are average ones."""
        items = read_catalog(self.items_).find(items, "item_feature")
        model, weights = self._item_model(), self._models().weights_or_prior()
        offsets = np.append(model.offsets, model.offsets.mean())
        outside = np.zeros((1, model.features.shape[1]))
        clicks = self._of_clicks()
        if not clicks:
            outside[0, :2] = 1.0, offsets[-1]
        features = np.vstack([model.features, outside])
        model = replace(model, offsets=offsets * (not clicks), features=features)
        found = model.predict(items, own, weights)
        if clicks:
            return offsets[items] + _kernels.log_likings(found)
        return np.clip(self._in_units(found), *self._limits())

    # Wrong values are spoken of by a check of parameters.
    @available_if(lambda self: not is_implicit(self))
    def score(self, X, y=None, sample_weight=None):
        """Return the coefficient of determination of the users' own models.

        Parameters
        ----------
        {ratings_like_fit}
        {ratings_beside}
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows in the score.

        Returns
        -------
        float
            :math:`R^2`. A score pooled over users reveals information about all of
            them, which no ledger records.

        Warns
        -----
        PrivacyLeakWarning
            If the fit was private.
        """
        check_is_fitted(self)
        self._check_parameters()
        rows = Ratings(self, X, y, reset=False).read()
        own = self._models().find(rows.users, "user_feature")
        self._warn_of_unknown(own)
        found, private = self._predicted(own, rows.items), self._was_private()
        return pooled_score(self, rows.values, found, sample_weight, private=private)

    def recommend(self, users, n=10, *, exclude_seen=True, popularity=None):
        """Return the best items for each of the given users, for that user alone.

        The ranking uses the predicted rating, or with `implicit` the user's taste, plus
        `popularity` times the logarithm of the item's released count, because people's
        choices also depend on how popular an item is.

        Parameters
        ----------
        users : array-like of shape (n_users,)
            User ids. Unknown users get the recommendations for the average user.
        n : int, default=10
            Length of the lists, at least 1, capped at the number of items.
        exclude_seen : bool, default=True
            Whether to exclude items that the user has rated.
        popularity : float or None, default=None
            Finite, at least 0. With 0, only the predicted rating or the user's taste
            counts. None uses 2 for ratings and 1 with `implicit`.

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Item ids, best first.
        scores : ndarray of shape (n_users, n)
            Scores used for the ranking, minus infinity if the user has already seen all
            other items. With `popularity` they are **not on the scale of ratings**,
            which :meth:`predict` returns for these users and items.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid.

        Warns
        -----
        UserWarning
            If users have no model and get the same list as everybody. With a published
            copy, this applies to all users until they are personalized.
        """
        check_is_fitted(self)
        if popularity is None:
            popularity = 1.0 if self._of_clicks() else 2.0
        given = {"n": n, "exclude_seen": exclude_seen, "popularity": popularity}
        check_arguments("recommend", _LISTS, given)
        models = self._models()
        own = models.find(users, "users")
        self._warn_of_unknown(own, "users")
        weights = models.weights_or_prior()
        n = min(n, len(self.items_))
        best = np.empty((len(own), n), dtype=np.intp)
        scores = np.empty((len(own), n))
        size = max(1, _PART_NUMBERS // len(self.items_))
        for start in range(0, len(own), size):
            part = slice(start, start + size)
            all_scores = self._scores(weights[own[part]], popularity)
            if exclude_seen:
                all_scores[models.seen(own[part])] = -np.inf
            places = np.argpartition(-all_scores, n - 1, axis=1)[:, :n]
            found = np.take_along_axis(all_scores, places, axis=1)
            order = np.argsort(-found, axis=1, kind="stable")
            best[part] = np.take_along_axis(places, order, axis=1)
            scores[part] = np.take_along_axis(found, order, axis=1)
        return self.items_[best], scores

    def _scores(self, weights: np.ndarray, popularity: float) -> np.ndarray:
        """Scores of all items for users of such weights: (n_users, n_items)."""
        model, clicks = self._item_model(), self._of_clicks()
        base = (model.level + model.offsets) * (not clicks)
        out = np.repeat(base[None], len(weights), axis=0)
        term = np.empty_like(out)
        # Entry by entry, as predictions are: a list is the same whoever else has one.
        for weight, feature in zip(weights.T, model.features.T, strict=True):
            np.multiply(weight[:, None], feature, out=term)
            out += term
        out = _kernels.log_likings(out) if clicks else self._in_units(out)
        return out + popularity * self.item_popularity_

    def personalize(self, X, y=None):
        """Fit models of some users to the released item model, and store them.

        This also works on a published copy, so that users can run it where their
        ratings are: it needs only public attributes. Stored models of these users are
        replaced, and all others are kept. No budget is spent.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_ratings, n_columns)
            All ratings of one or more users, in the format and columns of :meth:`fit`.
        {ratings_beside}

        Returns
        -------
        self : object
            The estimator, which can now predict for these users.

        Raises
        ------
        ValueError, TypeError
            If X or y is invalid.
        """
        check_is_fitted(self)
        self._check_parameters()
        ratings = Ratings(self, X, y, reset=False).read()
        rows, index = self._grouped(ratings, read_catalog(self.items_))
        models = self._models()
        models.check_kind(index, "user_feature")
        self._personal = models.updated(self._fitted_users(rows, index))
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.required = not is_implicit(self)
        tags.target_tags.single_output = True
        return tags


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
    {rating_range}
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
        return RatingsModel(features, self.n_components, None, by_moment, False)

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
            released = self._released_items(X, y)
            statistic, catalog, self.privacy_, found, *_ = released
            self._set_items(catalog, found)
            model, public = found.model, _kernels.public_columns(statistic.features)
            last = model.features.shape[1] - statistic.n_factors
            self.components_ = model.features[:, last:].T.copy()
            # A weight costs as much as it does under its own penalty.
            scales = np.sqrt(PENALTY / model.ridge)
            scaled = model.features * scales
            measured = _kernels.principal_columns(public, found.counts, turned=False)
            measured *= scales[last - 1]
            means = self._in_units(model.level + model.offsets)
            self.item_embeddings_ = np.column_stack(
                [means, scaled[:, [1, last - 1]], measured, scaled[:, last:]]
            )
            names = column_names(self.item_features) or ()
            self.item_feature_names_ = np.array([*map(str, names)], dtype=object)
        return self

    def transform(self, X):
        """Replace each item id with the features and embedding of the item.

        Parameters
        ----------
        {ratings_like_fit}

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
        user, item = (ratings.names[place] for place in ratings.places[:2])
        names, kind = self._names_out(user, item), output_container(self)
        return beside_users(ratings.users, embedded, names, kind, ratings.index)

    def _n_columns_out(self, X) -> int | None:
        """Return the number of columns that :meth:`transform` makes of a table's."""
        if sparse.issparse(X):  # its rows are not those that come out
            return None
        self._check_parameters()
        statistic = self._statistic(len(self._catalog(X)))
        n_public = statistic.features.shape[1]
        return 1 + len(MEASURES) + n_public + statistic.n_factors

    def _names_out(self, user, item) -> list:
        total, n_embedded = self.item_embeddings_.shape[1], len(self.components_)
        n_public = total - n_embedded - len(MEASURES)
        first = [f"{item}_{name}" for name in MEASURES]
        public = [f"{item}_feature{j}" for j in range(n_public)]
        last = [f"{item}_embedding{j}" for j in range(n_embedded)]
        return [user, *first, *(list(self.item_feature_names_) or public), *last]

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
