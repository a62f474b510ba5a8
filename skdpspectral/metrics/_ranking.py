"""Rankings within users: NDCG and recall.

Rows are sorted by user and score once, and every sum over a user is a sum over a
segment: no loop over users.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_array

from .._tables.ids import encode_ids
from ..mechanisms import check_count, check_real


def user_ndcg_score(y_true, y_score, users, *, k=10):
    r"""Mean over users of the normalized discounted cumulative gain at k.

    Each user's rows are ranked by `y_score`. Let :math:`g_{(j)}` be the value of
    `y_true` at rank j, starting from 1. The gain of a user is

    .. math:: \mathrm{DCG@}k = \sum_{j \le k} g_{(j)} / \log_2(1 + j),

    and the score is this gain divided by the largest gain over all orders of the user's
    rows. Tied rows share the mean of their gains. This is `sklearn.metrics.ndcg_score`
    per user, for any numbers of rows. Gains are linear, as in Järvelin and Kekäläinen
    (2002) and in scikit-learn. For exponential gains, pass ``2.0**y_true - 1``.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Gains, such as ratings: finite and at least 0.
    y_score : array-like of shape (n_rows,)
        Predicted ratings, or any finite scores that are higher for better rows.
    users : array-like of shape (n_rows,)
        Hashable user id of each row.
    k : int or None, default=10
        Number of top ranks to use, at least 1. None uses all.

    Returns
    -------
    float
        Score between 0 and 1. Users whose gains are all 0 are ignored. If no user
        remains, NaN is returned with an `UndefinedMetricWarning`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range, lengths differ, or an id is not hashable.

    See Also
    --------
    make_private_scorer : Makes a scorer of it for cross-validation and searches.
    sklearn.metrics.ndcg_score : NDCG of a matrix with one row per user.

    Warnings
    --------
    The score is not private. For private users it is a release that no ledger records,
    and so is a parameter chosen by it. Use `make_private_scorer` for private scores.

    Notes
    -----
    Only the given rows of a user are ranked, usually the held-out rows, rather than the
    whole catalog. A user with one row, or with equal gains, scores 1 under every order.
    Linear gains of ratings from 1 to 5 give high scores to any order: in five folds of
    MovieLens 1M, a constant prediction scores 0.83, and item means score 0.91. Compare
    models on the same rows.

    References
    ----------
    K. Järvelin and J. Kekäläinen (2002), Cumulated gain-based evaluation of IR
    techniques, ACM Transactions on Information Systems 20(4), 422-446.
    F. McSherry and M. Najork (2008), Computing information retrieval performance
    measures efficiently in the presence of tied scores, ECIR (the mean over ties).

    Examples
    --------
    >>> from skdpspectral.metrics import user_ndcg_score
    >>> users = ["ann", "ann", "bob", "bob"]
    >>> round(user_ndcg_score([5, 1, 4, 2], [0.9, 0.1, 0.2, 0.8], users), 3)
    0.93
    """
    gains, scores, codes, n_users = _check_rows(y_true, y_score, users)
    if gains.min() < 0:
        raise ValueError("y_true must not be negative: gains are at least 0")
    found = ndcg_of_users(gains, scores, codes, n_users, k)
    return _mean_over_users(found, "user_ndcg_score: all gains are 0")


def user_recall_score(y_true, y_score, users, *, k=10, relevant=4):
    r"""Mean over users of the share of relevant rows among the top k.

    A row is relevant if `y_true` is at least `relevant`. Each user's rows are ranked by
    `y_score`, and the score of a user is

    .. math:: \mathrm{recall@}k =
        \#\{\text{relevant rows of rank} \le k\} / \#\{\text{relevant rows}\}.

    If tied rows straddle rank k, the score is the mean over their orders.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Finite ratings.
    y_score : array-like of shape (n_rows,)
        Predicted ratings, or any finite scores that are higher for better rows.
    users : array-like of shape (n_rows,)
        Hashable user id of each row.
    k : int or None, default=10
        Number of top ranks to use, at least 1. A user with more than k relevant rows
        cannot reach a score of 1. None uses all ranks.
    relevant : float, default=4
        Smallest relevant rating, finite. The default suits a scale from 1 to 5.

    Returns
    -------
    float
        Score between 0 and 1. Users without relevant rows are ignored. If no user
        remains, NaN is returned with an `UndefinedMetricWarning`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range, lengths differ, or an id is not hashable.

    See Also
    --------
    make_private_scorer : Makes a scorer of it for cross-validation and searches.

    Warnings
    --------
    The score is not private. For private users it is a release that no ledger records,
    and so is a parameter chosen by it. Use `make_private_scorer` for private scores.

    Notes
    -----
    Only the given rows of a user are ranked, usually the held-out rows, rather than the
    whole catalog. A user with at most k rows scores 1 under every order.

    References
    ----------
    J. L. Herlocker, J. A. Konstan, L. G. Terveen and J. T. Riedl (2004), Evaluating
    collaborative filtering recommender systems, ACM Transactions on Information
    Systems 22(1), section 4.1.2.

    Examples
    --------
    >>> from skdpspectral.metrics import user_recall_score
    >>> users = ["ann", "ann", "ann", "bob", "bob"]
    >>> user_recall_score([5, 4, 1, 5, 2], [9, 2, 5, 7, 8], users, k=1)
    0.25
    """
    ratings, scores, codes, n_users = _check_rows(y_true, y_score, users)
    found = recall_of_users(ratings, scores, codes, n_users, k, relevant)
    return _mean_over_users(found, "user_recall_score: no row is relevant")


def ndcg_of_users(gains, scores, codes, n_users, k):
    """Return the NDCG of each user, NaN for those without a gain."""
    discount = 1.0 / np.log2(2.0 + np.arange(check_k(k, len(gains))))
    gained = _ranked_sums(gains, scores, codes, n_users, discount)
    return _shares(gained, _ranked_sums(gains, gains, codes, n_users, discount))


def recall_of_users(ratings, scores, codes, n_users, k, relevant):
    """Return the recall of each user, NaN for those without a relevant row."""
    wanted = (ratings >= check_relevant(relevant)).astype(np.float64)
    counted = np.ones(check_k(k, len(wanted)))
    found = _ranked_sums(wanted, scores, codes, n_users, counted)
    return _shares(found, np.bincount(codes, wanted, minlength=n_users))


def _ranked_sums(gains, scores, codes, n_users, weights):
    """Sum weight times gain over each user's leading ranks, ties averaged.

    Rows have gains, and scores that they are ranked by, largest first; `codes` are
    their users, of whom each has a row. Ranks beyond `weights` weigh nothing.
    """
    order = np.lexsort((-scores, codes))
    gains, scores, codes = gains[order], scores[order], codes[order]
    counts = np.bincount(codes, minlength=n_users)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    weight = np.append(weights, 0.0)[np.minimum(rank, len(weights))]
    starts_tie = (rank == 0) | (np.diff(scores, prepend=np.nan) != 0)
    starts = np.flatnonzero(starts_tie)
    sizes = np.diff(starts, append=len(codes))
    mean_gain = np.add.reduceat(gains, starts) / sizes
    tie_sums = mean_gain * np.add.reduceat(weight, starts)
    return np.bincount(codes[starts], tie_sums, minlength=n_users)


def _shares(found, best):
    """Return quotients, NaN of 0; a perfect ranking may pass 1 by rounding."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(best > 0.0, np.minimum(found / best, 1.0), np.nan)


