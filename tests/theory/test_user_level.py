"""Sums over users: packing, sensitivities, exact integer sums, votes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from release_tools import Release

from skdpspectral._linalg import per_user
from skdpspectral._tables.clipping import clip_rows
from skdpspectral.accounting import (
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from skdpspectral.linear_model import _kernels_shared
from skdpspectral.mechanisms import Gaussian, Neighbors, PrivacyPlan
from skdpspectral.sensitivity import (
    joint_moment_ratio,
    projector_sum_sensitivity,
    sum_sensitivity,
    vote_sensitivity,
)

RELATIONS = ("add-remove-one", "replace-one")
UNIT = Fraction(1, 2**53)  # unit roundoff


# -- the function ----------------------------------------------------------------------


@pytest.mark.parametrize("clip_norm", [0.5, 1.0, 3e7])
def test_sum_sensitivity_is_a_radius_or_a_diameter(clip_norm):
    for relation in RELATIONS:
        both = {sum_sensitivity(clip_norm, r) for r in (relation, Neighbors(relation))}
        assert both == {clip_norm * (1 + (relation == "replace-one"))}


@pytest.mark.parametrize("relation", ["zero-out-one", Neighbors.ZERO_OUT_ONE, "row", 2])
def test_other_relations_are_refused(relation):
    with pytest.raises(ValueError, match=r"neighbors must be|not a valid Neighbors"):
        sum_sensitivity(1.0, relation)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_must_be_positive_and_finite(clip_norm):
    with pytest.raises(ValueError, match="clip_norm"):
        sum_sensitivity(clip_norm, "replace-one")


# -- packed products -------------------------------------------------------------------


def pack(matrix):
    rows, columns = np.triu_indices(len(matrix))
    return np.where(rows == columns, 1.0, math.sqrt(2)) * matrix[rows, columns]


def basis(order):
    """Symmetric matrices that are packed to the unit vectors."""
    out = np.zeros((order * (order + 1) // 2, order, order))
    for matrix, i, j in zip(out, *np.triu_indices(order), strict=True):
        matrix[i, j] = matrix[j, i] = 1.0 if i == j else math.sqrt(0.5)
    return out


def unpacking(r, d):
    """Matrices of Sym(r) (x) Sym(d) that are packed to the unit vectors, in order."""
    return np.array([np.kron(E, F) for E in basis(r) for F in basis(d)])


def symmetric(rng, order):
    matrix = rng.standard_normal((order, order))
    return matrix + matrix.T


SHAPES = [(1, 1), (1, 4), (2, 1), (2, 3), (3, 4)]


@pytest.mark.parametrize(("r", "d"), SHAPES)
def test_packing_is_an_isometry_of_kronecker_products(r, d):
    rng = np.random.default_rng(r + 10 * d)
    for _ in range(50):
        W, W1, G, G1 = (symmetric(rng, order) for order in (r, r, d, d))
        left = np.kron(pack(W), pack(G)) @ np.kron(pack(W1), pack(G1))
        np.testing.assert_allclose(pack(W) @ pack(W1), np.sum(W * W1), rtol=1e-12)
        np.testing.assert_allclose(
            left, np.sum(np.kron(W, G) * np.kron(W1, G1)), rtol=1e-10
        )
        w = rng.standard_normal(r)
        norm = np.linalg.norm(np.kron(pack(np.outer(w, w)), pack(G)))
        assert norm == pytest.approx(w @ w * np.linalg.norm(G))


@pytest.mark.parametrize(("r", "d"), SHAPES)
def test_packed_coordinates_are_orthonormal_and_lose_nothing(r, d):
    """P is a projection with orthonormal rows, and knows every W (x) G."""
    matrices = unpacking(r, d)
    size = r * (r + 1) * d * (d + 1) // 4
    P = matrices.reshape(len(matrices), -1)
    assert P.shape == (size, (d * r) ** 2)
    np.testing.assert_allclose(P @ P.T, np.eye(size), atol=1e-14)
    rng = np.random.default_rng(0)
    W, G = symmetric(rng, r), symmetric(rng, d)
    product = np.kron(W, G)
    np.testing.assert_allclose(P @ product.ravel(), np.kron(pack(W), pack(G)))
    np.testing.assert_allclose(P.T @ (P @ product.ravel()), product.ravel())
    # Projected noise of independent entries: the variances of the lemma.
    variances = np.sum(matrices**2, axis=0)
    a, i = np.divmod(np.arange(r * d), d)
    exponent = (a[:, None] != a).astype(int) + (i[:, None] != i)
    np.testing.assert_allclose(variances, 0.5**exponent)
    second = np.einsum("kij,kjl->il", matrices, matrices)
    np.testing.assert_allclose(
        second, (r + 1) * (d + 1) / 4 * np.eye(r * d), atol=1e-13
    )


def test_released_noise_has_variances_1_half_and_quarter():
    """Chi-square tests on what a Gaussian mechanism releases; false alarms 6e-6.

    The rarest class has 48,000 independent numbers: noise that is 5 % off is 15
    standard errors away.
    """
    from scipy.stats import chi2

    r, d, repeats = 3, 4, 4000
    matrices = unpacking(r, d)
    mechanism = calibrate_gaussian("sum", 1.0, 0.5, (repeats, len(matrices)))
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
    packed = Release(plan, None, 0)("sum", np.zeros(mechanism.shape))
    noise = np.einsum("nk,kij->nij", packed, matrices)
    a, i = np.divmod(np.arange(r * d), d)
    off = (a[:, None] != a).astype(int) + (i[:, None] != i)
    # One of each set of entries that share a number.
    first = (a[:, None] <= a) & (i[:, None] <= i)
    for exponent, variance in enumerate((1.0, 0.5, 0.25)):
        sample = noise[:, first & (off == exponent)]
        total = np.sum(sample**2) / (variance * mechanism.noise_std**2)
        assert sample.size >= 48_000
        assert chi2.ppf(1e-6, sample.size) < total < chi2.ppf(1 - 1e-6, sample.size)


# -- sums over users -------------------------------------------------------------------


def local_vectors(rows, transcript, clip_norm):
    """Vectors of a user who keeps a state and takes decisions: one a release."""
    state, out = np.ones(rows.shape[1]), []
    for released in [np.zeros(rows.shape[1]), *transcript]:
        state = np.tanh(rows.T @ (rows @ (state + released)))
        if state[0] > 0.3 or len(rows) == 2:
            state = state[::-1] - 2.0 * released
        vector = 100.0 * state if rows[0, 0] > 0 else -100.0 * state
        out.append(clip_rows(vector[None], clip_norm)[0])
    return np.array(out)


def sums_of(users, transcript, clip_norm):
    """The sums of all releases, given what was released."""
    return sum(local_vectors(rows, transcript, clip_norm) for rows in users)


@pytest.mark.parametrize("clip_norm", [1.0, 0.25])
def test_adaptive_sums_move_by_their_sensitivity_and_no_further(clip_norm):
    """Given one transcript, every step's sums on neighbors; 1 % less would fail."""
    rng = np.random.default_rng(0)
    largest = dict.fromkeys(RELATIONS, 0.0)
    for _ in range(300):
        transcript = 3 * rng.standard_normal((3, 2))
        users = [rng.standard_normal((rng.integers(1, 4), 2)) for _ in range(5)]
        total = sums_of(users[:-1], transcript, clip_norm)
        neighbors = (users[1:-1], users[1:])
        for relation, others in zip(RELATIONS, neighbors, strict=True):
            moved = sums_of(others, transcript, clip_norm) - total
            moved = np.linalg.norm(moved, axis=1).max()
            assert moved <= sum_sensitivity(clip_norm, relation) * (1 + 1e-12)
            largest[relation] = max(largest[relation], moved)
    for relation in RELATIONS:
        assert largest[relation] >= 0.995 * sum_sensitivity(clip_norm, relation)


