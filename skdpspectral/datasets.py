"""Generators of the papers' models, and real data sets with public bounds."""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import zipfile
from numbers import Integral, Real
from pathlib import Path

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.datasets import fetch_file, get_data_home
from sklearn.utils import Bunch, check_random_state

from ._base.sklearn_compat import Interval, StrOptions
from ._base.strategies import check_arguments

__all__ = [
    "fetch_movielens",
    "load_digits",
    "make_low_rank_sparse_tasks",
    "make_ratings",
    "make_spiked_covariance",
]

SIZE = [Interval(Integral, 1, None, closed="left")]
COUNT = [Interval(Integral, 0, None, closed="left")]
SCALE = [Interval(Real, 0, None, closed="left")]
SEED = ["random_state"]


def _check(maker, constraints, given, *ordered):
    """Check arguments; those without constraints are arrays. Pairs are ordered."""
    check_arguments(maker, constraints, given, tuple({*given} - {*constraints}))
    for name, most in ordered:
        if given[name] > given[most]:
            raise ValueError(
                f"{name} must be at most {most}={given[most]}, got {given[name]}: "
                f"lower {name} or raise {most}"
            )


_SPIKED = {
    **{"n_samples": SIZE, "n_features": SIZE, "n_components": SIZE},
    **{"noise_variance": SCALE, "random_state": SEED},
}


def make_spiked_covariance(
    n_samples=1000,
    n_features=50,
    *,
    n_components=1,
    signal_variance=10.0,
    noise_variance=1.0,
    random_state=None,
):
    r"""Draw rows from the spiked covariance model.

    The rows are independent and :math:`N(0, U \Lambda U' + \sigma^2 I_p)`. The p x r
    matrix U has orthonormal columns and is uniformly distributed (Haar). Memory use is
    proportional to the data, because no p x p matrix is formed.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows n, at least 1.
    n_features : int, default=50
        Number of columns p, at least 1.
    n_components : int, default=1
        Rank r of the signal, between 1 and `n_features`.
    signal_variance : float or array-like of shape (n_components,), default=10.0
        Diagonal of :math:`\Lambda`, the variance that the signal adds along each
        component. Values are positive, and an array must be non-increasing. The
        variance of the rows along component k is `signal_variance[k] + noise_variance`.
    noise_variance : float, default=1.0
        Variance :math:`\sigma^2` common to all directions, at least 0.
    random_state : int, RandomState instance or None, default=None
        Source of randomness. Pass an int for reproducible output.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The sample, with mean zero.
    components : ndarray of shape (n_components, n_features)
        U', with orthonormal rows in the order of `signal_variance`.

    Raises
    ------
    ValueError
        If a size is not a positive integer, `n_components` exceeds `n_features`, or a
        variance is out of range.

    References
    ----------
    I. M. Johnstone (2001), On the distribution of the largest eigenvalue in
    principal components analysis, Annals of Statistics 29(2), section 1.
    F. Mezzadri (2007), How to generate random matrices from the classical compact
    groups, Notices of the AMS 54(5), section 5 (the signs that make QR Haar).

    Examples
    --------
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> X, components = make_spiked_covariance(
    ...     200, 10, n_components=2, signal_variance=[9.0, 4.0], random_state=0
    ... )
    >>> X.shape, components.shape
    ((200, 10), (2, 10))
    """
    given = locals()
    _check("make_spiked_covariance", _SPIKED, given, ("n_components", "n_features"))
    try:
        signal = np.asarray(signal_variance, dtype=np.float64)
    except (TypeError, ValueError):
        signal = np.array(np.nan)
    if signal.ndim == 0:
        signal = np.full(n_components, float(signal))
    fits = signal.shape == (n_components,) and np.isfinite(signal).all()
    if not (fits and (signal > 0).all() and (np.diff(signal) <= 0).all()):
        raise ValueError(
            "signal_variance must be a positive, finite number, or n_components="
            f"{n_components} of them in non-increasing order, got {signal_variance!r}"
        )
    rng = check_random_state(random_state)

    components = _haar_rows(n_components, n_features, rng)
    scores = rng.standard_normal((n_samples, n_components)) * np.sqrt(signal)
    X = rng.standard_normal((n_samples, n_features))
    X *= np.sqrt(float(noise_variance))
    X += scores @ components
    return X, components


