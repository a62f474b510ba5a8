"""Flower's messages carry a federation's bytes, whatever comes, and nothing else."""

import numpy as np
import pytest
from federation_tools import hold, keys_of, make_task
from flower_tools import (
    Grid,
    Sessions,
    act_as_a_task,
    make_site,
    outcome_at,
    request_message,
    rows_of,
)

from skdpspectral import DPMatrixFactorization, LRSRegressor, PrivacyAccountant
from skdpspectral._messages import DIGEST_BYTES, signed
from skdpspectral.datasets import make_low_rank_sparse_tasks, make_ratings
from skdpspectral.federation import (
    GroupClient,
    GroupRounds,
    GroupTask,
    LocalClient,
    Registration,
    Request,
    Rounds,
    client_app,
    hold_session,
)
from skdpspectral.federation._flower import ClientError
from skdpspectral.linear_model import PrivateRounds

pytest.importorskip("flwr", reason="Flower needs Python 3.11 or later")


@pytest.fixture(autouse=True)
def a_task():
    act_as_a_task()


P, NAMES = 6, ("north", "east", "south")
REGISTERED = {name: Registration(400, 1.0, 1e-6) for name in NAMES}
TASKS = {
    "directions": make_task(2, P),
    "covariance": make_task(2, P, bounds=(-20, 20), projection_norm=9.0),
    "shared": make_task(2, P, center="shared", projection_norm=9.0),
    "rounds": make_task(1, P, n_rounds=2, n_nonzero_features=3),
}


def make_sites(folder, task, **parameters):
    return {
        i: make_site(folder, name, task, seed=i, **parameters)
        for i, name in enumerate(NAMES)
    }


def by_hand(task, **parameters):
    """The same federation in this process, without Flower."""
    clients = {
        name: LocalClient(name, rows_of(i, p=P), task, noise_seed=i, **parameters)
        for i, name in enumerate(NAMES)
    }
    return hold(Rounds(REGISTERED, task), clients)


@pytest.mark.parametrize("name", TASKS)
def test_the_result_is_that_of_one_process(name, tmp_path, caplog):
    task = TASKS[name]
    sites = {
        i: make_site(tmp_path, n, task, seed=i, noise_seed=i)
        for i, n in enumerate(NAMES)
    }
    caplog.set_level("INFO", "skdpspectral")
    same(hold_session(Grid(sites), Rounds(REGISTERED, task)), by_hand(task))
    assert len(caplog.messages) == 3 * task.n_steps
    assert caplog.messages[-1].startswith(f"round {task.n_steps}: ")
    assert caplog.messages[-1].endswith("answered (3 of 3)")


# -- who is asked ----------------------------------------------------------------------


def test_a_registered_name_beats_one_that_is_said(tmp_path):
    """A node that says another's name is not asked in its stead."""
    task = TASKS["directions"]
    sites = make_sites(tmp_path, task)
    (tmp_path / "liar").mkdir()
    liar = make_site(tmp_path / "liar", "south", task)
    grid = Grid({**sites, 9: liar}, registered=dict(enumerate(NAMES)))
    found = hold_session(grid, Rounds(REGISTERED, task))
    assert tuple(found.clients_) == NAMES
    asked = [m.metadata.dst_node_id for m in grid.sent]
    assert sorted(asked) == [0, 1, 2]


def test_a_node_that_is_no_client_is_charged_nothing(tmp_path):
    task = TASKS["rounds"]
    other = make_site(tmp_path, "west", task)
    sites = make_sites(tmp_path, task)

    class Late(Grid):
        """The stranger is there first, and alone while the last client is awaited."""

        def get_nodes(self):
            self.sites |= {0: sites[0], 1: sites[1]} if self.count else {}
            self.sites |= {2: sites[2]} if self.count > 2 else {}
            return super().get_nodes()

    grid = Late({9: other})
    assert tuple(hold_session(grid, Rounds(REGISTERED, task)).clients_) == NAMES
    ledger = PrivacyAccountant(path=tmp_path / "west.db")
    assert len(ledger.ledger) == 0
    # Who it is was learned by the first message: none follows.
    assert [m.metadata.dst_node_id for m in grid.sent].count(9) == 1