def ridge_contribution(row, response, ridge=1.0):
    """The fit's vector of one row, with U = e_1, w by ridge regression, and b = 0."""
    weight = row[0] * response / (row[0] ** 2 + ridge)
    linear = row * response * weight
    vector = np.concatenate([weight**2 * pack(np.outer(row, row)), linear])
    return clip_rows(vector[None], 1.0)[0]


def test_the_fit_itself_approaches_twice_the_bound():
    """Two users whose second feature has opposite signs, as in the proof."""
    alpha, tau, response = 0.01, 1e-4, 1e12
    one = ridge_contribution(tau * np.array([alpha, 1.0]), response)
    other = ridge_contribution(tau * np.array([alpha, -1.0]), response)
    apart = np.linalg.norm(one - other)
    assert apart <= sum_sensitivity(1.0, "replace-one") * (1 + 1e-12)
    assert apart == pytest.approx(2 / math.sqrt(1 + alpha**2), rel=1e-7)
    assert apart >= 0.999 * sum_sensitivity(1.0, "replace-one")
    joins = np.linalg.norm(one)
    assert joins == pytest.approx(sum_sensitivity(1.0, "add-remove-one"), rel=1e-12)


# -- one factor for both parts ---------------------------------------------------------


def clip_apart(curvature, linear):
    scale = max(1.0, np.linalg.norm(curvature))
    return curvature / scale, linear / max(1.0, np.linalg.norm(linear))


