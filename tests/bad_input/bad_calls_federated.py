"""Calls of federated estimators that must fail, and what each error must name."""

import joblib
import numpy as np
import pandas as pd
from bad_cases import Bad, state_of

from skdpspectral import (
    FederatedDPPCA,
    PrivacyAccountant,
    PrivacyBudgetError,
    SparseDPPCA,
)
from skdpspectral.decomposition import (
    Aggregation,
    ComponentCovariance,
    Gaussian,
    PrivateMean,
    SpikedModel,
    TwoStage,
)

NAN, INF = float("nan"), float("inf")
IDS = np.repeat(["a", "b", "c"], 20)
SECRET = 7321.0625


class Scene:
    """Fitted estimators, a budget that is untouched, and rows to misuse them on."""

    def __init__(self, folder):
        self.folder = folder
        self.X = np.random.default_rng(0).normal(size=(60, 4))
        self.table = np.column_stack([self.X, np.arange(60) % 3])
        self.frame = pd.DataFrame(self.X, columns=list("wxyz")).assign(site=IDS)
        self.pca = FederatedDPPCA(2).fit(self.X, clients=IDS)
        self.sparse = SparseDPPCA(2).fit(self.X, clients=IDS)
        self.accountant = PrivacyAccountant(2.0)
        self._before = self._state()

    def fit(self, X=None, clients=IDS, model=None, **parameters):
        """Refit with the budgeted accountant; check that X stays as it is."""
        model = self.pca if model is None else model
        X = self.X if X is None else X
        kept, before = model.get_params(deep=False), joblib.hash(X)
        model.set_params(**{"accountant": self.accountant, **parameters})
        try:
            return model.fit(X, clients=clients)
        finally:
            model.set_params(**kept)
            assert joblib.hash(X) == before, "X was changed"

    def fit_sparse(self, **parameters):
        return self.fit(model=self.sparse, **parameters)

    def _state(self):
        models = (self.pca, self.sparse)
        fitted = [{k: v for k, v in vars(m).items() if k.endswith("_")} for m in models]
        parameters = [sorted(m.get_params(deep=False).items()) for m in models]
        return state_of(fitted, self.X), repr(parameters)

    def renew(self):
        self.accountant = PrivacyAccountant(2.0)

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) <= charges, "the budget was charged"
        assert self._state() == self._before, "the earlier fit was lost"


def of_clients(value):
    return {"a": value, "b": 1.0, "c": 1.0}


def gap(eigengap):
    return Aggregation("projector", eigengap=eigengap)


def fewest(min_clients):
    return Aggregation("projector", min_clients=min_clients)


