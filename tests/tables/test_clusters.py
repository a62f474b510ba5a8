"""Rows of dask collections: reduced on their cluster, to the same releases.

Tables of users are brought here after the charge, and fitted as in memory.
"""

import os

import numpy as np
import pytest
from cluster_tools import check_public, check_same, outcome, quiet
from ledger_tools import refused

import skdpspectral as sk
from skdpspectral._linalg.walks import (
    BLOCKS_TOGETHER,
    RowWalk,
    add_sums,
    reduce_rows,
    rows_per_block,
)
from skdpspectral._tables import table as cluster_rows
from skdpspectral._tables.table import cluster_table
from skdpspectral.datasets import make_ratings
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.sensitivity import summation_error

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

SEED = 918_273_645
# Rows of two pools of pairs; users have fewer.
N, N_OF_USERS, P = 36_003, 5003, 6
rng = np.random.default_rng(0)
X = rng.standard_normal((N, P)) * np.r_[3.0, 2.0, np.ones(P - 2)] + 1.0
MODEL = {"signal_variance": 9.0, "noise_variance": 1.0, "release": "covariance"}
PARTS, PARTS_OF_USERS = ((20_000, 1, 0, 15_000, 1002), (4, 2)), ((3000, 2003), (6,))
PCA = {
    "default": {},
    "pairs": {"center": "pairs"},
    "origin": {"center": "none"},
    "bounds": {"bounds": (-9, 9)},
    "ranks": {"scale": "ranks"},
}
DATA = make_ratings(400, 30, random_state=0, as_frame=True)
RATINGS = DATA.data.assign(rating=DATA.target).sample(frac=1, random_state=1)
RATINGS = RATINGS.reset_index(drop=True)
USERS = rng.permutation(np.repeat(np.arange(501), 10))[:N_OF_USERS]
OWN = X[:N_OF_USERS]
y = OWN @ np.arange(P) / P + USERS % 7


def on_cluster(rows, parts=None):
    if parts is None:
        parts = PARTS if len(rows) == N else PARTS_OF_USERS
    return da.from_array(rows, chunks=parts)


def ratings(kind, frame=RATINGS):
    if kind is sk.DPMatrixFactorization:
        return (frame,)
    return frame[["user_id", "item_id"]], frame["rating"]


def fits():
    """Estimators with what they are fitted to in memory, and on a cluster."""
    for name, parameters in PCA.items():
        yield f"pca {name}", sk.DPPCA(noise_seed=SEED, **parameters), (X,), (X,), {}
    yield "spiked", SpikedPCA(noise_seed=SEED, **MODEL), (X,), (X,), {}
    yield "covariance", sk.DPCovariance(noise_seed=SEED), (X,), (X,), {}
    for parameters in ({}, {"with_mean": False}, {"bounds": (-9, 9)}):
        scaler = sk.DPStandardScaler(noise_seed=SEED, **parameters)
        yield f"scaler {parameters}", scaler, (X,), (X,), {}
    stars = {"rating_range": (1, 5)}
    kinds = [(sk.DPMatrixFactorization, stars)]
    kinds += [(sk.DPMatrixFactorization, {"implicit": True})]
    kinds += [(sk.DPItemEmbedding, {"method": "residuals", **stars})]
    for kind, parameters in kinds:
        model = kind(items=DATA.item_ids, noise_seed=SEED, **parameters)
        frame = dd.from_pandas(RATINGS, npartitions=3)
        data, distant = ratings(kind), ratings(kind, frame)
        yield f"{kind.__name__} {parameters}", model, data, distant, {}


FITS = {name: rest for name, *rest in fits()}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def client():
    """Two workers in this process: they talk as those of other hosts do."""
    distributed = pytest.importorskip("dask.distributed")
    how = {"processes": False, "dashboard_address": None, "set_as_default": False}
    with (
        quiet(),
        distributed.Client(n_workers=2, threads_per_worker=1, **how) as client,
    ):
        yield client


def distant(data):
    here = isinstance(data[0], np.ndarray)
    return (on_cluster(data[0]), *data[1:]) if here else data


@pytest.mark.parametrize("name", FITS)
def test_a_cluster_releases_what_memory_does(name, monkeypatch):
    """To the last bit, charged once; and what travels is public."""
    model, here, there, given = FITS[name]
    jobs = []
    sent = cluster_rows.sent

    def note(function):
        jobs.append(function)
        return sent(function)

    monkeypatch.setattr(cluster_rows, "sent", note)
    with quiet():
        wanted = outcome(model, *here, **given)
        assert not jobs
        check_same(wanted, outcome(model, *distant(there), **given))
    assert bool(jobs) != name.startswith("DP")  # whose columns are brought here
    for job in jobs:
        check_public(job, SEED, len(here[0]))


