"""DPPCA on sparse rows and on files: the same as on dense rows in memory."""

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from release_tools import record_releases
from scipy import sparse

from skdpspectral import DPPCA
from skdpspectral._tables.clipping import clip_rows, normalize_rows
from skdpspectral.decomposition import SpikedPCA

SETTINGS = [{}, {"epsilon": 0.1}, {"signal_variance": 2.0, "noise_variance": 1.0}]


def sparse_rows(n=3000, p=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.2)
    X[:, 0] += 2.0 * rng.standard_normal(n)
    X[17] = 0.0
    return X


@pytest.mark.sampled(6)
@pytest.mark.parametrize("center", ["none", "pairs"])
@pytest.mark.parametrize("parameters", SETTINGS)
@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array]
)
def test_sparse_rows_release_what_dense_ones_do(kind, parameters, center):
    kind_of_pca, settings = DPPCA, {**parameters, "center": center}
    if "signal_variance" in parameters:
        kind_of_pca, settings = SpikedPCA, parameters
    X = sparse_rows()
    if center == "pairs" and kind_of_pca is DPPCA:
        # Lengths would be searched for in more dense rows.
        settings = {"epsilon": 0.05, **settings}
        X = X[:100]
    rows = kind(X)
    before = rows.toarray()
    models, transcripts = [], []
    for data in (X, rows):
        with record_releases() as released:
            models.append(kind_of_pca(1, noise_seed=0, **settings).fit(data))
        transcripts.append(released)
    assert transcripts[0].keys() == transcripts[1].keys()
    for name, values in transcripts[0].items():
        np.testing.assert_allclose(transcripts[1][name], values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        models[1].transform(rows), models[0].transform(X), atol=1e-6
    )
    np.testing.assert_array_equal(rows.toarray(), before)


@pytest.mark.slow
@pytest.mark.dependencies
def test_fits_of_sparse_rows_do_not_make_them_dense(monkeypatch):
    """Of 4000 x 1000 rows, no dense array but of products of features."""
    X = sparse.csr_array(sparse.random(4000, 1000, density=0.002, random_state=0))
    whole = sparse.csr_array.toarray
    sizes = []

    def noted(self, *args, **kwargs):
        sizes.append(self.shape)
        return whole(self, *args, **kwargs)

    for kind in (sparse.csr_array, sparse.csc_array):
        monkeypatch.setattr(kind, "toarray", noted)
    DPPCA(2).fit(X)
    assert set(sizes) == {(1000, 1000)}


@pytest.mark.parametrize("value", [1e308, 5e-324, 1e-162, 1e155, np.nan, np.inf])
@pytest.mark.parametrize("bound", [clip_rows, normalize_rows])
def test_sparse_rows_are_bounded_as_dense_ones_are(bound, value):
    X = sparse_rows(40, 7)
    X[3], X[5, 2], X[8, :2] = value, value, [value, -value]
    arguments = (0.7,) if bound is clip_rows else ()
    dense = bound(X, *arguments)
    found = bound(sparse.csr_array(X), *arguments).toarray()
    np.testing.assert_allclose(found, dense, rtol=1e-14, atol=1e-300)
    norms = np.linalg.norm(found, axis=1)
    limit = arguments[0] if arguments else 1.0
    assert norms.max() <= limit * (1 + 4 * 2.0**-52)


def test_entries_at_the_same_place_are_one_number():
    """Their squares must not be summed one by one: the norm would be too small."""
    rows = np.array([0] * 50 + [1] * 2)
    columns = np.array([2] * 50 + [0, 1])
    X = sparse.csr_array((np.ones(52), columns, [0, 50, 52]), shape=(2, 3))
    assert X.nnz == 52 == len(rows)
    for bounded in (clip_rows(X, 1.0), normalize_rows(X)):
        np.testing.assert_allclose(np.linalg.norm(bounded.toarray(), axis=1), 1.0)
    with record_releases() as released:
        DPPCA(1, epsilon=100.0, noise_seed=0).fit(X)
    with record_releases() as dense:
        DPPCA(1, epsilon=100.0, noise_seed=0).fit(X.toarray())
    np.testing.assert_allclose(released["second_moment"], dense["second_moment"])
    assert X.nnz == 52


def test_rows_that_a_center_would_fill_are_refused_for_free():
    X = sparse.csr_array(sparse_rows())
    for rows in (X, pd.DataFrame.sparse.from_spmatrix(X)):
        with refused("Sparse data was passed for X", TypeError) as accountant:
            DPPCA(1, accountant=accountant, bounds=(-1, 1)).fit(rows)


# Which newer releases of scikit-learn warn of.
@pytest.mark.filterwarnings("ignore:.*sparse columns")
@pytest.mark.parametrize("scale", [None, "ranks"])
def test_frames_of_sparse_columns_are_sparse_rows(scale):
    """Known from their form: nothing is planned that would fill them."""
    X = sparse.csr_array(sparse_rows())
    frame, fits = pd.DataFrame.sparse.from_spmatrix(X), []
    frame.columns = [f"x{i}" for i in range(X.shape[1])]
    for rows in (X, frame):
        fits.append(DPPCA(1, epsilon=60.0, scale=scale, noise_seed=0).fit(rows))
    assert fits[0].privacy_.mechanisms == fits[1].privacy_.mechanisms
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)
    # One dense column makes the frame a dense one.
    frame["x0"] = frame["x0"].sparse.to_dense()
    pca = DPPCA(1, epsilon=60.0, scale=scale, noise_seed=0)
    planned = {m.name for m in pca.fit(frame).privacy_.releases()}
    assert "lengths" in planned or scale


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("parameters", [*SETTINGS, {"bounds": (-3, 3)}])
def test_rows_on_a_disk_release_what_rows_in_memory_do(tmp_path, kind, parameters):
    X = (10 * sparse_rows(5000, 8)).astype(kind)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    releases = []
    for data in (X, mapped):
        with record_releases() as released:
            kind_of_pca = SpikedPCA if "signal_variance" in parameters else DPPCA
            kind_of_pca(2, noise_seed=0, **parameters).fit(data)
        releases.append(released)
    for name, values in releases[0].items():
        np.testing.assert_array_equal(releases[1][name], values)


@pytest.mark.slow
@pytest.mark.dependencies
def test_a_map_of_integers_is_converted_block_by_block(tmp_path):
    """Peak memory of a fit stays far below that of the rows in float64."""
    import tracemalloc

    X = np.lib.format.open_memmap(
        tmp_path / "X.npy", mode="w+", dtype=np.uint8, shape=(400_000, 50)
    )
    X[:, 0] = np.arange(400_000) % 7
    tracemalloc.start()
    DPPCA(1).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 400_000 * 50 * 8
