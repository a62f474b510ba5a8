"""What private estimators share: budget, plan, release, and what may be handed on."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import warnings
from numbers import Integral, Real
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._release import Release
from ._sklearn_compat import Interval
from .accounting import (
    MIN_DELTA,
    PrivacyAccountant,
    PrivacyLeakWarning,
    default_accountant,
    gaussian_mu,
)
from .mechanisms import PrivacyPlan

_FORMAT = 1


class PrivateEstimator(BaseEstimator):
    """Base of every estimator whose fit spends a privacy budget.

    A subclass offers ``privacy_plan`` from public arguments alone, and a ``fit``
    that passes its plan to :meth:`_start_release` before it reads the data.
    """

    _privacy_constraints: ClassVar[dict] = {
        "epsilon": [Interval(Real, 0, None, closed="right"), None],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "accountant": [PrivacyAccountant, None],
        "allow_seeded": ["boolean"],
        "random_state": ["random_state"],
    }

    # -- the way of a fit --------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check constructor parameters on their own, at no cost."""
        for name, value in self.get_params(deep=False).items():
            boolean = "boolean" in self._parameter_constraints.get(name, [])
            if isinstance(value, (bool, np.bool_)) and not boolean:
                raise ValueError(f"{name} must not be a boolean, got {value!r}")
        self._validate_params()
        if self.delta < MIN_DELTA:
            raise ValueError(
                f"delta={self.delta!r} is below {MIN_DELTA:g}, which float64 noise "
                "cannot honour; choose a larger delta, well below one over the number "
                "of samples"
            )

    def _is_private(self) -> bool:
        return self.epsilon is not None and math.isfinite(self.epsilon)

    def _budget(self) -> tuple[float, float]:
        """Return (epsilon, mu); both infinite where privacy is opted out."""
        if not self._is_private():
            return math.inf, math.inf
        return float(self.epsilon), gaussian_mu(float(self.epsilon), float(self.delta))

    def _start_release(self, plan: PrivacyPlan, n_public: int | None = None) -> Release:
        """Warn of what can be said beforehand, then charge the plan."""
        if not self._is_private():
            warnings.warn(
                f"epsilon={self.epsilon}: {type(self).__name__} is fitted without "
                "privacy; its attributes reveal the data",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        elif n_public is not None and self.delta >= 1.0 / n_public:
            warnings.warn(
                f"delta={self.delta:g} is at least 1 / n_samples = {1 / n_public:g}: "
                "that would allow publishing whole rows at random; choose a smaller "
                "delta",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        accountant = self.accountant if self.accountant is not None else self._ambient()
        return Release(
            plan, accountant, self.random_state, allow_seeded=self.allow_seeded
        )

    @contextlib.contextmanager
    def _unchanged_on_error(self):
        """Leave the estimator as it was if a fit fails."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # -- the ledger follows the estimator into worker processes -----------------

    def _ambient(self) -> PrivacyAccountant | None:
        """Return the accountant of a ``with`` block, here or where it was pickled."""
        return default_accountant() or getattr(self, "_ambient_accountant", None)

    def __getstate__(self):
        state = super().__getstate__()
        ambient = self._ambient()
        if ambient is not None and self.accountant is None:
            state = {**state, "_ambient_accountant": ambient}
        return state

    def __sklearn_clone__(self):
        clone = super().__sklearn_clone__()
        if hasattr(self, "_ambient_accountant"):
            clone._ambient_accountant = self._ambient_accountant
        return clone

    # -- what may be handed on ---------------------------------------------------

    def _public_state(self) -> dict:
        """Return fitted attributes, all of them public or released."""
        return {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and not name.startswith("_")
        }

    def publish(self):
        """Return a copy that holds releases and plan alone, safe to hand on.

        The copy has neither accountant nor seed. It transforms and predicts like
        the original, and :meth:`save` writes it as plain arrays and JSON.

        Returns
        -------
        estimator
            A fitted estimator of the same class.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Warns
        -----
        PrivacyLeakWarning
            If the fit was not private.
        """
        check_is_fitted(self)
        if not self.privacy_.private:
            warnings.warn(
                f"this {type(self).__name__} is not private: {self.privacy_}",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        parameters = self.get_params(deep=False)
        parameters.update(accountant=None, random_state=None)
        published = type(self)(**copy.deepcopy(parameters))
        published.__dict__.update(copy.deepcopy(self._public_state()))
        return published

    def save(self, path) -> None:
        """Write what :meth:`publish` gives as an ``.npz`` file of arrays and JSON.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing one is replaced.
        """
        published = self.publish()
        arrays, plain = {}, {}
        for name, value in published._public_state().items():
            if isinstance(value, np.ndarray):
                arrays[name] = np.asarray(
                    value, dtype=str if value.dtype == object else None
                )
            elif name != "privacy_":
                plain[name] = value
        header = {
            "format": _FORMAT,
            "estimator": type(self).__name__,
            "parameters": published.get_params(deep=False),
            "attributes": plain,
            "privacy": published.privacy_.to_dict(),
        }
        text = json.dumps(header, default=_plain)
        with open(Path(path), "wb") as file:
            np.savez(file, header=np.array(text), **arrays)

    @classmethod
    def load(cls, path):
        """Read an estimator that :meth:`save` wrote; nothing is unpickled.

        Parameters
        ----------
        path : str or path-like
            File to read.

        Returns
        -------
        estimator
            A fitted estimator of this class.

        Raises
        ------
        ValueError
            If the file is not a published estimator of this class.
        """
        try:
            with np.load(Path(path), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            fits = (header["format"], header["estimator"]) == (_FORMAT, cls.__name__)
        except (KeyError, TypeError, ValueError, EOFError) as error:
            raise ValueError(f"path: {path} is no published estimator") from error
        if not fits:
            raise ValueError(
                f"path: {path} holds a {header['estimator']} in format "
                f"{header['format']}, not a {cls.__name__} in format {_FORMAT}"
            )
        estimator = cls(**header["parameters"])
        for name, value in arrays.items():
            arrays[name] = value.astype(object) if value.dtype.kind == "U" else value
        estimator.__dict__.update(arrays, **header["attributes"])
        estimator.privacy_ = PrivacyPlan.from_json(json.dumps(header["privacy"]))
        return estimator


def _plain(value):
    """Turn numpy values into what JSON can hold."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be published as JSON")


def check_public_size(name: str, value) -> int:
    """Return a public count as an int, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)
