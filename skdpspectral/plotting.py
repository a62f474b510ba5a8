"""Displays of what privacy costs and what noise does; they need matplotlib to draw."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils.validation import check_is_fitted

from ._base.documented import documented
from .accounting._ledger.planned_fits import estimators_within, is_private
from .mechanisms import check_count
from .pipeline import PrivatePipeline
from .preprocessing._quantiles import score_histogram

__all__ = [
    "AuditDisplay",
    "ClientWeightsDisplay",
    "ComponentsDisplay",
    "EffectsDisplay",
    "LedgerDisplay",
    "PrivacyUtilityDisplay",
    "ScoresDisplay",
    "StreamDisplay",
]


class _Display:
    """Base of displays: axes and styles; matplotlib is imported when it is needed."""

    def plot(self, ax=None, **style):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on. None creates a new figure.
        **style : object
            Arguments of the method of `ax` that draws the first attribute which is not
            an axis or figure, such as ``ax.plot``.

        Returns
        -------
        display : object
            This display.

        Raises
        ------
        ValueError
            If a value is out of range, or shapes disagree.
        """
        self._draw(ax, style)
        return self

    def _start(self, ax, xlabel: str, ylabel: str) -> None:
        """Take the given axes, or make new ones, and label them."""
        pyplot = self._check_style()
        self.ax_ = pyplot.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)

    @staticmethod
    def _check_style(**style):
        """Return pyplot; refuse what no line has, before anything is charged."""
        try:
            from matplotlib import lines, pyplot
        except ImportError as error:
            raise ImportError(
                "plotting needs matplotlib: pip install matplotlib"
            ) from error
        lines.Line2D([], [], **style)
        return pyplot


def _attribute(estimator, name: str, remedy: str):
    """Return what not every fit sets, or an error with a remedy."""
    check_is_fitted(estimator)
    found = getattr(estimator, name, None)
    if found is None:
        kind = type(estimator).__name__
        raise ValueError(f"estimator: this {kind} has no {name}; {remedy}")
    return found


# Half the width of a two-sided interval of 95 % of normal noise, in deviations.
_WIDTH = float(ndtri(0.975))


def _of_shape(name: str, values, shape: tuple) -> np.ndarray:
    """Return numbers of a shape, in which None stands for any length."""
    found = np.asarray(values, dtype=np.float64)
    fits = zip(found.shape, shape, strict=False)
    if found.ndim != len(shape) or any(n not in (m, None) for m, n in fits):
        raise ValueError(f"{name} must have shape {shape}, got {found.shape}")
    return found


@documented
class LedgerDisplay(_Display):
    """Visualization of the spent and remaining budget of a ledger, entry by entry.

    Parameters
    ----------
    entries : array-like of shape (n_points,)
        Numbers of entries, in increasing order.
    spent : array-like of shape (n_points,)
        Epsilon of all entries so far, infinite after releases without privacy.
    left : array-like of shape (n_points,) or None, default=None
        Epsilon available to one more fit. It is more than the budget minus `spent`,
        because costs do not add up linearly.
    budget : float or None, default=None
        Epsilon of the budget, drawn as a horizontal line.
    delta : float or None, default=None
        Delta at which epsilons are stated, for the axis label.

    Attributes
    ----------
    {axes_of_display}
    spent_ : matplotlib Line2D
        Step curve of `spent`.
    left_, budget_ : matplotlib Line2D or None
        Step curve of `left`, and line of the budget.

    Examples
    --------
    >>> from skdpspectral import DPPCA, PrivacyAccountant
    >>> from skdpspectral.plotting import LedgerDisplay
    >>> accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
    >>> for _ in range(3):
    ...     accountant.charge(DPPCA(epsilon=0.5).privacy_plan(1000, 5))
    >>> display = LedgerDisplay.from_accountant(accountant)
    >>> display.spent_.get_ydata().round(2).tolist()
    [0.0, 0.5, 0.72, 0.9]
    """

    def __init__(self, *, entries, spent, left=None, budget=None, delta=None):
        self.entries, self.spent, self.left = entries, spent, left
        self.budget, self.delta = budget, delta

    def _draw(self, ax, style):
        at = "" if self.delta is None else f" at delta={self.delta:g}"
        self._start(ax, "entries of the ledger", f"epsilon{at}")
        entries = _of_shape("entries", self.entries, (None,))
        style = {"drawstyle": "steps-post", "marker": ".", **style}

        def curve(name, values, label):
            values = _of_shape(name, values, entries.shape)
            finite = np.isfinite(values)
            if not finite.all():
                label += f", infinite from entry {entries[np.argmin(finite)]:g} on"
            shown = np.where(finite, values, np.nan)
            return self.ax_.plot(entries, shown, **{"label": label, **style})[0]

        self.spent_ = curve("spent", self.spent, "spent")
        self.left_ = self.budget_ = None
        if self.left is not None:
            self.left_ = curve("left", self.left, "left for one more fit")
        if self.budget is not None:
            self.budget_ = self.ax_.axhline(
                self.budget, color="0.4", linestyle="--", label="budget"
            )
        self.ax_.set_ylim(bottom=0.0)
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.legend()

    @classmethod
    def from_accountant(cls, accountant, *, ax=None, **style):
        """Plot the ledger of an accountant, without charging it.

        Parameters
        ----------
        accountant : PrivacyAccountant
            Accountant with or without a budget. Only some entries are drawn if there
            are more than 200.
        {as_in_plot}
        LedgerError
            If the ledger cannot be read.
        """
        entries, spent, left = zip(*accountant._over_time(), strict=True)
        display = cls(
            entries=entries,
            spent=[cost.epsilon for cost in spent],
            left=None if accountant.epsilon is None else left,
            budget=accountant.epsilon,
            delta=spent[-1].delta,
        )
        return display.plot(ax, **style)


