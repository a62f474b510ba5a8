"""What both recommenders' tests of privacy do: users, checks, planted mistakes."""

import item_tools
import numpy as np
import pytest
from item_tools import CANARY

TINY = float(np.nextafter(0.0, 1.0))


def ordinary(t=6, p=5, n=4, seed=0):
    """Return users with ratings of a catalog, and of two items outside it."""
    rng = np.random.default_rng(seed)
    return {
        user: [(int(i), float(rng.integers(1, 6))) for i in rng.integers(p + 2, size=n)]
        for user in range(t)
    }


# Ratings of one user, of items 0 to 4 of the catalog and of others.
HOSTILE = {
    "one rating": [(0, 5.0)],
    "all of the middle": [(j, 3.0) for j in range(5)],
    "all unknown": [(j, 5.0) for j in range(100, 130)],
    "mostly unknown": [(0, 4.0)] + [(j, 5.0) for j in range(100, 120)],
    "beyond every range": [(0, 1e300), (1, -1e300), (2, 1.7e308), (3, -1.7e308)],
    "tiny": [(j, TINY * (j + 1)) for j in range(5)],
    "duplicates": [(j % 3, 1.0 + j % 5) for j in range(40)],
    "many ratings": [(j % 5, 5.0 - j % 2) for j in range(500)],
    "all alike": [(j, 5.0) for j in range(5)],
}


def check_nothing_else_is_seen(seen, settings, hostile):
    """With the releases held fixed, nothing else depends on the data."""
    base = ordinary()
    for turn, parameters in enumerate(settings):
        expected = seen(base, **parameters)
        changed = [(f"{k} joins", base | {CANARY: v}) for k, v in hostile.items()]
        # Each in the place of an ordinary user in some settings, and alone in others.
        some = list(hostile.items())[turn % 3 :: 3]
        changed += [(f"{k} replaces", base | {0: v}) for k, v in some]
        changed += [(f"{k} alone", {CANARY: v}) for k, v in some]
        changed += [("one leaves", {k: v for k, v in base.items() if k != 3})]
        changed += [("named otherwise", {f"user {k}": v for k, v in base.items()})]
        changed += [("many users", ordinary(t=200, seed=1))]
        for what, users in changed:
            found = seen(users, **parameters)
            for part, value in expected.items():
                assert found[part] == value, f"{what}: {part}"


def planted_mistakes(estimator, modules, checks, mutants):
    """Return tests: each planted mistake fails its check, and a copy passes all.

    `mutants` has by name the check that must fail, the module and its edits.
    """

    def mutated(monkeypatch, module, *edits):
        last = item_tools.mutated(monkeypatch, modules, module, *edits)
        return getattr(last, estimator.__name__)

    @pytest.mark.sampled(5)
    @pytest.mark.parametrize("name", mutants)
    def caught(name, monkeypatch):
        check, module, *edits = mutants[name]
        wrong = mutated(monkeypatch, module, *edits)
        with pytest.raises(AssertionError):
            check(wrong)

    @pytest.mark.slow
    @pytest.mark.dependencies
    @pytest.mark.parametrize("check", checks)
    def passes(check, monkeypatch):
        copy = mutated(monkeypatch, None)
        assert copy is not estimator
        check(copy)

    return caught, passes
