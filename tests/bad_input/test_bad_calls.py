"""Bad calls that no generator knows: what does not go together, and what was fitted."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from bad_cases import Budgets, fault_of, kept, refused
from estimators import ENTRIES, IDS, LABELS, RATINGS, ROWS, STARS, TARGETS
from scipy import sparse
from sliced_rows import ClosedTable, NamelessTable

from skdpspectral import DPPCA, DPStandardScaler, JMECovariance, PrivacyAccountant
from skdpspectral.accounting import (
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from skdpspectral.covariance import BISR, Exponential, JointMoments, Window
from skdpspectral.decomposition import SpikedModel
from skdpspectral.linear_model import Alternation, PrivateRounds
from skdpspectral.metrics import captured_variance, subspace_distance
from skdpspectral.neural_network import Adam, JMEAdam

pytestmark = pytest.mark.filterwarnings("ignore")
NAN, INF = float("nan"), float("inf")
FRAME = pd.DataFrame(ROWS, columns=list("abcd"))
WITH_IDS = FRAME.assign(user=IDS)
EYE = np.eye(3)


class OwnWindow(Window):
    """Somebody's own, which no file could name."""


def of(name, says, **given):
    """Return a bad fit, and the words of its error with bars between."""
    return name, says, given


pca, scaler, table = (
    partial(of, f"DP{name}") for name in ("PCA", "StandardScaler", "TableVectorizer")
)
ridge, classes = partial(of, "DPRidge"), partial(of, "DPRidgeClassifier")
net, labels = partial(of, "DPAdamRegressor"), partial(of, "DPAdamClassifier")
lrs, users = partial(of, "LRSRegressor"), partial(of, "LRSMLPRegressor")
items, factors = partial(of, "DPItemEmbedding"), partial(of, "DPMatrixFactorization")
stream, clients = partial(of, "JMECovariance"), partial(of, "FederatedDPPCA")
lean, whole = partial(of, "SparseDPPCA"), partial(of, "DPCovariance")
CONSTANT = "sensitivity_constant"


def modeled(says, **given):
    model = {"signal_variance": 2.0, "noise_variance": 1.0}
    return of("SpikedPCA", says, **{**model, **given})


def spiked(signal=2.0, noise=1.0, **more):
    return SpikedModel(signal, noise, **more)


def late(value, column=1):
    X = ROWS.copy()
    X[9, column] = value
    return X


