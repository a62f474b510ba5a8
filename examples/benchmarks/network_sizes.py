"""Numbers of personalized networks: those of table 2 of Pal et al. (2023).

    python examples/benchmarks/network_sizes.py

A share of weights is rounded up per user, or once for all users together, as in the
paper's rows for Jester.
"""

import itertools
import math
from fractions import Fraction

DATA = {
    "MovieLens": {"n_features": 50, "n_users": 241, "widths": (50, 50)},
    "Jester": {"n_features": 50, "n_users": 100},
    "Netflix": {"n_features": 50, "n_users": 1000},
}
METHODS = {
    "single": {"fixed": True},
    "full": {"rank": 0, "sparsity": 1.0},
    "representation": {},
    "prompts": {"fixed": True, "prompt_size": 50},
    "low rank + 1 %": {"sparsity": 0.01},
    "low rank + 20 %": {"sparsity": 0.2},
}


def count_parameters(
    n_features,
    n_users,
    *,
    widths=(50,),
    rank=1,
    sparsity=0.0,
    fixed=False,
    prompt_size=0,
    at_once=False,
):
    """Count U, weights w, sparse parts b (without positions) and trained features."""
    sizes = (n_features + prompt_size, *widths, 1)
    p = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    own = (0 if fixed else rank) + prompt_size
    each = Fraction(repr(sparsity)) * (p if isinstance(sparsity, float) else 1)
    sparse = math.ceil(n_users * each) if at_once else n_users * math.ceil(each)
    return p * rank + n_users * own + sparse


def main():
    """Print the table."""
    for name, data in DATA.items():
        for method, given in METHODS.items():
            count = count_parameters(**data, **given, at_once=name == "Jester")
            print(f"{name:10} {method:16} {count:>9,}")


if __name__ == "__main__":
    main()
