"""Loaders of data sets that only examples and benchmarks use, with public bounds.

Archives are in folders of the folder that `data_home` or SKDPSPECTRAL_DATA names. Every
bound and column is fixed here, from the data's documentation: taken from the rows
themselves, it would be a release that nothing accounts for.
"""

import inspect
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from skdpspectral import datasets

DATA_HOME_VARIABLE = "SKDPSPECTRAL_DATA"

# What numpy raises on a file of another kind, a damaged one, or a missing array.
_WRONG = (AttributeError, EOFError, KeyError, TypeError, ValueError)
NOT_THE_ARCHIVE = (*_WRONG, zipfile.BadZipFile, zlib.error)


def read_archive(name, arrays, data_home=None):
    """Return the named arrays of a data set's archive; errors explain its folder."""
    root = os.environ.get(DATA_HOME_VARIABLE) if data_home is None else data_home
    path = Path(root or "").expanduser() / name / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}: pass data_home, or set the environment variable "
            f"{DATA_HOME_VARIABLE}, to a folder that holds {name}/{name}.npz"
        )
    try:
        # A pickle could run code: only plain arrays are read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {array: archive[array] for array in arrays}
    except NOT_THE_ARCHIVE as error:
        raise OSError(
            f"{path} is not the archive that the loader's docstring describes "
            f"({error}): build it again from the original data"
        ) from error


def expect(what, found, expected):
    """Refuse an archive that does not fit the public bounds."""
    if found != expected:
        raise OSError(
            f"The archive's {what}: found {found}, but the public bounds are for "
            f"{expected}: build it again from the original data"
        )


