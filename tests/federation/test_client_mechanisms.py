"""A model of the rows of clients: what is planned, sent, believed and refused."""

import dataclasses
import math

import numpy as np
import pytest
from federation_tools import N_MODEL_ROWS as N_ROWS  # the model needs 463 at least
from federation_tools import (
    SESSION,
    answers,
    ask,
    make_clients,
    make_server,
    make_task,
    registered,
)
from federation_tools import rows_of as rows_of_client
from release_tools import record_releases

from skdpspectral import (
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    SpikedPCA,
)
from skdpspectral._linalg.eigen import top_eigh, unpack_lower, weighted_median
from skdpspectral._release import noise as release_module
from skdpspectral.accounting import gaussian_mu
from skdpspectral.decomposition import SpikedModel
from skdpspectral.federation import (
    FederationError,
    LocalClient,
    MessageError,
    Registration,
    Reply,
    Topic,
)
from skdpspectral.mechanisms import Assumption
from skdpspectral.metrics import subspace_distance

KNOWN = {"signal_variance": 4.0, "noise_variance": 1.0}
MODEL = {"mechanism": SpikedModel(**KNOWN)}
PAPER = SpikedModel(4.0, 1.0, calibration="paper")
TASKS = {
    "model": MODEL,
    "model, covariance": {**MODEL, "model_covariance": True},
    "model, whole": {**MODEL, "aggregation": "matrix"},
    "model, private variances": {"mechanism": SpikedModel("private", "private")},
    "model, paper": {
        "mechanism": SpikedModel(
            [5.0, 3.0], 1.0, calibration="paper", sensitivity_constant=1.0
        )
    },
}
# What is asked for and what holds differ: a test of its own says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*this is the guarantee of the noise")
BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]


def talk(client, task, basis=BASIS):
    """Hold a whole session, and return the replies."""
    return [
        client.respond(ask(task, i, t, basis if t is Topic.COVARIANCE else ()))
        for i, t in enumerate(task.topics)
    ]


def make_client(task, X=None, name="a", **parameters):
    X = rows_of_client(0, n=N_ROWS) if X is None else X
    return LocalClient(name, X, task, **parameters)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_a_session_releases_what_was_planned_and_charged(name, epsilon):
    task, accountant = make_task(**TASKS[name]), PrivacyAccountant()
    client = make_client(task, accountant=accountant, epsilon=epsilon)
    with record_releases() as released:
        talk(client, task)
    plan = client.plan
    assert list(released) == [mechanism.name for mechanism in plan.mechanisms]
    for key, value in released.items():
        assert value.shape == tuple(plan[key].shape)
        grid = plan[key].grid
        assert np.array_equal(np.rint(value / grid) * grid, value)
    ledger = accountant.ledger
    assert ledger[0].mu == plan.mu <= gaussian_mu(plan.epsilon, 1e-6)
    assert plan.epsilon == epsilon or "paper" in name
    assert len(ledger) == 1
    assert plan.assumption == ledger[0].assumption == "spiked-gaussian"
    assert "not differentially private" in str(plan)
    if "paper" not in name:
        assert plan.mu > 0.999999 * gaussian_mu(epsilon, 1e-6 - plan.failure)


def same_releases(monkeypatch):
    """Let every release answer with the same numbers, whatever the data are."""
    rng, fixed = np.random.default_rng(0), {}

    def answer(mechanism, value, generator):
        if mechanism.name not in fixed:
            made = rng.standard_normal(mechanism.shape)
            fixed[mechanism.name] = made @ made.T if mechanism.symmetric else made
        return fixed[mechanism.name].copy()

    monkeypatch.setattr(release_module, "_add_noise", answer)


@pytest.mark.parametrize("name", TASKS)
def test_messages_are_functions_of_the_releases(name, monkeypatch):
    """One row is exchanged; with the same releases, all bytes are the same."""
    task = make_task(**TASKS[name])
    X = rows_of_client(0, n=N_ROWS)
    neighbor = X.copy()
    neighbor[3] = [50.0, -1e-9, 3.0, 1e5, -7.0, 0.0]
    same_releases(monkeypatch)
    sides = [talk(make_client(task, rows), task) for rows in (X, neighbor)]
    assert [r.to_bytes() for r in sides[0]] == [r.to_bytes() for r in sides[1]]


