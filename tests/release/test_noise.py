"""The noise itself: its law, its key, and that it is never used twice.

Every test of a law states its false-alarm rate; seeds are fixed.
"""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from skdpspectral._release import noise as release_module
from skdpspectral._release.noise import Release, grid_noise, noise_generator
from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.mechanisms import Exact, Gaussian, Mechanism, PrivacyPlan
from skdpspectral.neural_network import JMEAdam

COUNT = 1_000_000


def released_noise(noise_seed, size=COUNT):
    mechanism = calibrate_gaussian("m", 1.0, 0.7, (size,))
    seeded = noise_seed is not None
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=seeded)
    noise = Release(plan, None, noise_seed)("m", np.zeros(size))
    return noise, mechanism


@pytest.mark.parametrize("noise_seed", [0, 1, np.random.RandomState(2)])
def test_released_noise_is_normal_of_the_planned_deviation(noise_seed):
    """Kolmogorov-Smirnov and chi-square; false-alarm rate 3e-6 a case.

    A million draws have a standard error of .14 % in variance: noise 10 % low is 130
    of them away, and any constant is refused.
    """
    noise, mechanism = released_noise(noise_seed)
    scaled = noise / mechanism.noise_std
    assert kstest(scaled, norm.cdf).pvalue > 1e-6
    total = np.sum(scaled**2)
    assert chi2.ppf(1e-6, COUNT) < total < chi2.ppf(1 - 1e-6, COUNT)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_the_law_test_refuses_noise_ten_per_cent_off(factor):
    noise, mechanism = released_noise(0)
    scaled = factor * noise / mechanism.noise_std
    total = np.sum(scaled**2)
    assert not chi2.ppf(1e-6, COUNT) < total < chi2.ppf(1 - 1e-6, COUNT)
    assert kstest(scaled, norm.cdf).pvalue < 1e-6


def test_successive_draws_are_uncorrelated():
    """Lags 1 to 20 of a million draws; false-alarm rate 4e-8."""
    noise, mechanism = released_noise(5)
    scaled = noise / mechanism.noise_std
    for lag in range(1, 21):
        correlation = np.mean(scaled[lag:] * scaled[:-lag])
        assert abs(correlation) < 6.0 / np.sqrt(COUNT)


@pytest.mark.parametrize("shape", [(60_000,), (300, 200), (300, 300)])
def test_no_draw_is_used_twice(shape):
    """Releases of several chunks of draws, and of several panels of a matrix.

    Draws of 2**26 steps or more repeat by chance in at most 8 pairs on average: 40 or
    more have a probability below 1e-15. One chunk that is used again repeats 8192.
    """
    symmetric = len(set(shape)) == 1 < len(shape)
    mechanism = calibrate_gaussian("m", 1.0, 0.7, shape, symmetric=symmetric)
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
    noise = Release(plan, None, 0)("m", np.zeros(shape)) / mechanism.grid
    draws = noise[np.tril_indices(len(noise))] if symmetric else noise.ravel()
    deviation = (
        np.sqrt(0.5 if symmetric else 1.0) * mechanism.noise_std / mechanism.grid
    )
    assert draws.size**2 / (4.0 * np.sqrt(np.pi) * deviation) < 8.0
    assert draws.size - len(np.unique(draws)) < 40


def test_hardware_generator_is_aes():
    """The example vector of FIPS 197, appendix C.1."""
    if not release_module._has_hardware_aes():
        pytest.skip("no AES instructions on this machine")
    key = int.from_bytes(bytes(range(16)), "little")
    plain = int.from_bytes(bytes.fromhex("00112233445566778899aabbccddeeff"), "little")
    generator = release_module.generator_of_key(key).bit_generator
    assert type(generator).__name__ == "AESCounter"
    words = type(generator)(key=key, counter=plain).random_raw(2).astype("<u8")
    assert words.tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_fallback_generator_is_chacha20(monkeypatch):
    monkeypatch.setattr(release_module, "_has_hardware_aes", lambda: False)
    generator = noise_generator(0)
    assert type(generator.bit_generator).__name__ == "ChaCha"
    assert generator.bit_generator.state["state"]["rounds"] == 20
    noise, mechanism = released_noise(0)
    assert kstest(noise / mechanism.noise_std, norm.cdf).pvalue > 1e-6


