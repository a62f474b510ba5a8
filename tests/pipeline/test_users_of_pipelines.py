"""Pipelines that protect users: a column of ids, which no step gets."""

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    DPItemEmbedding,
    DPRidge,
    DPStandardScaler,
    DPTableVectorizer,
    JMECovariance,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral._release.noise import Coins
from skdpspectral.model_selection import PrivateSearchCV, PrivateSplit
from skdpspectral.pipeline import make_private_pipeline

RNG = np.random.default_rng(0)
N = 400
IDS = RNG.permutation(np.repeat(np.arange(N), RNG.geometric(0.3, N)))
X = RNG.normal(size=(N, 3))[IDS] + RNG.normal(size=(len(IDS), 3))
Y = X @ [1.0, -1.0, 0.5]
TABLE = np.column_stack([X[:, :2], IDS, X[:, 2]])
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    who=[f"u{one}" for one in IDS], text=np.where(X[:, 0] > 0, "plus", "minus")
)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def scaled(model=None, **parameters):
    given = {"user_feature": 2, "epsilon": 4.0} | parameters
    return make_private_pipeline(DPStandardScaler(), model or DPRidge(), **given)


def test_one_entry_for_users_whose_number_alone_is_in_the_plan():
    accountant = PrivacyAccountant()
    model = scaled(accountant=accountant).fit(TABLE, Y)
    (entry,) = accountant.ledger
    assert "per user (replace-one)" in str(model.privacy_)
    assert entry.plan == model.plan_for(TABLE).to_json()
    rows = scaled(user_feature=None).privacy_plan(N, 3)
    assert model.plan_for(TABLE).mechanisms == rows.mechanisms
    assert [step.n_samples_ for step in model] == [N, N]
    assert model.n_features_in_ == 3


def test_each_step_draws_rows_of_its_own(monkeypatch):
    orders, draw = [], Coins.secret_order

    def noted(coins, n_users):
        orders.append(draw(coins, n_users))
        return orders[-1]

    monkeypatch.setattr(Coins, "secret_order", noted)
    scaled().fit(TABLE, Y)
    assert len(orders) == 2
    assert not np.array_equal(*orders)


@pytest.mark.parametrize("routing", [False, True])
def test_all_methods_leave_the_column_out(routing):
    with config_context(enable_metadata_routing=routing):
        model = scaled().fit(TABLE, Y)
        inner = model.pipeline_
        expected = inner.predict(X)
        np.testing.assert_array_equal(model.predict(TABLE), expected)
        assert model.score(TABLE, Y) == inner.score(X, Y)
        folds = PrivateSplit(2, user_feature=2, whole_users=True)
        assert np.isfinite(cross_val_score(scaled(), TABLE, Y, cv=folds)).all()
        search = GridSearchCV(scaled(), {"dpridge__alpha": [0.1, 1.0]}, cv=folds)
        assert search.fit(TABLE, Y).best_estimator_.predict(TABLE).shape == Y.shape


def test_a_raw_frame_with_a_column_transformer():
    columns = ColumnTransformer(
        [("numbers", DPStandardScaler(), ["a", "b"]), ("rest", "passthrough", ["c"])],
        sparse_threshold=0,
    )
    model = make_private_pipeline(columns, DPRidge(), user_feature="who", epsilon=8.0)
    assert model.fit(FRAME, Y).score(FRAME, Y) > 0.5
    model = make_private_pipeline(
        DPTableVectorizer(), DPRidge(), user_feature="who", epsilon=8.0
    ).fit(FRAME, Y)
    assert "who" not in " ".join(model.pipeline_[:-1].get_feature_names_out())
    assert model.score(FRAME, Y) > 0.5


@pytest.mark.parametrize("routing", [False, True])
def test_a_scaler_before_models_of_users(routing):
    with config_context(enable_metadata_routing=routing):
        model = scaled(LRSRegressor(1, neighbors="replace-one")).fit(TABLE, Y)
        assert str(model.privacy_.unit) == "user"
        rows = model[:-1].transform(X)
        expected = model[-1].predict(rows, users=IDS)
        np.testing.assert_array_equal(model.predict(TABLE), expected)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (LRSRegressor(1), 'neighbors="replace-one"'),
        (JMECovariance(), "fit DPCovariance with users"),
        (DPItemEmbedding(items=range(9)), "does not accept users"),
    ],
)
def test_steps_that_draw_no_rows_are_refused_with_a_remedy(model, said):
    with refused(said) as accountant:
        scaled(model, accountant=accountant).fit(TABLE, Y)


def test_users_who_join_or_leave_are_refused_in_a_single_step_too():
    with refused(r"user_feature protects.*neighbors=.replace") as accountant:
        given = {"user_feature": 2, "accountant": accountant}
        make_private_pipeline(LRSRegressor(1), **given).fit(TABLE, Y)


@pytest.mark.usefixtures("own_code")
def test_a_step_that_drops_rows_is_found_out():
    drops = FunctionTransformer(lambda rows: rows[:-1])
    steps = (DPStandardScaler(), drops, DPRidge())
    model = make_private_pipeline(*steps, user_feature=2)
    with pytest.raises((RuntimeError, ValueError)):
        model.fit(TABLE, Y)


def test_samples_of_users():
    network = DPAdamRegressor(target_bounds=(-4, 4), batch_size=50)
    model = scaled(network).fit(TABLE, Y)
    (steps,) = model.privacy_.curves
    assert steps.sampling_probability >= 50 / N
    assert steps.sampling_probability < 51 / N


def test_a_search_with_ids_that_are_text():
    search = PrivateSearchCV(
        make_private_pipeline(DPStandardScaler(), DPRidge(), user_feature="who"),
        {"dpridge__alpha": [0.1, 1.0]},
        epsilon=8.0,
    )
    rows = FRAME.drop(columns="text")
    assert search.fit(rows, Y).predict(rows).shape == Y.shape
    assert search.privacy_plan(N, 3) == search.plan_for(rows) == search.privacy_
    with pytest.raises(ValueError, match="DPTableVectorizer"):
        search.fit(FRAME, Y)


def test_rows_are_mapped_back_and_ids_are_forgotten():
    model = make_private_pipeline(DPStandardScaler(), DPPCA(2), user_feature=2)
    found = model.fit(TABLE).transform(TABLE)
    expected = model.pipeline_.inverse_transform(found)
    np.testing.assert_array_equal(model.inverse_transform(found), expected)
    assert [step._step_share.users for step in model] == [None, None]