def squared_distance(one, other):
    return sum(np.sum((a - b) ** 2) for a, b in zip(one, other, strict=True))


def test_clipping_together_spares_what_clipping_apart_spares():
    rng = np.random.default_rng(0)
    pairs = rng.standard_normal((500, 2, 4))
    pairs /= np.linalg.norm(pairs, axis=2, keepdims=True)
    pairs *= np.maximum(rng.random((500, 2, 1)), rng.random((500, 2, 1)) < 0.5)
    rows = (1 - 1e-15) * pairs.reshape(500, 8)
    np.testing.assert_array_equal(clip_rows(rows, math.sqrt(2)), rows)
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() == pytest.approx(math.sqrt(2))
    assert norms.max() > 1.4 * sum_sensitivity(1.0, "add-remove-one")


def test_a_common_factor_does_not_bias_the_solution():
    def solution(parts):
        curvature, linear = (sum(part) for part in zip(*parts, strict=True))
        return np.linalg.solve(curvature, linear)

    rng = np.random.default_rng(0)
    truth, together, apart = np.array([1.0, -2.0, 4.0]), [], []
    for _ in range(200):
        X = rng.standard_normal((4, 3)) * rng.choice([0.2, 3.0])
        curvature = X.T @ X
        linear = curvature @ truth
        norm = math.hypot(np.linalg.norm(curvature), np.linalg.norm(linear))
        factor = min(1.0, 1.0 / norm)
        together.append((factor * curvature, factor * linear))
        apart.append(clip_apart(curvature, linear))
    np.testing.assert_allclose(solution(together), truth, rtol=1e-10)
    assert np.linalg.norm(solution(apart) - truth) > 1.0
    one = clip_apart(np.array([[1.0]]), np.array([4.0]))
    two = clip_apart(np.array([[0.1]]), np.array([0.4]))
    assert solution([one, two])[0] == pytest.approx(1.4 / 1.1)


# -- what the paper prints -------------------------------------------------------------


def row_level_pair(X, residuals, w):
    """A user's two matrices in units of the printed sensitivities, one row or more."""
    curvature = np.kron(np.outer(w, w), X.T @ X) / len(X)
    return curvature, X.T @ np.outer(residuals, w) / len(X)


def random_user(rng, m, d, r):
    """Row-clipped user at, or inside, all bounds."""
    X = rng.standard_normal((m, d))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), rng.choice([0.0, 1.0]))
    w = rng.standard_normal(r)
    return row_level_pair(X, rng.choice([-1.0, 1.0], m), w / np.linalg.norm(w))


@pytest.mark.parametrize(("m", "d", "r"), [(1, 1, 1), (1, 2, 1), (2, 2, 1), (2, 3, 2)])
def test_row_level_clips_move_both_matrices_by_the_joint_moments_bound(m, d, r):
    rng = np.random.default_rng(0)
    bound = joint_moment_ratio(1.0, d * r)
    users = [random_user(rng, m, d, r) for _ in range(120)]
    largest = max(squared_distance(a, b) for a in users for b in users)
    assert largest <= bound * (1 + 1e-12)
    one, other = np.zeros((2, m, d))
    one[:, 0] = 1.0
    other[:, 0] = -0.5 if d > 1 else -1.0
    if d > 1:
        other[:, 1] = math.sqrt(0.75)
    w = np.eye(r)[0]
    pairs = [row_level_pair(X, np.ones(m), w) for X in (one, other)]
    assert squared_distance(*pairs) == pytest.approx(bound, rel=1e-12)