BOUNDS = [
    ("low must be at most high", [(1, 0), ([0, 0, 0, 1], [1, 1, 1, 0])]),
    ("feature", [(0, 0), np.ones((2, 4))]),
    ("(low, high)", [(-1,), [3.0], np.array(3.0), (-1, 0, 1), np.ones((3, 4)), ()]),
    ("low|4 features", [([0, 0, 0], 1), (np.zeros((1, 4)), 1)]),
    ("high|4 features", [(0, np.ones(5))]),
    ("low|finite", [(NAN, 1), (-INF, 1), (None, 1)]),
    ("high|finite", [(0, INF), (0, [1, 1, NAN, 1])]),
    ("high", [(-1e308, 1e308)]),
    ("numbers", [("a", "b"), (1j, 2), (0, [1, [2, 3]]), (False, True)]),
    ("numbers", [(-(10**400), 10**400), (np.zeros(4, "M8[s]"), np.ones(4, "M8[s]"))]),
]
FITS = [
    of(name, f"bounds|{says}", bounds=value)
    for name in ("DPPCA", "DPRidge", "DPStandardScaler", "FederatedDPPCA")
    for says, values in BOUNDS
    for value in values
]
ARRAYS = [np.ones((2, 4)), np.ones((1, 5)), np.ones(4), [[]], np.full((1, 4), INF)]
ARRAYS += [[[1.0, NAN, 1.0, 1.0]], [["a", "b", "c", "d"]], np.full((1, 4), 1j)]
ARRAYS += [[[1.0, 2.0], [3.0]]]
SCALES = [np.ones(5), np.ones((1, 4)), [], [1.0, 0.0, 1.0, 1.0], -np.ones(4)]
SCALES += [np.full(4, INF), list("abcd"), [1.0, [2.0, 3.0], 1.0, 1.0], np.full(4, 1j)]
FITS += [
    lrs("init|(n_components, n_features)", solver=PrivateRounds(init=value))
    for value in ARRAYS
]
FITS += [lrs("scale|positive|4", scale=value) for value in SCALES]
PAPER = spiked(calibration="paper")
LENGTHS = (0.1, 10.0)
FITS += [
    pca("scale|bounds=(low, high)", scale="bounds"),
    pca("scale", scale="private"),
    pca("center", center="private"),
    clients("center", center="private"),
]
FITS += [
    clients("mechanism", mechanism="two-stage"),
    clients("n_components", mechanism=spiked(), n_components=4),
    clients("signal_variance", mechanism=spiked(None)),
    clients("noise_variance", mechanism=spiked(2.0, None)),
    clients("bounds", mechanism=spiked(), bounds=(-1.0, 1.0)),
    clients("center", mechanism=spiked(), center="pairs"),
    clients("signal_variance|n_samples", mechanism=spiked()),
    clients("sensitivity_constant", mechanism=spiked(sensitivity_constant=4.0)),
    clients("calibration", mechanism=PAPER, epsilon=1e6),
    clients("calibration", mechanism=PAPER, epsilon=None),
    modeled("n_components", n_components=4),
    modeled("n_components", n_components="auto"),
    modeled("signal_variance|both", noise_variance="private"),
    modeled("signal_variance|n_samples"),
    modeled("sensitivity_constant", sensitivity_constant=4.0),
    modeled("calibration", calibration="paper", epsilon=1e6),
    modeled("calibration", calibration="paper", epsilon=None),
    modeled("mean", mean="own"),
    modeled("delta|at least", signal_variance=1e9, delta=1e-15),
    modeled("sensitivity_constant|raise", calibration="paper", **{CONSTANT: 1e-50}),
    whole("center", center="private"),
    whole("bounds", bounds=(1.0, -1.0)),
    whole("X|NaN", X=late(NAN), charges=1),
]
FITS += [
    pca('center|scale="ranks"', scale="ranks", center="none"),
    pca("n_components|n_samples=1", X=ROWS[:1]),
    pca("Sparse|.toarray()", X=sparse.csr_array(ROWS), bounds=(-1, 1)),
    pca("X|NaN", X=sparse.csr_array(late(NAN)), charges=1),
    pca("X has more values than an array", X=sparse.coo_array((2**62, 2))),
    scaler("X has more values", X=sparse.coo_array((2**62, 2)), with_mean=False),
    scaler("missing|with_mean", missing="mean", with_mean=False),
    scaler("X|with_mean", X=sparse.csr_array(ROWS)),
    scaler("X|bounds", X=sparse.csr_array(ROWS), with_mean=False, bounds=(-1, 1)),
    scaler("X|infinity", X=late(INF), missing="mean", charges=1),
    scaler("n_samples", X=ROWS[:1]),
    ridge("alpha", alpha=[1.0, 2.0]),
    ridge("alpha", alpha=["a"]),
    ridge("n_samples", X=ROWS[:1], y=TARGETS[:1]),
    ridge("X", X=sparse.csr_array(ROWS)),
    classes("y|classes", y=np.full(60, 9), charges=1),
    classes("y", y=np.zeros((60, 2))),
]
TARGET_BOUNDS = [5.0, (1, -1), (0, NAN), (1,), (0, INF), (0, 10**400)]
FITS += [
    of(name, "target_bounds", target_bounds=value)
    for name in ("DPRidge", "DPAdamRegressor")
    for value in TARGET_BOUNDS
]
FITS += [net("target_bounds", target_bounds=(0.0, 5e-324))]
FITS += [ridge("target_bounds", target_bounds=([0, 0], [1, 1]))]
NO_CLASSES = [[0], [0, 0, 1], "ab", np.array([1, "a"], object), [[0, 1], [2, 3]]]
FITS += [f("classes", classes=value) for f in (classes, labels) for value in NO_CLASSES]
OTHERS = (
    LABELS + 5,
    LABELS + 0.5,
    np.array(["a", "b"])[LABELS],
    np.where(LABELS, NAN, 0.0),
)
FITS += [labels("classes", y=y, charges=1) for y in OTHERS]
FITS += [
    labels("y", y=y, classes=c, charges=1)
    for c in ([0, 1], None)
    for y in ([*LABELS[:-1], {}], ROWS)
]
FITS += [labels("y|masked", y=np.ma.array(LABELS, mask=LABELS == 1))]
FITS += [labels("one class", classes=None, y=np.zeros(60), charges=1)]
SIZES = [(2, 3, 4), (0,), (2.5,), (True,)]
FITS += [
    f("hidden_layer_sizes", hidden_layer_sizes=n) for f in (net, users) for n in SIZES
]
for f in (net, labels):
    FITS += [
        f("small", epsilon=1e-14, delta=1e-15),
        f("noise_multiplier", optimizer=Adam(noise_multiplier=1e30), batch_size=5),
        f("noise_multiplier", optimizer=Adam(noise_multiplier=1.0), epsilon=None),
    ]
