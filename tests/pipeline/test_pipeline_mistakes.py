"""Mistakes in private pipelines: each message names the step and the remedy.

Nothing is charged by them.
"""

import numpy as np
import pandas as pd
import pytest
from faults import faulty_rows
from joblib import Memory
from ledger_tools import refused
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPItemEmbedding,
    DPRidge,
    DPStandardScaler,
    FederatedDPPCA,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import PrivatePipeline, make_private_pipeline

N = 200
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 4))
y = X[:, 0] > 0.0
CLASSES = [False, True]


def classifier(**params):
    return DPAdamClassifier(**{"classes": CLASSES, "batch_size": N, **params})


def pipeline(*steps, **params):
    return make_private_pipeline(*steps, **params)


def chosen(step, columns):
    return ColumnTransformer([("some", step, columns)], sparse_threshold=0)


def search(step):
    scorer = make_private_scorer("captured_variance", clip_norm=1.0)
    grid = {"center": ["none", "pairs"]}
    return PrivateSearchCV(step, grid, scoring=scorer)


SCALED = (DPStandardScaler(), DPPCA(2))

MISTAKES = {
    "a budget at a step": (
        lambda: pipeline(DPStandardScaler(epsilon=0.5), DPPCA(2)),
        r"step 'dpstandardscaler' has epsilon=0.5.*shares=\{'dpstandardscaler'",
    ),
    "a budget inside of a step": (
        lambda: pipeline(chosen(DPStandardScaler(epsilon=2.0), [0]), DPPCA(1)),
        r"step 'columntransformer__some' has epsilon=2.0.*leave it",
    ),
    "no budget at a step": (
        lambda: pipeline(DPStandardScaler(epsilon=None), DPPCA(2)),
        r"step 'dpstandardscaler' has epsilon=None.*leave it",
    ),
    "a delta at a step": (
        lambda: pipeline(DPStandardScaler(delta=1e-9), DPPCA(2)),
        r"step 'dpstandardscaler' has delta=1e-09.*leave it",
    ),
    "a ledger at a step": (
        lambda: pipeline(DPStandardScaler(accountant=PrivacyAccountant()), DPPCA(2)),
        r"step 'dpstandardscaler' has an accountant: pass it to the pipeline",
    ),
    "a noise multiplier": (
        lambda: pipeline(
            DPStandardScaler(), classifier(optimizer=Adam(noise_multiplier=1.0))
        ),
        r"step 'dpadamclassifier' has noise_multiplier=1.0.*set it to None",
    ),
    "a share of an unknown step": (
        lambda: pipeline(*SCALED, shares={"scaler": 0.5, "dppca": 0.5}),
        r"one entry per private step, which are 'dpstandardscaler', 'dppca', got",
    ),
    "a share of zero": (
        lambda: pipeline(*SCALED, shares={"dpstandardscaler": 0.0, "dppca": 1.0}),
        r"shares must be within 1e-9 and 1e9, got",
    ),
    "a share that is no number": (
        lambda: pipeline(*SCALED, shares={"dpstandardscaler": "1", "dppca": 0.5}),
        r"shares\['dpstandardscaler'\] must be a real number",
    ),
    "shares in a list": (
        lambda: pipeline(*SCALED, shares=[0.5, 0.5]),
        r"shares must not be an array or a list",
    ),
    "rows and users": (
        lambda: pipeline(DPStandardScaler(), LRSRegressor()),
        r"'dpstandardscaler' protects one row.*'lrsregressor' one user.*choose",
    ),
    "users of two columns": (
        lambda: pipeline(
            FeatureUnion([("a", embedding(0, 1)), ("b", embedding(1, 0))])
        ),
        r"user_feature must be one column in all steps.*'featureunion__b': 1",
    ),
    "two relations": (
        lambda: pipeline(
            DPStandardScaler(), classifier(optimizer=Adam(neighbors="zero-out-one"))
        ),
        r"'dpstandardscaler'.*replace-one.*'dpadamclassifier'.*zero-out-one.*choose",
    ),
    "a scaler that leaks": (
        lambda: pipeline(StandardScaler(), DPPCA(2)),
        r"step 'standardscaler' .*leaks.*use DPStandardScaler.*Nothing was charged",
    ),
    "an imputer that leaks": (
        lambda: pipeline(SimpleImputer(), DPPCA(2)),
        r"step 'simpleimputer' .*leaks.*use DPTableVectorizer\(\) or DPStandardScaler",
    ),
    "categories that are found": (
        lambda: pipeline(chosen(OneHotEncoder(), [0]), DPPCA(1)),
        r"step 'columntransformer__some' .*use DPTableVectorizer\(categories=...\)",
    ),
    "a last step that leaks": (
        lambda: pipeline(DPPCA(2), LogisticRegression()),
        r"step 'logisticregression' .*leaks.*without noise",
    ),
    "labels that are read off": (
        lambda: pipeline(DPStandardScaler(), classifier(classes=None)),
        r"step 'dpadamclassifier' .*leaks.*classes=\[",
    ),
    "a seed": (
        lambda: pipeline(DPStandardScaler(noise_seed=0), DPPCA(2)),
        r"step 'dpstandardscaler' .*leaks.*noise_seed=None",
    ),
    "no private step": (
        lambda: pipeline(PCA(2)),
        r"steps must contain a private estimator.*sklearn.pipeline.Pipeline",
    ),
    "an ensemble": (
        lambda: pipeline(DPStandardScaler(), BaggingClassifier(classifier())),
        r"step 'baggingclassifier': how often BaggingClassifier fits.*make them steps",
    ),
    "a search": (
        lambda: pipeline(DPStandardScaler(), search(DPPCA(2))),
        r"step 'privatesearchcv' is a search with its own budget.*with PrivateSearchCV",
    ),
    "a search of scikit-learn": (
        lambda: pipeline(GridSearchCV(DPPCA(2), {"n_components": [1]})),
        r"step 'gridsearchcv': how often GridSearchCV fits.*make them steps",
    ),
    "a private pipeline inside": (
        lambda: pipeline(pipeline(DPPCA(2)), DPPCA(1)),
        r"step 'privatepipeline' is a PrivatePipeline.*make_pipeline inside",
    ),
    "a budget for each client": (
        lambda: pipeline(FederatedDPPCA(1)),
        r"step 'federateddppca': FederatedDPPCA has a budget for each client; fit it",
    ),
    "a model of the data": (
        lambda: pipeline(SpikedPCA(1, signal_variance=1e6, noise_variance=1.0)),
        r"step 'spikedpca': the guarantee of SpikedPCA rests on a model.*another",
    ),
    "a cache inside": (
        lambda: pipeline(make_pipeline(*SCALED, memory=Memory(None))),
        r"pipeline__memory must be None: a cached step would be used again",
    ),
    "a memory inside that is none": (
        lambda: pipeline(make_pipeline(Normalizer(), memory=object()), DPPCA(1)),
        r"pipeline__memory must be None",
    ),
    "more components than columns": (
        lambda: pipeline(DPStandardScaler(), DPPCA(9)),
        r"step 'dppca': .*n_components",
    ),
    "a budget that is too small": (
        lambda: pipeline(*SCALED, epsilon=1e-30),
        r"epsilon=1e-30 is too small for 2 private steps.*increase it",
    ),
    "a budget that is no number": (lambda: pipeline(*SCALED, epsilon="1"), r"epsilon"),
    "a budget of zero": (lambda: pipeline(*SCALED, epsilon=0.0), r"'epsilon'"),
    "two steps of one name": (
        lambda: PrivatePipeline([("a", DPPCA(2)), ("a", DPPCA(1))]),
        r"Names provided are not unique.*'a'",
    ),
    "no steps": (lambda: PrivatePipeline([]), r"steps must be a list of pairs"),
    "a step that does not transform": (
        lambda: pipeline(classifier(), DPPCA(2)),
        r"transformers and implement fit and transform",
    ),
    "a class": (
        lambda: PrivatePipeline([("a", DPPCA)]),
        r"step 'a' is a class: pass DPPCA\(...\)",
    ),
    "the wrong columns": (
        lambda: pipeline(chosen(DPStandardScaler(), lambda rows: [0]), DPPCA(1)),
        r"a function picks the columns of 'some' and may look at values: name them",
    ),
    "clients, whose ids are not looked at": (
        lambda: pipeline(DPStandardScaler(), FederatedDPPCA(1, client_feature=0)),
        r"step 'federateddppca': FederatedDPPCA has a budget for each client",
    ),
    "a projection by the number of rows": (
        lambda: pipeline(GaussianRandomProjection("auto", eps=0.999), DPPCA(1)),
        r"step 'gaussianrandomprojection'.*set n_components to a number|new dimension",
    ),
    "rounds on samples of users": (
        lambda: pipeline(FunctionTransformer(np.nan_to_num), samples_of_users()),
        r"step 'lrsmlpregressor'.*fit it outside|leaks",
    ),
}


