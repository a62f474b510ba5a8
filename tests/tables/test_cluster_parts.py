"""Parts of dask collections that are not what their collection says."""

import numpy as np
import pytest
from cluster_tools import check_same, outcome, quiet
from release_tools import record_releases

from skdpspectral import (
    DPPCA,
    DPItemEmbedding,
    DPMatrixFactorization,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral._tables import clusters as rows_on_clusters
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


HOW = {"user_feature": "user", "item_feature": "item"}


def fit_regression(frame, **how):
    targets = in_parts([y[: N // 2], y[N // 2 :]], y) if on_cluster(frame) else y
    return LRSRegressor(1, 1, user_feature="user", **how).fit(frame, targets)


def fit_ratings(frame, **how):
    how = {"items": range(7), "rating_range": (0, 4), **HOW, **how}
    return DPMatrixFactorization(**{"rating_range": (1, 5), **how}).fit(frame)


def fit_items(frame, **how):
    model = DPItemEmbedding(items=range(7), **HOW, **{"rating_range": (1, 5), **how})
    return model.fit(frame[["user", "item"]], frame["rating"])


def on_cluster(frame):
    return isinstance(frame, dd.DataFrame)


FITS = {
    fit_regression: (FRAME, "of one kind, got numbers, "),
    fit_ratings: (RATINGS, "of one kind, got numbers, "),
    fit_items: (RATINGS, "of one kind, got numbers, "),
}


@pytest.mark.parametrize("users", [lambda users: users.astype(str)])
@pytest.mark.parametrize("fit", FITS)
def test_ids_of_other_kinds_in_other_parts_are_no_ids(fit, users):
    """As in memory, whatever group a user is in; objects of times would be numbers."""
    frame, message = FITS[fit]
    accountant = PrivacyAccountant()
    with quiet(), pytest.raises(ValueError, match=message):
        fit(halves(frame, of_users(users)), accountant=accountant)
    assert len(accountant.ledger) == 1


def test_items_of_other_kinds_in_other_parts_are_no_items():
    items = range(7)

    def renamed(part):
        return part.assign(item=part["item"].astype(str))

    whole = pd.concat([RATINGS[: N // 2], renamed(RATINGS[N // 2 :])])
    for frame in (whole, halves(RATINGS, renamed)):
        with quiet(), pytest.raises(ValueError, match=r"item_feature .* numbers"):
            fit_ratings(frame, items=items)


@pytest.mark.parametrize("fit", FITS)
def test_numbers_of_other_types_in_other_parts_are_the_same_ids(fit):
    frame, _ = FITS[fit]
    found = []
    for table in (frame, halves(frame, of_users(lambda users: users.astype(float)))):
        with quiet(), record_releases() as transcript:
            fit(table, noise_seed=1)
        found.append((transcript, 1))
    check_same(*found)


def test_lists_of_ids_are_not_made_strings():
    """numpy would make two users one: 1 and "1"."""
    ids = [1 if k % 2 else "1" for k in range(N)]
    rows = FRAME[["a", "b", "c"]].to_numpy()
    for X in (rows, da.from_array(rows, chunks=(N // 2, 3))):
        with (
            quiet(),
            pytest.raises(ValueError, match="users must contain ids of one kind"),
        ):
            LRSRegressor(1, 1).fit(X, y.to_numpy(), users=ids)


def test_a_part_without_rows_has_no_say_in_the_kind_of_ids():
    text, empty = np.array(["1"], object), np.empty(0, np.int64)
    for parts in ([empty, text], [text, empty]):
        assert joined_ids(parts, "users").tolist() == ["1"]
    assert len(joined_ids([empty, empty[:0]], "users")) == 0
    with pytest.raises(ValueError, match="users must contain ids of one kind"):
        joined_ids([np.array([-1, 2]), text], "users")


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
        with (
            quiet(),
            pytest.raises(ValueError, match="the same number of rows in each part"),
        ):
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