NUMBERS = {"zero": 0, "negative": -1.0, "NaN": NAN, "text": "1", "boolean": True}
# Label: parameter of FederatedDPPCA, value, and what the error must name.
PARAMETERS = [
    *(("epsilon", v, ["epsilon"]) for v in NUMBERS.values()),
    *(("epsilon", of_clients(v), ["epsilon"]) for v in (*NUMBERS.values(), INF, None)),
    *(("delta", of_clients(v), ["delta"]) for v in (*NUMBERS.values(), 1.0, 1e-16)),
    *(("delta", v, ["delta"]) for v in (0.0, 1.0, 1e-16, None)),
    ("epsilon", {}, ["epsilon", "at least one client"]),
    ("delta", {}, ["delta", "at least one client"]),
    ("epsilon", {"a": 1.0, "b": 1.0}, ["epsilon", "'c'", "no entry"]),
    ("epsilon", {**of_clients(1.0), "d": 1.0}, ["epsilon", "'d'", "no rows"]),
    ("delta", {"a": 1e-6}, ["delta", "no entry"]),
    ("epsilon", [1.0, 1.0, 1.0], ["epsilon"]),
    ("n_components", 0, ["n_components"]),
    ("n_components", 5, ["n_components", "n_features"]),
    ("n_components", 1.5, ["n_components"]),
    ("mechanism", "paper", ["mechanism"]),
    ("aggregation", "mean", ["aggregation"]),
    ("weights", "paper", ["weights"]),
    ("weights", [[0.1, 0.2, 0.7]], ["weights"]),
    ("aggregation", Aggregation("mean"), ["method"]),
    ("aggregation", gap(0.0), ["eigengap"]),
    ("release", "variance", ["release"]),
    ("release", "covariance", ["release", "projection_norm"]),
    ("release", ComponentCovariance(NAN), ["projection_norm"]),
    ("release", ComponentCovariance(-1.0), ["projection_norm"]),
    ("release", ComponentCovariance(1.0, "x"), ["components"]),
    ("release", ComponentCovariance(1.0, np.eye(3, 4)), ["components", "(2, 4)"]),
    ("mechanism", Gaussian(noise_variance=-1.0), ["noise_variance"]),
    ("aggregation", gap(NAN), ["eigengap"]),
    ("client_feature", 1.5, ["client_feature"]),
    ("aggregation", fewest(0), ["min_clients"]),
    ("aggregation", fewest(4), ["min_clients", "3"]),
    ("aggregation", fewest(True), ["min_clients"]),
    ("bounds", (1, 0), ["bounds"]),
    ("clip_norm", -1.0, ["clip_norm"]),
    ("center", "mean", ["center"]),
    ("center", "private", ["center", "bounds"]),
    ("center", PrivateMean(-1.0), ["radius", "PrivateMean"]),
    ("center", PrivateMean, ["center", "PrivateMean"]),
    ("scale", "bounds", ["scale", "bounds=(low, high)"]),
    ("scale", "std", ["scale"]),
    ("scale", True, ["scale"]),
    ("n_jobs", 0, ["n_jobs"]),
    ("accountant", "ledger.db", ["accountant"]),
    ("noise_seed", "seed", ["noise_seed"]),
]


def model(signal_variance=1.0, noise_variance=1.0, **more):
    """Parameters with a model of the rows."""
    return {"mechanism": SpikedModel(signal_variance, noise_variance, **more)}


def stages(**more):
    """Parameters with two stages, of which these are public."""
    return {"mechanism": TwoStage(**more)}


