"""What private estimators share: budget, plan, release, and what they publish."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import io
import json
import math
import pickle
import traceback
import types
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._linalg.walks import blas_threads
from .._release.noise import Coins, NoiseSeed, Release
from .._tables.columns import UserDraw, UserRows
from .._tables.table import rows_at, table_shape, users_of_rows
from ..accounting import NoisyFitWarning, PrivacyAccountant, PrivacyLeakWarning
from ..accounting._errors import warn
from ..accounting._gaussian import check_delta
from ..accounting._ledger import context
from ..accounting._ledger.planned_fits import StepShare
from ..mechanisms import Concern, PrivacyPlan, Remark, Unit, check_count, check_real
from ..mechanisms._plan import has_budget
from .documented import documented
from .sklearn_compat import CALLBACK_ATTRIBUTES, Interval, parameter_names
from .strategies import check_values, is_strategy, json_default, read_plain

# Types of constructors and fits.
Seed = NoiseSeed
if TYPE_CHECKING:
    from typing_extensions import Self
else:
    Self = Any  # typing has it from Python 3.11 on

_Method = TypeVar("_Method", bound=Callable[..., Any])

_FORMAT = 2

# Parameters that may be dictionaries: budgets and weights of clients, and categories.
_BY_NAME = {"epsilon", "delta", "weights", "categories"}

# Kept by reference in what is handed on.
_SHARED = (type, types.BuiltinFunctionType, types.FunctionType)

# What a file that is damaged, or no published estimator at all, may raise.
_WRONG = (AttributeError, EOFError, KeyError, TypeError, ValueError)

_UNREADABLE = (*_WRONG, zipfile.BadZipFile, zlib.error)


def published_copy(value):
    """Return a deep copy in which each private estimator is published.

    Unfitted ones, and private scorers, lose their accountant and seed; ledgers become
    None.
    """
    buffer, kept = io.BytesIO(), []
    _Copier(buffer, kept).dump(value)
    buffer.seek(0)
    reader = pickle.Unpickler(buffer)
    reader.persistent_load = kept.__getitem__  # type: ignore[method-assign]
    return reader.load()


class _Copier(pickle.Pickler):
    """Pickler that writes public objects, and collects replacements of private ones."""

    def __init__(self, buffer: io.BytesIO, kept: list) -> None:
        super().__init__(buffer, protocol=5)
        self._kept = kept
        self._places: dict[int, tuple[int, object]] = {}

    def persistent_id(self, obj):
        """Return the index of an object that is replaced; None for others."""
        if isinstance(obj, _SHARED):
            return self._place_of(obj, lambda: obj)
        # Of its class: some estimators have all attributes of one in them.
        if hasattr(type(obj), "_published_copy"):
            return self._place_of(obj, obj._published_copy)
        if isinstance(obj, PrivacyAccountant):
            return self._place_of(obj, lambda: None)
        if is_strategy(obj):  # its parameters, and nothing else that it may hold
            return self._place_of(obj, lambda: clone(obj))
        if isinstance(obj, BaseEstimator) and vars(obj).keys() & CALLBACK_ATTRIBUTES:
            unheard = copy.copy(obj)
            for name in vars(obj).keys() & CALLBACK_ATTRIBUTES:
                delattr(unheard, name)
            return self._place_of(obj, lambda: published_copy(unheard))
        return None

    def _place_of(self, obj, make) -> int:
        # The object is kept along with its id, which no other object gets meanwhile.
        if id(obj) not in self._places:
            self._kept.append(make())
            self._places[id(obj)] = (len(self._kept) - 1, obj)
        return self._places[id(obj)][0]


class OutputUnits(NamedTuple):
    """Public facts about the standardized output of a fitted step.

    `limits`, of shape (2, n_columns), are equal for a constant column; `square` is the
    mean squared length of rows; `blocks` the one-hot block of each column, -1 for none.
    """

    limits: np.ndarray
    square: float
    blocks: np.ndarray


@documented
class PrivateEstimator(BaseEstimator):
    """Base class of all estimators whose fit spends a privacy budget.

    Subclasses provide ``privacy_plan``, which uses public arguments only, ``plan_for``,
    which uses the form of the rows, and ``fit``, which checks parameters and form, and
    calls :meth:`_start_release`: it charges the plan before it reads values.
    """

    # Constructor parameters that may be arrays or lists.
    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds",)

    _privacy_constraints: ClassVar[dict] = {
        "epsilon": [Interval(Real, 0, None, closed="right"), None],
        "delta": [Real],
        "accountant": [PrivacyAccountant, None],
        "noise_seed": ["random_state"],
    }

    # Parameters that count rows of a table: on a part of them they are scaled.
    _counts_rows: ClassVar[tuple[str, ...]] = ()
    # Whether a step of a pipeline can be given its noise in place of its epsilon.
    _takes_noise_multiplier: ClassVar[bool] = False
    # What to save instead of an estimator that is made of others; empty for others.
    _saved_instead: ClassVar[str] = ""
    # What a private pipeline pays for this step, while it is fitted.
    _step_share: StepShare | None = None
    # What a fit of a search may cost, for which the search was charged.
    _fit_limit: Any = None
    # Why there is no fit of one row of each user, and what to do.
    _why_no_users: ClassVar[str] = "does not accept users: name their columns"
    # Users of the rows of a fit that has begun; None if rows are protected.
    _users: UserRows | None = None

    _get_param_names: ClassVar[Any] = classmethod(parameter_names)  # type: ignore[arg-type]

    def set_params(self, **params):
        for key in params:
            name, nested, _ = key.partition("__")
            value = params.get(name, getattr(self, name, None))
            if nested and isinstance(value, str):
                raise ValueError(
                    f"{key} cannot be set: {name}={value!r} has no parameters; set "
                    f"{name} to an object that has them first"
                )
        return super().set_params(**params)

    def __new__(cls, *args, **kwargs):
        """Note the open ``with`` block, which a worker thread would not see."""
        estimator = super().__new__(cls)
        noted = context.block_at_hand()
        if noted is not None:
            estimator._made_in = noted
        return estimator

    # -- the way of a fit --------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check constructor parameters individually, without a charge."""
        check_values(self)
        if getattr(self, "n_jobs", None) == 0:
            raise ValueError("n_jobs must be None or a number of threads, not 0")
        self._check_budget()

    def _check_budget(self) -> None:
        """Refuse budgets that float64 noise cannot honor."""
        if self._is_private():
            check_real("epsilon", self.epsilon)
        check_delta(self.delta)

    def _own_share(self) -> StepShare | None:
        """Return the share of the pipeline that is being fitted; None outside."""
        share = self._step_share
        return share if share is not None and share.is_open else None

    def _output_units(self) -> OutputUnits | None:
        """Return public or released facts about a fitted step's output, if any."""
        return None

    def _input_units(self) -> OutputUnits | None:
        """Return facts of the step before; errors of it cost accuracy alone."""
        share = self._own_share()
        step = None if share is None else share.before
        return step._output_units() if hasattr(step, "privacy_") else None

    def _is_private(self) -> bool:
        share = self._own_share()
        if share is not None:
            return math.isfinite(share.epsilon)
        real = isinstance(self.epsilon, Real)  # a fit refuses what is not, but None
        return self.epsilon != math.inf if real else self.epsilon is not None

    def _unprotected(self) -> str | None:
        """Return which private values these parameters treat as public, or None."""
        return None

    def _given_noise(self) -> str | None:
        """Return the parameter that sets the noise instead of `epsilon`, or None."""
        return None

    def _was_private(self) -> bool:
        """Return whether the last fit had a budget, also if it released nothing."""
        return has_budget(self.privacy_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self._is_private() and self.noise_seed is None
        return tags

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        {plan_of_rows}
        """
        n_samples, n_features = table_shape(X)
        users = self._users_at_hand()
        n_units = n_samples if users is None else len(users)
        return self.privacy_plan(n_units, n_features)

    def _budget_of_fit(self) -> tuple[float, float]:
        """Return epsilon and delta of one fit; infinite epsilon without privacy."""
        share = self._own_share()
        if share is not None:
            return share.epsilon, share.delta
        epsilon = float(self.epsilon) if self._is_private() else math.inf
        return epsilon, float(self.delta)

    def _planned(self, statistic, *, in_fit=False, **relation) -> PrivacyPlan:
        """Return the plan of a statistic within the budget of one fit.

        Caveats from public numbers are remarks, and warnings `in_fit`.
        """
        epsilon, delta = self._budget_of_fit()
        named = {
            "estimator": type(self).__name__,
            "seeded": self.noise_seed is not None,
        }
        by_user = self._users_at_hand() is not None and not relation
        if by_user:
            relation = {"unit": Unit.USER}
        plan = statistic.plan(epsilon, delta, **named, **relation)
        caveats = (*statistic.caveats(plan), *self._caveats(statistic, plan))
        if in_fit:
            for caveat in caveats:
                warn(caveat, NoisyFitWarning)
        sentences = (f"{said[:1].upper()}{said[1:].rstrip('.')}." for said in caveats)
        remarks = [Remark(sentence, Concern.NOISE) for sentence in sentences]
        if math.isfinite(epsilon) and (leak := self._unprotected()) is not None:
            remarks += [Remark(f"Its guarantee is void: {leak}.", Concern.LEAK)]
        remarks = [*plan.remarks, *remarks]
        return replace(plan, remarks=tuple(remarks), one_row_each=by_user)

    def _warn_of_unseen(self, become: str, remedy="pass public bounds") -> None:
        """Warn how many features noise hides, by the released mask."""
        count, p = int(self.unseen_features_.sum()), len(self.unseen_features_)
        if count and self._is_private():
            warn(
                f"noise hides {count} of {p} features at this budget, and {become}: "
                f"see unseen_features_. Use more rows, fewer features or a larger "
                f"epsilon, or {remedy}; drop features that are constant",
                NoisyFitWarning,
            )

    def _caveats(self, statistic, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return further caveats of a fit, from public numbers."""
        return ()

    def _users_at_hand(self) -> UserRows | None:
        """Return the users of the rows that are fitted, or those of the pipeline."""
        share = self._own_share()
        return self._users if share is None else share.users

    def _by_user(self, unread, users):
        """Return the form of one row of each user, if `users` or a pipeline has ids."""
        if users is not None:
            self._users = users_of_rows(users, unread.shape[0])
        self._users = users = self._users_at_hand()
        if users is None:
            return unread
        if users.n_rows != unread.shape[0]:
            raise RuntimeError("a step before has dropped rows, whose users are lost")
        return unread.of_users(len(users))

    def _start_release(
        self,
        plan: PrivacyPlan,
        *unread,
        n_public: int | None = None,
        kind=Release,
        all_rows: bool = False,
    ) -> tuple:
        """Issue early warnings, charge the plan, then read the data.

        Values of `unread` are checked after the charge. Returns the release and the
        data: one row of each user, if there are users, unless `all_rows` are asked for.
        """
        share, accountant = self._own_share(), None
        users = self.__dict__.pop("_users", None)
        if share is not None:  # the pipeline has warned of it, and was charged
            share.claim(plan, n_public)
        else:
            self._warn_beforehand(n_public, self.delta)
            self._warn_of_weaker(plan, self.epsilon)
            if self._fit_limit is not None:  # which streams are not entered into
                self._fit_limit.charge(plan)
            else:
                accountant = self._governing_accountant()
        release = kind(plan, accountant, self.noise_seed)
        read = list(map(methodcaller("read"), unread))
        if users is not None and not all_rows:
            places = UserDraw(users, Coins(self.noise_seed)).rows()
            read = [rows_at(rows, places) for rows in read]
        return release, *read

    def _warn_beforehand(self, n_public: int | None, delta: float) -> None:
        """Warn if a fit is not private or seeded, or delta is too large."""
        if not self._is_private():
            warn(
                f"epsilon={self.epsilon}: {type(self).__name__} is fitted without "
                "privacy; its attributes reveal the data",
                PrivacyLeakWarning,
            )
            return
        if self.noise_seed is not None:
            warn(
                f"noise_seed is given: the noise of {type(self).__name__} can be "
                "reproduced and subtracted, so this fit is not private; leave "
                "noise_seed=None except in tests",
                PrivacyLeakWarning,
            )
        if n_public is not None and delta >= 1.0 / n_public:
            warn(
                f"delta={delta:g} is at least 1 / n_samples = {1 / n_public:g}: "
                "that would allow publishing whole rows at random; choose a smaller "
                "delta",
                PrivacyLeakWarning,
            )

    def _warn_of_weaker(self, plan: PrivacyPlan, epsilon) -> bool:
        """Warn, and return True, if a plan claims less than was requested."""
        if epsilon is None or not plan.epsilon > epsilon:
            return False
        warn(
            f"{type(self).__name__} is private with epsilon={plan.epsilon:.4g}, not "
            f"{epsilon:g}: this is the guarantee of the noise that its parameters set",
            PrivacyLeakWarning,
        )
        return True

    def _set_source(self, limit, seed) -> None:
        """Set what a fit of a search may cost, and its noise seed."""
        self.set_params(noise_seed=seed)
        self._fit_limit = limit

    def _governing_accountant(self):
        """Return the limit of a search, the own accountant, or that of a block."""
        if self._fit_limit is not None:
            return self._fit_limit
        if self.accountant is not None:
            return self.accountant
        return context.ambient_accountant(getattr(self, "_made_in", None))

    @contextlib.contextmanager
    def _unchanged_on_error(self, *, own_arithmetic: bool = True):
        """Restore the estimator if a fit fails, and report what stays charged.

        Floating-point warnings would reveal underflows. BLAS uses one thread for small
        matrices.
        """
        threads = blas_threads(0) if own_arithmetic else contextlib.nullcontext()
        before = self.__dict__.copy()
        try:
            with threads, np.errstate(all="ignore"), context.says_what_stays_charged():
                yield
        except BaseException:
            # Never empty: another thread may be reading parameters.
            for name in self.__dict__.keys() - before.keys():
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    # -- the ledger follows the estimator into worker processes -----------------

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_step_share", None)
        noted = state.pop("_made_in", None)
        if self.accountant is None:
            noted = context.accountant_to_send(noted)
            if noted is not None:
                state["_made_in"] = noted
        return state

    def __sklearn_clone__(self):
        clone = super().__sklearn_clone__()
        share = self._own_share()
        if share is not None:  # ColumnTransformer fits clones
            clone._step_share = share
        if self._fit_limit is not None:
            clone._fit_limit = self._fit_limit
        noted = context.block_at_hand(getattr(self, "_made_in", None))
        if noted is not None:
            clone._made_in = noted
        return clone

    # -- publishing: releases and plan, without pickles ------------------------------

    def _public_state(self) -> dict:
        """Return fitted attributes, all of which are public or released."""
        return {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and not name.startswith("_")
        }

    def publish(self):
        """Return a copy that holds only releases and the plan, safe to share.

        The copy has no accountant and no seed. It transforms and predicts like the
        original, and :meth:`save` writes it as plain arrays and JSON. (Unlike
        :meth:`save`, a pickle written inside an accountant's ``with`` block contains
        the path of that ledger's file, so that fits in other processes are charged.)

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
            name, said = type(self).__name__, self.privacy_.guarantee()
            warn(f"this {name} is not private: {said}", PrivacyLeakWarning)
        published = self._unfitted_copy()
        published.__dict__.update(published_copy(self._public_state()))
        if hasattr(self, "_sklearn_output_config"):  # set_output(transform=...)
            published._sklearn_output_config = dict(self._sklearn_output_config)
        return published

    def _published_copy(self):
        """Return the object's replacement in a published copy of its container."""
        try:
            return self.publish()
        except NotFittedError:
            return clone(self)._unfitted_copy()

    def _unfitted_copy(self):
        """Return an unfitted copy without accountant, seed and callbacks."""
        without = {"accountant": None, "noise_seed": None}
        parameters = {**self.get_params(deep=False), **without}
        unfitted = type(self)(**published_copy(parameters))
        unfitted.__dict__.pop("_made_in", None)
        return unfitted

    def save(self, path) -> None:
        """Save the result of :meth:`publish` as an ``.npz`` file of arrays and JSON.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced.
        """
        check_is_fitted(self)
        if self._saved_instead:
            raise TypeError(
                f"a {type(self).__name__} cannot be saved as a file of arrays: save "
                f"{self._saved_instead}"
            )
        published = self.publish()
        arrays, plain = {}, {}
        for name, value in published._public_state().items():
            if isinstance(value, np.ndarray):
                arrays[name] = np.asarray(
                    value, dtype=str if value.dtype == object else None
                )
            elif name != "privacy_":
                plain[name] = value
        parameters = published.get_params(deep=False)
        for name in parameters.keys() & _BY_NAME:  # which may be numbers
            if isinstance(parameters[name], dict):
                parameters[name] = {"pairs": list(parameters[name].items())}
        header = {
            "format": _FORMAT,
            "estimator": type(self).__name__,
            "parameters": parameters,
            "attributes": plain,
            "privacy": published.privacy_.to_dict(),
            "output": getattr(self, "_sklearn_output_config", None),
        }
        text = json.dumps(header, default=json_default)
        with open(path, "wb") as file:
            np.savez(file, header=np.array(text), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path):
        """Load an estimator that :meth:`save` wrote, without unpickling.

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
                f"path: {path} is not a published estimator; save one as .npz with "
                "estimator.save(path)"
            ) from error
        raise ValueError(
            f"path: {path} contains a {found[0]} in format {found[1]}, not a "
            f"{cls.__name__} in format {_FORMAT}"
        )

    @classmethod
    def _from_parts(cls, header: dict, arrays: dict):
        """Rebuild an estimator from the result of :meth:`save`."""
        parameters = header["parameters"]
        for name, value in parameters.items():
            if name not in _BY_NAME:
                parameters[name] = read_plain(value)
            elif isinstance(value, dict):
                parameters[name] = dict(value["pairs"])
        estimator = cls(**parameters)
        for name, value in arrays.items():
            arrays[name] = value.astype(object) if value.dtype.kind == "U" else value
        estimator.__dict__.update(arrays, **header["attributes"])
        if header["output"] is not None:  # set_output(transform=...)
            estimator._sklearn_output_config = header["output"]
        estimator.privacy_ = PrivacyPlan.from_json(json.dumps(header["privacy"]))
        return estimator


@documented
class TableEstimator(PrivateEstimator):
    """Base class of estimators of one table: ``_statistic`` of a shape, and ``fit``."""

    def privacy_plan(self, n_samples, n_features) -> PrivacyPlan:
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        {shape_of_rows}

        {returns_plan}
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        return self._planned(self._statistic(n_samples, n_features))

    # Returns the statistic of a fit of that shape, from public numbers.
    _statistic: ClassVar[Callable[..., Any]]


def unweighted(method: _Method) -> _Method:
    """Decorate ``fit`` to refuse `sample_weight`, and `users` unless it has them."""
    takes_users = "users" in inspect.signature(method).parameters

    @functools.wraps(method)
    def counted_once(estimator, *args, **kwargs):
        if not takes_users and kwargs.pop("users", None) is not None:
            raise TypeError(f"{type(estimator).__name__} {estimator._why_no_users}")
        if kwargs.pop("sample_weight", None) is not None:
            raise TypeError(
                f"{type(estimator).__name__}.{method.__name__} does not accept "
                "sample_weight: its guarantee requires every row to count once; leave "
                "it out"
            )
        return method(estimator, *args, **kwargs)

    return cast(_Method, counted_once)


def fitted_by(fit: Callable[[], Any], private: bool) -> Any:
    """Fit all steps; errors of scikit-learn that may quote values are reworded."""
    try:
        # Worker processes would have copies of the shares, and threads their own
        # settings of numpy's warnings, which depend on values.
        with parallel_config(backend="sequential"), np.errstate(all="ignore"):
            return fit()
    except Exception as error:
        owner = "a step"
        if not private:
            raise
        for frame, _ in list(traceback.walk_tb(error.__traceback__))[1:]:
            if frame.f_globals.get("__name__", "").startswith("skdpspectral."):
                raise
            if isinstance(frame.f_locals.get("self"), BaseEstimator):
                owner = type(frame.f_locals["self"]).__name__
        failed = f"{owner} raised {type(error).__name__}"
    # Outside of the handler, where the error would be the context of another.
    raise ValueError(
        f"{failed}; its message is not shown, because it may quote values; to see it, "
        "fit this estimator alone on public rows of the same form"
    )


# -- estimators that keep a fitted model -----------------------------------------------


def has_method(name: str):
    """Return a decorator of methods that are there if what is fitted has them."""

    def check(estimator) -> bool:
        estimator._method(name)
        return True

    return available_if(check)


def _answered(name: str, summary: str, result: str, of_outputs: bool = False):
    """Return a method of rows, or `of_outputs`, that the model answers, if it does."""

    def method(self, X, **params):
        asked = ModelInside if of_outputs else type(self)
        model, X, params = asked._asked(self, X, params)
        return getattr(model, name)(X, **params)

    method.__name__ = name
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        X : array-like
            Rows in a form that the fit accepts.
        **params : dict
            Metadata for the steps, if metadata routing is enabled.

        Returns
        -------
        ndarray
            {result}.
        """
    return has_method(name)(method)


def _forwarded(name: str, summary: str) -> property:
    def found(self):
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{name} is there after a fit")
        return getattr(self._fitted(), name)

    return property(found, doc=summary)


class ModelInside:
    """Base class of estimators that keep a model in `_inside`; has ``_method``."""

    _inside: ClassVar[str]

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return getattr(self, self._inside)

    def _asked(self, X: Any, params: dict) -> tuple[Any, Any, dict]:
        """Return the model, and rows and parameters as its methods take them."""
        return self._fitted(), X, params

    def __sklearn_is_fitted__(self):
        return hasattr(self, self._inside)

    classes_ = _forwarded("classes_", "Classes of the fitted model.")
    n_features_in_ = _forwarded("n_features_in_", "Number of columns seen during fit.")
    feature_names_in_ = _forwarded("feature_names_in_", "Names of columns in fit.")

    predict = _answered("predict", "Predict for rows.", "Predictions")
    predict_proba = _answered(
        "predict_proba", "Return class probabilities.", "Columns as in `classes_`"
    )
    predict_log_proba = _answered(
        "predict_log_proba", "Return log-probabilities.", "Columns as in `classes_`"
    )
    decision_function = _answered(
        "decision_function", "Return decision values.", "Decision values"
    )
    score_samples = _answered(
        "score_samples", "Return scores of rows.", "Scores, each as private as its row"
    )
    transform = _answered(
        "transform", "Transform rows.", "Rows, as private as they were"
    )
    inverse_transform = _answered(
        "inverse_transform", "Map transformed rows back.", "Rows", of_outputs=True
    )

    @has_method("transform")
    def fit_transform(self, X, y=None):
        """Fit, and transform the same rows.

        Parameters
        ----------
        X : array-like
            Rows in a form that the fit accepts.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        ndarray
            Transformed rows. Each is as private as its original row.
        """
        return self.fit(X, y).transform(X)

    @has_method("score")
    def score(self, X, y=None, **params):
        """Return the exact score of the fitted model, which is not a private release.

        Parameters
        ----------
        X : array-like
            Rows in a form that the fit accepts.
        y : array-like or None, default=None
            Targets.
        **params : dict
            Weights of rows, if the model supports them, and metadata for the steps.

        Returns
        -------
        float
            Score. A score of private rows is as private as these rows.
        """
        model, X, params = self._asked(X, params)
        return model.score(X, *([] if y is None else [y]), **params)

    @has_method("get_feature_names_out")
    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of ``transform``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of columns.

        Returns
        -------
        ndarray of str
            Names of the transformed columns.
        """
        return self._fitted().get_feature_names_out(input_features)
