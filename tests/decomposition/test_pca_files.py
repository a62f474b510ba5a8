"""What leaves a fit: clones, pickles, files, and what published copies hold."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyLeakWarning

NAMES = ["age", "größe", "c", "d"]


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(80, 4))


@pytest.fixture
def frame(X):
    return pd.DataFrame(X, columns=NAMES)


LOW, HIGH = np.full(4, -5.0), np.array([5.0, 5.0, 6.0, 5.0])
FULL = {
    "n_components": np.int64(3),
    "epsilon": 0.5,
    "delta": 1e-9,
    "bounds": (LOW, HIGH),
    "center": "pairs",
    "scale": "bounds",
}


def same_fit(first, second):
    def told(pca):
        # Of a plan its text: its hash tells which of its numbers are one object.
        state = dict(pca._public_state())
        return joblib.hash({**state, "privacy_": state["privacy_"].to_json()})

    return told(first) == told(second)


SHAPES = {
    "default": {},
    "arrays": FULL,
    "series": {"bounds": (pd.Series(LOW), pd.Series(HIGH))},
    "numbers": {"bounds": (np.int64(-5), np.float32(5))},
    "table": {"bounds": np.stack([LOW, HIGH])},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("named", [True, False])
def test_a_saved_estimator_comes_back_whole(X, frame, tmp_path, shape, named):
    given = frame if named else X
    pca = DPPCA(**SHAPES[shape]).fit(given)
    pca.save(tmp_path / "pca.npz")
    loaded = DPPCA.load(tmp_path / "pca.npz")
    assert same_fit(loaded, pca)
    assert hasattr(loaded, "feature_names_in_") == named
    assert np.array_equal(loaded.transform(given), pca.transform(given))
    scores = loaded.transform(given)
    assert np.array_equal(
        loaded.inverse_transform(scores), pca.inverse_transform(scores)
    )
    assert loaded.privacy_plan(80, 4) == pca.privacy_plan(80, 4)
    for name, value in pca.get_params().items():
        np.testing.assert_array_equal(getattr(loaded, name), value)
    loaded.save(tmp_path / "again.npz")
    assert same_fit(DPPCA.load(tmp_path / "again.npz"), pca)


def test_an_estimator_without_privacy_is_published_loudly(X, tmp_path):
    pca = DPPCA(epsilon=None)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        pca.fit(X)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        pca.save(tmp_path / "pca.npz")
    assert not DPPCA.load(tmp_path / "pca.npz").privacy_.private


SEED = 918273645
ENCODINGS = ("utf-8", "utf-16-le", "utf-32-le")


def traces(data, accountant):
    """What in these bytes tells of the seed or of the ledger."""
    secrets = {
        "path": accountant.path,
        "folder": accountant.path.rpartition("/")[0].rpartition("/")[2],
        "id": accountant._id,
        "seed": str(SEED),
    }
    found = {
        name
        for name, text in secrets.items()
        if any(text.encode(encoding) in data for encoding in ENCODINGS)
    }
    if SEED.to_bytes(4, "little") in data or SEED.to_bytes(4, "big") in data:
        found.add("seed")
    return found


def test_what_is_published_tells_of_neither_ledger_nor_seed(frame, tmp_path):
    accountant = PrivacyAccountant()
    pca = DPPCA(accountant=accountant, noise_seed=SEED).fit(frame)
    assert traces(pickle.dumps(pca), accountant) == {"path", "folder", "id", "seed"}
    with pytest.warns(PrivacyLeakWarning, match="came from a seed"):
        published = pca.publish()
    with pytest.warns(PrivacyLeakWarning, match="came from a seed"):
        pca.save(tmp_path / "pca.npz")
    assert published.accountant is None
    assert published.noise_seed is None
    assert not traces(pickle.dumps(published), accountant)
    assert not traces((tmp_path / "pca.npz").read_bytes(), accountant)


def test_a_file_written_in_a_with_block_does_not_tell_of_the_ledger(frame, tmp_path):
    with PrivacyAccountant(5.0) as accountant:
        pca = DPPCA().fit(frame)
        assert "path" in traces(pickle.dumps(pca), accountant)
        pca.save(tmp_path / "pca.npz")
    assert not traces((tmp_path / "pca.npz").read_bytes(), accountant)


def test_a_saved_estimator_gives_the_same_tables(frame, tmp_path):
    pca = DPPCA().set_output(transform="pandas").fit(frame)
    pca.save(tmp_path / "pca.npz")
    loaded = DPPCA.load(tmp_path / "pca.npz")
    pd.testing.assert_frame_equal(loaded.transform(frame), pca.transform(frame))
    plain = DPPCA().fit(frame)
    plain.save(tmp_path / "plain.npz")
    assert isinstance(DPPCA.load(tmp_path / "plain.npz").transform(frame), np.ndarray)