@pytest.mark.parametrize("name", TASKS)
def test_a_client_sends_what_spiked_pca_releases(name, monkeypatch):
    """Of the same releases, the components of one are those of the other."""
    whole = "aggregation" in TASKS[name]
    task, X = make_task(**TASKS[name]), rows_of_client(0, n=N_ROWS)
    same_releases(monkeypatch)
    sent = talk(make_client(task, X), task)[0]
    vectors = sent.values
    if whole:
        vectors = top_eigh(unpack_lower(vectors, 6), 2)[1]
    model = TASKS[name]["mechanism"].get_params()
    del model["norm_range"]
    release = "covariance" if "covariance" in name else "components"
    alone = SpikedPCA(2, release=release, **model).fit(X)
    assert make_client(task, X).plan.mechanisms == alone.privacy_.mechanisms
    if release == "components":
        assert np.array_equal(vectors, alone.components_)


COVARIANCES = {
    "model_moment": {**MODEL, "model_covariance": True},
    "projected_moment": {"projection_norm": 4.0},
}


@pytest.mark.parametrize("last", COVARIANCES)
@pytest.mark.parametrize("length", [1e-300, 10.0, 1e300])
def test_no_basis_changes_the_noise_of_a_covariance(last, length, monkeypatch):
    """The exact statistic is that of orthonormal columns, the noise as planned."""
    task, X = make_task(**COVARIANCES[last]), rows_of_client(0, n=N_ROWS)
    seen = {}
    add = release_module._add_noise

    def noted(mechanism, value, generator):
        seen.setdefault(mechanism.name, []).append((mechanism, value.copy()))
        return add(mechanism, value, generator)

    monkeypatch.setattr(release_module, "_add_noise", noted)
    for factor in (1.0, length):
        client = make_client(task, X)
        talk(client, task, factor * BASIS)
    (first, value), (second, other) = seen[last]
    assert first == second == client.plan[last]
    np.testing.assert_allclose(np.tril(value), np.tril(other), rtol=1e-9)
    with pytest.raises(MessageError):
        talk(make_client(task, X), task, np.full((6, 2), np.nan))


@pytest.mark.parametrize("name", TASKS)
def test_what_is_no_step_of_the_task_is_refused_and_not_charged(name):
    task, accountant = make_task(**TASKS[name]), PrivacyAccountant()
    client = make_client(task, accountant=accountant)
    wrong = [topic for topic in Topic if topic is not task.topics[0]]
    with record_releases() as released:
        for topic in wrong:
            basis = BASIS if topic in (Topic.POWER, Topic.COVARIANCE) else ()
            with pytest.raises(MessageError, match=f"asks for {task.topics[0].name}"):
                client.respond(ask(task, 0, topic, basis))
        with pytest.raises(MessageError, match="shape"):
            client.respond(ask(task, 0, task.topics[0], BASIS))
    assert not released
    assert len(accountant.ledger) == 0


def test_nothing_is_released_beyond_a_budget():
    task = make_task(**MODEL)
    client = make_client(task, accountant=PrivacyAccountant(0.5))
    with pytest.raises(PrivacyBudgetError), record_releases() as released:
        client.respond(ask(task, 0, Topic.SUBSPACE))
    assert not released


# -- the server ------------------------------------------------------------------------

PUBLIC = Registration(N_ROWS, 1.0, 1e-6)


def forged(name="b", numbers=(4.0, 1.0), topic=Topic.SUBSPACE, *, of, **changes):
    values = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0].T
    if topic is Topic.PROJECTOR:
        values = np.ones(21)
    content = {
        "session": SESSION,
        "task": of.digest,
        "step": 0,
        "topic": topic,
        "client": name,
        "n_samples": N_ROWS,
        "mu": of.plan(*PUBLIC, "x", False).mu,
        "numbers": numbers,
        "values": values,
    }
    return Reply(**{**content, **changes})


UNKNOWN = make_task(mechanism=SpikedModel("private", "private"))


@pytest.mark.parametrize(
    "numbers", [(0.0, 1.0), (-4.0, 1.0), (4.0, 0.0), (1e300, 1.0), (1.0, 1e-300)]
)
@pytest.mark.parametrize("topic", [Topic.SUBSPACE, Topic.PROJECTOR])
def test_variances_that_no_rows_have_are_rejected(numbers, topic):
    whole = {"aggregation": "matrix"} if topic is Topic.PROJECTOR else {}
    task = make_task(**MODEL, **whole)
    server = make_server(task, dict.fromkeys("bc", PUBLIC))
    server.request()
    good = forged("c", topic=topic, of=task)
    with pytest.warns(UserWarning, match="client 'b' was rejected: its variance"):
        replies = server.collect({"b": forged("b", numbers, topic, of=task), "c": good})
    assert [reply.client for reply in replies] == ["c"]