FITS += [
    lrs("solver|epsilon=None", solver=Alternation(max_iter=9)),
    lrs("shared_weights|n_components=2", shared_weights="fixed", n_components=2),
    lrs("n_components=0", shared_weights="fixed", n_components=0),
    lrs("n_rounds=3|budget", epsilon=None, solver=PrivateRounds(3)),
    lrs("n_rounds=0|init", solver=PrivateRounds(0)),
    lrs(
        "init|shared_weights",
        shared_weights="fixed",
        solver=PrivateRounds(init=[[1.0] * 4]),
    ),
    lrs("users|user_feature", X=WITH_IDS, user_feature="user"),
]
FITS += [
    lrs(says, X=X, user_feature=column, ids={"users": None}, charges=charges)
    for says, X, column, charges in (
        ("user_feature=4|4 columns", ROWS, 4, 0),
        ("user_feature=-5|4 columns", ROWS, -5, 0),
        ("user_feature=5|5 columns", WITH_IDS, 5, 0),
        ("user_feature|position", ROWS, "user", 0),
        ("user_feature='who'|no column", WITH_IDS, "who", 0),
        ("X has several columns", WITH_IDS.set_axis(list("aabcd"), axis=1), "a", 0),
        ("X must have features", WITH_IDS[["user"]], "user", 0),
        ("user_feature|float32", (ROWS + 2.0**26).astype("f4"), 0, 1),
        ("user_feature|float64", ROWS + 2.0**55, 0, 1),
        ("user_feature|missing", WITH_IDS.assign(user=None), "user", 1),
        ("X|text", WITH_IDS.assign(b="word"), "user", 1),
        ("X|dates", WITH_IDS.assign(b=np.datetime64("2020-01-01")), "user", 0),
    )
]
FITS += [stream("workload|not a strategy", workload=OwnWindow(3))]
FITS += [pca("X.shape", X=ClosedTable(ROWS)), pca("X.dtype", X=NamelessTable(ROWS))]
FIXED = {"shared_weights": "fixed"}
FITS += [
    users("n_components=1", **FIXED, n_components=2),
    users("ridge_shared", **FIXED, ridge_shared=2.0),
    users("sparsity=None", n_components=0),
    users("clip_norm", epsilon=None, clip_norm=0.5, accountant=None),
]
RANGES = [
    (5, 1),
    (1, 1),
    (1,),
    (1, 3, 5),
    (),
    (NAN, 5),
    (1, INF),
    (1, None),
    ("1", "5"),
]
RANGES += [(False, True), (1j, 5), ([1], [5]), (1, 10**400), np.eye(2)]
CATALOGS = [[], ["a", "b", "a"], [["a"], ["b"]], np.eye(2), {"a", "b"}, ["a", None]]
CATALOGS += [[1.0, NAN], ["a", 1], [("a", 1), ("b", 2)], [b"a", b"b"], [10**30, 1]]
CATALOGS += [[2**53 + 1, 0.5], np.array(["2020-01-01"], "M8[D]")]
PUBLIC = [
    np.ones((4, 2)),
    np.ones((6, 2)),
    np.ones(5),
    [[1.0], [1.0, 2.0], [1], [1], [1]],
]
PUBLIC += [[["a"]] * 5, np.full((5, 1), 1j), np.full((5, 2), NAN), np.full((5, 1), INF)]
NAMES = {"user_feature": ("who", 3, -4), "item_feature": ("what", 3)}
RATED = pd.DataFrame(RATINGS, columns=["user_id", "item_id"])
for f in (items, factors):
    FITS += [f("rating_range|(low, high)", rating_range=value) for value in RANGES]
    FITS += [f("rating_range|larger units", rating_range=(0, 5e-324))]
    FITS += [f("rating_range is required", rating_range=None)]
    FITS += [f("items", items=value) for value in CATALOGS]
    FITS += [f("item_features", items=range(5), item_features=v) for v in PUBLIC]
    FITS += [f("item_features|items", items=None, item_features=np.eye(5))]
    FITS += [f(n, **{n: v}, X=RATED) for n, values in NAMES.items() for v in values]
    FITS += [
        f("two columns", user_feature=0, item_feature=0),
        f("item_feature|no column", X=RATED.rename(columns={"item_id": "b"})),
        f("user_feature|position", user_feature="who"),
        f("X|column", X=RATINGS[:, :1]),
        f("not exact", X=RATINGS + 2.0**53, charges=1),
        f("user_feature|missing", X=RATED.assign(user_id=None), charges=1),
        f("item_feature|missing", X=RATED.assign(item_id=pd.NA), charges=1),
        f("item_feature|items|convert", items=list("abcde"), charges=1),
        f("item_feature", X=RATED.assign(item_id=[(1, 2)] * 60), charges=1),
        f("y must be None", X=sparse.csr_array(RATINGS), items=range(2)),
        f("X|eliminate_zeros", X=sparse.csr_array(RATINGS).tobsr(), y=None),
        f("y|1d", y=np.ones((60, 2))),
        f("item_feature|NaN|drop", X=RATED.assign(item_id=NAN), charges=1),
        f("X|NaN", X=NAN * sparse.csr_array(RATINGS), y=None, items=None, charges=1),
        f("X|0 sample(s)", X=sparse.csr_array((0, 5)), y=None),
        f("X|0 feature(s)", X=sparse.csr_array((60, 0)), y=None, items=None),
        f("X|sparse", X=sparse.csr_array(RATINGS + 1j), y=None),
    ]