def _haar_rows(n_rows, n_columns, rng):
    """Draw orthonormal rows uniformly (QR of a Gaussian, signs of diag R fixed)."""
    q, r = np.linalg.qr(rng.standard_normal((n_columns, n_rows)))
    # LAPACK ties the signs of Q to the data; R with a positive diagonal undoes it.
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(q.T)


_TASKS = {
    **dict.fromkeys(("n_users", "n_samples_per_user", "n_features"), SIZE),
    **{"rank": COUNT, "sparsity": COUNT},
    "row_sparsity": [*SIZE, None],
    "weights": [StrOptions({"normal", "one"})],
    **{"intercept_scale": SCALE, "noise": SCALE},
    **{"shuffle": ["boolean"], "return_coef": ["boolean"], "random_state": SEED},
}


def make_low_rank_sparse_tasks(
    n_users=75,
    n_samples_per_user=100,
    n_features=150,
    *,
    rank=1,
    sparsity=10,
    row_sparsity=None,
    weights="normal",
    intercept_scale=0.0,
    noise=0.0,
    shuffle=False,
    return_coef=False,
    random_state=None,
):
    r"""Draw one regression task per user, with low-rank plus sparse coefficients.

    A row of user i is :math:`x \sim N(0, I_d)` with target

    .. math:: y = \langle x, U w_i + b_i \rangle + a_i + \sigma z,
        \qquad z \sim N(0, 1),

    The d x r matrix U is common to all users, has orthonormal columns and is uniformly
    distributed (Haar). The weights :math:`w_i` and sparse :math:`b_i` belong to the
    user.

    Parameters
    ----------
    n_users : int, default=75
        Number of users t, at least 1.
    n_samples_per_user : int, default=100
        Number of rows of each user, at least 1.
    n_features : int, default=150
        Number of columns d, at least 1.
    rank : int, default=1
        Rank r of the shared part, between 0 (no shared part) and `n_features`.
    sparsity : int, default=10
        Number k of nonzeros of every :math:`b_i`, between 0 and `n_features`. They are
        independent and N(0, 1).
    row_sparsity : int or None, default=None
        With None, the positions of the nonzeros are drawn uniformly and independently
        for each user. With a number :math:`\zeta` of at least 1, no feature is among
        the positions of more than :math:`\zeta` users, which is possible if and only if
        :math:`t k \le d \zeta`. The positions are then dealt from shuffled decks of all
        features, so that the numbers of users of two features differ by at most one.
    weights : {"normal", "one"}, default="normal"
        Distribution of :math:`w_i`: independent N(0, 1), or 1 for all users. "one"
        requires a rank of at most 1, because identical weights span only one direction.
    intercept_scale : float, default=0.0
        Standard deviation of the users' intercepts :math:`a_i`, at least 0. They are
        independent and normal with mean zero.
    noise : float, default=0.0
        Standard deviation :math:`\sigma` of the noise of y, at least 0.
    shuffle : bool, default=False
        Whether to shuffle the rows. By default they are grouped by user, in id order.
    return_coef : bool, default=False
        Whether to also return the parameters of the model.
    random_state : int, RandomState instance or None, default=None
        Source of randomness. Pass an int for reproducible output.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows of all users, n_samples in total.
    y : ndarray of shape (n_samples,)
        The targets.
    users : ndarray of shape (n_samples,)
        The user of each row, an integer from 0 to `n_users - 1`.
    truth : sklearn.utils.Bunch
        Only with `return_coef=True`. Row i of its arrays belongs to user i, except in
        `components`:

        coef : ndarray of shape (n_users, n_features)
            :math:`U w_i + b_i`, or `weights @ components + sparse`.
        components : ndarray of shape (rank, n_features)
            U', with orthonormal rows.
        weights : ndarray of shape (n_users, rank)
            :math:`w_i`.
        sparse : ndarray of shape (n_users, n_features)
            :math:`b_i`, including its zeros.
        intercept : ndarray of shape (n_users,)
            :math:`a_i`.

    Raises
    ------
    ValueError
        If a parameter is out of range or has the wrong type, `row_sparsity` leaves too
        few places for the nonzeros, or `weights="one"` is combined with a rank above 1.

    References
    ----------
    .. [1] S. Pal, P. Varshney, P. Jain, A. G. Thakurta, G. Madan, G. Aggarwal,
       P. Shenoy and G. Srivastava (2023), Sample-efficient personalization: modeling
       user parameters as low rank plus sparse components, appendices A.1.4 and B.1.

    Examples
    --------
    The setting of [1]_, B.1, which does not state the number of users: 75 is the
    largest number that its sparsities allow.

    >>> from skdpspectral.datasets import make_low_rank_sparse_tasks
    >>> X, y, users, truth = make_low_rank_sparse_tasks(
    ...     75, 100, 150, rank=1, sparsity=10, row_sparsity=5,
    ...     return_coef=True, random_state=0,
    ... )
    >>> X.shape, y.shape, truth.coef.shape
    ((7500, 150), (7500,), (75, 150))
    >>> set((truth.sparse != 0).sum(axis=1).tolist())  # non-zeros of a user
    {10}
    >>> set((truth.sparse != 0).sum(axis=0).tolist())  # users of a feature
    {5}
    """
    given, ordered = locals(), [(name, "n_features") for name in ("rank", "sparsity")]
    _check("make_low_rank_sparse_tasks", _TASKS, given, *ordered)
    needed, per_feature = int(n_users) * int(sparsity), row_sparsity or math.inf
    if needed > per_feature * int(n_features):
        raise ValueError(
            f"row_sparsity={row_sparsity} leaves {row_sparsity * n_features} places in "
            f"n_features={n_features} features for the {needed} non-zeros of all "
            f"users: raise row_sparsity to at least {-(-needed // n_features)}, or "
            "lower n_users or sparsity"
        )
    if weights == "one" and rank > 1:
        raise ValueError(
            f'weights="one" needs a rank of at most 1, got rank={rank}: users of the '
            "same weights share one direction"
        )
    rng = check_random_state(random_state)

    truth = Bunch(
        components=_haar_rows(rank, n_features, rng),
        weights=(
            np.ones((n_users, rank))
            if weights == "one"
            else rng.standard_normal((n_users, rank))
        ),
        intercept=intercept_scale * rng.standard_normal(n_users),
        sparse=np.zeros((n_users, n_features)),
    )
    if row_sparsity is None:  # distinct features for each user, uniformly
        keys = rng.random_sample((n_users, n_features))
        places = keys.argpartition(min(sparsity, n_features - 1), axis=1)
        supports = places[:, :sparsity]
    else:
        supports = _dealt(n_users, sparsity, n_features, rng)
    values = rng.standard_normal(supports.shape)
    np.put_along_axis(truth.sparse, supports, values, axis=1)
    truth.coef = truth.weights @ truth.components + truth.sparse

    users = np.repeat(np.arange(n_users), n_samples_per_user)
    X = rng.standard_normal((len(users), n_features))
    y = truth.intercept[users] + np.einsum("ij,ij->i", X, truth.coef[users])
    y += noise * rng.standard_normal(len(users))
    if shuffle:
        order = rng.permutation(len(users))
        X, y, users = X[order], y[order], users[order]
    return (X, y, users, truth) if return_coef else (X, y, users)


