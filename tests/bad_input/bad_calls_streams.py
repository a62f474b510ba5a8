"""Bad calls of JMECovariance."""

import numpy as np
from bad_cases import Bad, bad, state_of
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from skdpspectral import JMECovariance, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.covariance import (
    BISR,
    AssumeCentered,
    BaselineMoments,
    Exponential,
    JointMoments,
    Window,
)

NAN, INF = float("nan"), float("inf")
X = np.random.default_rng(0).normal(0.1, 0.3, (20, 3))
SECRET = 7321.0625
ERRORS = (ValueError, TypeError)


class Scene:
    """A covariance that was fitted, and a budget that is untouched."""

    def __init__(self, folder):
        self.folder = folder
        self.renew()
        self.fitted = JMECovariance().fit(X)
        self._before = state_of(vars(self.fitted), X)

    def new(self, **parameters):
        """Return a covariance with the budgeted accountant."""
        return JMECovariance(**{"accountant": self.accountant, **parameters})

    def fit(self, **parameters):
        """Fit; check that what fails leaves no attribute behind."""
        model = self.new(**parameters)
        before = set(vars(model))
        try:
            return model.fit(X)
        except Exception:
            assert set(vars(model)) == before, "an attribute was left behind"
            raise

    def renew(self):
        self.accountant = PrivacyAccountant(5.0)

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) == charges, "the budget was charged"
        assert state_of(vars(self.fitted), X) == self._before, "a fit was lost"


def changed(place, value):
    rows = X.astype(object if isinstance(value, str) else float)
    rows[place] = value
    return rows


# Parameters of a fit of 20 rows, and words of the error.
PARAMETERS = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": NAN}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"delta": 0.0}, "delta"),
    ({"delta": 1e-16}, "delta"),
    ({"delta": 1.0}, "delta"),
    ({"clip_norm": 0.0}, "clip_norm"),
    ({"clip_norm": -1.0}, "clip_norm"),
    ({"clip_norm": INF}, "clip_norm"),
    ({"clip_norm": None}, "clip_norm"),
    ({"clip_norm": True}, "clip_norm"),
    ({"clip_norm": [1.0]}, "clip_norm"),
    ({"horizon": 0}, "horizon"),
    ({"horizon": 10.0}, "horizon"),
    ({"horizon": 19}, "horizon"),
    ({"horizon": "20"}, "horizon"),
    ({"horizon": 10**400}, "horizon"),
    ({"horizon": 10**13, "factorization": "sqrt"}, "sqrt", "horizon", "blt"),
    ({"horizon": 10**13, "factorization": "bisr"}, "bisr", "horizon", "blt"),
    ({"workload": Window(10**400)}, "length"),
    ({"workload": "mean"}, "workload"),
    ({"workload": 3}, "workload"),
    ({"workload": np.tri(20)}, "workload"),
    ({"workload": "window"}, "workload", "Window"),
    ({"workload": "exponential"}, "workload", "Exponential"),
    ({"workload": Window}, "workload"),
    ({"workload": BISR()}, "workload"),
    ({"workload": StandardScaler()}, "workload"),
    ({"workload": Window(0)}, "length", "Window"),
    ({"workload": Window(2.5)}, "length", "Window"),
    ({"workload": Window(True)}, "length", "got True"),
    ({"workload": Window([3])}, "length"),
    ({"workload": Window(None)}, "length", "Window"),
    ({"workload": Window(3), "on_horizon": "restart"}, "on_horizon", "window"),
    (
        {"workload": Window(3), "on_horizon": "restart", "horizon": 10},
        "on_horizon",
        "window",
    ),
    ({"workload": Exponential(1.0)}, "decay", "Exponential"),
    ({"workload": Exponential(0.0)}, "decay", "Exponential"),
    ({"workload": Exponential(NAN)}, "decay", "Exponential"),
    ({"workload": Exponential("0.5")}, "decay", "Exponential"),
    ({"on_horizon": "restart"}, "on_horizon", "requires horizon"),
    ({"factorization": "tree"}, "factorization"),
    ({"factorization": np.eye(20)}, "factorization"),
    ({"factorization": "optimal"}, "factorization"),
    ({"moments": "ime"}, "moments", "BaselineMoments"),
    ({"moments": None}, "moments"),
    ({"moments": True}, "moments"),
    ({"moments": JointMoments}, "moments"),
    ({"moments": ["jme"]}, "moments"),
    ({"moments": Window(3)}, "moments"),
    ({"moments": BaselineMoments("tree")}, "method", "BaselineMoments"),
    ({"moments": BaselineMoments(None)}, "method"),
    ({"moments": BaselineMoments("jme")}, "method"),
    ({"moments": JointMoments(-1.0)}, "weight", "JointMoments"),
    ({"moments": JointMoments(0.0)}, "weight"),
    ({"moments": JointMoments(NAN)}, "weight"),
    ({"moments": JointMoments(None)}, "weight"),
    ({"moments": JointMoments("all")}, "weight"),
    ({"moments": BaselineMoments("ime", weight=1.0)}, "weight", "(0, 1)"),
    ({"moments": BaselineMoments("ime", weight="trace-split")}, "weight"),
    ({"moments": BaselineMoments("cs", weight="free")}, "weight"),
    ({"moments": BaselineMoments("pp", weight=2.0)}, "weight", "pp"),
    (
        {"moments": BaselineMoments("pp-debiased", second_factorization="sqrt")},
        "second_factorization",
        "pp-debiased",
    ),
    ({"moments": JointMoments(second_moment="half")}, "second_moment"),
    ({"moments": AssumeCentered("half")}, "second_moment", "AssumeCentered"),
    ({"moments": JointMoments(second_workload="mean")}, "second_workload"),
    ({"moments": JointMoments(second_workload=Window(0))}, "length", "Window"),
    ({"moments": JointMoments(second_factorization=Window(3))}, "second_factorization"),
    ({"factorization": BISR(0)}, "bandwidth", "BISR"),
    ({"factorization": BISR(1.5)}, "bandwidth", "BISR"),
    ({"factorization": BISR(None)}, "bandwidth", "BISR"),
    ({"factorization": Window(3)}, "factorization"),
    ({"min_eigenvalue": 0.0}, "min_eigenvalue"),
    ({"min_eigenvalue": 2.0}, "min_eigenvalue"),
    ({"on_horizon": "stop"}, "on_horizon"),
    ({"whiten": "zca"}, "whiten"),
    ({"noise_seed": "seed"}, "noise_seed"),
    ({"accountant": 1.0}, "accountant"),
]
ROWS = {
    "NaN": (changed((3, 1), NAN), "NaN"),
    "infinity": (changed((3, 1), INF), "infinity"),
    "text": (changed((3, 1), f"{SECRET} euros"), "X"),
    "one dimension": (X[:, 0], "2D"),
    "no rows": (X[:0], "X"),
    "complex": (X + 1j, "Complex"),
    "three dimensions": (X[None], "X"),
}


