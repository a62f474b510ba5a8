"""Replays over everything: neighbors that are given the same releases show the same.

The stage of slow tests runs all of them, thousands of pairs. Planted mistakes make sure
that the replays see what they are for.
"""

import dataclasses
import importlib
import itertools
import pkgutil
import sys
import warnings

import numpy as np
import pytest
import replay
import replay_cases
from compositions import FEW_STEPS
from replay import Tape, play, tally
from replay_cases import (
    FORMS,
    ONE_ROUND,
    Foreign,
    all_families,
    cases_of_form,
    client_cases,
    other_cases,
    row_cases,
    user_cases,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from test_common import ESTIMATORS

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPRidge,
    DPStandardScaler,
    FederatedDPPCA,
    JMECovariance,
    LRSMLPRegressor,
    LRSRegressor,
    PrivacyBudgetError,
)
from skdpspectral._release import noise
from skdpspectral._tables import clipping
from skdpspectral.covariance import Window
from skdpspectral.mechanisms import Gaussian, PrivacyPlan
from skdpspectral.model_selection import PrivateSplit

FAMILIES = all_families(ESTIMATORS)


def check(closest):
    """Nothing was found."""
    assert not closest.found, "\n".join(" | ".join(one) for one in closest.found[:20])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "form", "cases"), FAMILIES, ids=[f"{a}-{b}" for a, b, _ in FAMILIES]
)
def test_neighbors_that_are_given_the_same_releases_show_the_same(family, form, cases):
    closest = tally(cases(), budgets=(True, False))
    print(
        family, form, closest.n_pairs, closest.n_releases, closest.ratio, closest.where
    )
    check(closest)
    if form == "array":
        unfit = [name for name in closest.unfit if "Spiked" not in name]
        assert not unfit, unfit
        assert closest.n_pairs > 20
    if family.endswith("settings") or family in ("groups", "searches", "compositions"):
        assert closest.ratio > 0.99, closest


