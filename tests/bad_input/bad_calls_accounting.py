"""Bad calls of files, ledgers, calibrations and metrics."""

import numpy as np
from bad_calls_pca import INF, NAN, NOT_A_NUMBER, PLAN
from bad_cases import bad

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant
from skdpspectral.accounting import (
    PrivacyBudgetError,
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from skdpspectral.metrics import captured_variance, gaussian_kl, subspace_distance

# Where an object of the wrong class is given.
WRONG_CLASS = (TypeError, ValueError)

# -- files -----------------------------------------------------------------------------

VALID = '{"format": 1, "estimator": "DPPCA"'
UNREADABLE = {
    "text file": lambda s: s.file("a.npz", b"hello"),
    "empty file": lambda s: s.file("b.npz"),
    "half a file": lambda s: s.saved("c.npz", lambda data: data[: len(data) // 2]),
    "flipped bits": lambda s: s.saved("d.npz", lambda data: data.replace(b"\0", b"\1")),
    "other archive": lambda s: s.with_header("e.npz", "{}"),
    "other JSON": lambda s: s.with_header("f.npz", "[1]"),
    "no parameters": lambda s: s.with_header("g.npz", VALID + "}"),
    "foreign parameter": lambda s: s.with_header(
        "h.npz", VALID + ', "parameters": {"zz": 1}, "attributes": {}, "privacy": {}}'
    ),
    "no plan": lambda s: s.with_header(
        "i.npz", VALID + ', "parameters": {}, "attributes": {}, "privacy": {}}'
    ),
    "objects": lambda s: s.with_header("j.npz", [object()]),
}
CASES = [
    bad("unreadable file", lambda s, m=make: DPPCA.load(m(s)), "path", "npz")
    for make in UNREADABLE.values()
]
CASES += [
    bad(
        "file of another class",
        lambda s: DPPCA.load(
            s.with_header("k.npz", VALID.replace("DPPCA", "Other") + "}")
        ),
        "path",
        "Other",
        "DPPCA",
    ),
    bad(
        "file of another format",
        lambda s: DPPCA.load(s.with_header("l.npz", VALID.replace("1", "9") + "}")),
        "path",
        "format 9",
        "format 1",
    ),
    bad(
        "no such file",
        lambda s: DPPCA.load(s.folder / "missing.npz"),
        "missing.npz",
        error=FileNotFoundError,
    ),
    bad(
        "save to no folder",
        lambda s: s.pca.save(s.folder / "nowhere" / "pca.npz"),
        "nowhere",
        error=FileNotFoundError,
    ),
]

# -- ledgers ---------------------------------------------------------------------------

BUDGETS = {"zero": 0, "negative": -1, "infinite": INF, "NaN": NAN, **NOT_A_NUMBER}
DELTAS = {"zero": 0.0, "one": 1.0, "negative": -1e-6, "below 1e-15": 1e-16, "NaN": NAN}
DELTAS |= NOT_A_NUMBER
NOT_A_STRING = {"number": 1, "boolean": True, "bytes": b"x", "list": ["a"]}
COUNTS = {"zero": 0, "negative": -1, "fraction": 1.5, "boolean": True, "text": "2"}
COUNTS |= {"None": None, "NaN": NAN, "infinite": INF, "numpy boolean": np.True_}
for label, value in BUDGETS.items():
    CASES.append(
        bad(f"budget: {label}", lambda s, v=value: PrivacyAccountant(v), "epsilon")
    )
for label, value in DELTAS.items():
    CASES += [
        bad(f"delta = {label}", lambda s, v=value: PrivacyAccountant(1.0, v), "delta"),
        bad(f"delta = {label}", lambda s, v=value: s.accountant.spent(v), "delta"),
    ]
for label, value in NOT_A_STRING.items():
    CASES += [
        bad(f"label: {label}", lambda s, v=value: s.accountant.named(v), "label"),
        bad(
            f"division: {label}",
            lambda s, v=value: s.accountant.named("a", disjoint_within=v),
            "disjoint_within",
        ),
    ]
for label, value in COUNTS.items():
    CASES.append(
        bad(
            f"n_fits: {label}",
            lambda s, v=value: s.accountant.check(PLAN, n_fits=v),
            "n_fits",
            "positive integer",
        )
    )


def relation(unit, neighbors):
    return PrivacyAccountant(unit=unit, neighbors=neighbors)


LEDGERS = {
    "delta alone": (lambda s: PrivacyAccountant(delta=1e-6), "delta", "epsilon"),
    "failures alone": (
        lambda s: PrivacyAccountant(failures=1e-7),
        "failures",
        "epsilon",
    ),
    "pure alone": (lambda s: PrivacyAccountant(pure=1.0), "pure", "epsilon"),
    "pure of a new file": (
        lambda s: PrivacyAccountant(path="no-such-folder/new.db", pure=1.0),
        "pure",
        "epsilon",
    ),
    "failures of one": (lambda s: PrivacyAccountant(1.0, failures=1.0), "failures"),
    "unit alone": (lambda s: relation("row", None), "unit", "neighbors"),
    "relation alone": (lambda s: relation(None, "zero-out-one"), "unit", "neighbors"),
    "unknown unit": (lambda s: relation("rows", "replace-one"), "unit", "user"),
    "unknown relation": (lambda s: relation("row", "swap"), "neighbors", "swap"),
    "curve of words": (lambda s: s.accountant.privacy_curve("a"), "epsilons"),
    "epsilon = negative": (lambda s: s.accountant.privacy_curve([-1.0]), "epsilon"),
    "no limit": (
        lambda s: s.accountant.check(DPPCA(epsilon=None).privacy_plan(9, 4)),
        "epsilon",
        PrivacyBudgetError,
    ),
    "no plan to charge": (lambda s: s.accountant.charge(None), "plan", WRONG_CLASS),
    "no plan to check": (lambda s: s.accountant.check(3), "plan", WRONG_CLASS),
    "no plans": (lambda s: s.accountant.check([]), "plan"),
    "no plan among plans": (
        lambda s: s.accountant.check([PLAN, "plan"]),
        "plan",
        WRONG_CLASS,
    ),
    "word for a part": (
        lambda s: s.accountant.charge(PLAN, part="north"),
        "part",
        WRONG_CLASS,
    ),
    "path": (lambda s: PrivacyAccountant(path=3), "path", WRONG_CLASS),
    "missing folder": (
        lambda s: PrivacyAccountant(path=s.folder / "nowhere" / "ledger.db"),
        "nowhere",
        LedgerError,
    ),
    "folder for a file": (
        lambda s: PrivacyAccountant(path=s.folder),
        "ledger",
        LedgerError,
    ),
    "foreign ledger": (
        lambda s: PrivacyAccountant(path=s.file("foreign.db", b"hello")),
        "foreign.db",
        "left as is",
        LedgerError,
    ),
    "other budget": (
        lambda s: s.reopened(epsilon=3.0),
        "epsilon=2.0",
        "epsilon=3.0",
        LedgerError,
    ),
    "other relation": (
        lambda s: s.reopened(unit="user", neighbors="replace-one"),
        "unit=row",
        "unit=user",
        LedgerError,
    ),
}
for mistake, (call, *says) in LEDGERS.items():
    error = ValueError if isinstance(says[-1], str) else says.pop()
    mistake = mistake.removesuffix(" alone") if mistake[0] in "ur" else mistake
    mistake = "half a relation" if mistake in ("unit", "relation") else mistake
    mistake = "not a plan" if mistake.startswith("no plan ") else mistake
    CASES.append(bad(mistake, call, *says, error=error))

# -- numbers of the Gaussian mechanism -------------------------------------------------

FUNCTIONS = {
    "epsilon": [lambda v: gaussian_mu(v, 1e-6), lambda v: gaussian_delta(1.0, v)],
    "mu": [lambda v: gaussian_epsilon(v, 1e-6), lambda v: gaussian_delta(v, 1.0)],
    "delta": [lambda v: gaussian_mu(1.0, v), lambda v: gaussian_epsilon(1.0, v)],
    "sensitivity": [lambda v: calibrate_gaussian("m", v, 1.0, (3,))],
    "mu of a fit": [lambda v: calibrate_gaussian("m", 1.0, v, (3,))],
}
BELOW_ZERO = {"negative": -1.0, "NaN": NAN, **NOT_A_NUMBER}
NOT_POSITIVE = {"zero": 0, "infinite": INF, **BELOW_ZERO}
VALUES = {"delta": DELTAS, "sensitivity": NOT_POSITIVE, "mu of a fit": NOT_POSITIVE}
for name, functions in FUNCTIONS.items():
    for label, value in VALUES.get(name, BELOW_ZERO).items():
        # What is no number at all is one mistake wherever mu is given.
        what = name.split()[0] if label in NOT_A_NUMBER else name
        CASES += [
            bad(f"{what} = {label}", lambda s, f=f, v=value: f(v), name.split()[0])
            for f in functions
        ]

# -- metrics ---------------------------------------------------------------------------

EYE = np.eye(3)
METRICS = {
    "order": (lambda s: subspace_distance(EYE, EYE, ord=0), "ord", "at least 1"),
    "word for order": (lambda s: subspace_distance(EYE, EYE, ord="two"), "ord"),
    "1-D basis": (lambda s: subspace_distance(EYE[0], EYE), "components_a", "reshape"),
    "long rows": (lambda s: subspace_distance(EYE, 2 * EYE), "components_b", "qr"),
    "NaN in basis": (lambda s: subspace_distance(NAN * EYE, EYE), "components_a"),
    "spaces": (lambda s: subspace_distance(EYE[:1], np.eye(4)[:1]), "4", "same"),
    "no components": (
        lambda s: captured_variance("pca", s.X),
        "components_",
        TypeError,
    ),
    "width": (lambda s: captured_variance(EYE, s.X), "X has 4", "components have 3"),
    "skewed": (lambda s: gaussian_kl(EYE[0], EYE + EYE[0], EYE[0], EYE), "cov_a"),
    "singular": (
        lambda s: gaussian_kl(EYE[0], EYE, EYE[0], 0 * EYE),
        "cov_b",
        "multiple of the identity",
    ),
    "mean": (lambda s: gaussian_kl([0.0], EYE, EYE[0], EYE), "mean_a", "(3,)"),
    "not square": (lambda s: gaussian_kl(EYE[0], EYE[:2], EYE[0], EYE), "square"),
}
for mistake, (call, *says) in METRICS.items():
    error = ValueError if isinstance(says[-1], str) else says.pop()
    CASES.append(bad(f"metric: {mistake}", call, *says, error=error))
