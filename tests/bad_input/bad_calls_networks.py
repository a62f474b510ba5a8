"""Bad calls of optimizers and networks."""

import numpy as np
from bad_cases import Bad, bad
from network_tools import of_adam
from scipy import sparse

from skdpspectral import (
    DPAdamClassifier,
    DPAdamRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.neural_network import AdamStability, AlternatingAdam, JMEAdam

NAN, INF, SECRET = float("nan"), float("inf"), 7321.0625
ERRORS = (ValueError, TypeError)
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
X[3, 1] = SECRET
LABELS = (X[:, 0] > 0.0).astype(int)
TARGETS = X[:, :2].copy()


class Scene:
    """Fitted networks, and a ledger that is untouched."""

    def __init__(self, folder):
        self.renew()
        self.fitted = [fit_classifier(), fit_regressor()]
        self._before = self._state()

    def renew(self):
        self.accountant = PrivacyAccountant()

    def classify(self, **given):
        return fit_classifier(**{"accountant": self.accountant, **given})

    def regress(self, **given):
        return fit_regressor(**{"accountant": self.accountant, **given})

    fit = classify

    def optimizer(self, **given):
        return make_optimizer(**{"accountant": self.accountant, **given})

    def _state(self):
        return repr([sorted(vars(model).items()) for model in self.fitted])

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) == charges, "the budget was charged"
        assert self._state() == self._before, "a fit was lost"


def fit_classifier(X=X, y=LABELS, **parameters):
    return DPAdamClassifier(**{"classes": [0, 1], **of_adam(parameters)}).fit(X, y)


def fit_regressor(X=X, y=TARGETS, **parameters):
    return DPAdamRegressor(**{"target_bounds": (-1, 1), **of_adam(parameters)}).fit(
        X, y
    )


def make_optimizer(n_parameters=3, n_samples=30, **parameters):
    return JMEAdam(n_parameters, n_samples, **parameters)


# Parameters that all three take: value, and what the error must name.
SHARED = [
    ("epsilon", 0.0),
    ("epsilon", -1.0),
    ("epsilon", "1"),
    ("epsilon", NAN),
    ("delta", 0.0),
    ("delta", 1.0),
    ("delta", 1e-16),
    ("noise_multiplier", 0.0),
    ("noise_multiplier", -2.0),
    ("noise_multiplier", INF),
    ("noise_multiplier", True),
    ("batch_size", 0),
    ("batch_size", 2.5),
    ("batch_size", "auto"),
    ("batch_size", True),
    ("n_epochs", 0),
    ("n_epochs", 1.0),
    ("n_epochs", None),
    ("sampling", "shuffle"),
    ("sampling", None),
    ("clip_norm", 0.0),
    ("clip_norm", -1.0),
    ("clip_norm", 1e61),
    ("clip_norm", 1e-31),
    ("clip_norm", [1.0]),
    ("clip_norm", None),
    ("moments", "adam"),
    ("moments", None),
    ("moment_weight", 0.0),
    ("moment_weight", "free"),
    ("moment_weight", INF),
    ("factorization", "optimal"),
    ("neighbors", "add-remove-one"),
    ("neighbors", "users"),
    ("learning_rate", 0.0),
    ("learning_rate", -0.1),
    ("learning_rate", "constant"),
    ("beta_1", 1.0),
    ("beta_1", -0.1),
    ("beta_2", 1.0),
    ("beta_2", NAN),
    ("stability", -1e-9),
    ("accountant", 3),
    ("noise_seed", "zero"),
    ("noise_seed", -1),
]
# What does not go together.
TOGETHER = [
    ({"factorization": "sqrt", "n_epochs": 1}, 'sampling="in-turn"'),
    ({"factorization": "blt", "sampling": "in-turn"}, "n_epochs=1"),
    ({"moments": "pp", "moment_weight": 0.3}, "moment_weight"),
    ({"moments": "pp-debiased", "moment_weight": 0.3}, "moment_weight"),
]
NETWORKS = [
    ("hidden_layer_sizes", (2, 3, 4)),
    ("hidden_layer_sizes", (0,)),
    ("hidden_layer_sizes", -1),
    ("hidden_layer_sizes", (2.5,)),
    ("hidden_layer_sizes", (True,)),
    ("activation", "sigmoid"),
    ("init_seed", -1),
    ("init_seed", None),
    ("optimizer", "sgd"),
    ("optimizer", None),
    ("optimizer", AlternatingAdam()),
    ("verbose", "yes"),
]
CLASSES = [
    ("classes", [0]),
    ("classes", [0, 0, 1]),
    ("classes", "ab"),
    ("classes", {}),
    ("classes", np.array([1, "a"], dtype=object)),
    ("classes", [[0, 1], [2, 3]]),
    ("classes", [0, 1, NAN]),
]
BOUNDS = [
    ("target_bounds", (1.0, 0.0)),
    ("target_bounds", (0.0, INF)),
    ("target_bounds", (0.0,)),
    ("target_bounds", 3.0),
    ("target_bounds", ([0.0, 0.0], [1.0, 1.0, 1.0])),
    ("target_bounds", (0.0, 5e-324)),
    ("target_bounds", (0, 10**400)),
]


