"""Calls that must fail: a table of mistakes, and what each error must name."""

from functools import partial

import joblib
import numpy as np
import pandas as pd
import polars as pl
from bad_cases import bad, mark_values, refused_fits, state_of
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sliced_rows import (
    BrokenTable,
    ClosedTable,
    MaskedTable,
    NamelessTable,
    SlicedTable,
)

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.decomposition import Gaussian, PrivateMean, SpikedModel, TwoStage
from skdpspectral.mechanisms import Gaussian as CoreGaussian
from skdpspectral.metrics import captured_variance

NAN, INF = float("nan"), float("inf")
ROW, COLUMN_NAMES = np.arange(4.0), list("abcd")
PLAN = DPPCA().privacy_plan(1000, 4)


class OwnStages(TwoStage):
    """Somebody's own, which no file could name."""


class Scene:
    """A fitted estimator, a budget that is untouched, and rows to misuse them on."""

    def __init__(self, folder):
        self.folder = folder
        self.X = np.random.default_rng(0).normal(size=(60, 4))
        self.pca = DPPCA().fit(pd.DataFrame(self.X, columns=COLUMN_NAMES))
        self.accountant = PrivacyAccountant(2.0)
        self._before = self._state()

    def fit(self, X=None, **parameters):
        """Refit with the budgeted accountant; check that X stays as it is."""
        X = self.X if X is None else X
        kept, before = self.pca.get_params(deep=False), joblib.hash(X)
        self.pca.set_params(**{"accountant": self.accountant, **parameters})
        try:
            return self.pca.fit(X)
        finally:
            self.pca.set_params(**kept)
            assert joblib.hash(X) == before, "X was changed"

    def transform(self, X):
        before = joblib.hash(X)
        try:
            return self.pca.transform(X)
        finally:
            assert joblib.hash(X) == before, "X was changed"

    def file(self, name, content=b""):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def mapped(self, X):
        path = self.folder / "rows.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")

    def saved(self, name, damage):
        path = self.folder / name
        self.pca.save(path)
        path.write_bytes(damage(path.read_bytes()))
        return path

    def with_header(self, name, text):
        path = self.folder / name
        np.savez(path, header=np.array(text))
        return path

    def lost_ledger(self):
        accountant = PrivacyAccountant(2.0, path=self.folder / "lost.db")
        (self.folder / "lost.db").unlink()
        return accountant

    def reopened(self, **arguments):
        path = self.folder / "shared.db"
        PrivacyAccountant(2.0, path=path, unit="row", neighbors="replace-one")
        return PrivacyAccountant(path=path, **arguments)

    def _state(self):
        fitted = {k: v for k, v in vars(self.pca).items() if k.endswith("_")}
        parameters = {**self.pca.get_params(deep=False), "noise_seed": None}
        return state_of(fitted, self.X), sorted(parameters.items())

    def renew(self):
        self.accountant = PrivacyAccountant(2.0)

    def check_untouched(self, charges=0):
        assert len(self.accountant.ledger) <= charges, "the budget was charged"
        assert self._state() == self._before, "the earlier fit was lost"


def bad_parameter(name, label, value, error=ValueError):
    return bad(f"{name}: {label}", lambda s: s.fit(**{name: value}), name, error=error)


def late_value(value):
    """A table of which the last row of the second block is no number."""
    X = np.random.default_rng(1).normal(size=(4100, 4))
    X[4095, 2] = value
    return SlicedTable(X)


def with_value(value, column=1):
    X = np.random.default_rng(1).normal(size=(60, 4))
    X[3, column] = value
    return X


# -- parameters of the estimator, each wrong by itself ---------------------------------

