"""Ratings of items by users: the common form of such tables, and a generator."""

import inspect
import numbers

import numpy as np
from sklearn.utils import Bunch, check_random_state, gen_batches

from ._generators import _check_size, _haar_rows

BLOCK_ENTRIES = 2**20  # pairs of user and item that are drawn at a time: 8 MB


def make_ratings(
    n_users=500,
    n_items=200,
    *,
    n_ratings_per_user=20,
    activity_spread=1.0,
    popularity_exponent=0.9,
    n_item_features=10,
    n_factors=2,
    sparsity=2,
    feature_share=0.5,
    taste_std=1.0,
    user_std=0.4,
    item_std=0.5,
    noise=0.5,
    rating_range=(1, 5),
    as_frame=False,
    return_X_y=False,
    random_state=None,
):
    r"""Draw a table of ratings from a model of low rank plus sparse tastes.

    User u rates item i, of public features :math:`x_i` (d numbers, uniform on
    [-1, 1]) and hidden features :math:`v_i` (r numbers), by

    .. math:: \text{mid-range} + a_u + c_i + \tau \bigl[
        \sqrt{s}\, \langle x_i, \theta_u \rangle +
        \sqrt{1 - s}\, \langle v_i, h_u \rangle \bigr] + \sigma z_{ui},
        \qquad \theta_u \propto U w_u + b_u,

    rounded to an integer and clipped to the range. U (d x r) has orthonormal columns
    and is common to all users, :math:`w_u` is normal with mean 1 and variance 1 in
    each entry (so that users have a taste in common), and :math:`b_u` has `sparsity`
    standard normal entries at random places. All else is normal with mean 0. The
    scales are such that both inner products have mean square 1 over users and items.

    How many ratings a user gives is log-normal, and which items follows the items'
    popularity, a power of their rank; neither depends on taste. No user rates an
    item twice. The rows are in random order.

    Parameters
    ----------
    n_users : int, default=500
        Number of users.
    n_items : int, default=200
        Number of items in the catalog; some may have no rating.
    n_ratings_per_user : int, default=20
        Median of a user's number of ratings before it is cut to `n_items`; between
        1 and `n_items`.
    activity_spread : float, default=1.0
        Standard deviation of the logarithm of that number, at least 0. The default
        is that of MovieLens 1M (0.99; MovieLens 100K has 0.88).
    popularity_exponent : float, default=0.9
        The item of popularity rank j is drawn with weight :math:`j^{-q}`, q >= 0.
        With the default, and as many users, items and ratings as in MovieLens 1M,
        the most popular tenth of the items gets 0.45 of the ratings (0.44 there).
    n_item_features : int, default=10
        Number d of public features.
    n_factors : int, default=2
        Rank r of what users share, at most `n_item_features`.
    sparsity : int, default=2
        Number of features in which a user departs from it, between 0 and
        `n_item_features`.
    feature_share : float, default=0.5
        Share s of the variance of taste that public features explain, in [0, 1].
    taste_std : float, default=1.0
        Scale :math:`\tau` of taste, in units of the rating, at least 0.
    user_std, item_std : float, default=0.4 and 0.5
        Standard deviations of :math:`a_u` and :math:`c_i`, at least 0. In MovieLens
        1M, the means of users have 0.43, and those of movies 0.55 over the ratings.
    noise : float, default=0.5
        Standard deviation :math:`\sigma` of what nothing explains, at least 0.
    rating_range : tuple of (int, int), default=(1, 5)
        Lowest and highest rating.
    as_frame : bool, default=False
        Return tables as pandas objects.
    return_X_y : bool, default=False
        Return `(data, target)` alone.
    random_state : int, RandomState instance or None, default=None
        Source of the draws; an int makes them repeatable.

    Returns
    -------
    sklearn.utils.Bunch or tuple of (data, target)
        As from `fetch_movielens`:

        - `data` (n_ratings, 2), the columns user_id and item_id, and `target`
          (n_ratings,), integers; `frame`, both in one table with `as_frame`, None
          without; `feature_names`, `target_names`.
        - Public: `rating_range`; `item_ids` (n_items,), the catalog, from 1;
          `item_features` (n_items, n_item_features) in that order, with `as_frame`
          indexed by item; `item_feature_names`.
        - The truth: `noise_free` (n_ratings,), the ratings before noise, rounding
          and clipping; `components` (n_factors, n_item_features), the rows U';
          `coef` (n_users, n_item_features), the weights of the features in the
          rating, :math:`\tau \sqrt{s} \theta_u`, in the order of user ids from 1.
        - `DESCR`.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    ImportError
        If `as_frame` is set and pandas is not installed.

    See Also
    --------
    fetch_movielens : Ratings of movies by real users.

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
    _check_sizes(
        n_users, n_items, n_ratings_per_user, n_item_features, n_factors, sparsity
    )
    for name, value in {
        "activity_spread": activity_spread,
        "popularity_exponent": popularity_exponent,
        "taste_std": taste_std,
        "user_std": user_std,
        "item_std": item_std,
        "noise": noise,
    }.items():
        _check_number(name, value)
    _check_number("feature_share", feature_share, highest=1)
    low, high = _check_range(rating_range)
    rng = check_random_state(random_state)

    counts = _activity(n_users, n_ratings_per_user, activity_spread, n_items, rng)
    users, items = _pairs(counts, n_items, popularity_exponent, rng)
    features = rng.uniform(-1.0, 1.0, (n_items, n_item_features))
    components = _haar_rows(n_factors, n_item_features, rng)
    coef = _tastes(n_users, components, sparsity, rng)
    coef *= taste_std * np.sqrt(feature_share)
    hidden_items = rng.standard_normal((n_items, n_factors)) / np.sqrt(n_factors)
    hidden_users = rng.standard_normal((n_users, n_factors))
    hidden_users *= taste_std * np.sqrt(1 - feature_share)

    noise_free = np.full(len(users), (low + high) / 2.0)
    noise_free += (user_std * rng.standard_normal(n_users))[users]
    noise_free += (item_std * rng.standard_normal(n_items))[items]
    noise_free += _inner(coef, users, features, items)
    noise_free += _inner(hidden_users, users, hidden_items, items)
    ratings = noise_free + noise * rng.standard_normal(len(users))
    bunch = ratings_bunch(
        make_ratings,
        user_id=users + 1,
        item_id=items + 1,
        rating=np.clip(np.rint(ratings), low, high).astype(np.int64),
        item_ids=np.arange(1, n_items + 1),
        item_features=features,
        item_feature_names=[f"feature_{j}" for j in range(n_item_features)],
        rating_range=(low, high),
    )
    bunch.update(noise_free=noise_free, components=components, coef=coef)
    bunch = ratings_to_pandas(bunch) if as_frame else bunch
    return (bunch.data, bunch.target) if return_X_y else bunch


def ratings_bunch(maker, *, user_id, item_id, rating, **public):
    """Make the Bunch that all tables of ratings come in.

    Parameters
    ----------
    maker : callable
        The public function; its docstring becomes `DESCR`.
    user_id, item_id, rating : ndarray of shape (n_ratings,)
        The table.
    **public : object
        `item_ids`, `item_features`, `item_feature_names` and `rating_range`.

    Returns
    -------
    sklearn.utils.Bunch
        Of arrays.
    """
    return Bunch(
        data=np.column_stack([user_id, item_id]).astype(np.int64),
        target=np.asarray(rating).astype(np.int64),
        frame=None,
        feature_names=["user_id", "item_id"],
        target_names=["rating"],
        DESCR=inspect.cleandoc(maker.__doc__ or ""),
        **public,
    )


def ratings_to_pandas(bunch):
    """Turn the tables of a Bunch into pandas objects, those of columns included."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    bunch.frame = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    bunch.frame["rating"] = bunch.target
    bunch.data = bunch.frame[bunch.feature_names]
    bunch.target = bunch.frame["rating"]
    bunch.item_features = pd.DataFrame(
        bunch.item_features,
        columns=bunch.item_feature_names,
        index=pd.Index(bunch.item_ids, name="item_id"),
    )
    for table in ("users", "movies"):
        if table in bunch:
            bunch[table] = pd.DataFrame(dict(bunch[table]))
    return bunch