def _dealt(n_users, sparsity, n_features, rng):
    """Deal features to users from shuffled decks, each to its end before the next."""
    supports, deck = np.empty((n_users, sparsity), dtype=np.intp), np.arange(0)
    for user in range(n_users):
        hand, deck = deck[:sparsity], deck[sparsity:]
        if (missing := sparsity - len(hand)) > 0:
            deck = rng.permutation(n_features)
            # What the user has comes last: nobody gets a feature twice.
            deck = deck[np.argsort(np.isin(deck, hand), kind="stable")]
            hand, deck = np.concatenate([hand, deck[:missing]]), deck[missing:]
        supports[user] = hand
    return supports


def _ratings_bunch(maker, *, user_id, item_id, rating, **public):
    """Return the Bunch of a ratings table; the docstring of `maker` becomes `DESCR`."""
    return Bunch(
        data=np.column_stack([user_id, item_id]).astype(np.int64),
        target=np.asarray(rating).astype(np.int64),
        frame=None,
        feature_names=["user_id", "item_id"],
        target_names=["rating"],
        rating_range=(1, 5),
        DESCR=inspect.cleandoc(maker.__doc__ or ""),
        **public,
    )


_RATINGS = {
    **dict.fromkeys(("n_users", "n_items", "n_ratings_per_user"), SIZE),
    **{"as_frame": ["boolean"], "random_state": SEED},
}

