"""Bad input: a named mistake, nothing lost, nothing changed.

Nothing is charged either, but where the mistake is in a value.
"""

import traceback

import numpy as np
import pytest
import sklearn
from bad_calls import CASES as ESTIMATOR_CASES
from bad_calls import INF, NAN, NOT_A_NUMBER, PLAN, Scene
from bad_calls_lrs import CASES as LRS_CASES
from bad_calls_lrs import LRSScene
from bad_cases import (
    as_parameters,
    bad,
    check_call,
    check_messages_differ,
    check_that_a_charge_shows,
    fixtures,
)

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyLeakWarning
from skdpspectral.accounting import (
    PrivacyBudgetError,
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from skdpspectral.metrics import captured_variance, gaussian_kl, subspace_distance

# Rows without names are given to an estimator that was fitted with names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
# The warning comes before the accountant's refusal.
no_warning = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
# Where an object of the wrong class is given.
WRONG_CLASS = (TypeError, ValueError)
CASES = [*ESTIMATOR_CASES, *LRS_CASES]
N_OF_ESTIMATORS = len(CASES)

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
CASES += [
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


class WholeScene(Scene):
    """Everything that the calls misuse."""

    def __init__(self, folder):
        super().__init__(folder)
        self.lrs = LRSScene(self.X)

    def renew(self):
        super().renew()
        self.lrs.renew()

    def check_untouched(self, charges=0):
        super().check_untouched(charges)
        self.lrs.check_untouched(charges)


scene, scenes, stage = fixtures(WholeScene)
EVERY_CASE = as_parameters(CASES)


@pytest.mark.sampled(6)
@no_warning
@pytest.mark.parametrize("case", EVERY_CASE)
def test_bad_call(case, stage):
    check_call(case, stage)


@pytest.mark.slow
@no_warning
@pytest.mark.parametrize("case", EVERY_CASE[:N_OF_ESTIMATORS])
def test_privacy_does_not_rest_on_an_optional_validation(case, stage):
    with (
        sklearn.config_context(skip_parameter_validation=True),
        pytest.raises(case.error),
    ):
        case.call(stage)
    stage.check_untouched(case.in_values)


@pytest.mark.slow
@no_warning
def test_different_mistakes_have_different_messages(scene):
    check_messages_differ(CASES, scene, at_least=400)


def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(scene):
    check_that_a_charge_shows(scene)


def test_an_exhausted_budget_stays_as_it_is(scene):
    accountant = PrivacyAccountant(1.0)
    scene.fit(accountant=accountant)
    components = scene.pca.components_.copy()
    with pytest.raises(PrivacyBudgetError, match=r"epsilon=1 at .* only epsilon=0 "):
        scene.fit(accountant=accountant)
    assert len(accountant.ledger) == 1
    assert np.array_equal(scene.pca.components_, components)


@pytest.mark.parametrize("parameters", [{"epsilon": NAN}, {"clip_norm": -1.0}])
def test_a_ledger_of_a_with_block_is_not_charged(scene, parameters):
    with scene.accountant, pytest.raises(ValueError, match=r"epsilon|clip_norm"):
        DPPCA(**parameters).fit(scene.X)
    scene.check_untouched()


@pytest.mark.parametrize("parameters", [{"epsilon": None}, {"delta": 0.1}])
def test_a_warning_that_is_raised_as_an_error_costs_nothing(scene, parameters):
    scene.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning):
        scene.fit(**parameters)
    scene.check_untouched()


@pytest.mark.parametrize("parameters", [{"epsilon": None}, {"epsilon": INF}])
def test_a_warning_of_another_estimator_costs_nothing_either(scene, parameters):
    scene.lrs.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning, match="without privacy"):
        scene.lrs.fit(**parameters)
    scene.check_untouched()


@pytest.mark.parametrize("privacy_off", [None, INF])
def test_privacy_is_switched_off_loudly(scene, privacy_off):
    pca = DPPCA(epsilon=privacy_off)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        pca.fit(scene.X)
    assert not pca.privacy_.private


