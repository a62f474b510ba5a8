"""Parts of dask collections that are not what their collection says."""

import numpy as np
import pytest
from cluster_tools import check_same, outcome, quiet

from skdpspectral import (
    DPPCA,
    DPMatrixFactorization,
    FederatedDPPCA,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral._tables import cluster_rows as rows_on_clusters
from skdpspectral._tables.ids import joined_ids

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
N = 400
FRAME = pd.DataFrame(rng.standard_normal((N, 3)), columns=list("abc"))
FRAME["user"] = np.arange(N) % 40
y = pd.Series(rng.standard_normal(N))
RATINGS = FRAME[["user"]].assign(item=np.arange(N) % 7, rating=np.arange(N) % 5)


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def in_parts(parts, meta):
    """A dask dataframe of parts that nobody compares to its meta."""
    parts = [dask.delayed(part) for part in parts]
    return dd.from_delayed(parts, meta=meta[:0], verify_meta=False)


def halves(frame, second):
    """A frame of which the second half is changed, and not its meta."""
    return in_parts([frame[: N // 2], second(frame[N // 2 :].copy())], frame)


def of_users(users):
    def change(part):
        part["user"] = users(part["user"])
        return part

    return change


def fit_regression(second):
    targets = in_parts([y[: N // 2], y[N // 2 :]], y)
    return LRSRegressor(1, 1, user_feature="user").fit(halves(FRAME, second), targets)


def fit_ratings(second):
    model = DPMatrixFactorization(
        items=range(7), user_feature="user", item_feature="item", rating_range=(0, 4)
    )
    return model.fit(halves(RATINGS, second))


def fit_federation(second):
    return FederatedDPPCA(1, client_feature="user").fit(halves(FRAME, second))


@pytest.mark.parametrize("fit", [fit_regression, fit_ratings, fit_federation])
def test_times_and_numbers_are_not_one_id(fit):
    """Of nanoseconds numpy's objects are numbers: two users would become one."""
    with quiet(), pytest.raises(ValueError, match="holds times in some parts"):
        fit(of_users(pd.to_datetime))


def test_ids_of_several_parts_are_joined_exactly():
    wide, text = np.array([2**63 + 1], np.uint64), np.array(["1"], object)
    found = joined_ids([np.array([-1, 2]), wide, text], "users").tolist()
    assert found == [-1, 2, 2**63 + 1, "1"]
    # A part without rows has no say.
    times = np.array(["2020-01-01"], "M8[ns]")
    empty = np.empty(0, object)
    for parts in ([empty, times], [times, empty]):
        assert joined_ids(parts, "users").dtype == times.dtype
    assert len(joined_ids([empty, empty[:0]], "users")) == 0


def test_floats_among_whole_numbers_are_not_cut():
    """The type of a part counts, whatever the collection calls it."""
    whole = FRAME[["a", "b", "c"]].round().astype("int64")

    def halved(part):
        return part * 0.5

    told = halves(whole, halved)
    true = pd.concat([whole[: N // 2].astype(float), whole[N // 2 :] * 0.5])
    with quiet():
        pca = DPPCA(noise_seed=1)
        check_same(outcome(pca, true.to_numpy()), outcome(pca, told))
        with pytest.raises(ValueError, match="contains infinity"):
            pca.fit(halves(whole, lambda part: part.assign(a=np.inf)))
        with pytest.raises(ValueError, match="numbers, not dates"):
            pca.fit(halves(whole, lambda part: part.assign(a=pd.Timestamp(0))))


def test_parts_beside_each_other_have_as_many_rows():
    """Rows are nobody's, or somebody else's, where ids are too few or too many."""
    ids = np.arange(N) % 40
    for wrong in (ids[: N // 2 - 1], np.append(ids[: N // 2], 0)):
        parts = [dask.delayed(wrong), dask.delayed(ids[N // 2 :])]
        users = da.concatenate(
            [da.from_delayed(part, (N // 2,), int) for part in parts]
        )
        X = da.from_array(FRAME[["a", "b", "c"]].to_numpy(), chunks=(N // 2, 3))
        accountant = PrivacyAccountant()
        model = LRSRegressor(1, 1, accountant=accountant)
        with quiet(), pytest.raises(ValueError, match="another number of rows"):
            model.fit(X, y.to_numpy(), users=users)
        assert len(accountant.ledger) == 1


def test_maps_of_pools_are_quiet():
    """A warning of a worker would tell of somebody's values."""
    job = rows_on_clusters._Job(_Blocks(), _sum, _overflow, 2)
    with np.errstate(all="raise"):
        found = rows_on_clusters._sums_of_pool(job, np.ones((3, 2)))
    assert np.isinf(found).all()


class _Blocks:
    def blocks_of_a_pool(self, rows, places):
        yield rows[places]


def _sum(blocks):
    return np.sum([block.sum(axis=0) for block in blocks], axis=0)


def _overflow(rows):
    return rows * 1e300 * 1e300