def test_printed_noise_is_for_a_smaller_distance():
    """1.5 times with row-level clips, sqrt(3) with clipped matrices."""
    assert joint_moment_ratio(1.0, 2) == 4.5
    assert math.sqrt(4.5 / 2) == 1.5
    w, tau = np.array([1.0]), 1e-3
    short = tau * np.ones(2)
    one, other = (
        clip_apart(*row_level_pair(2 * np.array([unit, short]), [0.0, e / tau**2], w))
        for unit, e in (([1.0, 0.0], 1.0), ([0.0, 1.0], -1.0))
    )
    assert 6 * 0.999 < squared_distance(one, other) < 6
    for parts in (one, other):
        squares = sum(np.sum(part**2) for part in parts)
        assert math.sqrt(squares) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("delta", "true", "excess"),
    [
        (1e-5, [0.348, 0.725, 1.489, 2.995, 5.844], [1.39, 1.34, 1.30, 1.29, 1.30]),
        (1e-6, [0.369, 0.761, 1.553, 3.115, 6.086], [1.33, 1.29, 1.26, 1.25, 1.26]),
    ],
)
def test_figures_of_theorem_2(delta, true, excess):
    for epsilon, real, ratio in zip((0.5, 1, 2, 4, 8), true, excess, strict=True):
        log = math.log(1 / delta)
        mu = math.sqrt(2) * epsilon / (2 * math.sqrt(log + epsilon))
        assert gaussian_epsilon(mu, delta) == pytest.approx(real, abs=6e-4)
        assert gaussian_mu(epsilon, delta) / mu == pytest.approx(ratio, abs=6e-3)
        simple = math.sqrt(2) * epsilon / math.sqrt(8 * log)
        assert 1.40 < gaussian_mu(epsilon, delta) / simple < 1.94


def test_figures_of_replacement_and_of_theorem_3():
    delta, sigma = 1e-5, 2 * math.sqrt(math.log(1e5) + 1)
    mu = math.sqrt(2) / sigma
    assert gaussian_epsilon(1.5 * mu, delta) == pytest.approx(1.131, abs=6e-4)
    assert gaussian_epsilon(math.sqrt(3) * mu, delta) == pytest.approx(1.326, abs=6e-4)
    assert gaussian_epsilon(2 * mu, delta) == pytest.approx(1.554, abs=6e-4)
    assert gaussian_delta(2 * mu, 1.0) == pytest.approx(1.3e-3, rel=0.01)


# -- integer sums ----------------------------------------------------------------------


def rounded(contributions, grid):
    return grid * np.rint(contributions / grid)


def exact_sum(contributions):
    return [sum(map(Fraction, column), Fraction(0)) for column in contributions.T]


def exact_norm_is_at_most(vector, bound):
    return sum(Fraction(v) ** 2 for v in vector) <= bound**2


@pytest.mark.parametrize("grid", [2.0**-19, 2.0**-7, 1.0])
def test_rounded_contributions_add_up_exactly_in_any_order(grid):
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((700, 9)) * 10 ** rng.uniform(-4, 1, (700, 1))
    raw = clip_rows(raw, 1.0)
    steps = rounded(raw, grid)
    exact = exact_sum(steps)
    orders = [np.arange(700), np.arange(700)[::-1], rng.permutation(700)]
    sums = [np.add.reduce(steps[order], axis=0) for order in orders]
    sums += [np.cumsum(steps[order], axis=0)[-1] for order in orders]
    sums += [np.ones(700) @ steps, np.einsum("ij->j", steps)]
    sums += [steps[:123].sum(axis=0) + steps[123:].sum(axis=0)]
    for total in sums:
        assert [Fraction(value) for value in total] == exact
    # Floats that are not rounded first do not do that.
    forwards, backwards = np.cumsum(raw, axis=0)[-1], np.cumsum(raw[::-1], axis=0)[-1]
    assert np.any(forwards != backwards)
    # A user who leaves takes away their rounded vector, to the last bit.
    left = np.add.reduce(np.delete(steps, 5, axis=0), axis=0)
    np.testing.assert_array_equal(sums[0] - left, steps[5])


