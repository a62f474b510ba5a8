"""A private search: what leaves it, what it costs, what it refuses.

Laws of draws are compared by chi-square tests whose false alarm rate is 1e-4.
"""

import copy
import math
import os
import pickle
import random
import threading
import warnings

import numpy as np
import pytest
from release_tools import Release, noise_generator, record_releases
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from sklearn.utils.estimator_checks import check_estimator

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPMatrixFactorization,
    DPStandardScaler,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral._release.selection import (
    SelectionRelease,
    draw_candidate,
    draw_number,
    isolated_process_state,
)
from skdpspectral.accounting import (
    calibrate_gaussian,
    calibrate_selection,
    gaussian_epsilon,
    gaussian_mu,
    selection_epsilon,
)
from skdpspectral.accounting._ledger import store
from skdpspectral.audit import privacy_report
from skdpspectral.datasets import make_ratings
from skdpspectral.decomposition import SpikedModel
from skdpspectral.mechanisms import PrivacyPlan
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import (
    PrivateSearchCV,
    PrivateSplit,
    RandomRuns,
    _candidates,
    _runs,
)
from skdpspectral.model_selection._runs import (
    Exposure,
    Runs,
    exposure_of,
    score_plan,
    splitter_of,
)
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import make_private_pipeline

pytestmark = pytest.mark.filterwarnings("ignore:noise_seed is given")
X = np.random.default_rng(0).normal(size=(400, 4)) * [4.0, 1.0, 1.0, 1.0]
SPACE = {"center": ["none"], "clip_norm": [None, 1.0, 9.0]}


def kept(**more):
    return make_private_scorer("captured_variance", clip_norm=9.0, **more)


def search(estimator=None, space=SPACE, **parameters):
    runs = {"expected_n_iter": 4, "n_iter_law": "geometric"}
    runs |= {n: v for n, v in parameters.items() if n in RandomRuns().get_params()}
    parameters = {n: v for n, v in parameters.items() if n not in runs}
    parameters = {"epsilon": 8.0, "scoring": kept(), **parameters}
    parameters["strategy"] = RandomRuns(**runs)
    return PrivateSearchCV(
        DPPCA(1) if estimator is None else estimator, space, **parameters
    )


@pytest.fixture
def outcomes(monkeypatch):
    """What came of each run, the score as it left its release, and without noise."""
    seen, plain = [], Runs._run

    def noted(runs, candidate, seed):
        let_out = []
        with monkeypatch.context() as patch:
            release = Release.__call__

            def spied(self, name, value, **how):
                out = release(self, name, value, **how)
                if name == "score":
                    let_out.append((np.copy(value), out.copy()))
                return out

            patch.setattr(Release, "__call__", spied)
            seen.append((plain(runs, candidate, seed), let_out))
        return seen[-1][0]

    monkeypatch.setattr(Runs, "_run", noted)
    return seen


# -- laws of draws ---------------------------------------------------------------------


@pytest.mark.parametrize("law", ["logarithmic", "geometric", "poisson"])
def test_the_number_of_runs_has_its_law(law):
    selection = calibrate_selection("best", 1.0, 1e-6, 6.0, law=law)
    generator = noise_generator(0)
    drawn = np.array([draw_number(selection, generator) for _ in range(6000)])
    gamma = selection.gamma
    frozen = {
        "logarithmic": lambda: stats.logser(1.0 - gamma),
        "geometric": lambda: stats.geom(gamma),
        "poisson": lambda: stats.poisson(6.0),
    }[law]()
    edges = np.arange(0, 21)
    found = np.array([*(np.sum(drawn == k) for k in edges), np.sum(drawn > 20)])
    expected = 6000 * np.array([*frozen.pmf(edges), frozen.sf(20)])
    seen = expected > 5
    assert found[~seen].sum() <= expected[~seen].sum() + 5 * np.sqrt(20)
    distance = np.sum((found[seen] - expected[seen]) ** 2 / expected[seen])
    assert distance < stats.chi2(seen.sum() - 1).isf(1e-4)
    assert drawn.min() == (0 if law == "poisson" else 1)


