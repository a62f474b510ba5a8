"""Tables of ratings of items by users: a generator, and MovieLens."""

from __future__ import annotations

import hashlib
import http.client
import inspect
import os
import re
import tempfile
import urllib.request
import zipfile
import zlib
from numbers import Real
from pathlib import Path

import numpy as np
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch, check_random_state, gen_batches

from .._base.sklearn_compat import Interval
from ._generators import (
    BLOCK_ENTRIES,
    COUNT,
    SCALE,
    SEED,
    SIZE,
    _haar_rows,
    _inner,
    check_given,
    is_integer,
)
from ._real import DATA_HOME_VARIABLE, expect, pandas_or_error, read_archive

_RATINGS = {
    **dict.fromkeys(("n_users", "n_items", "n_ratings_per_user", "n_factors"), SIZE),
    **{"n_item_features": SIZE, "sparsity": COUNT},
    **dict.fromkeys(("activity_spread", "popularity_exponent", "taste_std"), SCALE),
    **dict.fromkeys(("user_std", "item_std", "noise"), SCALE),
    "feature_share": [Interval(Real, 0, 1, closed="both")],
    **{"as_frame": ["boolean"], "return_X_y": ["boolean"], "random_state": SEED},
}


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

    User u rates item i, with public features :math:`x_i` (d numbers, uniform on [-1,
    1]) and hidden features :math:`v_i` (r numbers), by

    .. math:: \text{mid-range} + a_u + c_i + \tau \bigl[
        \sqrt{s}\, \langle x_i, \theta_u \rangle +
        \sqrt{1 - s}\, \langle v_i, h_u \rangle \bigr] + \sigma z_{ui},
        \qquad \theta_u \propto U w_u + b_u,

    rounded to an integer and clipped to the range. U (d x r) has orthonormal columns
    and is common to all users. The entries of :math:`w_u` are normal with mean 1 and
    variance 1, so users have similar tastes. The vector :math:`b_u` has `sparsity`
    standard normal entries at random positions. All other variables are normal with
    mean 0. Both inner products are scaled to mean square 1 over users and items.

    The number of ratings per user is log-normal. Items are drawn according to their
    popularity, a power of their rank. Neither depends on taste. No user rates an item
    twice. The rows are in random order.

    Parameters
    ----------
    n_users : int, default=500
        Number of users.
    n_items : int, default=200
        Number of items in the catalog. Some may have no rating.
    n_ratings_per_user : int, default=20
        Median of the ratings per user, before capping at `n_items`; from 1 to
        `n_items`.
    activity_spread : float, default=1.0
        Standard deviation of the logarithm of that number, at least 0. The default
        matches MovieLens 1M (0.99; MovieLens 100K has 0.88).
    popularity_exponent : float, default=0.9
        The item of popularity rank j is drawn with weight :math:`j^{-q}`, q >= 0. With
        the default, and as many users, items and ratings as in MovieLens 1M, the most
        popular tenth of the items gets 0.45 of the ratings (0.44 in MovieLens 1M).
    n_item_features : int, default=10
        Number d of public features.
    n_factors : int, default=2
        Rank r of the shared part of the tastes, at most `n_item_features`.
    sparsity : int, default=2
        Number of features in which a user deviates from the shared part, between 0 and
        `n_item_features`.
    feature_share : float, default=0.5
        Share s of the variance of taste that public features explain, in [0, 1].
    taste_std : float, default=1.0
        Scale :math:`\tau` of taste, in units of the rating, at least 0.
    user_std, item_std : float, default=0.4 and 0.5
        Standard deviations of :math:`a_u` and :math:`c_i`, at least 0. In MovieLens 1M,
        user means have 0.43, and movie means have 0.55 over the ratings.
    noise : float, default=0.5
        Standard deviation :math:`\sigma` of the unexplained part, at least 0.
    rating_range : tuple of (int, int), default=(1, 5)
        Lowest and highest rating.
    as_frame : bool, default=False
        Whether to return tables as pandas objects.
    return_X_y : bool, default=False
        Whether to return only `(data, target)`.
    random_state : int, RandomState instance or None, default=None
        Source of randomness. Pass an int for reproducible output.

    Returns
    -------
    sklearn.utils.Bunch or tuple of (data, target)
        In the same format as `fetch_movielens`:

        - `data` (n_ratings, 2), with columns user_id and item_id, and `target`
          (n_ratings,), all integers; `frame`, both in one table with `as_frame`, None
          otherwise; `feature_names`, `target_names`.
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
    check_given(
        *("make_ratings", _RATINGS, locals(), "rating_range"),
        ("n_ratings_per_user", "n_items"),
        ("n_factors", "n_item_features"),
        ("sparsity", "n_item_features"),
    )
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
    """Return the Bunch of a ratings table.

    The docstring of `maker`, a public function, becomes `DESCR`. `public` holds
    `item_ids`, `item_features`, `item_feature_names` and `rating_range`.
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
    pd = pandas_or_error()
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
    """Draw the number of ratings of each user."""
    counts = median * np.exp(spread * rng.standard_normal(n_users))
    return np.clip(np.rint(counts), 1, n_items).astype(np.intp)


def _pairs(counts, n_items, exponent, rng):
    """Draw pairs of users and items, in random order.

    The largest values of log weight + Gumbel noise are a sample without replacement.
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


