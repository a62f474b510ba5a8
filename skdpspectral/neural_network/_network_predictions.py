"""Networks of users and what is made of them: the users' side of the billboard."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._linalg.neural_network import Layout
from .._tables.targets import check_targets
from .._tables.users import read_users
from ._network_choices import Shape, rules_of, solver_of
from ._network_models import NetworkModels, shared_predictions
from ._shapes import target_box
from ._user_fits import fit_users


class PersonalNetworks:
    """What an estimator of one network a user offers its users."""

    def _models(self) -> NetworkModels:
        empty = NetworkModels.empty(len(self.components_), len(self.prompt_))
        return getattr(self, "_personal", empty)

    def _fitted_layout(self) -> Layout:
        return Layout(tuple(int(size) for size in self.layer_sizes_))

    def predict(self, X, *, users=None):
        """Predict every row by the network of its user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Columns as in fit.
        users : array-like of shape (n_rows,) or None, default=None
            Ids, of the type that was given to fit.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions; only a user may see those of their own network.

        Raises
        ------
        ValueError
            If users are missing though fit had them, if their type is another one,
            or, with ``unknown_user="raise"``, if one was not in the fit.
        """
        check_is_fitted(self)
        table = self._read_like_fit(X, users)
        codes, layout = self._codes_of(table), self._fitted_layout()
        U = np.ascontiguousarray(self.components_.T)
        unknown = np.flatnonzero(codes < 0)
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            found = self._models().predict(table, codes, U, layout)
            if len(unknown):
                found[unknown] = shared_predictions(
                    table.features(unknown),
                    self._shared_network(),
                    self.prompt_,
                    layout,
                )
            return self.target_center_ + self.target_scale_ * found

    def _read_like_fit(self, X, users):
        table = read_users(self, X, users, self.user_feature, reset=False)
        n_features = int(self.layer_sizes_[0]) - len(self.prompt_)
        if table.n_features != n_features:
            raise ValueError(
                f"X has {table.n_features} features beside users, and fit had "
                f"{n_features}: user_feature was changed since"
            )
        return table

    def _units_of_fit(self) -> tuple[float, float]:
        units = self.target_center_, self.target_scale_
        if self.target_bounds is not None:
            middles, halves = target_box(self.target_bounds, 1)
            if (middles[0], halves[0]) != units:
                raise ValueError(
                    f"target_bounds={self.target_bounds!r} are not those of the fit, "
                    "which the units of the shared weights are from: set them to "
                    "those, or fit anew"
                )
        return units

    def _shared_network(self) -> np.ndarray:
        whole = np.zeros(self.components_.shape[1])
        for weight, direction in zip(self.weights_, self.components_, strict=True):
            whole += weight * direction
        return whole

    def get_network(self, user=None):
        """Return the layers of one user's network, for that user alone.

        Parameters
        ----------
        user : hashable or None, default=None
            Id; None for the only user of a fit without users.

        Returns
        -------
        coefs, intercepts : list of ndarray
            Of shapes (n_inputs, n_outputs) and (n_outputs,), one a layer, of which the
            first takes the user's own features behind those of rows, and the last gives
            targets less :meth:`get_intercept`, over `target_scale_`; those of the
            shared network if the user is unknown.

        Raises
        ------
        ValueError
            If the user is unknown and ``unknown_user="raise"``, or the id is missing
            or of another type.
        """
        code, whole = self._code_of(user), self._shared_network()
        if code >= 0:
            U = np.ascontiguousarray(self.components_.T)
            whole = self._models().whole_weights(code, U)
        layers = self._fitted_layout().layers(whole)
        return [layer[:-1].copy() for layer in layers], [
            layer[-1].copy() for layer in layers
        ]

    def get_prompt(self, user=None):
        """Return the features of one user's own, as :meth:`get_network` the layers."""
        code = self._code_of(user)
        return (self.prompt_ if code < 0 else self._models().prompts[code]).copy()

    def get_intercept(self, user=None):
        """Return what one user's network is added to, in the units of the targets."""
        code = self._code_of(user)
        level = 0.0 if code < 0 else float(self._models().levels[code])
        return self.target_center_ + self.target_scale_ * level

    def personalize(self, X, y, user=None, *, users=None):
        """Train networks of some users beside the shared weights, and store them.

        Works on a published copy too, so that users can do it where their rows are.
        Networks that were stored for these users are replaced; no other changes, and no
        budget is spent.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            All rows of one or more users, with the columns of fit.
        y : array-like of shape (n_rows,)
            Their targets.
        user : hashable or None, default=None
            Id of the one user of all rows. None takes `users`, or the column
            `user_feature`; without users in fit it stands for the only one.
        users : array-like of shape (n_rows,) or None, default=None
            Ids of the rows' users, new or known.

        Returns
        -------
        self : object
            The estimator, which predicts for these users from now on.

        Raises
        ------
        ValueError
            If X or y is invalid, the rows are not those of `user`, or `target_bounds`
            were changed since the fit.

        See Also
        --------
        skdpspectral.linear_model.personalize : The same through a pipeline.
        """
        check_is_fitted(self)
        # Each on its own: what suits no fit may suit a user.
        super()._check_parameters()
        table = self._read_like_fit(X, users)
        y = check_targets(self, y, len(table.X))
        index = self._users_to_fit(table, user)
        rows = self._user_rows(table, y, index, self._units_of_fit())
        shape = Shape(self._fitted_layout(), len(self.components_), len(self.prompt_))
        rules = rules_of(self, shape, solver_of(self))
        U = np.ascontiguousarray(self.components_.T)
        fitted = fit_users(rows, U, rules, self.n_jobs)
        self._personal = self._models().updated(NetworkModels.fitted(*fitted, index))
        self._users_given = index is not None
        return self