NOT_A_NUMBER = {"text": "1", "boolean": True, "array": np.ones(1), "complex": 1j}
NOT_A_FLAG = {"text": "yes", "number": 1, "None": None}
RADII = {"zero": 0, "negative": -1.0, "NaN": NAN, "infinite": INF, "tiny": 1e-61}
RADII |= {"huge": 1e61, "text": "1", "boolean": True, "array": np.ones(4)}
PARAMETERS = {
    "epsilon": {"zero": 0, "negative": -1.0, "NaN": NAN, "minus infinity": -INF}
    | NOT_A_NUMBER,
    "delta": {"zero": 0.0, "one": 1.0, "negative": -1e-6, "NaN": NAN, "large": 2}
    | {"below 1e-15": 1e-16, "infinite": INF, "None": None}
    | NOT_A_NUMBER,
    "n_components": {"zero": 0, "negative": -1, "above p": 5, "above n": 61}
    | {"float": 2.0, "share": 0.5, "NaN": NAN, "None": None, "unknown word": "mle"}
    | NOT_A_NUMBER,
    "release": {"unknown": "eigenvalues", "None": None, "number": 1, "boolean": True},
    "whiten": NOT_A_FLAG,
    "bounds": {"scalar": 5.0, "mapping": {"a": 0, "b": 1}, "set": {-1, 1}, "word": "ab"}
    | {"table": pd.DataFrame([ROW, ROW + 1]), "series": pd.Series([-1.0, 1.0])},
    "clip_norm": RADII,
    "center": {"unknown": "mean", "None": None, "number": 1, "boolean": True},
    "scale": {"unknown": "std", "boolean": True, "number": 1, "array": np.ones(4)},
    "mechanism": {"unknown": "laplace", "None": None, "number": 1}
    | {"a model without numbers": "spiked", "class": TwoStage, "mapping": {}}
    | {"another room's": CoreGaussian("m", 1.0, 1.0, (3,)), "a subclass": OwnStages()},
    "accountant": {"word": "ledger", "number": 1.0, "boolean": True}
    | {"mapping": {}, "class": PrivacyAccountant},
    "noise_seed": {"text": "seed", "negative": -1, "float": 1.5, "boolean": True}
    | {"large": 2**40, "list": [1, 2], "generator": np.random.default_rng(0)},
}
CASES = [
    bad_parameter(name, label, value)
    for name, values in PARAMETERS.items()
    for label, value in values.items()
]

# -- parameters of the objects, each wrong by itself -----------------------------------

PAPERS = {"signal_variance": 2.0, "noise_variance": 1.0, "calibration": "paper"}
OBJECTS = {
    ("center", "radius", PrivateMean): RADII,
    ("mechanism", "calibration", partial(SpikedModel, 2.0, 1.0)): {
        "unknown": "classical",
        "None": None,
        "number": 2,
    },
    ("mechanism", "sensitivity_constant", partial(SpikedModel, **PAPERS)): {
        "zero": 0,
        "negative": -1.0,
        "NaN": NAN,
        "infinite": INF,
    }
    | NOT_A_NUMBER,
}
CASES += [
    bad(
        f"{name}: {label}",
        lambda s, p=parameter, m=make, n=name, v=value: s.fit(**{p: m(**{n: v})}),
        name,
    )
    for (parameter, name, make), values in OBJECTS.items()
    for label, value in values.items()
]

# -- bounds and center, where values meet the features or each other -------------------

BIG = (-(10**400), 10**400)
TIMES = (np.zeros(4, "M8[s]"), np.ones(4, "M8[s]"))
BOUNDS = {
    "reversed": ([(1, 0), ([0, 0, 0, 1], [1, 1, 1, 0])], "low must be at most high"),
    "equal everywhere": ([(0, 0), np.ones((2, 4))], "feature"),
    "one value": ([(-1,), [3.0], np.array(3.0)], "(low, high)"),
    "three values": ([(-1, 0, 1), np.ones((3, 4))], "(low, high)"),
    "no value": ([(), []], "(low, high)"),
    "low of wrong length": ([([0, 0, 0], 1)], "low", "4 features"),
    "high of wrong length": ([(0, np.ones(5))], "high", "4 features"),
    "low of wrong shape": ([(np.zeros((1, 4)), 1)], "low", "4 features"),
    "low not finite": ([(NAN, 1), (-INF, 1), (None, 1)], "low", "finite"),
    "high not finite": ([(0, INF), (0, [1, 1, NAN, 1])], "high", "finite"),
    "extent overflows": ([(-1e308, 1e308)], "high"),
    "not numbers": (
        [("a", "b"), ("0", "1"), (1j, 2), (0, [1, [2, 3]]), (False, True), BIG, TIMES],
        "numbers",
    ),
}
CASES += [
    bad(f"bounds: {mistake}", lambda s, b=value: s.fit(bounds=b), "bounds", *says)
    for mistake, (values, *says) in BOUNDS.items()
    for value in values
]
BOX = (-1.0, 1.0)
CASES += [
    bad(
        "scale without bounds",
        lambda s: s.fit(scale="bounds"),
        "scale",
        "bounds=(low, high)",
    ),
    bad(
        "ranks about a center",
        lambda s: s.fit(scale="ranks", center="private"),
        "center",
        'scale="ranks"',
        "center='auto'",
    ),
    bad(
        "ranks of a mechanism",
        lambda s: s.fit(scale="ranks", mechanism="two-stage"),
        "mechanism",
        'scale="ranks"',
        "mechanism='gaussian'",
    ),
    bad(
        "variances of ranks",
        lambda s: s.fit(scale="ranks", release="covariance"),
        "release",
        'scale="ranks"',
        "release='components'",
    ),
    bad(
        "lengths of ranks",
        lambda s: s.fit(scale="ranks", clip_norm=1.0),
        "clip_norm",
        'scale="ranks"',
        "clip_norm=None",
    ),
    bad("ranks in another word", lambda s: s.fit(scale="signs"), "scale", "ranks"),
    bad(
        "private mean without radius",
        lambda s: s.fit(center=PrivateMean()),
        "center",
        "bounds",
        "PrivateMean",
    ),
]

