"""Errors quote no private value: nobody guards logs as they guard the data."""

import re
import traceback

import bad_calls_federated
import bad_calls_items
import bad_calls_lrs
import numpy as np
import pytest
from sklearn.base import clone

# Rows without names are given to an estimator that was fitted with names, and a warning
# comes before the accountant's refusal.
pytestmark = [
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
]
NAN = float("nan")
SECRET = 7321.0625
SECRETS = np.full(60, f"{SECRET} euros", dtype=object)
ROWS = {
    "1-D": np.array([SECRET, SECRET]),
    "complex": np.array([[SECRET, 1j]]),
    "word": [[f"{SECRET} euros", 1.0]],
    "text": np.array([[f"{SECRET} euros", "1"]]),
    "bytes": np.array([[f"{SECRET} euros".encode(), b"1"]]),
    "NaN": [[SECRET, NAN]],
    "3-D": np.full((2, 2, 2), SECRET),
}
FEDERATED_ROWS = [np.full((60, 4), f"{SECRET} euros"), np.full((60, 4), SECRET + 1j)]
TARGETS = {
    "words": SECRETS.tolist(),
    "text": SECRETS.astype(str),
    "numbers and words": [*([SECRET] * 59), "euros"],
    "complex": np.full(60, SECRET + 1j),
    "NaN": np.r_[np.full(59, SECRET), NAN],
    "table": np.full((60, 2), SECRET),
    "short": np.full(9, SECRET),
    "beyond float64": [int(SECRET) * 10**400] * 60,
}
IDS = {
    "words": SECRETS.tolist(),
    "missing": [*SECRETS[1:], None],
    "NaN": np.r_[np.full(59, SECRET), NAN],
    "lists": [[SECRET]] * 60,
    "table": SECRETS[:, None],
    "short": SECRETS[:9],
    "tuples": [(SECRET, 1)] * 60,
}
CLIENTS = {
    "missing": [*[SECRET] * 59, None],
    "lists": [[SECRET]] * 60,
    "short": [SECRET] * 9,
    "table": np.full((60, 1), SECRET),
}


ERRORS = (ValueError, TypeError)


def assert_quotes_nothing(call, secrets=(f"{SECRET:.0f}",), error=ERRORS):
    with pytest.raises(error) as caught:
        call()
    # Not even as the cause or the context of an error.
    report = "".join(traceback.format_exception(caught.value)).replace(__file__, "")
    assert not [secret for secret in secrets if str(secret) in report]
    return str(caught.value)


@pytest.fixture
def scene(tmp_path):
    return bad_calls_lrs.Scene(tmp_path)


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_errors_quote_no_row(scene, method):
    for X in ROWS.values():
        assert_quotes_nothing(
            lambda X=X: getattr(scene.pca, method)(X), error=ValueError
        )


def test_errors_quote_no_row_and_no_id_of_clients(tmp_path):
    scene = bad_calls_federated.Scene(tmp_path)
    for clients in CLIENTS.values():
        assert_quotes_nothing(lambda c=clients: scene.fit(clients=c))
    for X in FEDERATED_ROWS:
        assert_quotes_nothing(lambda X=X: scene.fit(X), error=ValueError)


@pytest.mark.parametrize("method", ["fit", "personalize", "score"])
def test_errors_quote_no_target(scene, method):
    for y in TARGETS.values():
        scene.renew()
        assert_quotes_nothing(lambda y=y: getattr(scene.lrs, method)(y=y))


@pytest.mark.parametrize("method", ["fit", "predict", "score"])
def test_errors_quote_no_id(scene, method):
    for label, users in IDS.items():
        scene.renew()
        if method == "fit" and label in ("words", "tuples"):
            # They may be fitted; ids of another kind are wrong then.
            fitted = clone(scene.lrs.model).fit(scene.X, scene.lrs.y, users=users)
            assert_quotes_nothing(
                lambda m=fitted: m.predict(scene.X, users=np.arange(60))
            )
        else:
            assert_quotes_nothing(lambda u=users: getattr(scene.lrs, method)(users=u))


@pytest.mark.parametrize("user", [SECRET, f"{SECRET} euros", (SECRET,), [SECRET]])
def test_errors_quote_no_user(scene, user):
    lrs, X = scene.lrs, scene.X
    calls = [lambda: lrs.known.get_coef(user), lambda: lrs.known.get_intercept(user)]
    if user != SECRET:
        calls.append(lambda: lrs.personalize(user=user))
        calls.append(lambda: lrs.column.personalize(lrs.table[:10], X[:10, 0], user))
    else:
        calls.append(lambda: lrs.known.predict(X[:1], users=[user]))
        table = lrs.table.assign(user=SECRET)
        calls.append(lambda: lrs.column.personalize(table, X[:, 0], user=3))
    for call in calls:
        assert_quotes_nothing(call)


@pytest.mark.parametrize("column", ["user_id", "item_id", "hour"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_errors_quote_no_rating_beside_a_bad_one(tmp_path, column, value):
    scene = bad_calls_items.Scene(tmp_path)
    X = scene.X.astype(object)
    X[column] = X[column].where(X.index > 3, value)
    if column == "hour":
        X[column] = X[column].astype(float)
    told = assert_quotes_nothing(lambda: scene.fit(X), bad_calls_items.SECRETS)
    assert re.search(r"missing ids|NaN or infinity|ids of .* are not exact", told)
    scene.check_untouched(charges=1)
