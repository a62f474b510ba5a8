"""Private Adam: moments, the same without privacy, and Opacus, at equal budgets.

    python examples/benchmarks/dp_adam.py [--only digits adult] [--epsilons 0.2 1 4]
                                          [--pipeline] [--save FILE]
                                          [--speed] [--repeats 11]
                                          [--methods pp opacus] [--no-measuring]

Test accuracies on digits and adult: logistic regression under ``"zero-out-one"``, the
relation of Opacus, whose noise is that of the same accounted budget. ``--pipeline``:
DPPCA and DPAdamClassifier as one private pipeline, beside the classifier alone, both
under ``"replace-one"``; epsilons of the two steps are what makes the total of a ledger
that holds both the budget. Without privacy: Adam on all features, and on components.

Learning rate, batch size and epochs (and components) of each method are chosen from the
same settings on a validation part of the training rows; rows that are tested on choose
nothing. Digits: five divisions of the rows, each with a choice of its own, and two fits
of each; adult: one, and five fits. "validated" is whichever of our moments the
validation part prefers. Means and deviations over fits. delta = 1e-5 on adult, 1e-4 on
digits. ``--speed`` prints examples a second for one hidden layer on one thread (say
OPENBLAS_NUM_THREADS=1), and ratios over `--repeats` runs. Opacus and PyTorch are
compared where they are installed. The data of adult are read from the folder that
SKDPSPECTRAL_DATA names. With ``--save`` each fit is a line of a file, and a run goes on
where another one ended.
"""

import argparse
import functools
import importlib.util
import time
import warnings

import numpy as np
from cells import Cells
from real_tables import load_adult
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from tables import ignore_leak_warnings, ignore_noise_warnings, print_row

from skdpspectral import DPPCA, DPAdamClassifier, PrivacyAccountant
from skdpspectral.accounting import calibrate_sampled
from skdpspectral.audit import privacy_report
from skdpspectral.neural_network import Adam

MOMENTS = ("jme", "pp", "pp-debiased")
HAVE_OPACUS = all(importlib.util.find_spec(n) for n in ("torch", "opacus"))
DELTAS = {"digits": 1e-4, "adult": 1e-5}
# Divisions of the rows, and fits of each.
REPEATS = {"digits": (5, 2), "adult": (1, 5)}
# Rows of the comparison of speed.
N_SPEED = 20_000
# Shares of the rows in a batch, epochs, learning rates.
SETTINGS = [
    (share, epochs, rate)
    for share, epochs in ((0.05, 10), (0.2, 30), (0.01, 5))
    for rate in (0.02, 0.1, 0.5)
]
# The same, and numbers of components.
PIPELINES = [(k, 0.05, 10, rate) for k in (10, 20, 40) for rate in (0.02, 0.1, 0.5)]


