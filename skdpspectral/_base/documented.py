"""Texts that docstrings of several estimators share.

A line of a docstring that holds ``{name}`` and nothing else stands for an entry of
``ENTRIES``, which :func:`documented` puts in its place when the class is made. What
one estimator has to add follows it, indented as the entry's own text is::

    {n_jobs}
        Threads share the users.
"""

from __future__ import annotations

import re
from textwrap import indent
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

_PLACE = re.compile(r"^([ \t]*)\{([A-Za-z]\w*)\}[ \t]*$", re.MULTILINE)

# Where what wraps a function keeps it: decorators, class methods, properties, and
# methods that are there under a condition.
_WITHIN = ("__wrapped__", "__func__", "fget", "fn")

ENTRIES: dict[str, str] = {}

# Each entry begins with its name in brackets, and may be made of those above it.
_TEXTS = r"""
[epsilon]
epsilon : float or None, default=1.0
    Privacy budget of one fit, positive. None (or infinity) switches privacy
    off, with a :class:`~skdpspectral.PrivacyLeakWarning`.
[epsilon_of_clients]
epsilon : float, mapping of client to float, or None, default=1.0
    Privacy budget of each client, positive: one value for all clients, or a
    mapping from client ids to values. None (or infinity) switches privacy off,
    with a :class:`~skdpspectral.PrivacyLeakWarning`.
[delta]
delta : float, default=1e-6
    Privacy budget in [1e-15, 1), well below one over the number of rows (or of
    users).
[delta_of_clients]
delta : float or mapping of client to float, default=1e-6
    Privacy budget in [1e-15, 1), well below one over the rows of a client.
[bounds]
bounds : tuple (low, high) or None, default=None
    Public bounds of the features, in the units of the data: numbers or arrays
    of shape (n_features,). Values are clipped to these bounds and measured from
    their midpoint (:ref:`bounds`). The bounds must be known without looking at
    the data: ``(X.min(0), X.max(0))`` would break the guarantee.
[variances_of_model]
signal_variance : float, array-like of shape (n_components,) or "private"
    Public variance along the components beyond `noise_variance`, in squared units
    of the data. "private", the default, assumes one unknown variance that is equal
    for all components. Half of the rows then vote on a lower bound on it, which
    sets the noise, for a fifth of the budget and a larger sensitivity
    (:ref:`theorem-private-variances`).
noise_variance : float or "private", default="private"
    Public variance across the components. Both variances must be "private" if one
    is.
[mean_of_model]
mean : {"zero", "unknown"}, default="zero"
    "zero": rows are measured from the origin; rows centered elsewhere do not follow
    the model. "unknown": rows are measured from their own mean, which can be any
    point, at the cost of one row (:ref:`lemma-own-mean`). The mean is not released,
    and rows must be dense.
[release_of_model]
release : {"components", "covariance"}, default="components"
    "covariance" also releases the covariance within the components, for half of the
    budget. It requires public variances.
[calibration_of_model]
calibration : {"exact", "paper"}, default="exact"
    "paper" is meant for figures: it uses the classical bound with epsilon and delta
    halved, and first-order sensitivities as printed in the papers. ``privacy_`` and
    the ledger state the epsilon that a theorem proves for this noise. If it is
    larger than `epsilon`, as it often is, a
    :class:`~skdpspectral.PrivacyLeakWarning` is issued.
sensitivity_constant : float or None, default=None
    Constant of the papers' sensitivities, which the papers do not specify. It is
    only used with ``calibration="paper"``, and None means 1. With q =
    `noise_variance` / `signal_variance`, the default gives the projector's noise of
    Cai et al., with q + sqrt(q); a constant of sqrt(q (q + 1)) / (q + sqrt(q))
    gives the noise of Li et al. (2024).
[center]
center : {"auto", "none", "pairs", "shared"}, default="auto"
    Reference point that is subtracted from the rows. "none": the midpoint of
    `bounds`, or the origin without `bounds`. "pairs": other rows of the same
    client; this needs no center, but doubles the noise. "shared": a private center
    that the clients find together (see :class:`~skdpspectral.FederatedDPPCA`).
    "auto": same as "pairs".
[n_samples_]
n_samples_ : int
    Number of rows of the fit, public under replace-one.
[moment_attributes]
moment_ : ndarray of shape (n_kept, n_kept)
    Released second moment of the seen standardized features, the seen targets
    and the constant, in this order. Coefficients depend on the data only
    through this matrix, the means and the scales.
moment_noise_std_ : float
    Standard deviation of the noise of the off-diagonal entries of `moment_`
    that do not involve targets.
cross_noise_std_ : float
    Standard deviation of the noise of the entries of `moment_` that pair a
    regressor with a target.
mean_, scale_ : ndarray of shape (n_features,)
    Means and scales used to standardize the features.
limits_ : ndarray of shape (2, n_features)
    Limits at which features are clipped, in :meth:`fit` and :meth:`predict`:
    the tighter of `bounds` and 30 standard deviations around the mean.
{n_samples_}
target_mean_, target_scale_ : ndarray of shape (n_targets,)
    Means and scales used to standardize the targets.
unseen_features_ : ndarray of bool of shape (n_features,)
    Mask of the features that are indistinguishable from noise.
basis_ : {"linear", "additive", "pairs"}
    Functions that were fitted.
basis_orders_ : ndarray of shape (2,)
    Numbers of waves per feature, and in each part of a product.
expanded_features_ : ndarray of bool of shape (n_features,)
    Mask of the features that the basis treats as numbers.
blocks_ : ndarray of int of shape (n_features,)
    Block of one-hot columns that each feature belongs to, -1 for none.
[basis_of_ridge]
basis : {"linear", "additive", "pairs", "auto"}, default="linear"
    Functions of the features. "additive" fits a smooth shape of each number, and
    "pairs" also products of pairs of numbers, from the same kind of release. "auto"
    uses the richest one whose noise is low by public numbers: rows, features and
    budget. One-hot columns behind a :class:`~skdpspectral.DPTableVectorizer` are
    linear. Coefficients are then those of the columns of the basis.
[classes]
classes : array-like or None, default=None
    All possible labels, which are public. None uses the labels that occur in y
    as if they were public, with a :class:`~skdpspectral.PrivacyLeakWarning`
    unless y is boolean; :class:`~skdpspectral.model_selection.PrivateSearchCV`
    does not accept None. Any other label raises an error, after the charge.
[weights]
weights : {"optimal", "equal"} or mapping, default="optimal"
    "optimal" weights clients by the accuracy that their number of rows and
    their noise allow (:ref:`guide_federated_weights`). "equal" gives all
    clients the same weight, for comparisons. A mapping contains your own
    **public**, non-negative weights of all clients, for all averages.
[min_clients]
min_clients : int, default=1
    Smallest number of clients that must answer to the end. With fewer, the fit
    raises a :class:`~skdpspectral.federation.FederationError`.
[client_feature]
client_feature : int, str or None, default=None
    Column of X that contains the client of each row. It is not used as a
    feature. Without it, and without `clients` in ``fit``, all rows belong to
    one client.
[n_jobs]
n_jobs : int or None, default=None
    Number of threads, as in joblib.
[accountant]
accountant : PrivacyAccountant or None, default=None
    Ledger that is charged for every fit before the fit reads any values. None
    uses the accountant of the enclosing ``with`` block, if any.
[noise_seed]
noise_seed : int, RandomState instance or None, default=None
    None draws noise from the operating system's entropy. **Anything else voids
    the privacy of the fit**; use it only for tests and figures (:ref:`seeds`).
[adam_batches]
batch_size : int, default=256
    Expected number of examples in a batch. If there are no more examples than
    this, every batch contains all of them. Sums are divided by `batch_size`,
    regardless of the actual size of the batch.
n_epochs : int, default=10
    Expected number of times that each example is used.
clip_norm : float, default=1.0
    Bound on the norm of each example's gradient, in [1e-30, 1e60].
[adam_network]
optimizer : "adam" or Adam, default="adam"
    Settings of steps, sampling and noise. "adam" is
    :class:`~skdpspectral.neural_network.Adam` with its default parameters.
{accountant}
{noise_seed}
verbose : bool or int, default=0
    Whether to print one line per step, without any statistic of the data.
[columns_of_ratings]
user_feature : int or str, default="user_id"
    Position or name of the column of users. With the default, arrays use the
    first column. So do dataframes whose columns are only numbered, with a
    warning.
item_feature : int or str, default="item_id"
    Position or name of the column of items. The default likewise uses the
    second column.
items : array-like of shape (n_items,) or None, default=None
    Public catalog of item ids (``range(n)`` for ids 0 to n - 1), which must not
    be read from the ratings. Ratings of other items are ignored. None uses the
    columns of a matrix of users x items; a table needs a catalog.
item_features : array-like of shape (n_items, n_item_features) or None, default=None
    Public features of the items in the order of `items`, such as genres. They
    are standardized, and are important for quality at small budgets.
[rating_range]
rating_range : tuple (low, high) or None, default=None
    Public range of ratings, which :meth:`fit` requires unless they are clicks.
    Ratings outside this range are clipped to it.
[ratings_like_fit]
X : array-like, dataframe or matrix of shape (n_rows, n_columns)
    Table with the same columns as in fit, or a matrix of users x items as in fit,
    which stands for the table of its stored entries in row order.
[ratings_beside]
y : array-like of shape (n_ratings,) or None, default=None
    Ratings, unless X contains them, as for :meth:`fit`.
[offsets_of_items]
level_ : float
    Mean of the users' levels, in units of ratings.
item_offsets_ : ndarray of shape (n_items,)
    Expected rating of the item minus the level, in units of ratings.
item_popularity_ : ndarray of shape (n_items,)
    Logarithms of the released numbers of ratings per item. Each rating of a
    user with many ratings has a smaller weight.
items_ : ndarray of shape (n_items,)
    The catalog.
[singular_values_]
singular_values_ : ndarray of shape (n_components,)
    ``sqrt(n_samples_ * explained_variance_)``, an estimate of the singular
    values of all centered rows. Only set if there is a `noise_variance_`.
[clients_]
clients_ : ndarray of str of shape (n_clients,)
    Names of the clients that are part of the result.
[rejected_]
rejected_ : dict of str to str
    Clients that failed, with the reason.
[n_components_]
n_components_ : int
    Number of components.
[n_features_in_]
n_features_in_ : int
    Number of columns seen during fit.
[feature_names_in_]
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the columns, set if all column names of X are strings.
[privacy_]
privacy_ : PrivacyPlan
    The releases and their cost. ``str(privacy_)`` gives a summary in two lines,
    and ``privacy_.details()`` a table of all releases (:ref:`remarks`).
[privacy_of_clients]
privacy_ : ParallelPlan
    One plan per client. The overall cost is the highest cost of a client.
[adam_attributes]
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
[adam_guarantee]
**Formal guarantee.** ``fit`` is (`epsilon`, `delta`)-differentially private for
one row with its target, under `neighbors` of `optimizer`; the number of rows is
public. With a `noise_multiplier`, epsilon is ``privacy_.epsilon``. Each
example's gradient is clipped, and sums over secret samples are released with
Gaussian noise (:ref:`lemma-gradient-moments`,
:ref:`lemma-sampled-replacement`). The second moment is bounded below by a
public number, by default the standard deviation of its noise.

All parameters of this class and all fitted attributes are public. There is no
loss curve: the loss of a batch is a statistic of the data, and would have to be
released and paid for. There is no ``partial_fit`` or ``warm_start``:
amplification by sampling is only known for one table and a fixed number of
steps. To continue training, use :class:`~skdpspectral.neural_network.JMEAdam`.
Rows are not rescaled: scale them by a public constant or with
:class:`~skdpspectral.DPStandardScaler`.

References
----------
Kalinin, Upadhyay and Lampert (2025), Continual release moment estimation with
differential privacy, Algorithm 2. As printed, that algorithm has no guarantee.
[X_of_clients]
X : array-like or dataframe of shape (n_samples, n_columns)
    Rows of all clients in any order, all finite, including the column of
    clients if `client_feature` names one; never modified.
[X_by_block]
Finite rows, never modified. Memory maps, parquet datasets of pyarrow, and
arrays of other libraries with ``shape``, a numeric ``dtype`` and slices of
rows, such as those of h5py and zarr, are read block by block. Dask collections
are reduced on their cluster (:ref:`clusters`).
[y_ignored]
y : None
    Ignored, present by convention.
[users_of_rows]
users : array-like of shape (n_samples,) or None, default=None
    Ids of the rows' users: integers or text. A user with all rows is then
    protected, under replacement by any other user. Each user counts as one row,
    drawn at random, and the number of users is public (:ref:`rows_per_person`).
    None protects single rows.
[X_like_fit]
X : array-like or dataframe of shape (n_rows, n_columns)
    Rows with the same columns as in fit.
[users_like_fit]
users : array-like of shape (n_rows,) or None, default=None
    User ids of the same type as in fit.
[users_of_fit]
users : array-like of shape (n_rows,) or None, default=None
    One id per row, integers or text, all of one kind. With neither `users` nor
    `user_feature`, all rows belong to one user.
[clients]
clients : array-like of shape (n_samples,) or None, default=None
    One id per row, integers or text. With neither `clients` nor
    `client_feature`, all rows belong to one client.
[shape_of_rows]
n_samples : int
    Number of rows, public.
n_features : int
    Number of features.
[plan_of_rows]
Parameters
----------
X : array-like or dataframe of shape (n_samples, n_features)
    Rows. Only their form is used: shape, names and dtypes of columns.

Returns
-------
PrivacyPlan
    The plan that this fit is charged for.

Raises
------
ValueError, TypeError
    If a parameter or the form of X is invalid.
[plan_of_shape]
PrivacyPlan
    The plan that a fit of this shape is charged for.
[invalid_shape]
ValueError
    If a parameter is invalid or does not match the shape.
[invalid_data]
ValueError, TypeError
    If a parameter or the form of the data is invalid (nothing is charged), or
    if a value is invalid, such as NaN (the fit is charged, :ref:`limits`).
[no_budget]
PrivacyBudgetError
    If the accountant's remaining budget is too small; nothing is charged.
[axes_of_display]
ax_, figure_ : matplotlib Axes and Figure
    Axes and figure of the plot.
[feature_names]
feature_names : sequence of str or None, default=None
    Labels of the features. None numbers them.
[as_in_plot]
ax, **style
    As in :meth:`plot`.

Returns
-------
display : object
    The drawn display.

Raises
------
ImportError
    If matplotlib is not installed.
[returns_plan]
Returns
-------
{plan_of_shape}

Raises
------
{invalid_shape}
[outcome_of_fit]
Returns
-------
self : object
    The fitted estimator.

Raises
------
{invalid_data}
{no_budget}
"""


def documented(cls: _Class) -> _Class:
    """Fill the places ``{name}`` in the docstrings of a class and its methods.

    Nothing happens where Python has dropped docstrings (``-OO``).
    """
    _fill(cls, cls.__name__)
    for name, member in vars(cls).items():
        while member is not None and not isinstance(member, type):
            _fill(member, f"{cls.__name__}.{name}")
            inner = (getattr(member, within, None) for within in _WITHIN)
            member = next((found for found in inner if found is not None), None)
    return cls


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


for _text in _TEXTS.split("\n[")[1:]:
    _name, _, _text = _text.partition("]\n")
    ENTRIES[_name] = _PLACE.sub(lambda place: _entry(place, __name__), _text.rstrip())