@pytest.mark.parametrize("hardware", [True, False])
def test_a_generator_of_another_key_is_as_a_new_one(monkeypatch, hardware):
    if hardware and not release_module._has_hardware_aes():
        pytest.skip("no hardware for AES")
    monkeypatch.setattr(release_module, "_has_hardware_aes", lambda: hardware)
    used = release_module.generator_of_key(5)
    used.random(1001)
    used.integers(2**31, size=3, dtype=np.uint32)  # half of a word is left
    for key in (2**127 + 12, 5):
        release_module.rekey(used, key)
        fresh = release_module.generator_of_key(key)
        assert used.integers(2**31, dtype=np.uint32) == fresh.integers(
            2**31, dtype=np.uint32
        )
        np.testing.assert_array_equal(used.random(3333), fresh.random(3333))


def test_samples_can_not_be_made_anew_from_what_is_left_of_a_release():
    adam = JMEAdam(3, 20, epsilon=8.0, batch_size=5, n_epochs=1)
    release = None
    for _ in range(adam.n_steps):
        batch = next(adam.batches())
        release = adam._run.release
        assert release._key
        adam.step(np.ones((len(batch), 3)), batch)
    assert not release._key
    assert not any(isinstance(v, np.random.Generator) for v in vars(release).values())


@pytest.mark.fresh_entropy
def test_unseeded_streams_never_repeat():
    draws = {noise_generator().standard_normal() for _ in range(1000)}
    assert len(draws) == 1000


def test_unseeded_noise_takes_a_fresh_key_each_time(monkeypatch):
    bits = []

    def remember(n):
        bits.append(n)
        return len(bits)

    monkeypatch.setattr(release_module.secrets, "randbits", remember)
    noise_generator()
    noise_generator()
    assert bits == [128, 128]


def test_seeded_streams_repeat_and_differ_by_seed():
    assert noise_generator(3).standard_normal() == noise_generator(3).standard_normal()
    assert noise_generator(3).standard_normal() != noise_generator(4).standard_normal()
    state = np.random.RandomState(0)
    assert noise_generator(state).standard_normal() != (
        noise_generator(state).standard_normal()
    )


def test_grid_noise_fills_every_entry_with_integers():
    out = np.full(100_001, 0.25)
    grid_noise(out, 1e6, noise_generator(0))
    np.testing.assert_array_equal(out, np.rint(out))
    assert np.sum(out == 0.0) < 5


def test_releases_once_by_name_and_shape():
    mechanism = calibrate_gaussian("mean", 1.0, 1.0, (3,))
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test")
    release = Release(plan)
    with pytest.raises(KeyError, match="variance"):
        release("variance", np.zeros(3))
    assert release("mean", np.zeros(3)).shape == (3,)
    with pytest.raises(KeyError, match="mean"):
        release("mean", np.zeros(3))
    with pytest.raises(ValueError, match="shape"):
        Release(plan)("mean", np.zeros(4))
    with pytest.raises(ValueError, match="seeded"):
        Release(plan, None, 0)


def test_release_does_not_touch_its_argument():
    value = np.zeros((5, 5))
    mechanism = Gaussian("m", 1.0, 1.0, (5, 5), symmetric=True)
    Release(PrivacyPlan(1.0, 1e-6, (mechanism,), "test"))("m", value)
    np.testing.assert_array_equal(value, 0.0)


def test_exact_release_mirrors_the_lower_triangle():
    plan = PrivacyPlan(np.inf, 1e-6, (Exact("m", (3, 3), True),), "test")
    value = np.array([[1.0, 9, 9], [2, 3, 9], [4, 5, 6]])
    out = Release(plan)("m", value)
    np.testing.assert_array_equal(out, [[1, 2, 4], [2, 3, 5], [4, 5, 6]])


@dataclasses.dataclass(frozen=True)
class UnknownMechanism(Mechanism):
    kind = "unknown"
    name: str = "m"
    shape: tuple = (2,)
    mu: float = 1.0


def test_no_unknown_mechanism_leaves_without_noise():
    plan = PrivacyPlan(4.0, 1e-6, (UnknownMechanism(),), "test")
    assert "unknown" in plan.to_json()
    release = Release(plan)
    with pytest.raises(TypeError, match="no noise source for UnknownMechanism"):
        release("m", np.zeros(2))
