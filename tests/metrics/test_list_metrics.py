"""Recall, NDCG and coverage of lists of items."""

import math

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import ndcg_score

from skdpspectral import DPMatrixFactorization
from skdpspectral.datasets import make_ratings
from skdpspectral.metrics import (
    catalog_coverage_score,
    list_ndcg_score,
    list_recall_score,
    user_recall_score,
)

USERS = ["ann", "bob", "cid"]
LISTS = [[1, 2, 3], [4, 5, 6], [1, 2, 3]]
TRUE_USERS = ["bob", "ann", "ann", "bob", "ann", "eve"]
TRUE_ITEMS = [6, 3, 9, 4, 3, 1]


def test_values_by_hand():
    """Ann has one of two, the third; bob both, first and last; cid none at all."""
    pairs = (TRUE_USERS, TRUE_ITEMS, USERS, LISTS)
    assert list_recall_score(*pairs) == pytest.approx((0.5 + 1.0) / 2)
    assert list_recall_score(*pairs, k=1) == pytest.approx((0.0 + 0.5) / 2)
    two = 1.0 + 1.0 / math.log2(3)
    expected = (0.5 / two + (1.0 + 0.5) / two) / 2
    assert list_ndcg_score(*pairs) == pytest.approx(expected)
    assert catalog_coverage_score(LISTS, range(1, 11)) == pytest.approx(0.6)
    assert catalog_coverage_score([["a"]], ["a"]) == 1.0


def test_they_agree_with_scores_of_whole_rows():
    rng = np.random.default_rng(0)
    relevant = rng.random((40, 12)) < 0.3
    relevant[:, 0] = True
    scores = rng.random((40, 12))
    users, items = np.nonzero(relevant)
    lists = np.argsort(-scores, axis=1)[:, :5]
    found = list_recall_score(users, items, np.arange(40), lists)
    rows = np.repeat(np.arange(40), 12)
    flat = relevant.ravel().astype(float), scores.ravel()
    assert found == pytest.approx(user_recall_score(*flat, rows, k=5, relevant=1.0))
    found = list_ndcg_score(users, items, np.arange(40), lists)
    assert found == pytest.approx(ndcg_score(relevant, scores, k=5))


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_lists_of_a_recommender_are_scored():
    data = make_ratings(300, 40, random_state=0)
    users = data.data[:, 0]
    model = DPMatrixFactorization(
        items=data.item_ids, epsilon=None, rating_range=(1, 5)
    )
    model.fit(data.data, data.target)
    asked = np.unique(users)
    items, _ = model.recommend(asked, 40, exclude_seen=False)
    assert list_recall_score(users, data.data[:, 1], asked, items) == 1.0
    assert catalog_coverage_score(items, data.item_ids) == 1.0
    items, _ = model.recommend(asked, 3)
    assert 0 < catalog_coverage_score(items, data.item_ids) < 1


def test_nobody_to_score_is_told():
    with pytest.warns(UndefinedMetricWarning, match="no user with a list"):
        assert math.isnan(list_recall_score(["eve"], [1], USERS, LISTS))
    with pytest.warns(UndefinedMetricWarning, match="no user with a list"):
        assert math.isnan(list_ndcg_score([], [], USERS, LISTS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"true_items": [1]}, "the same length"),
        ({"users": ["ann", "bob"]}, "one entry per list"),
        ({"users": ["ann", "bob", "ann"]}, "users must not contain duplicate ids"),
        ({"items": [1, 2, 3]}, "items must have shape"),
        ({"items": [[1], [2], [3, 4]]}, "items must have shape"),
        ({"items": np.zeros((3, 0))}, "items must have shape"),
        ({"items": [["a"]] * 3}, "items contains strings"),
        ({"true_users": [1] * 6}, "true_users contains numbers"),
        ({"k": 0}, "k must be an integer"),
        ({"k": True}, "k must be an integer"),
        ({"k": 1.5}, "k must be an integer"),
    ],
)
@pytest.mark.parametrize("score", [list_recall_score, list_ndcg_score])
def test_bad_arguments_are_named(score, change, message):
    given = {
        "true_users": TRUE_USERS,
        "true_items": TRUE_ITEMS,
        "users": USERS,
        "items": LISTS,
    }
    with pytest.raises(ValueError, match=message):
        score(**given | change)


def test_coverage_refuses_what_is_no_catalog():
    with pytest.raises(ValueError, match="not in catalog"):
        catalog_coverage_score(LISTS, [1, 2])
    with pytest.raises(ValueError, match="catalog must contain"):
        catalog_coverage_score(LISTS, [])
    with pytest.raises(ValueError, match="items must have shape"):
        catalog_coverage_score(3, [1])