def pandas_or_error():
    """Return pandas; errors say how to install it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    return pd


def fetch_movielens(variant="ml-100k"):
    """Load MovieLens as the package does, or from an archive of arrays if there is one.

    The archive has `user_id`, `item_id` (ml-1m: `movie_id`), `rating`, `users_id`,
    `users_gender`, `users_age`, `users_occupation`, `items_id`, `items_title`,
    `items_genre` (ml-1m: `movies_id` and so on), 0 or 1 in columns `genre_names`, and
    for ml-100k `occupation_names`, which `users_occupation` indexes.
    """
    older = variant == "ml-100k"
    item = "item" if older else "movie"
    names = ["user_id", f"{item}_id", "rating", "genre_names"]
    names += [f"users_{column}" for column in ("id", "gender", "age", "occupation")]
    names += [f"{item}s_{column}" for column in ("id", "title", "genre")]
    names += ["occupation_names"] if older else []
    try:
        raw = read_archive(variant, names)
    except FileNotFoundError:
        return datasets.fetch_movielens(variant)
    expect("genre_names", raw["genre_names"].tolist(), datasets.GENRES[variant])
    if older:
        codes = raw["users_occupation"].astype(np.int64)
        raw["users_occupation"] = raw["occupation_names"].astype(object)[codes]
    return datasets._movielens_bunch(
        variant,
        user_id=raw["user_id"],
        item_id=raw[f"{item}_id"],
        rating=raw["rating"],
        users=[raw[f"users_{c}"] for c in ("id", "gender", "age", "occupation")],
        items=raw[f"{item}s_id"],
        titles=raw[f"{item}s_title"].tolist(),
        genres=raw[f"{item}s_genre"],
    )


MISSING_LEVEL, MISSING_RATING = 255, 9900

KDD_COUNTS = """duration src_bytes dst_bytes land wrong_fragment urgent hot
num_failed_logins logged_in num_compromised root_shell su_attempted num_root
num_file_creations num_shells num_access_files num_outbound_cmds is_host_login
is_guest_login count srv_count dst_host_count dst_host_srv_count"""

KDD_FLAGS = "land logged_in root_shell su_attempted is_host_login is_guest_login"

KDD_CAPS = {
    # The documentation sets no maximum for how often an event happens within one
    # connection: ten times or more count alike.
    **dict.fromkeys(KDD_COUNTS.split(), 10),
    **dict.fromkeys(KDD_FLAGS.split(), 1),  # described as "1 if ..., 0 otherwise"
    "duration": 86_400,  # seconds: the traffic was recorded day by day
    # The largest length of an IP datagram; longer transfers count alike.
    **dict.fromkeys(("src_bytes", "dst_bytes"), 65_535),
    # Full scale of the nine-bit counters of a two-second window, and of the
    # eight-bit counters of a window of connections.
    **dict.fromkeys(("count", "srv_count"), 511),
    **dict.fromkeys(("dst_host_count", "dst_host_srv_count"), 255),
}

# The domains that the headers of the NSL-KDD edition declare. They cover the full
# 1999 data, so that four services are absent from the 10 % sample.
KDD_SERVICES = """aol auth bgp courier csnet_ns ctf daytime discard domain domain_u
echo eco_i ecr_i efs exec finger ftp ftp_data gopher harvest hostnames http http_2784
http_443 http_8001 imap4 IRC iso_tsap klogin kshell ldap link login mtp name
netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3
printer private red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat
telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet whois X11 Z39_50"""

KDD_STATES = "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"

KDD_LEVELS = {
    "protocol_type": ["icmp", "tcp", "udp"],
    "service": KDD_SERVICES.split(),
    "flag": KDD_STATES.split(),
}

# The code ranges of the data dictionary, by name or else by the name's first letter
# (M: share of the postcode area in classes; P: contribution in classes; A: number of
# policies, up to 12).
COIL_RANGES = {
    "MOSTYPE": (1, 41),
    **dict.fromkeys(("MAANTHUI", "MOSHOOFD"), (1, 10)),
    **dict.fromkeys(("MGEMOMV", "MGEMLEEF"), (1, 6)),
    **dict.fromkeys("MP", (0, 9)),
    "A": (0, 12),
}


ADULT_CAPS = {
    "age": 100,  # years
    # Survey weight in hundredths of a person. The population over the sample size
    # of the 1994 survey makes about 170,000 on average; six times that is ample.
    "fnlwgt": 1_000_000,
    "education-num": 16,  # the number of levels of education in adult.names
    "capital-gain": 99_999,  # dollars; the census's top code
    # Dollars. US tax law lets a person deduct 3,000 a year; thrice that, rounded.
    "capital-loss": 10_000,
    "hours-per-week": 99,  # two digits in the questionnaire
}

ADULT_CATEGORIES = """workclass education marital-status occupation relationship race
sex native-country"""

# The numbers of values that adult.names lists.
ADULT_LEVELS = dict(
    zip(ADULT_CATEGORIES.split(), (8, 16, 7, 14, 6, 5, 2, 41), strict=True)
)


def load_adult(*, data_home=None, as_frame=False):
    """Load Adult: 48,842 people in the 1994 US census.

    As an array, six numeric columns are divided by fixed caps (age 100, fnlwgt
    1,000,000, education-num 16, capital-gain 99,999, capital-loss 10,000,
    hours-per-week 99) and clipped at 1, which changes fnlwgt in 18 rows. One column for
    each of the 99 values of eight categorical attributes follows. A missing category is
    a block of zeros. As a dataframe, the table has 14 columns as recorded, in years and
    dollars and with strings, and "?" for missing values.

    Terms: none in the data's documentation. UCI reportedly lists it under CC BY 4.0.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that contains `adult/adult.npz`, with arrays `numeric` (n, 6),
        `numeric_names`, `categorical` (n, 8) of codes with 255 for missing,
        `categorical_names`, `levels_<name>`, `income_gt_50k` and `is_test`. None uses
        the environment variable SKDPSPECTRAL_DATA.
    as_frame : bool, default=False
        Whether to return `data` as recorded, and `target`, as pandas objects.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (48842, 105) in [0, 1], in float64, with `bounds` = (0.0, 1.0), or a
        dataframe (48842, 14), with `categories`, the values of each attribute that
        `adult.names` lists. `target` (48842,) with 1 for an income above 50,000
        dollars, `feature_names`, `is_test` (48842,) with True for the 16,281 rows of
        the original test file, and `DESCR`.

    Raises
    ------
    OSError
        If the file does not exist (FileNotFoundError) or is not as described.
    ImportError
        If `as_frame` is set and pandas is not installed.

    References
    ----------
    B. Becker and R. Kohavi (1996), Adult, UCI Machine Learning Repository,
    doi:10.24432/C5XW20.
    R. Kohavi (1996), Scaling up the accuracy of naive-Bayes classifiers: a
    decision-tree hybrid, KDD.
    """
    columns = ["numeric", "numeric_names", "categorical", "categorical_names"]
    columns += [f"levels_{name}" for name in ADULT_LEVELS]
    raw = read_archive("adult", [*columns, "income_gt_50k", "is_test"], data_home)
    expect("numeric_names", raw["numeric_names"].tolist(), list(ADULT_CAPS))
    expect("categorical_names", raw["categorical_names"].tolist(), list(ADULT_LEVELS))
    levels = {name: raw[f"levels_{name}"].tolist() for name in ADULT_LEVELS}
    expect("numbers of levels", {n: len(v) for n, v in levels.items()}, ADULT_LEVELS)
    numbers = raw["numeric"].astype(np.float64)
    codes = dict(zip(levels, raw["categorical"].T, strict=True))
    bunch = Bunch(
        target=raw["income_gt_50k"],
        is_test=raw["is_test"].astype(bool),
        DESCR=inspect.cleandoc(load_adult.__doc__ or ""),
    )
    if as_frame:
        pd = pandas_or_error()
        bunch.data = pd.DataFrame(numbers, columns=list(ADULT_CAPS))
        for name, values in levels.items():
            texts = np.array([*values, "?"], dtype=object)
            bunch.data[name] = texts[np.minimum(codes[name], len(values))]
        bunch.target = pd.Series(bunch.target, name="income_gt_50k")
        bunch.update(categories=levels, feature_names=list(bunch.data))
        return bunch
    blocks = [np.clip(numbers / np.array(list(ADULT_CAPS.values())), 0.0, 1.0)]
    names = list(ADULT_CAPS)
    for name, values in levels.items():
        # A code outside of the levels is a row of zeros.
        blocks.append(np.equal.outer(codes[name], np.arange(len(values))))
        names += [f"{name}={level}" for level in values]
    bunch.update(data=np.hstack(blocks), feature_names=names, bounds=(0.0, 1.0))
    return bunch


def load_raw_adult():
    """Load Adult with numbers as recorded, which some rows of the bounds exceed."""
    bunch, recorded = load_adult(), load_adult(as_frame=True).data
    bunch.data[:, : len(ADULT_CAPS)] = recorded[list(ADULT_CAPS)].to_numpy()
    bunch.bounds = bounds_in_units("raw", ADULT_CAPS, bunch.data.shape[1])
    return bunch


def as_bunch(loader, data, names, bounds):
    """Return the Bunch of a table of rows."""
    return Bunch(
        data=data,
        target=None,
        feature_names=[str(name) for name in names],
        bounds=bounds,
        DESCR=inspect.cleandoc(loader.__doc__ or ""),
    )


def to_pandas(bunch, target_name=None):
    """Make data and target of a bunch pandas objects."""
    pd = pandas_or_error()
    bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    if target_name is not None:
        bunch.target = pd.Series(bunch.target, name=target_name)
    return bunch


def is_bounded(units):
    """Return whether values are to be capped rather than raw."""
    if units not in ("bounded", "raw"):
        raise ValueError(f'units must be "bounded" or "raw", got {units!r}')
    return units == "bounded"


def in_units(units, counts, caps, dtype):
    """Return counts divided by their caps, or as they are."""
    if not is_bounded(units):
        return counts.astype(dtype)
    scaled = counts / np.array(list(caps.values()), dtype=np.float64)
    return np.clip(scaled, 0.0, 1.0).astype(dtype)


def bounds_in_units(units, caps, n_features):
    """Return the bounds of capped columns and of others in [0, 1]."""
    if units == "bounded":
        return 0.0, 1.0
    high = np.ones(n_features)
    high[: len(caps)] = list(caps.values())
    return np.zeros(n_features), high


def one_hot(codes, n_levels, dtype):
    """One column a level; a code outside the levels is a row of zeros."""
    block = np.zeros((len(codes), n_levels), dtype=dtype)
    rows = np.flatnonzero(codes < n_levels)
    block[rows, codes[rows]] = 1
    return block


def load_kddcup99(*, data_home=None, as_frame=False, units="bounded"):
    """Load the 10 % sample of KDD Cup 1999: 494,021 connections, scaled to [0, 1].

    Simulated network traffic. The columns are 23 counts, 15 rates, and one column for
    each of 3 protocols, 70 services and 11 flags of the format. Each count is divided
    by a fixed cap from the format (duration one day in seconds; bytes 65,535; windowed
    counts 511 and 255; events within one connection 10; yes-or-no attributes 1) and
    clipped at 1. That makes 122 columns, including constant columns, because dropping
    these would require looking at the data. The caps change src_bytes, dst_bytes, hot,
    num_compromised, su_attempted, num_root and num_file_creations, each in less than
    one row in a thousand.

    Terms: none with the data. UCI reportedly lists it under CC BY 4.0.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that contains `kddcup99-10pct/kddcup99-10pct.npz`, with arrays `counts`
        (n, 23), `counts_names`, `rate_x100` (n, 15) of rates times 100, `rate_names`,
        and `code_<name>` (n,), `levels_<name>` for protocol_type, service, flag, label.
        None uses the environment variable SKDPSPECTRAL_DATA.
    as_frame : bool, default=False
        Whether to return `data` and `target` as pandas objects.
    units : {"bounded", "raw"}, default="bounded"
        "raw" returns the counts as recorded, in seconds and bytes, not divided or
        clipped.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (494021, 122) in float32 (240 MB), `target` (494021,) with the labels as
        strings, including the original final dot ("normal.", "smurf.", ...),
        `feature_names`, `bounds` = (0.0, 1.0), or arrays of shape (122,) in raw units,
        which some rows exceed, and `DESCR`.

    Raises
    ------
    ValueError
        If `units` is invalid.
    OSError
        If the file does not exist (FileNotFoundError) or is not as described.

    References
    ----------
    S. Stolfo, W. Fan, W. Lee, A. Prodromidis and P. Chan (1999), KDD Cup 1999 Data,
    UCI Machine Learning Repository, doi:10.24432/C51C7N.
    """
    columns = ["counts", "counts_names", "rate_x100", "rate_names"]
    for name in [*KDD_LEVELS, "label"]:
        columns += [f"code_{name}", f"levels_{name}"]
    raw = read_archive("kddcup99-10pct", columns, data_home)
    expect("counts_names", raw["counts_names"].tolist(), list(KDD_CAPS))
    expect("number of rates", len(raw["rate_names"]), 15)
    blocks = [
        in_units(units, raw["counts"], KDD_CAPS, np.float32),
        np.minimum(raw["rate_x100"] / np.float32(100), np.float32(1)),
    ]
    names = [*KDD_CAPS, *raw["rate_names"]]
    for name, vocabulary in KDD_LEVELS.items():
        codes = _recode(raw[f"code_{name}"], raw[f"levels_{name}"], vocabulary)
        blocks.append(one_hot(codes, len(vocabulary), np.float32))
        names += [f"{name}={level}" for level in vocabulary]
    bounds = bounds_in_units(units, KDD_CAPS, len(names))
    bunch = as_bunch(load_kddcup99, np.hstack(blocks), names, bounds)
    bunch.target = raw["levels_label"][raw["code_label"]]
    return to_pandas(bunch, "label") if as_frame else bunch


def load_jester(*, data_home=None, as_frame=False):
    """Load part 1 of Jester: 24,983 users' ratings of 100 jokes, -10 to 10.

    Missing ratings are 0, the middle of the range, and do not affect the second moment.

    Terms: free for research that cites the reference below. Redistribution is not
    mentioned.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that contains `jester-1/jester-1.npz`, with the array `rating_x100` (n,
        100) of ratings times 100, and 9900 for missing ratings. None uses the
        environment variable SKDPSPECTRAL_DATA.
    as_frame : bool, default=False
        Whether to return `data` as a pandas object.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (24983, 100) in float64, `target` None, `feature_names`, `bounds` =
        (-10.0, 10.0), the range of the rating scale, and `DESCR`.

    Raises
    ------
    OSError
        If the file does not exist (FileNotFoundError) or is not as described.

    References
    ----------
    K. Goldberg, T. Roeder, D. Gupta and C. Perkins (2001), Eigentaste: a constant
    time collaborative filtering algorithm, Information Retrieval 4(2), 133-151.
    """
    ratings = read_archive("jester-1", ["rating_x100"], data_home)["rating_x100"]
    data = np.where(ratings == MISSING_RATING, 0.0, np.clip(ratings / 100.0, -10, 10))
    names = [f"joke_{number}" for number in range(1, data.shape[1] + 1)]
    bunch = as_bunch(load_jester, data, names, (-10.0, 10.0))
    return to_pandas(bunch) if as_frame else bunch


def load_coil2000(*, data_home=None, as_frame=False):
    """Load the COIL 2000 challenge: 9,822 customers of an insurer, 85 codes each.

    Integer codes: customer subtype 1 to 41, number of houses and main type 1 to 10,
    household size and age class 1 to 6, other shares and classes 0 to 9, numbers of
    policies 0 to 12.

    Terms: owned and supplied by Sentient Machine Research; for non-commercial
    research and education only, and expressly not for commercial education or
    demonstration.

    `coil2000-insurance/coil2000-insurance.npz` has arrays `x` (n, 85), `names`,
    `caravan` and `is_test`. The Bunch has `data` (9822, 85) in float64, `target` with 1
    for a caravan policy, `bounds`, two arrays of shape (85,) taken from the data
    dictionary, and `is_test` with True for the 4,000 rows of the challenge's evaluation
    file; else it, the parameters and errors are as of `load_jester`.

    References
    ----------
    P. van der Putten and M. van Someren, editors (2000), CoIL Challenge 2000: The
    Insurance Company Case, Sentient Machine Research, Amsterdam; LIACS Technical
    Report 2000-09.
    """
    raw = read_archive(
        "coil2000-insurance", ["x", "names", "caravan", "is_test"], data_home
    )
    initials = "".join(name[:1] for name in raw["names"])
    expect("initials of the names", initials, "M" * 43 + "P" * 21 + "A" * 21)
    ranges = [COIL_RANGES.get(name) or COIL_RANGES[name[0]] for name in raw["names"]]
    low, high = np.array(ranges, dtype=np.float64).T
    data = np.clip(raw["x"].astype(np.float64), low, high)
    bunch = as_bunch(load_coil2000, data, raw["names"], (low, high))
    bunch.update(target=raw["caravan"], is_test=raw["is_test"].astype(bool))
    return to_pandas(bunch, "caravan") if as_frame else bunch


def _recode(codes, levels, vocabulary):
    """Turn codes of the archive's levels into codes of a fixed vocabulary."""
    levels = levels.tolist()
    expect("levels outside the format", sorted(set(levels) - set(vocabulary)), [])
    lookup = np.full(MISSING_LEVEL + 1, MISSING_LEVEL, dtype=np.uint8)
    lookup[: len(levels)] = [vocabulary.index(level) for level in levels]
    return lookup[codes]


