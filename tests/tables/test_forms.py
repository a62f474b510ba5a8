"""One table in every form that the guide names: the same releases, bit for bit."""

import numpy as np
import pytest
from cluster_tools import check_same, outcome, quiet
from containers import CONTAINERS, DISTANT
from ledger_tools import refused
from sklearn.base import clone

import skdpspectral as sk
from skdpspectral._tables import table as module
from skdpspectral._tables.table import parquet

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
pytest.importorskip("dask.dataframe")
FORMS = CONTAINERS | DISTANT
MODELS = {
    "pca": sk.DPPCA(noise_seed=0),
    "pca of pairs": sk.DPPCA(noise_seed=0, center="pairs"),
    "covariance": sk.DPCovariance(noise_seed=0),
    "scaler": sk.DPStandardScaler(noise_seed=0),
    "scaler without means": sk.DPStandardScaler(noise_seed=0, with_mean=False),
    "ridge": sk.DPRidge(noise_seed=0),
}
# Whole numbers, which all types hold exactly.
X = np.random.default_rng(0).integers(-50, 50, (3001, 4)) * [1.0, 2.0, 1.0, 2.0]
Y = X[:, 0] - X[:, 3]


def applied(model, rows):
    for name in ("transform", "mahalanobis", "predict"):
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(rows))
    raise AssertionError


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_releases_the_same_bits(name, form, tmp_path):
    import dask

    model = clone(MODELS[name])
    given = FORMS[form](X.copy(), tmp_path)
    with quiet(), dask.config.set(scheduler="synchronous"):
        wanted = outcome(model, X, Y)
        expected = applied(model, X)
        found = outcome(model, given, Y)
        check_same(wanted, found)
        assert model.plan_for(given) == model.plan_for(X)
        made = applied(model, given)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
    if isinstance(model, sk.DPStandardScaler):
        float32 = str(getattr(given, "dtype", "")) == "float32"
        assert made.dtype == (np.float32 if float32 else np.float64)
    if hasattr(given, "columns") and not form.endswith("index"):
        assert model.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize("form", ["pandas", "polars", "pyarrow"])
def test_tables_of_any_library_become_the_same_vectors(form, tmp_path):
    frame = CONTAINERS["pandas"](X, tmp_path).astype({"a": str})
    frame.loc[::7, ["b", "c"]] = np.nan
    made = {"pandas": lambda: frame}
    if form == "polars":
        made[form] = lambda: pytest.importorskip("polars").from_pandas(frame)
    if form == "pyarrow":
        made[form] = lambda: pytest.importorskip("pyarrow").Table.from_pandas(frame)
    model = sk.DPTableVectorizer(noise_seed=0)
    with quiet():
        wanted, expected = outcome(model, frame), model.transform(frame)
        check_same(wanted, outcome(model, made[form]()))
    np.testing.assert_array_equal(model.transform(made[form]()), expected)


def test_columns_may_have_names_of_attributes():
    """pandas has columns as attributes, which say nothing about the form of a table."""
    names = ["column_names", "dtype", "iter_batches", "schema_arrow"]
    accountant = sk.PrivacyAccountant()
    pca = sk.DPPCA(noise_seed=0, accountant=accountant).fit(
        pd.DataFrame(X, columns=names)
    )
    assert list(pca.feature_names_in_) == names
    assert len(accountant.ledger) == 1
    np.testing.assert_array_equal(
        pca.components_, sk.DPPCA(noise_seed=0).fit(X).components_
    )


def test_texts_of_numpy_are_labels():
    labels = np.where(Y > 0, "p", "q")
    model = sk.DPRidgeClassifier(classes=["p", "q"], noise_seed=0)
    with quiet():
        wanted = outcome(model, X, labels)
        for given in (labels.astype(object), labels.astype(np.dtypes.StringDType())):
            check_same(wanted, outcome(model, X, given))
        model.set_params(classes=np.array(["p", "q"], np.dtypes.StringDType()))
        check_same(wanted, outcome(model, X, labels))
    assert set(model.predict(X)) == {"p", "q"}


