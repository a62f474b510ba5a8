"""Tables 2 and 3 of the DP-Adam experiments of Kalinin, Upadhyay and Lampert (2025).

    python examples/benchmarks/adam_regimes.py [--seeds 3] [--only digits adult]
                                               [--regimes wide single]
                                               [--floors noise zero before constant]
                                               [--epochs 10] [--save FILE]

The settings of table 3, all of them: clipping at 1, delta = 1e-6, a weight
lambda = 1, updates clipped to 1, 10 epochs. "wide": batches of 256, noise 1, a
learning rate of 1e-3, stability 1e-6 (plain 1e-8). "single": batches of 1, noise 2,
a rate of 1e-7, stability 1e-7 (plain 1e-8). What differs:

* CIFAR-10 was not to be had. "digits": a small convolutional network on the 1,797
  images of scikit-learn, for as many wide steps as CIFAR-10 has in 10 epochs. "adult":
  logistic regression on all training rows. A quarter of the rows is for tests.
* Examples join batches at random, so that the privacy cost is known. Noise is a
  multiple of what one example adds: for JME the root of 1 + lambda, 1.414, where the
  paper has 1.061. "jme-printed" has the printed noise, and costs more than the others.
* The paper leaves open how a negative second moment v is read. Steps are divided by
  "noise": sqrt(max(v, deviation of its noise)) + eps, the default of this package;
  "zero": sqrt(max(v, 0)) + eps; "constant": sqrt(max(v, eps)), as in DP-AdamBC.
* Updates are clipped with their learning rate; "before": as "zero", but without it, so
  that 500,000 single examples of CIFAR-10 move all parameters by at most 0.05.

"scale-then-privatize" (arXiv:2507.01129) costs what "pp" does in the wide regime.

Fits of single examples on adult take 366,310 steps. All kinds and floors of a split
take them side by side, in one array, with the same samples and noise. Steps from the
same releases are those of JMEAdam (``--check``).

Prints test accuracies and areas under the ROC curve in percent (of one class against
the others, their mean), with standard errors over seeds, and differences from debiased
squares, paired by seed. The data of adult are read from the
folder that SKDPSPECTRAL_DATA names. With ``--save`` each fit is a line of a file, and a
run goes on where another one ended.
"""

import argparse
import itertools
from typing import NamedTuple

import numpy as np
from cells import Cells
from real_tables import load_adult
from scipy.special import expit, softmax
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPAdamClassifier
from skdpspectral.neural_network import Adam, JMEAdam
from skdpspectral.neural_network._adam import AdamState, Optimization

KINDS = {
    "jme": {"moments": "jme", "moment_weight": 1.0},
    "jme-printed": {"moments": "jme", "moment_weight": 1.0},
    "pp-debiased": {"moments": "pp-debiased"},
    "pp": {"moments": "pp"},
}
# Batch size, noise multiplier, learning rate and stability constant of table 3.
REGIMES = {"wide": (256, 1.0, 1e-3, 1e-6), "single": (1, 2.0, 1e-7, 1e-7)}
PLAIN_CONSTANT = 1e-8
FLOORS = ["noise", "zero", "before", "constant"]
# Of table 2, after 10 epochs: wide and single.
PAPER = {
    "jme": (47.94, 30.38),
    "jme-printed": (47.94, 30.38),
    "pp-debiased": (48.53, 29.14),
    "pp": (43.07, 10.48),
}
# The root of r(1) = 4.5 over 2 is printed, where the root of 2 is right.
PRINTED_NOISE = (4.5**0.5 / 2.0) / 2.0**0.5
WIDE_STEPS = 1950  # of 50,000 images in 10 epochs