def _check_range(rating_range):
    try:
        low, high = rating_range
    except (TypeError, ValueError):
        low = high = None
    if not (is_integer(low) and is_integer(high)) or not low < high:
        raise ValueError(
            "rating_range must be two integers, the lower one first, "
            f"got {rating_range!r}"
        )
    return int(low), int(high)


URL = "https://files.grouplens.org/datasets/movielens/{variant}.zip"

# SHA-256 of the zips. GroupLens publishes their MD5 beside them: of ml-100k.zip
# 0e33842e24a9c977be4e0107933c0723, of ml-1m.zip c4d9eecfca2ab87c1945afe126590906.
CHECKSUMS = {
    "ml-100k": "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    "ml-1m": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
}

TIMEOUT = 60  # seconds without an answer

# The genres that the README files list, in the order of their columns.
_NAMES = """Action Adventure Animation Children's Comedy Crime Documentary Drama
Fantasy Film-Noir Horror Musical Mystery Romance Sci-Fi Thriller War Western"""

GENRES_1M = _NAMES.split()
GENRES = {"ml-100k": ["unknown", *GENRES_1M], "ml-1m": GENRES_1M}

# A century maps to [0, 1]: fixed beforehand, not taken from the titles.
FIRST_YEAR, YEARS = 1900, 100
UNKNOWN_YEAR = 0  # no title has it

# What a damaged zip raises, or one of other contents.
_WRONG_CONTENT = (EOFError, KeyError, NotImplementedError, RuntimeError, ValueError)
NOT_THE_ZIP = (*_WRONG_CONTENT, zipfile.BadZipFile, zlib.error)


