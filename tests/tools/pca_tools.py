"""A release that answers with a transcript, and notes what it was asked."""

import numpy as np


class Replay:
    """A release that answers with a transcript, and notes what it was asked."""

    def __init__(self, plan, transcript):
        self.plan = plan
        self.transcript = transcript
        self.exact = {}

    def __call__(self, name, value, *, overwrite=False):
        self.exact[name] = np.array(value, dtype=float)
        return self.transcript[name].copy()