def embedding(user, item):
    given = {"items": range(9), "rating_range": (1, 5)}
    return DPItemEmbedding(user_feature=user, item_feature=item, **given)


def samples_of_users():
    from skdpspectral import LRSMLPRegressor

    steps = {"n_rounds": 3, "n_own_steps": 5}
    return LRSMLPRegressor(**steps, noise_seed=0, user_feature=0)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_before_the_charge(mistake):
    make, words = MISTAKES[mistake]
    with refused(words, (TypeError, ValueError)) as accountant, accountant:
        make().fit(X, y)


def test_too_few_rows():
    with refused(r"1 sample|n_samples=1|minimum of 2") as accountant, accountant:
        pipeline(*SCALED).fit(X[:1])


def test_a_budget_that_is_spent():
    accountant = PrivacyAccountant(1.0, 1e-6)
    with pytest.raises(PrivacyBudgetError, match="PrivatePipeline would exceed"):
        pipeline(*SCALED, epsilon=1.5, accountant=accountant).fit(X)
    assert accountant.ledger == ()


FRAME = pd.DataFrame(X, columns=list("abcd"))
TWICE = pd.DataFrame(X, columns=list("abbd"))


def charge_of_error(model, words, X, y=None):
    """Return how many entries a fit makes that is refused."""
    accountant = PrivacyAccountant()
    with accountant, pytest.raises((TypeError, ValueError), match=words):
        model.fit(X, y)
    return len(accountant.ledger)