# Features, rank of the shared tastes, and entries of a user's own; scales as in
# MovieLens 1M, where the log of a user's ratings has deviation 0.99, user means have
# 0.43 and movie means 0.55, and the top tenth of the movies has 0.44 of all ratings.
_N_FEATURES, _RANK, _SPARSITY = 10, 2, 2
_SPREAD, _POPULARITY = 1.0, 0.9
_USER_STD, _ITEM_STD, _NOISE = 0.4, 0.5, 0.5


def make_ratings(
    n_users=500,
    n_items=200,
    *,
    n_ratings_per_user=20,
    as_frame=False,
    random_state=None,
):
    r"""Draw a table of ratings from 1 to 5 from a model of low rank plus sparse tastes.

    User u rates item i, with ten public features :math:`x_i` (uniform on [-1, 1]) and
    two hidden ones :math:`v_i`, by

    .. math:: 3 + a_u + c_i + \sqrt{1/2}\, \langle x_i, \theta_u \rangle +
        \sqrt{1/2}\, \langle v_i, h_u \rangle + z_{ui},
        \qquad \theta_u \propto U w_u + b_u,

    rounded to an integer and clipped to the range. U (10 x 2) has orthonormal columns
    and is common to all users. The entries of :math:`w_u` are normal with mean 1 and
    variance 1, so users have similar tastes. The vector :math:`b_u` has two standard
    normal entries at random positions. All other variables are normal with mean 0:
    :math:`a_u` with standard deviation 0.4, :math:`c_i` and :math:`z_{ui}` with 0.5.
    Both inner products have mean square 1 over users and items.

    The number of ratings per user is log-normal, and the popularity of an item is its
    rank to the power of -0.9, about as in MovieLens 1M. Neither depends on taste. No
    user rates an item twice. The rows are in random order.

    Parameters
    ----------
    n_users : int, default=500
        Number of users.
    n_items : int, default=200
        Number of items in the catalog. Some may have no rating.
    n_ratings_per_user : int, default=20
        Median of the ratings per user, before capping at `n_items`; from 1 to
        `n_items`.
    as_frame : bool, default=False
        Whether to return tables as pandas objects.
    random_state : int, RandomState instance or None, default=None
        Source of randomness. Pass an int for reproducible output.

    Returns
    -------
    sklearn.utils.Bunch
        In the same format as `fetch_movielens`:

        - `data` (n_ratings, 2), with columns user_id and item_id, and `target`
          (n_ratings,), all integers; `frame`, both in one table with `as_frame`, None
          otherwise; `feature_names`, `target_names`.
        - Public: `rating_range` = (1, 5); `item_ids` (n_items,), the catalog, from 1;
          `item_features` (n_items, 10) in that order, with `as_frame` indexed by item;
          `item_feature_names`.
        - `DESCR`.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    ImportError
        If `as_frame` is set and pandas is not installed.

    See Also
    --------
    fetch_movielens : Movie ratings by real users.

    References
    ----------
    Y. Koren, R. Bell and C. Volinsky (2009), Matrix factorization techniques for
    recommender systems, Computer 42(8) (biases of users and items, and factors).
    P. S. Efraimidis and P. G. Spirakis (2006), Weighted random sampling with a
    reservoir, Information Processing Letters 97(5) (items without repetition).

    Examples
    --------
    >>> from skdpspectral.datasets import make_ratings
    >>> ratings = make_ratings(100, 50, n_ratings_per_user=5, random_state=0)
    >>> ratings.data.shape[1], ratings.item_features.shape
    (2, (50, 10))
    >>> int(ratings.target.min()), int(ratings.target.max())
    (1, 5)
    """
    given = locals()
    _check("make_ratings", _RATINGS, given, ("n_ratings_per_user", "n_items"))
    rng = check_random_state(random_state)
    counts = n_ratings_per_user * np.exp(_SPREAD * rng.standard_normal(n_users))
    counts = np.clip(np.rint(counts), 1, n_items).astype(np.intp)
    users, items = _pairs(counts, n_items, rng)
    features = rng.uniform(-1.0, 1.0, (n_items, _N_FEATURES))
    coef = _tastes(n_users, _haar_rows(_RANK, _N_FEATURES, rng), rng)
    coef *= np.sqrt(0.5)
    hidden_items = rng.standard_normal((n_items, _RANK)) / np.sqrt(_RANK)
    hidden_users = rng.standard_normal((n_users, _RANK))
    hidden_users *= np.sqrt(0.5)

    ratings = np.full(len(users), 3.0)
    ratings += (_USER_STD * rng.standard_normal(n_users))[users]
    ratings += (_ITEM_STD * rng.standard_normal(n_items))[items]
    for of_users, of_items in ((coef, features), (hidden_users, hidden_items)):
        ratings += np.einsum("ij,ij->i", of_users[users], of_items[items])
    ratings = ratings + _NOISE * rng.standard_normal(len(users))
    bunch = _ratings_bunch(
        make_ratings,
        user_id=users + 1,
        item_id=items + 1,
        rating=np.clip(np.rint(ratings), 1, 5),
        item_ids=np.arange(1, n_items + 1),
        item_features=features,
        item_feature_names=[f"feature_{j}" for j in range(_N_FEATURES)],
    )
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "as_frame=True needs pandas: pip install pandas"
            ) from error
        names, rows = bunch.feature_names, pd.Index(bunch.item_ids, name="item_id")
        bunch.frame = pd.DataFrame(bunch.data, columns=names).assign(
            rating=bunch.target
        )
        bunch.data, bunch.target = bunch.frame[names], bunch.frame["rating"]
        columns = bunch.item_feature_names
        bunch.item_features = pd.DataFrame(features, columns=columns, index=rows)
    return bunch


