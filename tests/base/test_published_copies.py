"""Published copies, files, pickles and clones of all settings hold what was fitted."""

import json
import pickle

import numpy as np
import pytest
from replay import encode, public_of
from sklearn.base import clone
from test_common import ESTIMATORS, a_table

from skdpspectral import DPTableVectorizer, FederatedDPPCA, PrivacyAccountant

METHODS = ("transform", "predict", "predict_proba", "score_samples", "get_covariance")


def shown(model, X):
    """Return what a model holds and makes of rows, ledgers and seeds apart."""
    held = public_of(model) | {"(accountant)": None, "(noise_seed)": None}
    # Files have lists for tuples and ranges.
    held = {k: list(v) if isinstance(v, range) else v for k, v in held.items()}
    plain = str.maketrans("", "", "\"'")
    found = {k: str(encode(v)).replace("tuple", "list") for k, v in held.items()}
    found = {name: value.translate(plain) for name, value in found.items()}
    for name in METHODS:
        if hasattr(model, name) and not hasattr(model, "_personal"):
            rows = () if name == "get_covariance" else (X,)
            found[name] = encode(getattr(model, name)(*rows))
    if hasattr(model, "get_feature_names_out"):
        found["names"] = encode(model.get_feature_names_out())
    return found


def test_positions_of_columns_come_back_from_a_file(tmp_path):
    """JSON has texts alone for keys."""
    X = np.column_stack([np.arange(60) % 2, np.ones(60)])
    model = DPTableVectorizer(categories={0: [0.0, 1.0], np.int64(1): "find"}).fit(X)
    model.save(tmp_path / "model.npz")
    loaded = DPTableVectorizer.load(tmp_path / "model.npz")
    assert loaded.categories == model.categories
    assert {type(key) for key in loaded.categories} == {int}
    assert loaded.categories_ == clone(loaded).fit(X).categories_


def test_files_of_an_earlier_format_are_refused_by_it(tmp_path):
    """They have budgets of clients in another form."""
    path = tmp_path / "model.npz"
    model = FederatedDPPCA(1, epsilon={"a": 1.0}, client_feature=0)
    model.fit(np.column_stack([["a"] * 60, np.ones((60, 2))]).astype(object)).save(path)
    with np.load(path) as archive:
        parts = {name: archive[name] for name in archive.files}
    header = json.loads(str(parts["header"]))
    assert FederatedDPPCA.load(path).epsilon == {"a": 1.0}
    header |= {"format": 1, "parameters": {**header["parameters"], "epsilon": {"a": 1}}}
    np.savez(path, **{**parts, "header": np.array(json.dumps(header))})
    with pytest.raises(
        ValueError, match="in format 1, not a FederatedDPPCA in format 2"
    ):
        FederatedDPPCA.load(path)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_copies_are_what_was_fitted(estimator, tmp_path):
    X, y, _ = a_table(estimator)
    ledger = PrivacyAccountant()
    model = clone(estimator).set_params(accountant=ledger).fit(X, y)
    model.save(tmp_path / "model.npz")
    published, loaded = model.publish(), type(model).load(tmp_path / "model.npz")
    of_published = shown(published, X)
    for copy in (loaded, loaded.publish(), pickle.loads(pickle.dumps(published))):
        assert shown(copy, X) == of_published
    whole = pickle.loads(pickle.dumps(model))
    for name, value in shown(model, X).items():
        assert shown(whole, X)[name] == value, name
        assert of_published[name] == value, name
    for copy in (published, loaded):
        assert copy.accountant is copy.noise_seed is None
        held = vars(copy).keys() - copy.get_params(deep=False).keys()
        assert held == {k for k in vars(model) if k[-1] == "_" and k[0] != "_"}
        assert str(copy.privacy_) == str(model.privacy_)
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray) and name.endswith("_"):
            assert not np.shares_memory(value, getattr(published, name)), name
    fresh = clone(model)
    assert fresh.accountant is ledger
    assert repr(fresh) == repr(model)
    assert not public_of(fresh).keys() - {f"({name})" for name in fresh.get_params()}
    fresh.fit(X, y)
    assert len(ledger.ledger) == 2