# -- mechanisms, and the public numbers that some of them need -------------------------


def model(signal_variance=2.0, noise_variance=1.0, **more):
    """Parameters with a model of the rows."""
    return {"mechanism": SpikedModel(signal_variance, noise_variance, **more)}


def stages(**more):
    """Parameters with two stages, of which these are public."""
    return {"mechanism": TwoStage(**more)}


def noisy(**more):
    """Parameters with noise on the second moment, and what is public for it."""
    return {"mechanism": Gaussian(**more)}


SPIKED, PAPER = model(), model(calibration="paper")
STAGES, RANGE = {"mechanism": "two-stage"}, (0.1, 10.0)
COVARIANCE = {"release": "covariance"}
MECHANISMS = {
    "as many stages as features": ({**STAGES, "n_components": 4}, "n_components"),
    "as many spikes as features": ({**SPIKED, "n_components": 4}, "n_components"),
    "rank of a spiked model": ({**SPIKED, "n_components": "auto"}, "n_components"),
    "no signal": (model(None), "signal_variance", "public"),
    "no noise": (model(2.0, None), "noise_variance", "public"),
    "box of a spiked model": ({**SPIKED, "bounds": BOX}, "bounds", "leave"),
    "clip of a spiked model": ({**SPIKED, "clip_norm": 1.0}, "clip_norm", "leave"),
    "scale of a spiked model": ({**SPIKED, "scale": "bounds"}, "scale", "leave"),
    "center of a spiked model": (
        {**SPIKED, "center": PrivateMean(1.0)},
        "center",
        "mean zero",
    ),
    "signal below the noise": (SPIKED, "signal_variance", "n_samples", "n_features"),
    "constant without the paper": (
        model(sensitivity_constant=4.0),
        "sensitivity_constant",
        "paper",
    ),
    "constant that hides nothing": (
        model(calibration="paper", sensitivity_constant=1e-50),
        "sensitivity_constant",
        "raise",
    ),
    "delta that the model cannot share": (
        {**model(1e9), "delta": 1e-15},
        "delta",
        "at least",
    ),
    "noise of the paper for large epsilon": (
        {**PAPER, "epsilon": 1e6},
        "calibration",
        "sensitivity_constant",
    ),
    "noise of the paper without privacy": (
        {**PAPER, "epsilon": None},
        "calibration",
        "finite",
    ),
    "whitening by unit rows": ({"whiten": True}, "whiten", "covariance", "clip_norm"),
    "whitening by unit rows in stages": ({**STAGES, "whiten": True}, "whiten"),
    "noise that nothing uses": (noisy(noise_variance=1.0), "noise_variance", "None"),
    "range that nothing uses": (noisy(norm_range=RANGE), "norm_range", "remove"),
    "range beside a clip": (
        {**noisy(norm_range=RANGE), **COVARIANCE, "clip_norm": 1.0},
        "norm_range",
        "remove",
    ),
    "range of stages that are public": (
        stages(signal_variance=1.0, noise_variance=1.0, norm_range=RANGE),
        "norm_range",
        "remove",
    ),
    "signal of another rank": (
        stages(signal_variance=[1.0, 2.0, 3.0]),
        "signal_variance",
        "2",
    ),
    "signal of a released rank": (
        {**stages(signal_variance=[1.0, 2.0]), "n_components": "auto"},
        "signal_variance",
        "a number",
    ),
    "table of signals": (stages(signal_variance=[[1.0]]), "signal_variance"),
    "several noises": (stages(noise_variance=[1.0, 2.0]), "noise_variance"),
    "one length for two": (stages(norm_range=(1.0,)), "norm_range", "pair"),
    "reversed lengths": (stages(norm_range=(2.0, 1.0)), "norm_range", "below"),
    "equal lengths": (stages(norm_range=(1.0, 1.0)), "norm_range", "below"),
    "length for lengths": (stages(norm_range=1.0), "norm_range"),
}
# A message may be shared by mistakes that are the same.
ALIKE = {"equal lengths": "reversed lengths"}
ALIKE["range beside a clip"] = "range that nothing uses"
ALIKE["whitening by unit rows in stages"] = "whitening by unit rows"
ALIKE["several noises"] = "noise_variance: kind"
CASES += [
    bad(ALIKE.get(mistake, mistake), lambda s, p=parameters: s.fit(**p), *names)
    for mistake, (parameters, *names) in MECHANISMS.items()
]
VARIANCES = {"zero": 0.0, "negative": -1.0, "NaN": NAN, "infinite": INF, "huge": 1e61}
KINDS = {"words": "1", "boolean": True, "complex": 1j, "dates": TIMES[0]}
for name in ("signal_variance", "noise_variance"):
    CASES += [
        bad(
            f"{name} out of range",
            lambda s, k=name, v=value: s.fit(**stages(**{k: v})),
            name,
        )
        for value in VARIANCES.values()
    ]
    CASES += [
        bad(f"{name}: kind", lambda s, k=name, v=value: s.fit(**stages(**{k: v})), name)
        for value in KINDS.values()
    ]