def _pairs(counts, n_items, rng):
    """Draw pairs of users and items, in random order."""
    log_weights = -_POPULARITY * np.log(rng.permutation(n_items) + 1.0)
    keys = log_weights + rng.gumbel(size=(len(counts), n_items))
    # The largest values are a sample without replacement (the Gumbel trick).
    items = np.argsort(-keys, axis=1)[np.arange(n_items) < counts[:, np.newaxis]]
    order = rng.permutation(counts.sum())
    return np.repeat(np.arange(len(counts)), counts)[order], items[order]


def _tastes(n_users, components, rng):
    """Draw U w + b, scaled so that its products with features have mean square 1."""
    coef = (1.0 + rng.standard_normal((n_users, _RANK))) @ components
    places = np.argsort(rng.uniform(size=coef.shape), axis=1)[:, :_SPARSITY]
    rows = np.arange(n_users)[:, np.newaxis]
    coef[rows, places] += rng.standard_normal(places.shape)
    # E |U w|^2 = r (1 + 1), E |b|^2 = sparsity, and a feature has variance 1/3.
    return coef * np.sqrt(3.0 / (2 * _RANK + _SPARSITY))


def load_digits():
    """Load scikit-learn's digits with their public bounds, 0 to 16.

    The 1,797 images have 8 x 8 pixels. Each pixel counts the dark points in a 4 x 4
    block of a 32 x 32 bitmap, which gives the bounds. No file is needed.

    Returns
    -------
    sklearn.utils.Bunch
        As from `sklearn.datasets.load_digits`, with `bounds` = (0.0, 16.0).

    References
    ----------
    E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI
    Machine Learning Repository, doi:10.24432/C50P49.
    """
    bunch = sklearn_datasets.load_digits()
    bunch.bounds = (0.0, 16.0)
    return bunch