@documented
class ComponentsDisplay(_Display):
    """Visualization of private components with intervals of 95 % of the noise.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Components, one per row.
    std : array-like of shape (n_components, n_features)
        Standard deviations of the entries due to noise.
    {feature_names}

    Attributes
    ----------
    {axes_of_display}
    errorbars_ : list of matplotlib ErrorbarContainer
        One container per component.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.plotting import ComponentsDisplay
    >>> X, _ = make_spiked_covariance(5000, 6, random_state=0)
    >>> display = ComponentsDisplay.from_estimator(DPPCA(1).fit(X))
    >>> len(display.errorbars_)
    1
    """

    def __init__(self, *, components, std, feature_names=None):
        self.components, self.std = components, std
        self.feature_names = feature_names

    def _draw(self, ax, style):
        components = _of_shape("components", self.components, (None, None))
        bars = _WIDTH * _of_shape("std", self.std, components.shape)
        self._start(ax, "feature", "entry, 95% of the noise")
        style = {"linestyle": "none", "marker": "o", **style}
        self.errorbars_ = []
        rank, n_features = components.shape
        for k, (row, bar) in enumerate(zip(components, bars, strict=True)):
            # Beside each other, and not over each other.
            places = np.arange(n_features) + 0.6 * ((k + 0.5) / rank - 0.5)
            style["label"] = f"component {k + 1}"
            self.errorbars_.append(self.ax_.errorbar(places, row, bar, **style))
        self.ax_.axhline(0.0, color="0.4", linewidth=0.8)
        if self.feature_names is not None:
            names = list(self.feature_names)
            self.ax_.set_xticks(range(n_features), names, rotation=45, ha="right")
        self.ax_.legend()

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **style):
        """Plot the components of a fitted estimator, without charging it.

        Parameters
        ----------
        estimator : fitted DPPCA
            Estimator with `components_std_`, which not every fit sets.
        {as_in_plot}
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If the standard deviations are not available.

        Notes
        -----
        Intervals contain the components of the same bounded rows **without noise**, to
        first order. They do not include the sampling error of the rows. They are
        computed from the plan and the releases. If the noise does not separate some
        eigenvalues, their intervals are inaccurate, and the coverage is lower.
        """
        remedy = 'fit DPPCA with scale=None or scale="bounds"'
        std = _attribute(estimator, "components_std_", remedy)
        names = getattr(estimator, "feature_names_in_", None)
        display = cls(components=estimator.components_, std=std, feature_names=names)
        return display.plot(ax, **style)


