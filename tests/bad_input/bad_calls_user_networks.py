"""Bad calls of LRSMLPRegressor."""

import numpy as np
from bad_cases import bad
from network_tools import of_users

from skdpspectral import LRSMLPRegressor, PrivacyAccountant
from skdpspectral.neural_network import AlternatingAdam

ERRORS = (ValueError, TypeError)
rng = np.random.default_rng(0)
USERS = np.repeat(np.arange(20), 5)
X, Y = rng.normal(size=(100, 3)), rng.normal(size=100)
FEW = AlternatingAdam(n_rounds=2, n_local_steps=1, n_own_steps=2)


class Scene:
    """A fitted model, and a ledger that is untouched."""

    def __init__(self, folder):
        self.renew()
        self.model = LRSMLPRegressor(hidden_layer_sizes=3, solver=FEW)
        self.model.fit(X, Y, users=USERS)
        self._before = self._state()

    def renew(self):
        self.accountant = PrivacyAccountant()

    def new(self, **given):
        return LRSMLPRegressor(**{"accountant": self.accountant, **of_users(given)})

    def fit(self, **given):
        return self.new(**given).fit(X, Y, users=USERS)

    def _state(self):
        return repr(sorted(vars(self.model).items()))

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) == charges, "the budget was charged"
        assert self._state() == self._before, "a fit was lost"


PARAMETERS = {
    "n_components": [-1, 1.5, "two"],
    "sparsity": [-1, 1.5, "all"],
    "hidden_layer_sizes": [0, (3, 0), (2, 2, 2), "three"],
    "fit_intercept": [None, "all"],
    "ridge_intercept": [-1.0, np.nan],
    "ridge_shared": [-1.0, np.inf],
    "ridge_sparse": [-1.0, None],
    "shared_weights": ["free"],
    "prompt_size": [-1, 0.5],
    "target_bounds": [(1, 0), (0, np.inf), (1,), (0, 10**400), (0, 5e-324)],
    "clip_norm": [0.0, np.nan],
    "neighbors": ["zero-out-one"],
    "solver": ["adam", 3],
    "user_network": ["own", None, AlternatingAdam()],
    "unknown_user": ["mean", "raise"],
}
OF_SOLVER = {"n_rounds": [0, "few"], "batch_size": [0], "init_seed": [-1, None]}
GIVEN = [
    (name, {name: value}) for name, values in PARAMETERS.items() for value in values
]
GIVEN += [
    (name, {"solver": AlternatingAdam(**{name: value})})
    for name, values in OF_SOLVER.items()
    for value in values
]
GIVEN += [("init_seed", {"init_seed": value}) for value in (-1, None)]
CASES = [
    bad(f"{name}: {str(given)[:40]}", lambda s, c=call, g=given: c(s, g), name)
    for name, given in GIVEN
    for call in (
        lambda s, given: s.fit(**given),
        lambda s, given: s.new(**given).privacy_plan(3),
    )
]
CASES = [case._replace(error=ERRORS) for case in CASES]
TOGETHER = [
    ("ridge_intercept", {"fit_intercept": False, "ridge_intercept": 1.0}),
    ("n_components=1", {"shared_weights": "fixed", "n_components": 2}),
    ("ridge_shared", {"shared_weights": "fixed", "ridge_shared": 2.0}),
    ("sparsity=None", {"n_components": 0}),
    (
        "clip_norm",
        {"epsilon": None, "clip_norm": 0.5, "accountant": PrivacyAccountant()},
    ),
]
CASES += [
    bad(f"{name} together", lambda s, g=given: s.fit(**g), name)
    for name, given in TOGETHER
]
CALLS = [
    (lambda s: s.model.predict(X), "users are missing"),
    (lambda s: s.model.predict(X[:, :2], users=USERS), "features"),
    (lambda s: s.model.predict(X, users=USERS.astype(str)), "users contains"),
    (lambda s: s.model.get_network(), "user is missing"),
    (lambda s: s.model.get_intercept("a"), "user"),
    (lambda s: s.model.personalize(X[:5], Y[:4], user=1), "X and y"),
    (lambda s: s.model.personalize(X, Y, user=1, users=USERS), "one user"),
    (lambda s: s.model.save("never.npz", user=12345), "user"),
    (lambda s: s.model.privacy_plan(0), "n_features"),
]
CASES += [bad(f"fitted: {name}", call, name, error=ERRORS) for call, name in CALLS]