def test_candidates_are_drawn_uniformly_and_alone():
    generator = noise_generator(0)
    space = [{"a": [1, 2, 3], "b": stats.uniform(0, 1)}, {"c": ["x"]}]
    drawn = [draw_candidate(space, generator) for _ in range(6000)]
    first = [one for one in drawn if "a" in one]
    assert abs(len(first) - 3000) < 3.9 * np.sqrt(1500)
    counts = np.bincount([one["a"] for one in first])[1:]
    expected = len(first) / 3
    assert np.sum((counts - expected) ** 2 / expected) < stats.chi2(2).isf(1e-4)
    points = [one["b"] for one in first]
    assert stats.kstest(points, "uniform").pvalue > 1e-4


# -- what leaves -----------------------------------------------------------------------


def test_the_best_is_the_best_of_the_released_scores(outcomes):
    """With noise as large as the scores the exact best would hardly ever be it."""
    differs = 0
    for seed in range(12):
        outcomes.clear()
        made = search(epsilon=1.0, expected_n_iter=6, noise_seed=seed).fit(X)
        scores = [outcome.score for outcome, _ in outcomes]
        assert made.best_score_ == max(scores)
        best = outcomes[int(np.argmax(scores))]
        assert made.best_params_ == best[0].candidate
        assert made.best_estimator_ is best[0].model
        exact = []
        for outcome, ((value, out),) in outcomes:
            kind = made.scorer_._kind
            assert outcome.score == kind.finish(out, _std(made))[0]
            exact.append(kind.finish(value, 0.0)[0])
        differs += np.argmax(exact) != np.argmax(scores)
    assert differs > 2


def _std(made):
    """Deviation of the noise of a score of fifty pairs, by what it may cost."""
    splits = list(splitter_of(made.strategy.cv, made.scorer_).split(X))
    cost = made.strategy._budgets(made, Exposure.of_rows(splits, len(X)), X).mu_score
    return kept().statistic(50).mechanisms(cost)[0].noise_std


def test_nothing_tells_the_number_of_runs(outcomes, capfd):
    sizes, states, numbers = set(), set(), set()
    known_ledgers = len(store._seen)
    for seed in range(6):
        outcomes.clear()
        with warnings.catch_warnings(record=True) as said, record_releases() as told:
            warnings.simplefilter("always")
            made = search(epsilon=0.5, noise_seed=seed).fit(X)
        numbers.add(len(outcomes))
        sizes.add(tuple(str(w.message)[:20] for w in said))
        states.add(tuple(sorted(vars(made))))
        assert list(told) == ["best"]
        assert np.array_equal(told["best"], [made.best_score_])
        assert {len(column) for column in made.cv_results_.values()} == {1}
        assert not [n for n in vars(made) if "n_iter_" in n and not n.startswith("n_")]
        known = {"n_splits_": 1, "best_index_": 0, "verbose": 0}
        assert vars(made.estimator).keys() == vars(DPPCA(1)).keys()
        whole = {n: v for n, v in vars(made).items() if type(v) is int}
        assert whole == {**known, "noise_seed": seed, "verbose": 0}
    assert len(numbers) > 1
    assert len(store._seen) == known_ledgers
    assert len(sizes) == len(states) == 1
    assert capfd.readouterr() == ("", "")


def test_global_generators_tell_no_number_of_runs(outcomes):
    """A step that draws by a public seed of the process would tell which run it is."""
    made = search(make_pipeline(GaussianRandomProjection(3), DPPCA(1)), {})
    after, first, numbers = set(), set(), set()
    for _ in range(8):
        outcomes.clear()
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        np.random.standard_normal()  # noqa: NPY002
        best = made.fit(X).best_estimator_
        numbers.add(len(outcomes))
        first.add(best[0].components_[0, 0])
        after.add((np.random.standard_normal(), random.random()))  # noqa: NPY002
    assert len(numbers) > 1
    assert len(first) == 8
    assert len(after) == 1


def test_what_is_the_process_s_comes_back_when_the_last_search_has_ended():
    """Contexts of a thread overlap: the first to end must not open the other."""
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.RandomState(0).random()
    first, second = (isolated_process_state(bytes([n] * 16)) for n in (1, 2))
    filters = list(warnings.filters)
    all_ignored = ("ignore", None, Warning)
    assert filters[0][:3] != all_ignored
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert warnings.filters[0][:3] == all_ignored
    assert np.random.random() != expected  # noqa: NPY002
    second.__exit__(None, None, None)
    assert warnings.filters == filters
    assert np.random.random() == expected  # noqa: NPY002