CITIES = pd.DataFrame(
    {"age": STARS, "city": ["Graz", "Linz"] * 30, "day": np.datetime64("2020-01-01")}
)
cities = partial(table, X=CITIES)
FITS += [
    cities("categories|city", categories={"city": v})
    for v in ("Graz", {"Graz"}, 3, ["1", 1], ["Graz", None], "dtype")
]
FITS += [
    cities("categories", categories=v)
    for v in ({"town": []}, {7: []}, {0.5: []}, {"day": "find"})
]
FITS += [
    cities("delta|categories", delta=2e-15),
    table("n_samples", X=CITIES[:1]),
    table("more|X", X=CITIES.assign(more=1j)),
    table("more|period", X=CITIES.assign(more=pd.Period("2020-01"))),
    table("X|toarray", X=sparse.csr_array(ROWS)),
    table("X|filled", X=np.ma.masked_array(ROWS)),
    table("X", X=np.eye(9).view(np.matrix)),
]


def each(value):
    return {1: value, 2: 1.0, 3: 1.0}


FITS += [
    clients("epsilon", epsilon=each(v)) for v in (0, -1.0, NAN, "1", True, INF, None)
]
FITS += [clients("delta", delta=each(v)) for v in (0, -1.0, NAN, "1", True, 1.0, 1e-16)]
FITS += [
    clients("epsilon|at least one client", epsilon={}),
    clients("epsilon|'3'|no entry", epsilon={1: 1.0, 2: 1.0}),
    clients("epsilon|'d'|no rows", epsilon={**each(1.0), "d": 1.0}),
    clients("delta|no entry", delta={1: 1e-6}),
    clients("epsilon|no rows", ids={"clients": None}, epsilon=each(1.0)),
    clients("n_components|n_features", n_components=5),
    clients("weights", weights=[[0.1, 0.2, 0.7]]),
    clients("min_clients|3", min_clients=4),
    clients("projection_norm", mechanism=spiked(), projection_norm=1.0),
    clients("center|SpikedModel", mechanism=spiked(), center="pairs"),
    clients(
        "'d'|n_samples=1",
        n_components=2,
        ids={"clients": ["d", *map(str, IDS[1:] % 4)]},
    ),
    clients("clients|client_feature", client_feature=0),
    clients("client_feature=5", client_feature=5, ids={"clients": None}),
    clients(
        "client_feature|no column names", client_feature="a", ids={"clients": None}
    ),
    lean("n_nonzero_features|n_components", n_nonzero_features=1),
    lean("n_nonzero_features|n_features", n_nonzero_features=5),
]
CLIENT_NAMES = {"one kind": [1, "1"] * 30, "64 bytes": ["n" * 65] * 60}
CLIENT_NAMES |= {"printable": ["a\tb"] * 60, "clients": [""] * 60}
FITS += [clients(says, ids={"clients": ids}) for says, ids in CLIENT_NAMES.items()]
FITS += [
    stream(says, **given)
    for says, given in (
        ("horizon", {"horizon": 19}),
        ("sqrt|horizon|blt", {"horizon": 10**13, "factorization": "sqrt"}),
        ("workload|Window", {"workload": "window"}),
        ("workload|Exponential", {"workload": "exponential"}),
        ("length|Window", {"moments": JointMoments(second_workload=Window(0))}),
        ("bandwidth|BISR", {"factorization": BISR(0)}),
        ("decay|Exponential", {"workload": Exponential(1.0)}),
    )
]


