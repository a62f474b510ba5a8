"""A user's vector has the same bits in any company: what exact sums rest on.

Rounding before the sum is worth nothing if other users' vectors change in their last
bits when one user joins. Every kernel is run on a user alone, and on the same user in
blocks of others, in any order, in any memory layout, in parts and in threads.
"""

import lrs_tools
import numpy as np
import pytest
from forked_python import run_tests_on
from lrs_tools import alike

from skdpspectral import LRSRegressor
from skdpspectral._linalg import per_user
from skdpspectral._linalg import per_user as _user_rows
from skdpspectral._linalg.per_user import combined_columns
from skdpspectral._statistics.user_sums import clip_contributions
from skdpspectral.linear_model import PrivateRounds, _kernels_lrs
from skdpspectral.linear_model import _kernels_lrs as _lrs_moments

LAYOUTS = ("rows", "columns", "ids first", "ids last", "ids between", "float32 copy")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 32, 33, 50, 64)
HEIGHTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 20, 31, 33, 60)


def some_user(rng, m, d):
    scale, noise = 10 ** rng.uniform(-3, 3, 2)
    # Numbers of single precision, so that one layout may hold them in 32 bits.
    rows = (scale * rng.standard_normal((m, d))).astype(np.float32)
    return rows.astype(float), noise * rng.standard_normal(m)


def some_company(rng, m, d):
    """Other users, half of them of the same height, some of them hostile."""
    heights = [m if rng.random() < 0.5 else int(rng.choice(HEIGHTS)) for _ in range(9)]
    users = [some_user(rng, height, d) for height in heights[: rng.integers(1, 10)]]
    if rng.random() < 0.5:
        users[0] = (np.full_like(users[0][0], 1e30), users[0][1] * 1e300)
    if rng.random() < 0.5:
        users[-1] = (np.zeros_like(users[-1][0]), users[-1][1])
    return users