def parts_of(name, seed):
    """Return training and test rows and labels, scaled by public constants."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X / 16.0
    else:
        found = load_adult()
        X, y = np.asarray(found.data), np.asarray(found.target)
    return train_test_split(X, y, random_state=seed)


class Stability(NamedTuple):
    """A reading of what the paper leaves open; `floor` is a number, or "noise"."""

    constant: float
    floor: float | str
    max_step_norm: float


class Reading(AdamState):
    """Adam with clipped steps, and another reading of negative second moments."""

    floor_read: float | str = "noise"
    max_step_norm: float

    def push(self, gradient, squares):
        """Return the next step, clipped with its learning rate."""
        step = super().push(gradient, squares)
        return step / max(np.linalg.norm(step) / self.max_step_norm, 1.0)

    @property
    def floor(self):
        """Lower bound on the second moment."""
        read = self.floor_read
        return super().floor if read == "noise" else read


def stability_of(regime, kind, floor):
    """Return the reading of a floor."""
    _, _, rate, constant = REGIMES[regime]
    constant = PLAIN_CONSTANT if kind == "pp" else constant
    return {
        "zero": Stability(constant, 0.0, 1.0),
        "before": Stability(constant, 0.0, rate),
        "constant": Stability(0.0, constant, 1.0),
        "noise": Stability(constant, "noise", 1.0),
    }[floor]


def optimizer_of(regime, kind, floor):
    """Return the parameters of Adam in a regime."""
    _, noise, rate, _ = REGIMES[regime]
    read = stability_of(regime, kind, floor)
    return {
        "learning_rate": rate,
        "noise_multiplier": noise * (PRINTED_NOISE if kind == "jme-printed" else 1.0),
        "neighbors": "zero-out-one",
        "stability": read.constant,
        **KINDS[kind],
    }


def read_as(state, regime, kind, floor):
    """Let a state of Adam read negative second moments, and clip, as a floor says."""
    read, state.__class__ = stability_of(regime, kind, floor), Reading
    state.floor_read, state.max_step_norm = read.floor, read.max_step_norm
    return state


def trained(parameters, rows, gradients_of, where, size, epochs):
    """Train parameters in place by steps of JMEAdam; return the privacy cost."""
    given = {"batch_size": size, "n_epochs": epochs}
    given["optimizer"] = Adam(**optimizer_of(*where))
    adam = JMEAdam(len(parameters), len(rows), **given)
    read_as(adam._run.state, *where)
    for batch in adam.batches():
        parameters += adam.step(gradients_of(batch), batch)
    return adam.privacy_.epsilon


# -- logistic regression ---------------------------------------------------------------


def of_adult(regime, kind, floor, epochs, seed):
    """Return accuracy and area under the curve of a fit on adult, and its epsilon."""
    X, test, y, wanted = parts_of("adult", seed)
    rows, y = np.c_[X, np.ones(len(X))], (y == y.max()).astype(float)
    weights = np.zeros(rows.shape[1])

    def gradients_of(batch):
        errors = expit(rows[batch] @ weights) - y[batch]
        return errors[:, None] * rows[batch]

    where = regime, kind, floor
    epsilon = trained(weights, rows, gradients_of, where, REGIMES[regime][0], epochs)
    values = test @ weights[:-1] + weights[-1]
    wanted = (wanted == wanted.max()).astype(int)
    return measured(np.column_stack([-values, values]), wanted, epsilon)


def measured(scores, wanted, epsilon):
    """Return accuracy and area under the curve, in percent, and the privacy cost.

    Scores are outputs of the network: probabilities of 0 and 1 would be ties.
    """
    accuracy = np.mean(np.argmax(scores, axis=1) == wanted)
    # Of one class against the others.
    areas = [roc_auc_score(wanted == c, column) for c, column in enumerate(scores.T)]
    return [100.0 * accuracy, 100.0 * np.mean(areas), epsilon]


# -- the same on single examples, side by side -----------------------------------------


class SideBySide:
    """Kinds and floors of one regime: arrays of shape (n_kinds, n_floors, ...).

    Batches have one example in the mean, and gradients a clipping norm of 1.
    """

    def __init__(self, regime, floors, shape):
        self.made = [
            [
                Optimization(
                    Adam(**optimizer_of(regime, kind, floor)),
                    shape[1],
                    shape[0],
                    batch_size=1,
                    n_epochs=1,
                    clip_norm=1.0,
                )
                for floor in floors
            ]
            for kind in KINDS
        ]
        first = [row[0] for row in self.made]
        plans = [each.plan(1.0, 1e-6, estimator="Adam", seeded=False) for each in first]
        # Deviations of the noise of gradients and of squares, by kind.
        self.stds = np.array(
            [
                each.noise_stds(plan.mechanisms[0])
                for each, plan in zip(first, plans, strict=True)
            ]
        )
        self.nu = np.array([each.nu for each in first])[:, None]
        self.plain = self.nu[:, 0] == 0.0
        names = list(KINDS)
        debiased = np.array([name == "pp-debiased" for name in names])
        self.bias = np.where(debiased, self.stds[:, 0] ** 2, 0.0)[:, None, None]
        self.spread = np.where(
            debiased, np.sqrt(2.0) * self.bias.ravel(), self.stds[:, 1]
        )
        given = [
            [stability_of(regime, kind, floor) for floor in floors] for kind in KINDS
        ]
        self.constant = np.array([[one.constant for one in row] for row in given])
        self.most = np.array([[one.max_step_norm for one in row] for row in given])
        noisy = np.array([[one.floor == "noise" for one in row] for row in given])
        self.by_noise = noisy * self.spread[:, None]
        self.floor = np.array(
            [
                [0.0 if one.floor == "noise" else one.floor for one in row]
                for row in given
            ]
        )
        self.rate = REGIMES[regime][2]
        self.totals = np.zeros((2, len(names), len(floors), shape[1]))
        self.weights, self.variance = np.zeros(2), 0.0

    def sums(self, parameters, rows, targets):
        """Return sums of clipped gradients of the log loss, and of their squares."""
        found = np.zeros_like(self.totals)
        for row, target in zip(rows, targets, strict=True):
            gradient = (expit(parameters @ row) - target)[..., None] * row
            squares = gradient * gradient
            factor = 1.0 / np.maximum(np.sqrt(squares.sum(axis=-1)), 1.0)
            found[0] += factor[..., None] * gradient
            found[1] += (factor * factor)[..., None] * squares
        return found

    def step(self, released):
        """Return the next steps from released sums, which are changed."""
        released[1, self.plain] = np.square(released[0, self.plain])
        released[1] -= self.bias
        self.totals *= DECAYS[:, None, None, None]
        self.totals += released
        self.weights = self.weights * DECAYS + 1.0
        self.variance = self.variance * DECAYS[1] ** 2 + 1.0
        gain = np.sqrt(self.variance) / self.weights[1]
        floor = np.maximum(self.floor, gain * self.by_noise)[..., None]
        spread = np.maximum(self.totals[1] / self.weights[1], floor)
        length = np.sqrt(spread) + self.constant[..., None]
        mean = self.totals[0] * (-self.rate / self.weights[0])
        step = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0.0)
        norm = np.sqrt(np.sum(step * step, axis=-1)) / self.most
        return step / np.maximum(norm, 1.0)[..., None]


DECAYS = np.array([0.9, 0.999])
AT_ONCE = 1000  # steps whose noise is drawn together


def of_single_adult(floors, epochs, seed):
    """Return what `of_adult` does, by kind and floor, of fits side by side."""
    X, test, y, wanted = parts_of("adult", seed)
    classes, wanted = np.unique(y), (wanted == y.max()).astype(int)
    y, rows = (y == classes[1]).astype(float), np.c_[X, np.ones(len(X))]
    run, rng = SideBySide("single", floors, rows.shape), np.random.default_rng(seed)
    parameters, n = np.zeros(run.totals.shape[1:]), len(rows)
    for step in range(epochs * n):
        if step % AT_ONCE == 0:
            noise = rng.standard_normal((AT_ONCE, 2, len(KINDS), 1, rows.shape[1]))
            noise *= run.stds.T[:, :, None, None]
            counts = rng.binomial(n, 1.0 / n, AT_ONCE)
        now = step % AT_ONCE
        batch = rng.choice(n, counts[now], replace=False) if counts[now] else []
        parameters += run.step(run.sums(parameters, rows[batch], y[batch]) + noise[now])
    found = {}
    for where in np.ndindex(parameters.shape[:2]):
        kind, floor = list(KINDS)[where[0]], floors[where[1]]
        adam = Adam(**optimizer_of("single", kind, floor))
        given = {"classes": classes, "batch_size": 1, "n_epochs": epochs}
        plan = DPAdamClassifier((), optimizer=adam, **given).privacy_plan(*X.shape)
        values = test @ parameters[where][:-1] + parameters[where][-1]
        scores = np.column_stack([-values, values])
        found[kind, floor] = measured(scores, wanted, plan.epsilon)
    return found


def print_check(n_steps=300, shape=(5000, 20)):
    """Print the largest relative difference of a step from one of JMEAdam."""
    rng, run = np.random.default_rng(0), SideBySide("single", FLOORS, shape)
    states = {
        where: read_as(
            AdamState(run.made[where[0]][where[1]].adam, run.stds[where[0]]),
            *("single", list(KINDS)[where[0]], FLOORS[where[1]]),
        )
        for where in np.ndindex(len(KINDS), len(FLOORS))
    }
    worst = 0.0
    for _ in range(n_steps):
        released = rng.standard_normal(run.totals.shape)
        released *= run.stds.T[:, :, None, None]
        squares, steps = released[1].copy(), run.step(released)
        for where, state in states.items():
            own = None if run.plain[where[0]] else squares[where]
            wanted = state.push(released[0][where], own)
            change = np.abs(steps[where] - wanted).max() / np.abs(wanted).max()
            worst = max(worst, change)
    print(f"largest difference of {n_steps} steps: {worst:.1e}")


def of_scaled(epochs, seed):
    """Return what `of_adult` does for batches of 256, of scale-then-privatize.

    Gradients are divided by the root of the second moment of earlier releases, at a
    root mean square of 1, before they are clipped and get noise, and then multiplied
    by it; steps are those of "pp".
    """
    X, test, y, wanted = parts_of("adult", seed)
    rows, y = np.c_[X, np.ones(len(X))], (y == y.max()).astype(float)
    (n, d), rng = rows.shape, np.random.default_rng(seed)
    size, noise, rate, _ = REGIMES["wide"]
    weights, first, second, scale = np.zeros(d), np.zeros(d), np.zeros(d), np.ones(d)
    for step in range(1, epochs * n // size + 1):
        batch = np.flatnonzero(rng.random(n) < size / n)
        errors = expit(rows[batch] @ weights) - y[batch]
        scaled = errors[:, None] * rows[batch] / scale
        scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
        released = scaled.sum(axis=0) + noise * rng.standard_normal(d)
        released *= scale / size
        first = DECAYS[0] * first + (1.0 - DECAYS[0]) * released
        second = DECAYS[1] * second + (1.0 - DECAYS[1]) * released**2
        root = np.sqrt(second / (1.0 - DECAYS[1] ** step)) + PLAIN_CONSTANT
        weights -= rate * first / (1.0 - DECAYS[0] ** step) / root
        scale = root / np.sqrt(np.mean(root**2))
    values = test @ weights[:-1] + weights[-1]
    wanted = (wanted == wanted.max()).astype(int)
    return measured(np.column_stack([-values, values]), wanted, np.nan)


# -- a small convolutional network -----------------------------------------------------


class SmallCNN:
    """Eight 3 x 3 filters, ReLU, means over 2 x 2, and a dense layer to ten classes."""

    n_filters, n_classes = 8, 10

    def __init__(self, seed):
        f, c = self.n_filters, self.n_classes
        self.shapes = ((10, f), (16 * f + 1, c))
        rng = np.random.default_rng(seed)
        filters = rng.uniform(-1.0, 1.0, self.shapes[0]) / 3.0
        dense = rng.uniform(-1.0, 1.0, self.shapes[1]) / np.sqrt(16 * f)
        filters[-1] = dense[-1] = 0.0
        self.parameters = np.concatenate([filters.ravel(), dense.ravel()])

    def _layers(self):
        first = self.shapes[0][0] * self.shapes[0][1]
        parts = np.split(self.parameters, [first])
        return [part.reshape(s) for part, s in zip(parts, self.shapes, strict=True)]

    def _forward(self, images):
        """Patches, filtered patches, pooled values and outputs."""
        padded = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
        patches = patches.reshape(len(images), 64, 9)
        patches = np.concatenate([patches, np.ones((len(images), 64, 1))], axis=2)
        filters, dense = self._layers()
        filtered = patches @ filters
        grid = np.maximum(filtered, 0.0).reshape(-1, 4, 2, 4, 2, self.n_filters)
        pooled = grid.mean(axis=(2, 4)).reshape(len(images), 16 * self.n_filters)
        pooled = np.concatenate([pooled, np.ones((len(images), 1))], axis=1)
        return patches, filtered, pooled, pooled @ dense

    def outputs(self, images):
        """Return an output for each class, of shape (n_images, 10)."""
        return self._forward(images)[-1]

    def gradients(self, images, labels):
        """Return the gradient of each image's log loss, one a row."""
        n = len(images)
        patches, filtered, pooled, outputs = self._forward(images)
        errors = softmax(outputs, axis=1)
        errors[np.arange(n), labels] -= 1.0
        dense = self._layers()[1]
        back = (errors @ dense[:-1].T).reshape(n, 4, 1, 4, 1, self.n_filters) / 4.0
        back = np.broadcast_to(back, (n, 4, 2, 4, 2, self.n_filters))
        back = back.reshape(n, 64, self.n_filters) * (filtered > 0.0)
        of_filters = patches.transpose(0, 2, 1) @ back
        of_dense = pooled[:, :, None] * errors[:, None]
        parts = [
            part.reshape(n, a * b)
            for part, (a, b) in zip((of_filters, of_dense), self.shapes, strict=True)
        ]
        return np.concatenate(parts, axis=1)


