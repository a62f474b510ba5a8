"""What all parties have agreed on: read from one's own folder, never from another's.

``task.json`` has the parameters of an estimator, or of a model of users.
"""

import json

from skdpspectral.federation import GroupTask, SpectralTask


def write_task(folder, task):
    """Write a SpectralTask or a GroupTask."""
    (folder / "task.json").write_text(task.to_json())


def read_task(folder):
    """Return the task that a folder holds."""
    text = (folder / "task.json").read_text()
    kind = GroupTask if "model" in json.loads(text) else SpectralTask
    return kind.from_json(text)
