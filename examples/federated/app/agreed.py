"""What all parties have agreed on: read from one's own folder, never from another's.

``task.bin`` is a task of components in its byte form; ``task.json`` has the parameters
of a model of users, and who adds the noise.
"""

import json

import numpy as np

import skdpspectral
from skdpspectral.federation import GroupTask, SpectralTask
from skdpspectral.linear_model import PrivateRounds, UserIntercept

# Objects among the parameters of an LRSRegressor.
_OBJECTS = {"solver": PrivateRounds, "fit_intercept": UserIntercept}


def write_task(folder, task):
    """Write a SpectralTask, or a dict of what makes a GroupTask."""
    if isinstance(task, SpectralTask):
        (folder / "task.bin").write_bytes(task.to_bytes())
    else:
        (folder / "task.json").write_text(json.dumps(task))


def read_task(folder):
    """Return the task that a folder holds."""
    path = folder / "task.json"
    if path.exists():
        return group_task(**json.loads(path.read_text()))
    return SpectralTask.from_bytes((folder / "task.bin").read_bytes())


def group_task(model, parameters, **how):
    """Return the task of a model of users, by the name of its class."""
    kinds = {"LRSRegressor", "DPMatrixFactorization"}
    if model not in kinds:
        raise ValueError(f"model must be one of {sorted(kinds)}, got {model!r}")
    arrays = {"items", "item_features"} & parameters.keys()
    given = parameters | {key: np.array(parameters[key]) for key in arrays}
    for name, kind in _OBJECTS.items():  # their parameters, in JSON
        if isinstance(given.get(name), dict):
            given[name] = kind(**given[name])
    return GroupTask(getattr(skdpspectral, model)(**given), **how)
