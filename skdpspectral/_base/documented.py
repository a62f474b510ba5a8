"""What estimators say alike in their docstrings, said once.

A line of a docstring that holds ``{name}`` and nothing else stands for an entry of
``ENTRIES``, which :func:`documented` puts in its place when the class is made. What
one estimator has to add follows it, indented as the entry's own text is::

    {delta}
        Well below ``1 / n_samples``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import indent
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

_PLACE = re.compile(r"^([ \t]*)\{([A-Za-z]\w*)\}[ \t]*$", re.MULTILINE)

# Where what wraps a function keeps it: decorators, class methods, properties, and
# methods that are there under a condition.
_WITHIN = ("__wrapped__", "__func__", "fget", "fn")

_TABLE = {
    # -- parameters of constructors
    "epsilon": """
        epsilon : float or None, default=1.0
            Privacy budget of one fit, positive. None (or infinity) switches privacy
            off, with a :class:`~skdpspectral.PrivacyLeakWarning`.
        """,
    "epsilon_of_clients": """
        epsilon : float, mapping of client to float, or None, default=1.0
            Privacy budget of each client, positive: one for all, or one for each by
            id. None (or infinity) switches privacy off, with a
            :class:`~skdpspectral.PrivacyLeakWarning`.
        """,
    "delta": """
        delta : float, default=1e-6
            Privacy budget in [1e-15, 1).
        """,
    "delta_of_clients": """
        delta : float or mapping of client to float, default=1e-6
            Privacy budget in [1e-15, 1), well below one over the rows of a client.
        """,
    "bounds": """
        bounds : tuple (low, high) or None, default=None
            Public bounds of the features, in the units of the data: numbers or arrays
            of shape (n_features,). Rows are clipped into this box and measured from
            its midpoint (:ref:`bounds`). They must be known without looking at the
            data: ``(X.min(0), X.max(0))`` would break the guarantee.
        """,
    "clip_norm": """
        clip_norm : float or None, default=None
            None scales every row, once centered, to unit norm, which is best for
            directions whenever noise matters and needs no knowledge of scale. A
            number in [1e-60, 1e60] only scales longer rows down to it, in the units
            of the data (of the scaled features with ``scale="bounds"``).
        """,
    "scale": """
        scale : {"bounds"} or None, default=None
            "bounds" divides each feature by its own half-width, instead of all by the
            largest. Private scales would differ between clients.
        """,
    "center": """
        center : {"auto", "none", "pairs", "private"} or PrivateMean, default="auto"
            What rows are measured from. "none": the midpoint of `bounds`, or the
            origin without `bounds`. "pairs": other rows of the same client, which
            needs no center, at twice the noise. "private": a private mean, paid from
            the budget; :class:`~skdpspectral.decomposition.PrivateMean` gives it a
            public radius, which it needs without `bounds` and `clip_norm`; in wide
            bounds it is noise, and so are the components then. "auto": "pairs".
        """,
    "moment_attributes": """
        moment_ : ndarray of shape (n_kept, n_kept)
            Released second moment of the standardized features, targets and the
            constant that are seen, in this order. Coefficients depend on the rows
            through it, and through means and scales.
        moment_noise_std_ : float
            Standard deviation of the noise of `moment_` off the diagonal, beside
            regressors alone; with targets it is `cross_noise_std_`.
        cross_noise_std_ : float
            Standard deviation of the noise of products of regressors and targets.
        n_components_ : int
            Number of directions of the features that are in use.
        mean_, scale_ : ndarray of shape (n_features,)
            What features were standardized by.
        limits_ : ndarray of shape (2, n_features)
            Lowest and highest values that count, in fits and in :meth:`predict`: values
            beyond are cut. They are `bounds`, and 30 standard deviations from the mean.
        n_samples_ : int
            Number of rows of the fit, public under replace-one.
        target_mean_, target_scale_ : ndarray of shape (n_targets,)
            What targets were standardized by.
        unseen_features_ : ndarray of bool of shape (n_features,)
            Whether a feature is lost in the noise.
        """,
    "classes": """
        classes : array-like or None, default=None
            All possible labels, which are public. None uses the labels that occur in y
            as if they were public, with a :class:`~skdpspectral.PrivacyLeakWarning`
            unless y is boolean; a
            :class:`~skdpspectral.model_selection.PrivateSearchCV` refuses it. Any other
            label raises an error, after the charge.
        """,
    "whiten": """
        whiten : bool, default=False
            Whether :meth:`transform` gives scores of unit variance. It needs variances
            of the data, along the components and across:
        """,
    "weights": """
        weights : {"optimal", "equal"}, mapping or array, default="optimal"
            "optimal": by what each client's rows and noise are worth
            (:ref:`guide_federated_weights`). "equal" is for comparisons. Numbers are
            weights of your own, at least 0 and **public**: all averages are by them. An
            array has them in the order of the clients' first rows.
        """,
    "client_feature": """
        client_feature : int, str or None, default=None
            Column of X that holds the client of every row; it is no feature. Without
            it, and without `clients` in ``fit``, all rows are those of one client.
        """,
    "n_jobs": """
        n_jobs : int or None, default=None
            Number of threads, as in joblib.
        """,
    "accountant": """
        accountant : PrivacyAccountant or None, default=None
            Ledger that every fit is charged to, before it reads values. None takes
            that of the enclosing ``with`` block, if any.
        """,
    "noise_seed": """
        noise_seed : int, RandomState instance or None, default=None
            None draws noise from the operating system's entropy. **Anything else voids
            the privacy of the fit**, and is for tests and figures alone (:ref:`seeds`).
        """,
    "adam_batches": """
        batch_size : int, default=256
            Expected number of examples in a batch; all are in each if they are no more.
            Sums are divided by it, whatever a batch holds.
        n_epochs : int, default=10
            How often each example is expected to be used.
        clip_norm : float, default=1.0
            Bound on the norm of each example's gradient, in [1e-30, 1e60].
        """,
    "adam_decays": """
        beta_1 : float, default=0.9
            Decay of the first moment, in [0, 1).
        beta_2 : float, default=0.999
            Decay of the second moment, in [0, 1).
        stability : float or AdamStability, default=1e-8
            Number that is added to the root of the second moment, at least 0, or
            :class:`~skdpspectral.neural_network.AdamStability`, which also has the
            least second moment and a bound on the norm of steps.
        """,
    "adam_noise": """
        sampling : {"poisson", "in-turn"}, default="poisson"
            "poisson": each example joins each batch independently, which lowers the
            privacy cost. "in-turn": each example is in one batch per epoch, in an order
            that is public.
        neighbors : {"replace-one", "zero-out-one"}, default="replace-one"
            What is hidden: which example it is, or whether it counts at all.
        noise_multiplier : float or None, default=None
            Deviation of the noise in units of the largest norm of what one example
            adds to a step. None takes the least that `epsilon` and `delta` allow;
            otherwise `epsilon` is not used, and ``privacy_.epsilon`` is what it costs
            at `delta`. Refused with ``epsilon=None``, which asks for no noise.
        factorization : {"trivial", "sqrt", "blt", "bisr"}, default="trivial"
            What shapes the noise of batches in turn, for the decays of both moments;
            all but "trivial" need ``n_epochs=1``. "blt" has some four further rows of
            noise in memory, "bisr" 128, and "sqrt" two for each batch.
        """,
    "adam_second_moment": """
        How the second moment is made. "pp": the released mean is squared, as in the
        usual private Adam. "pp-debiased" subtracts the variance of its noise. "jme":
        squares of clipped gradients, example by example. "jme-batch": squares of the
        batch's mean, clipped once more. "clip": gradients and their squares are
        clipped together.
        """,
    "adam_moment_weight": r"""
        moment_weight : float or "auto", default="auto"
            Weight :math:`\nu` of squares beside gradients, for gradients in the unit
            ball. "auto": 0.5 where that is free ("jme" under "replace-one", unless
            samples are drawn), and 0.1 elsewhere. Refused with "pp" and "pp-debiased",
            which release no squares.
        """,
    "adam_network": """
        optimizer : "adam" or Adam, default="adam"
            Steps, sampling and noise; "adam" is
            :class:`~skdpspectral.neural_network.Adam` with its defaults.
        {accountant}
        {noise_seed}
        verbose : bool or int, default=0
            Whether to print a line for each step; none shows a statistic of the data.
        """,
    # -- attributes
    "scale_": """
        scale_ : ndarray of shape (n_features,) or None
            What features are divided by; None unless ``scale="bounds"``.
        """,
    "singular_values_": """
        singular_values_ : ndarray of shape (n_components,)
            ``sqrt(n_samples_ * explained_variance_)``, where there is a
            `noise_variance_`: about the singular values of all rows less their center.
        """,
    "clients_": """
        clients_ : ndarray of str of shape (n_clients,)
            Names of the clients that are in the result.
        """,
    "rejected_": """
        rejected_ : dict of str to str
            Clients that failed, and why.
        """,
    "n_components_": """
        n_components_ : int
            Number of components.
        """,
    "n_features_in_": """
        n_features_in_ : int
            Number of columns seen during fit.
        """,
    "feature_names_in_": """
        feature_names_in_ : ndarray of shape (`n_features_in_`,)
            Names of columns, where X has names that are all strings.
        """,
    "privacy_": """
        privacy_ : PrivacyPlan
            What was released, at what cost: ``str(privacy_)`` is two lines, and
            ``privacy_.details()`` a table of all releases (:ref:`remarks`).
        """,
    "privacy_of_clients": """
        privacy_ : ParallelPlan
            One plan a client; as a plan of its own, that of the dearest.
        """,
    "adam_attributes": """
        coefs_ : list of ndarray of shape (n_inputs, n_outputs)
            Weights of each layer.
        intercepts_ : list of ndarray of shape (n_outputs,)
            Intercepts of each layer.
        n_iter_ : int
            Number of steps, which is public.
        weights_ : ndarray of shape (n_parameters,)
            All weights and intercepts, layer by layer.
        layer_sizes_ : ndarray of int
            Widths of the layers, from the features to the outputs.
        {n_features_in_}
        {feature_names_in_}
        {privacy_}
        """,
    "adam_guarantee": """
        **Formal guarantee.** ``fit`` is (`epsilon`, `delta`)-differentially private for
        one row with its target, under `neighbors` of `optimizer`; the number of rows is
        public. With a `noise_multiplier`, epsilon is that of `privacy_`. Each example's
        gradient is clipped, and sums over secret samples are released with Gaussian
        noise (:ref:`lemma-gradient-moments`, :ref:`lemma-sampled-replacement`). The
        second moment is floored by a public number, by default the deviation of its
        noise.

        Every parameter of this class is public, and so is all that is fitted. There is
        no loss curve: the loss of a batch is a statistic of the data, and would have to
        be released and paid for. There are no ``partial_fit`` and no ``warm_start``:
        amplification by sampling is known for a number of steps that is fixed
        beforehand, on one table. To go on training, use
        :class:`~skdpspectral.neural_network.JMEAdam`. Rows are used as they are: scale
        them by a public constant, or by :class:`~skdpspectral.DPStandardScaler`.

        References
        ----------
        Kalinin, Upadhyay and Lampert (2025), Continual release moment estimation with
        differential privacy, Algorithm 2, which as it is printed has no guarantee.
        """,
    # -- what methods take and return
    "X_of_clients": """
        X : array-like or dataframe of shape (n_samples, n_columns)
            Rows of all clients in any order, all finite, and the clients' column if
            `client_feature` names one; never modified. Those of a dask collection stay
            on its cluster.
        """,
    "y_ignored": """
        y : None
            Ignored, present by convention.
        """,
    "X_like_fit": """
        X : array-like or dataframe of shape (n_rows, n_columns)
            Columns as in fit.
        """,
    "users_like_fit": """
        users : array-like of shape (n_rows,) or None, default=None
            Ids, of the type that was given to fit.
        """,
    "users_of_fit": """
        users : array-like of shape (n_rows,) or None, default=None
            Hashable ids, one a row, all of one kind: numbers (whole, and exact in
            their type; never float16), strings, times, or others of one type. With
            neither `users` nor `user_feature` all rows are those of one user.
        """,
    "clients": """
        clients : array-like of shape (n_samples,) or None, default=None
            Hashable ids, one a row. With neither `clients` nor `client_feature` all
            rows are those of one client.
        """,
    "plan_of_shape": """
        PrivacyPlan
            What a fit of that shape is charged with.
        """,
    # -- errors
    "invalid_shape": """
        ValueError
            If a parameter is invalid, or does not fit the shape.
        """,
    "invalid_data": """
        ValueError, TypeError
            If a parameter or the form of the data is invalid; nothing is charged. If a
            value is, as NaN; the fit is charged (:ref:`limits`).
        """,
    "no_budget": """
        PrivacyBudgetError
            If the accountant's budget does not suffice; nothing is charged.
        """,
    # -- sections
    "outcome_of_fit": """
        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        {invalid_data}
        {no_budget}
        """,
}

ENTRIES: dict[str, str] = {}


def documented(cls: _Class) -> _Class:
    """Fill the places ``{name}`` in the docstrings of a class and its methods.

    Nothing happens where Python has dropped docstrings (``-OO``).
    """
    _fill(cls, cls.__name__)
    for name, member in vars(cls).items():
        for layer in _layers(member):
            _fill(layer, f"{cls.__name__}.{name}")
    return cls


def _layers(member) -> Iterator[object]:
    """Yield what stands in a class by one name, and all functions within it."""
    while member is not None and not isinstance(member, type):
        yield member
        inner = (getattr(member, name, None) for name in _WITHIN)
        member = next((found for found in inner if found is not None), None)


def _fill(thing, name: str) -> None:
    text = getattr(thing, "__doc__", None)
    if isinstance(text, str) and _PLACE.search(text):
        thing.__doc__ = _PLACE.sub(lambda place: _entry(place, name), text)


def _entry(place: re.Match, name: str) -> str:
    """Return the entry that a place stands for, indented like the place."""
    if place[2] not in ENTRIES:
        raise ValueError(
            f"the text of {name} asks for {{{place[2]}}}, which is no entry of "
            f"{__name__}; there are {', '.join(ENTRIES)}"
        )
    return indent(ENTRIES[place[2]], place[1])


# An entry may be made of those above it.
for _name, _text in _TABLE.items():
    ENTRIES[_name] = _PLACE.sub(lambda place: _entry(place, __name__), cleandoc(_text))