MODEL, PAPER = model(), model(calibration="paper")
# Parameters of FederatedDPPCA that contradict each other, and what the error names.
TOGETHER = [
    ({"mechanism": "two-stage", "aggregation": "matrix"}, ["aggregation", "projector"]),
    ({"mechanism": "auto", "aggregation": "matrix"}, ["aggregation", "mechanism"]),
    ({"mechanism": "two-stage", "n_components": 4}, ["n_components", "n_features"]),
    ({"mechanism": "two-stage", "aggregation": gap(0.1)}, ["eigengap", "only used"]),
    ({**model(1e9), "aggregation": gap(0.1)}, ["eigengap", "only used"]),
    ({"mechanism": "spiked"}, ["mechanism", "SpikedModel"]),
    ({"mechanism": TwoStage}, ["mechanism", "TwoStage"]),
    (model(None), ["signal_variance", "public"]),
    (model(1.0, None), ["noise_variance", "public"]),
    (model([1.0] * 3), ["signal_variance", "2 numbers"]),
    (model(-1.0), ["signal_variance", "positive"]),
    (model("1"), ["signal_variance"]),
    (model(1.0, NAN), ["noise_variance", "positive"]),
    ({**MODEL, "bounds": (-1, 1)}, ["bounds", "not used"]),
    ({**MODEL, "clip_norm": 1.0}, ["clip_norm", "not used"]),
    ({**MODEL, "scale": "bounds"}, ["scale", "not used"]),
    ({**MODEL, "center": "private"}, ["center", "SpikedModel"]),
    ({**MODEL, "center": PrivateMean(1.0)}, ["center", "SpikedModel"]),
    ({**MODEL, "n_components": 4}, ["n_components", "n_features"]),
    (MODEL, ["client", "n_samples", "signal_variance"]),
    (model(sensitivity_constant=4.0), ["sensitivity_constant", "paper"]),
    (model(sensitivity_constant=0.0), ["sensitivity_constant"]),
    (model(sensitivity_constant=INF), ["sensitivity_constant"]),
    (
        {**MODEL, "release": ComponentCovariance(1.0)},
        ["projection_norm", "not used"],
    ),
    (model(calibration="classical"), ["calibration"]),
    (
        {**PAPER, "epsilon": 1e6, "release": "covariance"},
        ["calibration", "hides nothing"],
    ),
    ({**PAPER, "epsilon": None}, ["calibration", "epsilon"]),
    ({"mechanism": "two-stage", "release": "covariance"}, ["projection_norm"]),
    (stages(norm_range=(1.0, 0.1)), ["norm_range", "reversed"]),
    ({"mechanism": Gaussian(norm_range=(1.0, 0.1))}, ["norm_range", "reversed"]),
    ({"mechanism": Gaussian(norm_range=(0.1, 1.0))}, ["norm_range", "not used"]),
    (stages(norm_range=[1.0]), ["norm_range", "pair"]),
    (stages(norm_range=(0.0, 1.0)), ["norm_range", "positive"]),
    ({"mechanism": Gaussian(noise_variance=1.0)}, ["noise_variance", "not used"]),
    (stages(signal_variance=True), ["signal_variance"]),
]
SPARSE = [
    ("n_nonzero_features", 1, ["n_nonzero_features", "n_components"]),
    ("n_nonzero_features", 5, ["n_nonzero_features", "n_features"]),
    ("n_nonzero_features", 0, ["n_nonzero_features"]),
    ("n_rounds", 0, ["n_rounds"]),
    ("n_rounds", 1001, ["n_rounds"]),
    ("init", "random", ["init"]),
    ("init", np.eye(3, 4), ["init", "(2, 4)"]),
    ("init", np.full((2, 4), NAN), ["init", "finite"]),
    ("init", [["a"] * 4] * 2, ["init"]),
    ("init", np.zeros((2, 4)), ["init", "linearly independent"]),
    ("init", np.eye(2, 4) * [[1.0], [0.0]], ["init", "linearly independent"]),
    ("init", np.ones((2, 4)), ["init", "linearly independent"]),
    ("init", [[1.0, 2, 3, 4], [-2.0, -4, -6, -8]], ["init", "linearly independent"]),
    ("aggregation", "mean", ["aggregation"]),
]
CALLS = {
    f"{name}={str(value)[:40]!r}": (
        lambda s, n=name, v=value: s.fit(**{n: v}),
        says,
    )
    for name, value, says in PARAMETERS
}
CALLS |= {
    f"sparse {name}={str(value)[:40]!r}": (
        lambda s, n=name, v=value: s.fit_sparse(**{n: v}),
        says,
    )
    for name, value, says in SPARSE
}
CALLS |= {
    str(given)[:120]: (lambda s, g=given: s.fit(**g), says) for given, says in TOGETHER
}


def with_value(value):
    X = np.random.default_rng(1).normal(size=(60, 4))
    X[3, 1] = value
    return X


