"""Cross-validation of models that know their users."""

import numbers

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state, indexable

from .._tables.ids import encode_ids, read_column

__all__ = ["PerUserKFold"]


class PerUserKFold(BaseCrossValidator):
    """K-fold cross-validation that spreads each user's rows over all folds.

    The rows, sorted by user, are dealt to the folds in turn. So a user's rows differ
    by at most one between two folds, and so do the sizes of the folds; and **a user
    of two or more rows is in every training set**: a model of that user is scored on
    rows that it has not seen, never on a user that it has not seen.

    A user of a single row is in the training sets but one, and is new to the model
    in that one's test fold. Drop such users beforehand to keep new users out.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether to deal each user's rows, and the users, in random order. Without it
        a user's rows are dealt in the order of the table.
    random_state : int, RandomState instance or None, default=None
        Source of the order with `shuffle`; an int gives the same folds at each call.
    user_feature : int or str, default=None
        The column of X that holds users, by position or name, where `split` gets no
        `groups`.

    See Also
    --------
    sklearn.model_selection.GroupKFold : Whole users in the test fold: the score of
        a model on users that it has not seen (cold start).
    skdpspectral.metrics.make_user_scorer : A scorer that ranks within users.

    Notes
    -----
    With metadata routing, `groups` are requested as by `GroupKFold`:
    ``cross_val_score(model, X, y, cv=PerUserKFold(), params={"groups": users})``.

    The scores of a cross-validation on private rows are a release that no estimator
    and no accountant accounts for, and so is the choice of a parameter by them. And
    every fit of a private estimator spends its budget anew, on rows that the folds
    share.

    References
    ----------
    A. Gunawardana and G. Shani (2015), Evaluating recommender systems, in
    Recommender Systems Handbook, 2nd edition, section 8.3.2 (hidden ratings of known
    users against new users).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.model_selection import PerUserKFold
    >>> X = np.zeros((6, 1))
    >>> users = ["ann", "ann", "ann", "bob", "bob", "eve"]
    >>> for train, test in PerUserKFold(n_splits=2).split(X, groups=users):
    ...     print(test)
    [0 2 4]
    [1 3 5]
    """

    # As GroupKFold: cross-validation functions hand groups on without being asked to.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(
        self, n_splits=5, *, shuffle=False, random_state=None, user_feature=None
    ):
        is_integer = isinstance(n_splits, numbers.Integral)
        if not is_integer or isinstance(n_splits, bool) or n_splits < 2:
            raise ValueError(
                f"n_splits must be an integer of at least 2, got {n_splits!r}"
            )
        if not isinstance(shuffle, (bool, np.bool_)):
            raise TypeError(f"shuffle must be True or False, got {shuffle!r}")
        if random_state is not None and not shuffle:
            raise ValueError(
                "random_state has no effect without shuffle: leave it None, or set "
                "shuffle=True"
            )
        self.n_splits = int(n_splits)
        self.shuffle = shuffle
        self.random_state = random_state
        self.user_feature = user_feature

    def split(self, X, y=None, groups=None):
        """Yield the rows of each training and test set.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            The rows; only their number counts, and the column `user_feature` where
            no `groups` are given.
        y : array-like of shape (n_samples,), default=None
            Ignored, present for the signature.
        groups : array-like of shape (n_samples,), default=None
            The user of each row: any hashable ids. They go before `user_feature`.

        Yields
        ------
        train : ndarray of int
            Rows of the training set, ascending.
        test : ndarray of int
            Rows of the test fold, ascending.

        Raises
        ------
        ValueError
            If there are neither `groups` nor a `user_feature`, no such column, a
            missing id, lengths that differ, or less rows than folds.
        TypeError
            If an id is not hashable.
        """
        X, y, groups = indexable(X, y, groups)
        folds = self._folds(X, groups)
        for fold in range(self.n_splits):
            is_test = folds == fold
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object
            Ignored, present for the signature.

        Returns
        -------
        int
            `n_splits`.
        """
        return self.n_splits

    def _folds(self, X, groups):
        """Return the test fold of each row."""
        users, n_users = self._users(X, groups)
        n_rows = len(users)
        if n_rows < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} needs as many rows, but there are {n_rows}: "
                "lower n_splits"
            )
        rows, turns = np.arange(n_rows), np.arange(self.n_splits)
        if self.shuffle:
            rng = check_random_state(self.random_state)
            rows, turns = rng.permutation(n_rows), rng.permutation(self.n_splits)
            users = rng.permutation(n_users)[users]
        by_user = rows[np.argsort(users[rows], kind="stable")]
        folds = np.empty(n_rows, dtype=np.intp)
        # One deal over all users: the next user starts where the last one stopped.
        folds[by_user] = np.resize(turns, n_rows)
        return folds

    def _users(self, X, groups):
        if groups is not None:
            return encode_ids(groups, "groups")
        if self.user_feature is None:
            raise ValueError(
                "PerUserKFold needs the user of each row: pass groups, or name a "
                "column of X by user_feature"
            )
        return encode_ids(read_column(X, self.user_feature, "user_feature"), "users")