def test_components_must_be_orthonormal_and_the_model_the_agreed_one():
    task = make_task(**MODEL)
    server = make_server(task, dict.fromkeys("bcd", PUBLIC))
    server.request()
    spoilt = forged("b", values=10.0 * np.eye(2, 6), of=task)
    other = forged("c", (4.0, 2.0), of=task)
    with pytest.warns(UserWarning, match="was rejected"):
        server.collect({"b": spoilt, "c": other, "d": forged("d", of=task)})
    assert "orthonormal" in server.rejected["b"]
    assert "agreed" in server.rejected["c"]


@pytest.mark.parametrize("name", TASKS)
def test_weights_are_finite_whatever_clients_claim(name):
    """Costs, rows and variances at the ends of what a reply may hold."""
    task = make_task(**TASKS[name])
    most = 4.0
    for n in (1, 50, 2**63 - 1):
        for mu in (5e-324, 1e-12, 0.2, 1e300, math.inf):
            for signal in (1e-240, 1e-3, 1.0, 1e240):
                for noise in (1e-240, 1.0, 1e240):
                    error = task.squared_error(n, mu, signal, noise)
                    assert 0.0 <= error < math.inf
                    assert error <= most or task.aggregation == "matrix"


def test_a_client_is_not_believed_what_it_says_of_itself_alone():
    """Wild votes, or a lie: it counts by its rows and its budget, as others do."""
    sizes = {"a": 20_000, "b": 10_000, "c": 10_000}
    server = make_server(
        UNKNOWN, {name: Registration(n, 3.0, 1e-6) for name, n in sizes.items()}
    )
    server.request()
    said = {"a": (4.0, 1.0), "b": (1e9, 1e-9), "c": (4.2, 1.1)}
    mu = UNKNOWN.plan(10_000, 3.0, 1e-6, "x", False).mu
    sent = {
        name: forged(name, said[name], n_samples=n, mu=mu, of=UNKNOWN)
        for name, n in sizes.items()
    }
    replies = server.collect(sent)
    assert server.averages.pooled_variances(replies) == (4.0, 1.0)
    weights = server.averages.subspace_weights(replies)
    assert weights[1] == weights[2] < 0.3 < 0.4 < weights[0]


def test_weights_are_one_over_the_expected_squared_error():
    """By SpikedPCA's own prediction, where it is far from its largest value."""
    sizes, budgets = {"a": 30_000, "b": 90_000}, {"a": 2.0, "b": 1.0}
    task = make_task(1, **MODEL)
    known = {k: Registration(n, budgets[k], 1e-6) for k, n in sizes.items()}
    server = make_server(task, known)
    server.request()
    expected, sent = [], {}
    for name, n in sizes.items():
        mu = task.plan(n, budgets[name], 1e-6, "x", False).mu
        vector = np.eye(1, 6)
        sent[name] = forged(name, n_samples=n, mu=mu, values=vector, of=task)
        pca = SpikedPCA(1, epsilon=budgets[name], **KNOWN)
        expected.append(pca.expected_error(n, 6, signal_variance=4.0))
    expected = np.array(expected) ** -2.0
    found = server.averages.subspace_weights(server.collect(sent))
    # The server takes a model's bounds for the usual share of delta.
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-3)


def test_noisy_projectors_are_averaged_whole():
    task = make_task(**MODEL, aggregation="matrix")
    clients = make_clients(task, epsilon=100.0)
    server = make_server(task, registered(clients))
    request = server.request()
    with record_releases():
        replies = server.collect(answers(clients, request))
    weights = server.averages.subspace_weights(replies)
    mean = sum(
        w * unpack_lower(r.values, 6) for w, r in zip(weights, replies, strict=True)
    )
    found, _ = server.averages.aggregate(replies)
    assert subspace_distance(found, np.linalg.eigh(mean)[1][:, -2:].T) < 1e-6


def test_covariances_of_the_model_are_averaged():
    task = make_task(**MODEL, model_covariance=True)
    clients = make_clients(task, epsilon=1e8)
    server = make_server(task, registered(clients))
    server.collect(answers(clients, server.request()))
    replies = server.collect(answers(clients, server.request(BASIS)))
    found = server.averages.aggregate_covariances(replies)
    pooled = np.concatenate([rows_of_client(i, N_ROWS) for i in range(3)]) @ BASIS
    # Noise has a standard deviation below 1e-4.
    np.testing.assert_allclose(found, pooled.T @ pooled / len(pooled), atol=2e-3)


def test_a_server_is_told_no_eigengap():
    with pytest.raises(ValueError, match="eigengap is only used"):
        make_server(UNKNOWN, {"b": PUBLIC}, eigengap=0.5)
    server = make_server(UNKNOWN, {"b": PUBLIC}, min_clients=1)
    server.request()
    with (
        pytest.warns(UserWarning, match="rejected"),
        pytest.raises(FederationError, match="name or topic"),
    ):
        server.collect(
            {"b": forged(numbers=(0.1, 0.5, 0.1), topic=Topic.COMPONENTS, of=UNKNOWN)}
        )