CALLS |= {
    "NaN": (lambda s: s.fit(with_value(NAN)), ["X", "NaN"]),
    "infinity": (lambda s: s.fit(with_value(INF)), ["X", "infinity"]),
    "no rows": (lambda s: s.fit(s.X[:0], clients=[]), ["X"]),
    "one dimension": (lambda s: s.fit(s.X[0]), ["X"]),
    "few ids": (lambda s: s.fit(clients=IDS[:9]), ["clients", "one id per row"]),
    "one id": (lambda s: s.fit(clients="a"), ["clients"]),
    "a table of ids": (lambda s: s.fit(clients=np.c_[IDS, IDS]), ["clients"]),
    "no id": (lambda s: s.fit(clients=[None, *IDS[1:]]), ["clients", "missing"]),
    "NaN as id": (lambda s: s.fit(clients=np.full(60, NAN)), ["clients", "missing"]),
    "lists as ids": (lambda s: s.fit(clients=[[1]] * 60), ["clients", "hashable"]),
    "large float ids": (
        lambda s: s.fit(clients=np.full(60, 2.0**53)),
        ["clients", "not exact"],
    ),
    "two ids of one name": (
        lambda s: s.fit(clients=[1, "1"] * 30),
        ["clients", "name '1'"],
    ),
    "long name": (
        lambda s: s.fit(clients=["n" * 65] * 60),
        ["clients", "64 bytes"],
    ),
    "empty name": (lambda s: s.fit(clients=[""] * 60), ["clients", "printable"]),
    "tab in a name": (lambda s: s.fit(clients=["a\tb"] * 60), ["clients", "printable"]),
    "a client with few rows": (
        lambda s: s.fit(clients=["d", *IDS[1:]]),
        ["'d'", "n_samples=1", "n_components=2"],
    ),
    "clients twice": (
        lambda s: s.fit(s.table, client_feature=0),
        ["clients", "client_feature"],
    ),
    "no such column": (
        lambda s: s.fit(s.table, clients=None, client_feature=5),
        ["client_feature=5"],
    ),
    "no such name": (
        lambda s: s.fit(s.frame, clients=None, client_feature="where"),
        ["client_feature='where'"],
    ),
    "a name without names": (
        lambda s: s.fit(s.table, clients=None, client_feature="site"),
        ["client_feature='site'", "no column names"],
    ),
    "clients alone": (
        lambda s: s.fit(s.table[:, 4:], clients=None, client_feature=0),
        ["client_feature", "features"],
    ),
    "missing in the column": (
        lambda s: s.fit(s.frame.assign(site=None), clients=None, client_feature="site"),
        ["clients", "missing"],
    ),
    "budgets without clients": (
        lambda s: s.fit(clients=None, epsilon=of_clients(1.0)),
        ["epsilon", "no rows"],
    ),
    "too much for the budget": (lambda s: s.fit(epsilon=3.0), ["epsilon=2"]),
    "one client too much": (lambda s: s.fit(epsilon=of_clients(3.0)), ["epsilon=2"]),
    "a seed": (lambda s: s.fit(noise_seed=0), ["noise_seed", "allow_seeded"]),
    "no privacy": (lambda s: s.fit(epsilon=None), ["epsilon"]),
    "transform of other columns": (
        lambda s: s.pca.transform(s.X[:, :3]),
        ["X", "3", "4"],
    ),
    "inverse of other columns": (
        lambda s: s.pca.inverse_transform(s.X),
        ["X", "(n_samples, 2)"],
    ),
    "plan of no rows": (lambda s: s.pca.privacy_plan(0, 4), ["n_samples"]),
    "plan of no clients": (lambda s: s.pca.privacy_plan({}, 4), ["n_samples"]),
    "plan of few rows": (
        lambda s: s.pca.privacy_plan({"a": 1}, 4),
        ["'a'", "n_components=2"],
    ),
    "plan of two clients of one name": (
        lambda s: s.pca.privacy_plan({1: 9, "1": 9}, 4),
        ["name '1'"],
    ),
    "plan of no features": (lambda s: s.pca.privacy_plan(9, 0), ["n_features"]),
}
# One charge per client, where the mistake is in a value.
CASES = [
    Bad(
        label,
        call,
        tuple(says),
        error=(ValueError, TypeError, PrivacyBudgetError),
        charges=3 if label in ("NaN", "infinity") else 0,
    )
    for label, (call, says) in CALLS.items()
]