def arranged(rng, users, layout, options):
    """All users' rows, each user's in their order, in one of several layouts."""
    codes = np.repeat(np.arange(len(users)), [len(y) for _, y in users])
    X, y = np.concatenate([u[0] for u in users]), np.concatenate([u[1] for u in users])
    if rng.random() < 0.5:
        # Users mixed, and each user's rows in their own order.
        mixed = rng.permutation(codes)
        order = np.empty(len(codes), dtype=int)
        for code in range(len(users)):
            order[mixed == code] = np.flatnonzero(codes == code)
        X, y, codes = X[order], y[order], mixed
    if layout == "columns":
        X = np.asfortranarray(X)
    elif layout == "float32 copy":
        X = X.astype(np.float32)
    elif layout.startswith("ids"):
        d = X.shape[1]
        place = {"ids first": 0, "ids last": d, "ids between": d // 2}[layout]
        X = np.delete(np.insert(X, place, codes, axis=1), place, axis=1)
    return per_user.GroupedRows(X, y, codes, len(users), **options)


def numbers_of(rows, code, rules, U):
    """All that the kernels compute of one user."""
    (block,) = [block for block in rows.blocks() if code in block.users]
    i = int(np.flatnonzero(block.users == code)[0])
    scores = _kernels_lrs.shared_scores(block, U)
    start = _kernels_lrs.start_moments(block)
    fit = _kernels_lrs.thresholding_pursuit(block, scores, rules, 10)
    cold = _kernels_lrs.cold_fit(block, scores, rules)
    parts = list(_kernels_lrs.user_moments(block, scores, fit))
    size = _kernels_lrs.n_curvature(len(U.T), len(U))
    joined = list(_kernels_lrs.user_moments(block, scores, fit, (3.0, 7.0)))
    arrays = {
        "start": start,
        "clipped start": clip_contributions(start.copy()),
        "moments": np.concatenate(parts),
        "norm of curvature": np.concatenate(
            [per_user.norms(part[:, :size]) for part in parts]
        ),
        "norm of gradient": np.concatenate(
            [per_user.norms(part[:, size:]) for part in parts]
        ),
        "clipped moments": np.concatenate(
            [clip_contributions(part) for part in joined]
        ),
        "squares": block.squares,
        **{f"pursuit {name}": value for name, value in fit._asdict().items()},
        **{f"cold {name}": value for name, value in cold._asdict().items()},
    }
    return {name: np.array(value[i]) for name, value in arrays.items()}


def compare(rng, d, m, rank, sparsity):
    """Compare a user alone with the same user in company, in every layout."""
    user, fixed = some_user(rng, m, d), rank == 1 and rng.random() < 0.3
    U = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    prior = np.full(rank, float(fixed))
    ridges = rng.choice([0.0, 10.0], 2)
    rules = _kernels_lrs.LocalRules(sparsity, *map(float, ridges), prior, fixed)
    if rng.random() < 0.25:  # all features of every user
        rules = _kernels_lrs.LocalRules(
            d, float(ridges[0]), 3.0, prior, fixed, free=True
        )
    scale = rng.uniform(0.5, 2.0, d) if rng.random() < 0.5 else None
    options = {"center": bool(rng.random() < 0.5), "scale": scale}
    if rng.random() < 0.5:
        options["level"] = rng.uniform(-3, 3), rng.uniform(0.1, 9.0)
    with np.errstate(all="ignore"):
        alone = arranged(rng, [user], "rows", options)
        expected = numbers_of(alone, 0, rules, U)
        for layout in LAYOUTS:
            users = some_company(rng, m, d)
            code = int(rng.integers(len(users) + 1))
            users.insert(code, user)
            if layout == "float32 copy":
                users = [(np.clip(X, -1e30, 1e30), y) for X, y in users]
            rows = arranged(rng, users, layout, options)
            found = numbers_of(rows, code, rules, U)
            for name, value in expected.items():
                message = f"{name}: d={d}, m={m}, rank={rank}, {layout}, {options}"
                np.testing.assert_array_equal(found[name], value, err_msg=message)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parts", ["usual", "small blocks", "one user a part"])
def test_a_user_has_the_same_bits_in_any_company(seed, parts, monkeypatch):
    if parts == "small blocks":
        monkeypatch.setattr(_user_rows, "_BLOCK_NUMBERS", 64)
    if parts == "one user a part":
        monkeypatch.setattr(_lrs_moments, "_PART_NUMBERS", 1)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        d, m = int(rng.choice(SIZES)), int(rng.choice(HEIGHTS))
        rank, sparsity = (int(min(d, rng.integers(6))) for _ in range(2))
        compare(rng, d, m, min(rank, 3 if d > 40 else 5), sparsity)


@pytest.mark.parametrize(("d", "m", "rank"), [(100, 12, 2), (150, 7, 1), (150, 60, 1)])
def test_a_user_has_the_same_bits_in_vectors_beyond_a_buffer(d, m, rank):
    assert _kernels_lrs.n_curvature(rank, d) > 8192
    compare(np.random.default_rng(d + m), d, m, rank, 5)


@pytest.mark.parametrize("width", [1, 3, 8, 13])
def test_vectors_are_clipped_where_users_lie_alike(width):
    """On boundaries of 64 bytes, by which kernels of a BLAS may begin otherwise."""
    rows = np.random.default_rng(0).standard_normal((5, width + 1))[:, 1:]
    found = clip_contributions(rows.copy())
    assert not found.ctypes.data % 64
    assert not found.strides[0] % 64
    for row, alone in zip(rows, found, strict=True):
        np.testing.assert_array_equal(clip_contributions(row[None].copy())[0], alone)


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_what_is_released_is_the_same_sum_in_any_parts(clip_norm, monkeypatch):
    """No user is left out, and none is summed twice."""
    X, y = lrs_tools.table(alike(23, 7, 4))
    solver = PrivateRounds(
        2, curvature_clip_norm=clip_norm, gradient_clip_norm=clip_norm
    )
    model = LRSRegressor(2, user_feature=0, solver=solver)
    with lrs_tools.scripted() as together:
        model.fit(X, y)
    assert all(np.any(sums) for sums in together.values())
    for users in (1, 5, 22):
        monkeypatch.setattr(_lrs_moments, "_PART_NUMBERS", users * 10)
        monkeypatch.setattr(_user_rows, "_BLOCK_NUMBERS", 28 * (users + 2))
        with lrs_tools.scripted() as in_parts:
            model.fit(X, y)
        assert list(in_parts) == list(together)
        for name, sums in together.items():
            np.testing.assert_array_equal(in_parts[name], sums, err_msg=name)


# -- what stays with a user ------------------------------------------------------------


def fitted_at(U, users, X, y, **parameters):
    """Fit every user beside the same U, as after releases that happen to be equal."""
    with lrs_tools.scripted():
        model = LRSRegressor(len(U), solver=PrivateRounds(1, init=U), **parameters)
        return model.fit(X, y, users=users)


def own_numbers(model, user, X):
    """All that a user is shown."""
    return {
        "coefficients": model.get_coef(user),
        "intercept": model.get_intercept(user),
        "predictions": model.predict(X, users=[user] * len(X)),
        "last prediction": model.predict(X[-1:], users=[user])[0],
    }


OWN_LAYOUTS = {
    "rows": lambda X: X,
    "columns": np.asfortranarray,
    "single precision": lambda X: X.astype(np.float32),
    "every other": lambda X: np.repeat(X, 2, axis=0)[::2],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore")
def test_what_stays_with_a_user_has_the_same_bits_in_any_company(seed):
    """By the last bits of others' intercepts one could say who took part."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        d, m = int(rng.choice([1, 2, 5, 8, 10, 20, 33])), int(rng.choice(HEIGHTS))
        rank = int(rng.integers(1, min(d, 4) + 1))
        parameters = {
            "sparsity": int(rng.integers(0, min(d, 11) + 1)),
            "n_jobs": [None, 2][rng.integers(2)],
        }
        U = np.linalg.qr(rng.standard_normal((d, rank)))[0].T
        own_X, own_y = some_user(rng, m, d)
        alone = fitted_at(U, ["me"] * m, own_X, own_y, **parameters)
        expected = own_numbers(alone, "me", own_X)
        for layout, arrange in OWN_LAYOUTS.items():
            heights = rng.integers(1, 30, rng.integers(1, 48))
            others = [some_user(rng, h, d) for h in heights]
            ids = np.repeat([f"user {i}" for i in range(len(others))], heights)
            place = int(rng.integers(len(ids) + 1))
            users = np.insert(ids.astype(object), place, ["me"] * m)
            X = np.insert(np.concatenate([x for x, _ in others]), place, own_X, axis=0)
            y = np.insert(np.concatenate([t for _, t in others]), place, own_y)
            model = fitted_at(U, users, arrange(X), y, **parameters)
            np.testing.assert_array_equal(model.components_, alone.components_)
            found = own_numbers(model, "me", own_X)
            found["predictions"] = model.predict(arrange(X), users=users)[users == "me"]
            # The only user's model, made from their rows alone.
            model.personalize(own_X, own_y, user="me")
            again = own_numbers(model, "me", own_X)
            for name, value in expected.items():
                message = f"{name}: d={d}, m={m}, rank={rank}, {layout}, {parameters}"
                np.testing.assert_array_equal(found[name], value, err_msg=message)
                np.testing.assert_array_equal(again[name], value, err_msg=message)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["Prescott", "Nehalem", "Haswell"])
def test_bits_do_not_depend_on_the_place_in_memory(kernels):
    """Older kernels of OpenBLAS start vectors otherwise that do not lie on 16 bytes."""
    run_tests_on(kernels, __file__, "usual-0 or company-2")


def test_columns_are_combined_alike_wherever_a_row_stands():
    rng = np.random.default_rng(0)
    X, C = rng.standard_normal((1500, 33)), rng.standard_normal((33, 3))
    together = combined_columns(X, C)
    np.testing.assert_allclose(together, (X @ C).T, rtol=1e-12, atol=1e-12)
    for i in (0, 1, 700, 1498, 1499):
        np.testing.assert_array_equal(
            combined_columns(X[i : i + 1], C)[:, 0], together[:, i]
        )