def tables_of(name, seed):
    """Return training, validation and test parts, scaled by public constants."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X / 16.0
    else:
        found = load_adult()
        X, y = np.asarray(found.data), np.asarray(found.target)
    rest, test = train_test_split(np.arange(len(X)), test_size=0.25, random_state=seed)
    train, check = train_test_split(rest, test_size=0.2, random_state=seed)
    return [(X[part], y[part]) for part in (train, check, rest, test)]


def ours(moments, epsilon, delta, neighbors="zero-out-one"):
    """Return what fits rows by a setting and scores others; None for no privacy."""

    def score(train, test, setting, seed):
        share, epochs, rate = setting
        model = DPAdamClassifier(
            epsilon=epsilon,
            delta=delta,
            classes=np.unique(train[1]),
            batch_size=round(share * len(train[0])),
            n_epochs=epochs,
            optimizer=Adam(rate, moments=moments, neighbors=neighbors),
        )
        return model.fit(*train).score(*test)

    return score


def opacus(epsilon, delta):
    """Return the same by Opacus, with the noise that our accounting finds enough."""
    import opacus as library
    import torch

    def score(train, test, setting, seed):
        share, epochs, rate = setting
        torch.manual_seed(seed)
        classes = np.unique(train[1])
        X = torch.tensor(train[0], dtype=torch.float32)
        y = torch.tensor(np.searchsorted(classes, train[1]))
        size = round(share * len(X))
        model = torch.nn.Linear(X.shape[1], len(classes))
        adam = torch.optim.Adam(model.parameters(), lr=rate)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(X, y), batch_size=size
        )
        rate_of_samples, steps = 1 / len(loader), epochs * len(loader)
        noise = calibrate_sampled(
            epsilon, delta, rate_of_samples, steps, "zero-out-one"
        )
        model, adam, loader = library.PrivacyEngine().make_private(
            module=model,
            optimizer=adam,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=1.0,
        )
        loss = torch.nn.CrossEntropyLoss()
        for _ in range(epochs):
            for rows, labels in loader:
                adam.zero_grad()
                if len(rows):
                    loss(model(rows), labels).backward()
                    adam.step()
        out = model(torch.tensor(test[0], dtype=torch.float32)).argmax(dim=1)
        return float(np.mean(classes[out.numpy()] == test[1]))

    return score


def pipeline(epsilon, delta):
    """Return the same of components and a network, both private for a row replaced."""

    def score(train, test, setting, seed):
        n_components, share, epochs, rate = setting
        model = pipeline_of(
            epsilon, delta, train[0].shape, (n_components, share, epochs)
        )
        model = clone(model).set_params(
            dpadamclassifier__classes=np.unique(train[1]),
            dpadamclassifier__optimizer__learning_rate=rate,
        )
        if epsilon is not None and not privacy_report(model).private:
            raise RuntimeError("the pipeline leaks")
        return model.fit(*train).score(*test)

    return score


@functools.cache
def pipeline_of(epsilon, delta, shape, setting):
    """Return a pipeline that costs its budget, of one ledger."""
    n_components, share, epochs = setting
    rows = np.broadcast_to(0.0, shape)

    def of(scale):
        shares = (None, None) if epsilon is None else (scale / 4, 3 * scale / 4)
        return make_pipeline(
            DPPCA(n_components, epsilon=shares[0], delta=delta / 2, bounds=(0.0, 1.0)),
            DPAdamClassifier(
                epsilon=shares[1],
                delta=delta / 2,
                batch_size=round(share * shape[0]),
                n_epochs=epochs,
                optimizer=Adam(moments="pp-debiased"),
            ),
        )

    def cost(scale):
        accountant = PrivacyAccountant(100.0, delta)
        return accountant.check(of(scale), rows).epsilon

    if epsilon is None:
        return of(None)
    low, high = epsilon, 2 * epsilon
    while high - low > 0.003 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
    return of(low)


def measure(cells, name, epsilon, method, run, settings):
    """Choose a setting in each division of the rows, and fit with it."""
    divisions, fits = REPEATS[name]
    for division in range(divisions):
        train, check, rest, test = tables_of(name, division)
        for number, setting in enumerate(settings):
            key = (name, epsilon, method, "check", division, number)
            if key not in cells:
                cells.timed(key, run, train, check, setting, division)
        best = settings[int(np.argmax(checks(cells, name, epsilon, method, division)))]
        for fit in range(fits):
            key = (name, epsilon, method, "test", division, fit)
            if key not in cells:
                cells.timed(key, run, rest, test, best, fits * division + fit)


def checks(cells, name, epsilon, method, division):
    """Return scores on the validation part, by setting."""
    return cells.values(name, epsilon, method, "check", division)


def tests(cells, name, epsilon, method, division):
    """Return scores on the test part, by fit."""
    return cells.values(name, epsilon, method, "test", division)


def print_row_of(cells, name, epsilon, label, methods, settings):
    """Print scores of the method that the validation part prefers in each division."""
    found, chosen = [], []
    for division in range(REPEATS[name][0]):
        validated = {m: checks(cells, name, epsilon, m, division) for m in methods}
        best = max(methods, key=lambda one: max(validated[one], default=0.0))
        scores = validated[best]
        if len(scores) == len(settings):
            found += tests(cells, name, epsilon, best, division)
            chosen.append(settings[int(np.argmax(scores))])
    if len(found) > 1:
        texts = f"{np.mean(found):.4f}", f"{np.std(found, ddof=1):.4f}", len(found)
        print_row(name, epsilon, label, *texts, chosen[0], widths=18)


def print_tables(cells, names, epsilons, wanted):
    """Print a row for each method, data set and budget."""
    titles = ("data", "epsilon", "method", "accuracy", "deviation", "fits", "setting")
    print_row(*titles, widths=18)
    for name in names:
        for epsilon, method, _, settings in methods_of(name, epsilons, wanted):
            print_row_of(cells, name, epsilon, method, [method], settings)
        for epsilon in epsilons:
            print_row_of(cells, name, epsilon, "validated", MOMENTS, SETTINGS)


def methods_of(name, epsilons, wanted):
    """Yield budgets, names of methods, what they run, and their settings."""
    delta = DELTAS[name]
    replaced = functools.partial(ours, neighbors="replace-one")
    for epsilon in (None, *epsilons):
        found = {"components": (pipeline(epsilon, delta), PIPELINES)}
        if epsilon is None:
            found["adam"] = ours("pp", None, delta), SETTINGS
        else:
            for moments in MOMENTS:
                found[moments] = ours(moments, epsilon, delta), SETTINGS
            found["alone"] = replaced("pp-debiased", epsilon, delta), SETTINGS
            if HAVE_OPACUS:
                found["opacus"] = opacus(epsilon, delta), SETTINGS
        for method, (run, settings) in found.items():
            if method in wanted:
                yield epsilon, method, run, settings


def speed_sides():
    """Return what fits the same hidden layer of 64 for two epochs, by name."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (N_SPEED, 64)), rng.integers(10, size=N_SPEED)
    given = {"classes": range(10), "optimizer": Adam(noise_multiplier=1.0)}
    sides = {
        "ours": lambda: DPAdamClassifier(64, batch_size=512, n_epochs=2, **given).fit(
            X, y
        )
    }
    if not HAVE_OPACUS:
        return sides
    import opacus as library
    import torch

    tensors = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    data = torch.utils.data.TensorDataset(*tensors)

    def theirs(mode):
        layers = torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10)
        network, loss = torch.nn.Sequential(*layers), torch.nn.CrossEntropyLoss()
        network, adam, *losses, loader = library.PrivacyEngine().make_private(
            module=network,
            optimizer=torch.optim.Adam(network.parameters(), lr=1e-3),
            criterion=loss,
            data_loader=torch.utils.data.DataLoader(data, batch_size=512),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            grad_sample_mode=mode,
        )
        loss = losses[0] if losses else loss
        for _ in range(2):
            for rows, labels in loader:
                adam.zero_grad()
                loss(network(rows), labels).backward()
                adam.step()

    torch.set_num_threads(1)
    modes = {"opacus": "hooks", "opacus ghost": "ghost"}
    return sides | {n: functools.partial(theirs, mode) for n, mode in modes.items()}