URL = "https://files.grouplens.org/datasets/movielens/{variant}.zip"

# SHA-256 of the zips. GroupLens publishes their MD5 beside them: of ml-100k.zip
# 0e33842e24a9c977be4e0107933c0723, of ml-1m.zip c4d9eecfca2ab87c1945afe126590906.
CHECKSUMS = {
    "ml-100k": "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    "ml-1m": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
}

# The genres that the README files list, in the order of their columns.
_NAMES = """Action Adventure Animation Children's Comedy Crime Documentary Drama
Fantasy Film-Noir Horror Musical Mystery Romance Sci-Fi Thriller War Western"""

GENRES_1M = _NAMES.split()
GENRES = {"ml-100k": ["unknown", *GENRES_1M], "ml-1m": GENRES_1M}

# A century maps to [0, 1]: fixed beforehand, not taken from the titles.
FIRST_YEAR, YEARS = 1900, 100
UNKNOWN_YEAR = 0  # no title has it


def fetch_movielens(variant="ml-100k", *, data_home=None, download_if_missing=False):
    """Load MovieLens: ratings of movies, 1 to 5, by users of a web site.

    =======  =========  =====  ======  ============
    variant    ratings  users  movies  movies rated
    =======  =========  =====  ======  ============
    ml-100k    100,000    943   1,682         1,682
    ml-1m    1,000,209  6,040   3,883         3,706
    =======  =========  =====  ======  ============

    Each user has at least 20 ratings, and rates a movie at most once. ml-100k was
    collected from September 1997 to April 1998. The users of ml-1m joined in 2000.

    **Public** are the rating scale 1 to 5 and the catalog of movies with titles, years
    and genres, which reveal nobody's data. **Private** are the identity and number of
    users, their age, gender and occupation, and who rated which movie, when and how.
    Everything computed from private values is private too, such as the most rated
    movies or the mean rating. Note that the catalog of ml-100k only contains rated
    movies, so it was taken from the ratings. The catalog of ml-1m has 177 movies
    without a rating.

    Terms: for research; no redistribution and no commercial use without permission of
    GroupLens. The README in the zip contains the full terms. Nothing is downloaded
    unless `download_if_missing` is set.

    Parameters
    ----------
    variant : {"ml-100k", "ml-1m"}, default="ml-100k"
        Data set to load.
    data_home : str or path-like, default=None
        Folder with the official zip as `<variant>.zip`. None uses the folder of
        `sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=False
        Whether to download the zip from files.grouplens.org, about 5 or 6 MB, into
        that folder if it is not there.

    Returns
    -------
    sklearn.utils.Bunch
        - `data` (n_ratings, 2) has columns user_id and item_id, and `target`
          (n_ratings,) has the ratings. Both are int64, in the order of the original
          file. `feature_names` and `target_names` are their names.
        - Public: `rating_range` = (1, 5); `item_ids` (n_items,), the catalog;
          `item_features` (n_items, 19 or 20) in that order, in [0, 1];
          `item_feature_names`; `movies`, with columns item_id, title and year (0 if
          unknown). The features are 0 or 1 for each genre (18 in ml-1m, and also
          "unknown" in ml-100k), and (year - 1900)/100 for the year in the title, or
          0.5 if it is unknown (one movie of ml-100k).
        - Private: `users`, with columns user_id, gender, age and occupation (ml-1m has
          codes for ages and occupations, listed in its README). No ZIP codes.
        - `DESCR`.

    Raises
    ------
    ValueError
        If the variant is unknown.
    OSError
        If no file exists and `download_if_missing` is not set (FileNotFoundError), the
        download fails, or the file is not the one published by GroupLens, by its
        SHA-256 checksum.

    See Also
    --------
    make_ratings : Simulated ratings in the same format.
    skdpspectral.model_selection.PrivateSplit : Folds with rows of every user.

    References
    ----------
    F. M. Harper and J. A. Konstan (2015), The MovieLens datasets: history and
    context, ACM Transactions on Interactive Intelligent Systems 5(4), 19,
    doi:10.1145/2827872. GroupLens asks every publication to cite it.
    """
    if variant not in list(CHECKSUMS):
        raise ValueError(f"variant must be one of {list(CHECKSUMS)}, got {variant!r}")
    home = get_data_home() if data_home is None else data_home
    path, url = Path(home).expanduser() / f"{variant}.zip", URL.format(variant=variant)
    if download_if_missing and not path.is_file():
        home = get_data_home(str(path.parent))
        path = fetch_file(url, home, path.name, CHECKSUMS[variant])
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}: set download_if_missing=True to fetch {url}, or name "
            "the folder that holds it with data_home"
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != CHECKSUMS[variant]:
        raise OSError(
            f"{path} is not the zip that GroupLens published: its SHA-256 is {found}, "
            f"but should be {CHECKSUMS[variant]}; remove the file and fetch it again"
        )
    with zipfile.ZipFile(path) as archive:
        return _movielens_bunch(variant, **_parsed(variant, archive))


