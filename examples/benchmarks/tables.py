"""What the benchmark scripts share: means with standard errors, times, tables."""

import json
import time
import warnings
from pathlib import Path

import numpy as np

from skdpspectral import NoisyFitWarning, PrivacyLeakWarning


def ignore_leak_warnings():
    """Keep tables readable: the data are simulated, or their use is public."""
    warnings.simplefilter("ignore", PrivacyLeakWarning)


def ignore_noise_warnings():
    """Keep tables readable: components that the noise drowns are in the figures."""
    warnings.simplefilter("ignore", NoisyFitWarning)


def with_error(values, digits=4):
    """Return mean and standard error as text."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{digits}f} +- {error:.{digits}f}"


def median_cpu(function, repeats):
    """Return the median CPU time and wall time of a call, in seconds."""
    cpu, wall = [], []
    for _ in range(repeats):
        start, clock = time.process_time(), time.perf_counter()
        function()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - clock)
    return float(np.median(cpu)), float(np.median(wall))


def print_row(*cells, widths=24):
    """Print one line of a table."""
    print("  ".join(f"{cell!s:>{widths}}" for cell in cells), flush=True)


class Cells:
    """Figures of a benchmark that are measured once: JSON lines, one of each cell.

    A run that was broken off goes on where it was. Delete the file, or lines of it, to
    measure anew, as after a change of what is measured.
    """

    def __init__(self, path=None, models=None):
        self.models = models
        self.path, self.found, self.keys = path and Path(path), {}, {}
        if path and self.path.exists():
            for line in self.path.read_text().splitlines():
                if line.endswith("}"):  # what was cut off is measured anew
                    cell = json.loads(line)
                    self._keep(cell["key"], cell["value"])

    @staticmethod
    def _name(key):
        return json.dumps(key, sort_keys=True)

    def _keep(self, key, value):
        name = self._name(key)
        self.found[name], self.keys[name] = value, key

    def of(self, **chosen):
        """Return keys and values of the cells whose keys have these entries."""
        return [
            (key, self.found[name])
            for name, key in self.keys.items()
            if chosen.items() <= key.items()
        ]

    def get(self, measure, **key):
        """Return the cell of this key, measured now if it is not there.

        None if its model is not one of those that are to be measured.
        """
        name = self._name(key)
        if name not in self.found and self.models and key["model"] not in self.models:
            return None
        if name not in self.found:
            start = time.process_time()
            value = measure()
            cell = {"key": key, "value": value}
            cell["cpu_s"] = round(time.process_time() - start, 3)
            text = json.dumps(cell, default=float)
            self._keep(key, json.loads(text)["value"])
            print("#", text, flush=True)
            if self.path:
                add_line(self.path, text)
        return self.found[name]


def add_line(path, text):
    """Add a line to a file, whose last one may have been cut off."""
    with Path(path).open("a+b") as file:
        file.seek(max(file.tell() - 1, 0))
        is_cut = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * is_cut + text.encode() + b"\n")


def read_lines(path):
    """Return the JSON of a file's lines but those that were cut off, if it is there."""
    path = Path(path) if path else None
    texts = path.read_text().splitlines() if path and path.exists() else []
    return [json.loads(text) for text in texts if text.endswith("}")]
