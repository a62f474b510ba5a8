"""Results of long benchmarks, a line each: a run goes on where another one ended."""

import json
import time
from pathlib import Path

import numpy as np


class Cells:
    """Values by keys, kept in a file of JSON lines, or in memory alone.

    Parameters
    ----------
    path : str or None
        File that lines are read from, and added to.
    """

    def __init__(self, path=None):
        self._path = None if path is None else Path(path)
        self._found, self.seconds = {}, 0.0
        if self._path is not None and self._path.exists():
            for line in self._path.read_text().splitlines():
                self._read(line)

    def _read(self, line):
        try:
            key, value, seconds = json.loads(line)
        except ValueError:  # a line that was cut when its run was ended
            return
        self._found[tuple(key)] = value
        self.seconds += seconds

    def __contains__(self, key):
        return tuple(key) in self._found

    def __getitem__(self, key):
        return self._found[tuple(key)]

    def add(self, key, value, seconds=0.0):
        """Keep a value, and the CPU time that it took."""
        line = json.dumps([list(key), value, round(seconds, 4)])
        self._read(line)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(line + "\n")

    def timed(self, key, function, *given):
        """Keep what a function returns."""
        start = time.process_time()
        value = function(*given)
        self.add(key, value, time.process_time() - start)

    def values(self, *first):
        """Return the values whose keys begin so, by repeat.

        The last part of a key is the number of its repeat. What was not to be had, and
        is None, is left out.
        """
        size = len(first)
        found = [
            (key[-1], value)
            for key, value in self._found.items()
            if key[:size] == first and len(key) == size + 1 and value is not None
        ]
        return [value for _, value in sorted(found, key=lambda one: one[0])]


def median_of(values, width=None):
    """Return the median as text, with quartiles beside it; "-" of nothing.

    Parameters
    ----------
    values : array-like
        By repeat.
    width : int or None, default=None
        Repeats that are wanted; what has fewer says how many it has.
    """
    if len(values) == 0:
        return "-"
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    fewer = f" /{len(values)}" if width is not None and len(values) < width else ""
    return f"{middle:.4f} ({low:.3f}-{high:.3f}){fewer}"