def test_weighted_medians():
    assert weighted_median([3.0, 1.0, 2.0], [1.0, 1.0, 1.0]) == 2.0
    assert weighted_median([3.0, 1.0, 2.0], [5.0, 1.0, 1.0]) == 3.0
    assert weighted_median([3.0, 1.0], [0.0, 0.0]) == 1.0
    assert weighted_median([3.0, 1.0, 2.0], [1e308, 1e300, 1e308]) == 2.0


BAD_TASKS = {
    "rounds": {**MODEL, "n_rounds": 1},
    "releases a start": {**MODEL, "start": False, "n_rounds": 1},
    "n_features of at most 2000": {
        **MODEL,
        "n_features": 2001,
        "aggregation": "matrix",
    },
    "projection_norm is not used": {**MODEL, "projection_norm": 1.0},
    "model_covariance": {"model_covariance": True},
    "signal_variance": {"mechanism": SpikedModel(None, 1.0)},
    "clip_norm, scale and center": {**MODEL, "bounded": {"clip_norm": 1.0}},
    "n_components below n_features": {**MODEL, "n_components": 6},
    "norm_range is reversed": {
        "mechanism": SpikedModel("private", "private", norm_range=(2.0, 1.0))
    },
    "norm_range is not used": {"mechanism": SpikedModel(4.0, 1.0, norm_range=(1, 9))},
    "mechanism of clients must be": {"mechanism": "two-stage"},
}


BAD_CHOICES = [
    ("calibration", "classical"),
    ("calibration", ["paper"]),
    *(("sensitivity_constant", value) for value in (0.0, -1.0, np.nan, np.inf, "4")),
]


@pytest.mark.parametrize(("name", "value"), BAD_CHOICES)
@pytest.mark.parametrize("calibration", ["exact", "paper"])
def test_a_task_checks_its_mechanism_itself(name, value, calibration):
    """No estimator has validated these: a constant of 0 would be no noise."""
    with pytest.raises(ValueError, match=name):
        make_task(
            mechanism=SpikedModel(4.0, 1.0, **{"calibration": calibration, name: value})
        )


@pytest.mark.parametrize(("says", "parameters"), BAD_TASKS.items())
def test_bad_tasks(says, parameters):
    with pytest.raises(ValueError, match=says):
        make_task(**parameters)


def test_a_model_has_a_variance_for_every_component():
    task = make_task(**MODEL)
    with pytest.raises(ValueError, match="signal_variance for each of the 3"):
        dataclasses.replace(task, n_components=3)


def test_the_printed_noise_is_refused_where_it_hides_nothing():
    paper = {"mechanism": PAPER, "model_covariance": True}
    for epsilon, says in ((1e6, "hides nothing"), (None, "finite epsilon")):
        with pytest.raises(ValueError, match=f"client 'a': calibration=.*{says}"):
            make_client(make_task(**paper), epsilon=epsilon)


@pytest.mark.filterwarnings("default:.*this is the guarantee of the noise")
def test_a_client_is_told_what_holds_of_the_printed_noise():
    task, accountant = make_task(mechanism=PAPER), PrivacyAccountant(1.0)
    with pytest.warns(PrivacyLeakWarning, match="client 'a' .*, not 1:.*paper"):
        client = make_client(task, epsilon=1.0, accountant=accountant)
    assert client.plan.epsilon > 1.0
    with pytest.raises(PrivacyBudgetError), record_releases() as released:
        client.respond(ask(task, 0, Topic.SUBSPACE))
    assert not released
    assert len(accountant.ledger) == 0


@pytest.mark.parametrize("n", [2, 50, 400])
def test_a_client_of_few_rows_is_refused_by_name(n):
    """The model's bound needs 463 rows here; at its end, noise drowns everything."""
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match=rf"client 'a': .*n_samples={n},"):
        make_client(make_task(**MODEL), rows_of_client(0, n), accountant=accountant)
    assert len(accountant.ledger) == 0
    mechanism = make_client(make_task(**MODEL), rows_of_client(0, 500)).plan.mechanisms
    assert mechanism[0].sensitivity > 0.1


def test_assumptions_are_words_of_the_plan():
    plans = [make_client(make_task(**t)).plan for t in (*TASKS.values(), {})]
    # Clients clip all that they release themselves, and add all of the noise; leaks are
    # of pipelines.
    others = {Assumption.CLIPPED_GRADIENTS, Assumption.SUMMED_PARTS}
    possible = set(Assumption) - others - {Assumption.NO_LEAKS}
    assert {plan.assumption for plan in plans} == possible