def test_a_registered_node_cannot_answer_for_another_client(tmp_path):
    """Its name is that of its key; what it answers bears another one."""
    task = TASKS["directions"]
    sites = make_sites(tmp_path, task, budget=9.0)

    class Lies:
        name, respond = "east", sites[2].respond

    for site, reason in ((sites[2], "another client was asked"), (Lies, "another cli")):
        grid = Grid({0: sites[0], 1: site}, registered={0: "north", 1: "east"})
        rounds = Rounds({n: REGISTERED[n] for n in ("north", "east")}, task)
        with pytest.warns(UserWarning, match=f"'east' was rejected: .*{reason}"):
            assert tuple(hold_session(grid, rounds).clients_) == ("north",)


# -- failures --------------------------------------------------------------------------


def test_a_node_that_is_not_there_is_left_out_by_name(tmp_path):
    task = TASKS["directions"]
    sites = make_sites(tmp_path, task)
    grid = Grid({**sites, 1: None})
    with pytest.warns(UserWarning, match="'east' was rejected: it did not answer in"):
        found = hold_session(grid, Rounds(REGISTERED, task), timeout=0.1)
    assert tuple(found.clients_) == ("north", "south")


def test_an_exhausted_site_refuses_and_the_server_says_why(tmp_path):
    task = TASKS["directions"]
    sites = make_sites(tmp_path, task)
    sites[1] = make_site(tmp_path, "poor", task, budget=0.5)
    sites[1].name = "east"
    with pytest.warns(UserWarning, match="'east' was rejected"):
        found = hold_session(Grid(sites), Rounds(REGISTERED, task))
    assert (
        "refused the request: its ledger has not enough budget"
        in (found.rejected_["east"])
    )
    assert len(PrivacyAccountant(path=tmp_path / "poor.db").ledger) == 0


def test_nothing_of_an_error_but_its_kind_leaves_a_node(tmp_path):
    class Fails:
        name = "north"

        def respond(self, request):
            raise RuntimeError("row 3.25")

    def cannot_open(context):
        raise RuntimeError("row 3.25")

    assert outcome_at(Fails(), request_message(b"")) == ("failure", b"")
    app = client_app(cannot_open)
    reply = app(request_message(b"x"), None)
    assert "3.25" not in repr(reply.content)
    assert reply.content.config_records["skdpspectral"]["kind"] == "failure"


def test_a_node_that_fails_is_asked_again_and_answers_with_its_first_bytes(tmp_path):
    """An answer that was lost on its way is no second release."""
    task = TASKS["directions"]
    sites = make_sites(tmp_path, task)

    class Loses:
        name, answers = "east", []

        def respond(self, request):
            self.answers.append(sites[1].respond(request))
            if len(self.answers) == 1:
                raise ClientError
            return self.answers[-1]

    found = hold_session(Grid({**sites, 1: Loses()}), Rounds(REGISTERED, task))
    assert tuple(found.clients_) == NAMES
    assert Loses.answers[0] == Loses.answers[1]
    assert len(PrivacyAccountant(path=tmp_path / "east.db").ledger) == 1


def test_a_node_that_comes_back_under_another_number_is_asked_again(tmp_path):
    task = TASKS["directions"]
    sites = make_sites(tmp_path, task)

    class Late(Grid):
        def get_nodes(self):
            self.looked = getattr(self, "looked", 0) + 1
            if self.looked > 2:
                self.sites[7] = sites[1]
            return super().get_nodes()

    grid = Late({**sites, 1: None})
    found = hold_session(grid, Rounds(REGISTERED, task), timeout=20.0)
    assert tuple(found.clients_) == NAMES


# -- what is no message of this session ------------------------------------------------


def first_request(task):
    return Rounds(REGISTERED, task).request().to_bytes()


def test_what_a_server_should_not_send_is_refused_with_its_reason(tmp_path):
    task = TASKS["rounds"]
    site = make_site(tmp_path, "north", task)
    good = first_request(task)
    assert outcome_at(site, request_message(good))[0] == "answer"
    bad = {
        b"": "damaged",
        b"x" * 200: "damaged",
        good[:-1]: "damaged",
        good + b"x": "damaged",
        first_request(make_task(1, P)): "another task",
        Request(bytes(16), task.digest, 1, ()).to_bytes(): "not for step 0",
    }
    for request, reason in bad.items():
        kind, content = outcome_at(site, request_message(request))
        assert kind == "refusal"
        assert reason in content.decode()
    for request in ("text", 3, 1.5, [b"bytes"], True):
        assert outcome_at(site, request_message(request)) == ("failure", b"")
    assert len(PrivacyAccountant(path=tmp_path / "north.db").ledger) == 1


