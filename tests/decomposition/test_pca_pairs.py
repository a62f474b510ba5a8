"""DPPCA of rows whose center and bounds nobody knows: pairs, and a center in steps."""

import math
import re
import warnings

import numpy as np
import pytest
from release_tools import record_releases
from scipy import sparse
from sliced_rows import SlicedTable

from skdpspectral import DPPCA, FederatedDPPCA, PrivacyAccountant, SparseDPPCA
from skdpspectral._linalg import eigen, walks
from skdpspectral._linalg.walks import BLOCKS_TOGETHER, PairOrder, PairWalk
from skdpspectral._statistics.centered import N_OCTAVES, typical_lengths
from skdpspectral._statistics.moments import Rows
from skdpspectral._statistics.statistic import HALF, mean_summation_error, pair_order
from skdpspectral.accounting import gaussian_mu
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import captured_variance, subspace_distance


def spiked(n=5000, p=20, rank=2, seed=0):
    return make_spiked_covariance(
        n, p, n_components=rank, signal_variance=10.0, random_state=seed
    )


def kept(pca, X):
    """Share of the largest variance that as many components can have."""
    covariance = np.cov(X.T)
    best = np.linalg.eigvalsh(covariance)[-pca.n_components_ :].sum()
    return np.trace(pca.components_ @ covariance @ pca.components_.T) / best


def names(plan):
    return {m.name for m in plan.releases()}


# -- pairs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(1, 3), (2, 3), (3, 3), (900, 4), (40_000, 30), (70, 900_000)]
)
def test_pools_hold_every_row_once_and_blocks_are_counted(shape):
    order = pair_order(*shape)
    seen = [places for _, places in order.pools(np.broadcast_to(0.0, shape))]
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(shape[0]))
    sizes = [len(places) for places in seen]
    for n_pools in range(1, len(sizes) + 1):
        assert order.rows_of(n_pools) == sum(sizes[:n_pools])
    blocks = [math.ceil(size / order.block_rows) for size in sizes]
    assert order.n_blocks == order.n_shifts * sum(blocks)
    if shape[0] > 2:
        assert min(sizes) > 2 * order.n_shifts


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_slices_are_paired_as_arrays_and_sparse_rows_are(dtype):
    X = np.random.default_rng(0).integers(-3, 3, (20_000, 3)).astype(dtype)
    order = PairOrder(20_000, 3, 2)
    from skdpspectral._tables.table import SlicedRows

    tables = [X, SlicedRows(SlicedTable(X), X.shape, X.dtype), sparse.csr_array(X)]
    found = []
    for table in tables:
        blocks = PairWalk(order).blocks(table)
        dense = [b.toarray() if sparse.issparse(b) else b.copy() for b in blocks]
        found.append(np.concatenate(dense))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert len(found[0]) == order.n_pairs


class OfSmallestType(SlicedTable):
    """Slices come in the smallest type that holds them, which their values decide."""

    def __getitem__(self, rows):
        block = super().__getitem__(rows)
        return block.astype("i2") if np.all(block == np.rint(block)) else block


@pytest.mark.parametrize("declared", ["f8", "f4", "i2"])
def test_slices_of_many_types_keep_their_numbers(declared):
    """The type of one slice decides nothing about the numbers of others."""
    X = np.random.default_rng(0).integers(-3, 3, (20_000, 3)).astype(float)
    order = PairOrder(20_000, 3, 2)
    rows = X[::2] = X[::2] + 0.25 * (np.arange(10_000) > 5000)[:, None]
    assert np.any(rows != np.rint(rows))
    from skdpspectral._tables.table import SlicedRows

    table = SlicedRows(OfSmallestType(X), X.shape, np.dtype(declared))
    found = [
        np.concatenate([b.copy() for b in PairWalk(order).blocks(t)])
        for t in (X, table)
    ]
    np.testing.assert_array_equal(*found)