CLASSIFY, REGRESS, OPTIMIZE = Scene.classify, Scene.regress, Scene.optimizer
NETS, ALL = (CLASSIFY, REGRESS), (CLASSIFY, REGRESS, OPTIMIZE)


def rows(calls, *names, mistake=None, charges=0, error=ERRORS, **given):
    """Return a row per function."""
    label = mistake or ", ".join(f"{k}={str(v)[:30]}" for k, v in given.items())
    return [
        Bad(label, lambda s, c=call: c(s, **given), names, error, charges)
        for call in calls
    ]


# -- parameters ------------------------------------------------------------------------

CASES = [
    row
    for calls, values in (
        (ALL, SHARED),
        (NETS, NETWORKS),
        ((CLASSIFY,), CLASSES),
        ((REGRESS,), BOUNDS),
    )
    for name, value in values
    for row in rows(calls, name, **{name: value})
]
for given, names in TOGETHER:
    CASES += rows(ALL, names, **given)
for name, value in (
    ("constant", -1.0),
    ("floor", -1.0),
    ("floor", "zero"),
    ("max_step_norm", 0.0),
):
    CASES += rows(ALL, name, stability=AdamStability(**{name: value}))
CASES += rows(ALL, "small", epsilon=1e-14, delta=1e-15)
CASES += rows(ALL, "noise_multiplier", noise_multiplier=1e30, batch_size=5)
CASES += rows(
    (OPTIMIZE, REGRESS), "noise_multiplier", epsilon=None, noise_multiplier=1.0
)
for name in ("n_parameters", "n_samples"):
    for value in (0, -3, 2.5, "many", None, True):
        CASES += rows((OPTIMIZE,), name, **{name: value})

# -- rows, labels and targets ----------------------------------------------------------


def changed(value):
    rows = X.copy()
    rows[5, 1] = value
    return rows


class Talkative:
    """What quotes a value when it is to become an array."""

    shape = (30,)

    def __len__(self):
        return 30

    def __array__(self, *given, **named):
        raise RuntimeError(f"cannot convert {SECRET}")


class Incomparable:
    """What quotes a value whenever it is compared."""

    def __lt__(self, other):
        raise RuntimeError(f"cannot compare {SECRET}")