CASES += [
    bad(
        "norm_range out of range",
        lambda s, v=value: s.fit(**stages(norm_range=v)),
        "norm_range",
    )
    for value in [(0.0, 1.0), (-1.0, 1.0), (NAN, 1.0), (1.0, INF), (1e-61, 1.0)]
]
CASES += [
    bad(f"{method} of unit rows", call, method, error=AttributeError)
    for method, call in {
        "get_covariance": lambda s: s.pca.get_covariance(),
        "get_precision": lambda s: s.pca.get_precision(),
        "score": lambda s: s.pca.score(s.X),
        "score_samples": lambda s: s.pca.score_samples(s.X),
    }.items()
]

# -- accountants that refuse a fit -----------------------------------------------------

CASES += refused_fits("user", "add-remove-one")
CASES += [
    bad(
        "too many fits",
        lambda s: s.accountant.check(PLAN, n_fits=9),
        "9 fits",
        "remains",
        error=PrivacyBudgetError,
    ),
    bad(
        "lost ledger",
        lambda s: s.fit(accountant=s.lost_ledger()),
        "lost.db",
        "another accountant",
        error=LedgerError,
    ),
]

# -- rows ------------------------------------------------------------------------------

DATES = np.full((9, 4), "2020-01-01", dtype="M8[D]")
ROWS = {
    "NaN": (lambda s: with_value(NAN), "NaN"),
    "infinite": (lambda s: with_value(INF), "infinity"),
    "beyond float64": (lambda s: [[10**400, 1.0, 2.0, 3.0]] * 60, "float"),
    "no rows": (lambda s: s.X[:0], "0 sample(s)"),
    "1-D": (lambda s: s.X[0], "Reshape your data"),
    "scalar": (lambda s: 3.0, "2D"),
    "3-D": (lambda s: s.X[None], "dim 3"),
    "no features": (lambda s: s.X[:, :0], "0 feature(s)"),
    "complex": (lambda s: s.X + 1j, "Complex"),
    "words": (lambda s: np.full((60, 4), "a", dtype=object), "text"),
    "text": (lambda s: np.full((60, 4), "secret"), "text"),
    "text in objects": (
        lambda s: np.array([["1", np.str_("secret")] * 2] * 60, "O"),
        "text",
    ),
    "bytes": (lambda s: np.full((60, 4), b"secret"), "text"),
    "dates": (lambda s: DATES, "dates"),
    "durations": (lambda s: DATES - DATES, "durations"),
    "table of dates": (lambda s: pd.DataFrame(DATES, columns=COLUMN_NAMES), "dates"),
    "dates in polars": (
        lambda s: pl.DataFrame(with_value(0), schema=COLUMN_NAMES).with_columns(
            pl.lit(DATES[0, 0].item()).alias("b")
        ),
        "dates",
    ),
    "ragged": (lambda s: [[1.0, 2.0], [3.0]], "inhomogeneous"),
    "mapping": (lambda s: {"a": [1.0]}, "2D"),
}
# What is read by slices.
TABLES = {
    "NaN late in a table": (lambda s: late_value(NAN), "NaN"),
    "infinity late in a table": (lambda s: late_value(INF), "infinity"),
    "infinity late in a map": (lambda s: s.mapped(late_value(INF).values), "infinity"),
    "beyond float64 in a table": (
        lambda s: SlicedTable(np.full((9, 4), "1e4000").astype("g")),
        "infinity",
    ),
    "table without rows": (lambda s: SlicedTable(s.X[:0]), "0 sample(s)"),
    "table without features": (lambda s: SlicedTable(s.X[:, :0]), "0 feature(s)"),
    "1-D table": (lambda s: SlicedTable(s.X[0]), "2D", "1 dimensions"),
    "3-D table": (lambda s: SlicedTable(s.X[None]), "2D", "3 dimensions"),
    "complex table": (lambda s: SlicedTable(s.X + 1j), "Complex"),
    "table of objects": (lambda s: SlicedTable(s.X.astype(object)), "dtype object"),
    "table of text": (lambda s: SlicedTable(s.X.astype(str)), "dtype", "real numbers"),
    "table of records": (lambda s: SlicedTable(np.zeros((9, 4), "f8,i4")), "dtype"),
    "table of days": (lambda s: SlicedTable(DATES), "dates"),
    "table of unknown length": (
        lambda s: SlicedTable(s.X, shape=(NAN, 4)),
        "X.shape",
        "known in advance",
    ),
    "table of negative length": (lambda s: SlicedTable(s.X, shape=(-1, 4)), "X.shape"),
    "table that is shorter": (lambda s: SlicedTable(s.X, shape=(70, 4)), "(70, 4)"),
    "table that is wider": (
        lambda s: SlicedTable(s.X[:, [0, 1, 2, 3, 0]], shape=(60, 4)),
        "(60, 5)",
    ),
    "table that turns complex": (
        lambda s: SlicedTable(s.X + 1j, dtype=np.dtype("f8")),
        "dtype complex128",
    ),
    "table that turns to objects": (
        lambda s: SlicedTable(s.X.astype(object), dtype=np.dtype("f8")),
        "dtype object",
        "X[0:60]",
    ),
    "broken table": (lambda s: BrokenTable(s.X), "could not be read", "OSError"),
    "closed table": (lambda s: ClosedTable(s.X), "X.shape", "ZeroDivisionError"),
    "table of no type": (lambda s: NamelessTable(s.X), "X.dtype", "RuntimeError"),
    "masked values": (lambda s: MaskedTable(s.X), "X[0:60]", "masked"),
}
# Mistakes in values: in all others the form is wrong.
IN_VALUES = {"NaN", "infinite", "beyond float64", "words", "broken table"}
IN_VALUES |= {"table that is shorter", "table that is wider", "masked values"}
IN_VALUES |= {"table that turns complex", "table that turns to objects"}
SAME = {
    "words": ("text in objects",),
    "dates": ("table of days", "table of dates", "dates in polars", "durations"),
    "NaN": ("NaN late in a table",),
    "infinite": ("infinity late in a table", "infinity late in a map"),
    "no rows": ("table without rows",),
    "no features": ("table without features",),
    "complex": ("complex table",),
    "table of unknown length": ("table of negative length",),
}
SAME["scalar"] = ("mapping",)
SAME["infinite"] += ("beyond float64 in a table",)
SAME = {label: mistake for mistake, labels in SAME.items() for label in labels}
for label, (make, *says) in (ROWS | TABLES).items():
    mistake = f"rows: {SAME.get(label, label)}"
    CASES += [
        bad(mistake, lambda s, m=make: s.fit(m(s)), "X", *says),
        bad(mistake, lambda s, m=make: s.transform(m(s)), "X", *says),
    ]