@documented
class ScoresDisplay(_Display):
    """Visualization of a private histogram of the first two component scores.

    Scores of private rows are as private as the rows, and so is a scatter plot of them.
    This display releases noisy counts of scores in cells instead, with its own charge.

    Parameters
    ----------
    counts : array-like of shape (n_groups, n_bins, n_bins)
        Noisy counts of rows, by group and cell.
    edges : array-like of shape (2, n_bins + 1)
        Edges of the cells along each component. Rows beyond are in the outer cells.
    noise_std : float, default=0.0
        Standard deviation of the noise of a count.
    group_names : sequence of str or None, default=None
        Labels of the groups.

    Attributes
    ----------
    {axes_of_display}
    scatters_ : list of matplotlib PathCollection
        Markers of one group each, with areas proportional to counts.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.plotting import ScoresDisplay
    >>> X, _ = make_spiked_covariance(5000, 6, n_components=2, random_state=0)
    >>> display = ScoresDisplay.from_estimator(DPPCA(2).fit(X), X, epsilon=1.0)
    >>> display.counts.shape
    (1, 16, 16)
    """

    def __init__(self, *, counts, edges, noise_std=0.0, group_names=None):
        self.counts, self.edges = counts, edges
        self.noise_std, self.group_names = noise_std, group_names

    def _draw(self, ax, style):
        edges = _of_shape("edges", self.edges, (2, None))
        n_bins = edges.shape[1] - 1
        counts = _of_shape("counts", self.counts, (None, n_bins, n_bins))
        self._start(ax, "first component", "second component")
        first, second = np.meshgrid(*(edges[:, :-1] + edges[:, 1:]) / 2, indexing="ij")
        names = self.group_names
        names = [None] * len(counts) if names is None else names
        self.scatters_ = []
        for name, cells in zip(names, counts, strict=True):
            seen = cells > 2.0 * self.noise_std
            look = {"s": 150.0 * cells[seen] / counts.max(), "alpha": 0.6, **style}
            drawn = self.ax_.scatter(first[seen], second[seen], label=name, **look)
            self.scatters_.append(drawn)
        if self.group_names is not None:
            self.ax_.legend()

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        groups=None,
        group_names=None,
        n_bins=16,
        epsilon=1.0,
        delta=1e-6,
        accountant=None,
        noise_seed=None,
        ax=None,
        **style,
    ):
        """Release a histogram of scores, and plot it.

        Parameters
        ----------
        estimator : fitted DPPCA
            Estimator with `components_`, at least two.
        X : array-like of shape (n_samples, n_features)
            Private rows.
        groups : array-like of shape (n_samples,) or None, default=None
            Group of each row, an integer or text, which is as private as the row. Rows
            of groups that are not in `group_names` are not counted.
        group_names : sequence of int or str, or None, default=None
            All groups to draw, which are public and different.
        n_bins : int, default=16
            Number of cells along each component.
        epsilon, delta, accountant, noise_seed
            Budget of the histogram and ledger, as in
            :func:`~skdpspectral.preprocessing.private_quantiles`. Without `accountant`,
            that of the estimator is charged.
        {as_in_plot}
        ValueError, TypeError
            If an argument or the form of X is invalid (nothing is charged), or if a
            value is invalid (charged).
        {no_budget}

        Notes
        -----
        The histogram is private for one row, under replacement. Deciles of both scores
        (:ref:`lemma-quantile-votes`) take 30 % of the budget's mu^2 and give the edges.
        A row is in one cell of one group: its replacement moves the counts by at most
        the root of two in l2-norm, and 2 in l1-norm (:ref:`lemma-value-windows`).
        """
        cls._check_style()
        check_is_fitted(estimator)
        check_count("n_bins", n_bins)
        own = estimator.accountant if accountant is None else accountant
        budget = (epsilon, delta, own, noise_seed)
        given = (estimator, X, groups, group_names, n_bins)
        counts, edges, noise_std = score_histogram(*given, *budget)
        named = {"noise_std": noise_std, "group_names": group_names}
        return cls(counts=counts, edges=edges, **named).plot(ax, **style)


# Deviations from the mean of a feature up to which its effect is drawn.
_DRAWN = 3.0


