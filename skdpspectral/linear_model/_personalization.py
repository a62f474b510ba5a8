"""New models of users beside what is released, and files for their devices."""

from __future__ import annotations

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._linalg import linear_model as lrs
from .._tables.targets import check_targets
from ._offsets import read_like_fit, rest_of
from ._parameters import alternation_of
from ._personal_models import PersonalModels


class Personalization:
    """What users do with their own rows, once there are shared directions."""

    def personalize(self, X, y, user=None, *, users=None):
        """Fit some users beside the shared directions, and store their models.

        Works on a published copy too, so that users can do it where their rows are:
        nothing but the shared directions is needed. Models that were stored for these
        users are replaced; no other changes, and no budget is spent.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            All rows of one or more users, with the columns of fit.
        y : array-like of shape (n_rows,)
            Their targets.
        user : hashable or None, default=None
            Id of the one user of all rows. None takes `users`, or the column
            `user_feature`; without users in fit it stands for the only one.
        users : array-like of shape (n_rows,) or None, default=None
            Ids of the rows' users, new or known.

        Returns
        -------
        self : object
            The estimator, which predicts for these users from now on.

        Raises
        ------
        ValueError
            If X or y is invalid, or the rows are not those of `user`.

        See Also
        --------
        skdpspectral.linear_model.personalize : The same through a pipeline.
        """
        check_is_fitted(self)
        # Each on its own: what suits no fit may suit a user.
        super()._check_parameters()
        table, offsets = read_like_fit(self, X, users)
        y = rest_of(check_targets(self, y, len(table.X)), offsets)
        index = self._users_to_fit(table, user)
        rows = self._user_rows(table, y, index, self.scale_)
        rank, d = self.components_.shape
        rules = self._rules(d, self._prior_of_users(rank))
        U = (self.components_ * self.scale_).T
        fit = lrs.fit_users(rows, U, rules, self.n_jobs)
        new = PersonalModels.fitted(rows, fit, index, self.scale_, self.components_)
        self._personal = self._models().updated(new)
        self._users_given = index is not None
        return self

    def _prior_of_users(self, rank: int):
        """Return what weights of a new user are shrunk to."""
        shrunk = (
            not self._was_private()
            and alternation_of(self).shrink_to_mean
            and not self._fixed()
        )
        return self.weights_ if shrunk else self._public_prior(rank)


def personalize(model, X, y, **users):
    """Fit some users through a pipeline: transform their rows, then fit their models.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted; its last step, or itself, has a method ``personalize``. Steps before
        transform rows as they are, and stay as they are.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Rows of one or more users, with the columns of the pipeline's fit.
    y : array-like of shape (n_rows,)
        Their targets.
    **users : object
        What else the method takes: `user` or `users`.

    Returns
    -------
    model : estimator or Pipeline
        The same, which predicts for these users from now on. No budget is spent.

    Raises
    ------
    TypeError
        If the model, or its last step, cannot be personalized.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPItemEmbedding, LRSRegressor
    >>> from skdpspectral.datasets import make_ratings
    >>> from skdpspectral.linear_model import personalize
    >>> data = make_ratings(500, 20, n_ratings_per_user=10, random_state=0)
    >>> model = make_pipeline(
    ...     DPItemEmbedding(items=data.item_ids),
    ...     LRSRegressor(0, None, user_feature=0, offset_feature=1),
    ... ).fit(data.data, data.target)
    >>> new = [[1000, 3], [1000, 5], [2000, 7]]
    >>> personalize(model, new, [5, 1, 4]).predict([[1000, 7]]).shape
    (1,)
    """
    last = model
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        last = model.steps[-1][1]
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
    if not hasattr(last, "personalize"):
        raise TypeError(
            f"model cannot be personalized: {type(last).__name__} has no method for it"
        )
    last.personalize(X, y, **users)
    return model
