"""Folds by positions, or user by user, that look at no other value."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_consistent_length, check_random_state

from .._release.noise import Coins
from .._tables import columns
from ..accounting import PrivacyLeakWarning
from ..accounting._errors import warn
from ..mechanisms import check_count

# Of the rows, held out by a single split.
_SHARE = 0.25


class PrivateSplit(BaseCrossValidator):
    r"""Cross-validation folds that preserve the privacy guarantees of fits and scores.

    A guarantee compares two tables that differ in one row or one user. It holds for a
    fit on a fold if the folds of both tables also differ only in that row or user.
    Therefore each row is assigned by its position or, with `user_feature`, each user's
    rows are assigned independently of other users. Labels have no effect.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds. With 1, a single part with a quarter of the rows is held out.
    user_feature : int or str or None, default=None
        Position or name of the column of X with user ids. `groups` of ``split`` are
        used in the same way. With neither, rows are assigned regardless of users.
    whole_users : bool or None, default=None
        Required with users, and None without. With True, for users who are replaced,
        all rows of a user are in one fold, and folds have equal numbers of users. Fits
        of one row of each user need it (:ref:`rows_per_person`). With False, for users
        who join or leave, those with several rows are in every training set.
    random_state : int, RandomState instance or None, default=None
        Source of the order, which is public. An int gives the same folds at each call.
        The order of `whole_users` must be secret: leave it as None, except in tests.

    See Also
    --------
    PrivateSearchCV : Parameter search under a single guarantee.

    Notes
    -----
    Use this class instead of a stratified split. Stratified folds break the accounting:
    if one label changes, its row and all later rows of both classes are assigned to
    other folds, so that whole folds differ. Here a class of share p has a share of
    about :math:`p \pm \sqrt{p (1 - p) k / n}` in each of k folds of n rows. This is
    close enough except for classes with few rows.

    Folds with users are for guarantees per user alone: where single rows are protected,
    a row that changes its user would move later rows of both. The sizes of these folds
    are as private as the rows. Rows with the same id belong to the same user, and are
    assigned in the order of the table.

    Ids are integers or strings. A column of floats may only contain integers below
    :math:`2^{53}`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.model_selection import PrivateSplit
    >>> X = np.zeros((8, 1))
    >>> for train, test in PrivateSplit(2, random_state=0).split(X):
    ...     print(test)
    [1 3 5 6]
    [0 2 4 7]
    """

    # As GroupKFold: cross-validation functions hand groups on without being asked to.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        n_splits: int = 5,
        *,
        user_feature: int | str | None = None,
        whole_users: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_splits = check_count("n_splits", n_splits)
        if user_feature is not None:
            columns.check_feature(user_feature, "user_feature")
        check_random_state(random_state)
        self.user_feature, self.whole_users = user_feature, whole_users
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the positions of training and test rows of each fold.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_features)
            Rows, in memory.
        y : object
            Ignored, present for API consistency.
        groups : array-like of shape (n_samples,) or None, default=None
            Users of the rows, used without a `user_feature`.

        Yields
        ------
        train, test : ndarray of int
            Positions of rows.
        """
        folds = self._folds(X, groups)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object
            Ignored, present for API consistency.

        Returns
        -------
        int
            `n_splits`.
        """
        return self.n_splits

    def _folds(self, X: Any, groups: Any) -> np.ndarray:
        """Return the test fold of each row."""
        n_rows = columns.n_rows_in_memory(X)
        by_user = self.user_feature is not None or groups is not None
        if not isinstance(self.whole_users, bool if by_user else type(None)):
            raise ValueError(
                "whole_users must be True or False with users, and None without: True "
                "where users are replaced, as in fits of one row of each user, False "
                "where they join or leave"
            )
        if by_user:
            return self._folds_of_users(X, groups)
        return self._dealt(check_random_state(self.random_state).permutation(n_rows))

    def _dealt(self, order: np.ndarray) -> np.ndarray:
        """Return the fold of each unit, by its rank in an order."""
        n_units, folds = len(order), np.empty(len(order), dtype=np.intp)
        if n_units < (least := max(self.n_splits, 2)):
            raise ValueError(
                f"n_splits={self.n_splits} needs {least} rows or more, or as many "
                f"users, but n_samples={n_units}"
            )
        folds[order] = np.arange(n_units) % self.n_splits
        if self.n_splits == 1:
            folds[order] = np.arange(n_units) >= max(round(_SHARE * n_units), 1)
        return folds

    def _folds_of_users(self, X: Any, groups: Any) -> np.ndarray:
        """Return the test fold of each row, by the user and the user's rows alone."""
        key = check_random_state(self.random_state).bytes(16)
        ids, name = groups, "groups"
        if (feature := self.user_feature) is not None:
            ids, name = columns.read_column(X, feature, "user_feature"), "user_feature"
        check_consistent_length(X, ids)
        codes, places = user_places(ids, name, key)
        n_users, start = len(places), places[codes]
        if self.whole_users:
            if self.random_state is not None:
                warn(
                    "random_state is given: the order of users can be reproduced, so "
                    "that folds have no guarantee; leave random_state=None",
                    PrivacyLeakWarning,
                )
            return self._dealt(Coins(self.random_state).secret_order(n_users))[codes]
        counts = np.bincount(codes, minlength=n_users)
        by_user = np.argsort(codes, kind="stable")
        number, k = np.empty(len(codes), dtype=np.intp), self.n_splits
        number[by_user] = np.arange(len(codes)) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        if k > 1:
            return (number + np.floor(start * k).astype(np.intp)) % k
        passed = np.floor((number + 1) * _SHARE + start)
        return np.where(passed > np.floor(number * _SHARE + start), 0, 1)


def user_places(column: Any, name: str, key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's user as a number, and each user's place in [0, 1).

    A place depends only on the user's id and the key; errors name the ids.
    """
    ids = columns.id_array(column, name)
    codes, firsts = columns.codes_and_rows(ids)
    return codes, np.array([_place(user, key) for user in ids[firsts].tolist()])


def _place(user: int | str, key: bytes) -> float:
    """Return a user's starting point in [0, 1), from id and key."""
    text = f"str {user}" if isinstance(user, str) else f"number {user}"
    coded = text.encode(errors="surrogatepass")
    digest = hashlib.blake2b(coded, digest_size=8, key=key).digest()
    return math.ldexp(int.from_bytes(digest, "big") >> 11, -53)
