"""What is refused on a cluster as it is in memory: before the charge, and unquoted."""

import re

import numpy as np
import pytest
from cluster_tools import quiet

from skdpspectral import (
    DPPCA,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPTableVectorizer,
    FederatedDPPCA,
    LRSMLPRegressor,
    LRSRegressor,
    PrivacyAccountant,
    SparseDPPCA,
)
from skdpspectral._tables.clusters import ClusterUsers, _hashes
from skdpspectral.pipeline import make_private_pipeline

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

N = 40
rng = np.random.default_rng(0)
X, Y, USERS = rng.standard_normal((N, 3)), rng.standard_normal(N), np.arange(N) % 8
RATINGS = pd.DataFrame({"user": USERS, "item": np.arange(N) % 5})
FRAME = pd.DataFrame(X, columns=list("abc")).assign(user=USERS)
ROWS, TARGETS = da.from_array(X, chunks=(N // 2, 3)), da.from_array(Y, chunks=N // 2)
HOW = {"items": range(5), "user_feature": "user", "item_feature": "item"}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def column(values):
    return dd.from_pandas(pd.Series(values), npartitions=2)


def fit_regression(targets, users=USERS, rows=ROWS, **how):
    return LRSRegressor(1, 1, **how).fit(rows, targets, users=users)


def fit_items(targets, **how):
    frame = dd.from_pandas(RATINGS, npartitions=2)
    return DPItemEmbedding(**HOW, **{"rating_range": (1, 5), **how}).fit(frame, targets)


def fit_ratings(targets, **how):
    frame = dd.from_pandas(RATINGS, npartitions=2)
    return DPMatrixFactorization(**HOW, **{"rating_range": (1, 5), **how}).fit(
        frame, targets
    )


def refused(fit, *data, match, charged=0, error=ValueError):
    accountant = PrivacyAccountant()
    with quiet(), pytest.raises(error, match=match) as caught:
        fit(*data, accountant=accountant)
    assert len(accountant.ledger) == charged
    return str(caught.value)


TIMES = USERS.astype("M8[ns]")


@pytest.mark.parametrize("fit", [fit_regression, fit_items, fit_ratings])
@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (TARGETS.astype(complex), "y must contain real numbers"),
        (column(Y.astype(complex)), "y must contain real numbers"),
        (da.from_array(TIMES, chunks=N // 2), "y must contain numbers"),
        (column(TIMES), "y must contain numbers"),
        (dd.from_pandas(pd.DataFrame({"y": Y, "z": Y}), npartitions=2), "one column"),
    ],
)
def test_targets_of_another_form_cost_nothing(fit, targets, match):
    refused(fit, targets, match=match)


@pytest.mark.parametrize("fit", [fit_regression, fit_items, fit_ratings])
def test_what_lies_under_a_mask_is_no_target(fit):
    """numpy joins parts of a masked array without their masks."""
    mask = da.from_array(USERS == 3, chunks=N // 2)
    match = "y has masked values"
    refused(fit, da.ma.masked_array(TARGETS, mask), match=match, charged=1)


def test_ids_of_another_form_and_tables_without_rows_cost_nothing():
    users = dd.from_pandas(pd.DataFrame({"user": USERS}), npartitions=2)
    refused(fit_regression, TARGETS, users, match="users must be one column")
    frame = dd.from_pandas(FRAME, npartitions=2)
    none, targets = frame[frame.user > N], column(Y)[frame.user > N]

    def fit(X, *, accountant):
        LRSRegressor(1, 1, user_feature="user", accountant=accountant).fit(X, targets)

    refused(fit, none, match=r"0 sample\(s\)")


@pytest.mark.parametrize(
    "model",
    [
        FederatedDPPCA(1, client_feature=0),
        SparseDPPCA(1),
        LRSMLPRegressor(1, 0.1, user_feature=0),
        DPTableVectorizer(),
        make_private_pipeline(DPPCA(1)),
    ],
)
def test_estimators_of_rows_in_memory_refuse_clusters_before_the_charge(model):
    def fit(X, *, accountant):
        model.set_params(accountant=accountant).fit(X, Y)

    refused(fit, ROWS, match=r"X\.compute\(\)", error=TypeError)


def in_parts(*parts):
    """A dask dataframe of tasks that nobody compares to its meta."""
    return dd.from_delayed(list(parts), meta=FRAME[:0], verify_meta=False)


def test_columns_in_another_order_are_not_taken_for_each_other():
    swapped = FRAME[N // 2 :][["c", "b", "a", "user"]]
    frame = in_parts(*map(dask.delayed, (FRAME[: N // 2], swapped)))

    def fit(X, *, accountant):
        DPPCA(1, accountant=accountant).fit(X)

    refused(fit, frame, match="a part has different columns")


@pytest.mark.parametrize("n_reads", [1, 2])
def test_no_reading_of_a_part_quotes_what_it_finds(n_reads):
    """Of a part that is something else when it is read again, too."""
    text, reads = FRAME[N // 2 :].astype({"a": object}), []
    text.iloc[0, 0] = "SECRET-17"

    def read():
        reads.append(1)
        return FRAME[N // 2 :] if len(reads) <= n_reads else text

    frame = in_parts(dask.delayed(FRAME[: N // 2]), dask.delayed(read, pure=False)())
    with quiet(), pytest.raises(ValueError, match="workers' logs") as caught:
        LRSRegressor(1, 1, user_feature="user").fit(frame, Y)
    assert "SECRET" not in str(caught.value)


def fail(part):
    if len(part):
        raise ValueError("could not convert string to float: 'SECRET-17'")
    return part


def test_predictions_of_rows_on_a_cluster_quote_nothing():
    rows = ROWS.map_blocks(fail, dtype=float, meta=np.empty((0, 0)))
    frame = dd.from_pandas(RATINGS, npartitions=2)
    frame = frame.map_partitions(fail, meta=RATINGS[:0])
    with quiet():
        model = fit_regression(TARGETS)
        rated = fit_ratings(column(np.arange(N) % 5.0), rating_range=(0, 4))
        calls = [
            lambda: model.predict(rows, users=USERS),
            lambda: model.personalize(rows, Y, users=USERS),
            lambda: rated.predict(frame),
            lambda: DPPCA(1).fit(X).transform(rows),
        ]
    for call in calls:
        with quiet(), pytest.raises(ValueError, match=re.escape("(ValueError)")) as e:
            call()
        assert "SECRET" not in str(e.value)


def in_group(group, candidates):
    """Return ids that one of two groups of users gets."""
    keys = np.array(candidates)
    keys = keys.astype(object) if keys.dtype.kind == "U" else keys
    return keys[_hashes(keys) % np.uint64(2) == group]


@pytest.mark.parametrize("mixed", ["users", "items"])
def test_kinds_are_compared_where_no_group_of_users_has_two(mixed):
    numbers, texts = range(20), [str(i) for i in range(20)]
    users = [in_group(0, numbers), in_group(1, texts if mixed == "users" else numbers)]
    items = [np.zeros(len(ids), dtype=np.int64) for ids in users]
    if mixed == "items":
        items[1] = items[1].astype(str).astype(object)
    columns = [list(map(dask.delayed, column)) for column in (users, items)]
    with (
        quiet(),
        pytest.raises(ValueError, match=f"{mixed} must contain ids of one kind"),
    ):
        ClusterUsers(columns, _count, "users", "items")


def _count(users, items):
    return len(users)