@documented
class StreamDisplay(_Display):
    """Visualization of the released means of a stream, with bands of 95 % noise.

    Parameters
    ----------
    steps : array-like of shape (n_points,)
        Numbers of rows so far.
    locations : array-like of shape (n_points, n_features)
        Released means.
    std : array-like of shape (n_points,)
        Standard deviations of the noise in each entry of a mean.
    {feature_names}

    Attributes
    ----------
    {axes_of_display}
    lines_ : list of matplotlib Line2D
        Means, one curve per feature.
    bands_ : list of matplotlib PolyCollection
        Noise bands of the means.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import JMECovariance
    >>> from skdpspectral.plotting import StreamDisplay
    >>> X = np.random.default_rng(0).normal([0.3, 0.0], 0.2, size=(5000, 2))
    >>> path = JMECovariance().release_path(X, every=1000)
    >>> display = StreamDisplay.from_path(path)
    >>> display.steps
    [1000, 2000, 3000, 4000, 5000]
    """

    def __init__(self, *, steps, locations, std, feature_names=None):
        self.steps, self.locations, self.std = steps, locations, std
        self.feature_names = feature_names

    def _draw(self, ax, style):
        steps = _of_shape("steps", self.steps, (None,))
        means = _of_shape("locations", self.locations, (len(steps), None))
        half = _WIDTH * _of_shape("std", self.std, steps.shape)
        self._start(ax, "rows", "released mean, 95% of the noise")
        names = self.feature_names
        names = range(means.shape[1]) if names is None else names
        self.lines_, self.bands_ = [], []
        for name, mean in zip(names, means.T, strict=True):
            style["label"] = f"feature {name}" if self.feature_names is None else name
            (line,) = self.ax_.plot(steps, mean, **style)
            band = {"facecolor": line.get_color(), "alpha": 0.25}
            self.lines_.append(line)
            self.bands_.append(
                self.ax_.fill_between(steps, mean - half, mean + half, **band)
            )
        self.ax_.legend()

    @classmethod
    def from_path(cls, path, *, feature_names=None, ax=None, **style):
        """Plot the means of a stream's releases, without charging it.

        Parameters
        ----------
        path : iterable of MomentRelease
            Releases of a stream, such as ``release_path(X, every=100)`` of
            :class:`~skdpspectral.JMECovariance`.
        {feature_names}
        {as_in_plot}
        ValueError
            If the standard deviations of means are not available, as with
            ``moments="assume-centered"`` or a `second_workload`.

        Notes
        -----
        Bands contain the means of the same clipped rows **without noise**. The noise is
        normal with a known standard deviation. Bands exclude the rows' sampling error.
        """
        steps, means, _, std = zip(*path, strict=True)
        if None in std:
            raise ValueError(
                "path: the noise of these means is not known; use "
                'moments="jme" without a second_workload'
            )
        display = cls(
            steps=list(steps), locations=means, std=std, feature_names=feature_names
        )
        return display.plot(ax, **style)


@documented
class ClientWeightsDisplay(_Display):
    """Visualization of the weights of the clients of a federation.

    Parameters
    ----------
    weights : array-like of shape (n_clients,)
        Public or released weights.
    clients : sequence
        Client ids.

    Attributes
    ----------
    {axes_of_display}
    bars_ : matplotlib BarContainer
        One bar per client, with the largest weight at the top.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.plotting import ClientWeightsDisplay
    >>> X, _ = make_spiked_covariance(4000, 6, random_state=0)
    >>> clients = np.repeat(["Bern", "Oslo"], [1000, 3000])
    >>> pca = FederatedDPPCA(1).fit(X, clients=clients)
    >>> display = ClientWeightsDisplay.from_estimator(pca)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['Bern', 'Oslo']
    """

    def __init__(self, *, weights, clients):
        self.weights, self.clients = weights, clients

    def _draw(self, ax, style):
        names = [str(client) for client in self.clients]
        weights = _of_shape("weights", self.weights, (len(names),))
        self._start(ax, "weight in the average", "client")
        order = np.argsort(weights, kind="stable")
        self.bars_ = self.ax_.barh([names[k] for k in order], weights[order], **style)

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **style):
        """Plot the public weights of the last fit, without charging it.

        Parameters
        ----------
        estimator : fitted FederatedDPPCA
            Estimator with `client_weights_`.
        {as_in_plot}
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If the estimator has no weights.
        """
        remedy = "FederatedDPPCA has them unless its components were given"
        weights = _attribute(estimator, "client_weights_", remedy)
        return cls(weights=weights, clients=estimator.clients_).plot(ax, **style)


