"""Searches on tables with text, dates and holes: forms, privacy of blocks, costs."""

import pickle
import warnings
from zlib import crc32

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer

from skdpspectral import (
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral._base.sklearn_compat import take_rows
from skdpspectral.accounting import gaussian_mu
from skdpspectral.audit import publish
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.model_selection._vote import Ballot, rows_apart
from skdpspectral.pipeline import make_private_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")

N, SECRET = 240, "Hallstatt, at the lake"
SPACE = {"dptablevectorizer__max_categories": [30, 1]}


def table():
    """A frame whose target goes by a text, a date and the holes of a number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(N) < 0.3, np.nan, rng.normal(40.0, 9.0, N)),
            "city": rng.choice(np.array(["Graz", "Linz", None], object), N),
            "when": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 900, N), unit="D"),
            "note": rng.choice(np.array(["red ball", "blue box"], object), N),
        }
    ).astype({"city": object, "note": object})
    likely = frame["city"].eq("Graz") ^ frame["age"].isna()
    return frame, np.where(rng.random(N) < 0.9, likely, ~likely).astype(int)


X, Y = table()


def model(last=None, **given):
    last = DPRidgeClassifier(classes=[0, 1]) if last is None else last
    return make_private_pipeline(DPTableVectorizer(**given), last)


def search(estimator=None, space=SPACE, **given):
    given = {"epsilon": 60.0, "n_blocks": 4, "scoring": "accuracy", **given}
    return PrivateSearchCV(model() if estimator is None else estimator, space, **given)


@pytest.fixture
def asked(monkeypatch):
    """What each block was given, and has voted, by its number."""
    seen, plain = {}, Ballot.__call__

    def noted(ballot, number, X, y):
        votes = plain(ballot, number, X, y)
        seen[number] = (X, y, *votes)
        return votes

    monkeypatch.setattr(Ballot, "__call__", noted)
    return seen


def votes_of(asked):
    return {number: np.concatenate(votes[2:]) for number, votes in asked.items()}


# -- forms -----------------------------------------------------------------------------

FORMS = {
    "pandas": lambda X: X,
    "categories": lambda X: X.astype({"city": "category"}),
    "polars": pl.from_pandas,
    "polars categories": lambda X: pl.from_pandas(X).cast({"city": pl.Categorical}),
    "arrow": lambda X: pa.Table.from_pandas(X.astype({"city": "category"})),
    "pandas of arrow": lambda X: pa.Table.from_pandas(
        X.astype({"city": "category"})
    ).to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_blocks_of_all_kinds_of_frames_vote_alike(form, asked):
    search().fit(X, Y)
    expected = votes_of(asked)
    assert len(expected) == 4
    assert len({votes.tobytes() for votes in expected.values()}) > 1
    asked.clear()
    found = search().fit(form(X), Y)
    np.testing.assert_equal(votes_of(asked), expected)
    assert found.predict(form(X)).shape == (N,)
    assert found.best_estimator_[0].kinds_["when"] in ("date", "day")


@pytest.mark.parametrize(
    "form", [np.array, lambda X: X.tolist()], ids=["array", "list"]
)
def test_arrays_of_objects_and_lists_stay_what_they_are(form, asked):
    rows = X[["age", "city"]].to_numpy(dtype=object)
    estimator = make_private_pipeline(
        DPTableVectorizer(), DPRidgeClassifier(classes=[0, 1])
    )
    search(estimator).fit(form(rows), Y)
    for block, *_ in asked.values():
        kinds = {type(value) for value in block.ravel()}
        assert kinds <= {float, str, type(None)}
        assert float in kinds


def test_columns_and_texts_reach_steps_and_scorers():
    columns = make_column_transformer(
        (DPTableVectorizer(), ["age", "note"]), (DPTableVectorizer(), ["city", "when"])
    ).set_output(transform="pandas")
    estimator = make_private_pipeline(columns, DPRidgeClassifier(classes=[0, 1]))
    space = {"columntransformer__dptablevectorizer-1__max_categories": [4, 8]}
    found = search(estimator, space).fit(X, Y)
    assert found.score(X, Y) > 0.6
    assert list(found.feature_names_in_) == list(X.columns)


# -- a block is a function of its own rows ---------------------------------------------


def test_a_block_does_what_it_would_do_alone(asked, monkeypatch):
    dealt = []
    plain = rows_apart

    def noted(part, rows, *given):
        dealt.append(rows)
        return plain(part, rows, *given)

    monkeypatch.setattr("skdpspectral.model_selection._vote.rows_apart", noted)
    ballots, call = [], Ballot.__call__
    monkeypatch.setattr(
        Ballot, "__call__", lambda b, *a: (ballots.append(b), call(b, *a))[1]
    )
    search().fit(X, Y)
    rows = [one for one in dealt if len(one)][::2]
    for number, places in enumerate(rows):
        alone = X.iloc[places].reset_index(drop=True)
        again = call(ballots[0], number, alone, Y[places])
        np.testing.assert_equal(np.concatenate(again), votes_of(asked)[number])


def told(X, y=None):
    """A number of everything that a frame knows, values of other rows among it."""
    if isinstance(X, pl.DataFrame):
        codes = (
            X["city"].to_physical().to_list()
            if X["city"].dtype == pl.Categorical
            else []
        )
        return crc32(repr((X.rows(), X.dtypes, codes)).encode())
    known = [X.to_dict("list"), list(X.index), X.attrs, X.index.names]
    for name in X.columns:
        known.append(getattr(X[name].dtype, "categories", None))
        known.append(getattr(X[name].dtype, "ordered", None))
    return crc32(repr(known).encode())


def tells(fitted, X, y):
    """A score that differs by candidate, and with all that a frame knows."""
    seed = told(X) + 7 * fitted[0].max_categories
    return np.random.default_rng(seed).random()


SHORT = make_private_pipeline(
    DPTableVectorizer(max_categories=7), DPRidgeClassifier(classes=[0, 1])
)
NARROW = {"dptablevectorizer__max_categories": [1, 2, 3, 4, 5, 6]}
CHANGES = {"another": "Wels", "number": 7, "missing": None, "long": "Linz " * 50}


def by_frequency(frame):
    values = frame["city"].value_counts().index
    city = pd.Categorical(frame["city"], categories=values, ordered=True)
    out = frame.assign(city=city).set_index("city", drop=False)
    out.attrs["most"] = dict(frame["city"].value_counts(dropna=False))
    return out


@pytest.mark.sampled(5)
@pytest.mark.parametrize("value", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "form",
    [
        lambda X: X,
        lambda X: X.astype({"city": "category"}),
        by_frequency,
        lambda X: pl.from_pandas(X.astype({"city": "string"})).cast(
            {"city": pl.Categorical}
        ),
        lambda X: pa.Table.from_pandas(
            X.astype({"city": "string"}).astype({"city": "category"})
        ),
    ],
    ids=["objects", "categories", "frequencies", "polars", "arrow"],
)
def test_a_text_moves_the_votes_of_its_own_block(form, value, asked):
    search(SHORT, NARROW, scoring=tells).fit(form(X), Y)
    before, known = votes_of(asked), {k: told(asked[k][0]) for k in asked}
    asked.clear()
    other = X.copy()
    other.loc[17, "city"] = value
    search(SHORT, NARROW, scoring=tells).fit(form(other), Y)
    after, changed = votes_of(asked), {k: told(asked[k][0]) for k in asked}
    moved = [k for k in before if known[k] != changed[k]]
    assert len(moved) == 1
    assert moved == [k for k in before if not np.array_equal(before[k], after[k])]


def test_categories_of_the_whole_table_would_move_all_blocks(asked, monkeypatch):
    # What blocks are spared: the rows as they are taken.
    planted = "skdpspectral.model_selection._vote.rows_apart"
    monkeypatch.setattr(planted, lambda part, rows, *_: take_rows(part, rows))
    known = {}
    for value in ("Graz", "Wels"):
        rows = X.copy()
        rows.loc[17, "city"] = value
        search(SHORT, NARROW, scoring=tells).fit(rows.astype({"city": "category"}), Y)
        known[value] = votes_of(asked)
    moved = [
        not np.array_equal(known["Graz"][k], known["Wels"][k]) for k in known["Graz"]
    ]
    assert sum(moved) > 1


def test_a_label_of_a_categorical_target_moves_one_block(asked):
    def seen(fitted, X, y):
        return float(len(y.cat.categories)) + 0.001 * fitted[0].max_categories

    labels = np.where(Y == 1, "yes", "no").astype(object)
    estimator = model(DPRidgeClassifier(classes=["neither", "no", "yes"]))
    for changed in (False, True):
        labels[3] = "neither" if changed else labels[3]
        search(estimator, scoring=seen).fit(X, pd.Series(labels, dtype="category"))
        with_it = [
            k for k, (_, y, *_) in asked.items() if "neither" in y.cat.categories
        ]
        assert len(with_it) == changed


@pytest.mark.parametrize(
    "form",
    [
        pd.Categorical,
        pd.CategoricalIndex,
        lambda labels: pd.array(
            pa.array(labels.tolist()).dictionary_encode(),
            dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())),
        ),
    ],
    ids=["array", "index", "arrow"],
)
@pytest.mark.sampled(2)
def test_labels_without_a_series_know_their_own_block(form, asked):
    labels = np.where(Y == 1, "yes", "no").astype(object)
    labels[3] = "neither"
    estimator = model(DPRidgeClassifier(classes=["neither", "no", "yes"]))
    search(estimator).fit(X, form(labels))
    known = [set(getattr(y, "cat", y).categories) for _, y, *_ in asked.values()]
    assert sorted(map(len, known)) == [2, 2, 2, 3]
    own = [set(np.asarray(y, dtype=object)) for _, y, *_ in asked.values()]
    assert known == own


def fails(fitted, X, y):
    if X["city"].eq(SECRET).any():
        raise ValueError(f"no {SECRET}")
    return fitted.score(X, y)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_no_text_that_was_not_released_leaves_a_search(n_jobs, capfd):
    frame = X.copy()
    frame.loc[11, ["city", "note"]] = SECRET
    ledger = PrivacyAccountant(60.0, 1e-6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search(scoring=fails, n_jobs=n_jobs, accountant=ledger).fit(frame, Y)
    found.set_params(scoring=None)  # the module of the scorer names the text
    for what in (publish(found), found, found.best_estimator_.publish()):
        assert SECRET.encode() not in pickle.dumps(what)
    out = "".join([*capfd.readouterr(), *(str(w.message) for w in caught)])
    assert SECRET not in out + str(ledger.ledger)
    assert set(found.best_estimator_[0].categories_["city"]) & {"Graz", "Linz"}


# -- what it costs ---------------------------------------------------------------------


def test_a_search_is_one_entry_with_its_failures():
    ledger = PrivacyAccountant(60.0, 1e-6)
    made = search(accountant=ledger)
    plan = made.plan_for(X)
    made.fit(X, Y)
    assert made.privacy_ == plan
    assert len(ledger.ledger) == 1
    of_fit = 0.01 * 1e-6
    assert plan.failure == pytest.approx(of_fit, rel=1e-9)
    assert plan.failure >= of_fit
    assert ledger.spent().epsilon <= 60.0
    assert plan.mu == pytest.approx(gaussian_mu(60.0, 1e-6 - plan.failure))
    fitted = made.best_estimator_.privacy_
    assert fitted.failure <= plan.failure
    assert fitted.mu <= plan["fit"].mu


def test_public_categories_cost_no_failure():
    given = {"categories": {"city": ["Graz", "Linz"], "note": ["red ball"]}}
    assert search(model(**given)).plan_for(X).failure == 0.0
    # The dearest candidate decides.
    space = {"dptablevectorizer__categories": [None, given["categories"]]}
    assert search(model(**given), space).plan_for(X).failure > 0.0


def test_the_charge_comes_before_a_value_is_read(monkeypatch):
    order = []
    charge = PrivacyAccountant.charge

    class Watched(pd.DataFrame):
        @property
        def _constructor(self):
            return Watched

    taken = rows_apart

    def noted(*given):
        if isinstance(given[0], Watched):
            order.append("read")
        return taken(*given)

    def charged(ledger, *given, **named):
        order.append("charge")
        return charge(ledger, *given, **named)

    monkeypatch.setattr("skdpspectral.model_selection._vote.rows_apart", noted)
    monkeypatch.setattr(PrivacyAccountant, "charge", charged)
    search(accountant=PrivacyAccountant(60.0, 1e-6)).fit(Watched(X), Y)
    assert order[0] == "charge"
    assert order.count("read") == 4


# -- refusals --------------------------------------------------------------------------

NUMBERS = make_private_pipeline(DPStandardScaler(), DPRidgeClassifier(classes=[0, 1]))

REFUSED = {
    "text for a scaler": ({"estimator": NUMBERS, "space": {}}, X, "dates|text"),
    "two columns of a name": ({}, X.rename(columns={"note": "city"}), "same name"),
    "a column that is not there": (
        {"estimator": model(categories={"town": ["Graz"]})},
        X,
        "town",
    ),
    "a candidate's column": (
        {"space": {"dptablevectorizer__categories": [None, {"nowhere": ["a"]}]}},
        X,
        "param_grid.*nowhere",
    ),
    "a dtype without numbers": ({}, X.assign(when=X["when"].dt.to_period("M")), "when"),
    "users behind a table of rows": (
        {"estimator": model(LRSRegressor(2, user_feature=0))},
        X,
        "leaks",
    ),
    "a masked array": ({}, np.ma.masked_array(X.to_numpy(object)), "masked"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_tables_are_refused_before_any_charge(name):
    given, rows, said = REFUSED[name]
    ledger = PrivacyAccountant(60.0, 1e-6)
    made = search(**given, accountant=ledger)
    with pytest.raises((TypeError, ValueError), match=said):
        made.fit(rows, Y)
    assert not len(ledger.ledger)


def test_labels_of_another_kind_cost_a_search_nothing():
    X = np.random.default_rng(0).normal(size=(400, 3))
    labels = np.array(["0", "1"])[(X[:, 0] > 0).astype(int)]
    ledger = PrivacyAccountant()
    model = DPRidgeClassifier(classes=[0, 1])
    search = PrivateSearchCV(model, {"alpha": [1.0]}, epsilon=4.0, accountant=ledger)
    with pytest.raises(ValueError, match="none of the classes"):
        search.fit(X, pd.Series(pd.Categorical(labels)))
    assert not ledger.ledger