@pytest.mark.parametrize("name", ["pca default", "pca pairs"])
def test_a_task_that_runs_again_adds_nothing(name, monkeypatch):
    """Every task runs twice on the same input, as when a worker was lost."""
    model, here, there, given = FITS[name]
    calls = []

    def twice(function):
        def run(*arguments, **named):
            calls.append(function)
            function(*arguments, **named)
            return function(*arguments, **named)

        return run

    with quiet():
        wanted = outcome(model, *here, **given)
        for function in ("add_sums", "_applied", "_some", "_joined"):
            again = twice(getattr(cluster_rows, function))
            monkeypatch.setattr(cluster_rows, function, again)
        check_same(wanted, outcome(model, *distant(there), **given))
    assert len(calls) > 5


@pytest.mark.parametrize("name", ["pca default", "scaler {}"])
def test_workers_keep_the_rows(client, name, monkeypatch):
    """What comes to the client is far smaller than the rows."""
    model, here, there, given = FITS[name]
    # Of few numbers, so that sums are small too.
    sizes, get = [], type(client).get

    def weigh(self, *arguments, **how):
        found = get(self, *arguments, **how)
        arrays = [np.asarray(part) for part in _arrays(found)]
        assert all(array.dtype.kind in "fi" for array in arrays)
        sizes.append(max(array.nbytes for array in arrays))
        return found

    monkeypatch.setattr(type(client), "get", weigh)
    with quiet(), client.as_current(), dask.config.set(scheduler=client.get):
        check_same(
            outcome(model, *here, **given), outcome(model, *distant(there), **given)
        )
    assert sizes
    largest = P * 4096 * 8 if name.startswith("scaler") else 2 * 4098 * 8
    assert max(sizes) <= largest


def _arrays(found):
    if isinstance(found, (list, tuple)):
        return [array for part in found for array in _arrays(part)]
    return [found]


def test_ratings_are_predicted_and_embedded_of_rows_that_are_brought_here():
    items = DATA.item_ids
    frame = dd.from_pandas(RATINGS, npartitions=3)
    with quiet():
        model = sk.DPMatrixFactorization(
            items=items, noise_seed=1, rating_range=(1, 5)
        ).fit(RATINGS)
        embedding = sk.DPItemEmbedding(
            2, items=items, noise_seed=1, rating_range=(1, 5)
        )
        embedding.fit(RATINGS, RATINGS["rating"])
        np.testing.assert_array_equal(model.predict(frame), model.predict(RATINGS))
        assert model.score(frame) == model.score(RATINGS)
        assert model.score(frame, frame["rating"]) == model.score(RATINGS)
        found = embedding.transform(frame)
    pd.testing.assert_frame_equal(
        pd.DataFrame(found), pd.DataFrame(embedding.transform(RATINGS))
    )


def test_ratings_of_strings_and_repeated_items():
    """The last rating of an item counts, in the order of the table."""
    frame = pd.concat([RATINGS, RATINGS.iloc[::3].assign(rating=1)])
    frame = frame.assign(user_id=[f"u{user}" for user in frame.user_id])
    frame = frame.reset_index(drop=True)
    model = sk.DPMatrixFactorization(
        items=DATA.item_ids, noise_seed=1, rating_range=(1, 5)
    )
    with quiet():
        wanted = outcome(model, frame)
        check_same(wanted, outcome(model, dd.from_pandas(frame, npartitions=4)))


# -- errors ----------------------------------------------------------------------------


def failing(block, kind=RuntimeError):
    raise kind(f"the row {block[0]} is secret")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            on_cluster(X).map_blocks(failing, dtype=float),
            r"cluster; .* \(RuntimeError\)",
        ),
        (
            on_cluster(X).map_blocks(failing, kind=RuntimeWarning, dtype=float),
            r"cluster; .* \(RuntimeWarning\)",
        ),
        (on_cluster(np.where(X > 11, np.nan, X)), "contains NaN"),
        (on_cluster(np.where(X > 11, np.inf, X)), "contains infinity"),
        (on_cluster(X).map_blocks(lambda b: b[:-1], dtype=float), "a different shape"),
    ],
)
def test_failures_are_charged_once_and_quote_nothing(data, message):
    accountant = sk.PrivacyAccountant()
    pca = sk.DPPCA(accountant=accountant)
    with quiet(), pytest.raises(ValueError, match=message) as caught:
        pca.fit(data)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert len(accountant.ledger) == 1
    assert not hasattr(pca, "components_")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (on_cluster(X)[on_cluster(X)[:, 0] > 0], "compute_chunk_sizes"),
        (on_cluster(X)[:, 0], "Expected 2D array"),
        (on_cluster(X).astype("M8[s]"), "dates"),
        (on_cluster(X).astype(complex), "Complex"),
        (dd.from_pandas(pd.DataFrame({"a": ["x"] * 5}), npartitions=1), "real numbers"),
    ],
)
def test_a_wrong_form_is_not_charged(data, message):
    with refused(message) as accountant:
        sk.DPPCA(accountant=accountant).fit(data)


