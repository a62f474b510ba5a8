"""Ids and masks in the estimators: what is refused, and what names are followed."""

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skdpspectral import (
    DPPCA,
    DPItemEmbedding,
    FederatedDPPCA,
    JMECovariance,
    LRSMLPRegressor,
    LRSRegressor,
    PrivacyAccountant,
    SparseDPPCA,
)
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.linear_model import PrivateRounds


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(20), 10)
    X = rng.standard_normal((200, 3))
    return X, X[:, 0] + users, users


def table(data):
    X, y, users = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.insert(1, "user_id", users)
    return frame, y


@pytest.mark.parametrize("strings", [0, 1, 19])
def test_a_lookup_never_tells_which_kinds_of_ids_were_there(data, strings):
    """Mixed kinds are no table of ids; in any other, "bob" is of another kind."""
    X, y, users = data
    ids = [f"user {u}" if u < strings else int(u) for u in users]
    model = LRSRegressor(noise_seed=0)
    if strings:
        with pytest.raises(ValueError, match="users must contain ids of one kind"):
            model.fit(X, y, users=ids)
        return
    model.fit(X, y, users=ids)
    for call in (model.get_coef, model.get_intercept):
        with pytest.raises(ValueError, match="user contains strings"):
            call("bob")
    with pytest.raises(ValueError, match="users contains strings"):
        model.predict(X[:1], users=["bob"])


HUGE = np.longdouble(2) ** np.finfo(np.longdouble).nmant * 2

BAD_IDS = {
    "ending in NUL": (["ann", "ann\0"] * 100, "end in a NUL"),
    "long doubles": (HUGE + np.arange(200), "not exact"),
    "listed long doubles": (list(HUGE + np.arange(200)), "not exact"),
    "complex": (np.arange(200) + 2.0**53 + 0j, "integers or text"),
    "times": (np.datetime64("2020-01-01", "ns") + np.arange(200), "integers or text"),
    "fractions": (np.arange(200) / 7, "not whole"),
    "masked": (np.ma.array(np.arange(200), mask=[1] + [0] * 199), "masked"),
}


@pytest.mark.parametrize("case", BAD_IDS)
def test_bad_ids_are_refused(data, case):
    X, y, _ = data
    ids, message = BAD_IDS[case]
    accountant = PrivacyAccountant()
    error = (ValueError, TypeError)
    with pytest.raises(error, match=message):
        LRSRegressor(accountant=accountant).fit(X, y, users=ids)
    if case != "masked":
        items = ["ann"] if case == "ending in NUL" else range(200)
        frame = pd.DataFrame({"user_id": ids, "item_id": np.arange(200)})
        model = DPItemEmbedding(items=items, accountant=accountant, rating_range=(1, 5))
        with pytest.raises(error, match=f"user_feature.*{message}"):
            model.fit(frame, y)
        frame = frame.rename(columns={"user_id": "item_id", "item_id": "user_id"})
        with pytest.raises(error, match=f"item_feature.*{message}"):
            model.fit(frame, y)
    # Ids are private, and read after the charge: a refusal must not tell of them. A
    # masked array is one by its type.
    free = case in ("masked", "complex", "times")
    assert len(accountant.ledger) == (0 if free else 3)