NAMED = "feature names"
CASES += [
    bad("sparse rows", call, "Sparse", ".toarray()", error=TypeError)
    for call in (
        lambda s: s.fit(sparse.csr_array(s.X), bounds=BOX),
        lambda s: s.fit(sparse.csr_array(s.X), center=PrivateMean(1.0)),
        lambda s: s.pca.inverse_transform(sparse.csr_array(s.X)),
    )
]
CASES += [
    bad(
        "rows: infinite" if np.isinf(v) else "rows: NaN",
        lambda s, v=v: s.fit(sparse.csr_array(with_value(v))),
        "X",
    )
    for v in (NAN, INF)
]
CASES += [
    bad("one row", lambda s: s.fit(s.X[:1]), "n_components", "n_samples=1"),
    bad("weights", lambda s: s.pca.fit(s.X, sample_weight=1), "sample_weight")._replace(
        error=TypeError
    ),
    bad(
        "mixed names",
        lambda s: s.fit(pd.DataFrame(s.X, columns=["a", "b", "c", 4])),
        "Feature names",
        "columns.astype(str)",
        error=TypeError,
    ),
    bad("narrow rows", lambda s: s.transform(s.X[:, :3]), "X has 3 features", "4"),
    bad(
        "other names",
        lambda s: s.transform(pd.DataFrame(s.X, columns=list("abcz"))),
        NAMED,
        "z",
    ),
    bad(
        "other order",
        lambda s: s.transform(pd.DataFrame(s.X, columns=list("bacd"))),
        NAMED,
        "same order",
    ),
    bad(
        "names out",
        lambda s: s.pca.get_feature_names_out(["a"]),
        "input_features",
    ),
    bad("unknown parameter", lambda s: s.pca.set_params(clip=1), "clip", "clip_norm"),
]