def fetch_movielens(
    variant="ml-100k",
    *,
    data_home=None,
    download_if_missing=False,
    as_frame=False,
    return_X_y=False,
):
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
        Folder with the official zip as `<variant>.zip`, or with a prepared archive
        `<variant>/<variant>.npz`, which takes precedence. The Notes list its arrays.
        None uses the folder in the environment variable SKDPSPECTRAL_DATA, and then the
        folder of `sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=False
        Whether to download the zip from files.grouplens.org, about 5 or 6 MB, into
        `data_home` (None: scikit-learn's folder) if no file exists.
    as_frame : bool, default=False
        Whether to return tables as pandas objects.
    return_X_y : bool, default=False
        Whether to return only `(data, target)`.

    Returns
    -------
    sklearn.utils.Bunch or tuple of (data, target)
        - `data` (n_ratings, 2) has columns user_id and item_id, and `target`
          (n_ratings,) has the ratings. Both are int64, in the order of the original
          file. With `as_frame`, `frame` has both in one table, otherwise it is None.
          `feature_names` and `target_names` are their names.
        - Public: `rating_range` = (1, 5); `item_ids` (n_items,), the catalog;
          `item_features` (n_items, 19 or 20) in that order, in [0, 1], indexed by item
          with `as_frame`; `item_feature_names`; `movies`, with columns item_id, title
          and year (0 if unknown). The features are 0 or 1 for each genre (18 in ml-1m,
          and also "unknown" in ml-100k), and (year - 1900)/100 for the year in the
          title, or 0.5 if it is unknown (one movie of ml-100k).
        - Private: `users`, with columns user_id, gender, age and occupation (ml-1m has
          codes for ages and occupations, listed in its README); `timestamp`
          (n_ratings,) in seconds since 1970, or None if the archive has none.
        - `DESCR`.

        `movies` and `users` are tables with `as_frame`, and a Bunch of columns
        otherwise. ZIP codes are excluded.

    Raises
    ------
    ValueError
        If the variant is unknown.
    OSError
        If no file exists and `download_if_missing` is not set (FileNotFoundError), the
        download fails, or the file is not the one published by GroupLens. The zip is
        only read if its SHA-256 checksum matches.
    ImportError
        If `as_frame` is set and pandas is not installed.

    See Also
    --------
    make_ratings : Simulated ratings in the same format.
    skdpspectral.model_selection.PerUserKFold : Folds with rows of every user.

    Notes
    -----
    A prepared archive contains the arrays `user_id`, `item_id` (ml-1m: `movie_id`),
    `rating`, `users_id`, `users_gender`, `users_age`, `users_occupation`, `items_id`,
    `items_title`, `items_genre` (ml-1m: `movies_id` and so on), 0 or 1 in columns
    `genre_names`, and for ml-100k `timestamp` and `occupation_names`, which
    `users_occupation` indexes.

    References
    ----------
    F. M. Harper and J. A. Konstan (2015), The MovieLens datasets: history and
    context, ACM Transactions on Interactive Intelligent Systems 5(4), 19,
    doi:10.1145/2827872. GroupLens asks every publication to cite it.
    """
    if variant not in list(CHECKSUMS):
        raise ValueError(f"variant must be one of {list(CHECKSUMS)}, got {variant!r}")
    path = _find(variant, data_home)
    if path is None and download_if_missing:
        path = _download(variant, data_home)
    if path is None:
        raise FileNotFoundError(
            f"There is neither {variant}.zip nor a prepared {variant}/{variant}.npz: "
            f"set download_if_missing=True to fetch {URL.format(variant=variant)}, or "
            "name the folder that holds it with data_home or the environment variable "
            f"{DATA_HOME_VARIABLE}"
        )
    read = _prepared if path.suffix == ".npz" else _zip
    bunch = read(variant, path)
    bunch = ratings_to_pandas(bunch) if as_frame else bunch
    return (bunch.data, bunch.target) if return_X_y else bunch


def _bunch(variant, *, users, items, titles, genres, timestamp=None, **ratings):
    """Return the Bunch of the tables of either source."""
    titles, items = np.array(titles, dtype=object), np.asarray(items, dtype=np.int64)
    years = np.array([_year(title) for title in titles], dtype=np.int64)
    scaled = np.clip((years - FIRST_YEAR) / YEARS, 0.0, 1.0)
    scaled[years == UNKNOWN_YEAR] = 0.5
    bunch = ratings_bunch(
        fetch_movielens,
        **ratings,
        item_ids=items,
        item_features=np.column_stack([genres, scaled]).astype(np.float64),
        item_feature_names=[*GENRES[variant], "year"],
        rating_range=(1, 5),
    )
    bunch.movies = Bunch(item_id=items, title=titles, year=years)
    kinds = {"user_id": np.int64, "gender": object, "age": np.int64}
    kinds["occupation"] = object if variant == "ml-100k" else np.int64
    columns = zip(kinds.items(), users, strict=True)
    bunch.users = Bunch(**{n: np.array(v, dtype=kind) for (n, kind), v in columns})
    if timestamp is not None:
        timestamp = np.asarray(timestamp, dtype=np.int64)
    bunch.timestamp = timestamp
    return bunch


def _year(title):
    """Year of the title's last "(1995)"; a few have a remark behind it."""
    years = re.findall(r"\((\d{4})\)", title)
    return int(years[-1]) if years else UNKNOWN_YEAR


def _find(variant, data_home):
    """Return the file to read, or None."""
    for folder in _folders(data_home):
        for name in (f"{variant}/{variant}.npz", f"{variant}.zip"):
            if (folder / name).is_file():
                return folder / name
    return None


def _folders(data_home):
    if data_home is not None:
        yield Path(data_home).expanduser()
        return
    if os.environ.get(DATA_HOME_VARIABLE):
        yield Path(os.environ[DATA_HOME_VARIABLE]).expanduser()
    yield Path(get_data_home())


def _download(variant, data_home):
    url = URL.format(variant=variant)
    home = None if data_home is None else os.fspath(data_home)
    path = Path(get_data_home(home)) / f"{variant}.zip"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url} could not be downloaded ({error})") from error
    _check_sum(variant, content, url)
    # Under another name until it is whole: a fetch at the same time sees no half.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)
    return path


def _check_sum(variant, content, source):
    found = hashlib.sha256(content).hexdigest()
    if found != CHECKSUMS[variant]:
        raise OSError(
            f"{source} is not the zip that GroupLens published: its SHA-256 is "
            f"{found}, but should be {CHECKSUMS[variant]}; remove the file and fetch "
            "it again"
        )


def _zip(variant, path):
    _check_sum(variant, path.read_bytes(), path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _bunch(variant, **_parsed(variant, archive))
    except NOT_THE_ZIP as error:
        raise OSError(f"{path} is not in the format of {variant} ({error})") from error


def _parsed(variant, archive):
    """Return the tables of the files of a zip."""

    def columns(name, separator, n_fields):
        # The titles have accents, and both README files precede UTF-8.
        text = archive.read(f"{variant}/{name}").decode("latin-1")
        # Not splitlines: a letter of latin-1 may be a line break elsewhere.
        lines = [li.rstrip("\r").split(separator) for li in text.split("\n") if li]
        if any(len(line) != n_fields for line in lines):
            raise ValueError(f"a line of {name} does not have {n_fields} fields")
        return list(zip(*lines, strict=True))

    if variant == "ml-100k":
        ratings = columns("u.data", "\t", 4)
        user_id, age, gender, occupation, _ = columns("u.user", "|", 5)
        items, titles, _, _, _, *genres = columns("u.item", "|", 24)
        genres = np.array(genres, dtype=np.int64).T
    else:
        ratings = columns("ratings.dat", "::", 4)
        user_id, gender, age, occupation, _ = columns("users.dat", "::", 5)
        items, titles, named = columns("movies.dat", "::", 3)
        genres = np.zeros((len(items), len(GENRES_1M)), dtype=np.int64)
        for row, names in enumerate(named):
            genres[row, [GENRES_1M.index(name) for name in names.split("|")]] = 1
    names = ("user_id", "item_id", "rating", "timestamp")
    return {
        **dict(zip(names, ratings, strict=True)),
        "users": (user_id, gender, age, occupation),
        "items": items,
        "titles": titles,
        "genres": genres,
    }


def _prepared(variant, path):
    """Read a prepared archive."""
    older = variant == "ml-100k"
    item = "item" if older else "movie"
    names = ["user_id", f"{item}_id", "rating", "genre_names"]
    names += [f"users_{column}" for column in ("id", "gender", "age", "occupation")]
    names += [f"{item}s_{column}" for column in ("id", "title", "genre")]
    names += ["timestamp", "occupation_names"] if older else []
    raw = read_archive(variant, names, path.parent.parent)
    expect("genre_names", raw["genre_names"].tolist(), GENRES[variant])
    if older:
        codes = raw["users_occupation"].astype(np.int64)
        raw["users_occupation"] = raw["occupation_names"].astype(object)[codes]
    return _bunch(
        variant,
        user_id=raw["user_id"],
        item_id=raw[f"{item}_id"],
        rating=raw["rating"],
        timestamp=raw.get("timestamp"),
        users=[raw[f"users_{c}"] for c in ("id", "gender", "age", "occupation")],
        items=raw[f"{item}s_id"],
        titles=raw[f"{item}s_title"].tolist(),
        genres=raw[f"{item}s_genre"],
    )