@pytest.mark.parametrize(
    ("columns", "rows", "words"),
    [
        (["e"], FRAME, r"columntransformer picks columns that X does not have: "),
        (["a"], TWICE, r"X has several columns with the same name"),
        ([0, 9], X, r"columntransformer picks columns that X does not have"),
        ([-5], X, r"must be in \[0, 3\] or \[-4, 0\]"),
        ([True, False], X, r"columntransformer picks columns that X does not have"),
        (
            "a",
            FRAME,
            r"__some requires a table of columns: write \['a'\] instead of 'a'",
        ),
        (0, X, r"__some requires a table of columns: write \[0\] instead of 0"),
    ],
)
def test_columns_that_are_not_there(columns, rows, words):
    model = pipeline(chosen(DPStandardScaler(), columns))
    assert charge_of_error(model, words, rows) == 0


def test_several_targets_are_for_whom_takes_them():
    model = pipeline(DPStandardScaler(), DPRidge(), epsilon=8.0).fit(X, X[:, :2])
    assert model.predict(X).shape == (N, 2)


@pytest.mark.parametrize("fault", ["string column", "sparse"])
def test_forms_that_no_step_accepts(fault):
    rows = dict(faulty_rows(X))[fault]
    assert charge_of_error(pipeline(*SCALED), "step 'dpstandardscaler': ", rows) == 0


@pytest.mark.parametrize("make", [make_pipeline, make_private_pipeline])
def test_components_name_what_has_a_score(make):
    with pytest.raises(AttributeError) as raised:
        make(DPStandardScaler(), DPPCA(2)).score
    causes = list[str]()
    error = raised.value
    while error is not None:
        causes.append(str(error))
        error = error.__cause__
    assert "use DPCovariance" in causes[-1]
