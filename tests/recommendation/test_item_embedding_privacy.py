"""Privacy of DPItemEmbedding for users: exact checks, planted mistakes.

The checks are functions of a class, so that each planted mistake, an edit of the
source that is run in this process, must fail the check that is to catch it.
"""

import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from item_tools import CANARY, WHOLE, exact_moment, table
from lrs_tools import scripted
from ratings_privacy import (
    HOSTILE,
    TINY,
    check_nothing_else_is_seen,
    ordinary,
    planted_mistakes,
)

from skdpspectral import DPItemEmbedding

pytestmark = pytest.mark.filterwarnings("ignore:items=None:UserWarning")


# -- data sets -------------------------------------------------------------------------


# Ratings of one user, of items 0 to 4 of the catalog and of others.
HOSTILE = HOSTILE | {
    "zeros of both signs": [(0, 0.0), (1, -0.0), (2, TINY), (3, -TINY)],
    "squares underflow": [(j, 1.57e-162) for j in range(4)] + [(4, 2.3e-162)],
    "items of other types": [
        (True, 5.0),
        (2.0, 1.0),
        (np.int8(3), 4.0),
        (np.float32(4), 5.0),
    ],
    "huge numbers for items": [
        (2**53, 5.0),
        (2**53 + 1, 1.0),
        (2**63 - 1, 3.5),
        (4, 2.0),
    ],
}
SETTINGS = {
    "catalog": {"items": range(5)},
    "wide range": {"items": range(5), "rating_range": (-10, 10)},
    "few ratings": {"items": range(5), "max_ratings_per_user": 2},
    "large ids": {"items": [2**53, 2**53 + 1, 0, 1, 2]},
    "buckets": {"items": 7},
    "no catalog": {"items": None},
}


# -- checks of a class -----------------------------------------------------------------


def check_sums(cls):
    """Whoever joins moves the sum by a matrix of their own, of norm at most one.

    All numbers are exact: multiples of 2**-22 far below 2**31.
    """
    base = ordinary() | {10**6: [(2**53, 4.0), (2**53 + 1, 2.0), (1, 5.0)]}
    for setting, parameters in SETTINGS.items():
        before = exact_moment(cls, base, **parameters)
        for what, rated in HOSTILE.items():
            alone = exact_moment(cls, {CANARY: rated}, **parameters)
            where = f"{setting}, {what}"
            check_projector(alone, where)
            for users, seed in (
                (base | {CANARY: rated}, None),
                ({CANARY: rated} | base, None),
                (base | {CANARY: rated}, 1),
            ):
                together = exact_moment(cls, users, seed, **parameters)
                assert together.shape == before.shape, where
                assert np.array_equal(together - before, alone), where


def check_projector(matrix, where):
    """Whole numbers over 2**22: x x' with |x| at most one, or zero."""
    whole = matrix * WHOLE**2
    assert np.array_equal(whole, np.rint(whole)), where
    whole = whole.astype(np.int64)
    assert np.array_equal(whole, whole.T), where
    assert np.trace(whole) <= WHOLE**2, where
    # Rank one and positive: M_jj M_kk = M_jk^2, exactly.
    diagonal = np.diag(whole)
    assert (diagonal >= 0).all(), where
    assert np.array_equal(np.multiply.outer(diagonal, diagonal), whole * whole), where
    assert sum(int(v) ** 2 for v in whole.ravel()) <= WHOLE**4, where


def check_large_users(cls):
    """Users whose ids are beyond 2**53 stay apart, in arrays and lists."""
    X = np.array([[2**53, 0], [2**53 + 1, 1]])
    for rows in (X, X.tolist(), [[*map(int, row)] for row in X]):
        with scripted() as asked:
            cls(1, method="moment", items=[0, 1], rating_range=(1, 5)).fit(
                rows, [5.0, 5.0]
            )
        assert asked["second_moment"][0, 1] == 0.0


def check_rows_of_unknown_items(cls):
    """A user who rates one known item has it at full length."""
    users = {0: [(0, 4.0), *((j, 5.0) for j in range(100, 110))]}
    moment = exact_moment(cls, users, items=range(5))
    assert moment[0, 0] > 0.99