@pytest.mark.parametrize("name", ENTRIES)
def test_fits_of_what_does_not_go_together_are_refused(name):
    faults = []
    for estimator, says, given in FITS:
        if estimator == name:
            label = f"{name} { ({k: str(v)[:60] for k, v in given.items()}) }"
            faults += refused(label, says, ENTRIES[name], **given)
    assert not faults, "\n".join(faults)
    assert len(FITS) > 400


# -- what was fitted -------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    models = {n: e.fit(e.make(epsilon=50.0)) for n, e in ENTRIES.items()}
    column = ENTRIES["LRSRegressor"].make(user_feature="user").fit(WITH_IDS, TARGETS)
    alone = ENTRIES["LRSRegressor"].make().fit(ROWS, TARGETS)
    cities = ENTRIES["DPTableVectorizer"].make().fit(CITIES)
    models |= {"column": column, "alone": alone, "cities": cities}
    return {**models, "folder": tmp_path_factory.mktemp("files")}


def use(name, method, *data, **more):
    return lambda s: getattr(s[name], method)(*data, **more)


LRS, NETS, FACTORS = "LRSRegressor", "LRSMLPRegressor", "DPMatrixFactorization"
WORDS = IDS.astype(str)
CALLS = [
    ("X has 3 features", use("DPPCA", "transform", ROWS[:, :3])),
    ("(n_samples, 2)", use("DPPCA", "inverse_transform", ROWS)),
    ("X|NaN", use("DPPCA", "inverse_transform", [[NAN, 1.0]])),
    ("X|text", use("DPPCA", "inverse_transform", [["a", "b"]])),
    ("Sparse", use("DPPCA", "inverse_transform", sparse.csr_array(ROWS))),
    ("input_features", use("DPPCA", "get_feature_names_out", ["a"])),
    *((m, use("DPPCA", m)) for m in ("get_covariance", "get_precision", "score")),
    ("with_mean", use("DPStandardScaler", "transform", sparse.csr_array(ROWS))),
    ("with_mean", use("DPStandardScaler", "inverse_transform", sparse.csr_array(ROWS))),
    ("X", use("DPStandardScaler", "inverse_transform", ROWS[:, :2])),
    *(("alphas", use("DPRidge", "path", v)) for v in ([-1.0], 1.0, ["a"])),
    *(("level", use("DPRidge", "conf_int", v)) for v in (1.0, "95 %", NAN)),
    ("target", use("DPRidge", "conf_int", target="sample")),
    ("intervals=True", use("DPRidge", "conf_int")),
    ("users|in fit it contained", use(LRS, "predict", ROWS, users=WORDS)),
    ("users|user_feature|cross_val_score", use(LRS, "predict", ROWS)),
    ("users|must be left out", use("alone", "predict", ROWS, users=IDS)),
    *(("user must be passed", use(LRS, m)) for m in ("get_coef", "get_intercept")),
    *(
        ("user|integers or text", use(LRS, m, [3]))
        for m in ("get_coef", "get_intercept")
    ),
    *(("user|missing", use(LRS, m, NAN)) for m in ("get_coef", "get_intercept")),
    ("user", use(LRS, "personalize", ROWS, TARGETS, user="3")),
    ("user|fit was given no users", use("alone", "personalize", ROWS, TARGETS, user=3)),
    ("one user", use("column", "personalize", WITH_IDS, TARGETS, user=0)),
    ("given twice", use("column", "personalize", WITH_IDS, TARGETS, users=TARGETS)),
    ("users|user_feature", use("column", "predict", WITH_IDS, users=IDS)),
    ("sample_weight", use(LRS, "score", ROWS, TARGETS, np.ones(9), users=IDS)),
    ("no model|personalize", use(LRS, "save", "never.npz", user=987)),
    ("fit_intercept__ridge", use(LRS, "set_params", fit_intercept__ridge=0.2)),
    ("users must be passed", use(NETS, "predict", ROWS)),
    ("user must be passed", use(NETS, "get_network")),
    ("one user", use(NETS, "personalize", ROWS, TARGETS, user=1, users=IDS)),
    ("user", use(NETS, "save", "never.npz", user=12345)),
    *(("n", use(FACTORS, "recommend", [2], n)) for n in (0, 2.0, True, "3", [3])),
    *(
        ("popularity", use(FACTORS, "recommend", [2], popularity=v))
        for v in (-0.5, NAN, "1")
    ),
    *(
        ("exclude_seen", use(FACTORS, "recommend", [2], exclude_seen=v))
        for v in (None, 1)
    ),
    ("requires y", use(FACTORS, "personalize", RATINGS)),
    ("requires y", use(FACTORS, "score", RATINGS)),
    ("X and y", use(FACTORS, "personalize", RATINGS, STARS[:4])),
    ("input_features", use("DPTableVectorizer", "get_feature_names_out", ["x"])),
    ("norm", use("JMECovariance", "error_norm", np.eye(4), norm="nuclear")),
    ("comp_cov", use("JMECovariance", "error_norm", np.eye(2))),
    ("partial_fit", lambda s: JMECovariance().partial_fit(ROWS)),
    ("horizon is 10 steps", lambda s: JMECovariance(horizon=10).partial_fit(ROWS)),
    ("users|must be left out", use("alone", "personalize", ROWS, TARGETS, users=IDS)),
    ("age|number", lambda s: s["cities"].transform(CITIES.astype({"age": str}))),
    ("day|date", lambda s: s["cities"].transform(CITIES.assign(day=1.0))),
    ("every", lambda s: JMECovariance().release_path(ROWS, every=0)),
    ("name '1'", use("FederatedDPPCA", "privacy_plan", {1: 9, "1": 9}, 4)),
    ("n_samples", use("FederatedDPPCA", "privacy_plan", {}, 4)),
    ("'a'|n_components", use("FederatedDPPCA", "privacy_plan", {"a": 1}, 4)),
    (
        "optimizer|no parameters",
        use("DPAdamClassifier", "set_params", optimizer__beta_1=1),
    ),
    *(("n_parameters", lambda s, n=n: JMEAdam(n, 30)) for n in (0, 2.5, "many", None)),
    *(("n_samples", lambda s, n=n: JMEAdam(3, n)) for n in (0, 2.5, "many", None)),
]
PLAN = DPPCA().privacy_plan(1000, 4)


