"""DPPCA on rows that are read slice by slice: maps, and arrays of other libraries."""

import numpy as np
import pytest
from release_tools import record_releases
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sliced_rows import BrokenTable, ChangingTable, SlicedTable

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyLeakWarning
from skdpspectral._tables.table import SlicedRows, sliced_rows
from skdpspectral.decomposition import SpikedPCA

pytestmark = pytest.mark.slow

SPIKED = {"signal_variance": 9.0, "noise_variance": 1.0}
# A signal that is strong enough for the model's bound where rows are few or wide.
STRONG = {"signal_variance": 1e4, "noise_variance": 1.0}
SETTINGS = {
    "default": {},
    "pairs": {"center": "pairs"},
    "about the origin": {"center": "none"},
    "bounds": {"bounds": (-3, 3)},
    "ranks": {"scale": "ranks"},
    "rank": {"n_components": "auto"},
    "spiked": {**SPIKED, "release": "covariance"},
}


def rows(n=5000, p=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) * np.r_[3.0, 2.0, np.ones(p - 2)]


def made_with(parameters):
    """An estimator of these parameters, with a seed."""
    kind = SpikedPCA if "signal_variance" in parameters else DPPCA
    return kind(noise_seed=0, **parameters)


def released(X, **parameters):
    """Releases of a fit, and what it makes of rows."""
    with record_releases() as transcript:
        pca = made_with(parameters).fit(X)
    made = {"transform": pca.transform(X)}
    if hasattr(pca, "score_samples"):
        made["score_samples"] = pca.score_samples(X)
    return transcript | made


def check_equal(X, other, **parameters):
    wanted, found = (released(data, **parameters) for data in (X, other))
    assert wanted.keys() == found.keys()
    for name, values in wanted.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values, err_msg=name)


# -- slices of arrays of other libraries -----------------------------------------------


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", ">f8", "i2", "u8", "?", "g"])
@pytest.mark.parametrize("parameters", SETTINGS.values(), ids=SETTINGS)
def test_slices_release_what_an_array_does(kind, parameters):
    X = np.round(10 * np.abs(rows()))
    X = (X > 9).astype("?") if kind == "?" else X.astype(kind)
    table = SlicedTable(X)
    check_equal(X, table, **parameters)
    assert table.longest <= 2048


@pytest.mark.parametrize(("n", "p", "rank"), [(500, 2100, 2), (300, 2100, 2)])
def test_wide_slices_release_what_an_array_does(n, p, rank):
    """Above the order from which no p x p matrix is formed."""
    X = rows(n, p)
    check_equal(X, SlicedTable(X), n_components=rank, **STRONG)


@pytest.mark.slow
def test_slices_of_many_components_release_what_an_array_does():
    X = rows(2200, 2100)
    table = SlicedTable(X)
    check_equal(X, table, n_components=120, **STRONG)
    assert table.longest < len(X)


@pytest.mark.parametrize("later", [np.nan, np.inf, -np.inf, 1e308, 1e-320])
@pytest.mark.parametrize("parameters", SETTINGS.values(), ids=SETTINGS)
def test_values_that_change_after_the_check_are_bounded(later, parameters):
    """A file that another program writes to: releases are finite and of the plan."""
    table = ChangingTable(rows(4000), later)
    with record_releases() as transcript:
        pca = made_with(parameters).fit(table)
    assert table.n_read > len(table.values)
    for values in transcript.values():
        assert np.isfinite(values).all()
    assert np.isfinite(pca.components_).all()
    if isinstance(pca, DPPCA):
        assert np.isfinite(pca.explained_variance_).all()


