"""What private searches find, beside other ways to spend the same budget.

Exact scores on test rows that no fit and no search has seen, delta = 1e-6: the share of
the variance that five components keep (digits, Adult), the negative mean squared error
(a pixel, MovieLens, Jester), or the accuracy (labels).
examples/benchmarks/private_search.py has the tasks and what each column stands for; the
first candidate of each grid is the incumbent.
"""

from functools import lru_cache

from cells import Cells
from private_search import TASKS
from private_search import measure as measure_cells

NEEDS_DATA = True
HEADER = "Data, :math:`\\epsilon`"
TITLES = {
    "digits": "Digits",
    "adult": "Adult",
    "labels": "Labels of digits",
    "units": "Labels, pixels in units of their own",
    "pixel": "A pixel of digits",
    "ml-100k": "MovieLens 100K",
    "jester": "Jester",
}
ROWS = {
    f"{title}, {epsilon:g}": (name, epsilon)
    for name, title in TITLES.items()
    for epsilon in (1.0, 2.0, 4.0)
}
SLOW = tuple(ROWS)
COUNTS = dict.fromkeys(("digits", "pixel", "ml-100k"), 20)
COUNTS |= {"labels": 7, "units": 4, "adult": 3, "jester": 3}
REPEATS = {row: COUNTS[name] for row, (name, _) in ROWS.items()}
WAYS = {
    "vote": "votes",
    "grid": "grid, all paid for",
    "default": "incumbent",
    "oracle": "best",
}
CELLS = Cells()
task_of = lru_cache(lambda name: TASKS[name]())


def measure(setting, seed):
    """Return the scores of one split, by what found the model."""
    name, epsilon = setting
    measure_cells(CELLS, {name: task_of(name)}, [epsilon], WAYS, [seed])
    return {title: CELLS[name, epsilon, way, seed] for way, title in WAYS.items()}