STEPS = {
    "scaler": DPStandardScaler(epsilon=50.0),
    "scaler of columns": DPStandardScaler(epsilon=50.0, with_mean=False),
    "components": DPPCA(2),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_overflows_is_not_told_by_the_next_one(name, dtype):
    """A finite row that the step before turns into infinities would be refused."""
    X = 0.01 * np.random.default_rng(0).standard_normal((2000, 4)).astype(dtype)
    X[3] = np.finfo(dtype).max * np.array([1, 1, -1, 1])
    forms = [X, sparse.csr_array(X)] if name == "scaler of columns" else [X]
    for rows in forms:
        steps = make_pipeline(clone(STEPS[name]), DPPCA(1, center="none"))
        with np.errstate(all="raise"):
            steps.fit(rows)
        made = steps[0].transform(rows)
        made = made.toarray() if sparse.issparse(made) else made
        assert made.dtype == X.dtype
        assert np.isfinite(made).all()


# -- planted mistakes ------------------------------------------------------------------


def rng():
    return np.random.default_rng(0)


# Cases beside estimators, on which releases come close to their costs.
CLOSE = {
    "table": lambda: [
        dataclasses.replace(
            case, neighbors=dict(list(case.neighbors.items())[-8:]), invalid=frozenset()
        )
        for case in itertools.islice(other_cases("tables", "pandas"), 1)
    ],
    "score": lambda: other_cases("scorers", "array"),
    "user score": lambda: other_cases("scorers of users", "array"),
    "optimizer": lambda: other_cases("optimizers", "array"),
}


@pytest.mark.parametrize("name", CLOSE)
def test_a_sensitivity_that_is_ten_per_cent_too_small_is_found(name, monkeypatch):
    check(tally(CLOSE[name]()))
    charged = Gaussian._charged
    monkeypatch.setattr(Gaussian, "_charged", lambda self: 0.9 * charged(self))
    found = tally(CLOSE[name]()).found
    assert any(one.what.startswith("moved") for one in found)


def of_fit(cls, after):
    """Return a fit that does something more with what it was given."""
    fit = cls.fit

    def wrong(self, X, *args, **named):
        after_it = after(self, np.asarray(X))
        fit(self, X, *args, **named)
        after_it()
        return self

    return wrong


def _count(X):
    with np.errstate(all="ignore"):
        return int((np.linalg.norm(np.nan_to_num(X), axis=1) > 10.0).sum())


AFTER = {
    "a private attribute": lambda self, X: lambda: setattr(self, "_n_long", _count(X)),
    "an object of a private attribute": lambda self, X: (
        lambda: setattr(self, "_rows", DPPCA(epsilon=1.0 + _count(X)))
    ),
    "a function of a private attribute": lambda self, X: (
        lambda: setattr(self, "_lengths", lambda: np.linalg.norm(X, axis=1))
    ),
    "an attribute": lambda self, X: lambda: setattr(self, "n_long_", _count(X)),
    "a parameter": lambda self, X: (
        lambda: setattr(self, "delta", float(1.0 / (1.0 + np.abs(X).max())))
    ),
    "a dtype": lambda self, X: (
        lambda: setattr(
            self, "mean_", self.mean_.astype("f4" if _count(X) % 2 else "f8")
        )
    ),
    "a warning": lambda self, X: (
        lambda: warnings.warn(
            f"{_count(X)} rows were clipped", UserWarning, stacklevel=2
        )
    ),
    "a line": lambda self, X: lambda: print(_count(X), "rows were clipped"),
    "a draw": lambda self, X: lambda: np.random.random(_count(X)),  # noqa: NPY002
    "one bit": lambda self, X: (
        lambda: np.nextafter(
            self.components_, (-9.0) ** (1 + _count(X) % 2), out=self.components_
        )
    ),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_a_fit_says_of_values_is_found(name, monkeypatch):
    monkeypatch.setattr(DPPCA, "fit", of_fit(DPPCA, AFTER[name]))
    found = tally(row_cases(rng(), DPPCA(1, center="none"), "array")).found
    assert found
    assert not any(one.what.startswith("moved") for one in found)


def test_a_plan_that_states_less_than_its_releases_cost_is_found(monkeypatch):
    total = PrivacyPlan.mu_beside_curves.fget
    monkeypatch.setattr(
        PrivacyPlan, "mu_beside_curves", property(lambda self: 0.9 * total(self))
    )
    found = tally(row_cases(rng(), DPPCA(1, center="none"), "array")).found
    assert {"moved the fit"} <= {one.what for one in found}


@pytest.mark.parametrize("odd", ["surrogate", "foreign"])
def test_an_error_that_quotes_an_odd_id_is_found(odd, monkeypatch):
    fit = LRSRegressor.fit

    def wrong(self, X, y, users=None):
        try:
            return fit(self, X, y, users=users)
        except (TypeError, ValueError):
            strange = [
                k for k in users if isinstance(k, str if odd[0] == "s" else Foreign)
            ]
            raise ValueError(f"ids {strange} cannot be read") from None

    monkeypatch.setattr(LRSRegressor, "fit", wrong)
    cases = user_cases(rng(), LRSRegressor(solver=ONE_ROUND), "list")
    found = [one for one in tally(cases).found if odd in one.neighbor]
    assert {"a secret in a text"} <= {one.what for one in found}


# For each module that clips rows, a fit on which that clip decides.
CLIPPED = {
    "covariance._moment_stream": lambda: row_cases(rng(), JMECovariance(), "array"),
    "decomposition._bounded_moments": lambda: client_cases(
        rng(), FederatedDPPCA(1, projection_norm=1.0), "array"
    ),
    "_statistics.centered": lambda: row_cases(rng(), DPPCA(1, epsilon=1000.0), "array"),
    "linear_model._ridge": lambda: row_cases(rng(), DPRidge(epsilon=200.0), "array"),
    "_statistics.user_sums": lambda: user_cases(
        rng(), LRSMLPRegressor(2, **FEW_STEPS), "array"
    ),
}
# The guarantee of one rests on a model of the rows, and on no clip; the clip of the
# other decides in wide tables, and theory/test_centered.py has narrow ones.
UNBOUNDED = {"decomposition._spiked", "_statistics.moments"}


def test_every_module_that_clips_has_a_fit_on_which_it_decides():
    parts = skdpspectral.__name__ + "."
    for module in pkgutil.walk_packages(skdpspectral.__path__, parts):
        if "flower" not in module.name:
            importlib.import_module(module.name)
    found = {
        name.removeprefix(parts)
        for name, module in sys.modules.items()
        if name.startswith(parts) and CLIPS.keys() & vars(module).keys()
    }
    assert found - {"_tables.clipping"} == CLIPPED.keys() | UNBOUNDED


CLIPS = {
    "clip_rows": lambda X, norm, *, out=None: np.add(X, 0.0, out=out),
    "sum_clipped_rows": lambda X, norm: X.sum(axis=0),
}


@pytest.mark.parametrize("module", CLIPPED)
def test_a_clip_that_is_left_out_is_found(module, monkeypatch):
    check(tally(CLIPPED[module]()))
    for name, left in CLIPS.items():
        monkeypatch.setattr(f"skdpspectral.{module}.{name}", left, raising=False)
    found = tally(CLIPPED[module]()).found
    assert any(one.what.startswith("moved") for one in found)


def test_a_clip_with_a_tolerance_is_found(monkeypatch):
    def tolerant(X, clip_norm, *, out=None):
        short = np.linalg.norm(X, axis=1, keepdims=True) <= 1.05 * clip_norm
        return np.where(short, X, clipping.clip_rows(X, clip_norm))

    module = "covariance._moment_stream"
    monkeypatch.setattr(f"skdpspectral.{module}.clip_rows", tolerant)
    found = tally(CLIPPED[module]()).found
    assert {one.neighbor for one in found} == {"beyond the clip 0"}


def test_a_normalization_that_is_left_out_is_found(monkeypatch):
    monkeypatch.setattr(clipping, "_rescale_rows", lambda X, *how, **more: X + 0.0)
    found = tally(row_cases(rng(), DPPCA(1, center="none"), "array")).found
    assert any(one.what.startswith("moved") for one in found)


def of_hard_values(form):
    """Cases of tables in which one value is of the kinds that Python stumbles over."""
    kinds = list(replay_cases.FREQUENT).index("kinds")
    for case in itertools.islice(other_cases("tables", form), 1):
        hard = {}
        for kind, values in replay_cases.HARD.items():
            for number, value in enumerate(values):
                rows = [list(row) for row in case.data]
                rows[3][kinds] = value
                hard[f"{kind} {number}"] = rows
        yield dataclasses.replace(case, neighbors=hard, changed={})


@pytest.mark.parametrize("form", ["pandas", "object"])
def test_a_value_that_has_no_text_is_told_by_nothing(form):
    check(tally(of_hard_values(form), budgets=(True, False)))


def test_a_branch_that_values_choose_is_found(monkeypatch):
    call = noise.Release.__call__

    def wrong(self, name, value, **how):
        if int(2**20 * value[0, 0]) % 2:
            self._close(name)
            return np.eye(len(value))
        return call(self, name, value, **how)

    monkeypatch.setattr(noise.Release, "__call__", wrong)
    found = tally(row_cases(rng(), DPPCA(1, center="none"), "array", 4)).found
    assert {"other releases"} <= {one.what for one in found}


BEFORE = {
    "an error": lambda X: ValueError("rows are long") if _count(X) % 2 else None,
    "a warning": lambda X: warnings.warn(f"{_count(X)}", stacklevel=1),
    "a line": lambda X: print(_count(X)),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_is_said_before_a_charge_is_found(name, monkeypatch):
    fit = DPPCA.fit

    def wrong(self, X, y=None):
        said = BEFORE[name](np.asarray(X))
        if said is not None:
            raise said
        return fit(self, X)

    cases = list(row_cases(rng(), DPPCA(1, center="none"), "array", 3))
    assert not tally(cases, budgets=(False,)).found
    monkeypatch.setattr(DPPCA, "fit", wrong)
    assert tally(cases, budgets=(False,)).found


def test_an_error_that_quotes_a_value_is_found(monkeypatch):
    fit = DPPCA.fit

    def wrong(self, X, y=None):
        try:
            return fit(self, X)
        except ValueError:
            text = [v for v in np.ravel(np.asarray(X)) if isinstance(v, str)]
            raise ValueError(f"{text} cannot be read") from None

    monkeypatch.setattr(DPPCA, "fit", wrong)
    found = tally(row_cases(rng(), DPPCA(1), "object")).found
    assert {"a secret in a text"} <= {one.what for one in found}


def test_refusals_that_say_where_a_value_is_are_found(monkeypatch):
    fit = DPPCA.fit

    def wrong(self, X, y=None):
        try:
            return fit(self, X)
        except ValueError:
            where = np.flatnonzero(~np.isfinite(X).all(axis=1))
            raise ValueError(f"row {where} is not finite") from None

    monkeypatch.setattr(DPPCA, "fit", wrong)
    found = tally(row_cases(rng(), DPPCA(1), "array")).found
    assert {"refusals differ"} == {one.what for one in found}


def test_others_whose_models_move_are_found(monkeypatch):
    fit = LRSRegressor.fit

    def wrong(self, X, y, users=None):
        fit(self, X, y, users=users)
        self._n_users = len(np.unique(users))
        return self

    def predict(self, X, users=None):
        return true(self, X, users=users) + self._n_users

    true = LRSRegressor.predict
    cases = list(user_cases(rng(), LRSRegressor(solver=ONE_ROUND), "array"))
    monkeypatch.setattr(LRSRegressor, "fit", wrong)
    monkeypatch.setattr(LRSRegressor, "predict", predict)
    found = tally(cases).found
    assert {one.what for one in found} == {"predictions of others", "private _n_users"}


def test_a_deal_of_users_by_their_order_is_found(monkeypatch):
    assert not tally(other_cases("splits", "array")).found
    folds = PrivateSplit._folds_of_users

    def by_order(self, X, groups):
        ids = np.unique(np.asarray(X)[:, 0], return_inverse=True)[1]
        return (folds(self, X, groups) + ids) % max(self.n_splits, 2)

    monkeypatch.setattr(PrivateSplit, "_folds_of_users", by_order)
    assert tally(other_cases("splits", "array")).found


def test_a_score_that_is_not_cut_is_found(monkeypatch):
    monkeypatch.setattr(np, "clip", lambda values, *bounds, **how: values)
    found = tally(replay_cases.scorer_cases(rng(), "array")).found
    assert any(one.what.startswith("moved") for one in found)


def test_a_sum_over_others_than_the_sample_is_found(monkeypatch):
    sample = replay._sample_units

    def everybody(self, position, n_units):
        drawn = sample(self, position, n_units)
        return np.arange(n_units) if position == 1 else drawn

    def noted(tape, owner, position, n_units):
        tape.last_sample = sample(owner, position, n_units)
        return everybody(owner, position, n_units)

    monkeypatch.setattr(Tape, "sample_units", noted)
    cases = row_cases(rng(), DPAdamClassifier(classes=[0, 1], batch_size=6), "array")
    assert any(one.what.startswith("moved") for one in tally(cases).found)


# -- the machinery itself --------------------------------------------------------------


def test_a_stream_is_measured_by_its_own_matrix():
    """C times one changed row, of a window of five, by the definition."""
    (case,) = row_cases(rng(), JMECovariance(workload=Window(5)), "array")
    first = play(lambda: case.act(case.data), Tape())
    (asked,) = first.tape.asked[:1]
    n = len(asked.exact)
    columns = np.column_stack(
        [replay._pulse(asked, n, step)[:, 0] for step in range(n)]
    )
    rows = np.zeros_like(asked.exact)
    rows[7] = rng().standard_normal(rows.shape[1])
    expected = np.linalg.solve(columns, rows[:, 0])
    np.testing.assert_allclose(
        replay._whitened(asked, rows)[:, 0], expected, atol=1e-12
    )
    norm = np.linalg.norm(np.linalg.inv(columns), axis=0).max()
    assert norm <= asked.mechanism.column_norm * (1 + 1e-9)


def test_a_replay_of_the_same_data_is_the_same():
    (case,) = row_cases(rng(), DPPCA(1), "array")
    first = play(lambda: case.act(case.data), Tape())
    again = play(lambda: case.act(case.data), Tape(first.tape))
    assert first.seen == again.seen
    assert again.tape.apart is None
    assert [ratio for _, ratio in replay.shares(first.tape, again.tape)] == [0.0]
    refused = play(lambda: case.act(case.data), Tape(budget=False))
    assert PrivacyBudgetError.__name__ in refused.error
    assert not refused.tape.asked


@pytest.mark.slow
def test_every_form_is_read_by_some_estimator():
    for form in FORMS:
        kind = "ratings" if form in ("csr", "csc") else "rows"
        assert tally(list(cases_of_form(kind, form))[:1]).n_pairs > 5, form