def of_digits(regime, kind, floor, epochs, seed):
    """Return the same of the convolutional network on digits."""
    X, test, y, wanted = parts_of("digits", seed)
    network, size = SmallCNN(seed), REGIMES[regime][0]
    if size > 1:
        epochs = round(epochs * WIDE_STEPS / 10 / np.ceil(len(X) / size))
    where = regime, kind, floor
    epsilon = trained(
        network.parameters,
        X,
        lambda batch: network.gradients(X[batch], y[batch]),
        where,
        size,
        epochs,
    )
    return measured(network.outputs(test), wanted, epsilon)


# -- the table -------------------------------------------------------------------------

FITS = {"digits": of_digits, "adult": of_adult}


def print_regimes(given):
    """Print a row for each data set, regime, floor and kind of moments."""
    cells = Cells(given.save)
    head = ("data", "regime", "floor", "moments", "accuracy", "AUC", "paper", "epsilon")
    print_row(*head, "fits", widths=14)
    for where in itertools.product(given.only, given.regimes, given.floors, KINDS):
        name, regime, floor, kind = where
        key, chosen = (*where, given.epochs), (regime, kind, floor, given.epochs)
        for seed in range(given.seeds):
            if (*key, seed) in cells:
                continue
            if (name, regime) == ("adult", "single"):
                found = of_single_adult(given.floors, given.epochs, seed)
                for (one, other), values in found.items():
                    cells.add((name, regime, other, one, given.epochs, seed), values)
            else:
                cells.timed((*key, seed), FITS[name], *chosen, seed)
        found = np.array(cells.values(*key)[: given.seeds])
        mean, spread = found.mean(axis=0), errors_of(found)
        of_both = [f"{mean[i]:.1f} +- {spread[i]:.1f}" for i in range(2)]
        of_paper = PAPER[kind][list(REGIMES).index(regime)]
        print_row(*where, *of_both, of_paper, f"{mean[2]:.3f}", len(found), widths=14)
    for where in itertools.product(given.only, given.regimes, given.floors):
        debiased = cells.values(*where, "pp-debiased", given.epochs)[: given.seeds]
        for kind in ("jme", "jme-printed", "pp"):
            found = cells.values(*where, kind, given.epochs)[: given.seeds]
            change = np.subtract(found, debiased)[:, 1:2]
            wins = int((change > 0.0).sum())
            text = f"{change.mean():.1f} +- {errors_of(change)[0]:.1f}"
            print_row(*where, f"{kind} - debiased", text, f"{wins} wins", widths=18)
    if "adult" in given.only and "wide" in given.regimes:
        found = np.array([of_scaled(given.epochs, s) for s in range(given.seeds)])
        text = f"{found[:, 1].mean():.1f} +- {errors_of(found)[1]:.1f}"
        print_row("adult", "wide", "scale-then-privatize", text, widths=22)
    print(f"{cells.seconds / 60.0:.1f} minutes of CPU")


def errors_of(found):
    """Return standard errors of the columns."""
    return found.std(axis=0, ddof=len(found) > 1) / np.sqrt(len(found))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(FITS))
    parser.add_argument("--regimes", nargs="*", default=list(REGIMES))
    parser.add_argument("--floors", nargs="*", default=FLOORS)
    parser.add_argument("--check", action="store_true", help="compare steps alone")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--save", help="file of lines, read first and added to")
    given = parser.parse_args()
    ignore_leak_warnings()
    print_check() if given.check else print_regimes(given)


if __name__ == "__main__":
    main()
