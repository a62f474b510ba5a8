"""Forked copies of releases and clients, which would draw the same noise."""

import os

import numpy as np
import pytest
from release_tools import Release

from skdpspectral import DPPCA, JMECovariance

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_no_source_of_noise():
    """A fork by another thread in the middle of a fit or a stream."""
    plan = DPPCA(1).privacy_plan(100, 2)
    owners = [Release(plan)]
    stream = JMECovariance(horizon=9).partial_fit(np.eye(2))
    owners.append(stream._stream.release)
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
