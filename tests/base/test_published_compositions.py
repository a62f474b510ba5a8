"""Published compositions hold nothing of a user, whatever holds the estimator."""

import io
import pickle
import struct

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skdpspectral as sk
from skdpspectral._base.personal import KeepsUsers
from skdpspectral.audit import publish
from skdpspectral.decomposition import SpikedModel
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, PrivateSplit
from skdpspectral.pipeline import PrivatePipeline

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N_USERS, N_ROWS = 40, 8
FIRST_ID = 734_000_001
rng = np.random.default_rng(0)
USERS = np.repeat(FIRST_ID + np.arange(N_USERS), N_ROWS).astype(float)
FEATURES = rng.uniform(-1.0, 1.0, (len(USERS), 2))
ITEMS = np.tile(np.arange(float(N_ROWS)), N_USERS)
RATINGS = rng.uniform(1.0, 5.0, len(USERS))
FEW_STEPS = {"n_rounds": 2, "n_own_steps": 5}
CATALOG = np.arange(float(N_ROWS))

ESTIMATORS = {
    "LRSRegressor": sk.LRSRegressor(user_feature=0),
    "LRSMLPRegressor": sk.LRSMLPRegressor(user_feature=0, **FEW_STEPS),
    "DPMatrixFactorization": sk.DPMatrixFactorization(
        2, items=CATALOG, rating_range=(1, 5)
    ),
    "DPItemEmbedding": sk.DPItemEmbedding(2, items=CATALOG, rating_range=(1, 5)),
}


def table(name):
    """Rows and targets of an estimator; the users are in the first column."""
    rated = name.startswith(("DPMatrix", "DPItem"))
    return np.column_stack([USERS, ITEMS if rated else FEATURES]), RATINGS


def scorer():
    return make_private_scorer("squared_error", 50.0, limit=16.0, user_feature=0)


def private_search(estimator, X, y, space=None):
    search = PrivateSearchCV(
        estimator,
        {"delta": [1e-6]} if space is None else space,
        epsilon=60.0,
        n_blocks=2,
        scoring=make_private_scorer("squared_error", limit=16.0, user_feature=0),
    )
    return search.fit(X, y)


def grid(estimator, X, y):
    split = PrivateSplit(2, user_feature=0, whole_users=False)
    return GridSearchCV(estimator, {}, scoring=scorer(), cv=split).fit(X, y)


def frozen_in_search(estimator, X, y):
    """The estimator that a search was given is fitted, and so are its candidates."""
    fitted = clone(estimator).fit(X, y)
    space = {"m": [fitted]}
    return private_search(PrivatePipeline([("m", fitted)]), X, y, space)


REGRESSORS = {
    "pipeline": lambda e, X, y: make_pipeline(FunctionTransformer(), e).fit(X, y),
    "pipelines": lambda e, X, y: make_pipeline(make_pipeline(e)).fit(X, y),
    "target": lambda e, X, y: TransformedTargetRegressor(e).fit(X, y),
    "voting": lambda e, X, y: VotingRegressor([("a", e), ("b", clone(e))]).fit(X, y),
    "bagging": lambda e, X, y: BaggingRegressor(e, 2).fit(X, y),
    "outputs": lambda e, X, y: MultiOutputRegressor(e).fit(X, np.c_[y, y]),
    "chain": lambda e, X, y: RegressorChain(e, order=[0]).fit(X, y[:, None]),
    "frozen": lambda e, X, y: FrozenEstimator(e.fit(X, y)),
    "winner": lambda e, X, y: private_search(e, X, y),
    "search of pipelines": lambda e, X, y: private_search(
        PrivatePipeline([("m", e)]), X, y, {"m__delta": [1e-6]}
    ),
    "search of the fitted": frozen_in_search,
    "grid": grid,
    "grid of pipelines": lambda e, X, y: grid(make_pipeline(e), X, y),
    "method": lambda e, X, y: FunctionTransformer(e.fit(X, y).predict).fit(X),
}
TRANSFORMERS = {
    "columns": lambda e, X, y: ColumnTransformer([("m", e, [0, 1])]).fit(X, y),
    "union": lambda e, X, y: FeatureUnion([("m", e)]).fit(X, y),
    "columns in a pipeline": lambda e, X, y: Pipeline(
        [
            ("c", ColumnTransformer([("m", e, [0, 1])])),
            ("u", FeatureUnion([("p", "passthrough")])),
            ("r", sk.LRSRegressor(user_feature=0)),
        ]
    ).fit(X, y),
    "pipeline": lambda e, X, y: make_pipeline(e, sk.LRSRegressor(user_feature=0)).fit(
        X, y
    ),
}
CASES = [
    (name, how)
    for name in ESTIMATORS
    for how in (TRANSFORMERS if name == "DPItemEmbedding" else REGRESSORS)
]


def private_bytes(X, y, holder):
    """Bytes of ids, features, targets and of numbers of users, however written."""
    ids = USERS[::N_ROWS]
    for value in ids:
        yield struct.pack("<d", value)
        yield struct.pack(">d", value)  # as pickle writes a float
        yield struct.pack("<q", int(value))
        yield struct.pack("<i", int(value))
        yield str(int(value)).encode()
    for value in [*FEATURES[:, 0], *y]:
        yield struct.pack("<d", value)
        yield struct.pack(">d", value)
    own = getattr(holder, "_personal", None)
    for array in vars(own).values() if own is not None else ():
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            for value in array[(array != 0.0) & (np.abs(array) != 1.0)].flat:
                yield np.asarray(value).tobytes()