def test_sums_are_exact_up_to_their_limit_and_not_beyond():
    """Moduli that add up to 2^51 steps; above 2^53 integers are lost."""
    rng = np.random.default_rng(0)
    grid = 2.0**-19
    integers = rng.integers(-(2**40), 2**40, 2**11)
    integers[-1] = 2**51 - int(np.abs(integers[:-1]).sum())
    steps = grid * integers.astype(float)
    assert np.abs(steps).sum() / grid == 2**51
    for order in (slice(None), slice(None, None, -1), rng.permutation(2**11)):
        assert int(np.cumsum(steps[order])[-1] / grid) == int(integers.sum())
    assert (grid * 2.0**53 + grid) / grid == 2.0**53


@pytest.mark.parametrize("noise_std", [0.5, 11.0, 1e4, 1e9])
@pytest.mark.parametrize("size", [16, 1225, 40_000])
@pytest.mark.parametrize("relation", RELATIONS)
def test_grid_and_charge_hold_for_four_billion_users(relation, size, noise_std):
    """In exact arithmetic, a mechanism charges no less than what can happen."""
    clip_norm, root = 1.0, math.isqrt(size)
    sensitivity = sum_sensitivity(clip_norm, relation)

    def mechanism(error):
        return Gaussian(
            "sum",
            sensitivity,
            noise_std,
            (size,),
            summation_error=error,
            magnitude=2.0**32,
        )

    grid = mechanism(0.0).grid
    assert grid >= 2.0**-19
    assert 2.0**32 / grid <= 2.0**51
    assert 16 * 2.0**-53 < grid <= 1.0
    # Clipping may exceed the norm by 8 units, rounding does not exceed 1.
    np.testing.assert_array_equal(rounded(np.array([1 + 2.0**-50, 1.0]), grid), 1.0)
    rounding = Fraction(grid) * root
    change = Fraction(sensitivity) * (1 + 8 * UNIT)
    change += rounding if relation == "replace-one" else rounding / 2
    assert grid * root <= clip_norm
    assert Fraction(mechanism(8 * 2.0**-52).charged_sensitivity) >= change
    least = 4 * 2.0**-52 if relation == "replace-one" else 0.0
    assert Fraction(sensitivity) + 2 * Fraction(least) + rounding >= change
    if relation == "replace-one":
        assert Fraction(mechanism(0.0).charged_sensitivity) < change


@pytest.mark.parametrize("size", [16, 1225])
def test_rounding_terms_are_bounds_and_cannot_be_lowered(size):
    """Random vectors stay below; all entries just above half a step attain them."""
    root, grid = math.isqrt(size), 2.0**-9
    rng = np.random.default_rng(0)
    for radius in (0.01, 1.0):
        for _ in range(30):
            pair = clip_rows(rng.standard_normal((2, size)), radius)
            one, other = rounded(pair, grid)
            bound = Fraction(radius) * (1 + 8 * UNIT) + Fraction(grid) * root / 2
            assert exact_norm_is_at_most(one, bound)
            assert exact_norm_is_at_most(one - other, 2 * bound)
    vector = np.full(size, np.nextafter(grid / 2, 1.0))
    radius = float(np.linalg.norm(vector))
    joins = rounded(vector, grid)
    changes = joins - rounded(-vector, grid)
    assert np.linalg.norm(joins) >= (radius + grid * root / 2) * (1 - 1e-12)
    assert np.linalg.norm(changes) >= (2 * radius + grid * root) * (1 - 1e-12)


def test_a_release_leaves_integer_sums_as_they_are():
    """Noise is the same whatever is added to it: nothing is rounded or clamped."""
    mechanism = calibrate_gaussian(
        "sum", 1.0, 0.1, (4,), magnitude=2.0**32, summation_error=8 * 2.0**-52
    )
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
    largest = 2.0**32 - mechanism.grid
    sums = np.array([largest, -largest, 12345 * mechanism.grid, 1e9])
    released = Release(plan, None, 0)("sum", sums)
    noise = Release(plan, None, 0)("sum", np.zeros(4))
    np.testing.assert_array_equal(released - noise, sums)
    assert np.all(noise != 0.0)


