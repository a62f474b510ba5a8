"""DPMatrixFactorization: offsets and factors of items, and one model per user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Self, unweighted
from .._base.personal import KeepsUsers, pooled_score
from .._base.sklearn_compat import CallbackSupportMixin, Interval, fit_progress
from .._base.strategies import check_arguments
from .._statistics.user_sums import Billboard
from .._tables.columns import IdIndex, read_entries
from ._estimator import CatalogEstimator, RaterModels
from ._item_models import ClicksModel, FoundItems, RatingsModel
from ._kernels import ItemModel, UserRatings, click_weights, log_likings, user_weights
from ._ratings import Ratings, public_features, read_catalog, units

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
    "as_frame": ["boolean"],
}


def _largest(scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places and values of the n largest of each row, largest first."""
    places = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    found = np.take_along_axis(scores, places, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return (
        np.take_along_axis(places, order, axis=1),
        np.take_along_axis(found, order, axis=1),
    )


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
    rating_range : tuple (low, high) or None, default=None
        Public range of ratings, which :meth:`fit` requires unless `implicit` is True.
        Ratings outside this range are clipped to it.
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

            def begin(plan):
                progress.begin(X, y, plan)
                return progress

            found = self._released_items(X, y, begin)
            catalog, self.privacy_, items, rows, index = found
            self._set_items(catalog, items)
            # What belongs to users, apart from all public attributes.
            self._personal = self._fitted_users(rows, index)
        return self

    def _set_items(self, catalog: IdIndex, found: FoundItems) -> None:
        """Set what was released of the items, and what is public."""
        for name in ("level_", "item_offsets_"):  # of an earlier fit of ratings
            vars(self).pop(name, None)
        super()._set_items(catalog, found)
        self.item_factors_, self.ridge_ = found.model.features, found.model.ridge

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
        """Check the form of a group's ratings, and read no value; return what reads.

        `names` is None. ``read()`` returns the users' ratings and their ids.
        """
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
        self._set_items(self._catalog(), found)
        if rows is None:
            self.n_features_in_ = 2
        else:
            # What belongs to users, apart from all public attributes.
            self._personal = self._fitted_users(rows, index)
        self.privacy_ = plan

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
        fit = click_weights if self._of_clicks() else user_weights
        weights = list(rows.map(lambda block: fit(block, model), self.n_jobs))
        weights = np.vstack([np.zeros((0, len(model.ridge))), *weights])
        return RaterModels.fitted(index, weights, rows)

    def _models(self) -> RaterModels:
        empty = RaterModels.empty(len(self.ridge_))
        return getattr(self, "_personal", empty)

    def predict(self, X):
        """Predict ratings of users for items, using each user's own model.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_rows, n_columns)
            Table with the same columns as in fit, or a sparse matrix of users x items,
            which stands for the table of its stored entries in row order.

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
        if self._of_clicks():
            return "item_popularity_, for the average user"
        return "level_ and item_offsets_, for the average user"

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
            return offsets[items] + log_likings(found)
        return np.clip(self._in_units(found), *self._limits())

    # Wrong values are spoken of by a check of parameters.
    @available_if(lambda self: not is_implicit(self))
    def score(self, X, y=None, sample_weight=None):
        """Return the coefficient of determination of the users' own models.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_rows, n_columns)
            As for :meth:`predict`.
        y : array-like of shape (n_rows,) or None, default=None
            Ratings, unless X contains them, as for :meth:`fit`.
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

    def recommend(
        self, users, n=10, *, exclude_seen=True, popularity=None, as_frame=False
    ):
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
        as_frame : bool, default=False
            Whether to return a pandas dataframe.

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Item ids, best first.
        scores : ndarray of shape (n_users, n)
            Scores used for the ranking, minus infinity if the user has already seen all
            other items. With `popularity` they are **not on the scale of ratings**.
        frame : DataFrame
            Returned instead of both with ``as_frame=True``. It has one row per user and
            item, best first, without items that the user has seen. The columns are the
            user, "rank" (from 1), the item, the predicted rating within `rating_range`
            (not with `implicit`), and "score", the score used for the ranking.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid.
        ImportError
            If `as_frame` is set and pandas is not installed.

        Warns
        -----
        UserWarning
            If users have no model and get the same list as everybody. With a published
            copy, this applies to all users until they are personalized.

        Examples
        --------
        >>> from skdpspectral import DPMatrixFactorization
        >>> from skdpspectral.datasets import make_ratings
        >>> data = make_ratings(2000, 50, random_state=0, as_frame=True)
        >>> model = DPMatrixFactorization(items=data.item_ids, rating_range=(1, 5))
        >>> lists = model.fit(data.frame).recommend([1, 2], n=3, as_frame=True)
        >>> list(lists.columns)
        ['user_id', 'rank', 'item_id', 'rating', 'score']
        >>> bool(lists["rating"].between(1, 5).all())
        True
        """
        check_is_fitted(self)
        if popularity is None:
            popularity = 1.0 if self._of_clicks() else 2.0
        given = {"n": n, "exclude_seen": exclude_seen, "popularity": popularity}
        given["as_frame"] = as_frame
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
            best[part], scores[part] = _largest(all_scores, n)
        if as_frame:
            return self._as_frame(users, own, self.items_[best], scores)
        return self.items_[best], scores

    def _as_frame(self, users, own: np.ndarray, items, scores):
        """Return lists as a dataframe, without items that were seen."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "as_frame=True needs pandas: pip install pandas"
            ) from error
        kept, n = np.isfinite(scores).ravel(), items.shape[1]
        items = items.ravel()[kept]
        names = [
            name if isinstance(name, str) else default
            for name, default in (
                (self.user_feature, "user_id"),
                (self.item_feature, "item_id"),
            )
        ]
        columns = {
            names[0]: np.repeat(read_entries(users, "users"), n)[kept],
            "rank": np.tile(np.arange(1, n + 1), len(own))[kept],
            names[1]: items,
        }
        if not self._of_clicks():
            ratings = self._predicted(np.repeat(own, n)[kept], items)
            columns[self.rating_feature] = ratings
        columns["score"] = scores.ravel()[kept]
        return pd.DataFrame(columns).infer_objects()

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
        out = log_likings(out) if clicks else self._in_units(out)
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
        y : array-like of shape (n_ratings,) or None, default=None
            Ratings, unless X contains them, as for :meth:`fit`.

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