def _activity(n_users, median, spread, n_items, rng):
    """Draw how many ratings each user gives."""
    counts = median * np.exp(spread * rng.standard_normal(n_users))
    return np.clip(np.rint(counts), 1, n_items).astype(np.intp)


def _pairs(counts, n_items, exponent, rng):
    """Draw who rates what, in random order.

    The largest of log weight + Gumbel noise are a sample without repetition.
    """
    log_weights = -exponent * np.log(rng.permutation(n_items) + 1.0)
    drawn = []
    for batch in gen_batches(len(counts), max(1, BLOCK_ENTRIES // n_items)):
        keys = log_weights + rng.gumbel(size=(batch.stop - batch.start, n_items))
        ranked = np.argsort(-keys, axis=1)
        drawn.append(ranked[np.arange(n_items) < counts[batch, np.newaxis]])
    order = rng.permutation(counts.sum())
    users = np.repeat(np.arange(len(counts)), counts)
    return users[order], np.concatenate(drawn)[order]


def _tastes(n_users, components, sparsity, rng):
    """Draw U w + b, scaled so that its products with features have mean square 1."""
    rank = len(components)
    coef = (1.0 + rng.standard_normal((n_users, rank))) @ components
    places = np.argsort(rng.uniform(size=coef.shape), axis=1)[:, :sparsity]
    rows = np.arange(n_users)[:, np.newaxis]
    coef[rows, places] += rng.standard_normal(places.shape)
    # E |U w|^2 = r (1 + 1), E |b|^2 = sparsity, and a feature has variance 1/3.
    return coef * np.sqrt(3.0 / (2 * rank + sparsity))


def _inner(user_rows, users, item_rows, items):
    """Inner products of the pairs' rows, without a copy of all of them at once."""
    products = np.empty(len(users))
    height = max(1, BLOCK_ENTRIES // user_rows.shape[1])
    for batch in gen_batches(len(users), height):
        pair = user_rows[users[batch]], item_rows[items[batch]]
        products[batch] = np.einsum("ij,ij->i", *pair)
    return products


def _check_sizes(
    n_users, n_items, n_ratings_per_user, n_item_features, n_factors, sparsity
):
    _check_size("n_users", n_users)
    _check_size("n_items", n_items)
    _check_size("n_ratings_per_user", n_ratings_per_user)
    _check_size("n_item_features", n_item_features)
    _check_size("n_factors", n_factors)
    if n_ratings_per_user > n_items:
        raise ValueError(
            f"n_ratings_per_user must be at most n_items={n_items}, "
            f"got {n_ratings_per_user}: no user rates an item twice"
        )
    if n_factors > n_item_features:
        raise ValueError(
            f"n_factors must be at most n_item_features={n_item_features}, "
            f"got {n_factors}"
        )
    is_integer = isinstance(sparsity, numbers.Integral)
    if (
        not is_integer
        or isinstance(sparsity, bool)
        or (not 0 <= sparsity <= n_item_features)
    ):
        raise ValueError(
            "sparsity must be an integer between 0 and "
            f"n_item_features={n_item_features}, got {sparsity!r}"
        )


def _check_number(name, value, highest=np.inf):
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or not 0 <= value <= highest:
        limit = "of at least 0" if highest == np.inf else f"between 0 and {highest}"
        raise ValueError(f"{name} must be a finite number {limit}, got {value!r}")


def _check_range(rating_range):
    try:
        low, high = rating_range
    except (TypeError, ValueError):
        low = high = None
    is_range = all(
        isinstance(bound, numbers.Integral) and not isinstance(bound, bool)
        for bound in (low, high)
    )
    if not is_range or not low < high:
        raise ValueError(
            "rating_range must be two integers, the lower one first, "
            f"got {rating_range!r}"
        )
    return int(low), int(high)