CASES += rows(NETS, "y", mistake="no y", y=None)
CASES += rows(NETS, "inconsistent", mistake="few labels", y=LABELS[:-1])
CASES += rows(NETS, "X", mistake="1-D rows", X=X[0])
CASES += rows(NETS, "X", mistake="no features", X=X[:, :0])
CASES += rows(NETS, "Sparse", mistake="sparse rows", X=sparse.csr_array(X))
CASES += rows(NETS, "Complex", mistake="complex rows", X=X * 1j)
CASES += [
    bad(
        "budget",
        lambda s, c=call: c(s, accountant=PrivacyAccountant(1e-9)),
        error=PrivacyBudgetError,
    )
    for call in NETS
]
CASES.append(
    bad(
        "weights",
        lambda s: DPAdamRegressor(target_bounds=(-1, 1), accountant=s.accountant).fit(
            X, LABELS, sample_weight=np.ones(30)
        ),
        "sample_weight",
        error=ERRORS,
    )
)
NOT_LABELS = (TARGETS, X[:, 1] + 1j, sparse.csr_array(TARGETS[:, :1]))
# What is wrong with labels is not public either where those that occur are.
BAD_LABELS = (Talkative(), *([*LABELS[:-1], wrong] for wrong in (1j, NAN)))
# What lies under a mask would be used, and in several targets it was.
MASKED = np.ma.array(LABELS, mask=LABELS == 1)
SEVERAL = np.ma.array(TARGETS, mask=np.column_stack([LABELS, 1 - LABELS]))
for classes in ([0, 1], None):
    for y in NOT_LABELS:
        CASES += rows((CLASSIFY,), "y", mistake="no labels", y=y, classes=classes)
    for y in BAD_LABELS:
        CASES += rows(
            (CLASSIFY,), "y", mistake="bad labels", charges=1, y=y, classes=classes
        )
    y = [*LABELS[:-1], {}]
    CASES += rows(
        (CLASSIFY,), "y", mistake="no labels", charges=1, y=y, classes=classes
    )
    CASES += rows(
        (CLASSIFY,), "masked", mistake="masked", charges=1, y=MASKED, classes=classes
    )
for y in (MASKED, SEVERAL):
    CASES += rows((REGRESS,), "masked", mistake="masked", charges=1, y=y)
CASES += rows(
    (CLASSIFY,), "one class", mistake="one", charges=1, classes=None, y=np.zeros(30)
)
for value in (NAN, INF, -INF):
    CASES += rows(NETS, "X", mistake=str(value), charges=1, X=changed(value))
CASES += rows((REGRESS,), "y", mistake="nan in y", charges=1, y=changed(NAN)[:, 1])
OTHER_LABELS = (
    LABELS + 5,
    LABELS + 0.5,
    np.array(["a", "b"])[LABELS],
    np.array([0, "b"], dtype=object)[LABELS],
    np.array([0, SECRET])[LABELS],
    np.array([Incomparable() for _ in LABELS]),
    np.where(LABELS, NAN, 0.0),
)
for y in OTHER_LABELS:
    CASES += rows((CLASSIFY,), "none of the classes", mistake="other labels", y=y)

# -- fitted networks -------------------------------------------------------------------

for number in (0, 1):
    CASES += [
        bad(
            "rows to predict",
            lambda s, n=number, r=wrong: s.fitted[n].predict(r),
            name,
        )
        for wrong, name in (
            (X[:, :2], "X has 2 features"),
            (X[0], "Reshape your data"),
            (changed(NAN), "X contains NaN"),
            (X * 1j, "Complex"),
        )
    ]
    CASES += [
        bad(
            "size of a plan",
            lambda s, n=number, z=size: s.fitted[n].privacy_plan(*z),
            name,
        )
        for size, name in (
            ((0, 3), "n_samples"),
            ((30, 0), "n_features"),
            ((2.5, 3), "n_samples"),
            (("30", 3), "n_samples"),
        )
    ]
CASES += [
    bad("classes", lambda s: s.fitted[0].privacy_plan(30, 3, 0), "n_classes"),
    bad("outputs", lambda s: s.fitted[1].privacy_plan(30, 3, "two"), "n_outputs"),
]