@documented
class EffectsDisplay(_Display):
    """Visualization of the effect of each feature in a ridge model.

    Parameters
    ----------
    places : array-like of shape (n_features, n_points)
        Values of each feature, in its deviations from the mean.
    effects : array-like of shape (n_features, n_points)
        Differences from the prediction at the mean of the feature.
    feature_names : list of str
        Labels of the features.

    Attributes
    ----------
    {axes_of_display}
    lines_ : list of matplotlib Line2D
        Effect of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPRidge
    >>> from skdpspectral.plotting import EffectsDisplay
    >>> X = np.random.default_rng(0).standard_normal((5000, 2))
    >>> model = DPRidge(basis="additive", epsilon=4.0).fit(X, np.sin(X[:, 0]))
    >>> len(EffectsDisplay.from_estimator(model).lines_)
    2
    """

    def __init__(self, *, places, effects, feature_names):
        self.places, self.effects = places, effects
        self.feature_names = feature_names

    def _draw(self, ax, style):
        places = _of_shape("places", self.places, (None, None))
        effects = _of_shape("effects", self.effects, places.shape)
        self._start(ax, "feature (deviations from its mean)", "effect")
        self.lines_ = []
        for x, y, name in zip(places, effects, self.feature_names, strict=True):
            self.lines_ += self.ax_.plot(x, y, **{"label": str(name), **style})
        self.ax_.legend()

    @classmethod
    def from_estimator(cls, estimator, *, features=None, output=0, ax=None, **style):
        """Plot effects of a fitted model, from its releases alone.

        Parameters
        ----------
        estimator : DPRidge or DPRidgeClassifier
            Fitted model.
        features : array-like of int or None, default=None
            Positions of the features. None draws the seen features whose effects vary
            most, at most six.
        output : int, default=0
            Target or class.
        {as_in_plot}
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "expanded_features_"):
            raise ValueError("estimator must be a fitted DPRidge or DPRidgeClassifier")
        steps = np.linspace(-_DRAWN, _DRAWN, 121)
        rows = estimator.mean_ + steps[:, None] * estimator.scale_
        found = estimator._effects_of(rows)[:, output]
        if features is None:
            features = np.argsort(-found.std(axis=0), kind="stable")
            features = features[~estimator.unseen_features_[features]][:6]
        plain = [f"x{j}" for j in range(found.shape[1])]
        names = getattr(estimator, "feature_names_in_", plain)
        display = cls(
            places=np.tile(steps, (len(features), 1)),
            effects=found[:, features].T,
            feature_names=[names[j] for j in features],
        )
        return display.plot(ax, **style)


@documented
class AuditDisplay(_Display):
    r"""Visualization of an attack's error rates and the claimed guarantee.

    A guarantee of mu means that no test has error rates below the curve
    :math:`\beta = \Phi(\Phi^{-1}(1 - \alpha) - \mu)`. The plotted rates are observed in
    trials, so a few can fall below the curve by chance. The audit's bound allows for
    that.

    Parameters
    ----------
    false_positives, false_negatives : array-like of shape (n_thresholds,)
        Shares of trials that the test mistakes for the neighbor, and of trials of the
        neighbor that it misses, for each threshold.
    claim : float or tuple of two floats
        The mu that the plan claims, or its (epsilon, delta).
    bound : float, tuple of two floats or None, default=None
        Lower bound found by the audit, of the same kind, drawn as a second curve.

    Attributes
    ----------
    {axes_of_display}
    rates_, claim_ : matplotlib Line2D
        Error rates of the attack, and the smallest rates that the claim allows.
    bound_ : matplotlib Line2D or None
        Smallest error rates that a claim of `bound` would allow.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.audit import audit_in_few_fits, pairs_of_features
    >>> from skdpspectral.plotting import AuditDisplay
    >>> pca = DPPCA(1, epsilon=4.0, center="none")
    >>> result = audit_in_few_fits(pca, pairs_of_features(20), 2)
    >>> AuditDisplay.from_result(result).ax_.get_xlabel()
    'false positives'
    """

    def __init__(self, *, false_positives, false_negatives, claim, bound=None):
        self.false_positives, self.false_negatives = false_positives, false_negatives
        self.claim, self.bound = claim, bound

    def _draw(self, ax, style):
        wrong = _of_shape("false_positives", self.false_positives, (None,))
        missed = _of_shape("false_negatives", self.false_negatives, wrong.shape)
        self._start(ax, "false positives", "false negatives")
        style = {"label": "attack", **style}
        (self.rates_,) = self.ax_.plot(wrong, missed, **style)
        alphas = np.linspace(0.0, 1.0, 201)

        def curve(loss, label, linestyle):
            if isinstance(loss, tuple):
                (epsilon, delta), name = loss, "epsilon"
                slopes = np.exp([epsilon, -epsilon])[:, None]
                both = (1.0 - delta) * np.minimum([[1.0], slopes[1]], 1.0)
                betas = np.maximum((both - slopes * alphas).max(axis=0), 0.0)
            else:
                epsilon, name, betas = loss, "mu", ndtr(ndtri(1.0 - alphas) - loss)
            look = {"color": "0.4", "linestyle": linestyle}
            label = f"{label} {name}={epsilon:.3g}"
            return self.ax_.plot(alphas, betas, label=label, **look)[0]

        self.claim_ = curve(self.claim, "claim:", "--")
        self.bound_ = None
        if self.bound is not None:
            self.bound_ = curve(self.bound, "found: at least", ":")
        self.ax_.set_aspect("equal")
        self.ax_.legend()

    @classmethod
    def from_result(cls, result, *, ax=None, **style):
        """Plot the result of :func:`~skdpspectral.audit.audit_in_few_fits`.

        Parameters
        ----------
        result : AuditResult
            Result with `scores`.
        {as_in_plot}
        """
        first, second = result.scores
        one = np.sort(_of_shape("scores", first, (None,)))
        other = np.sort(_of_shape("scores", second, (None,)))
        thresholds = np.r_[-np.inf, np.unique(np.r_[one, other])]
        claim, bound = result.claimed_mu, result.mu
        if claim is None:
            claim, bound = (
                (epsilon, result.delta)
                for epsilon in (result.claimed_epsilon, result.epsilon)
            )
        display = cls(
            false_positives=1.0 - np.searchsorted(one, thresholds, "right") / len(one),
            false_negatives=np.searchsorted(other, thresholds, "right") / len(other),
            claim=claim,
            bound=bound,
        )
        return display.plot(ax, **style)


def _checked_epsilons(epsilons) -> np.ndarray:
    """Return budgets as an array, or an error that names them."""
    values = np.asarray(epsilons, dtype=np.float64)
    distinct = values.ndim == 1 and 0 < len(np.unique(values)) == len(values)
    if not (distinct and np.all((values > 0.0) & np.isfinite(values))):
        raise ValueError(
            "epsilons must be a sequence of distinct, positive, finite numbers, at "
            f"least one, got {epsilons!r}"
        )
    return values


@documented
class PrivacyUtilityDisplay(_Display):
    """Visualization of the held-out score of a private estimator against epsilon.

    Create it with :meth:`from_estimator`, or directly from scores, such as those of a
    search over epsilon.

    .. warning::
        An exact score on held-out private rows is a release that no ledger records. So
        are the curve and a choice of epsilon based on it. Use similar public rows or
        private scores (:func:`~skdpspectral.metrics.make_private_scorer`), or keep the
        curve as private as the rows.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Privacy budgets of one fit, positive and finite.
    scores : array-like of shape (n_epsilons, n_folds)
        Held-out scores for each epsilon.
    score_name : str or None, default=None
        Label of the vertical axis. None uses "Score".

    Attributes
    ----------
    {axes_of_display}
    line_ : matplotlib Line2D
        Mean scores.
    fill_between_ : matplotlib PolyCollection
        Band of one standard deviation over folds.

    See Also
    --------
    skdpspectral.metrics.captured_variance : Score for principal components.
    sklearn.model_selection.ValidationCurveDisplay : Curve for any parameter.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.metrics import captured_variance
    >>> from skdpspectral.plotting import PrivacyUtilityDisplay
    >>> X, _ = make_spiked_covariance(2000, 10, random_state=0)
    >>> display = PrivacyUtilityDisplay.from_estimator(
    ...     DPPCA(1), X, epsilons=[0.1, 1, 10], scoring=captured_variance
    ... )
    >>> display.scores.shape
    (3, 5)
    """

    def __init__(self, *, epsilons, scores, score_name=None):
        self.epsilons, self.scores, self.score_name = epsilons, scores, score_name

    def _draw(self, ax, style):
        epsilons = _checked_epsilons(self.epsilons)
        scores = _of_shape("scores", self.scores, (len(epsilons), None))
        order = np.argsort(epsilons)
        epsilons, mean = epsilons[order], scores[order].mean(axis=1)
        std = scores[order].std(axis=1)
        self._start(ax, "epsilon", self.score_name or "Score")
        style = {"marker": "o", **style}
        (self.line_,) = self.ax_.plot(epsilons, mean, **style)
        look = {"facecolor": self.line_.get_color(), "alpha": 0.3}
        band = epsilons, mean - std, mean + std
        self.fill_between_ = self.ax_.fill_between(*band, **look)
        self.ax_.set_xscale("log")
        self.ax_.xaxis.set_major_formatter("{x:g}")

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        epsilons,
        cv=None,
        scoring=None,
        n_jobs=None,
        ax=None,
        **style,
    ):
        """Cross-validate at each epsilon and plot the curve.

        All n_epsilons x n_folds fits are charged one after another. Use
        :meth:`~skdpspectral.PrivacyAccountant.check` to find out beforehand whether the
        budget suffices. If it runs out in between, completed fits stay charged.

        Parameters
        ----------
        estimator : estimator
            A private estimator, or a pipeline or other meta-estimator that contains
            one. It is cloned for every fit. Its only epsilon of a private estimator
            varies.
        X : array-like of shape (n_samples, n_features)
            Rows, which are split into folds.
        y : array-like of shape (n_samples,) or None, default=None
            Targets, if the estimator or the score needs them.
        epsilons : array-like of shape (n_epsilons,)
            Distinct, positive and finite budgets of one fit.
        cv, n_jobs
            As in :func:`~sklearn.model_selection.cross_val_score`. The rows are split
            once, and every epsilon uses the same folds.
        scoring : str, callable or None, default=None
            A single score, such as :func:`~skdpspectral.metrics.captured_variance` for
            components. None uses the estimator's ``score``.
        {as_in_plot}
        ValueError, TypeError, AttributeError
            If an argument is invalid; no fit is run.
        PrivacyBudgetError
            If the accountant refuses a fit.

        Warnings
        --------
        The scores are not private; see the warning in the class documentation.
        """
        cls._check_style(**style)
        epsilons = _checked_epsilons(epsilons)
        names = [
            f"{path}__epsilon" if path else "epsilon"
            for path, part in estimators_within(estimator).items()
            if is_private(part)
        ]
        if isinstance(estimator, PrivatePipeline):
            names = ["epsilon"]  # its steps have no budgets of their own
        if len(names) != 1:
            raise ValueError(
                "estimator must have one epsilon of a private estimator, which varies, "
                f"got {names}: use a PrivatePipeline for several steps"
            )
        if isinstance(scoring, (list, tuple, set, dict)):
            raise ValueError(f"scoring must be a single score, got {scoring!r}")
        splitter = check_cv(cv, y, classifier=is_classifier(estimator))
        # As a list: a splitter that shuffles would divide each time anew.
        folds = list(splitter.split(X, y))

        def scores_at(epsilon) -> np.ndarray:
            model = clone(estimator).set_params(**{names[0]: epsilon})
            how = {"scoring": scoring, "cv": folds, "n_jobs": n_jobs}
            return cross_val_score(model, X, y, **how, error_score="raise")

        score_name = getattr(scoring, "__name__", scoring)
        if isinstance(score_name, str):
            shown = score_name.replace("neg_", "negative ", 1)
            score_name = shown.replace("_", " ").capitalize()
        display = cls(
            epsilons=epsilons,
            scores=np.stack([scores_at(epsilon) for epsilon in epsilons.tolist()]),
            score_name=score_name,
        )
        return display.plot(ax, **style)