def _mean_over_users(shares, undefined):
    defined = shares[~np.isnan(shares)]
    if len(defined):
        return float(defined.mean())
    message = f"{undefined}, so no user has a score; it is set to NaN"
    warnings.warn(message, UndefinedMetricWarning, stacklevel=3)
    return float("nan")


def _check_rows(y_true, y_score, users):
    y_true = _numbers(y_true, "y_true")
    y_score = _numbers(y_score, "y_score")
    codes, n_users = encode_ids(users, "users")
    lengths = [len(y_true), len(y_score), len(codes)]
    if len(set(lengths)) > 1 or lengths[0] == 0:
        raise ValueError(
            "y_true, y_score and users must have one entry per row, and at least one, "
            f"got lengths {lengths}"
        )
    return y_true, y_score, codes, n_users


def _numbers(values, name):
    """Return finite numbers in one dimension; errors quote none of them."""
    try:
        values = check_array(
            values,
            dtype=np.float64,
            ensure_2d=False,
            ensure_min_samples=0,
            input_name=name,
        )
    except (TypeError, ValueError) as error:
        if str(error).startswith(f"Input {name} contains"):
            raise
        raise ValueError(f"{name} must contain one number per row") from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must contain one number per row, got {values.shape}")
    return values


def check_k(k, most: int) -> int:
    """Return how many ranks can count."""
    return most if k is None else min(check_count("k", k), most)


def check_relevant(relevant) -> float:
    """Return the least relevant rating."""
    if not np.isfinite(check_real("relevant", relevant)):
        raise ValueError(f"relevant must be a finite number, got {relevant!r}")
    return relevant
