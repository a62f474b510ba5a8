"""What of a fitted estimator may be handed on: releases and plan, without pickles."""

from __future__ import annotations

import copy
import json
import warnings
import zipfile
import zlib

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..accounting import PrivacyLeakWarning
from ..mechanisms._parallel_plan import read_plan
from .strategies import json_default, read_plain

_FORMAT = 1
# Parameters that may be dictionaries: budgets and weights of clients.
_BY_CLIENT = {"epsilon", "delta", "weights"}
# What a file that is damaged, or no published estimator at all, may raise.
_WRONG = (AttributeError, EOFError, KeyError, TypeError, ValueError)
_UNREADABLE = (*_WRONG, zipfile.BadZipFile, zlib.error)


class Publishable(BaseEstimator):
    """Base of estimators whose fitted attributes are all public or released."""

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
        the original, and :meth:`save` writes it as plain arrays and JSON. (A pickle
        made inside an accountant's ``with`` block names that ledger's file, so that
        a fit in another process is charged; :meth:`save` never does.)

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
        parameters.update(accountant=None, noise_seed=None)
        published = type(self)(**copy.deepcopy(parameters))
        published.__dict__.update(copy.deepcopy(self._public_state()))
        published.__dict__.pop("_made_in", None)
        if hasattr(self, "_sklearn_output_config"):  # set_output(transform=...)
            published._sklearn_output_config = dict(self._sklearn_output_config)
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
            "output": getattr(self, "_sklearn_output_config", None),
        }
        text = json.dumps(header, default=json_default)
        with open(path, "wb") as file:
            np.savez(file, header=np.array(text), **arrays)  # type: ignore[arg-type]

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
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(str(arrays.pop("header")))
            found = (header["estimator"], header["format"])
            if found == (cls.__name__, _FORMAT):
                return cls._from_parts(header, arrays)
        except _UNREADABLE as error:
            raise ValueError(
                f"path: {path} is no published estimator; save one with "
                "estimator.save(path), as .npz"
            ) from error
        raise ValueError(
            f"path: {path} holds a {found[0]} in format {found[1]}, not a "
            f"{cls.__name__} in format {_FORMAT}"
        )

    @classmethod
    def _from_parts(cls, header: dict, arrays: dict):
        """Rebuild an estimator from what :meth:`save` wrote."""
        parameters = header["parameters"]
        for name in parameters.keys() - _BY_CLIENT:
            parameters[name] = read_plain(parameters[name])
        estimator = cls(**parameters)
        for name, value in arrays.items():
            arrays[name] = value.astype(object) if value.dtype.kind == "U" else value
        estimator.__dict__.update(arrays, **header["attributes"])
        if header["output"] is not None:  # set_output(transform=...)
            estimator._sklearn_output_config = header["output"]
        estimator.privacy_ = read_plan(json.dumps(header["privacy"]))
        return estimator
