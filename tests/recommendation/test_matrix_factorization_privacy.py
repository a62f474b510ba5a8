"""Privacy of DPMatrixFactorization for users: exact checks, and planted mistakes.

The checks are functions of a class, so that each planted mistake, an edit of the
source that is run in this process, must fail the check that is to catch it.
"""

import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from item_tools import CANARY, exact_answers, table
from lrs_tools import scripted
from ratings_privacy import (
    HOSTILE,
    check_nothing_else_is_seen,
    ordinary,
    planted_mistakes,
)

from skdpspectral import DPMatrixFactorization
from skdpspectral.recommendation._kernels import STEP

pytestmark = [pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")]
FEATURES = np.array([[1.0, 0], [0, 1], [1, 1], [0, 0], [0.5, 0]])
RELEASES = ["offsets", "residuals", "factors"]
OF_CLICKS = ["clicks", "pairs"]

# Ratings of one user, of items 0 to 4 of the catalog and of others.
HOSTILE = HOSTILE | {
    "near the middle": [(j, 3.0 + (-1) ** j * 4e-16) for j in range(4)],
    "both ends": [(j, 1.0 + 4.0 * (j % 2)) for j in range(5)],
}
SETTINGS = {
    "features": {"items": range(5), "item_features": FEATURES},
    "no features": {"items": range(5)},
    "no factors": {"items": range(5), "item_features": FEATURES, "n_components": 0},
    "wide range": {"items": range(5), "rating_range": (-10, 10)},
    "tiny range": {"items": range(5), "rating_range": (0, 1e-300)},
    "threads": {"items": range(5), "n_jobs": 2},
    "few clicks": {"items": range(5), "item_features": FEATURES, "implicit": True},
    # With so large a budget pairs are asked for, however few users are released.
    "clicks": {
        "items": range(5),
        "item_features": FEATURES,
        "implicit": True,
        "epsilon": 1e5,
    },
    "popularity": {"items": range(5), "n_components": 0, "implicit": True},
}


def releases_of(parameters):
    return OF_CLICKS if parameters.get("implicit") else RELEASES


# -- checks of a class -----------------------------------------------------------------


def check_sums(cls):
    """Whoever joins moves every sum by a vector of their own, of norm at most one.

    Releases are scripted, so that every round is asked with the same past; all
    numbers are whole steps, far below 2**52.
    """
    base = ordinary()
    for setting, parameters in SETTINGS.items():
        before = exact_answers(cls, base, **parameters)
        for what, rated in HOSTILE.items():
            alone = exact_answers(cls, {CANARY: rated}, **parameters)
            where = f"{setting}, {what}"
            assert list(alone) == releases_of(parameters)[: len(alone)], where
            for name, answer in alone.items():
                check_answer(answer, where, name)
            for users, seed in (
                (base | {CANARY: rated}, None),
                ({CANARY: rated} | base, 1),
            ):
                together = exact_answers(cls, users, seed, **parameters)
                for name, answer in alone.items():
                    change = together[name] - before[name]
                    assert np.array_equal(change, answer), (where, name)


def check_answer(answer, where, name):
    """Whole steps of a norm of at most one, exactly; of pairs half of each."""
    halves = 2.0 * answer.ravel() / STEP
    steps = halves if name == "pairs" else 0.5 * halves
    assert np.array_equal(steps, np.rint(steps)), where
    square = (2 if name == "pairs" else 1) * round(1 / STEP) ** 2
    assert sum(int(step) ** 2 for step in steps) <= square, where


def check_last_rating(cls):
    """Of several ratings of an item the last one alone counts."""
    once = {0: [(1, 2.0), (0, 5.0)]}
    twice = {0: [(0, 1.0), (0, 4.0), (1, 2.0), (0, 5.0)]}
    for setting in ("features", "clicks"):
        parameters = SETTINGS[setting]
        found = [exact_answers(cls, users, **parameters) for users in (once, twice)]
        for name in releases_of(parameters):
            assert np.array_equal(found[0][name], found[1][name])


def check_features(cls):
    """With sums held fixed, what users' models rest on does not know their ratings."""
    for setting in ("features", "clicks"):
        found = []
        for seed in range(3):
            with scripted():
                model = cls(**{"rating_range": (1, 5), **SETTINGS[setting]}).fit(
                    *table(ordinary(seed=seed))
                )
            parts = [model.item_factors_, model.ridge_, model.item_popularity_]
            found.append(joblib.hash([*parts, getattr(model, "level_", None)]))
        assert len(set(found)) == 1


def seen(cls, users, seed=None, **parameters):
    """Everything that a fit shows: warnings, attributes, copies, files, outputs."""
    X, y = table(users, seed)
    with scripted(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = cls(**{"rating_range": (1, 5), **parameters}).fit(X, y)
    published = model.publish()
    state = {k: v for k, v in vars(model).items() if k not in parameters}
    state.pop("_personal")
    stranger = np.array([["somebody", 1], ["else", 3]], dtype=object)
    lists = published.recommend(["somebody"], 3)
    return {
        "warnings": [(w.category, str(w.message)) for w in caught],
        "attributes": joblib.hash(state),
        "published": joblib.hash(vars(published)),
        "plan": (str(model.privacy_), model.privacy_.to_json()),
        "text": repr(model),
        "output": published.predict(stranger).tolist(),
        "lists": joblib.hash(lists),
    }


def check_public(cls):
    """With the releases held fixed, nothing else depends on the data."""
    check_nothing_else_is_seen(partial(seen, cls), [*SETTINGS.values()], HOSTILE)


def check_own_bits(cls):
    """A user's model and lists have the same bits alone and among others."""
    for turn, rated in enumerate(HOSTILE.values()):
        setting = SETTINGS[("features", "clicks")[turn % 2]]
        found = []
        for users in ({CANARY: rated}, ordinary(t=300, n=9) | {CANARY: rated}):
            with scripted():
                model = cls(**{"rating_range": (1, 5), **setting}).fit(*table(users, 3))
            models = model._personal
            weights = models.weights[models.find([CANARY], "users")]
            rows = np.array([[CANARY, j] for j in range(7)])
            ids = [CANARY] if len(found) == 0 else [*range(300), CANARY]
            best, scores = model.recommend(ids, 4)
            found.append((weights, model.predict(rows), best[-1], scores[-1]))
        assert joblib.hash(found[0]) == joblib.hash(found[1])


CHECKS = [check_sums, check_last_rating, check_features, check_public, check_own_bits]


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("check", CHECKS)
def test_the_estimator_passes(check):
    check(DPMatrixFactorization)


def test_random_users_move_the_sums_by_at_most_one():
    """Brute force over users of all sizes; the bounds are nearly attained."""
    rng = np.random.default_rng(0)
    largest = dict.fromkeys([*RELEASES, *OF_CLICKS], 0.0)
    for trial in range(200):
        n = int(rng.integers(1, 40))
        values = rng.uniform(0, 6, n) if trial % 2 else rng.choice([1.0, 5.0], n)
        rated = list(
            zip(rng.integers(12, size=n).tolist(), values.tolist(), strict=True)
        )
        parameters = {"items": range(10), "n_components": int(rng.integers(4))}
        parameters["implicit"] = trial % 5 == 0
        parameters["epsilon"] = 1e5 if trial % 10 == 0 else 1.0
        if trial % 3:
            parameters["item_features"] = rng.standard_normal((10, 3))
        X, y = table({CANARY: rated})
        with scripted(trial) as asked:
            DPMatrixFactorization(**{"rating_range": (1, 5), **parameters}).fit(X, y)
        for name, answer in asked.items():
            check_answer(answer, (trial, name), name)
            largest[name] = max(largest[name], float(np.linalg.norm(answer)))
    assert largest.pop("offsets") > 0.99
    assert largest.pop("pairs") > 0.705
    assert min(largest.values()) > 0.998


def test_the_plan_needs_no_data_and_holds_for_any_number_of_users():
    model = DPMatrixFactorization(**SETTINGS["features"], rating_range=(1, 5))
    plans = {model.fit(*table(ordinary(t))).privacy_.to_json() for t in (1, 6, 300)}
    assert plans == {model.privacy_plan(5).to_json()}
    for release in model.privacy_.mechanisms:
        assert (release.sensitivity, release.summation_error) == (1.0, 0.0)
        # Sums are whole steps, so that rounding them to the grid is all it costs.
        assert release.magnitude == 2.0**31
    assert [m.name for m in model.privacy_.mechanisms] == RELEASES
    assert (model.privacy_.unit, model.privacy_.neighbors) == ("user", "add-remove-one")
    assert model.privacy_.epsilon == 1.0
    assert np.hypot.reduce([m.mu for m in model.privacy_.mechanisms]) == pytest.approx(
        model.privacy_.mu, rel=1e-9
    )


# -- planted mistakes ------------------------------------------------------------------

MODULES = (
    "recommendation._kernels",
    "recommendation._item_models",
    "recommendation._ratings",
    "recommendation._estimators",
)

ANSWERS = "recommendation._kernels"
MODEL = "recommendation._item_models"
MUTANTS = {
    "each rating clipped, and no user": (
        check_sums,
        ANSWERS,
        (
            "np.maximum(np.sqrt(self.totals(values * values)), _SHORTEST)",
            "np.ones(len(self))",
        ),
    ),
    "counts and sums of norm one each, charged once": (
        check_sums,
        ANSWERS,
        (
            "    own = weights[block.of_user]\n",
            "    own = np.sqrt(1.0 / block.counts)[block.of_user]\n",
        ),
    ),
    "numbers about a user beside a whole vector": (
        check_sums,
        ANSWERS,
        ("SHARE_BESIDE_ONE = 0.992", "SHARE_BESIDE_ONE = 1.0"),
    ),
    "tastes not scaled": (
        check_sums,
        ANSWERS,
        ("unit * (taste / lengths)", "unit * (2.0 * taste / lengths)"),
    ),
    "no rounding to steps": (
        check_sums,
        ANSWERS,
        ("    return np.trunc(values / STEP)", "    return values / STEP"),
    ),
    "a second rating of an item counted": (
        check_last_rating,
        ANSWERS,
        ("        last[:-1] = found[1:] != found[:-1]\n", ""),
    ),
    "the last rating of a user dropped for the next user's first": (
        check_sums,
        ANSWERS,
        ("        last[ends[1:][ends[1:] > 0] - 1] = True", "        pass"),
    ),
    "a click of norm one each": (
        check_sums,
        ANSWERS,
        (
            "SHARE_BESIDE_ONE / np.sqrt(np.maximum(block.counts, 1.0))",
            "SHARE_BESIDE_ONE / np.maximum(block.counts, 1.0) ** 0.0",
        ),
    ),
    "popularity not projected out": (
        check_sums,
        ANSWERS,
        ("        left -= along[part, None] * popularity\n", ""),
    ),
    "squares of users kept beside their pairs": (
        check_sums,
        ANSWERS,
        ("    np.fill_diagonal(total, 0.0)  # squares are left out\n", ""),
    ),
    "head by the exact number of users": (
        check_sums,
        MODEL,
        ("n_head = found.head_size(self.most_head)", "n_head = 2 + rows.n_users % 3"),
    ),
    "head by the exact counts": (
        check_sums,
        MODEL,
        (
            "                how = {",
            "                exact = np.bincount(rows.items, minlength=p)\n"
            "                head = np.argsort(-exact, kind='stable')\n"
            "                how = {",
        ),
    ),
    "direction of popularity by the exact counts": (
        check_sums,
        MODEL,
        (
            "                ask = partial(_kernels.pair",
            "                exact = np.bincount(rows.items, minlength=p)[head] + 1.0\n"
            "                how['popularity'] = exact / np.linalg.norm(exact)\n"
            "                ask = partial(_kernels.pair",
        ),
    ),
    "shares of clicks by the exact counts": (
        check_features,
        MODEL,
        (
            "        return found.items(self._columns(found), factors)",
            "        found.total[:-1] = np.bincount(rows.items, minlength=p)\n"
            "        return found.items(self._columns(found), factors)",
        ),
    ),
    "users of clicks measured from each other": (
        check_own_bits,
        ANSWERS,
        (
            "    return _bounded(sums / (block.counts",
            "    sums -= 1e-9 * sums.mean(axis=0)\n"
            "    return _bounded(sums / (block.counts",
        ),
    ),
    "features fitted on ratings": (
        check_features,
        MODEL,
        (
            "tastes = _kernels.principal_columns(columns, found.counts)",
            "rated = np.bincount(rows.items, minlength=len(columns)) + 1.0\n"
            "        tastes = _kernels.principal_columns(columns, rated)",
        ),
    ),
    "residuals of the second round from others' ratings": (
        check_sums,
        MODEL,
        (
            "clip_residuals(model.residuals(block, weights)), weights",
            "clip_residuals(\n"
            "        (left := model.residuals(block, weights)) - left.mean()), weights",
        ),
    ),
    "users' means drawn to that of all": (
        check_sums,
        ANSWERS,
        (
            "means = block.totals(block.values) /",
            "means = (block.totals(block.values) + block.values.sum()) /",
        ),
    ),
    "penalties from the number of users": (
        check_sums,
        ANSWERS,
        ("+= model.ridge[:, None]", "+= model.ridge[:, None] + len(block)"),
    ),
    "exact sums in place of the released": (
        check_public,
        MODEL,
        (
            "        total = release(self.name, total, overwrite=True)\n",
            "        release(self.name, total)\n",
        ),
    ),
    "the exact number of users": (
        check_public,
        MODEL,
        (
            "        step(1)\n        found = ItemOffsets(first, columns)",
            "        step(1)\n        first.total[-3] = rows.n_users / 8\n"
            "        found = ItemOffsets(first, columns)",
        ),
    ),
    "products over all users": (
        check_own_bits,
        ANSWERS,
        (
            "weights[part] = solved.T",
            "weights[part] = solved.T * (1.0 + 1e-15 * len(block))",
        ),
    ),
    "users' models published": (
        check_public,
        "recommendation._estimators",
        (
            "    self._personal = self._fitted_users(rows, index)\n"
            "        self.privacy_",
            "    self.models_ = self._personal = self._fitted_users(rows, index)\n"
            "        self.privacy_",
        ),
    ),
}

test_a_planted_mistake_is_caught, test_an_unchanged_copy_passes = planted_mistakes(
    DPMatrixFactorization, MODULES, CHECKS, MUTANTS
)
