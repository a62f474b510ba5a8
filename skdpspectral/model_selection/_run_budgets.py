"""What one run of a search may cost: its fits, and its score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..accounting import calibrate_gaussian, calibrate_selection, gaussian_epsilon
from ..mechanisms import (
    Gaussian,
    Neighbors,
    PrivacyPlan,
    PrivateSelection,
    Unit,
)

_REMARKS = (
    "How many runs there were, and all of them but the best, stay secret; how long the "
    "search takes tells of their number, and is for its owner alone.",
)


@dataclass(frozen=True)
class Exposure:
    """How often what is protected is fitted on and held out in one run.

    Parameters
    ----------
    n_times : int
        Largest number of folds that hold out one row.
    pairs : tuple of tuple (int, int)
        The pairs (fits on it, folds that hold it out) that there are.
    """

    n_times: int
    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def of_rows(
        cls, splits: Sequence[tuple[np.ndarray, np.ndarray]], n_rows: int
    ) -> Exposure:
        """Return that of rows, which splits deal by position."""
        trained, tested = np.zeros((2, n_rows), dtype=np.intp)
        for train, test in splits:
            trained[train] += 1
            tested[test] += 1
        pairs = np.unique(np.stack([trained, tested], axis=1), axis=0)
        return cls(
            int(tested.max()), tuple((int(fits), int(folds)) for fits, folds in pairs)
        )

    @classmethod
    def of_users(cls, n_splits: int) -> Exposure:
        """Return that of a user who may be in every part of every split.

        A user's contributions to a score are averaged over all folds first.
        """
        return cls(1, ((n_splits, 1),))

    def costs(self, mu: float, score_share: float) -> tuple[float, float]:
        r"""Split the cost of a run between each of its fits and its score.

        Parameters
        ----------
        mu : float
            Cost of a run.
        score_share : float
            Share of :math:`\mu^2` of the score, where the same rows pay for both.

        Returns
        -------
        mu_fit, mu_score : float
            For all pairs (t, m), :math:`t \mu_{fit}^2 + (m / n_{times})^2 \mu_{score}^2
            \le \mu^2`.
        """
        # What a fit may cost, by those who pay for it alone, and by those who do not.
        fit = min(
            (1.0 - score_share * bool(folds)) / fits
            for fits, folds in self.pairs
            if fits
        )
        score = min(
            (1.0 - fits * fit) * (self.n_times / folds) ** 2
            for fits, folds in self.pairs
            if folds
        )
        return mu * math.sqrt(fit), mu * math.sqrt(score)


@dataclass(frozen=True)
class RunBudgets:
    """Costs of a run, of a budget for all.

    Parameters
    ----------
    selection : PrivateSelection
        What is released, with the cost of one run.
    mu_fit, mu_score : float
        Costs of each fit, and of the score, of a run.
    refit : Gaussian or None
        What stands for a last fit on all rows.
    """

    selection: PrivateSelection
    mu_fit: float
    mu_score: float
    refit: Gaussian | None

    @classmethod
    def within(
        cls,
        epsilon: float,
        delta: float,
        exposure: Exposure,
        *,
        expected_n_iter: float,
        law: str,
        score_share: float,
        refit: bool,
    ) -> RunBudgets:
        """Return the largest costs within a budget.

        A last fit on all rows costs what a fit of a run does.
        """
        selection = calibrate_selection(
            "best",
            epsilon,
            delta,
            expected_n_iter,
            law=law,
            beside=(lambda mu: exposure.costs(mu, score_share)[0]) if refit else None,
        )
        mu_fit, mu_score = exposure.costs(selection.run_mu, score_share)
        last = calibrate_gaussian("refit", 1.0, mu_fit, (1,)) if refit else None
        return cls(selection, mu_fit, mu_score, last)

    def fit_epsilon(self, delta: float) -> float:
        """Return what one fit may ask for."""
        return gaussian_epsilon(self.mu_fit, delta)

    def mechanisms(self) -> tuple[Any, ...]:
        """Return what is charged."""
        return (self.selection,) if self.refit is None else (self.selection, self.refit)

    def plan(
        self,
        epsilon: float,
        delta: float,
        *,
        estimator: str,
        relation: tuple[Unit, Neighbors],
        seeded: bool,
    ) -> PrivacyPlan:
        """Return the plan of a whole search."""
        said = [
            f"Each fit of a run may cost epsilon = {self.fit_epsilon(delta):.6g} at "
            f"delta = {delta:g} (mu = {self.mu_fit:.6g}), and its score mu = "
            f"{self.mu_score:.6g}."
        ]
        if self.refit is not None:
            said.append("'refit' stands for all releases of a last fit on all rows.")
        unit, neighbors = relation
        return PrivacyPlan(
            epsilon,
            delta,
            self.mechanisms(),
            estimator=estimator,
            unit=unit,
            neighbors=neighbors,
            seeded=seeded,
            remarks=(*said, *_REMARKS),
        )