def test_threads_do_not_share_secret_seeds():
    """Of two in one stream each would see what the other has drawn."""
    drawn, entered = [], threading.Event()

    def draws():
        with isolated_process_state(bytes([2] * 16)):
            drawn.append(np.random.random())  # noqa: NPY002
            entered.set()

    draws()
    entered.clear()
    other = threading.Thread(target=draws)
    with isolated_process_state(bytes([1] * 16)):
        other.start()
        entered.wait(0.2)
    other.join()
    assert drawn[0] == drawn[1]


def forked_exit(function):
    """Exit code of a forked child that leaves with what a function returns."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = int(function())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't be forked here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_keeps_the_secret_seed_of_its_own_thread_alone():
    """A child of another thread never sees the end: it would go on from that seed."""
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.RandomState(0).random()
    codes = []

    def draws_what_the_process_draws():
        return np.random.random() == expected  # noqa: NPY002

    def forks():
        codes.append(forked_exit(draws_what_the_process_draws))

    with isolated_process_state(bytes(16)):
        forks()
        other = threading.Thread(target=forks)
        other.start()
        other.join()
    assert codes == [0, 1]
    assert draws_what_the_process_draws()


class DrawsThatTell:
    """A law of candidates that warns of every draw."""

    def rvs(self, random_state):
        """Return a norm."""
        warnings.warn("drawn", UserWarning, stacklevel=1)
        return random_state.uniform(1.0, 9.0)


def test_draws_and_workers_tell_no_number_of_runs(outcomes, monkeypatch, capfd):
    processes, fit = [], DPPCA.fit

    def noted(self, X, y=None):
        processes.append(os.getpid())
        return fit(self, X)

    monkeypatch.setattr(DPPCA, "fit", noted)
    both = FeatureUnion([("a", DPPCA(1)), ("b", DPPCA(1))], n_jobs=2)
    made = search(make_pipeline(both, DPPCA(1)), {"dppca__clip_norm": DrawsThatTell()})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        made.fit(X)
    assert set(processes) == {os.getpid()}
    assert len(processes) == 3 * len(outcomes)
    assert capfd.readouterr() == ("", "")


def test_copies_of_a_search_are_alike():
    made = search().fit(X)
    twin = pickle.loads(pickle.dumps(made))
    assert twin.best_params_ == made.best_params_
    assert np.array_equal(twin.transform(X), made.transform(X))
    assert copy.deepcopy(made).best_score_ == made.best_score_
    assert not hasattr(clone(made), "best_params_")


def test_all_failures_look_alike(outcomes):
    rows = X.copy()
    made = search(noise_seed=0)
    accountant = PrivacyAccountant(8.0, 1e-6, allow_seeded=True)
    rows[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        made.set_params(accountant=accountant).fit(rows)
    assert len(accountant.ledger) == 1
    assert not outcomes


@pytest.mark.parametrize(
    "error", [ValueError("secret 7"), MemoryError(), StopIteration()]
)
def test_a_run_that_fails_has_the_worst_score(monkeypatch, error, outcomes):
    fit = DPPCA.fit

    def fails(self, X, y=None):
        if self.clip_norm == 9.0:
            raise error
        return fit(self, X)

    monkeypatch.setattr(DPPCA, "fit", fails)
    for seed in (2, 3, 8, 9):
        made = search(expected_n_iter=30, noise_seed=seed).fit(X)
        assert made.best_params_["clip_norm"] != 9.0
    assert any(outcome.model is None for outcome, _ in outcomes)
    with pytest.raises(RuntimeError, match="no run of the search") as caught:
        search(space={"clip_norm": [9.0]}, noise_seed=0).fit(X)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_an_interrupt_ends_a_search_that_stays_charged(monkeypatch):
    def interrupted(self, X, y=None):
        raise KeyboardInterrupt

    accountant, made = PrivacyAccountant(), search()
    monkeypatch.setattr(DPPCA, "fit", interrupted)
    with accountant, pytest.raises(KeyboardInterrupt):
        made.fit(X)
    assert len(accountant.ledger) == 1
    assert not hasattr(made, "best_params_")


def test_a_poisson_law_may_draw_no_run():
    made = search(n_iter_law="poisson", expected_n_iter=1e-9)
    with pytest.raises(RuntimeError, match="none was drawn"):
        made.fit(X)


# -- what it costs ---------------------------------------------------------------------


@pytest.mark.parametrize("law", ["auto", "logarithmic", "geometric", "poisson"])
@pytest.mark.parametrize("refit", ["winner", True])
@pytest.mark.parametrize("cv", [None, 5, KFold(3)])
def test_a_search_is_one_entry_of_what_it_promised(law, refit, cv):
    made = search(n_iter_law=law, refit=refit, cv=cv, epsilon=2.0)
    plan = made.privacy_plan(*X.shape)
    assert plan == made.plan_for(X)
    (selection,) = plan.curves
    spent = selection_epsilon(selection, 1e-6, plan.mu_beside_curves)
    assert 2.0 * (1 - 1e-8) < spent <= 2.0
    accountant = PrivacyAccountant(2.0, 1e-6)
    assert accountant.check(made, X).epsilon <= 2.0
    made.set_params(accountant=accountant, strategy__n_iter_law=law)
    try:
        made.fit(X)
    except RuntimeError:
        assert law in ("poisson", "auto")  # of four runs on average, there was none
    assert len(accountant.ledger) == 1
    with pytest.raises(PrivacyBudgetError):
        made.fit(X)
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
@pytest.mark.parametrize(
    "cv", [KFold(2), KFold(5), PrivateSplit(1), PrivateSplit(1, test_size=0.9)], ids=str
)
def test_no_row_pays_more_than_a_run_costs(cv, share):
    splits = list(cv.split(X))
    exposure = Exposure.of_rows(splits, len(X))
    fit, score = exposure.costs(1.0, share)
    paid = np.zeros(len(X))
    for train, test in splits:
        paid[train] += fit**2
        paid[test] += score**2 / exposure.n_times**2
    assert paid.max() == pytest.approx(1.0, rel=1e-12)
    users = exposure_of(PrivateSplit(3, user_feature=0), None, len(X))
    fit, score = users.costs(1.0, share)
    assert 3 * fit**2 + score**2 == pytest.approx(1.0, rel=1e-12)


def test_rows_that_are_held_out_several_times_are_counted():
    splits = [(np.arange(2, 10), np.arange(2)), (np.arange(4, 10), np.arange(4))]
    exposure = Exposure.of_rows(splits, 10)
    assert exposure.n_times == 2
    fit, score = exposure.costs(1.0, 0.2)
    # Rows 0 and 1 pay for two scores, 2 and 3 for one of each, the others for two fits.
    costs = [score**2, fit**2 + score**2 / 4, 2 * fit**2]
    assert max(costs) == pytest.approx(1.0)
    # Who is held out seldom and fitted on often may be the one to pay the most.
    fit, score = Exposure(2, ((3, 1), (0, 2))).costs(1.0, 0.2)
    assert 3 * fit**2 + score**2 / 4 == pytest.approx(1.0)


@pytest.mark.parametrize(
    "cv", [RepeatedKFold(n_splits=4, n_repeats=3, random_state=0), KFold(4)], ids=str
)
def test_the_noise_of_a_score_is_for_rows_that_are_held_out_so_often(cv):
    made, scorer = search(cv=cv, epsilon=1.0), make_private_scorer("accuracy")
    splits = list(cv.split(X))
    budgets = made.strategy._budgets(made, Exposure.of_rows(splits, len(X)), X)
    (mechanism,) = score_plan(
        made.privacy_plan(len(X)), scorer, splits, len(X), budgets
    ).mechanisms
    times, terms = len(splits) // 4, sum(len(test) for _, test in splits)
    assert mechanism.sensitivity == pytest.approx(times / terms)
    assert mechanism.mu == pytest.approx(budgets.mu_score)


def test_fits_of_runs_cost_what_they_may(outcomes):
    scaler = make_pipeline(DPStandardScaler(epsilon=3.0), DPPCA(1, epsilon=1.0))
    made = search(scaler, {"dppca__clip_norm": [1.0, 9.0]}, cv=4).fit(X)
    fits = [step.privacy_.mu for _, step in made.best_estimator_.steps]
    mus = [gaussian_mu(3.0, 1e-6), gaussian_mu(1.0, 1e-6)]
    assert fits[0] / fits[1] == pytest.approx(mus[0] / mus[1], rel=1e-6)
    run = made.privacy_.curves[0].run_mu
    assert math.hypot(*fits) == pytest.approx(run * math.sqrt(0.8 / 3), rel=1e-9)
    for _, step in made.best_estimator_.steps:
        assert step.accountant is None
        assert step.noise_seed is None


def test_given_budgets_are_what_they_are():
    made = search(DPPCA(1, epsilon=3.0), step_budgets="given", epsilon=2.0)
    most = made.fit_epsilon(400)
    accountant = PrivacyAccountant()
    made.set_params(accountant=accountant)
    with pytest.raises(ValueError, match=r"may cost mu=.*at most epsilon="):
        made.fit(X)
    assert accountant.ledger == ()
    made.set_params(estimator__epsilon=0.9 * most)
    assert made.fit(X).best_estimator_.epsilon == 0.9 * most
    space = {"epsilon": [0.5 * most, most, 1.01 * most]}
    with pytest.raises(ValueError, match="candidate"):
        made.set_params(param_distributions=space).fit(X)
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize("planned", [True, False])
def test_what_is_drawn_and_asks_for_more_fails(outcomes, planned, monkeypatch):
    """Of distributions nobody knows beforehand what is drawn: each run has a ledger."""
    if not planned:  # which does not need the plans to be looked at
        monkeypatch.setattr(_runs, "check_candidate", lambda *_: None)
    made = search(step_budgets="given", epsilon=2.0, expected_n_iter=30, noise_seed=1)
    most = made.fit_epsilon(400)
    made.set_params(
        estimator__epsilon=0.5 * most,
        param_distributions={"epsilon": stats.uniform(0.5 * most, most)},
    ).fit(X)
    assert made.best_params_["epsilon"] <= most
    failed = [o.candidate["epsilon"] > most for o, _ in outcomes if o.model is None]
    assert failed
    assert all(failed)


def test_the_ledger_of_a_run_ends_where_a_fit_does():
    plan = search().privacy_plan(400)

    def fit(mu):
        step = calibrate_gaussian("step", 1.0, mu, (1,))
        return PrivacyPlan(gaussian_epsilon(mu, 1e-6), 1e-6, (step,), "Fit")

    with _candidates._run_accountant(0.7, 1e-6, plan, None) as accountant:
        with pytest.raises(PrivacyBudgetError):
            accountant.charge(fit(0.7007))
        accountant.charge(fit(0.7))
        with pytest.raises(PrivacyBudgetError):
            accountant.charge(fit(0.03))


def test_the_number_of_runs_is_drawn_from_many_bits():
    class Bits:
        asked = 0

        def bytes(self, number):
            self.asked += number
            return bytes(number)

    bits = Bits()
    assert draw_number(calibrate_selection("best", 1.0, 1e-6, 6.0), bits) == 1
    assert bits.asked >= 16


def test_a_last_fit_sees_all_rows():
    made = search(refit=True).fit(X)
    assert made.best_estimator_.n_samples_ == 400
    assert search().fit(X).best_estimator_.n_samples_ == 300
    without = search(refit=False).fit(X)
    assert not hasattr(without, "best_estimator_")
    with pytest.raises(NotFittedError, match="refit"):
        without.transform(X)


def test_the_winner_claims_what_its_search_does():
    """A fit that was chosen by its score has not the guarantee of its own noise."""
    made = search(make_pipeline(DPStandardScaler(), DPPCA(1)), {}, epsilon=2.0).fit(X)
    for _, step in made.best_estimator_.steps:
        assert step.privacy_.epsilon == 2.0
        assert "PrivateSearchCV that chose this fit" in step.privacy_.details()
        assert step.publish().privacy_ == step.privacy_
    last = search(refit=True, epsilon=2.0).fit(X).best_estimator_
    assert last.privacy_.epsilon < 2.0


@pytest.mark.parametrize("refit", ["winner", True])
@pytest.mark.parametrize("private", [False, True])
def test_fitted_copies_of_steps_are_of_the_search(private, refit):
    """Column transformers and private pipelines fit copies of what they are given."""
    columns = ColumnTransformer([("a", DPStandardScaler(), [0, 1])], sparse_threshold=0)
    make = make_private_pipeline if private else make_pipeline
    accountant = PrivacyAccountant()
    with accountant:
        made = search(
            make(columns, DPPCA(1)), {}, epsilon=2.0, refit=refit, noise_seed=3
        ).fit(X)
        steps = made.best_estimator_[:]
        for step in (steps[0].named_transformers_["a"], steps[1]):
            claims = "PrivateSearchCV that chose this fit" in step.privacy_.details()
            assert claims == (refit == "winner")
            assert (step.accountant, step.noise_seed) == (None, None)
            step.set_params(epsilon=0.5).fit(X)
    assert [entry.epsilon for entry in accountant.ledger] == [2.0, 0.5, 0.5]


def test_a_second_search_forgets_the_first():
    made = search().fit(X)
    made.set_params(strategy__refit=False).fit(X)
    assert not hasattr(made, "best_estimator_")


def test_seeds_repeat_a_search_and_void_it():
    made = search(noise_seed=5)
    with pytest.warns(PrivacyLeakWarning, match="noise_seed"):
        first = made.fit(X).best_score_
    assert made.fit(X).best_score_ == first
    assert made.privacy_.seeded
    assert not made.privacy_.private
    assert made.set_params(noise_seed=6).fit(X).best_score_ != first
    fresh = [search().fit(X) for _ in range(2)]
    assert fresh[0].best_score_std_ != fresh[1].best_score_std_
    with pytest.raises(PrivacyBudgetError, match="noise_seed"):
        made.set_params(accountant=PrivacyAccountant(8.0)).fit(X)


def test_users_are_searched_for_as_users():
    data = make_ratings(200, 20, n_ratings_per_user=8, random_state=0, as_frame=True)
    scoring = make_private_scorer("squared_error", limit=16.0, user_feature="user_id")
    made = search(
        DPMatrixFactorization(1, items=data.item_ids, rating_range=(1, 5)),
        {"n_components": [0, 1]},
        scoring=scoring,
        expected_n_iter=2,
    )
    accountant = PrivacyAccountant()
    with accountant:
        made.fit(data.data, data.target)
    (entry,) = accountant.ledger
    assert (str(entry.unit), str(entry.neighbors)) == ("user", "add-remove-one")
    assert made.predict(data.data).shape == (len(data.data),)
    assert -16.0 < made.best_score_ < 0.0


def test_a_search_is_searched_and_scored_as_any_estimator():
    accountant = PrivacyAccountant()
    scorer = make_private_scorer("captured_variance", 1.0, clip_norm=9.0)

    made = search(expected_n_iter=2)
    with accountant:
        scores = cross_val_score(
            made,
            X,
            cv=KFold(2),
            scoring=lambda s, X, y=None: scorer(s.best_estimator_, X),
        )
    assert scores.shape == (2,)
    names = [entry.estimator for entry in accountant.ledger]
    assert names == ["PrivateSearchCV", "captured_variance"] * 2


# -- what it refuses -------------------------------------------------------------------


def leaky(**_):
    return make_pipeline(StandardScaler(), DPPCA(1))


BAD = {
    "epsilon none": {"epsilon": None},
    "epsilon infinite": {"epsilon": math.inf},
    "epsilon zero": {"epsilon": 0.0},
    "epsilon text": {"epsilon": "1"},
    "epsilon boolean": {"epsilon": True},
    "epsilon too small": {"epsilon": 1e-12},
    "delta zero": {"delta": 0.0},
    "delta tiny": {"delta": 1e-16},
    "delta one": {"delta": 1.0},
    "delta none": {"delta": None},
    "runs zero": {"expected_n_iter": 0},
    "runs one": {"expected_n_iter": 1},
    "runs many": {"expected_n_iter": 1e9},
    "runs text": {"expected_n_iter": "20"},
    "runs boolean": {"expected_n_iter": True},
    "law": {"n_iter_law": "fixed"},
    "law none": {"n_iter_law": None},
    "no score": {"scoring": None},
    "exact score": {"scoring": "neg_mean_squared_error"},
    "score without parameters": {"scoring": "captured_variance"},
    "function": {"scoring": lambda *_: 0.0},
    "several scores": {"scoring": ["accuracy", "ndcg"]},
    "score with a budget": {"scoring": kept(epsilon=1.0)},
    "exact private score": {"scoring": kept(epsilon=None)},
    "score with a ledger": {"scoring": kept(accountant=PrivacyAccountant())},
    "score with a seed": {"scoring": kept(noise_seed=0)},
    "score of users": {"scoring": make_private_scorer("ndcg", user_feature=0)},
    "stratified": {"cv": StratifiedKFold(3)},
    "a splitter of its own": {"cv": type("Sorted", (KFold,), {})(3)},
    "a random split of its own": {"cv": type("Sorted", (PrivateSplit,), {})(3)},
    "folds of users": {"cv": PrivateSplit(3, user_feature=0)},
    "positions": {"cv": [(np.arange(200), np.arange(200, 400))]},
    "no folds": {"cv": 0},
    "more folds than rows": {"cv": 500},
    "cv text": {"cv": "kfold"},
    "refit": {"refit": "best"},
    "refit none": {"refit": None},
    "share zero": {"score_share": 0.0},
    "share one": {"score_share": 1.0},
    "budgets": {"step_budgets": "auto"},
    "accountant": {"accountant": "ledger.db"},
    "seed": {"noise_seed": "x"},
    "space": {"space": [1, 2]},
    "space none": {"space": None},
    "space empty": {"space": []},
    "space text": {"space": {"clip_norm": "auto"}},
    "space a number": {"space": {"clip_norm": 1.0}},
    "space an empty list": {"space": {"clip_norm": []}},
    "space unknown": {"space": {"clip": [1.0]}},
    "space of bad values": {"space": {"clip_norm": [-1.0]}},
    "space of seeds": {"space": {"noise_seed": [0]}},
    "space of ledgers": {"space": {"accountant": [PrivacyAccountant()]}},
    "space without noise": {"space": {"epsilon": [None]}},
    "space of a model": {"space": {"mechanism": [SpikedModel(1e6, 1.0)]}},
    "estimator a class": {"estimator": DPPCA},
    "estimator text": {"estimator": "pca"},
    "estimator with a seed": {"estimator": DPPCA(noise_seed=0)},
    "estimator with a ledger": {"estimator": DPPCA(accountant=PrivacyAccountant())},
    "estimator without noise": {"estimator": DPPCA(epsilon=None)},
    "a leak": {"estimator": leaky(), "space": {"dppca__clip_norm": [1.0]}},
    "no private step": {"estimator": LogisticRegression(), "space": {"C": [1.0]}},
    "a search": {"estimator": GridSearchCV(DPPCA(), {}), "space": {}},
    "a private search": {"estimator": search(), "space": {}},
    "a memory": {
        "estimator": make_pipeline(DPPCA(1), memory="cache"),
        "space": {"dppca__clip_norm": [1.0]},
    },
    "lines": {
        "estimator": make_pipeline(DPPCA(1), verbose=True),
        "space": {"dppca__clip_norm": [1.0]},
    },
}


@pytest.mark.parametrize("name", BAD)
def test_bad_searches_are_refused_before_any_charge(name):
    accountant = PrivacyAccountant()
    words = "epsilon|delta|expected|law|scor|cv|refit|share|budgets|accountant|seed|"
    words += "param_distributions|estimator|search|memory|verbose"
    with accountant, pytest.raises((TypeError, ValueError), match=words):
        search(**BAD[name]).fit(X)
    assert accountant.ledger == ()


@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (X[0], None),
        (X[:1], None),
        ([], None),
        ("rows", None),
        (X, np.zeros(3)),
        (X + 1j, None),
    ],
    ids=["one row", "a row", "none", "text", "targets", "complex"],
)
def test_bad_tables_are_refused_before_any_charge(rows, y):
    accountant = PrivacyAccountant()
    with accountant, pytest.raises((TypeError, ValueError)):
        search().fit(rows, y)
    assert accountant.ledger == ()


def test_weights_and_files_are_refused():
    with pytest.raises(TypeError, match="sample_weight"):
        search().fit(X, sample_weight=np.ones(400))
    with pytest.raises(TypeError, match="best_estimator_"):
        search().fit(X).save("search.npz")


def test_a_release_of_a_selection_is_used_once_in_one_process():
    selection = calibrate_selection("best", 1.0, 1e-6, 3.0)
    release = SelectionRelease(PrivacyPlan(1.0, 1e-6, (selection,), "Search"))
    runs = lambda candidates: (one["a"] for one, _ in candidates)  # noqa: E731
    assert release.best({"a": [1, 2]}, runs, float) in (1, 2)
    with pytest.raises(RuntimeError, match="already"):
        release.best({"a": [1, 2]}, runs, float)
    with pytest.raises(TypeError, match="copied"):
        pickle.dumps(release)


# -- reports and checks ----------------------------------------------------------------


def test_reports_see_through_a_search():
    assert privacy_report(search()).private
    assert privacy_report(make_pipeline(DPStandardScaler(), search())).private
    bad = {
        "leaks": search(leaky(), {}),
        "StratifiedKFold": search(cv=StratifiedKFold(3)),
        "make_private_scorer": search(scoring=len),
        "seed": search(noise_seed=0),
        "without": search().set_params(estimator__epsilon=None),
    }
    for said, one in bad.items():
        report = privacy_report(one)
        assert not report.private, said
        assert said in str(report) or said == "without"


CHECKED = [
    search(space={"center": ["none", "pairs"]}, epsilon=100.0, expected_n_iter=2),
    search(
        make_pipeline(DPStandardScaler(), DPPCA(1)),
        {"dppca__clip_norm": [None, 1.0]},
        epsilon=100.0,
        expected_n_iter=2,
        refit=True,
        cv=2,
    ),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", CHECKED, ids=["estimator", "pipeline"])
def test_checks_of_scikit_learn(made):
    results = check_estimator(clone(made).set_params(noise_seed=0), on_skip=None)
    assert len(results) > 40


# -- what a run would warn of ----------------------------------------------------------


@pytest.mark.parametrize("steps", [(), (DPStandardScaler(),)])
def test_labels_that_occur_are_not_released_by_a_search(steps):
    rows = X[:, :3]
    y = (rows[:, 0] > 0).astype(int)
    y[7] = 77
    model = DPAdamClassifier(optimizer=Adam(sampling="in-turn"), n_epochs=2)
    accountant = PrivacyAccountant(8.0, 1e-5)

    def searched(model, **names):
        model = make_pipeline(*steps, model) if steps else model
        prefix = "dpadamclassifier__" if steps else ""
        space = {f"{prefix}optimizer__learning_rate": [0.01, 0.1]}
        space.update({f"{prefix}{name}": value for name, value in names.items()})
        parameters = {"scoring": "accuracy", "accountant": accountant}
        return search(model, space, epsilon=4.0, **parameters).fit(rows, y)

    for tried in ({}, {"classes": [[0, 1, 77], None]}):
        with pytest.raises(ValueError, match=r"labels occur.*pass classes=\[\.\.\.\]"):
            searched(model, **tried)
    assert not accountant.ledger
    named = searched(model, classes=[[0, 1, 2, 77]])
    np.testing.assert_array_equal(named.classes_, [0, 1, 2, 77])


def test_a_search_needs_the_column_of_users():
    users = np.repeat(np.arange(40.0), 10)
    table = np.column_stack([users, X])
    scoring = make_private_scorer("squared_error", limit=4.0, user_feature=0)
    space = {"ridge_sparse": [0.01, 0.1]}
    with pytest.raises(ValueError, match=r"user_feature=None .* name their column"):
        search(LRSRegressor(), space, scoring=scoring).fit(table, X[:, 0])
    named = LRSRegressor(user_feature=0)
    search(named, space, scoring=scoring).fit(table, X[:, 0])


@pytest.mark.parametrize("rows", [np.zeros((40, 4)), X[:40]])
def test_doubts_by_public_numbers_reach_the_user(rows):
    """Runs are silent; what shapes and parameters say is said before the charge."""
    model = make_pipeline(DPStandardScaler(), DPPCA(1, clip_norm=1.0))
    space = {"dppca__center": ["none"]}
    accountant = PrivacyAccountant(1e-3, 1e-6)
    tried = search(model, space, epsilon=4.0, accountant=accountant)
    with (
        pytest.warns(
            UserWarning, match="30 rows are too few to estimate .* scales"
        ) as seen,
        pytest.raises(PrivacyBudgetError),
    ):
        tried.fit(rows)
    assert [warned.filename for warned in seen] == [__file__]
    # Where rows suffice, there is nothing to be said.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(space={"center": ["none"]}, accountant=None).fit(X)


@pytest.mark.parametrize("strategy", ["vote", RandomRuns()], ids=["vote", "runs"])
def test_plans_refuse_the_candidates_that_fits_refuse(strategy):
    X = np.zeros((3000, 4))
    search = PrivateSearchCV(
        DPPCA(2),
        {"n_components": [1, 9]},
        epsilon=2.0,
        strategy=strategy,
        scoring=make_private_scorer("captured_variance", clip_norm=3.0),
    )
    refusals = []
    for method in (search.plan_for, search.fit):
        with pytest.raises(ValueError, match="n_components=9 must be") as refused:
            method(X)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
    search.set_params(param_distributions={"n_components": [1, 2]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert search.plan_for(X).mu == search.privacy_plan(3000).mu
