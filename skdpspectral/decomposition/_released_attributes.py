"""Released components as attributes in units of the data, and what to know of them."""

from __future__ import annotations

import warnings

import numpy as np

from ._spiked_covariance import SpikedCovarianceMixin


class ReleasedAttributesMixin(SpikedCovarianceMixin):
    """Turns what a fit has released into public attributes, and warns by them."""

    def _set_components(self, bounds, found) -> None:
        """Turn released components into public attributes, in units of the data."""
        self.components_ = found.vectors
        self.explained_variance_ = found.values * found.unit**2
        self.explained_variance_ratio_ = found.values / found.total
        self.mean_ = bounds.to_data_units(found.mean)
        self.scale_ = None if bounds.scale is None else bounds.box.unit.copy()
        self.n_components_ = len(found.vectors)
        self.components_above_noise_ = found.above_noise
        for name in ("noise_variance_", "covariance_"):
            vars(self).pop(name, None)
        if found.noise is not None:
            self.noise_variance_ = float(found.noise * found.unit**2)
        if found.covariance is not None:
            units = self._feature_units() * found.unit
            self.covariance_ = found.covariance * np.outer(units, units)

    def _set_units(self, law) -> None:
        """Turn values of scaled rows into those of the data."""
        vars(self).pop("unseen_features_", None)
        if law is not None:
            mean = law.center if law.mean is None else law.mean
            self.mean_ = mean + law.scale * np.where(law.seen, self.mean_, 0.0)
            self.scale_, self.unseen_features_ = law.scale, ~law.seen

    def _warn_of_noise(self) -> None:
        """Say of released eigenvalues that noise alone might have made them."""
        if self.components_above_noise_ < self.n_components_:
            unseen = np.sum(getattr(self, "unseen_features_", False))
            because = ""
            if unseen:
                because = f", which hides {unseen} of {self.n_features_in_} features"
            warnings.warn(
                f"{self.components_above_noise_} of {self.n_components_} components "
                f"stand out of the noise of this fit{because}: the others may be noise "
                "alone. Ask for fewer components, or give more rows or a larger "
                "epsilon",
                UserWarning,
                stacklevel=3 + self._levels_around_fit,
            )

    def _warn_of_no_mean(self, found) -> None:
        """Say of pairs whose covariance is known that no mean is, to measure from."""
        if found.mean is None and found.noise is not None:
            warnings.warn(
                "no mean was released, as rows were compared in pairs: mean_ is the "
                "origin, or the midpoint of bounds, and mahalanobis, score_samples and "
                'inverse_transform measure from there; center="private" releases one',
                UserWarning,
                stacklevel=3 + self._levels_around_fit,
            )