def test_an_answer_to_another_request_is_rejected_by_name(tmp_path):
    """A replay of the last round, of another session, or of another client's answer."""
    task = TASKS["rounds"]
    sites = make_sites(tmp_path, task)
    elsewhere = make_site(tmp_path, "else", task, budget=9.0)

    class Replays:
        name = "east"

        def __init__(self, choose):
            self.choose, self.answers = choose, []

        def respond(self, request):
            self.answers.append(sites[1].respond(request))
            return self.choose(self.answers)

    foreign = elsewhere.respond(first_request(task))
    for choose, reason in (
        (lambda answers: answers[-2 if len(answers) > 2 else -1], "not for step"),
        (lambda answers: foreign, "another session"),
        (lambda answers: b"garbage" * 50, "damaged"),
        (lambda answers: b"", "was damaged"),
    ):
        (folder := tmp_path / reason.replace(" ", "")).mkdir()
        sites = make_sites(folder, task)
        grid = Grid({**sites, 1: Replays(choose)})
        with pytest.warns(UserWarning, match=f"'east' was rejected: .*{reason}"):
            found = hold_session(grid, Rounds(REGISTERED, task))
        assert tuple(found.clients_) == ("north", "south")


@pytest.mark.slow
@pytest.mark.dependencies
def test_mutants_with_a_checksum_of_their_own_spend_no_more_than_the_ledger(tmp_path):
    """Whoever sends may make valid requests; the ledger is what holds."""
    task, rng = TASKS["directions"], np.random.default_rng(1)
    site = make_site(tmp_path, "north", task, epsilon=0.5)
    body = first_request(task)[:-DIGEST_BYTES]
    kinds = []
    for _ in range(2000):
        data = bytearray(body)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        request = signed(bytes(data))
        kinds.append(outcome_at(site, request_message(request))[0])
    assert set(kinds) == {"answer", "refusal"}
    spent = PrivacyAccountant(path=tmp_path / "north.db").spent()
    assert spent.epsilon <= 1.0


# -- users at several nodes ------------------------------------------------------------

USERS = make_low_rank_sparse_tasks(150, 12, 4, sparsity=1, random_state=0)
RATINGS = make_ratings(300, 20, n_ratings_per_user=8, random_state=0)
MODELS = {
    "LRSRegressor": (
        LRSRegressor(sparsity=1, solver=PrivateRounds(n_rounds=2)),
        {"n_features": 4},
    ),
    "DPMatrixFactorization": (
        DPMatrixFactorization(
            items=RATINGS.item_ids,
            item_features=RATINGS.item_features,
            rating_range=(1, 5),
        ),
        {},
    ),
}


def group_client(task, place, **how):
    if task._model.__class__ is LRSRegressor:
        X, y, users = USERS
        own = users % 3 == place
        how["users"] = users[own]
    else:
        X, y = RATINGS.data, RATINGS.target
        own = X[:, 0].astype(int) % 3 == place
    how.update(keys_of(task, NAMES[place]))
    return GroupClient(NAMES[place], task, X[own], y[own], **how)


def group_site(folder, task, place, seed=None):
    ledger = PrivacyAccountant(path=folder / f"{NAMES[place]}.db")
    how = {} if seed is None else {"noise_seed": seed}
    how["accountant"] = ledger
    return Sessions(NAMES[place], lambda: group_client(task, place, **how))


def same(found, expected):
    arrays = {k: v for k, v in vars(expected).items() if isinstance(v, np.ndarray)}
    assert arrays
    for key, value in arrays.items():
        assert np.array_equal(getattr(found, key), value), key


@pytest.mark.parametrize("noise", ["server", "distributed", "node"])
@pytest.mark.parametrize("name", MODELS)
def test_users_at_nodes_as_in_one_process(name, noise, tmp_path):
    model, how = MODELS[name]
    if noise == "distributed":
        how = {**how, "n_shares": 3, "masked": NAMES}
    task = GroupTask(model, **how, noise=noise)
    seeds = [None] * 3 if noise == "server" else range(3)
    seed = {"noise_seed": 5} if noise == "server" else {}
    sites = {i: group_site(tmp_path, task, i, seeds[i]) for i in range(3)}
    found = hold_session(Grid(sites), GroupRounds(NAMES, task, **seed))
    expected = GroupRounds(NAMES, task, **seed)
    given = [{} if s is None else {"noise_seed": s} for s in seeds]
    clients = {n: group_client(task, i, **given[i]) for i, n in enumerate(NAMES)}
    same(found, hold(expected, clients))
    # The models of the users are at their site.
    same(sites[0].latest.model, clients["north"].model)
    for name in NAMES:
        assert len(PrivacyAccountant(path=tmp_path / f"{name}.db").ledger) == 1