# -- the bound of sums -----------------------------------------------------------------


def longest_way(sizes, block, many):
    """Roundings of one term, at most: its product, its block, its part, the tree."""
    ways = []
    for n in filter(None, sizes):
        blocks = -(-n // block)
        groups = -(-blocks // many)
        ways.append(1 + min(block, n) - 1 + min(blocks, many) - 1 + groups - 1)
    together = cluster_rows._TOGETHER
    while len(ways) > 1:
        groups = [ways[i : i + together] for i in range(0, len(ways), together)]
        ways = [max(group) + len(group) - 1 for group in groups]
    return ways[0] + 1  # and the division


def test_the_charged_bound_holds_for_any_parts():
    """Roundings of all ways through the tree are within what plans charge."""
    dealt = np.random.default_rng(3)
    for _ in range(100):
        n = int(10 ** dealt.uniform(0, 4))
        block = rows_per_block(int(10 ** dealt.uniform(0, 7)))
        cuts = dealt.integers(0, n + 1, int(10 ** dealt.uniform(0, 3)))
        sizes = np.diff(np.concatenate([[0], np.sort(cuts), [n]])).tolist()
        for parts in (sizes, [1] * n, [n]):
            # One in units of the charge is two roundings: half is for other terms.
            many = BLOCKS_TOGETHER
            charged = summation_error(1.0, n, block, many) / 2.0**-53
            assert longest_way(parts, block, many) + 14 <= charged


def test_sums_of_parts_are_within_the_bound():
    """Against sums in higher precision, in bad orders and of uneven parts."""
    values = np.exp(np.random.default_rng(4).uniform(-20, 0, (3001, 1)))
    for parts in ((3001,), (1, 2999, 1), (23,) * 130 + (11,)):
        rows = cluster_table(on_cluster(values, (parts, (1,)))).rows()
        found = reduce_rows(rows, RowWalk(), _sum)
        exact = values.astype(np.longdouble).sum()
        how = len(values), rows_per_block(1), BLOCKS_TOGETHER
        bound = summation_error(float(values.sum()), *how)
        assert abs(found - exact) <= bound


def _sum(blocks):
    total = np.zeros(1)
    for block in blocks:
        total += block.sum(axis=0)
    return total


def test_sums_are_added_without_writing_to_parts():
    parts = [(np.full(2, float(k)), np.array([k])) for k in range(3)]
    total = add_sums(parts)
    assert [one.tolist() for one in total] == [[3.0, 3.0], [3]]
    assert [part[1][0] for part in parts] == [0, 1, 2]


# -- workers that are lost -------------------------------------------------------------


def dying(block, marks=None):
    """End the worker's process, unless one was ended before."""
    if not os.listdir(marks):
        with open(os.path.join(marks, str(os.getpid())), "w"):
            os._exit(1)
    return block


@pytest.mark.slow
def test_a_worker_that_dies_in_mid_fit(tmp_path):
    """The fit completes, with the same releases; it is charged once."""
    distributed = pytest.importorskip("dask.distributed")
    accountant = sk.PrivacyAccountant()
    pca = sk.DPPCA(center="none", noise_seed=SEED, accountant=accountant)
    with quiet():
        wanted = sk.DPPCA(center="none", noise_seed=SEED).fit(OWN)
        how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with dask.config.set(scheduler=None), distributed.Client(processes=True, **how):
            # What a block is like is said: it is not to be tried in this process.
            known = {"dtype": float, "meta": np.empty((0, 0))}
            data = on_cluster(OWN).map_blocks(dying, marks=str(tmp_path), **known)
            pca.fit(data)
    assert len(os.listdir(tmp_path)) == 1
    assert len(accountant.ledger) == 1
    np.testing.assert_array_equal(pca.components_, wanted.components_)