def _movielens_bunch(variant, *, users, items, titles, genres, **ratings):
    """Return the Bunch of the tables of either source."""
    titles, items = np.array(titles, dtype=object), np.asarray(items, dtype=np.int64)
    years = np.array([_year(title) for title in titles], dtype=np.int64)
    scaled = np.clip((years - FIRST_YEAR) / YEARS, 0.0, 1.0)
    scaled[years == UNKNOWN_YEAR] = 0.5
    bunch = _ratings_bunch(
        fetch_movielens,
        **ratings,
        item_ids=items,
        item_features=np.column_stack([genres, scaled]).astype(np.float64),
        item_feature_names=[*GENRES[variant], "year"],
    )
    bunch.movies = Bunch(item_id=items, title=titles, year=years)
    kinds = {"user_id": np.int64, "gender": object, "age": np.int64}
    kinds["occupation"] = object if variant == "ml-100k" else np.int64
    columns = zip(kinds.items(), users, strict=True)
    bunch.users = Bunch(**{n: np.array(v, dtype=kind) for (n, kind), v in columns})
    return bunch


def _year(title):
    """Year of the title's last "(1995)"; a few have a remark behind it."""
    years = re.findall(r"\((\d{4})\)", title)
    return int(years[-1]) if years else UNKNOWN_YEAR


def _parsed(variant, archive):
    """Return the tables of the files of a zip."""

    def columns(name, separator):
        # The titles have accents, and both README files precede UTF-8.
        text = archive.read(f"{variant}/{name}").decode("latin-1")
        # Not splitlines: a letter of latin-1 may be a line break elsewhere.
        lines = (line.split(separator) for line in text.split("\n") if line)
        return list(zip(*lines, strict=True))

    if variant == "ml-100k":
        ratings = columns("u.data", "\t")
        user_id, age, gender, occupation, _ = columns("u.user", "|")
        items, titles, _, _, _, *genres = columns("u.item", "|")
        genres = np.array(genres, dtype=np.int64).T
    else:
        ratings = columns("ratings.dat", "::")
        user_id, gender, age, occupation, _ = columns("users.dat", "::")
        items, titles, named = columns("movies.dat", "::")
        genres = np.zeros((len(items), len(GENRES_1M)), dtype=np.int64)
        for row, names in enumerate(named):
            genres[row, [GENRES_1M.index(name) for name in names.split("|")]] = 1
    names = ("user_id", "item_id", "rating")
    return {
        **dict(zip(names, ratings, strict=False)),
        "users": (user_id, gender, age, occupation),
        "items": items,
        "titles": titles,
        "genres": genres,
    }