def test_last_bits_of_other_users_would_move_the_sum_beyond_any_charge():
    """Why vectors must be the same bit by bit: a thousand users near a tie."""
    size, users = 25, 1000
    mechanism = calibrate_gaussian("sum", 1.0, 0.1, (size,), magnitude=2.0**32)
    grid = mechanism.grid
    tie = np.full((users, size), 2.5 * grid)
    changed = np.nextafter(tie, 1.0)
    assert np.linalg.norm((changed - tie).sum(axis=0)) < 1e-12 * grid * users
    moved = rounded(changed, grid).sum(axis=0) - rounded(tie, grid).sum(axis=0)
    np.testing.assert_array_equal(moved, users * grid)
    # Charged is one step an entry for all users together.
    assert np.linalg.norm(moved) == pytest.approx(users * mechanism.grid_term)


@pytest.mark.parametrize("size", [1, 3, 100, 1325, 8192, 9000, 25805])
def test_clipping_gives_a_user_the_same_bits_in_every_batch(size):
    rng = np.random.default_rng(size)
    rows = rng.standard_normal((21, size)) * 10 ** rng.uniform(-3, 3, (21, 1))
    whole = clip_rows(rows, 1.0)
    strange = np.array([[1e300], [np.nan], [5e-324]]) * np.ones(size)
    for start, stop in [(0, 1), (7, 8), (3, 5), (20, 21), (1, 21), (4, 13)]:
        batch = rows[start:stop]
        np.testing.assert_array_equal(clip_rows(batch, 1.0), whole[start:stop])
        shifted = np.empty(batch.size + 1)[1:].reshape(batch.shape)
        shifted[:] = batch
        np.testing.assert_array_equal(clip_rows(shifted, 1.0), whole[start:stop])
        mixed = clip_rows(np.concatenate([strange, batch]), 1.0)
        np.testing.assert_array_equal(mixed[3:], whole[start:stop])


# -- votes and the whole fit -----------------------------------------------------------


def votes(values, threshold):
    return np.sum(np.where(values <= threshold, 0.5, -0.5))


def test_votes_move_by_half_or_one():
    rng = np.random.default_rng(0)
    largest = dict.fromkeys(RELATIONS, 0.0)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 5e-324])
    for _ in range(200):
        values = np.concatenate([rng.lognormal(size=6), rng.choice(special, 3)])
        threshold = rng.choice([*values[:6], 1.0])
        total = votes(values, threshold)
        leaves = abs(total - votes(values[1:], threshold))
        values[0] = rng.choice([*rng.lognormal(size=3), np.nan])
        replaced = abs(total - votes(values, threshold))
        for relation, moved in zip(RELATIONS, (leaves, replaced), strict=True):
            assert moved <= sum_sensitivity(0.5, relation)
            largest[relation] = max(largest[relation], moved)
    assert largest == {r: sum_sensitivity(0.5, r) for r in RELATIONS}
    assert largest == {"add-remove-one": 0.5, "replace-one": 1.0}


@pytest.mark.parametrize("n_votes", [1, 2])
def test_several_votes_at_once_move_by_the_norm_of_the_pair(n_votes):
    ballots = np.array(list(np.ndindex(*[2] * n_votes))) - 0.5
    joins = np.linalg.norm(ballots, axis=1).max()
    replaced = np.linalg.norm(ballots[:, None] - ballots, axis=2).max()
    for relation, moved in zip(RELATIONS, (joins, replaced), strict=True):
        assert vote_sensitivity(n_votes, relation) == pytest.approx(moved, rel=1e-15)
    with pytest.raises(ValueError, match="n_votes"):
        vote_sensitivity(0, "replace-one")


# -- the private start -----------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("d", [2, 3, 40, 300])
def test_sums_of_projectors_move_by_one_or_sqrt_two(d):
    rng = np.random.default_rng(d)
    y = rng.standard_normal((60, 1))
    X = rng.standard_normal((60, 1, d)) * 10.0 ** rng.integers(-9, 9, (60, 1, 1))
    X[:2, 0] = np.eye(d)[:2]  # orthogonal users attain the bound
    X[2] = 0.0
    block = per_user.Block(X, y, np.ones(60, dtype=int), np.arange(60))
    vectors = clip_rows(_kernels_shared.start_moments(block), 1.0)
    slack = 2.0 * (d + 16) * 2.0**-52
    moved = {
        "add-remove-one": np.linalg.norm(vectors, axis=1).max(),
        "replace-one": np.linalg.norm(vectors[:, None] - vectors, axis=2).max(),
    }
    for relation, distance in moved.items():
        bound = projector_sum_sensitivity(relation)
        assert bound * (1 - 1e-10) <= distance <= bound + slack
    assert not vectors[2].any()


