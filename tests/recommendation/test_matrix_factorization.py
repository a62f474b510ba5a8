"""DPMatrixFactorization: predictions, lists, users' models, files, and how well."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

from skdpspectral import (
    DPItemEmbedding,
    DPMatrixFactorization,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdpspectral.datasets import make_ratings
from skdpspectral.model_selection import PrivateSplit

without_privacy = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
RATINGS = make_ratings(1500, 60, n_ratings_per_user=15, random_state=0)
X, Y = RATINGS.data, RATINGS.target.astype(float)
COMMON = {"items": RATINGS.item_ids, "item_features": RATINGS.item_features}
MODEL = DPMatrixFactorization(**{"rating_range": (1, 5), **COMMON}).fit(X, Y)


def rmse(predicted, y):
    return np.sqrt(np.mean((predicted - y) ** 2))


def rows_of(user):
    return X[:, 0] == user


# -- how well --------------------------------------------------------------------------


@without_privacy
def test_it_beats_rules_without_any_release():
    """Margins are a tenth of a rating and more; noise moves the errors by .01."""
    train, test = next(
        PrivateSplit(5, user_feature=0, whole_users=False, random_state=0).split(X)
    )
    counts = np.maximum(np.bincount(X[train, 0]), 1)
    own = np.bincount(X[train, 0], Y[train]) / counts
    local = rmse(own[X[test, 0]], Y[test])
    errors = {}
    for epsilon in (1.0, 8.0, None):
        model = clone(MODEL).set_params(epsilon=epsilon).fit(X[train], Y[train])
        errors[epsilon] = rmse(model.predict(X[test]), Y[test])
    assert errors[1.0] < local - 0.1
    assert errors[None] < errors[8.0] + 0.02 < errors[1.0] + 0.04


def test_more_ratings_of_a_new_user_help():
    """Thousands of held-out ratings: standard errors are .015."""
    new = X[:, 0] >= 1200
    model = clone(MODEL).fit(X[~new], Y[~new])
    cold = rmse(model.predict(X[new]), Y[new])
    assert cold < rmse(np.full(new.sum(), Y[~new].mean()), Y[new])
    train, test = next(
        PrivateSplit(2, user_feature=0, whole_users=False, random_state=0).split(X[new])
    )
    model.personalize(X[new][train], Y[new][train])
    warm = rmse(model.predict(X[new][test]), Y[new][test])
    assert warm < cold - 0.03


def test_strangers_are_predicted_on_the_scale_and_never_zero():
    stranger = np.column_stack([np.full(60, -7), RATINGS.item_ids])
    found = MODEL.predict(stranger)
    level = MODEL.level_ + MODEL.item_offsets_
    assert found == pytest.approx(np.clip(level, 1, 5))
    assert Y.mean() - 1 < found.mean() < Y.mean() + 1
    unknown_item = MODEL.predict([[-7, 10**6], [X[0, 0], 10**6]])
    assert ((unknown_item > 1) & (unknown_item < 5)).all()


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("range_", [(1, 5), (0, 100), (-10, 10)])
@without_privacy
def test_the_units_of_ratings_do_not_matter(range_):
    low, high = range_
    scaled = low + (Y - 1) * (high - low) / 4
    common = COMMON | {"noise_seed": 0}
    one = DPMatrixFactorization(**{"rating_range": (1, 5), **common}).fit(X, Y)
    other = DPMatrixFactorization(**common, rating_range=range_).fit(X, scaled)
    expected = low + (one.predict(X) - 1) * (high - low) / 4
    assert other.predict(X) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    lists = [m.recommend([1, 2], 5, popularity=0)[0] for m in (one, other)]
    assert np.array_equal(*lists)


# -- tables ----------------------------------------------------------------------------


@without_privacy
def test_every_kind_of_table_gives_the_same_model():
    frame = pd.DataFrame({"rated": 0, "item_id": X[:, 1], "user_id": X[:, 0]})
    matrix = sparse.csr_array((Y, (X[:, 0], X[:, 1])), shape=(1501, 61))
    model = DPMatrixFactorization(noise_seed=1, **{"rating_range": (1, 5), **COMMON})
    expected = clone(model).fit(X, Y).predict(X[:50])
    of_rows = clone(model).set_params(items=range(61), item_features=None)
    tables = [(X.tolist(), X[:50]), (X.astype(str), X[:50].astype(str))]
    names = ["user_id", "item_id"]
    tables += [(frame[names], frame[names][:50])]
    tables += [(pl.DataFrame(frame[names]), pl.DataFrame(frame[names][:50]))]
    for table, some in tables:
        if np.asarray(table).dtype.kind in "SUO":
            strings = RATINGS.item_ids.astype(str)
            found = clone(model).set_params(items=strings).fit(table, Y).predict(some)
        else:
            found = clone(model).fit(table, Y).predict(some)
        assert np.array_equal(found, expected)
    with pytest.warns(UserWarning, match=r"not used: rated$"):
        found = clone(model).fit(frame, Y).predict(frame[:50])
    assert np.array_equal(found, expected)
    entries = clone(model).set_params(items=None, item_features=None).fit(matrix)
    expected = of_rows.fit(X, Y).predict(X[:50])
    assert np.array_equal(entries.predict(X[:50]), expected)
    assert len(entries.predict(matrix[:3])) == matrix[:3].nnz
    assert entries.score(matrix) == pytest.approx(of_rows.score(X, Y))


def test_columns_that_are_not_named_teach_nothing():
    frame = pd.DataFrame({"user_id": X[:, 0], "item_id": X[:, 1], "rating": Y})
    train, test = next(
        PrivateSplit(5, user_feature=0, whole_users=False, random_state=0).split(X)
    )
    with pytest.warns(UserWarning, match="not used: rating"):
        model = clone(MODEL).fit(frame.iloc[train], Y[train])
    error = rmse(model.predict(frame.iloc[test]), Y[test])
    assert error > 0.4  # of noise in the ratings, .5 and their rounding


# -- lists -----------------------------------------------------------------------------


def test_lists_are_the_best_unseen_items():
    users = np.unique(X[:, 0])[:40]
    items, scores = MODEL.recommend(users, 7, popularity=0.0)
    assert items.shape == scores.shape == (40, 7)
    for user, own, score in zip(users, items, scores, strict=True):
        seen = X[rows_of(user), 1]
        rest = np.setdiff1d(RATINGS.item_ids, seen)
        if not len(rest):
            continue
        rows = np.column_stack([np.full(len(rest), user), rest])
        predicted = MODEL.predict(rows)
        assert not np.isin(own[np.isfinite(score)], seen).any()
        best = np.sort(predicted)[::-1][: len(rest)][:7]
        assert np.clip(score, 1, 5)[: len(best)] == pytest.approx(best, abs=1e-9)


def test_lists_with_what_was_seen_and_with_popularity():
    everything, scores = MODEL.recommend([1, -5], 10**6, exclude_seen=False)
    assert everything.shape == (2, 60)
    assert np.isfinite(scores).all()
    assert (np.sort(everything, axis=1) == np.sort(RATINGS.item_ids)).all()
    popular, _ = MODEL.recommend([1, -5], 60, exclude_seen=False, popularity=1e9)
    order = RATINGS.item_ids[np.argsort(-MODEL.item_popularity_, kind="stable")]
    assert np.array_equal(popular[0], order)
    counts = np.bincount(X[:, 1], minlength=61)[RATINGS.item_ids]
    assert np.corrcoef(np.log(counts + 1), MODEL.item_popularity_)[0, 1] > 0.8


def test_who_has_seen_all_is_told_so():
    model = MODEL.publish()
    rows = np.column_stack([np.zeros(60, int), RATINGS.item_ids])
    model.personalize(rows, np.full(60, 3.0))
    assert (model.recommend([0], 3)[1] == -np.inf).all()


def test_lists_of_everybody_are_said_to_be():
    with pytest.warns(UserWarning, match=r"1 of 2 users .* get the same list"):
        MODEL.recommend([1, -5])
    with pytest.warns(UserWarning, match=r"published copy .* all get the same list"):
        MODEL.publish().recommend([1])


# -- users -----------------------------------------------------------------------------


def test_personalizing_a_published_copy_gives_the_model_of_the_fit():
    users = [3, 14, 15]
    rows = np.isin(X[:, 0], users)
    published = MODEL.publish()
    assert not hasattr(published, "_personal")
    published.personalize(X[rows], Y[rows])
    assert np.array_equal(published.predict(X[rows]), MODEL.predict(X[rows]))
    for found, expected in zip(
        published.recommend(users, 4), MODEL.recommend(users, 4), strict=True
    ):
        assert np.array_equal(found, expected)


def test_users_are_added_and_replaced():
    model = MODEL.publish()
    first, second = rows_of(3), rows_of(4)
    model.personalize(X[first | second], Y[first | second])
    before = model.predict(X[second])
    model.personalize(X[first], 6.0 - Y[first])
    assert np.array_equal(model.predict(X[second]), before)
    assert not np.array_equal(model.predict(X[first]), MODEL.predict(X[first]))
    alone = MODEL.publish().personalize(X[first], 6.0 - Y[first])
    assert np.array_equal(model.predict(X[first]), alone.predict(X[first]))
    model.personalize([[2**60, 1], [2**60 + 1, 2]], [5, 1])
    assert len(model._personal.weights) == 4


def test_files_hold_one_user_or_none(tmp_path):
    MODEL.save(tmp_path / "all.npz")
    MODEL.save(tmp_path / "mine.npz", user=3)
    public = DPMatrixFactorization.load(tmp_path / "all.npz")
    mine = DPMatrixFactorization.load(tmp_path / "mine.npz")
    own, other = X[rows_of(3)], X[rows_of(4)]
    assert np.array_equal(mine.predict(own), MODEL.predict(own))
    assert np.array_equal(mine.predict(other), public.predict(other))
    assert np.array_equal(public.predict(other), MODEL.publish().predict(other))
    for found, expected in zip(
        mine.recommend([3], 5), MODEL.recommend([3], 5), strict=True
    ):
        assert np.array_equal(found, expected)
    assert mine.privacy_ == MODEL.privacy_
    named = DPMatrixFactorization(items=["a", "b"], rating_range=(1, 5)).fit(
        [["ann", "a"]], [5.0]
    )
    named.save(tmp_path / "ann.npz", user="ann")
    ann = DPMatrixFactorization.load(tmp_path / "ann.npz")
    assert ann.predict([["ann", "b"]]) == named.predict([["ann", "b"]])


def test_a_user_who_cannot_be_written_leaves_no_file(tmp_path):
    """Neither a new one nor an old one changed."""
    before = b"of somebody else"
    for model, user, error in (
        (MODEL, 10**9, ValueError),
        (MODEL, "3", ValueError),
        (MODEL, [3], TypeError),
    ):
        old, new = tmp_path / "old.npz", tmp_path / "new.npz"
        old.write_bytes(before)
        for path in (old, new):
            with pytest.raises(error, match="user"):
                model.save(path, user=user)
        assert not new.exists()
        assert old.read_bytes() == before


def test_a_file_of_a_user_holds_nobody_else(tmp_path):
    MODEL.save(tmp_path / "own.npz", user=3)
    MODEL.save(tmp_path / "public.npz")
    with np.load(tmp_path / "own.npz") as own, np.load(tmp_path / "public.npz") as all_:
        assert set(own.files) - set(all_.files) == {
            "user_id",
            "user_weights",
            "user_items",
        }
        assert own["user_weights"].shape == (1, len(MODEL.ridge_))
        rated = np.flatnonzero(np.isin(MODEL.items_, X[rows_of(3), 1]))
        assert own["user_items"].tolist() == rated.tolist()
        for name in all_.files:
            assert np.array_equal(own[name], all_[name])


def test_a_pickle_warns_of_the_users_in_it():
    with pytest.warns(PrivacyLeakWarning, match="carries the models of its users"):
        copied = pickle.loads(pickle.dumps(MODEL))
    assert np.array_equal(copied.predict(X[:9]), MODEL.predict(X[:9]))
    pickle.dumps(MODEL.publish())


def test_a_pooled_score_warns():
    with pytest.warns(PrivacyLeakWarning, match="pooled over users"):
        assert 0 < MODEL.score(X, Y) < 1


# -- fits ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:a score pooled:skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize(
    "folds",
    [PrivateSplit(3, user_feature=0, whole_users=False, random_state=0), GroupKFold(3)],
)
def test_cross_validation_by_rows_and_by_whole_users(folds):
    with PrivacyAccountant() as accountant:
        found = cross_val_score(MODEL, X, Y, cv=folds, groups=X[:, 0])
    assert len(accountant.ledger) == 3
    assert (found > 0.05).all()


@pytest.mark.slow
@pytest.mark.dependencies
@without_privacy
def test_threads_and_blocks_change_no_bit(monkeypatch):
    from skdpspectral.recommendation import _kernels as rows

    model = DPMatrixFactorization(noise_seed=3, **{"rating_range": (1, 5), **COMMON})
    expected = clone(model).fit(X, Y).predict(X[:200])
    monkeypatch.setattr(rows, "_BLOCK_RATINGS", 100)
    for n_jobs in (None, 2):
        found = clone(model).set_params(n_jobs=n_jobs).fit(X, Y).predict(X[:200])
        assert np.array_equal(found, expected)


def test_components_are_capped_by_what_tastes_there_are():
    plan = DPMatrixFactorization(50, items=range(9), rating_range=(1, 5)).privacy_plan(
        9
    )
    assert [m.shape for m in plan.mechanisms] == [(21,), (10,), (9, 2)]
    said = "n_components={} is capped at {}, the number of item features"
    assert said.format(50, 2) in plan.remarks[-1]
    plan = DPMatrixFactorization(2, items=range(9), rating_range=(1, 5)).privacy_plan(9)
    assert not any("capped" in remark for remark in plan.remarks)
    plan = DPItemEmbedding(
        50, items=range(9), method="residuals", rating_range=(1, 5)
    ).privacy_plan(9)
    assert "n_components=50 is capped at 9, the number of items" in plan.remarks[-1]
    features = np.eye(40)
    plan = DPMatrixFactorization(
        50, items=range(40), item_features=features, rating_range=(1, 5)
    )
    assert plan.privacy_plan(40).mechanisms[2].shape == (40, 26)
    plan.fit([[0, 1], [1, 3]], [5, 1])
    assert plan.item_factors_.shape == (40, 2 + 24 + 1 + 26)


def test_lines_are_printed_when_asked(capsys):
    DPMatrixFactorization(verbose=1, **{"rating_range": (1, 5), **COMMON}).fit(X, Y)
    told = capsys.readouterr().out.splitlines()
    assert told == [f"[DPMatrixFactorization] step {k} of 3" for k in (1, 2, 3)]
