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
from pathlib import Path

import numpy as np
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch, check_random_state, gen_batches

from ._generators import BLOCK_ENTRIES, SEED, SIZE, _haar_rows, _inner, check_given
from ._real import DATA_HOME_VARIABLE, expect, pandas_or_error, read_archive

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
    check_given(
        *("make_ratings", _RATINGS, locals(), ""),
        ("n_ratings_per_user", "n_items"),
    )
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
    ratings += _inner(coef, users, features, items)
    ratings += _inner(hidden_users, users, hidden_items, items)
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
    return _to_pandas(bunch) if as_frame else bunch


def _pairs(counts, n_items, rng):
    """Draw pairs of users and items, in random order.

    The largest values of log weight + Gumbel noise are a sample without replacement.
    """
    log_weights = -_POPULARITY * np.log(rng.permutation(n_items) + 1.0)
    drawn = []
    for batch in gen_batches(len(counts), max(1, BLOCK_ENTRIES // n_items)):
        keys = log_weights + rng.gumbel(size=(batch.stop - batch.start, n_items))
        ranked = np.argsort(-keys, axis=1)
        drawn.append(ranked[np.arange(n_items) < counts[batch, np.newaxis]])
    order = rng.permutation(counts.sum())
    users = np.repeat(np.arange(len(counts)), counts)
    return users[order], np.concatenate(drawn)[order]


def _tastes(n_users, components, rng):
    """Draw U w + b, scaled so that its products with features have mean square 1."""
    coef = (1.0 + rng.standard_normal((n_users, _RANK))) @ components
    places = np.argsort(rng.uniform(size=coef.shape), axis=1)[:, :_SPARSITY]
    rows = np.arange(n_users)[:, np.newaxis]
    coef[rows, places] += rng.standard_normal(places.shape)
    # E |U w|^2 = r (1 + 1), E |b|^2 = sparsity, and a feature has variance 1/3.
    return coef * np.sqrt(3.0 / (2 * _RANK + _SPARSITY))


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


def _to_pandas(bunch):
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


def fetch_movielens(
    variant="ml-100k",
    *,
    data_home=None,
    download_if_missing=False,
    as_frame=False,
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

    Returns
    -------
    sklearn.utils.Bunch
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
          codes for ages and occupations, listed in its README).
        - `DESCR`.

        `movies` and `users` are tables with `as_frame`, and a Bunch of columns
        otherwise. ZIP codes are excluded.

    Raises
    ------
    ValueError
        If the variant is unknown.
    OSError
        If no file exists and `download_if_missing` is not set (FileNotFoundError), the
        download fails, or the file is not the one published by GroupLens, by its
        SHA-256 checksum.
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
    `genre_names`, and for ml-100k `occupation_names`, which `users_occupation` indexes.

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
    if path.suffix == ".npz":
        tables = _prepared(variant, path)
    else:
        _check_sum(variant, path.read_bytes(), path)
        with zipfile.ZipFile(path) as archive:
            tables = _parsed(variant, archive)
    bunch = _bunch(variant, **tables)
    return _to_pandas(bunch) if as_frame else bunch


def _bunch(variant, *, users, items, titles, genres, **ratings):
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


def _find(variant, data_home):
    """Return the file to read, or None."""
    if data_home is None:
        folders = [os.environ.get(DATA_HOME_VARIABLE), get_data_home()]
    else:
        folders = [data_home]
    for folder in filter(None, folders):
        for name in (f"{variant}/{variant}.npz", f"{variant}.zip"):
            if (path := Path(folder).expanduser() / name).is_file():
                return path
    return None


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


def _prepared(variant, path):
    """Return the tables of a prepared archive."""
    older = variant == "ml-100k"
    item = "item" if older else "movie"
    names = ["user_id", f"{item}_id", "rating", "genre_names"]
    names += [f"users_{column}" for column in ("id", "gender", "age", "occupation")]
    names += [f"{item}s_{column}" for column in ("id", "title", "genre")]
    names += ["occupation_names"] if older else []
    raw = read_archive(path, names)
    expect("genre_names", raw["genre_names"].tolist(), GENRES[variant])
    if older:
        codes = raw["users_occupation"].astype(np.int64)
        raw["users_occupation"] = raw["occupation_names"].astype(object)[codes]
    return {
        "user_id": raw["user_id"],
        "item_id": raw[f"{item}_id"],
        "rating": raw["rating"],
        "users": [raw[f"users_{c}"] for c in ("id", "gender", "age", "occupation")],
        "items": raw[f"{item}s_id"],
        "titles": raw[f"{item}s_title"].tolist(),
        "genres": raw[f"{item}s_genre"],
    }