def test_a_position_that_columns_were_moved_from_is_refused(data):
    """200 rows of 20 users would be 200 users, and a row what is hidden."""
    frame, y = table(data)
    moved = ColumnTransformer(
        [("scale", MinMaxScaler(), ["c"])], remainder="passthrough"
    )
    accountant = PrivacyAccountant()
    model = LRSRegressor(user_feature=1, accountant=accountant)
    with pytest.raises(ValueError, match="name the column of ids"):
        make_pipeline(moved, model).fit(frame, y)
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize("verbose", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_a_name_is_followed_where_columns_move(data, container, verbose):
    frame, y = table(data)
    moved = ColumnTransformer(
        [("scale", MinMaxScaler(), ["c"])],
        remainder="passthrough",
        verbose_feature_names_out=verbose,
    ).set_output(transform=container)
    model = make_pipeline(moved, LRSRegressor(user_feature="user_id", epsilon=None))
    found = model.fit(frame, y).predict(frame)
    scaled = frame[["c", "a", "b"]].to_numpy().copy()
    scaled[:, 0] = MinMaxScaler().fit_transform(scaled[:, :1])[:, 0]
    expected = LRSRegressor(epsilon=None).fit(scaled, y, users=frame["user_id"])
    np.testing.assert_allclose(
        found, expected.predict(scaled, users=frame["user_id"]), rtol=1e-9
    )


def test_a_name_that_two_steps_may_have_written_is_not_guessed(data):
    frame, y = table(data)
    frame = frame.rename(columns={"a": "first__user_id", "user_id": "rest__user_id"})
    with pytest.raises(ValueError, match="several columns"):
        LRSRegressor(user_feature="user_id").fit(frame, y)


ESTIMATORS = [
    DPPCA(1),
    DPPCA(1, epsilon=None),
    SparseDPPCA(1),
    JMECovariance(),
    FederatedDPPCA(1),
    LRSMLPRegressor(user_feature=0),
    LRSRegressor(),
    LRSRegressor(user_feature=0),
    DPItemEmbedding(items=range(5), rating_range=(1, 5)),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_masked_rows_are_no_values(data, estimator):
    """One masked row of 1e6 counted as a row, and gave a variance of 5000."""
    X = np.round(5 * data[0])
    masked = np.ma.array(X, mask=np.zeros(X.shape, dtype=bool))
    masked.data[7] = 1e6
    masked.mask[7] = True
    with pytest.raises(ValueError, match="X is a masked array"):
        estimator.fit(masked, data[1])


@pytest.mark.parametrize(
    "estimator",
    [LRSRegressor(), DPItemEmbedding(items=range(5), rating_range=(1, 5))],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_masked_targets_are_no_values(data, estimator):
    y = np.ma.array(data[1], mask=[True] + 199 * [False])
    with pytest.raises(ValueError, match="y is a masked array"):
        estimator.fit(np.round(5 * data[0]), y)


def hidden(shape):
    values = np.ones(shape)
    mask = np.zeros(shape, bool)
    values[(0,) * len(shape)], mask[(0,) * len(shape)] = 1e6, True
    return np.ma.array(values, mask=mask)


@pytest.mark.parametrize("estimator", [DPPCA(1), SparseDPPCA(1), LRSRegressor()])
def test_masked_rows_in_a_list_are_no_values(data, estimator):
    """numpy takes what their masks hide for values."""
    X, y, users = data
    masked = np.ma.array(X.copy(), mask=np.zeros(X.shape, bool))
    masked.data[0, 0], masked.mask[0, 0] = 1e6, True
    more = {"users": users} if isinstance(estimator, LRSRegressor) else {}
    with pytest.raises(ValueError, match="X is a masked array"):
        clone(estimator).fit(list(masked), y, **more)


MASKED_PARAMETERS = {
    "scale": LRSRegressor(scale=hidden((3,))),
    "init": LRSRegressor(solver=PrivateRounds(init=hidden((1, 3)))),
    "bounds": DPPCA(1, bounds=(-hidden((3,)), 1)),
    "signal_variance": SpikedPCA(1, signal_variance=hidden((1,)), noise_variance=1.0),
}


@pytest.mark.parametrize("name", MASKED_PARAMETERS)
def test_masked_parameters_are_refused(data, name):
    X, y, users = data
    estimator = clone(MASKED_PARAMETERS[name])
    more = {"users": users} if isinstance(estimator, LRSRegressor) else {}
    with refused(f"{name.split()[0]} has masked values") as accountant:
        estimator.set_params(accountant=accountant).fit(X, y, **more)


def test_masked_features_and_weights_are_refused(data):
    X, y, users = data
    table = np.column_stack([users, users % 5])
    with pytest.raises(ValueError, match="item_features has masked values"):
        DPItemEmbedding(
            user_feature=0,
            item_feature=1,
            items=range(5),
            item_features=hidden((5, 2)),
            rating_range=(1, 5),
        ).fit(table, y)
    model = LRSRegressor(noise_seed=0).fit(X, y, users=users)
    with pytest.raises(ValueError, match="sample_weight has masked values"):
        model.score(X, y, sample_weight=hidden((200,)), users=users)