# -- scores ----------------------------------------------------------------------------

SCORES = {
    "1-D": (lambda s: ROW[:2],),
    "too wide": (lambda s: s.X, "(n_samples, 2)"),
    "too narrow": (lambda s: s.X[:, :1], "(n_samples, 2)"),
    "NaN": (lambda s: [[NAN, 1.0]], "NaN"),
    "words": (lambda s: [["a", "b"]], "text"),
    "complex": (lambda s: s.X[:, :2] + 1j, "Complex"),
    "ragged": (lambda s: [[1.0, 2.0], [3.0]], "inhomogeneous"),
    "dates": (lambda s: DATES[:, :2], "dates"),
}
CASES += [
    # The messages may be those about rows.
    bad(
        "scores: width" if label.startswith("too") else f"rows: {label}",
        lambda s, m=make: s.pca.inverse_transform(m(s)),
        "X",
        *says,
    )
    for label, (make, *says) in SCORES.items()
]

# -- plans and unfitted estimators -----------------------------------------------------

NOT_A_COUNT = {"zero": 0, "negative": -1, "float": 2.0, "boolean": True, "text": "10"}
NOT_A_COUNT |= {"None": None, "NaN": NAN, "array": np.array([3])}
for label, value in NOT_A_COUNT.items():
    for name, other in (("n_samples", "n_features"), ("n_features", "n_samples")):
        CASES.append(
            bad(
                f"{name}: {label}",
                lambda s, sizes=((name, value), (other, 50)): DPPCA().privacy_plan(
                    **dict(sizes)
                ),
                name,
                "positive integer",
            )
        )
CASES += [
    bad("not fitted", call, "not fitted", "fit", error=NotFittedError)
    for call in (
        lambda s: DPPCA().transform(s.X),
        lambda s: DPPCA().inverse_transform(s.X),
        lambda s: DPPCA().publish(),
        lambda s: DPPCA().save(s.folder / "unfitted.npz"),
        lambda s: DPPCA().get_feature_names_out(),
        lambda s: captured_variance(DPPCA(), s.X),
    )
]
CASES = mark_values(CASES, {f"rows: {label}" for label in IN_VALUES})
