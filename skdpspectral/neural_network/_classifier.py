"""Classification by a network that is trained by private Adam."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from .._base.documented import documented
from .._base.estimator import unweighted
from .._base.sklearn_compat import with_callbacks
from .._tables.rows import DeferredRead, deferred_rows
from .._tables.users import deferred_labels
from ..accounting import PrivacyLeakWarning
from ..mechanisms._relations import check_count
from . import _kernels
from ._estimators import DPAdamNetwork


@documented
class DPAdamClassifier(ClassifierMixin, DPAdamNetwork):
    """Logistic regression or a network of one or two layers, by private Adam.

    The loss is logarithmic. Norms of gradients are found without forming them.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=()
        Widths of up to two hidden layers; none for logistic regression.
    {epsilon}
    {delta}
        Well below ``1 / n_samples``.
    classes : array-like or None, default=None
        All possible labels, which are public. None uses the labels that occur in y as
        if they were public, with a :class:`~skdpspectral.PrivacyLeakWarning` unless y
        is boolean; a :class:`~skdpspectral.model_selection.PrivateSearchCV` refuses it.
        Any other label raises an error, after the charge.
    activation : {"tanh", "relu"}, default="tanh"
        Of hidden layers.
    {adam_batches}
    {adam_network}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    {adam_attributes}

    Notes
    -----
    {adam_guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPAdamClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = DPAdamClassifier(batch_size=4000, n_epochs=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("hidden_layer_sizes", "classes")

    _parameter_constraints: ClassVar[dict] = {
        **DPAdamNetwork._parameter_constraints,
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        hidden_layer_sizes=(),
        *,
        epsilon=1.0,
        delta=1e-6,
        classes=None,
        activation="tanh",
        batch_size=256,
        n_epochs=10,
        clip_norm=1.0,
        optimizer="adam",
        accountant=None,
        noise_seed=None,
        verbose=0,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.activation = activation
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.clip_norm = clip_norm
        self.optimizer = optimizer
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.verbose = verbose

    @property
    def _loss(self) -> str:
        return "logistic" if len(self.classes_) == 2 else "softmax"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # After a public number of steps, whatever is left to be learned.
        tags.classifier_tags.poor_score = True
        return tags

    # -- what a fit will release -----------------------------------------------------

    def privacy_plan(self, n_samples, n_features, n_classes=None):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows, public.
        n_features : int
            Number of features.
        n_classes : int or None, default=None
            Number of classes; None takes that of `classes`, or 2.

        Returns
        -------
        {plan_of_shape}

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        outputs = _n_outputs(check_count("n_classes", n_classes))
        return self._plan_of_shape(n_samples, n_features, outputs)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.classes is not None:
            classes = np.asarray(self.classes)
            try:
                named = len(np.unique(classes)) if classes.ndim == 1 else 0
                # A label that is no number equals none.
                named *= np.array_equal(classes, classes)
            except TypeError:  # of labels that have no order
                named = 0
            if named < max(2, classes.size):
                raise ValueError(
                    f"classes must name two or more labels, each once, got {classes}"
                )

    # -- the estimator ---------------------------------------------------------------

    @with_callbacks
    @unweighted
    def fit(self, X, y):
        """Train the network on rows and their labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, all finite; never modified.
        y : array-like of shape (n_samples,)
            Labels, all of them among `classes`.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = deferred_rows(self, X)
            labels = self._deferred_labels(y, unread.shape[0])
            layout = self._layout(unread.shape[1], _n_outputs(len(self.classes_)))
            optimization = self._optimization(layout, unread.shape[0])
            plan = self._planned(optimization)
            with self._progress(optimization) as progress:
                # It is charged here, and values are read from here on.
                release, X, labels = self._start_release(
                    plan,
                    unread,
                    labels,
                    n_public=unread.shape[0],
                    kind=optimization.kind,
                )
                targets = self._targets(labels)
                progress.begin(X, labels, plan)
                self._train(optimization, release, layout, X, targets, progress)
                progress.end()
            self.privacy_ = plan
        return self

    def _deferred_labels(self, y, n_rows: int) -> DeferredRead:
        """Note the classes, and check the form of the labels.

        With ``classes=None`` the labels that occur are public, and are looked at here.
        What is wrong with them is not, and is said once the fit is charged.
        """
        known = self._known_classes(y)
        unread = deferred_labels(self, y, n_rows)
        if known is not None:
            self.classes_ = _publishable(known)
            return unread
        self._warn_of_classes()
        try:
            self.classes_ = self._occurring(unread.read())
        except ValueError:
            self.classes_ = np.array([False, True])

        def read():
            labels = unread.read()
            check_classification_targets(_in_one_type(labels))
            self._occurring(labels)
            return labels

        return replace(unread, read=read)

    def _occurring(self, labels: np.ndarray) -> np.ndarray:
        """Return the labels that occur, or an error about them."""
        try:
            known = np.unique(_in_one_type(labels))
        except MemoryError:
            raise
        except Exception:  # of foreign labels: their words may quote them
            known = None
        if known is None:
            raise ValueError("y must hold labels of one kind, which can be sorted")
        if len(known) < 2:
            raise ValueError(
                f"{type(self).__name__} requires at least two classes and found one "
                "class; name all classes with classes=[...]"
            )
        return _publishable(known)

    def _known_classes(self, y) -> np.ndarray | None:
        """Return the classes if they are public: named, or those of booleans.

        Categories of a column are mostly made from the labels that occur in it.
        """
        if self.classes is not None:
            return np.unique(np.asarray(self.classes))
        dtype = getattr(y, "dtype", None)
        return np.array([False, True]) if dtype == np.bool_ else None

    def _unprotected(self) -> str | None:
        if self.classes is not None:
            return None
        return "classes=None publishes which labels occur in y: give classes=[...]"

    def _warn_of_classes(self) -> None:
        if self._is_private():
            warnings.warn(
                "classes=None: the labels that occur in y are taken for public "
                "knowledge, and not protected; name them by classes=[...]",
                PrivacyLeakWarning,
                stacklevel=4 + self._levels_around_fit,
            )

    def _targets(self, labels: np.ndarray) -> np.ndarray:
        """Return targets of the outputs, of shape (n_samples, n_outputs)."""
        codes = _codes(self.classes_, labels)
        if codes is None:
            raise ValueError(
                "y has labels that are not among classes; name all of them"
            )
        if self._loss == "logistic":
            return codes[:, None].astype(np.float64)
        return (codes[:, None] == np.arange(len(self.classes_))).astype(np.float64)

    # -- what is made of rows --------------------------------------------------------

    def decision_function(self, X):
        """Return the outputs of the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of the second of two classes; scores of more than two.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict_proba(self, X):
        """Return probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        found = _kernels.probabilities(self._outputs(X), self._loss)
        return np.hstack([1.0 - found, found]) if found.shape[1] == 1 else found

    def predict(self, X):
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        outputs = self._outputs(X)
        if outputs.shape[1] == 1:
            return self.classes_[(outputs[:, 0] > 0.0).astype(int)]
        return self.classes_[outputs.argmax(axis=1)]


def _in_one_type(labels: np.ndarray) -> np.ndarray | list:
    """Return labels whose type holds all of them: they are public, and so is it."""
    return labels.tolist() if labels.dtype == object else labels


def _publishable(classes: np.ndarray) -> np.ndarray:
    """Return classes; texts among objects as an array of texts."""
    texts = classes.dtype == object and all(isinstance(c, str) for c in classes)
    return classes.astype(str) if texts else classes


def _codes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
    """Return the places of labels among sorted classes; None if one is not there."""
    try:
        codes = np.searchsorted(classes, labels)
        codes = np.minimum(codes, len(classes) - 1)
        return codes if np.array_equal(classes[codes], labels) else None
    except MemoryError:
        raise
    except Exception:  # which would quote what was compared, if by labels' own words
        return None


def _n_outputs(n_classes: int) -> int:
    """Return the number of outputs for so many classes."""
    return 1 if n_classes == 2 else n_classes
