"""What a fitted recommender does for users: predictions, lists, models of new ones."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.kept_users import KeepsUsers
from .._linalg.recommendation_gathering import Part
from .._linalg.recommendation_models import ItemModel, click_weights, user_weights
from .._linalg.recommendation_rows import UserRatings
from .._tables.id_index import IdIndex
from .._tables.masks import refuse_masked
from ..accounting import PrivacyLeakWarning
from ._catalog import index_of, item_codes
from ._cluster_ratings import ClusterRated, ClusterRatings
from ._parameters import read_range, units
from ._rated_tables import RatedTable, unread_rated
from ._ratings_tables import read_ratings
from ._user_models import RaterModels

# Scores of users and items that are in memory together.
_PART_NUMBERS = 1 << 18


def asks_for_clicks(estimator) -> bool:
    """Whether `implicit` is True; what is no boolean is refused by checks."""
    return isinstance(estimator.implicit, (bool, np.bool_)) and bool(estimator.implicit)


class Recommendations(KeepsUsers):
    """Methods of a fitted recommender; the fit is elsewhere."""

    _models_class: ClassVar[type] = RaterModels

    # -- what users' models rest on --------------------------------------------------

    def _item_model(self) -> ItemModel:
        """Return the model, with a last row for items outside the catalog."""
        return ItemModel(
            self._level(),
            np.append(self._offsets(), self._offsets().mean()),
            np.vstack([self.item_factors_, self._outside()]),
            self.ridge_,
        )

    def _units(self) -> tuple[float, float]:
        return units(self.rating_range)

    def _of_clicks(self) -> bool:
        """Whether the last fit was one of clicks without ratings."""
        return not hasattr(self, "item_offsets_")

    def _level(self) -> float:
        if self._of_clicks():
            return 0.0
        middle, quarter = self._units()
        return (self.level_ - middle) / quarter

    def _offsets(self) -> np.ndarray:
        clicks = self._of_clicks()
        return self.item_popularity_ if clicks else self.item_factors_[:, 1]

    def _outside(self) -> np.ndarray:
        """Features of an item outside the catalog: a level, and the mean offset."""
        row = np.zeros(self.item_factors_.shape[1])
        if not self._of_clicks():
            row[:2] = 1.0, self._offsets().mean()
        return row

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        middle, quarter = self._units()
        return middle + quarter * values

    def _grouped_ratings(self, table: RatedTable, catalog):
        """Return the ratings of items of the catalog by user, and the users."""
        if isinstance(table, ClusterRated):
            return ClusterRatings(table, catalog, self.rating_range), None
        index, counts = table.counted_users()
        limits = read_range(self.rating_range)

        def parts():
            for users, items, ratings in table.parts():
                # Codes of the rows are at hand if the table is one part.
                known = index.codes is not None
                codes = index.codes if known else index.find(users, "user_feature")
                ratings = np.clip(ratings, *limits)
                yield Part(codes, item_codes(catalog, items), ratings)

        rows = UserRatings(parts(), counts, len(catalog), *self._units())
        return rows, index

    def _fitted_users(self, rows: UserRatings, index: IdIndex) -> RaterModels:
        """Fit every user beside the items' model, each from their rows alone."""
        if index is None:  # of users on a cluster
            return RaterModels.empty(len(self.ridge_))
        model = ItemModel(
            self._level(), self._offsets(), self.item_factors_, self.ridge_
        )
        fit = click_weights if self._of_clicks() else user_weights
        weights = list(rows.map(lambda block: fit(block, model), self.n_jobs))
        weights = np.vstack([np.zeros((0, len(model.ridge))), *weights])
        return RaterModels.fitted(index, weights, rows)

    def _fitted_catalog(self):
        return range(len(self.items_)) if self.hashed_ else index_of(self.items_)

    def _models(self) -> RaterModels:
        """Return the users' models; none of them in a published copy."""
        empty = RaterModels.empty(len(self.ridge_))
        return getattr(self, "_personal", empty)

    # -- predictions -----------------------------------------------------------------

    def predict(self, X):
        """Predict the ratings of users and items, each by the user's own model.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_rows, n_columns)
            Table with the columns of fit, or a sparse matrix of users x items, for the
            table of its stored entries, by rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Ratings within the range. Of users who were not in the fit, and were not
            personalized, those that the average user is expected to give; items
            outside the catalog are taken for the average one. Of clicks, numbers that
            rank a user's items: logarithms of how often the user is expected to pick
            them, up to a constant.
        """
        check_is_fitted(self)
        table = read_ratings(self, X)
        return self._predicted(table.users, table.items)

    def _predicted(self, users, items) -> np.ndarray:
        models = self._models()
        own = models.codes(users, "user_feature")
        items = item_codes(self._fitted_catalog(), items)
        model = self._item_model()
        found = model.predict(items, own, models.weights_or_prior())
        if self._of_clicks():
            return found
        return np.clip(self._in_units(found), *read_range(self.rating_range))

    # Wrong values are spoken of by a check of parameters.
    @available_if(lambda self: not asks_for_clicks(self))
    def score(self, X, y=None, sample_weight=None):
        """Coefficient of determination of predictions by the users' own models.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_rows, n_columns)
            As for :meth:`predict`.
        y : array-like of shape (n_rows,) or None, default=None
            Ratings, unless X holds them, as for :meth:`fit`.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows in the score.

        Returns
        -------
        float
            :math:`R^2`. Pooled over users it tells something of all of them, which
            no ledger accounts for.

        Warns
        -----
        PrivacyLeakWarning
            If the fit was private.
        """
        check_is_fitted(self)
        self._check_parameters()
        unread = unread_rated(self, X, y, reset=False)
        parts = list(unread.read().parts())
        predictions = np.concatenate([self._predicted(*part[:2]) for part in parts])
        refuse_masked(sample_weight, "sample_weight")
        if sample_weight is not None and np.shape(sample_weight) != predictions.shape:
            raise ValueError("sample_weight must hold one number for each row of X")
        if self._was_private():
            warnings.warn(
                "a score pooled over users is a release of their private models and "
                "ratings that no budget accounts for; do not publish it",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        ratings = np.concatenate([part.ratings for part in parts])
        return r2_score(ratings, predictions, sample_weight=sample_weight)

    # -- lists -----------------------------------------------------------------------

    def recommend(self, users, n=10, *, exclude_seen=True, popularity=None):
        """Return the best items for each of some users, for their eyes alone.

        Items are ranked by the predicted rating, or of clicks by the user's taste, plus
        `popularity` times the logarithm of the released count of the item: what
        somebody picks depends on what many pick, and not on the rating alone.

        Parameters
        ----------
        users : array-like of shape (n_users,)
            Ids; unknown ones get what suits the average user.
        n : int, default=10
            Length of the lists, at least 1; capped at the number of items.
        exclude_seen : bool, default=True
            Whether to leave out what the user has rated.
        popularity : float or None, default=None
            Finite, at least 0; with 0 the predicted rating or the user's taste alone
            counts. None is 2 of ratings, and 1 of clicks.

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Ids, best first.
        scores : ndarray of shape (n_users, n)
            What they were ranked by; minus infinity where a user has seen all others.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid, or items are buckets of a hash.
        """
        check_is_fitted(self)
        if popularity is None:
            popularity = 1.0 if self._of_clicks() else 2.0
        n, popularity = _check_lists(n, exclude_seen, popularity)
        if self.hashed_:
            raise ValueError(
                "items were hashed into buckets, which cannot be recommended: fit with "
                "the public catalog as items=..."
            )
        models = self._models()
        own = models.codes(users, "users")
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
        return self.items_[best], scores

    def _scores(self, weights: np.ndarray, popularity: float) -> np.ndarray:
        """Scores of all items for users of such weights: (n_users, n_items)."""
        clicks = self._of_clicks()
        base = np.zeros(len(self.items_)) if clicks else self._level() + self._offsets()
        out = np.repeat(base[None], len(weights), axis=0)
        term = np.empty_like(out)
        # Entry by entry, as predictions are: a list is the same whoever else has one.
        for weight, feature in zip(weights.T, self.item_factors_.T, strict=True):
            np.multiply(weight[:, None], feature, out=term)
            out += term
        out = out if clicks else self._in_units(out)
        return out + popularity * self.item_popularity_

    # -- users -----------------------------------------------------------------------

    def personalize(self, X, y=None):
        """Fit some users beside the items' model, and store theirs.

        Works on a published copy too, so that users can do it where their ratings are:
        nothing but what is public is needed. Models that were stored for these users
        are replaced; no other changes, and no budget is spent.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_ratings, n_columns)
            All ratings of one or more users, with the columns of fit, or what is read
            part by part as there.
        y : array-like of shape (n_ratings,) or None, default=None
            Ratings, unless X holds them, as for :meth:`fit`.

        Returns
        -------
        self : object
            The estimator, which predicts for these users from now on.

        Raises
        ------
        ValueError, TypeError
            If X or y is invalid.
        """
        check_is_fitted(self)
        self._check_parameters()
        table = unread_rated(self, X, y, reset=False).read()
        rows, index = self._grouped_ratings(table, self._fitted_catalog())
        models = self._models()
        if models.index is not None:
            models.index.find(index.ids, "user_feature")  # of one kind with the others
        self._personal = models.updated(self._fitted_users(rows, index))
        return self


def _check_lists(n, exclude_seen, popularity) -> tuple[int, float]:
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be an integer of at least 1, got {n!r}")
    if not isinstance(exclude_seen, (bool, np.bool_)):
        raise TypeError(f"exclude_seen must be True or False, got {exclude_seen!r}")
    is_number = isinstance(popularity, Real) and not isinstance(popularity, bool)
    if not is_number or not 0.0 <= popularity < np.inf:
        raise ValueError(
            f"popularity must be a finite number of at least 0, got {popularity!r}"
        )
    return int(n), float(popularity)


def _largest(scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places and values of the n largest of each row, largest first."""
    places = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    found = np.take_along_axis(scores, places, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return (
        np.take_along_axis(places, order, axis=1),
        np.take_along_axis(found, order, axis=1),
    )