# -- parquet files ---------------------------------------------------------------------

N = 36_003
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.standard_normal((N, 4)) + 1.0, columns=list("abcd"))


@pytest.fixture(params=["file", "files"])
def opened(request, tmp_path, monkeypatch):
    """Open a frame as one file of several groups, or several files."""
    monkeypatch.setattr(module, "_BATCH_NUMBERS", 4 * 1000)

    def write(frame):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if request.param == "file":
            pq.write_table(table, tmp_path / "X.parquet", row_group_size=7001)
            return ds.dataset(tmp_path / "X.parquet")
        (tmp_path / "files").mkdir()
        for k, start in enumerate(range(0, len(frame), 15_000)):
            part = tmp_path / "files" / f"{k}.parquet"
            pq.write_table(table.slice(start, 15_000), part, row_group_size=4000)
        return ds.dataset(tmp_path / "files")

    return write


@pytest.mark.parametrize("kind", ["float32", "int16", "uint64", "bool", "mixed"])
def test_slices_have_the_bits_of_columns(opened, kind):
    frame = (10 * FRAME).round().abs()
    mixed = {"a": "int64", "b": "float32", "c": "int8"}
    frame = frame.astype(mixed if kind == "mixed" else kind)
    rows, wanted = parquet(opened(frame)).rows(), frame.to_numpy(float)
    assert rows.shape == frame.shape
    spans = [(0, 5), (6990, 7010), (0, 2048), (35_999, N), (14_000, 22_500), (3, 3)]
    for start, stop in spans:
        found = rows[start:stop]
        np.testing.assert_array_equal(found, wanted[start:stop])
        assert len(rows._batch) <= 1000
    assert rows.dtype == (np.float64 if kind in ("bool", "mixed") else np.dtype(kind))


def test_missing_values_are_told_after_the_charge(opened):
    frame = FRAME.astype({"a": "Float64"})
    frame.loc[30_000, "a"] = pd.NA
    accountant = sk.PrivacyAccountant()
    with pytest.raises(ValueError, match="Input X contains NaN"):
        sk.DPPCA(accountant=accountant).fit(opened(frame))
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["x"] * N, "X has dtype .*string in column 'e'"),
        (pd.date_range("2020", periods=N), "dates"),
        ([[1.0, 2.0]] * N, "X must contain numbers: columns of lists"),
    ],
)
def test_columns_without_numbers_are_refused(opened, column, message):
    with refused(message) as accountant:
        sk.DPPCA(accountant=accountant).fit(opened(FRAME.assign(e=column)))


def test_what_rows_a_dataset_has_is_known(tmp_path):
    """A filter is not forgotten, and other formats are not counted by reading."""
    table = pa.Table.from_pandas(FRAME[:100], preserve_index=False)
    pq.write_table(table, tmp_path / "X.parquet")
    rows = ds.dataset(tmp_path / "X.parquet")
    with pytest.raises(ValueError, match="without a filter"):
        sk.DPPCA().fit(rows.filter(ds.field("a") > 0))
    with pytest.raises(ValueError, match="parquet files"):
        sk.DPPCA().fit(ds.dataset(table))
    with pytest.raises(TypeError, match=r"ParquetFile: pass pyarrow.dataset"):
        sk.DPPCA().fit(pq.ParquetFile(tmp_path / "X.parquet"))
    with pytest.raises(ValueError, match=r"pyarrow.parquet.read_table"):
        sk.DPAdamRegressor(target_bounds=(0, 1)).fit(rows, np.zeros(100))


def test_a_file_that_is_cut_off(tmp_path):
    file = tmp_path / "X.parquet"
    pq.write_table(pa.Table.from_pandas(FRAME, preserve_index=False), file)
    rows = parquet(ds.dataset(file)).rows()
    rows._source.batches = lambda group: iter(())
    with pytest.raises(ValueError, match=r"could not be read|has changed"):
        rows[0:10]
    with pytest.raises(TypeError, match="cannot be copied"):
        rows.__getstate__()