# Mistakes in values, which are read once the stream is charged.
IN_VALUES = {"NaN", "infinity", "text"}
CASES = [
    bad(
        str(parameters)[:60],
        lambda s, p=parameters: s.fit(**p),
        *names,
        error=ERRORS,
    )
    for parameters, *names in PARAMETERS
]
CASES += [
    Bad(
        f"rows: {label}",
        lambda s, m=method, r=rows: getattr(s.new(horizon=30), m)(r),
        (name,),
        error=ERRORS,
        charges=int(label in IN_VALUES),
    )
    for label, (rows, name) in ROWS.items()
    for method in ("fit", "partial_fit", "release_path")
]
NO_HORIZON = ("partial_fit cannot run without a horizon", "blt", "set horizon")
CASES += [
    bad(
        "stream without a horizon",
        lambda s: s.new().partial_fit(X),
        *NO_HORIZON,
        error=kind,
    )
    for kind in (AttributeError, ValueError)
]
CASES += [
    bad(
        "no stream",
        lambda s: JMECovariance(horizon=30).resume(),
        "no stream to resume",
        error=NotFittedError,
    ),
    bad("plan of no rows", lambda s: s.new().privacy_plan(n_features=3), "horizon"),
    bad("plan of no features", lambda s: s.new().privacy_plan(20), "n_features"),
    bad("plan of 0 rows", lambda s: s.new().privacy_plan(0, 3), "n_samples"),
    bad(
        "long stream",
        lambda s: s.new(horizon=10).partial_fit(X),
        "horizon is 10 steps",
    ),
    bad("every 0 rows", lambda s: s.new().release_path(X, every=0), "every"),
    bad("budget", lambda s: s.fit(epsilon=9.0), error=PrivacyBudgetError),
    bad(
        "norm",
        lambda s: s.fitted.error_norm(np.eye(3), norm="nuclear"),
        "norm",
    ),
    bad("other shape", lambda s: s.fitted.error_norm(np.eye(2)), "comp_cov"),
]
READERS = ("transform", "mahalanobis", "score", "score_samples")
CASES += [
    bad(
        "other width",
        lambda s, m=method: getattr(s.fitted, m)(X[:, :2]),
        "3 features",
    )
    for method in READERS
]
CASES += [
    bad("not fitted", call, error=NotFittedError)
    for call in (
        *(lambda s, m=method: getattr(JMECovariance(), m)(X) for method in READERS),
        lambda s: JMECovariance().publish(),
        lambda s: JMECovariance().get_precision(),
    )
]
