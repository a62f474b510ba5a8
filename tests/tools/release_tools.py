"""Releases as tests see them: the one module of tests that imports them."""

from skdpspectral._release.noise import Release, noise_generator, record_releases

__all__ = ["Release", "noise_generator", "record_releases"]
