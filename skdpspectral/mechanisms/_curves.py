"""Mechanisms that are no Gaussian: each has a privacy curve of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ._relations import Neighbors, check_count, check_real

# Laws of the number of runs of a private selection.
TRUNCATED_NEGATIVE_BINOMIAL = "truncated-negative-binomial"
POISSON = "poisson"


def _set_real(mechanism: object, field: str, at_least: float, below: float) -> None:
    """Keep a field as a float in a range; both ends of it are left out."""
    value = check_real(field, getattr(mechanism, field))
    object.__setattr__(mechanism, field, value)
    if not at_least < value < below:
        raise ValueError(f"{field} must be in ({at_least:g}, {below:g}), got {value}")


@dataclass(frozen=True)
class _Curve:
    """What is released at a cost that no ``mu`` states."""

    kind: ClassVar[str] = ""

    name: str

    @property
    def neighbors(self) -> frozenset[Neighbors] | None:
        """Relations that its guarantee can be about; None for any."""
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """No array leaves under this name: whoever made the release has it."""
        return ()

    @property
    def mu(self) -> float:
        """Infinite: its cost is a curve, which no finite ``mu`` states."""
        return math.inf


@dataclass(frozen=True)
class SubsampledGaussian(_Curve):
    r"""Gaussian mechanisms in turn, each on a Poisson sample of the units.

    Parameters
    ----------
    name : str
        Name of what is released, unique within a plan.
    sampling_probability : float
        Probability q in (0, 1] with which each unit is in a step's sample, by itself.
    noise_multiplier : float
        Standard deviation of a step's noise over its l2-sensitivity to one unit's
        joining the sample or leaving it.
    steps : int, default=1
        Number of steps, each with a sample and noise of its own.
    replaced : bool, default=False
        Whether the guarantee is for a unit that is replaced by another one.

    Notes
    -----
    **Formal guarantee.** For units that join or leave (``"add-remove-one"``) or whose
    contribution becomes zero (``"zero-out-one"``), a step's pair is dominated by
    :math:`(1 - q) N(0, \sigma^2) + q N(1, \sigma^2)` against :math:`N(0, \sigma^2)`
    [1]_; for units that are replaced, by the same against
    :math:`(1 - q) N(0, \sigma^2) + q N(-1, \sigma^2)`
    (:ref:`lemma-sampled-replacement`). Batches that are shuffled, or drawn without
    replacement, have no such guarantee.

    References
    ----------
    .. [1] Zhu, Dong and Wang (2022), Optimal accounting of differential privacy via
       characteristic function, proposition 30.
    """

    kind: ClassVar[str] = "subsampled-gaussian"

    sampling_probability: float
    noise_multiplier: float
    steps: int = 1
    replaced: bool = False

    def __post_init__(self) -> None:
        _set_real(self, "sampling_probability", 0.0, math.nextafter(1.0, 2.0))
        _set_real(self, "noise_multiplier", 0.0, math.inf)
        object.__setattr__(self, "steps", check_count("steps", self.steps))
        if not isinstance(self.replaced, bool):
            raise TypeError(f"replaced must be True or False, got {self.replaced!r}")

    @property
    def neighbors(self) -> frozenset[Neighbors]:
        """Relations that its guarantee is about."""
        if self.replaced:
            return frozenset({Neighbors.REPLACE_ONE})
        return frozenset({Neighbors.ADD_REMOVE_ONE, Neighbors.ZERO_OUT_ONE})

    def describe(self) -> str:
        """Phrase for a report."""
        return (
            f"{self.name!r} ({self.steps} steps of Gaussian noise, of "
            f"{self.noise_multiplier:g} times the sensitivity, on Poisson samples of "
            f"rate {self.sampling_probability:g})"
        )


@dataclass(frozen=True)
class PrivateSelection(_Curve):
    r"""The best of a secret, random number of runs of Gaussian mechanisms.

    Parameters
    ----------
    name : str
        Name of what is released, unique within a plan.
    run_mu : float
        Cost of one run, with the score that it is compared by, in Gaussian
        differential privacy.
    law : {"truncated-negative-binomial", "poisson"}
        Law of the number K of runs.
    eta : float, default=0.0
        Shape of the truncated negative binomial law, above -1; 0 is the logarithmic
        law, 1 the geometric one. Left at 0 for a Poisson law.
    gamma : float or None, default=None
        Parameter of the truncated negative binomial law, in (0, 1); K is the larger the
        smaller it is. None for a Poisson law.
    mean : float or None, default=None
        Mean of a Poisson law, positive; None for the other one.

    Notes
    -----
    **Formal guarantee.** The run with the best score is released, and nothing else: not
    K, and of no other run anything. Its Renyi divergences are bounded as by Papernot
    and Steinke [1]_, theorems 2 and 6.

    References
    ----------
    .. [1] Papernot and Steinke (2022), Hyperparameter tuning with Renyi differential
       privacy.
    """

    kind: ClassVar[str] = "private-selection"

    run_mu: float
    law: str = TRUNCATED_NEGATIVE_BINOMIAL
    eta: float = 0.0
    gamma: float | None = None
    mean: float | None = None

    def __post_init__(self) -> None:
        _set_real(self, "run_mu", 0.0, math.inf)
        _set_real(self, "eta", -1.0, math.inf)
        if self.law == TRUNCATED_NEGATIVE_BINOMIAL:
            _set_real(self, "gamma", 0.0, 1.0)
            unused = self.mean is not None
        elif self.law == POISSON:
            _set_real(self, "mean", 0.0, math.inf)
            unused = self.gamma is not None or self.eta != 0.0
        else:
            known = (TRUNCATED_NEGATIVE_BINOMIAL, POISSON)
            raise ValueError(f"law must be one of {known}, got {self.law!r}")
        if unused:
            raise ValueError(
                "eta and gamma are of a truncated negative binomial law, mean is of a "
                f"Poisson law: leave out what is not of {self.law!r}"
            )

    @property
    def expected_runs(self) -> float:
        """Mean of the number K of runs."""
        if self.mean is not None:
            return self.mean
        assert self.gamma is not None
        log_gamma = math.log(self.gamma)
        if self.eta == 0.0:
            return (1.0 - self.gamma) / (self.gamma * -log_gamma)
        grown = -math.expm1(self.eta * log_gamma)  # 1 - gamma**eta
        return self.eta * (1.0 - self.gamma) / (self.gamma * grown)

    def describe(self) -> str:
        """Phrase for a report."""
        law = f"Poisson law of mean {self.mean}"
        if self.mean is None:
            law = f"truncated negative binomial law of eta {self.eta:g}"
            law += f", gamma {self.gamma:g}"
        return (
            f"{self.name!r} (the best of K runs of mu = {self.run_mu:.6g} each; K is "
            f"secret, by a {law}, and {self.expected_runs:.4g} on average)"
        )


@dataclass(frozen=True)
class ApproximateDP(_Curve):
    """Any mechanism of which no more is known than an (epsilon, delta) pair.

    Parameters
    ----------
    name : str
        Name of what is released, unique within a plan.
    epsilon : float
        At least 0, and finite.
    delta : float
        In [0, 1).
    """

    kind: ClassVar[str] = "approximate-dp"

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        below_zero = math.nextafter(0.0, -1.0)
        _set_real(self, "epsilon", below_zero, math.inf)
        _set_real(self, "delta", below_zero, 1.0)

    def describe(self) -> str:
        """Phrase for a report."""
        return (
            f"{self.name!r} (known to be ({self.epsilon:g}, {self.delta:g})-"
            "differentially private)"
        )


CURVES = (SubsampledGaussian, PrivateSelection, ApproximateDP)
Curve = SubsampledGaussian | PrivateSelection | ApproximateDP