def foreign(s):
    path = s["folder"] / "foreign.db"
    path.write_bytes(b"hello")
    PrivacyAccountant(path=path)


def reopened(s):
    path = s["folder"] / "shared.db"
    PrivacyAccountant(2.0, path=path, unit="row", neighbors="replace-one")
    PrivacyAccountant(path=path, epsilon=3.0)


def lost(s):
    ledger = PrivacyAccountant(2.0, path=s["folder"] / "lost.db")
    (s["folder"] / "lost.db").unlink()
    DPPCA(accountant=ledger).fit(ROWS)


def of_another_class(s):
    s["DPPCA"].save(s["folder"] / "pca.npz")
    DPStandardScaler.load(s["folder"] / "pca.npz")


USERS_ALONE = PrivacyAccountant(unit="user", neighbors="add-remove-one")
LEDGERS = [
    ("foreign.db|left as is", foreign),
    ("epsilon=2.0|not 3.0", reopened),
    ("lost.db|another accountant", lost),
    ("path|DPPCA|DPStandardScaler", of_another_class),
    ("separate ledger|per user", lambda s: DPPCA(accountant=USERS_ALONE).fit(ROWS)),
    *(
        ("epsilon", lambda s, v=v: PrivacyAccountant(v))
        for v in (0, -1, INF, NAN, "1", True)
    ),
    *(
        ("delta", lambda s, v=v: PrivacyAccountant(1.0, v))
        for v in (0.0, 1.0, 1e-16, NAN, "1")
    ),
    *(("label", lambda s, v=v: PrivacyAccountant().named(v)) for v in (1, True, b"x")),
    *(
        ("n_fits", lambda s, v=v: PrivacyAccountant().check(PLAN, n_fits=v))
        for v in (0, 1.5, True, "2", None)
    ),
    ("delta|epsilon", lambda s: PrivacyAccountant(delta=1e-6)),
    ("failures|epsilon", lambda s: PrivacyAccountant(failures=1e-7)),
    ("pure|epsilon", lambda s: PrivacyAccountant(pure=1.0)),
    ("failures", lambda s: PrivacyAccountant(1.0, failures=1.0)),
    ("unit|neighbors", lambda s: PrivacyAccountant(unit="row")),
    ("unit|user", lambda s: PrivacyAccountant(unit="rows", neighbors="replace-one")),
    ("neighbors|swap", lambda s: PrivacyAccountant(unit="row", neighbors="swap")),
    ("plan", lambda s: PrivacyAccountant().charge(None)),
    *(
        ("plan", lambda s, v=v: PrivacyAccountant().check(v))
        for v in (3, [], [PLAN, "plan"])
    ),
    ("part", lambda s: PrivacyAccountant().charge(PLAN, part="north")),
    ("path", lambda s: PrivacyAccountant(path=3)),
    ("nowhere", lambda s: PrivacyAccountant(path="/nowhere/ledger.db")),
    ("exceed", lambda s: PrivacyAccountant(2.0).check(PLAN, n_fits=9)),
]
for bad in (-1.0, NAN, "1", True, np.ones(1), 1j):
    LEDGERS += [
        ("epsilon", lambda s, v=bad: gaussian_mu(v, 1e-6)),
        ("epsilon", lambda s, v=bad: gaussian_delta(1.0, v)),
        ("mu", lambda s, v=bad: gaussian_epsilon(v, 1e-6)),
        ("delta", lambda s, v=bad: gaussian_mu(1.0, v)),
        ("sensitivity", lambda s, v=bad: calibrate_gaussian("m", v, 1.0, (3,))),
        ("mu", lambda s, v=bad: calibrate_gaussian("m", 1.0, v, (3,))),
    ]
METRICS = [
    ("components_a|reshape", lambda s: subspace_distance(EYE[0], EYE)),
    ("components_b|qr", lambda s: subspace_distance(EYE, 2 * EYE)),
    ("components_a", lambda s: subspace_distance(NAN * EYE, EYE)),
    ("4|same", lambda s: subspace_distance(EYE[:1], np.eye(4)[:1])),
    ("components_", lambda s: captured_variance("pca", ROWS)),
    ("X has 4|components have 3", lambda s: captured_variance(EYE, ROWS)),
]


@pytest.mark.parametrize("calls", [CALLS, LEDGERS, METRICS])
def test_calls_are_refused(calls, fitted):
    models = {k: v for k, v in fitted.items() if k != "folder"}
    before = {name: kept(model) for name, model in models.items()}
    faults = []
    for number, (says, call) in enumerate(calls):
        fault = fault_of(says, partial(call, fitted), Budgets.get())
        faults += [] if fault is None else [f"{number} {says}: {fault:.200}"]
    assert not faults, "\n".join(faults)
    assert {name: kept(model) for name, model in models.items()} == before