def test_differences_beyond_float64_have_their_direction():
    X = np.zeros((8, 2))
    X[0], X[1], X[2] = [1.5e308, 0.0], [-1.5e308, 0.0], [1e-310, 1e-310]
    order = PairOrder(8, 2, 2)
    for rows in (X, sparse.csr_array(X)):
        for block in PairWalk(order).blocks(rows):
            dense = block.toarray() if sparse.issparse(block) else block
            assert np.isfinite(dense).all()
    pca = DPPCA(1, center="pairs", epsilon=1e6, noise_seed=0).fit(X)
    assert np.isfinite(pca.explained_variance_).all()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_difference_depends_on_its_own_rows_alone(make):
    """One that overflows halves no other: a row would move all pairs of its block."""
    rng, order = np.random.default_rng(0), PairOrder(60, 3, 2)
    X, signs = rng.standard_normal((60, 3)), rng.choice([-1.0, 0.0, 1.0], 60)
    found = []
    for value in (1.5e308, 1.0):
        X[:, 0] = np.where(signs, value * signs, 0.5)
        blocks = [block.copy() for block in PairWalk(order).blocks(make(X))]
        dense = [b.toarray() if sparse.issparse(b) else b for b in blocks]
        found.append(np.concatenate(dense))
    first = walks.scrambled(60)  # all rows are one pool
    pairs = np.hstack([[first, np.roll(first, -shift)] for shift in (1, 2)])
    assert np.any(np.prod(signs[pairs], axis=0) < 0)  # some do overflow
    others = np.all(signs[pairs] == 0, axis=0)
    assert others.sum() > 5
    np.testing.assert_array_equal(found[0][others], found[1][others])
    assert np.isfinite(found[0]).all()


