"""Generators of the papers' models, and real data sets with public bounds."""

from skdpspectral.datasets._generators import make_spiked_covariance
from skdpspectral.datasets._real import (
    load_adult,
    load_coil2000,
    load_digits,
    load_jester,
    load_kddcup99,
)

__all__ = [
    "load_adult",
    "load_coil2000",
    "load_digits",
    "load_jester",
    "load_kddcup99",
    "make_spiked_covariance",
]