@pytest.mark.parametrize("value", [1e6, np.nan, 1e200])
def test_a_file_that_changes_while_a_block_is_bounded(value, tmp_path, monkeypatch):
    """Between any two uses of a block another program writes a long row."""
    np.save(tmp_path / "rows.npy", np.ones((100, 3)))
    X = np.load(tmp_path / "rows.npy", mmap_mode="r")
    written = np.load(tmp_path / "rows.npy", mmap_mode="r+")
    inner, calls = np.vecdot, []

    def vecdot(*rows):
        result = inner(*rows)
        written[7] = value
        calls.append(value)
        return result

    monkeypatch.setattr(np, "vecdot", vecdot)
    pca = DPPCA(1, epsilon=None, center="none")
    with pytest.warns(PrivacyLeakWarning):
        pca.fit(X)
    assert calls
    assert not np.array_equal(X[7], np.ones(3))
    assert 0.0 < pca.explained_variance_[0] <= 1.0 + 1e-12


def test_a_table_that_fails_after_the_check_leaves_the_estimator_as_it_was():
    table, pca = ChangingTable(rows(4000), 0.0), DPPCA(noise_seed=0).fit(rows())
    before = pca.components_
    read = type(table).__getitem__

    class Failing(ChangingTable):
        def __getitem__(self, part):
            block = read(self, part)
            return block[:-1] if self.n_read > len(self.values) else block

    with pytest.raises(ValueError, match=r"X\[\d+:\d+\] has shape \(\d+, 8\)"):
        pca.fit(Failing(rows(4000), 0.0))
    assert pca.components_ is before


def test_errors_of_a_file_quote_nothing():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="could not be read as an array") as caught:
        DPPCA(accountant=accountant).fit(BrokenTable(rows()))
    error = caught.value
    assert "OSError" in str(error)
    assert "secret" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    # Its values were read after the charge, as all values are.
    assert len(accountant.ledger) == 1


def test_what_is_no_table_of_another_library_is_left_alone():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X = rows(20)
    tables = [X, X.tolist(), pd.DataFrame(X), pl.DataFrame(X), pd.Series(X[0]), 3.0]
    for table in [*tables, np.float64(3.0), pl.Series(X[0]), {"a": 1}, None]:
        assert sliced_rows(table) is None
    assert isinstance(sliced_rows(SlicedTable(X)), SlicedRows)


def test_h5py(tmp_path):
    h5py = pytest.importorskip("h5py")
    X = rows()
    with h5py.File(tmp_path / "X.h5", "w") as file:
        check_equal(X, file.create_dataset("X", data=X, chunks=(500, 8)))


def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    X = rows()
    check_equal(X, zarr.array(X, chunks=(500, 8)))


# -- memory maps -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["f8", "f4", "f2", ">f8", "u1"])
def test_maps_release_what_arrays_do(tmp_path, mode, order, kind):
    """Slices with steps and offsets too."""
    X = np.abs(rows(6000, 40)).astype(kind).copy(order=order)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode=mode)
    for part in (np.s_[:], np.s_[7:5000:3, 2:30:5], np.s_[::-1, ::-1]):
        assert isinstance(sliced_rows(mapped[part]), SlicedRows)
        check_equal(X[part], mapped[part])


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_changes_of_a_map_survive(tmp_path, mode):
    """Those of a copy on write live in its pages alone."""
    np.save(tmp_path / "X.npy", rows(6000, 40))
    mapped = np.load(tmp_path / "X.npy", mmap_mode=mode)
    mapped *= 2.0
    wanted = np.array(mapped)
    check_equal(wanted, mapped)
    np.testing.assert_array_equal(mapped, wanted)
    np.testing.assert_array_equal(wanted, 2.0 * rows(6000, 40))


def test_a_pipeline_and_fit_transform_take_slices():
    X = rows()
    pca = DPPCA(noise_seed=0)
    wanted = make_pipeline(clone(pca)).fit_transform(X)
    table = SlicedTable(X)
    np.testing.assert_array_equal(make_pipeline(pca).fit_transform(table), wanted)
    frame = clone(pca).set_output(transform="pandas").fit_transform(table)
    np.testing.assert_array_equal(frame, wanted)
    assert list(frame.columns) == ["dppca0", "dppca1"]