SECRET = 7321.0625
LEAKY = {
    "1-D": np.array([SECRET, SECRET]),
    "complex": np.array([[SECRET, 1j]]),
    "word": [[f"{SECRET} euros", 1.0]],
    "text": np.array([[f"{SECRET} euros", "1"]]),
    "bytes": np.array([[f"{SECRET} euros".encode(), b"1"]]),
    "NaN": [[SECRET, NAN]],
    "3-D": np.full((2, 2, 2), SECRET),
}


@pytest.mark.parametrize("method", ["fit", "transform"])
@pytest.mark.parametrize("X", LEAKY.values(), ids=LEAKY)
def test_errors_quote_no_private_value(scene, X, method):
    """Error messages end up in logs, which nobody guards as the data."""
    with pytest.raises(ValueError) as caught:
        getattr(scene.pca, method)(X)
    report = "".join(traceback.format_exception(caught.value))
    assert f"{SECRET:.0f}"[:4] not in report.replace(__file__, "")


SECRETS = np.full(60, f"{SECRET} euros", dtype=object)
LEAKY_TARGETS = {
    "words": SECRETS.tolist(),
    "text": SECRETS.astype(str),
    "numbers and words": [*([SECRET] * 59), "euros"],
    "complex": np.full(60, SECRET + 1j),
    "NaN": np.r_[np.full(59, SECRET), NAN],
    "table": np.full((60, 2), SECRET),
    "short": np.full(9, SECRET),
    "beyond float64": [int(SECRET) * 10**400] * 60,
}
LEAKY_IDS = {
    "words": SECRETS.tolist(),
    "missing": [*SECRETS[1:], None],
    "NaN": np.r_[np.full(59, SECRET), NAN],
    "lists": [[SECRET]] * 60,
    "table": SECRETS[:, None],
    "short": SECRETS[:9],
    "tuples": [(SECRET, 1)] * 60,
}


def assert_says_nothing_secret(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    # Not even as the cause or the context of an error.
    report = "".join(traceback.format_exception(caught.value))
    assert f"{SECRET:.0f}"[:4] not in report.replace(__file__, "")


@pytest.mark.sampled(4)
@no_warning
@pytest.mark.parametrize("method", ["fit", "personalize", "score"])
@pytest.mark.parametrize("y", LEAKY_TARGETS.values(), ids=LEAKY_TARGETS)
def test_errors_quote_no_target(scene, y, method):
    assert_says_nothing_secret(lambda: getattr(scene.lrs, method)(y=y))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["fit", "predict", "score"])
@pytest.mark.parametrize("users", LEAKY_IDS.values(), ids=LEAKY_IDS)
def test_errors_quote_no_id(scene, users, method):
    if method == "fit" and any(users is LEAKY_IDS[k] for k in ("words", "tuples")):
        # They may be fitted; ids of another kind are wrong then.
        scene.lrs.model.fit(scene.X, scene.lrs.y, users=users)
        users, method = np.arange(60), "predict"
    assert_says_nothing_secret(lambda: getattr(scene.lrs, method)(users=users))


@no_warning
@pytest.mark.parametrize("user", [SECRET, f"{SECRET} euros", (SECRET,), [SECRET]])
def test_errors_quote_no_user(scene, user):
    lrs, X = scene.lrs, scene.X
    calls = [lambda: lrs.known.get_coef(user), lambda: lrs.known.get_intercept(user)]
    if user != SECRET:
        calls.append(lambda: lrs.personalize(user=user))
        calls.append(lambda: lrs.column.personalize(lrs.table[:10], X[:10, 0], user))
    else:
        calls.append(lambda: lrs.known.predict(X[:1], users=[user]))
        table = lrs.table.assign(user=SECRET)
        calls.append(lambda: lrs.column.personalize(table, X[:, 0], user=3))
    for call in calls:
        assert_says_nothing_secret(call)