def print_speed(repeats):
    """Print examples a second of each, one after the other, on one thread."""
    clocks = {"CPU": time.process_time, "wall": time.perf_counter}
    sides = speed_sides()
    seconds = {clock: {name: [] for name in sides} for clock in clocks}
    for repeat in range(repeats + 1):
        for name, run in sides.items():
            start = {clock: read() for clock, read in clocks.items()}
            run()
            for clock, read in clocks.items():
                if repeat:  # the first one warms up
                    seconds[clock][name].append(read() - start[clock])
    print_row("clock", "of", "examples a second", "ours over it", widths=22)
    for clock, found in seconds.items():
        for name, times in found.items():
            ratios = np.divide(times, found["ours"])
            low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
            ratio = f"{middle:.2f} ({low:.2f}-{high:.2f})"
            speed = f"{2 * N_SPEED / np.median(times):.0f}"
            print_row(clock, name, speed, ratio, widths=22)


def main():
    """Measure, and print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="*", default=["digits", "adult"])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.2, 1.0, 4.0])
    parser.add_argument("--methods", nargs="*", default=["adam", *MOMENTS, "opacus"])
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--save", help="file of lines, read first and added to")
    parser.add_argument("--no-measuring", action="store_true")
    given = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    warnings.filterwarnings("ignore", module="(torch|opacus)")
    warnings.filterwarnings("ignore", message="Full backward hook")
    if not HAVE_OPACUS:
        print("Opacus is not installed: it is left out")
    if given.speed:
        print_speed(given.repeats)
        return
    wanted = ["adam", "alone", "components"] if given.pipeline else given.methods
    cells = Cells(given.save)
    for name in given.only:
        for epsilon, method, run, settings in methods_of(name, given.epsilons, wanted):
            if not given.no_measuring:
                measure(cells, name, epsilon, method, run, settings)
    print_tables(cells, given.only, given.epsilons, wanted)
    print(f"{cells.seconds / 60.0:.1f} minutes of CPU")


if __name__ == "__main__":
    main()