# The usual floor and ceiling of these chips' expression values: below lies background
# (a fifth of all values are negative), above the scanner saturates.
GORDON_RANGE = (10.0, 16_000.0)
N_GORDON_PROBES = 12_533


def load_gordon2002(*, data_home=None, as_frame=False, units="bounded"):
    """Load Gordon's lung tissues: 181 samples, logarithms of 12,533 gene expressions.

    There are 31 samples of malignant pleural mesothelioma and 150 of adenocarcinoma.
    Values are clipped to the fixed range 10 to 16,000 and converted to base-2
    logarithms. All probe sets are included, because selecting some by their variance or
    their ability to separate the classes would require looking at the data.

    There are too few rows for private components of so many features at a customary
    budget. Use the data to reproduce the federated paper or to fit without privacy.

    Terms: unknown. The values were a public supplement of the article below: cite it,
    and ask before redistributing.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that contains `gordon2002/gordon2002.npz`, with arrays `x10` (n, 12533)
        of expression values times 10, `y` (n,) with 1 for mesothelioma, `sample_name`
        (n,) and `probe_id` (12533,). None uses the environment variable
        SKDPSPECTRAL_DATA.
    as_frame : bool, default=False
        Whether to return `data` and `target` as pandas objects.
    units : {"bounded", "raw"}, default="bounded"
        "bounded" returns the clipped logarithms described above. "raw" returns
        expression values as recorded. A fifth is negative, and no bounds are known.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (181, 12533) in float64, `target` (181,) with 1 for mesothelioma and 0
        for adenocarcinoma, `feature_names`, the names of the probe sets, `bounds` =
        (log2 10, log2 16000), None in raw units, `sample_names` (181,) and `DESCR`.

    Raises
    ------
    OSError
        If the file does not exist (FileNotFoundError) or is not as described.
    ValueError
        If `units` is invalid.

    References
    ----------
    G. J. Gordon, R. V. Jensen, L.-L. Hsiao, S. R. Gullans, J. E. Blumenstock,
    S. Ramaswamy, W. G. Richards, D. J. Sugarbaker and R. Bueno (2002), Translation of
    microarray data into clinically relevant cancer diagnostic tests using gene
    expression ratios in lung cancer and mesothelioma, Cancer Research 62(17),
    4963-4967.
    """
    raw = read_archive("gordon2002", ["x10", "y", "sample_name", "probe_id"], data_home)
    _, n_probes = np.shape(raw["x10"])
    expect("number of probe sets", n_probes, N_GORDON_PROBES)
    data, bounds = _probes_in_units(units, raw["x10"] / 10.0)
    bunch = as_bunch(load_gordon2002, data, raw["probe_id"], bounds)
    bunch.update(target=raw["y"], sample_names=raw["sample_name"])
    return to_pandas(bunch, "is_mesothelioma") if as_frame else bunch


def _probes_in_units(units, values):
    """Return values in the units that are asked for, and their bounds."""
    if not is_bounded(units):
        return values, None
    low, high = (float(end) for end in np.log2(GORDON_RANGE))
    # Logarithms may be rounded otherwise one by one than in a block.
    data = np.clip(np.log2(np.clip(values, *GORDON_RANGE)), low, high)
    return data, (low, high)
