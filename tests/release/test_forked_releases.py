"""Forked copies of releases and clients, which would draw the same noise."""

import os

import numpy as np
import pytest
from release_tools import Release

from skdpspectral import DPPCA, JMECovariance
from skdpspectral.federation import LocalClient, MessageError, Request, Topic, make_task

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(function):
    """Return whether a function fails in a forked child as it should."""
    child = os.fork()
    if child == 0:
        try:
            function()
        except (RuntimeError, MessageError) as error:
            os._exit(0 if "forked copy" in str(error) else 2)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_release_lets_nothing_out():
    release = Release(DPPCA(1).privacy_plan(100, 2))
    assert in_child(lambda: release("second_moment", np.eye(2))) == 0
    assert release("second_moment", np.eye(2)).shape == (2, 2)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("begun", [False, True])
def test_a_forked_client_answers_nothing(begun):
    X = np.random.default_rng(0).normal(size=(50, 3))
    task = make_task(1, 3, n_rounds=1)
    client = LocalClient("north", X, task)
    session = b"s" * 16
    start = Request(session, task.digest, 0, Topic.COMPONENTS)
    if begun:
        client.respond(start)
    asked = start
    if begun:
        asked = Request(session, task.digest, 1, Topic.POWER, np.eye(3)[:, :1])
    assert in_child(lambda: client.respond(asked)) == 0
    assert client.respond(asked).values.size


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_no_source_of_noise():
    """A fork by another thread in the middle of a fit or a stream."""
    plan = DPPCA(1).privacy_plan(100, 2)
    owners = [Release(plan)]
    stream = JMECovariance(horizon=9).partial_fit(np.eye(2))
    owners.append(stream._stream._release)
    child = os.fork()
    if child == 0:
        kept = [
            name
            for owner in owners
            for name in ("_generator", "_noise", "_key")
            if getattr(owner, name, None) is not None
        ]
        os._exit(len(kept))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert owners[0]._generator is not None
    stream.partial_fit(np.eye(2))
