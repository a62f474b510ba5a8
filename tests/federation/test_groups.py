"""Groups of users: what fits say together is what a fit in one place says."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from federation_tools import (
    hold,
    in_session,
    keys_of,
    part_of,
    session_ends,
    show_parts,
)
from scipy.stats import chi2

import skdpspectral as sk
from skdpspectral._statistics.user_sums import NO_USERS
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.datasets import make_low_rank_sparse_tasks, make_ratings
from skdpspectral.federation import (
    GroupClient,
    GroupRounds,
    GroupTask,
    MessageError,
    Reply,
    Request,
)
from skdpspectral.linear_model import PrivateRounds, UserIntercept
from skdpspectral.mechanisms import SharedGaussian, Unit

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpspectral.accounting.PrivacyLeakWarning"
)
SESSION = bytes(range(16))
NAMES = ("north", "south", "west")
MODES = {
    "server": {"noise": "server"},
    "distributed": {"noise": "distributed", "n_shares": 3, "masked": NAMES},
    "node": {"noise": "node"},
}
X, Y, USERS = make_low_rank_sparse_tasks(150, 12, 4, sparsity=1, random_state=0)
RATINGS = make_ratings(300, 20, n_ratings_per_user=8, random_state=0)


def lrs(**parameters):
    return sk.LRSRegressor(
        **{
            "sparsity": 1,
            "solver": PrivateRounds(n_rounds=3),
            "epsilon": 2.0,
            **parameters,
        }
    )


def factors(**parameters):
    return sk.DPMatrixFactorization(
        items=RATINGS.item_ids,
        item_features=RATINGS.item_features,
        **{"rating_range": (1, 5), **parameters},
    )


def group(ids, place):
    return np.asarray(ids, dtype=int) % len(NAMES) == place


def lrs_clients(task, **parameters):
    found = {}
    for place, name in enumerate(NAMES):
        own = group(USERS, place)
        how = {"users": USERS[own], **keys_of(task, name), **parameters}
        found[name] = GroupClient(name, task, X[own], Y[own], **how)
    return found


def rating_clients(task, **parameters):
    found = {}
    for place, name in enumerate(NAMES):
        own = group(RATINGS.data[:, 0], place)
        rows = (RATINGS.data[own], RATINGS.target[own])
        if task._model.implicit:
            rows = rows[:1]
        found[name] = GroupClient(name, task, *rows, **parameters)
    return found


def make_rounds(task, names=NAMES, **parameters):
    return in_session(GroupRounds(names, task, **parameters))


def held(task, clients, **parameters):
    rounds = make_rounds(task, list(clients), **parameters)
    return hold(rounds, clients), rounds


# -- the same as in one place ----------------------------------------------------------

MODELS = {
    "usual": {},
    "no start": {"solver": PrivateRounds(3, init=np.eye(1, 4))},
    "two directions": {"n_components": 2, "neighbors": "replace-one"},
    "public norms": {
        "solver": PrivateRounds(3, curvature_clip_norm=2.0, gradient_clip_norm=1.0)
    },
    "fixed weights": {"shared_weights": "fixed"},
    "levels": {
        "fit_intercept": UserIntercept(prior=0.3, ridge=2.0),
        "scale": np.arange(1, 5),
    },
    "no intercept": {"fit_intercept": False},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_session_gives_what_a_fit_in_one_place_gives(name):
    model = lrs(**MODELS[name])
    fit = lrs(**MODELS[name], noise_seed=3).fit(X, Y, users=USERS)
    task = GroupTask(model, 4)
    clients = lrs_clients(task)
    found, rounds = held(task, clients, noise_seed=3)
    assert not rounds.rejected
    np.testing.assert_allclose(found.components_, fit.components_, atol=1e-10)
    np.testing.assert_allclose(found.coef_, fit.coef_, atol=1e-10)
    assert found.intercept_ == fit.intercept_
    assert found.n_iter_ == fit.n_iter_
    assert found.n_features_in_ == 4
    for place, client in enumerate(clients.values()):
        own = group(USERS, place)
        expected = fit.predict(X[own], users=USERS[own])
        given = client.model.predict(X[own], users=USERS[own])
        np.testing.assert_allclose(given, expected, atol=1e-10)
        assert len(client.model._personal.index) == len(np.unique(USERS[own]))
    # The server knows no user: everybody has the shared model there.
    shared = found.predict(X, users=USERS)
    np.testing.assert_allclose(shared, X @ fit.coef_ + fit.intercept_, atol=1e-10)


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("n_components", [0, 2])
def test_a_recommender_of_several_nodes_is_that_of_one_place(implicit, n_components):
    parameters = {"implicit": implicit, "n_components": n_components}
    if implicit:
        parameters["epsilon"] = 300.0  # few users have pairs that stand out of noise
    # Last bits of popularity move steps of clicks, by 2**-11 each.
    near = {"atol": 1e-6 if implicit else 1e-10}
    fit = factors(**parameters, noise_seed=3)
    fit.fit(RATINGS.data, None if implicit else RATINGS.target)
    task = GroupTask(factors(**parameters))
    clients = rating_clients(task)
    found, rounds = held(task, clients, noise_seed=3)
    assert not rounds.rejected
    np.testing.assert_allclose(found.item_factors_, fit.item_factors_, **near)
    np.testing.assert_allclose(found.item_popularity_, fit.item_popularity_, **near)
    for place, client in enumerate(clients.values()):
        own = RATINGS.data[group(RATINGS.data[:, 0], place)]
        given, expected = client.model.predict(own), fit.predict(own)
        np.testing.assert_allclose(given, expected, **near)
    lists, _ = found.recommend([0, 1], n=3)
    assert lists.shape == (2, 3)


def test_the_order_and_the_number_of_nodes_change_no_bit():
    task = GroupTask(lrs(), 4)
    found = [held(task, lrs_clients(task), noise_seed=3)[0]]
    clients = lrs_clients(task)
    backwards = {name: clients[name] for name in reversed(NAMES)}
    found.append(held(task, backwards, noise_seed=3)[0])
    whole = {"all": GroupClient("all", task, X, Y, users=USERS)}
    found.append(held(task, whole, noise_seed=3)[0])
    assert found[0].components_.tobytes() == found[1].components_.tobytes()
    assert found[0].components_.tobytes() == found[2].components_.tobytes()


def test_what_the_server_gives_can_be_published(tmp_path):
    task = GroupTask(lrs(), 4)
    found, _ = held(task, lrs_clients(task))
    assert found.privacy_ == task.plan
    found.save(tmp_path / "model.npz")
    again = sk.LRSRegressor.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.components_, found.components_)
    again.personalize(X[:12], Y[:12], users=USERS[:12])


# -- who adds the noise ----------------------------------------------------------------


def sums_of(task, clients):
    """Exact first sum of all groups, and what the clients say, in whole numbers."""
    exact = task._board.follow(task.plan, NO_USERS, [])
    exact = np.zeros(np.shape(exact.value))
    request = Request(SESSION, task.digest, 0)
    replies = [client.respond(request) for client in clients.values()]
    return exact, np.array([part_of(task, reply.values) for reply in replies])


@pytest.mark.parametrize(("mode", "share"), [("distributed", 1 / 2), ("node", 1.0)])
def test_nodes_add_the_noise_that_the_task_says(mode, share, monkeypatch):
    """Chi-square of the noise on one sum of 1953 numbers, false alarm 1e-6."""
    show_parts(monkeypatch)
    d, how = 62, MODES[mode] | ({"n_shares": 2} if mode == "distributed" else {})
    rng = np.random.default_rng(0)
    rows, users = rng.normal(size=(6, d)), np.repeat(np.arange(3), 2)
    targets = rng.normal(size=6)
    exact, noisy = (
        GroupTask(lrs(solver=PrivateRounds(1)), d, **given) for given in ({}, how)
    )
    values = []
    for task in (exact, noisy):
        clients = {
            name: GroupClient(
                name,
                task,
                rows[users == i],
                targets[users == i],
                users=users[users == i],
                **keys_of(task, name),
            )
            for i, name in enumerate(NAMES)
        }
        values.append(sums_of(task, clients)[1] * task.unit(0))
    planned = noisy.plan.mechanisms[0].noise_std
    noise = values[1] - values[0]
    size = noise.shape[1]
    low, high = chi2.ppf([5e-7, 1 - 5e-7], size)
    # Noise that is 20 % off in deviation is seen with a probability of 1 - 1e-6.
    assert chi2.cdf(low / 0.8**2, size) > 1 - 1e-6
    assert chi2.sf(high / 1.2**2, size) > 1 - 1e-6
    for own in noise:
        assert low < (own**2).sum() / (planned**2 * share) < high
    total = noise.sum(axis=0)
    assert low < (total**2).sum() / (planned**2 * 3 * share) < high
    # Noise of different nodes has nothing in common.
    cosine = noise[0] @ noise[1] / np.linalg.norm(noise[0]) / np.linalg.norm(noise[1])
    assert abs(cosine) < 5 / np.sqrt(size)


def test_models_know_how_much_noise_there_is():
    """With more shares than are needed, too."""
    for how, factor in (
        (MODES["server"], 1.0),
        ({**MODES["distributed"], "n_shares": 2}, np.sqrt(3 / 2)),
        (MODES["node"], np.sqrt(3)),
    ):
        task = GroupTask(lrs(), 4, **how)
        clients, rounds = lrs_clients(task), None
        rounds = make_rounds(task)
        rounds.collect(ask_all(rounds, clients))
        planned = task.plan.mechanisms[0].noise_std
        basis = rounds.request().basis
        assert basis[-1, 0] == pytest.approx(planned * factor, rel=1e-12)


def ask_all(rounds, clients):
    request = rounds.request().to_bytes()
    return {name: clients[name].respond(request).to_bytes() for name in rounds.clients}


def test_what_is_trusted_is_said():
    plans = {mode: GroupTask(lrs(), 4, **how).plan for mode, how in MODES.items()}
    assert "everybody but that server" in str(plans["server"])
    assert "against the server and all other nodes" in str(plans["node"])
    assert "only sums over nodes" in str(plans["distributed"])
    text = plans["distributed"].details()
    # A party that knows 2 of 3 shares has one unknown: no such guarantee holds.
    assert "with 3 or more shares that are unknown to them" in text
    single = plans["distributed"].mu * np.sqrt(3)
    assert f"{gaussian_epsilon(single, 1e-6):.4g}" in text
    assert all(isinstance(m, SharedGaussian) for m in plans["distributed"].mechanisms)
    for plan in plans.values():
        assert plan.unit is Unit.USER
        assert plan.epsilon == 2.0
        assert "rows at k nodes" in plan.details()


def test_budgets_of_single_nodes_are_refused():
    with pytest.raises(TypeError, match="list of names"):
        GroupRounds({"a": (0.1, 1e-6)}, GroupTask(sk.LRSRegressor(), 4))


def test_the_cost_against_a_coalition():
    how = {"noise": "distributed", "n_shares": 6, "masked": [*"abcdefg"]}
    task = GroupTask(lrs(), 4, **how)
    assert task.cost(6)[0] == pytest.approx(2.0, rel=1e-6)
    assert task.cost(4) == (gaussian_epsilon(task.plan.mu * np.sqrt(1.5), 1e-6), 1e-6)
    assert task.cost(9)[0] < 2.0 < task.cost(5)[0] < task.cost(1)[0]
    with pytest.raises(ValueError, match="distributed"):
        GroupTask(lrs(), 4).cost(1)


# -- each user is clipped by themselves ------------------------------------------------


@pytest.mark.parametrize("step", [0, 1, 13])
def test_a_user_moves_the_sum_of_their_node_by_one(step):
    """Whatever a server says was released, and however far out the user is."""
    task = GroupTask(lrs(), 4)
    own = group(USERS, 0)
    rows, targets, users = X[own], Y[own], USERS[own]
    wild = 1e3 * np.random.default_rng(5).normal(size=(20, 4))
    with_one = (
        np.vstack([rows, wild]),
        np.append(targets, 1e4 * wild[:, 0]),
        np.append(users, np.full(20, 10**6)),
    )
    values = []
    for X_own, y_own, ids in ((rows, targets, users), with_one):
        client = GroupClient("north", task, X_own, y_own, users=ids)
        rng = np.random.default_rng(1)
        basis = ()
        for k in range(step + 1):
            request = Request(SESSION, task.digest, k, basis)
            values_now = client.respond(request).values * task.unit(k)
            size = values_now.size
            basis = np.append(1e3 * rng.normal(size=size), 0.1)[:, None]
        values.append(values_now)
    moved = np.linalg.norm(values[1] - values[0])
    sensitivity = task.plan.mechanisms[step].charged_sensitivity
    assert 0.5 * sensitivity < moved <= sensitivity
    # Many users are not clipped to the norm of one.
    if not task.plan.mechanisms[step].name.startswith("median"):
        assert np.linalg.norm(values[0]) > 3.0


@pytest.mark.parametrize("name", ["usual", "fixed weights", "ratings", "clicks"])
def test_no_release_that_a_server_says_makes_a_user_louder(name):
    """Of one user alone every part is of whole numbers, and within the sensitivity."""
    rng = np.random.default_rng(0)
    of_ratings = name in ("ratings", "clicks")
    for trial in range(12):
        if of_ratings:
            task = GroupTask(factors(implicit=name == "clicks"))
            own = RATINGS.data[:, 0] == RATINGS.data[trial, 0]
            y = None if name == "clicks" else RATINGS.target[own]
            client = GroupClient("a", task, RATINGS.data[own], y)
        else:
            task, own = GroupTask(lrs(**MODELS[name]), 4), USERS[7 * trial] == USERS
            size = 10.0 ** rng.uniform(-5, 8)
            rows = (size * X[own], size * Y[own])
            client = GroupClient("a", task, *rows, users=USERS[own])
        basis = ()
        for step, planned in enumerate(task.plan.mechanisms):
            request = Request(SESSION, task.digest, step, basis)
            part = client.respond(request).values * task.unit(step)
            assert np.linalg.norm(part) <= planned.charged_sensitivity
            said = rng.normal(size=part.size) * 10.0 ** rng.uniform(-5, 9)
            said *= rng.choice([0.0, 1.0], size=part.size) if trial % 2 else 1.0
            said = np.clip(said + part, -planned.magnitude, planned.magnitude)
            noise = planned.noise_std * 10.0 ** rng.uniform(-8, 8)
            basis = np.append(said, noise)[:, None]
        client.respond(Request(SESSION, task.digest, step + 1, basis))


# -- sessions that go wrong ------------------------------------------------------------


def first(task):
    return Request(SESSION, task.digest, 0)


def test_the_ledger_is_charged_before_rows_are_read():
    task = GroupTask(lrs(), 4)
    ledger = sk.PrivacyAccountant(2.5)
    bad = X.copy()
    bad[3, 2] = np.nan
    client = GroupClient("north", task, bad, Y, users=USERS, accountant=ledger)
    assert len(ledger.ledger) == 0
    with pytest.raises(ValueError, match="NaN"):
        client.respond(first(task))
    assert len(ledger.ledger) == 1
    # What failed stays failed: no second charge, and no second look.
    with pytest.raises(MessageError, match="failed"):
        client.respond(first(task))
    later = np.ones((task.queries[0].shape[0] + 1, 1))
    with pytest.raises(MessageError, match="failed"):
        client.respond(Request(SESSION, task.digest, 1, later))
    assert len(ledger.ledger) == 1


@pytest.mark.parametrize("mode", ["server", "node"])
def test_an_exhausted_node_refuses_and_the_rest_goes_on(mode):
    task = GroupTask(lrs(), 4, **MODES[mode])
    clients = lrs_clients(task)
    poor = sk.PrivacyAccountant(1.0)
    clients["south"]._accountant = poor
    with pytest.raises(sk.PrivacyBudgetError):
        clients["south"].respond(first(task))
    assert len(poor.ledger) == 0
    assert clients["south"]._rows is None
    with pytest.warns(UserWarning, match="'south' was rejected.*PrivacyBudgetError"):
        found, rounds = held(task, clients)
    assert rounds.clients == ("north", "west")
    assert list(rounds.rejected) == ["south"]
    assert found.components_.shape == (1, 4)


def test_a_node_that_dies_in_the_middle():
    task = GroupTask(lrs(), 4, noise="node")
    clients, rounds = lrs_clients(task), make_rounds(task, min_clients=2)
    rounds.collect(ask_all(rounds, clients))
    answers = ask_all(rounds, clients)
    answers["west"] = None
    with pytest.warns(UserWarning, match="'west' was rejected: it did not answer"):
        rounds.collect(answers)
    planned = np.sqrt(2) * task.plan.mechanisms[1].noise_std
    assert rounds.request().basis[-1, 0] == pytest.approx(planned)
    answers = ask_all(rounds, clients)
    answers["north"] = None
    before = len(rounds._released)
    with session_ends("'north'", "fewer than min_clients=2"):
        rounds.collect(answers)
    assert len(rounds._released) == before
    with pytest.raises(MessageError, match="no result"):
        rounds.result()


def test_messages_of_others_are_refused():
    task = GroupTask(lrs(), 4)
    other = GroupTask(lrs(epsilon=3.0), 4)
    ledger = sk.PrivacyAccountant(2.5)
    client = GroupClient("north", task, X, Y, users=USERS, accountant=ledger)
    size = task.queries[0].shape[0]
    wrong = {
        "another task": Request(SESSION, other.digest, 0),
        "not for step": Request(SESSION, task.digest, 1, np.ones((9, 1))),
        "basis of shape": Request(SESSION, task.digest, 0, np.ones((3, 1))),
        "damaged": b"garbage",
    }
    for said, request in wrong.items():
        with pytest.raises(MessageError, match=said):
            client.respond(request)
    assert len(ledger.ledger) == 0
    client.respond(first(task))
    after = {
        "another session": Request(bytes(16), task.digest, 1, np.ones((9, 1))),
        "basis of shape": Request(SESSION, task.digest, 1, np.ones((9, 1))),
        "noise scale is impossible": Request(
            SESSION, task.digest, 1, np.zeros((size + 1, 1))
        ),
        "beyond the bound": Request(
            SESSION, task.digest, 1, np.append(np.full(size, 1e12), 1)[:, None]
        ),
    }
    for said, request in after.items():
        with pytest.raises(MessageError, match=said):
            client.respond(request)
    good = np.ones((size + 1, 1))
    client.respond(Request(SESSION, task.digest, 1, good))
    with pytest.raises(MessageError, match="different content"):
        client.respond(Request(SESSION, task.digest, 1, 2 * good))
    with pytest.raises(MessageError, match="not over"):
        _ = client.model


def answer(task, values, **changed):
    given = {
        "session": SESSION,
        "task": task.digest,
        "step": 0,
        "client": "north",
        "n_samples": 0,
        "mu": task.plan.mu,
        "numbers": (),
        "values": values,
    }
    return Reply(**{**given, **changed})


def test_answers_that_no_node_could_send_are_rejected_by_name():
    task = GroupTask(lrs(), 4)
    size = task.queries[0].shape[0]
    zeros = np.zeros(size)
    wrong = {
        "whole numbers": [zeros + 0.5, zeros + 2.0**53],
        "shape": [np.zeros(size + 1)],
        "budget": [answer(task, zeros, mu=2 * task.plan.mu)],
        "another session": [answer(task, zeros, session=bytes(16))],
        "another task": [replace(answer(task, zeros), task=bytes(16))],
        "another client's name": [answer(task, zeros, client="south")],
        "not for step": [answer(task, zeros, step=1)],
        "damaged": [answer(task, zeros).to_bytes()[:-1] + b"x"],
        "was damaged": [b""],
    }
    for said, cases in wrong.items():
        for case in cases:
            case = answer(task, case) if isinstance(case, np.ndarray) else case
            rounds = make_rounds(task, ["north", "south"])
            rounds.request()
            fine = answer(task, zeros, client="south")
            with pytest.warns(UserWarning, match=f"'north' was rejected: .*{said}"):
                rounds.collect({"north": case, "south": fine})
            assert rounds.clients == ("south",)


def test_a_node_that_lies_stops_nobody():
    """Its part counts up to what all users can have, and others go on."""
    for how in MODES.values():
        task = GroupTask(lrs(), 4, **how)
        clients, rounds = lrs_clients(task), make_rounds(task)
        answers = ask_all(rounds, clients)
        most = 2.0**52 if task.masked is None else 2.0**32 - 1.0
        answers["north"] = answer(task, np.full(task.queries[0].shape, most))
        rounds.collect(answers)
        assert rounds.clients == NAMES
        bound = task.plan.mechanisms[0].magnitude
        assert np.abs(rounds._released[0].total).max() <= bound * (1 + 1e-6)
        rounds.collect(ask_all(rounds, clients))
        assert rounds.clients == NAMES


# -- what parties agree on -------------------------------------------------------------


OTHERS = {
    "epsilon": {"epsilon": 2.5},
    "delta": {"delta": 1e-7},
    "sparsity": {"sparsity": 2},
    "rounds": {"solver": PrivateRounds(n_rounds=4)},
    "ridge": {"ridge_shared": 11.0},
    "clip": {"solver": PrivateRounds(3, curvature_clip_norm=1.0)},
    "neighbors": {"neighbors": "replace-one"},
    "intercept": {"fit_intercept": False},
    "level": {"fit_intercept": UserIntercept(ridge=1.0)},
    "prior": {"fit_intercept": UserIntercept(prior=1.0)},
    "scale": {"scale": np.full(4, 2.0)},
    "start": {"solver": PrivateRounds(3, init=np.eye(1, 4))},
    "rank": {"n_components": 2},
}


def test_whatever_differs_has_another_digest():
    tasks = {name: GroupTask(lrs(**changed), 4) for name, changed in OTHERS.items()}
    tasks |= {
        "usual": GroupTask(lrs(), 4),
        "features": GroupTask(lrs(), 5),
        "node": GroupTask(lrs(), 4, noise="node"),
        "three": GroupTask(lrs(), 4, **MODES["distributed"]),
        "two": GroupTask(lrs(), 4, **{**MODES["distributed"], "n_shares": 2}),
        "ratings": GroupTask(factors()),
        "clicks": GroupTask(factors(implicit=True)),
        "range": GroupTask(factors(rating_range=(0, 5))),
        "no features": GroupTask(
            sk.DPMatrixFactorization(items=RATINGS.item_ids, rating_range=(1, 5))
        ),
        "order": GroupTask(
            sk.DPMatrixFactorization(items=RATINGS.item_ids[::-1], rating_range=(1, 5))
        ),
    }
    assert len({task.digest for task in tasks.values()}) == len(tasks)


def test_what_changes_nothing_for_others_changes_no_digest():
    usual = GroupTask(lrs(), 4)
    same = lrs(
        n_jobs=2, verbose=1, accountant=sk.PrivacyAccountant(), noise_seed=3, epsilon=2
    )
    assert GroupTask(same, 4) == usual
    assert GroupTask(lrs(), np.int64(4)).digest == usual.digest
    assert hash(usual) == hash(GroupTask(lrs(), 4))
    assert usual != "task"
    for task in (usual, GroupTask(factors()), GroupTask(lrs(), 4, noise="node")):
        assert GroupTask.from_json(task.to_json()) == task
    for text in ("{}", "[]", usual.to_json()[:-1], usual.to_json() + " "):
        with pytest.raises(MessageError, match="not"):
            GroupTask.from_json(text)
    assert usual._model.accountant is None
    assert usual._model.noise_seed is None


def test_bad_arguments():
    task = GroupTask(lrs(), 4)
    with pytest.raises(TypeError, match="does not release sums over users"):
        GroupTask(sk.DPPCA(), 4)
    for model, n_features, more, said in (
        (lrs(epsilon=None), 4, {}, "epsilon=None"),
        (lrs(n_components=0), 4, {}, "n_components=0"),
        (lrs(), None, {}, "n_features is needed"),
        (lrs(), 2**40, {}, r"n_features must be at most 1048576"),
        (lrs(n_components=100), 10_000, {}, "use fewer features, components"),
        (lrs(), 4, {"noise": "nobody"}, "noise must be"),
        (lrs(), 4, {"n_shares": 2}, "n_shares and masked are required"),
        (lrs(), 4, {"masked": NAMES}, "n_shares and masked are required"),
        (lrs(), 4, {"noise": "distributed"}, "n_shares and masked are required"),
        (lrs(), 4, {"noise": "distributed", "n_shares": 2}, "masked are required"),
        (lrs(), 4, {"noise": "distributed", "masked": NAMES}, "n_shares and"),
        (factors(), 20, {}, "n_features is not used"),
        (sk.DPMatrixFactorization(rating_range=(1, 5)), None, {}, "items is required"),
    ):
        with pytest.raises(ValueError, match=said):
            GroupTask(model, n_features, **more)
    with pytest.raises(ValueError, match="n_features=4"):
        GroupClient("north", task, X[:, :3], Y, users=USERS)
    with pytest.raises(ValueError, match="noise_seed is not used"):
        GroupClient("north", task, X, Y, users=USERS, noise_seed=0)
    with pytest.raises(TypeError, match="GroupTask"):
        GroupClient("north", lrs(), X, Y, users=USERS)
    with pytest.raises(TypeError, match="GroupTask"):
        GroupRounds(NAMES, lrs())
    shares = GroupTask(lrs(), 4, **MODES["distributed"])
    with pytest.raises(ValueError, match="at least 3"):
        GroupRounds(NAMES, shares, min_clients=2)
    with pytest.raises(ValueError, match="noise_seed is not used"):
        GroupRounds(NAMES, shares, noise_seed=1)
    with pytest.raises(ValueError, match="min_clients=3 must be at most"):
        GroupRounds(NAMES[:2], task, min_clients=3)


def test_a_seed_is_told():
    task = GroupTask(lrs(), 4, noise="node")
    with pytest.warns(sk.PrivacyLeakWarning, match="noise_seed is given"):
        client = GroupClient("north", task, X, Y, users=USERS, noise_seed=0)
    assert client.plan == replace(task.plan, seeded=True)
    client._accountant = sk.PrivacyAccountant(10.0)
    with pytest.raises(sk.PrivacyBudgetError):
        client.respond(first(task))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GroupClient("north", task, X, Y, users=USERS)