def users_of(model):
    """The fitted estimators of users in a composition."""
    found = []

    class Finder(pickle.Pickler):
        def persistent_id(self, obj):
            if isinstance(obj, KeepsUsers) and hasattr(obj, "_personal"):
                found.append(obj)
            return None

    Finder(io.BytesIO()).dump(model)
    return found


@pytest.mark.parametrize(("name", "how"), CASES)
def test_copies_of_compositions_hold_nothing_of_users(name, how):
    X, y = table(name)
    compose = (TRANSFORMERS if name == "DPItemEmbedding" else REGRESSORS)[how]
    model = compose(clone(ESTIMATORS[name]), X, y)
    written = pickle.dumps(publish(model))
    holders = users_of(model)
    if name != "DPItemEmbedding":
        # The look finds what is there.
        live = pickle.dumps(model)
        assert holders
        assert any(value in live for value in private_bytes(X, y, holders[0]))
    for holder in holders or [None]:
        for value in private_bytes(X, y, holder):
            assert value not in written


@pytest.mark.parametrize("name", ["LRSRegressor", "LRSMLPRegressor"])
@pytest.mark.parametrize("how", ["winner", "search of pipelines", "grid"])
def test_the_best_model_of_a_published_search_is_published(name, how):
    X, y = table(name)
    model = REGRESSORS[how](clone(ESTIMATORS[name]), X, y)
    copied = publish(model)
    assert type(copied) is type(model)
    best = publish(model.best_estimator_)
    np.testing.assert_array_equal(copied.predict(X), best.predict(X))
    assert not np.array_equal(copied.predict(X), model.predict(X))
    # One release, pickled in the same way: the same bytes.
    assert pickle.dumps(copied.best_estimator_) == pickle.dumps(best)
    if isinstance(model, PrivateSearchCV):
        assert pickle.dumps(model.publish().best_estimator_) == pickle.dumps(best)


def test_lists_of_a_published_search_are_those_of_a_stranger():
    X, y = table("DPMatrixFactorization")
    search = private_search(ESTIMATORS["DPMatrixFactorization"], X, y)
    known, unknown = USERS[0], FIRST_ID + 10_000.0
    copied = search.publish().best_estimator_
    one, other = (copied.predict([[user, 3.0]]) for user in (known, unknown))
    np.testing.assert_array_equal(one, other)


def test_ledgers_seeds_and_callbacks_stay(tmp_path):
    ledger = sk.PrivacyAccountant(path=tmp_path / "where-it-is.db")
    X = FEATURES
    heard = make_pipeline(
        FunctionTransformer(),
        sk.DPPCA(1, accountant=ledger, noise_seed=918273),
        ColumnTransformer([("unfitted", sk.DPPCA(1, accountant=ledger), [0])]),
    )
    heard.steps.pop()
    heard.fit(X)
    heard.note_ = [sk.DPPCA(1, accountant=ledger, noise_seed=918273), ledger]
    heard._skl_callbacks = [lambda: X]
    with pytest.warns(sk.PrivacyLeakWarning):  # it has a seed
        copied = publish(heard)
    assert b"where-it-is" in pickle.dumps(heard[:])
    assert not hasattr(copied, "_skl_callbacks")
    assert hasattr(heard, "_skl_callbacks")
    written = pickle.dumps(copied)
    assert b"where-it-is" not in written
    assert pickle.dumps(918273)[-5:-1] not in written
    assert copied.note_[0].accountant is None
    assert copied.note_[0].noise_seed is None
    assert copied.note_[1] is None
    np.testing.assert_array_equal(copied.transform(X), heard.transform(X))


def test_scorers_lose_their_ledger_and_their_seed(tmp_path):
    ledger = sk.PrivacyAccountant(path=tmp_path / "where-it-is.db")
    X, y = table("LRSRegressor")
    scoring = make_private_scorer(
        "squared_error", 50.0, accountant=ledger, limit=16.0, user_feature=0
    )
    cv = PrivateSplit(2, user_feature=0, whole_users=False)
    fitted = GridSearchCV(ESTIMATORS["LRSRegressor"], {}, scoring=scoring, cv=cv)
    fitted.fit(X, y)
    assert b"where-it-is" in pickle.dumps(fitted)
    copied = publish(fitted)
    assert b"where-it-is" not in pickle.dumps(copied)
    assert b"where-it-is" in pickle.dumps(fitted)
    assert copied.scoring.privacy_plan(100).epsilon == 50.0


def test_what_leaks_is_published_loudly():
    fitted = make_pipeline(StandardScaler(), sk.DPPCA(1)).fit(FEATURES)
    with pytest.warns(sk.PrivacyLeakWarning, match="standardscaler"):
        publish(fitted)
    with pytest.raises(NotFittedError):
        publish(make_pipeline(sk.DPPCA(1)))


def test_strategies_are_published_without_what_else_they_hold():
    choice = SpikedModel(1e6, 1.0)
    choice.rows = np.eye(3)
    model = sk.FederatedDPPCA(1, mechanism=choice, client_feature=0)
    model.fit(np.c_[np.arange(400) % 2, np.eye(400, 3)])
    for published in (model.publish(), publish(make_pipeline(model))[0]):
        assert vars(published.mechanism) == vars(SpikedModel(1e6, 1.0))
    assert "rows" in vars(model.mechanism)