def test_the_slack_of_projectors_covers_exact_arithmetic():
    """Computed vectors in exact arithmetic, against the bound of the lemma."""
    d, rng = 7, np.random.default_rng(1)
    X = np.zeros((2, 1, d))
    X[0, 0, :4], X[1, 0, 4:] = rng.standard_normal(4), rng.standard_normal(3)
    block = per_user.Block(X, np.ones((2, 1)), np.ones(2, dtype=int), np.arange(2))
    vectors = clip_rows(_kernels_shared.start_moments(block), 1.0)
    squared = sum(
        (Fraction(a) - Fraction(b)) ** 2 for a, b in zip(*vectors, strict=True)
    )
    slack = 2 * (d + 16) * Fraction(1, 2**52)
    assert squared <= (Fraction(math.sqrt(2.0)) - Fraction(1, 2**50) + slack) ** 2
    assert squared >= 2 - Fraction(1, 2**40)


def bisection(values, low, high, steps, noise_std, rng):
    """Final range, of which only signs of noisy votes are known."""
    for _ in range(steps):
        threshold = math.sqrt(low * high)
        if votes(values, threshold) + noise_std * rng.standard_normal() > 0:
            high = threshold
        else:
            low = threshold
    return low, high


def test_bisection_without_noise_finds_the_median():
    values = np.random.default_rng(0).lognormal(0.0, 2.0, 401)
    low, high = bisection(values, 1e-6, 1e6, 12, 0.0, np.random.default_rng(0))
    assert low <= np.median(values) <= high
    assert high / low == pytest.approx(1e12 ** (1 / 4096))


def test_bisection_finds_a_quantile_near_the_median():
    """At z = 3 at most 1.6 % of ranges are off: 21 of 400 has probability 1e-5."""
    steps, noise_std, users, repeats = 12, 15.0, 400, 400
    rng = np.random.default_rng(0)
    off = dict.fromkeys((0.5, 3.0), 0)
    for _ in range(repeats):
        values = rng.lognormal(0.0, 2.0, users)
        low, high = bisection(values, 1e-6, 1e6, steps, noise_std, rng)
        below, upto = np.mean(values <= low), np.mean(values <= high)
        for z in off:
            slack = z * noise_std / users
            off[z] += (upto < 0.5 - slack) or (below > 0.5 + slack)
    assert off[3.0] <= 20
    # The test would see more noise: half a standard deviation is often missed.
    assert off[0.5] > 40


def test_example_of_the_votes_page():
    mu = gaussian_mu(1.0, 1e-6) * math.sqrt(0.1 / 24)
    vote = calibrate_gaussian("vote", 0.5, mu, (1,), magnitude=2.0**31)
    assert vote.noise_std == pytest.approx(32.7, abs=0.05)
    assert vote.grid <= 0.5
    assert 3 * vote.noise_std / 1000 < 0.1
    size = 15 * 1275 + 250
    mu = gaussian_mu(1.0, 1e-6) * math.sqrt(0.9 / 6)
    total = calibrate_gaussian("sum", 1.0, mu, (size,), magnitude=2.0**32)
    assert total.noise_std == pytest.approx(10.9, abs=0.05)
    assert total.grid == 2.0**-18
    assert total.grid_term == pytest.approx(5e-4, rel=0.1)


@pytest.mark.parametrize("clip_share", [0.1, 0.4])
def test_votes_and_sums_share_the_budget(clip_share):
    """What calibrated mechanisms charge, all together, is mu and no more."""
    mu, n_votes, n_sums = gaussian_mu(1.0, 1e-6), 24, 6
    shares = [clip_share / n_votes] * n_votes + [(1 - clip_share) / n_sums] * n_sums
    costs = split_mu(mu, shares)
    mechanisms = [
        calibrate_gaussian("vote", 0.5, cost, (1,), magnitude=2.0**31)
        for cost in costs[:n_votes]
    ]
    mechanisms += [
        calibrate_gaussian("sum", 1.0, cost, (230,), magnitude=2.0**32)
        for cost in costs[n_votes:]
    ]
    charged = math.hypot(*(mechanism.mu for mechanism in mechanisms))
    assert mu * (1 - 1e-9) < charged <= mu
