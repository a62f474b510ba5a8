"""The order of remarks, tables as text and HTML, and what remains, in words."""

import copy
import html.parser
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPCovariance,
    DPRidge,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    NoisyFitWarning,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.accounting._ledger.costs import floored
from skdpspectral.audit import privacy_report
from skdpspectral.mechanisms import Concern, PrivacyPlan, Remark
from skdpspectral.pipeline import make_private_pipeline

PLAN = DPPCA(2, scale="ranks").privacy_plan(1000, 5)
HEAVIEST_FIRST = [
    *("leak", "model", "weaker", "trust", "center", "noise", "public", "measured"),
    "other",
]
NASTY = '<b onclick="x">& \u05e9\n'


def test_the_remark_that_matters_most_is_the_second_line():
    assert [str(concern) for concern in Concern] == HEAVIEST_FIRST
    remarks = [Remark(f"On {concern}.", concern) for concern in Concern]
    for left in range(len(remarks), 0, -1):
        heaviest = remarks[len(remarks) - left]
        kept = np.random.default_rng(left).permutation(remarks[-left:]).tolist()
        kept = [next(r for r in remarks if r == text) for text in kept]
        plan = replace(PLAN, remarks=kept)
        second = str(plan).splitlines()[1]
        expected = "1 release; details() has it." if left == 1 else heaviest
        assert second == expected
        assert plan.sentences()[-left:] == remarks[-left:]
        for twin in (
            PrivacyPlan.from_json(plan.to_json()),
            pickle.loads(pickle.dumps(plan)),
            copy.deepcopy(plan),
        ):
            assert str(twin) == str(plan)
            assert twin == plan


def test_remarks_of_steps_keep_their_weight():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1))
    second = str(model.plan_for(X)).splitlines()[1]
    assert second.startswith("dpstandardscaler: 300 rows are too few")
    assert str(model.fit(X).privacy_).splitlines()[1].startswith("dppca: Rows are")


def test_noise_that_is_off_or_seeded_is_the_first_line():
    off = DPPCA(1, epsilon=None).privacy_plan(1000, 5)
    assert str(off).startswith("DPPCA gives no privacy: its noise was switched off.\n")
    seeded = DPPCA(1, noise_seed=0).privacy_plan(1000, 5)
    first, second = str(seeded).splitlines()
    assert first == "DPPCA gives no privacy: its noise came from a seed."
    assert second.startswith("With secret, fresh noise it would be differentially")
    assert "epsilon=1, delta=1e-06" in second


def test_choices_are_conditions():
    plan = DPPCA(2).privacy_plan(2000, 10)
    assert str(plan).splitlines()[1].startswith("Up to 145 releases")
    lines = plan.details().splitlines()
    assert sum("center: choice 1 of 15" in line for line in lines) > 1
    assert sum("center: choice 15 of 15; symmetric" in line for line in lines) == 1


TAGS = {"div", "strong", "br", "details", "summary", "ul", "li", "p"}
TAGS |= {"table", "tr", "th", "td"}


class Balanced(html.parser.HTMLParser):
    """Fails unless tags are balanced and harmless."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert not attrs or attrs == [("style", "text-align: left")]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def shown_in_notebooks(thing):
    parser = Balanced()
    parser.feed(thing._repr_html_())
    assert not parser.open
    return " ".join(parser.text)


def test_notebooks_get_escaped_text_without_scripts():
    step = replace(PLAN.mechanisms[0], name=NASTY)
    plan = replace(PLAN, estimator=NASTY, remarks=[NASTY], mechanisms=[step])
    said = " ".join(NASTY.split())
    assert len(str(plan).splitlines()) == 2
    assert shown_in_notebooks(plan).count(said) == 3
    report = privacy_report(make_pipeline(StandardScaler(), DPPCA()))
    for step in report:
        assert step.reason in shown_in_notebooks(report)


def test_clients_of_other_budgets_are_told_apart():
    X = np.random.default_rng(0).normal(size=(300, 3))
    budgets = {"a": 1.0, "b": 2.0, "<c>": 2.0}
    clients = np.repeat(list(budgets), 100)
    found = FederatedDPPCA(1, epsilon=budgets).fit(X, clients=clients).privacy_
    assert "epsilon=2," in str(found)
    assert "the least protected of 3 clients" in str(found).splitlines()[1]
    assert "(2, 1e-06): 2 clients ('b', '<c>')." in found.details()
    assert "&lt;c&gt;" in found._repr_html_()


@pytest.mark.parametrize("n_fits", [1, 4])
def test_what_remains_explains_itself(n_fits):
    accountant = PrivacyAccountant(3.0, 1e-6)
    assert str(accountant.remaining()) == (
        "epsilon=0 of 3 at delta=1e-06 is spent; costs do not add up linearly, so "
        "a fit of up to epsilon=3 still fits."
    )
    accountant.charge(DPPCA(1, epsilon=0.87).privacy_plan(1000, 5))
    left = accountant.remaining(n_fits)
    assert repr(left) == f"Remaining(epsilon={left.epsilon!r}, delta=1e-06)"
    assert left == (left.epsilon, 1e-6)
    most = f"{floored(left.epsilon):g}"
    fits = f"a fit of up to epsilon={most} still fits."
    if n_fits > 1:
        fits = f"{n_fits} fits of up to epsilon={most} each still fit."
    said = "epsilon=0.87 of 3 at delta=1e-06 is spent; costs do not add up linearly, so"
    for twin in (left, copy.deepcopy(left), pickle.loads(pickle.dumps(left))):
        assert str(twin) == f"{said} {fits}"
    for _ in range(n_fits):
        accountant.charge(DPPCA(1, epsilon=float(most)).privacy_plan(1000, 5))
    with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
        accountant.charge(DPPCA(1, epsilon=1.0).privacy_plan(1000, 5))


def test_what_remains_without_a_budget():
    assert str(PrivacyAccountant().remaining()) == (
        "The ledger has no budget: fits of any epsilon are recorded."
    )


def rows(n):
    return np.random.default_rng(0).normal(size=(n, 5))


NOISY = {
    "components": (lambda: DPPCA(2, epsilon=0.1).fit(rows(50)), "above the noise"),
    "no mean": (lambda: DPCovariance().fit(rows(300)), "private lengths"),
    "scales": (lambda: DPStandardScaler(epsilon=0.1).fit(rows(50)), "private scales"),
    "ridge": (lambda: DPRidge(epsilon=0.1).fit(rows(50), rows(50)[:, 0]), "no feature"),
    "labels": (
        lambda: DPAdamClassifier(epsilon=0.1, classes=[False, True]).fit(
            rows(50), rows(50)[:, 0] > 0
        ),
        "6 weights at this budget",
    ),
    "targets": (
        lambda: DPAdamRegressor(target_bounds=(-3, 3)).fit(rows(50), rows(50)[:, 0]),
        "6 weights at this budget",
    ),
    "table": (lambda: DPTableVectorizer(epsilon=0.1).fit(rows(50)), "private scales"),
}


@pytest.mark.parametrize("name", NOISY)
def test_one_class_of_warnings_is_about_noise(name):
    fit, said = NOISY[name]
    with pytest.warns(NoisyFitWarning, match=said):
        fit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NoisyFitWarning)
        model = fit()
    if name != "no mean":
        assert any(remark.concern == "noise" for remark in model.privacy_.remarks)
