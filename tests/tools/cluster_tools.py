"""Fits of rows in memory and on a cluster, and schedulers that look at the tasks."""

import contextlib
import io
import pickle
import warnings

import numpy as np
from release_tools import record_releases
from sklearn.base import BaseEstimator

from skdpspectral import PrivacyAccountant
from skdpspectral._base.strategies import is_strategy

# Nothing of these rooms may travel to a worker.
SECRET_ROOMS = ("skdpspectral._release", "skdpspectral.accounting", "randomgen")


@contextlib.contextmanager
def quiet():
    """Ignore warnings: of seeds, and those of dask."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(estimator, *data, **given):
    """Releases of a fit, and the number of entries of its ledger."""
    with record_releases() as transcript, PrivacyAccountant() as accountant:
        estimator.fit(*data, **given)
    return transcript, len(accountant.ledger)


def check_same(wanted, found):
    """The same releases, to the last bit, and as many entries of the ledger."""
    assert wanted[0].keys() == found[0].keys()
    for name, values in wanted[0].items():
        np.testing.assert_array_equal(found[0][name], values, err_msg=name)
    assert wanted[1] == found[1]


class Looking(pickle.Pickler):
    """Pickles a job as plain pickle does, and notes what is in it."""

    def __init__(self, seen):
        super().__init__(io.BytesIO(), protocol=5)
        self.seen = seen

    def persistent_id(self, thing):
        self.seen.append(thing)


def look_into(job):
    """Everything that is pickled with a job."""
    seen = []
    Looking(seen).dump(job)
    return seen


def check_public(job, seed, n_rows):
    """No noise, ledger or estimator is in a job, and nothing as long as the rows."""
    for thing in look_into(job):
        module = getattr(thing, "__module__", None) or type(thing).__module__
        assert not str(module).startswith(SECRET_ROOMS), thing
        assert not isinstance(thing, np.random.Generator)
        # Strategies hold public numbers alone.
        assert is_strategy(thing) or not isinstance(thing, BaseEstimator)
        assert not (isinstance(thing, int) and thing == seed)
        if isinstance(thing, np.ndarray):
            assert n_rows not in thing.shape
