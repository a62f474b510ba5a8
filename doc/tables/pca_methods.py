"""Share of the variance about the mean that components can keep, by published methods.

epsilon = 1 and delta = 1e-6 for one row that is replaced ("exponential" has no delta).
DPPCA knows nothing of the rows. The others are given what no fit may know, as
``examples/benchmarks/pca_peers.py`` says.
"""

from functools import lru_cache

from pca_centers import ROWS as TABLES
from pca_centers import SLOW as LARGE
from pca_peers import RANKS, DataSet

NEEDS_DATA = True
HEADER = "Rows"
COUNTS = tuple(title for title in TABLES if title.startswith("counts"))
ROWS = {title: TABLES[title] for title in TABLES if title not in (*LARGE, *COUNTS)}
SLOW = ("Jester, 24,983 x 100", "Adult, one-hot, 48,842 x 105")
SLOW += ("one direction, 10,000 x 200, k = 1",)
REPEATS = 10
PEERS = ("g-DPPCA", "SeparateCov", "AdaptiveCov", "CoinPress", "exponential")


@lru_cache(maxsize=1)
def data_set(name):
    """Return the rows and what is worked out once of them."""
    return DataSet(name)


def measure(setting, seed):
    """Return the shares of one fit by each method."""
    name, k = setting
    data, place = data_set(name), RANKS.index(k)
    found = {"DPPCA": data.shares(data.ours("DPPCA", 1.0, seed))[place]}
    for method in PEERS:
        found[method] = data.shares(data.peer(method, 1.0, seed))[place]
    return found