@pytest.mark.parametrize("sorted_by", ["value", "class", "nothing"])
def test_sorted_rows_are_paired_with_others_from_far_away(sorted_by):
    """Two classes: without pairs across them their difference would be lost."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 6))
    X[:, 0] *= 2.0
    X[:, 1] += np.repeat([-4.0, 4.0], 15_000)
    order = {
        "value": np.argsort(X[:, 1]),
        "class": np.arange(len(X)),
        "nothing": rng.permutation(len(X)),
    }[sorted_by]
    pca = DPPCA(1, center="pairs", epsilon=4.0, noise_seed=0).fit(X[order])
    assert abs(pca.components_[0, 1]) > 0.99
    # Released values are those of random pairs, to a share of the pairs of one slice.
    shuffled = DPPCA(1, center="pairs", epsilon=4.0, noise_seed=1)
    expected = shuffled.fit(X[rng.permutation(len(X))]).explained_variance_[0]
    assert pca.explained_variance_[0] == pytest.approx(expected, rel=0.1)


def test_pairs_do_not_see_where_rows_lie():
    X, components = spiked(20_000)
    pca = DPPCA(2, center="pairs", epsilon=0.1, noise_seed=0)
    near = pca.fit(X).explained_variance_
    far = pca.fit(X + 3000.0)
    assert subspace_distance(far.components_, components) < 0.5
    np.testing.assert_allclose(far.explained_variance_, near, rtol=5e-3)


def test_half_of_pairs_is_released_and_doubled_again():
    X, _ = spiked(300, 4)
    settings = {"center": "pairs", "n_components": 1, "noise_seed": 0}
    with record_releases() as released:
        pca = DPPCA(epsilon=1.0, **settings).fit(X)
    noise = pca.privacy_["second_moment"].noise_std
    assert np.trace(released["second_moment"]) == pytest.approx(HALF, abs=9 * noise)
    values = np.linalg.eigvalsh(released["second_moment"] / HALF)
    assert pca.explained_variance_[0] == pytest.approx(values[-1], rel=1e-9)
    assert "half of each mean" in pca.privacy_.details()


def test_rounding_of_pairs_is_charged_by_their_number():
    n, p = 10_000, 5
    order = pair_order(n, p)
    assert mean_summation_error(1.0, n, p, (HALF,)) == pytest.approx(
        0.5 * (order.block_rows + order.n_blocks + 16) * 2.0**-52
    )
    # So many blocks that they are added in groups.
    order, many = pair_order(1 << 20, 1), BLOCKS_TOGETHER
    assert order.n_blocks > many
    blocks = many + -(-order.n_blocks // many)
    assert mean_summation_error(1.0, 1 << 20, 1, (HALF,)) == pytest.approx(
        0.5 * (order.block_rows + blocks + 16) * 2.0**-52
    )
    for shape in ((n, p), (1 << 20, 1)):
        both = [mean_summation_error(1.0, *shape, (w,)) for w in (1.0, HALF)]
        assert mean_summation_error(1.0, *shape, (1.0, HALF)) == max(both)


@pytest.mark.parametrize("center", ["pairs", "auto"])
def test_one_row_has_no_pair_but_itself(center):
    """Its moment is zero, and what is released of it is noise."""
    pca = DPPCA(1, center=center, epsilon=1e6, noise_seed=0).fit(np.ones((1, 3)))
    assert pca.explained_variance_[0] < 0.01


def test_what_a_stranger_claims_takes_no_time():
    order = pair_order(10**17, 50)
    assert order.n_blocks >= order.n_shifts * 10**17 // order.block_rows
    assert mean_summation_error(1.0, 10**17, 50, (1.0, HALF)) > 1e-6
    assert DPPCA(1).privacy_plan(10**15, 50).mu < 0.3


# -- a center that is searched for -----------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shift", [0.0, 3.0, 6000.0])
def test_a_center_halves_the_noise_wherever_rows_lie(shift):
    """Medians of 9 seeds; pairs keep some .77 of the variance, an exact center .95."""
    X, _ = spiked(2000, 50)
    shares = {}
    for center in ("auto", "pairs"):
        fits = [DPPCA(2, center=center, noise_seed=s).fit(X + shift) for s in range(9)]
        shares[center] = np.median([kept(pca, X) for pca in fits])
    assert shares["auto"] > shares["pairs"]
    assert shares["auto"] > 0.94


def test_few_rows_are_paired_by_public_numbers():
    plan = DPPCA(1).privacy_plan(300, 50)
    assert names(plan) == {"second_moment"}
    assert "no private center is accurate enough" in plan.remarks[-1]
    X, _ = spiked(300, 50)
    remarks = DPPCA(1, noise_seed=0).fit(X).privacy_.remarks
    assert remarks[:-1] == plan.remarks
    assert remarks[-1].startswith("Components above the noise of this fit: 0 of 1")


# -- few rows --------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [None, (-15.0, 21.0)])
def test_on_few_rows_a_center_keeps_more_than_pairs(bounds):
    X, _ = spiked(2000, 30)
    shares, said = {"auto": [], "pairs": []}, []
    for center, found in shares.items():
        for seed in range(8):
            pca = DPPCA(
                2, epsilon=0.25, center=center, bounds=bounds, noise_seed=seed
            ).fit(X + 3.0)
            found.append(kept(pca, X))
            said.append(pca.privacy_.remarks)
    assert sum("accurate enough" in str(remarks) for remarks in said) >= 6
    assert np.mean(shares["auto"]) > np.mean(shares["pairs"]) + 0.05


def test_few_rows_of_all_lengths_are_paired():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 50)) * 2.0 ** rng.uniform(-60, 60, (1000, 1))
    pca = DPPCA(2, epsilon=1.0, noise_seed=2).fit(X)
    assert any("in pairs" in text for text in pca.privacy_.remarks)
    assert np.isfinite(pca.components_).all()


def lengths_of(X, noise, rng):
    """Typical lengths of rows and of their differences, through noise."""
    exact = []

    class Told(Exception):
        pass

    def stop(name, value):
        exact.append(value)
        raise Told

    fit = DPPCA(1, epsilon=9.0)._statistic(*X.shape)
    with pytest.raises(Told):
        fit.run(stop, X)
    noisy = exact[0] + noise * rng.standard_normal(exact[0].shape)
    return typical_lengths(noisy, noise)


@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e40])
@pytest.mark.parametrize("away", [0.0, 4.0, 1e4])
def test_lengths_are_read_through_noise(scale, away):
    rng = np.random.default_rng(0)
    X = scale * (rng.standard_normal((1000, 50)) + away)
    wanted = scale * math.sqrt(50.0), scale * math.sqrt(50.0 * (1.0 + away**2))
    for _ in range(20):
        *found, is_seen = lengths_of(X, 0.03, rng)
        assert is_seen
        np.testing.assert_allclose(np.log2(found), np.log2(wanted), atol=0.5)


@pytest.mark.parametrize("kind", ["zeros", "noise"])
def test_lengths_of_rows_that_are_alike_or_hidden_are_harmless(kind):
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 50))
    if kind == "zeros":
        typical, reach, is_seen = lengths_of(X, 0.0, rng)
    else:
        shares = 0.01 * rng.standard_normal((2, N_OCTAVES))
        typical, reach, is_seen = typical_lengths(shares, 0.01)
    assert not is_seen
    assert 0.0 <= typical <= reach < math.inf
    pca = DPPCA(2, epsilon=1.0, noise_seed=0).fit(X)
    assert np.isfinite(pca.components_).all()


@pytest.mark.parametrize("seed", range(10))
def test_no_length_is_read_from_noise_without_a_warning(seed):
    """Of a constant table nothing but noise is seen: false alarm below 1e-3 a seed."""
    with pytest.warns(UserWarning, match="above the noise"):
        DPPCA(1, noise_seed=seed).fit(np.full((3000, 20), 5.0))


@pytest.mark.parametrize("center", ["auto", "pairs", "none"])
def test_tiny_budgets_of_many_rows_can_be_planned(center):
    plan = DPPCA(1, epsilon=5e-4, delta=1e-7, center=center).privacy_plan(10**7, 10)
    assert plan.mu <= gaussian_mu(5e-4, 1e-7) * (1.0 + 1e-9)


def test_rows_dense_about_their_center_do_not_count_by_its_error():
    """Two rows in three are alike: about a noisy center they would all look one way."""
    X, components = spiked(3000, 20, rank=1)
    X[::3] = X[1::3] = 0.0
    pca = DPPCA(1, epsilon=1.0, noise_seed=0).fit(X + 7.0)
    assert subspace_distance(pca.components_, components) < 0.6


def test_what_was_chosen_is_said_and_costs_what_was_planned():
    X, _ = spiked()
    accountant = PrivacyAccountant()
    pca = DPPCA(accountant=accountant).fit(X)
    plan = DPPCA().privacy_plan(*X.shape)
    assert "private center, which is accurate enough" in pca.privacy_.remarks[-1]
    assert pca.privacy_.mechanisms == plan.mechanisms
    assert plan.mu == pytest.approx(DPPCA(center="none").privacy_plan(*X.shape).mu)
    assert accountant.spent(1e-6)[0] == pytest.approx(1.0, rel=1e-6)
    costs = [math.hypot(*(m.mu for m in b)) for b in plan["center"].branches]
    assert costs == pytest.approx([plan["center"].mu] * len(costs), rel=1e-9)
    assert len(costs) > 2


@pytest.mark.parametrize("bounds", [(-500.0, 900.0), None])
def test_wide_bounds_do_no_harm(bounds):
    """A private mean in so wide a box would be the first component."""
    X, components = spiked(4000, 50)
    pca = DPPCA(2, bounds=bounds, noise_seed=0).fit(X + 3.0)
    assert subspace_distance(pca.components_, components) < 0.3


def test_without_noise_the_center_is_that_of_the_rows():
    X, components = spiked()
    with pytest.warns(UserWarning, match="without privacy"):
        pca = DPPCA(2, epsilon=None).fit(X + 50.0)
    np.testing.assert_allclose(pca.mean_, 50.0, atol=0.2)
    assert subspace_distance(pca.components_, components) < 0.1


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((400, 3)),
        np.full((400, 3), 1e300),
        np.full((400, 3), -1e308) * np.resize([1, -1], (400, 1)),
        np.full((400, 3), 5e-324),
        np.repeat(np.eye(3), [398, 1, 1], axis=0),
    ],
    ids=["zeros", "large", "overflow", "subnormal", "alike"],
)
@pytest.mark.parametrize("center", ["auto", "pairs", "none"])
def test_any_rows_give_finite_releases(X, center):
    with record_releases() as released:
        pca = DPPCA(1, center=center, epsilon=8.0, noise_seed=0).fit(X)
    assert all(np.isfinite(values).all() for values in released.values())
    assert np.isfinite(pca.components_).all()
    assert np.isfinite(pca.mean_).all()


def test_a_sample_of_many_rows_is_from_all_over_the_table():
    shape = (400_000, 3)
    walks, sample = Rows(*shape), Rows(*shape).sample(1 << 17)
    assert 1 << 17 <= sample.n_rows < 1 << 18
    X = np.broadcast_to(np.arange(shape[0], dtype=float)[:, None], shape)
    blocks = walks.about(X, None, sample).walk.blocks(X)
    rows = np.concatenate([block[:, 0].copy() for block in blocks])
    assert len(rows) == len(set(rows)) == sample.n_rows
    assert abs(rows.mean() / shape[0] - 0.5) < 0.05


# -- components that are noise ---------------------------------------------------------


def test_components_of_noise_are_told_from_others():
    X, _ = spiked(20_000, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "noise_seed is given")
        pca = DPPCA(2, noise_seed=0).fit(X)
    assert pca.components_above_noise_ == 2
    with pytest.warns(UserWarning, match="above the noise of this fit: 2 of 5"):
        assert DPPCA(5, noise_seed=0).fit(X).components_above_noise_ == 2
    with pytest.warns(UserWarning, match="above the noise of this fit: 0 of 1"):
        DPPCA(1, epsilon=0.01, noise_seed=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "remedy"),
    [
        ({}, 'different units, set scale="ranks". Use more'),
        (
            {"bounds": (-50.0, 50.0)},
            'with one value per feature and scale="bounds". Use more',
        ),
        (
            {"bounds": ([-50.0] * 19 + [-5.0], 50.0)},
            'different ranges, set scale="bounds". Use more',
        ),
        ({"scale": "ranks"}, "noise alone. Use more rows, a larger epsilon or fewer"),
    ],
)
def test_remedies_of_noise_depend_on_parameters_alone(parameters, remedy):
    X, _ = spiked(2000, 20)
    pca = DPPCA(3, epsilon=0.01, noise_seed=0, **parameters)
    with pytest.warns(UserWarning, match=re.escape(remedy)):
        pca.fit(X)
    assert remedy in " ".join(pca.privacy_.remarks)


def test_noise_alone_is_seldom_taken_for_components():
    """Rows without structure: 60 fits; more than 3 would be a false alarm in 1e3."""
    rng = np.random.default_rng(0)
    found = [
        DPPCA(1, center=center, epsilon=1.0, noise_seed=s)
        .fit(rng.standard_normal((2000, 20)))
        .components_above_noise_
        for s in range(30)
        for center in ("pairs", "auto")
    ]
    assert sum(found) <= 3


# -- federations -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (FederatedDPPCA, {}),
        (FederatedDPPCA, {"aggregation": "matrix"}),
        (FederatedDPPCA, {"projection_norm": 20.0}),
        (SparseDPPCA, {}),
    ],
)
def test_clients_compare_their_own_rows(kind, parameters):
    """Each site lies elsewhere, and far from the origin."""
    X, components = spiked(20_000, 12)
    sites = np.arange(len(X)) % 4
    pca = kind(2, epsilon=4.0, center="pairs", noise_seed=0, **parameters)
    pca.fit(X + 40.0 * sites[:, None], clients=sites)
    assert subspace_distance(pca.components_, components) < 0.05
    assert captured_variance(pca, X) > 0.5


def test_few_clients_compare_rows_and_say_that_they_have_no_mean():
    X, _ = spiked(4000, 6)
    pca = FederatedDPPCA(1, projection_norm=20.0, bounds=(-30, 50))
    pca.set_params(epsilon=8.0).fit(X, clients=np.arange(len(X)) % 2)
    np.testing.assert_array_equal(pca.mean_, 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "noise_seed is given|.*above the noise")
        pca.set_params(center="shared").fit(X, clients=np.arange(len(X)) % 2)
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0), atol=1.0)


def test_what_stands_out_is_counted_in_the_release_alone(monkeypatch):
    """The trace is that of the noisy matrix: the exact one would be a release."""
    asked, count = [], eigen.count_above_noise

    def counted(values, trace, *more):
        asked.append((values, trace))
        return count(values, trace, *more)

    monkeypatch.setattr(eigen, "count_above_noise", counted)
    X = np.random.default_rng(0).normal(size=(500, 5))
    with record_releases() as released:
        DPPCA(2, center="none").fit(X)
    ((values, trace),) = asked
    matrix = released["second_moment"]
    assert trace == np.trace(matrix)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[:-3:-1], rtol=1e-9)


def test_skewed_rows_keep_their_lengths_as_far_as_noise_allows():
    """Unit rows about any center take the direction of many short rows for the first.

    Two thirds of the rows vary little, in one direction, and the others much, in
    another; a clip of 1.6 typical distances tells them apart.
    """
    rng, n = np.random.default_rng(0), 30_000
    X = 0.05 * rng.standard_normal((n, 10))
    X[:, 0] += 0.5 * rng.standard_normal(n) * (np.arange(n) % 3 != 0)
    X[:, 1] += 1.2 * rng.choice([-1.0, 1.0], n) * (np.arange(n) % 3 == 0)
    for bounds in (None, (-9.0, 9.0)):
        pca = DPPCA(1, bounds=bounds, noise_seed=0).fit(X)
        assert kept(pca, X) > 0.98