def seen(cls, users, seed=None, **parameters):
    """Everything that a fit shows: warnings, attributes, copies, files, outputs."""
    X, y = table(users, seed)
    with scripted(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = cls(2, **{"rating_range": (1, 5), **parameters}).fit(X, y)
    state = {k: v for k, v in vars(model).items() if k not in parameters}
    stranger = np.array([["somebody", 1], ["else", 3]], dtype=object)
    return {
        "warnings": [(w.category, str(w.message)) for w in caught],
        "attributes": joblib.hash(state),
        "published": joblib.hash(vars(model.publish())),
        "names": model.get_feature_names_out().tolist(),
        "plan": (str(model.privacy_), model.privacy_.to_json()),
        "text": repr(model),
        "output": model.transform(stranger).tolist(),
    }


def check_public(cls):
    """With the releases held fixed, nothing else depends on the data."""
    features = np.arange(14.0).reshape(7, 2)
    settings = [*SETTINGS.values(), {"items": 7, "item_features": features}]
    settings = [s | {"method": "moment"} for s in settings] + settings[-2:]
    check_nothing_else_is_seen(partial(seen, cls), settings, HOSTILE)


CHECKS = [check_sums, check_large_users, check_rows_of_unknown_items, check_public]


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("check", CHECKS)
def test_the_estimator_passes(check):
    check(DPItemEmbedding)


def test_the_plan_needs_no_data_and_holds_for_any_number_of_users():
    model = DPItemEmbedding(2, method="moment", items=range(5), rating_range=(1, 5))
    plans = {model.fit(*table(ordinary(t))).privacy_.to_json() for t in (1, 6, 300)}
    assert plans == {model.privacy_plan(5).to_json()}
    (release,) = model.privacy_.mechanisms
    assert (release.sensitivity, release.summation_error) == (1.0, 0.0)
    assert model.privacy_.unit == "user"
    assert model.privacy_.neighbors == "add-remove-one"


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("n_items", [1, 7, 5000])
def test_the_charge_is_exact_and_covers_the_grid(epsilon, n_items):
    """One, and half a step an entry for each of two roundings: no bit is lost."""
    (release,) = (
        DPItemEmbedding(method="moment", epsilon=epsilon, rating_range=(1, 5))
        .privacy_plan(n_items)
        .mechanisms
    )
    steps = 1 / release.grid if release.grid <= 1 else 1.0
    whole = int(steps) + int(n_items * release.grid * steps)
    assert release.charged_sensitivity * steps == whole
    assert release.grid >= 2.0**-20


# -- planted mistakes ------------------------------------------------------------------

MODULES = (
    "recommendation._table_columns",
    "recommendation._kernels",
    "recommendation._item_models",
    "recommendation._table_columns",
    "recommendation._table_columns",
    "recommendation._estimator",
    "recommendation._item_embedding",
)


MUTANTS = {
    "division by the number of users": (
        check_sums,
        "recommendation._kernels",
        (
            "out *= EMBEDDING_STEP * EMBEDDING_STEP",
            "out *= EMBEDDING_STEP * EMBEDDING_STEP / steps.shape[0]",
        ),
    ),
    "normalization skipped": (
        check_sums,
        "recommendation._kernels",
        (
            "values / np.repeat(lengths, counts) / EMBEDDING_STEP",
            "values / EMBEDDING_STEP",
        ),
    ),
    "rounded to the nearest step": (
        check_sums,
        "recommendation._kernels",
        ("np.trunc(", "np.ceil("),
    ),
    "squares that underflow": (
        check_sums,
        "recommendation._kernels",
        ("    values = np.ldexp(values, -np.repeat(exponents, counts))\n", ""),
    ),
    "users truncated by rows of the table": (
        check_sums,
        "recommendation._kernels",
        ("np.arange(len(users)) - starts < most", "rows[order] < most"),
    ),
    "users truncated together": (
        check_sums,
        "recommendation._kernels",
        ("np.arange(len(users)) - starts < most", "np.arange(len(users)) < most"),
    ),
    "duplicates added up": (
        check_sums,
        "recommendation._kernels",
        (
            "    last[:-1] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])\n",
            "",
        ),
    ),
    "rating range from the data": (
        check_sums,
        "recommendation._item_models",
        (
            "low, high = self.rating_range",
            "low, high = rows.values.min(), rows.values.max()",
        ),
    ),
    "middle from the data": (
        check_sums,
        "recommendation._item_models",
        ("(0.5 * low + 0.5 * high)", "np.mean(np.clip(rows.values, low, high))"),
    ),
    "catalog from the data under a budget": (
        check_public,
        "recommendation._estimator",
        (
            "if self.items is None and not self._is_private():",
            "if self.items is None:",
        ),
    ),
    "unknown items counted in the norm": (
        check_rows_of_unknown_items,
        "recommendation._item_models",
        (
            "known = np.flatnonzero(rows.items >= 0)",
            "known, n = np.arange(len(rows.items)), self.n_items",
        ),
        (
            "rows.users[known], rows.items[known]",
            "rows.users, np.where(rows.items < 0, n, rows.items)",
        ),
        ("centered, self.n_items, self.max", "centered, n + 1, self.max"),
        (
            "ratings_per_user\n            )\n",
            "ratings_per_user\n            )[:n, :n]\n",
        ),
    ),
    "number of users shown": (
        check_public,
        "recommendation._item_embedding",
        (
            "            self.privacy_ = plan\n",
            "            self.privacy_ = plan\n"
            "            self.n_users_ = len(set(self._coded_ratings(*given).users))\n",
        ),
    ),
    "a warning that depends on ratings": (
        check_public,
        "recommendation._item_embedding",
        (
            "            if isinstance(statistic, ItemMoment):\n"
            "                found = statistic.run(",
            "            if isinstance(statistic, ItemMoment):\n"
            "                rows = self._coded_ratings(*given)\n"
            "                if (rows.items < 0).mean() > 0.5:\n"
            "                    __import__('warnings').warn('x', stacklevel=2)\n"
            "                found = statistic.run(",
        ),
    ),
}


test_a_planted_mistake_is_caught, test_an_unchanged_copy_passes = planted_mistakes(
    DPItemEmbedding, MODULES, CHECKS, MUTANTS
)
