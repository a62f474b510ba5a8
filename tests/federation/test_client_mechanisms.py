"""A model of the rows of clients: what is planned, sent, believed and refused."""

import math

import numpy as np
import pytest
from federation_tools import N_MODEL_ROWS as N_ROWS  # the model needs 463 at least
from federation_tools import (
    SESSION,
    ask,
    hold,
    in_session,
    make_clients,
    make_rounds,
    make_task,
    other,
    replies_to,
    rows_of,
)
from ledger_tools import refused
from release_tools import record_releases
from sklearn.base import clone

from skdpspectral import (
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    SpikedPCA,
)
from skdpspectral._linalg.eigen import top_eigh, unpack_lower, weighted_median
from skdpspectral._release import noise as release_module
from skdpspectral.decomposition import SpikedModel
from skdpspectral.federation import LocalClient, Registration, Reply, Rounds
from skdpspectral.metrics import subspace_distance

KNOWN = {"signal_variance": 4.0, "noise_variance": 1.0}
MODEL = {"mechanism": SpikedModel(**KNOWN)}
PAPER = SpikedModel(4.0, 1.0, calibration="paper")
TASKS = {
    "model": MODEL,
    "model, covariance": {"mechanism": SpikedModel(**KNOWN, release="covariance")},
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


def talk(client, task):
    """Hold a whole session, and return the replies."""
    bases = [(), BASIS][: task.n_steps]
    return [client.respond(ask(task, i, basis)) for i, basis in enumerate(bases)]


def make_client(task, X=None, **parameters):
    X = rows_of(0, n=N_ROWS) if X is None else X
    return LocalClient("a", X, task, **parameters)


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
    """One row is exchanged; with the same releases, all bytes are the same.

    The components are those of SpikedPCA with these releases.
    """
    task, X = make_task(**TASKS[name]), rows_of(0, n=N_ROWS)
    neighbor = X.copy()
    neighbor[3] = [50.0, -1e-9, 3.0, 1e5, -7.0, 0.0]
    same_releases(monkeypatch)
    sides = [talk(make_client(task, rows), task) for rows in (X, neighbor)]
    assert [r.to_bytes() for r in sides[0]] == [r.to_bytes() for r in sides[1]]
    vectors = sides[0][0].values
    if vectors.ndim == 1:
        vectors = top_eigh(unpack_lower(vectors, 6), 2)[1]
    model = TASKS[name]["mechanism"].get_params()
    alone = SpikedPCA(2, **model).fit(X)
    assert make_client(task, X).plan.mechanisms == alone.privacy_.mechanisms
    if model["release"] == "components":
        assert np.array_equal(vectors, alone.components_)


# -- the server ------------------------------------------------------------------------

UNKNOWN = make_task(mechanism=SpikedModel("private", "private"))
NUMBERS = [(0.0, 1.0), (-4.0, 1.0), (4.0, 0.0), (1e300, 1.0), (1.0, 1e-300)]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_variances_that_no_rows_have_are_rejected(numbers):
    clients = make_clients(UNKNOWN)
    rounds = make_rounds(UNKNOWN, clients)
    with pytest.warns(UserWarning, match="client 'b' was rejected: its variance"):
        rounds.collect(other(replies_to(rounds, clients), numbers=numbers))
    assert rounds.clients == ("a", "c")


@pytest.mark.parametrize("name", TASKS)
def test_weights_are_finite_whatever_clients_claim(name):
    """Costs, rows and variances at the ends of what a reply may hold."""
    task = make_task(**TASKS[name])
    (query, *_), vectors = task.queries, np.eye(2, 6)
    place, asked = (SESSION, task.digest, 0), []

    class Asked:
        def weigh(self, variances, replies):
            asked.extend(variances)
            return np.ones(len(replies)) / len(replies)

    for n in (1, 50, 2**63 - 1):
        for mu in (5e-324, 1e-12, 0.2, 1e300, math.inf):
            for numbers in [
                (s, v) for s in (1e-240, 1.0, 1e240) for v in (1e-240, 1.0)
            ]:
                values = np.zeros(21) if query.packed else vectors
                said = numbers[: query.n_numbers]
                query.combine(Asked(), [Reply(*place, "a", n, mu, said, values)])
    assert all(0.0 <= error < math.inf for error in asked)
    assert query.packed or max(asked) <= 4.0


def test_a_client_is_not_believed_what_it_says_of_itself_alone():
    """Wild votes, or a lie: it counts by its rows and its budget, as others do."""
    sizes = {"a": 20_000, "b": 10_000, "c": 10_000}
    known = {name: Registration(n, 3.0, 1e-6) for name, n in sizes.items()}
    rounds = in_session(Rounds(known, UNKNOWN))
    request = rounds.request()
    said = {"a": (4.0, 1.0), "b": (1e9, 1e-9), "c": (4.2, 1.1)}
    place = SESSION, UNKNOWN.digest, request.step
    sent = {
        name: Reply(
            *place, name, n, rounds.parties[name].plan.mu, said[name], np.eye(2, 6)
        )
        for name, n in sizes.items()
    }
    rounds.collect(sent)
    found = rounds.outcome()
    assert found["noise_variance_"] == 1.0
    weights = found["client_weights_"]
    assert weights[1] == weights[2] < 0.3 < 0.4 < weights[0]


def test_weights_are_one_over_the_expected_squared_error():
    """To first order in sampling and noise, far from the largest value."""
    sizes, budgets = {"a": 30_000, "b": 90_000}, {"a": 2.0, "b": 1.0}
    task = make_task(1, **MODEL)
    known = {k: Registration(n, budgets[k], 1e-6) for k, n in sizes.items()}
    rounds, expected, sent = in_session(Rounds(known, task)), [], {}
    rounds.request()
    for name, n in sizes.items():
        mu = rounds.parties[name].plan.mu
        vector = np.eye(1, 6)
        sent[name] = Reply(SESSION, task.digest, 0, name, n, mu, (), vector)
        noise = rounds.parties[name].plan["projector"].noise_std
        expected.append(1.0 / (1.0 * 5.0 / 4.0**2 / n + 0.5 * noise**2))
    rounds.collect(sent)
    # The server takes a model's bounds for the usual share of delta.
    weights = rounds.outcome()["client_weights_"]
    np.testing.assert_allclose(weights, expected / np.sum(expected), rtol=1e-3)


def test_projectors_and_covariances_are_averaged():
    """Of noisy matrices as wholes; of a covariance, nearly without noise."""
    task = make_task(**MODEL, aggregation="matrix")
    clients = make_clients(task, epsilon=100.0)
    rounds = make_rounds(task, clients)
    sent = replies_to(rounds, clients)
    rounds.collect(sent)
    found = rounds.outcome()
    packed = found["client_weights_"] @ np.stack(
        [reply.values for reply in sent.values()]
    )
    top = np.linalg.eigh(unpack_lower(packed, 6))[1][:, -2:].T
    assert subspace_distance(found["components_"], top) < 1e-6
    task = make_task(**TASKS["model, covariance"])
    clients = make_clients(task, epsilon=1e8)
    found = hold(make_rounds(task, clients), clients)
    pooled = np.concatenate([rows_of(i, N_ROWS) for i in range(3)])
    scores = pooled @ found.components_.T
    # Noise has a standard deviation below 1e-4.
    expected = np.linalg.eigvalsh(scores.T @ scores / len(pooled))[::-1]
    np.testing.assert_allclose(found.explained_variance_, expected, atol=4e-3)


def test_weighted_medians():
    assert weighted_median([3.0, 1.0, 2.0], [1.0, 1.0, 1.0]) == 2.0
    assert weighted_median([3.0, 1.0, 2.0], [5.0, 1.0, 1.0]) == 3.0
    assert weighted_median([3.0, 1.0], [0.0, 0.0]) == 1.0
    assert weighted_median([3.0, 1.0, 2.0], [1e308, 1e300, 1e308]) == 2.0


def test_the_printed_noise_is_refused_where_it_hides_nothing():
    paper = {"mechanism": clone(PAPER).set_params(release="covariance")}
    for epsilon, says in ((1e6, "hides nothing"), (None, "finite epsilon")):
        with pytest.raises(ValueError, match=f"client 'a': calibration=.*{says}"):
            make_client(make_task(**paper), epsilon=epsilon)


@pytest.mark.filterwarnings("default:.*this is the guarantee of the noise")
def test_a_client_is_told_what_holds_of_the_printed_noise():
    """It is registered with what was asked for: of its claim, another plan follows."""
    task, accountant = make_task(mechanism=PAPER), PrivacyAccountant(1.0)
    with pytest.warns(PrivacyLeakWarning, match="client 'a' .*, not 1:.*paper"):
        client = make_client(task, epsilon=1.0, accountant=accountant)
    assert client.plan.epsilon > 1.0
    with pytest.raises(PrivacyBudgetError), record_releases() as released:
        client.respond(ask(task, 0))
    assert not released
    assert len(accountant.ledger) == 0
    assert client.registration == Registration(N_ROWS, 1.0, 1e-6)
    assert task.party("a", *client.registration).plan == client.plan


@pytest.mark.parametrize("n", [2, 50, 400])
def test_a_client_of_few_rows_is_refused_by_name(n):
    """The model's bound needs 463 rows here; at its end, noise drowns everything."""
    with refused(rf"client 'a': .*n_samples={n},") as accountant:
        make_client(make_task(**MODEL), rows_of(0, n), accountant=accountant)
    mechanism = make_client(make_task(**MODEL), rows_of(0, 500)).plan.mechanisms
    assert mechanism[0].sensitivity > 0.1
