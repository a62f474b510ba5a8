"""Private Adam: moments, the same without privacy, and Opacus, at equal budgets.

    python examples/benchmarks/dp_adam.py [--seeds 5] [--only digits] [--speed]
                                          [--epsilons 0.2 1 4] [--tries 6] [--pipeline]

Test accuracies on digits and adult: logistic regression under ``"zero-out-one"``, the
relation of Opacus, whose noise is that of the same accounted budget. Learning rate,
batch size and epochs of each method are chosen from the same settings on a validation
part of the training rows; test rows are scored once. Means and deviations over seeds.
delta = 1e-5 on adult, 1e-4 on digits. ``--speed`` prints examples a second for one
hidden layer. Opacus and PyTorch are compared where they are installed. The data of
adult are read from the folder that SKDPSPECTRAL_DATA names.
"""

import argparse
import importlib.util
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPPCA, DPAdamClassifier
from skdpspectral.accounting import calibrate_sampled
from skdpspectral.audit import privacy_report
from skdpspectral.datasets import load_adult

MOMENTS = ("jme", "jme-batch", "pp", "pp-debiased", "clip")
HAVE_OPACUS = all(importlib.util.find_spec(n) for n in ("torch", "opacus"))
DELTAS = {"digits": 1e-4, "adult": 1e-5}
# Shares of the rows in a batch, epochs, learning rates: in the order of a search.
SETTINGS = [
    (share, epochs, rate)
    for share, epochs in ((0.05, 10), (0.2, 30), (0.01, 5))
    for rate in (0.02, 0.1, 0.5)
]


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


def ours(moments, epsilon, delta):
    """Return what fits rows by a setting and scores others; None for no privacy."""

    def score(train, test, setting, seed):
        share, epochs, rate = setting
        model = DPAdamClassifier(
            epsilon=epsilon,
            delta=delta,
            classes=np.unique(train[1]),
            moments=moments,
            neighbors="zero-out-one",
            batch_size=round(share * len(train[0])),
            n_epochs=epochs,
            learning_rate=rate,
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


def tuned(method, name, seeds, tries):
    """Return test accuracies with the setting that is best on the validation part."""
    train, check, *_ = tables_of(name, 0)
    settings = SETTINGS[:tries]
    best = max(settings, key=lambda setting: method(train, check, setting, 0))
    found = []
    for seed in range(seeds):
        *_, rest, test = tables_of(name, seed)
        found.append(method(rest, test, best, seed))
    return np.array(found), best


def print_accuracies(names, epsilons, seeds, tries):
    """Print a row for each method, data set and budget."""
    print_row("data", "epsilon", "method", "accuracy", "deviation", "setting")
    for name in names:
        methods = {("none", "adam"): ours("pp", None, DELTAS[name])}
        for epsilon in epsilons:
            for moments in MOMENTS:
                methods[epsilon, moments] = ours(moments, epsilon, DELTAS[name])
            if HAVE_OPACUS:
                methods[epsilon, "opacus"] = opacus(epsilon, DELTAS[name])
        for (epsilon, method), run in methods.items():
            found, best = tuned(run, name, seeds, tries)
            cells = (f"{found.mean():.4f}", f"{found.std(ddof=1):.4f}", best)
            print_row(name, epsilon, method, *cells)


def print_pipeline(seeds):
    """Print accuracies of components and a network, both private, on digits."""
    for epsilon in (1.0, 4.0):
        scores = []
        for seed in range(seeds):
            *_, rest, test = tables_of("digits", seed)
            model = make_pipeline(
                DPPCA(20, epsilon=epsilon / 4, delta=5e-5),
                DPAdamClassifier(
                    epsilon=3 * epsilon / 4,
                    delta=5e-5,
                    classes=range(10),
                    learning_rate=0.2,
                ),
            )
            scores.append(model.fit(*rest).score(*test))
        private = privacy_report(model).private
        cells = (f"{np.mean(scores):.4f}", f"{np.std(scores, ddof=1):.4f}")
        print_row("components", epsilon, f"private: {private}", *cells)


def print_speed():
    """Print examples a second for one hidden layer of 64, and those of Opacus."""
    rng = np.random.default_rng(0)
    train = rng.uniform(-1, 1, (20_000, 64)), rng.integers(10, size=20_000)
    given = {"classes": range(10), "noise_multiplier": 1.0, "batch_size": 512}
    model = DPAdamClassifier(64, n_epochs=2, **given)
    start = time.perf_counter()
    model.fit(*train)
    print_row("ours", f"{40_000 / (time.perf_counter() - start):.0f} examples a second")
    if not HAVE_OPACUS:
        return
    import opacus as library
    import torch

    network = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10)
    )
    tensors = torch.tensor(train[0], dtype=torch.float32), torch.tensor(train[1])
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*tensors), batch_size=512
    )
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    network, adam, loader = library.PrivacyEngine().make_private(
        module=network,
        optimizer=adam,
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    start = time.perf_counter()
    for _ in range(2):
        for rows, labels in loader:
            adam.zero_grad()
            torch.nn.functional.cross_entropy(network(rows), labels).backward()
            adam.step()
    speed = 40_000 / (time.perf_counter() - start)
    print_row("opacus", f"{speed:.0f} examples a second")


def main():
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tries", type=int, default=len(SETTINGS))
    parser.add_argument("--only", nargs="*", default=["digits", "adult"])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.2, 1.0, 4.0])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--pipeline", action="store_true")
    given = parser.parse_args()
    ignore_leak_warnings()
    warnings.filterwarnings("ignore", module="(torch|opacus)")
    if not HAVE_OPACUS:
        print("Opacus is not installed: it is left out")
    if given.speed:
        print_speed()
    elif given.pipeline:
        print_pipeline(given.seeds)
    else:
        print_accuracies(given.only, given.epsilons, given.seeds, given.tries)


if __name__ == "__main__":
    main()
