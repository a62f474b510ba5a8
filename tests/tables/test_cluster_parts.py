"""Collections of dask: forms that cost nothing, and parts that are not as declared."""

import re
from functools import partial

import numpy as np
import pytest
from cluster_tools import check_same, outcome, quiet
from sklearn.preprocessing import FunctionTransformer

import skdpspectral as sk
from skdpspectral._tables.columns import joined_ids
from skdpspectral._tables.table import _applied, _sums_of_pool
from skdpspectral.pipeline import make_private_pipeline

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

N = 400
rng = np.random.default_rng(0)
X, Y, USERS = rng.standard_normal((N, 3)), rng.standard_normal(N), np.arange(N) % 40
FRAME = pd.DataFrame(X, columns=list("abc")).assign(user=USERS)
RATINGS = FRAME[["user"]].assign(item=np.arange(N) % 7, rating=np.arange(N) % 5)
ROWS, TARGETS = da.from_array(X, chunks=(N // 2, 3)), da.from_array(Y, chunks=N // 2)
HOW = {"items": range(7), "user_feature": "user", "item_feature": "item"}
HOW["rating_range"] = (0, 4)


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def column(values):
    return dd.from_pandas(pd.Series(values), npartitions=2)


def in_parts(*parts):
    """A dask dataframe of tasks that nobody compares to its meta."""
    parts = [dask.delayed(part) for part in parts]
    meta = RATINGS if "item" in parts[0].compute().columns else FRAME
    return dd.from_delayed(parts, meta=meta[:0], verify_meta=False)


def halves(frame, second):
    """A frame of which the second half is changed, and not its meta."""
    return in_parts(frame[: N // 2], second(frame[N // 2 :].copy()))


def fit_regression(targets, users=USERS, rows=X, **how):
    return sk.LRSRegressor(1, 1, **how).fit(rows, targets, users=users)


def fit_ridge(targets, **how):
    return sk.DPRidge(**how).fit(ROWS, targets)


def fit_items(targets, **how):
    frame = dd.from_pandas(RATINGS[["user", "item"]], npartitions=2)
    return sk.DPItemEmbedding(**HOW, **how).fit(frame, targets)


def refused(fit, *data, match, charged=0, error=ValueError):
    accountant = sk.PrivacyAccountant()
    with quiet(), pytest.raises(error, match=match) as caught:
        fit(*data, accountant=accountant)
    assert len(accountant.ledger) == charged
    assert "SECRET" not in str(caught.value)


TIMES = USERS.astype("M8[ns]")


@pytest.mark.parametrize("fit", [fit_regression, fit_items, fit_ridge])
@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (TARGETS.astype(complex), "y must contain real numbers"),
        (column(Y.astype(complex)), "y must contain real numbers"),
        (da.from_array(TIMES, chunks=N // 2), "y must contain numbers"),
        (column(TIMES), "y must contain numbers"),
        (dd.from_pandas(pd.DataFrame({"y": Y, "z": Y}), npartitions=2), "one column"),
        (TARGETS[1:], "inconsistent numbers of samples"),
        (column(Y[1:]), "inconsistent numbers of samples"),
    ],
)
def test_targets_of_another_form_cost_nothing(fit, targets, match):
    refused(fit, targets, match=match)


@pytest.mark.parametrize("fit", [fit_regression, fit_items, fit_ridge])
def test_what_lies_under_a_mask_is_no_target(fit):
    mask = da.from_array(USERS == 3, chunks=N // 2)
    match = "y has masked values"
    refused(fit, da.ma.masked_array(TARGETS, mask), match=match, charged=1)


def test_ids_of_another_form_and_tables_without_rows_cost_nothing():
    users = dd.from_pandas(pd.DataFrame({"user": USERS}), npartitions=2)
    refused(fit_regression, TARGETS, users, match="users must be one column")
    frame = dd.from_pandas(FRAME, npartitions=2)

    def fit(X, *, accountant):
        sk.DPPCA(1, accountant=accountant).fit(X)

    refused(fit, frame[frame.user > N], match=r"0 sample\(s\)")


@pytest.mark.parametrize(
    "model",
    [
        sk.FederatedDPPCA(1, client_feature=0),
        sk.LRSRegressor(1, 1, user_feature=0),
        sk.SparseDPPCA(1),
        sk.LRSMLPRegressor(1, 0.1, user_feature=0),
        *(sk.DPTableVectorizer(), sk.DPAdamClassifier(), sk.JMECovariance()),
    ],
)
def test_estimators_of_rows_in_memory_refuse_clusters_before_the_charge(model):
    def fit(X, *, accountant):
        model.set_params(accountant=accountant).fit(X, Y)

    refused(fit, ROWS, match=r"X\.compute\(\)", error=TypeError)


@pytest.mark.parametrize("step", ["passthrough", FunctionTransformer()])
@pytest.mark.parametrize("last", [sk.DPTableVectorizer(), sk.DPPCA(1)])
def test_pipelines_begin_with_a_step_that_reads_clusters(step, last):
    def fit(X, *, accountant):
        make_private_pipeline(step, last, accountant=accountant).fit(X)

    match = r"PrivatePipeline does not take dask collections.*X\.compute\(\)"
    refused(fit, ROWS, match=match, error=TypeError)


# -- parts that are not what their collection says -------------------------------------


def test_columns_in_another_order_are_not_taken_for_each_other():
    frame = halves(FRAME, lambda part: part[["c", "b", "a", "user"]])

    def fit(X, *, accountant):
        sk.DPPCA(1, accountant=accountant).fit(X)

    refused(fit, frame, match="a part has different columns")


@pytest.mark.parametrize("n_reads", [1, 2])
def test_no_reading_of_a_part_quotes_what_it_finds(n_reads):
    """Of a part that is something else when it is read again, too."""
    text, reads = FRAME[N // 2 :].astype({"a": object}), []
    text.iloc[0, 0] = "SECRET-17"

    def read():
        reads.append(1)
        return FRAME[N // 2 :] if len(reads) <= n_reads else text

    parts = [dask.delayed(FRAME[: N // 2]), dask.delayed(read, pure=False)()]
    frame = dd.from_delayed(parts, meta=FRAME[:0], verify_meta=False)
    with (
        quiet(),
        pytest.raises(ValueError, match=r"workers' logs|could not convert") as caught,
    ):
        sk.DPPCA(1).fit(frame, Y)
    assert "SECRET" not in str(caught.value)


def fail(part):
    if len(part):
        raise ValueError("could not convert string to float: 'SECRET-17'")
    return part


def test_predictions_of_rows_on_a_cluster_quote_nothing():
    rows = ROWS.map_blocks(fail, dtype=float, meta=np.empty((0, 0)))
    frame = dd.from_pandas(RATINGS, npartitions=2)
    with quiet():
        rated = sk.DPMatrixFactorization(**HOW).fit(frame)
        frame = frame.map_partitions(fail, meta=RATINGS[:0])
        calls = [
            lambda: rated.predict(frame),
            lambda: sk.DPPCA(1).fit(X).transform(rows),
        ]
    for call in calls:
        with quiet(), pytest.raises(ValueError, match=re.escape("(ValueError)")) as e:
            call()
        assert "SECRET" not in str(e.value)


def test_floats_among_whole_numbers_are_not_cut():
    """The type of a part counts, whatever the collection calls it."""
    whole = FRAME[["a", "b", "c"]].round().astype("int64")

    def told(second):
        parts = map(dask.delayed, (whole[: N // 2], second(whole[N // 2 :])))
        return dd.from_delayed(list(parts), meta=whole[:0], verify_meta=False)

    true = pd.concat([whole[: N // 2].astype(float), whole[N // 2 :] * 0.5])
    with quiet():
        pca = sk.DPPCA(noise_seed=1)
        halved = told(lambda part: part * 0.5)
        check_same(outcome(pca, true.to_numpy()), outcome(pca, halved))
        with pytest.raises(ValueError, match="contains infinity"):
            pca.fit(told(lambda part: part.assign(a=np.inf)))
        with pytest.raises(ValueError, match="numbers, not dates"):
            pca.fit(told(lambda part: part.assign(a=pd.Timestamp(0))))


def test_ids_of_fewer_or_more_rows_are_refused():
    """Rows are nobody's, or somebody else's, where ids are too few or too many."""
    for wrong in (USERS[: N // 2 - 1], np.append(USERS[: N // 2], 0)):
        parts = [dask.delayed(wrong), dask.delayed(USERS[N // 2 :])]
        parts = [da.from_delayed(part, (N // 2,), int) for part in parts]
        ids, match = da.concatenate(parts), "one id per row"
        refused(fit_regression, TARGETS, ids, match=match, charged=1)


def test_ids_of_other_kinds_in_other_parts_are_no_ids():
    """As in memory: numpy would make two users one, 1 and "1"."""
    accountant = sk.PrivacyAccountant()
    for name in ("user", "item"):
        whole = RATINGS.assign(**{name: RATINGS[name].astype(object)})
        mixed = halves(whole, lambda part, n=name: part.assign(**{n: part[n].map(str)}))
        model = sk.DPMatrixFactorization(**HOW, accountant=accountant)
        with (
            quiet(),
            pytest.raises(ValueError, match=f"{name}_feature .*(one kind|numbers)"),
        ):
            model.fit(mixed)
    assert len(accountant.ledger) == 2
    ids = [1 if k % 2 else "1" for k in range(N)]
    match = "users must contain ids of one kind"
    refused(fit_regression, TARGETS, ids, match=match, charged=1)


def test_a_part_without_rows_has_no_say_in_the_kind_of_ids():
    text, empty = np.array(["1"], object), np.empty(0, np.int64)
    for parts in ([empty, text], [text, empty]):
        assert joined_ids(parts, "users").tolist() == ["1"]
    assert len(joined_ids([empty, empty[:0]], "users")) == 0
    with pytest.raises(ValueError, match="users must contain ids of one kind"):
        joined_ids([np.array([-1, 2]), text], "users")


def test_maps_of_pools_are_quiet():
    """A warning of a worker would tell of somebody's values."""
    summed = partial(_sums_of_pool, _Blocks(), _sum, _overflow)
    with np.errstate(all="raise"):
        found = _applied(summed, np.ones((3, 2)))
    assert np.isinf(found).all()


class _Blocks:
    def blocks_of_a_pool(self, rows, places):
        yield rows[places]


def _sum(blocks):
    return np.sum([block.sum(axis=0) for block in blocks], axis=0)


def _overflow(rows):
    return rows * 1e300 * 1e300
