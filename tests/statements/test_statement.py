"""Statements of everything that makes promises, and what they may not say."""

import datetime
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from statement_tools import SECRET, SECRET_USER, make_rows, two_analysts

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPStandardScaler,
    FederatedDPPCA,
    LRSRegressor,
    PrivacyAccountant,
    statement,
)
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.federation import GroupTask
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.mechanisms import PrivacyPlan
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.pipeline import make_private_pipeline
from skdpspectral.statements._statement import Statement, facts_in, fit_facts

KINDS = (
    *("estimator", "model", "pipeline", "leak", "search", "federation"),
    *("result", "stream", "users", "items", "seeded", "open"),
    *("ledger", "empty"),
)
VOID = {"br", "meta"}


class Page(HTMLParser):
    """A page, of which every element is closed in its place.

    `answers` are the paragraphs by heading, and `tables` the rows of cells.
    """

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.words = [], set(), [], []
        self.answers, self.tables, self._heading = {}, {}, ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on")]
        self.links += [given[n] for n in ("href", "src", "action") if n in given]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3"):
            self._heading = ""
        elif tag == "p" and self.answers.get(self._heading):
            self.answers[self._heading] += " "
        elif tag == "tr":
            self.tables.setdefault(self._heading, []).append([])
        elif tag in ("td", "th"):
            self.tables[self._heading][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "h3":
            self.answers.setdefault(self._heading, "")

    def handle_data(self, data):
        self.words.append(data)
        if {"h1", "h2", "h3"} & set(self.open):
            self._heading += data
        elif {"td", "th"} & set(self.open):
            self.tables[self._heading][-1][-1] += data
        elif "p" in self.open and self._heading in self.answers:
            self.answers[self._heading] += data


def charged(*plans, **budget):
    """Return a ledger with plans."""
    accountant = PrivacyAccountant(**budget)
    for plan in plans:
        accountant.charge(plan)
    return accountant


def answers(made):
    return Page(made.to_html()).answers


def releases(made):
    """Return the tables of releases by heading, each row by the names of columns."""
    tables = Page(made.to_html()).tables.items()
    return {
        name: [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        for name, rows in tables
        if rows[0][-1] == "lemmas"
    }


LIKELY = r"at most ([\d.,]+) times as likely(?:, plus a chance of ([\d., in%]+)[.;])?"


def odds(said):
    """Return odds and chances that an answer states."""
    found = []
    for times, chance in re.findall(LIKELY, said.replace(" (eps", ".")):
        part, _, inverse = chance.replace(",", "").partition(" in ")
        part = float(part.removesuffix(" %") or 0.0)
        chance = part / float(inverse) if inverse else part / 100.0
        found.append((float(times.replace(",", "")), chance))
    return found


@pytest.mark.parametrize("name", KINDS)
def test_statements_say_nothing_of_the_data(kinds, name):
    made = statement(kinds[name], date="2026-01-31")
    texts = (made.to_html(), made.to_json())
    for text in texts:
        assert not re.search(r"\bnan\b|\binf\b|\bInfinity\b", text, re.I)
        for secret in (SECRET, SECRET_USER):
            assert str(secret) not in text
            assert f"{secret:.6g}" not in text
    again = statement(kinds[name], date=datetime.date(2026, 1, 31))
    assert again == made
    assert again.to_html() == texts[0]
    assert Statement(facts_in(json.loads(texts[1]))).to_html() == texts[0]
    page = Page(texts[0])
    assert not page.tags & {"script", "link", "img", "iframe", "object", "form"}
    assert page.links == []
    assert "url(" not in texts[0]
    assert "@import" not in texts[0]
    Page(made._repr_html_())
    for question in ("Who is protected?", "What if a fit failed?"):
        assert question in page.answers


@pytest.mark.parametrize("name", KINDS)
def test_the_guarantee_is_that_of_the_plan_or_the_ledger(kinds, name):
    of, stated = kinds[name], statement(kinds[name]).to_dict()
    if isinstance(of, PrivacyAccountant):
        assert (stated["epsilon"], stated["delta"]) == of.spent()
    elif name == "open":
        assert (stated["epsilon"], stated["mu"]) == (None, None)
    else:
        plan = of.privacy_
        found = (plan.epsilon, plan.delta, str(plan.unit), str(plan.neighbors))
        keys = ("epsilon", "delta", "unit", "neighbors")
        assert tuple(stated[key] for key in keys) == found
    assert (stated["why_not"] is None) == (name not in ("leak", "seeded", "open"))


WHO, AGAINST = "Who is protected?", "Against whom?"
SEVERAL = "What if one person has several rows?"
SECRET_NUMBER = "Is the number of people or rows secret?"
TUNED = "Was anything chosen or tuned on the data outside this account?"
LEFT = "What has been spent, and what is left?"
OPEN, FAILED = "What is not protected?", "What if a fit failed?"
SEEN = "What do a server and other parties see?"
STRONG = "How strong is the protection?"
HOLDERS = "Not against those who hold or process the data: they are trusted."
NO_PARTY = "As far as this fit knows, no other party took part."
# By object and question: texts in the order of the answer, and after None such that no
# answer has.
SAID = {
    ("estimator", WHO): ("single row",),
    ("users", WHO): ("with all of their rows",),
    ("users", SEVERAL.replace("rows", "user ids")): ("several user ids",),
    ("model", SEVERAL): ("not known",),
    ("estimator", SECRET_NUMBER): ("No.", "400."),
    ("users", SECRET_NUMBER): ("Yes.",),
    ("estimator", TUNED): ("Not stated by the curator. What the curator names",),
    ("search", TUNED): ("cost of a private search", "Not stated by the curator."),
    ("estimator", LEFT): (
        *("ask for the statement of that ledger", "best_estimator_ of a search"),
        *(None, "No budget"),
    ),
    ("stream", LEFT): ("to come included",),
    ("stream", OPEN): ("never run two copies",),
    ("estimator", OPEN): (None, "never run two copies"),
    ("federation", AGAINST): (HOLDERS,),
    ("federation", SEEN): ("of 2 clients.", "were in one program"),
    ("result", AGAINST): ("The server and the other clients are among them.",),
    ("result", SEEN): ("never a row",),
    # Searches, recommenders and models of users have remarks on trust, too.
    **{(name, AGAINST): (HOLDERS,) for name in ("search", "users", "items")},
    **{(name, SEEN): (NO_PARTY,) for name in ("search", "users", "items")},
    ("ledger", FAILED): ("include every failed fit",),
    ("estimator", FAILED): ("not in these figures",),
    ("ledger", "What was released?"): (None, "Frequent texts"),
    ("ledger", "Ledger"): ("3 entries of the ledger",),
    ("open", "Guarantee"): ("None. DPPCA",),
    ("ledger", "How can this be checked?"): ("run: skdpspectral-ledger verify",),
    ("estimator", "Composition"): ("All mechanisms are Gaussian",),
}


@pytest.mark.parametrize(("name", "question"), SAID)
def test_questions_have_their_answers(kinds, name, question):
    texts = SAID[name, question]
    said = answers(statement(kinds[name]))[question]
    lacking = texts.index(None) if None in texts else len(texts)
    assert re.search(".*".join(map(re.escape, texts[:lacking])), said)
    assert not [text for text in texts[lacking + 1 :] if text in said]


def test_answers_have_what_the_curator_states(kinds):
    def stated(question, name="estimator", **words):
        return answers(statement(kinds[name], **words))[question]

    three = stated(SEVERAL, units_per_person=3)
    assert "no person has more than 3." in three
    plan = kinds["estimator"].privacy_
    bound = gaussian_epsilon(3 * plan.mu, plan.delta)
    assert f"3 rows: at most {math.exp(bound):.3g} times as likely" in three
    assert "5 rows" not in three
    assert "not stated" not in three
    assert "no useful limit" in stated(SEVERAL, units_per_person=10**400)
    one = stated(SEVERAL, units_per_person=1)
    assert one == "The curator states that no person has more than one."
    assert stated(SECRET_NUMBER, "users", n_units=40).endswith("all the same: 40.")
    told = stated(TUNED, tuning="Nothing: fixed in May.")
    assert "states: Nothing: fixed in May. What the curator names" in told
    assert "does not cover" in told
    most = f"up to epsilon = {kinds['ledger'].remaining().epsilon:.5g}"
    assert most[:-1] in stated(LEFT, "ledger")


def test_figures_are_bounds_of_the_definition(kinds):
    """Recomputed by the curve of Gaussian mechanisms; pages round up."""
    mu = kinds["estimator"].privacy_.mu
    said = answers(statement(kinds["estimator"]))

    def delta(epsilon, mu):
        low, high = (norm.cdf(s * mu / 2 - epsilon / mu) for s in (1, -1))
        return low - math.exp(epsilon) * high

    figures = odds(said[STRONG])[:1] + odds(said[SEVERAL])
    for k, (times, chance) in zip((1, 2, 5, 10), figures, strict=True):
        assert delta(math.log(times), k * mu) <= chance
        assert delta(math.log(times) - 0.02, k * mu) > chance
    # Whoever guesses is right no more often than the best test of two normal laws, and
    # than the definition lets them.
    strong = said[STRONG]
    right, worst = (
        float(re.search(text + r" ([\d.]+) %", strong)[1]) / 100
        for text in ("is right in at most", "it would be")
    )
    assert 0.0 <= right - norm.cdf(mu / 2) < 1e-3
    assert 0.0 <= worst - (math.e + 1e-6) / (1.0 + math.e) < 1e-3


@pytest.mark.parametrize("name", ["leak", "seeded", "open"])
def test_what_is_not_private_has_no_comforting_figures(kinds, name):
    made = statement(kinds[name])
    claim = made.to_dict()["claim"]
    assert claim.startswith("There is no privacy protection. ")
    assert re.search("switched off|from a seed|guarantee is void", claim)
    said = answers(made)
    assert said["Who is protected?"].startswith("Nobody.")
    for heading, text in said.items():
        if heading.startswith("Releases of"):
            assert text.startswith("These releases alone follow.")
            continue
        assert not re.search(r"epsilon =|mu =|rho|\d %|times as likely", text), text
    assert "Is the number of people or rows secret?" not in said


def group_task(noise, **named):
    model = LRSRegressor(sparsity=1, solver=PrivateRounds(n_rounds=2))
    return GroupTask(model, 4, noise=noise, **named)


GROUP_TASKS = {
    "server": group_task("server"),
    "node": group_task("node"),
    "masked": group_task("distributed", n_shares=2, masked=["a", "b"]),
    "alone": group_task("distributed", n_shares=1, masked=["a", "b"]),
}


@pytest.mark.parametrize("name", GROUP_TASKS)
@pytest.mark.parametrize("of_ledger", [False, True])
def test_group_tasks_say_who_adds_the_noise(kinds, name, of_ledger):
    """Nobody is said to be trusted who is not, or the other way round."""
    plan = GROUP_TASKS[name].plan
    made = Statement(fit_facts(plan, stated={}, versions={}))
    if of_ledger:
        made = statement(charged(plan, epsilon=8.0))
    said = answers(made)
    against, seen = said["Against whom?"], said[SEEN]
    for text in (HOLDERS, NO_PARTY, "does not record other parties"):
        assert text not in against + seen
    assert "at several clients is protected less" in seen
    assert "Which clients there are." in said["What is not protected?"]
    trusted = "Not against the server that adds the noise" in against
    assert trusted == (name == "server")
    assert ("The server sees these sums." in seen) == (name == "server")
    rests = said["What does the promise rest on?"]
    assert ("shows nobody the exact sums" in rests) == (name == "server")
    among = "The server and the other clients are among them" in against
    assert among == (name in ("node", "alone"))
    assert ("adds all of the noise" in seen) == (name in ("node", "alone"))
    assert ("only sums over all parties" in against) == (name in ("masked", "summed"))
    assert ("message of one party" in seen) == (name in ("masked", "summed"))


def test_a_ledger_has_the_cost_of_each_step_of_a_pipeline():
    """It is charged before there are releases; the fitted pipeline lists these."""
    accountant = PrivacyAccountant(4.0, 1e-6)
    steps = DPStandardScaler(), DPPCA(2, center="none")
    model = make_private_pipeline(*steps, accountant=accountant).fit(make_rows())
    alone = make_private_pipeline(DPPCA(2), accountant=accountant).fit(make_rows())
    found = releases(statement(accountant))
    texts = answers(statement(accountant))
    names = ["dpstandardscaler", "dppca"], ["dppca"]
    for (heading, rows), steps in zip(found.items(), names, strict=True):
        assert [row["release"] for row in rows] == steps
        assert {row["lemmas"] for row in rows} == {"composition"}
        assert {row["noise sd"] + row["sensitivity"] for row in rows} == {""}
        assert "statement of the fitted pipeline" in texts[heading]
    costs = [float(row["mu"]) for row in next(iter(found.values()))]
    assert math.hypot(*costs) == pytest.approx(model.privacy_.mu, rel=1e-4)
    for fitted in (model, alone):
        (rows,) = releases(statement(fitted)).values()
        assert [list(row.values())[:7] for row in rows] == [
            list(row) for *_, row in fitted.privacy_.rows()
        ]
        assert all(row["lemmas"] for row in rows)
        (text,) = (
            t for h, t in answers(statement(fitted)).items() if h[:8] == "Releases"
        )
        assert "before its fit" not in text


def test_the_auditor_gets_every_release_with_its_lemma(kinds):
    for name in KINDS:
        for rows in releases(statement(kinds[name])).values():
            for release in rows:
                lemmas = set(filter(None, release["lemmas"].split(", ")))
                if release["kind"] in ("exact", "approximate-dp"):
                    assert lemmas == set()
                    continue
                assert lemmas - OF_COST, release
    made, planned = statement(kinds["estimator"]), kinds["estimator"].privacy_
    (rows,) = releases(made).values()
    assert sum(int(row["times"]) for row in rows) == len(planned.releases())
    assert answers(made)["Releases of DPPCA"] == " ".join(planned.sentences())


def test_tables_and_headings_of_entries(kinds):
    one = answers(statement(charged(kinds["estimator"].privacy_)))["Ledger"]
    assert one.startswith("1 entry of the ledger")
    assert re.search(r"Charged on [\d-]{10}, by", one)
    made = statement(kinds["ledger"])
    assert list(releases(made)) == [
        "Entry 1, <b>ann</b> & co: DPPCA",
        "Entry 2, نورا: DPPCA",
        "Entry 3: counts <script>",
    ]
    text = made.to_html()
    assert "is not the sum of the lines." in text
    assert '<span class="n">0.1</span>' in text
    assert '<span class="n">1e-08</span>' in text


def test_bounds_of_a_model_are_not_said_to_hold_for_chosen_fits(kinds):
    made = statement(charged(kinds["model"].privacy_, epsilon=4.0, failures=5e-7))
    assert "In any case" not in made.to_dict()["claim"]
    assert "planned beforehand" in made.to_dict()["claim"]
    said = answers(made)
    assert "it is not a promise" in said["What does the promise rest on?"]
    assert "but not for bounds of a model of rows" in said["Composition"]


def test_the_exponential_mechanism_is_no_gaussian():
    grid = {"center": ["none", "pairs"]}
    scorer = make_private_scorer("captured_variance", clip_norm=10.0)
    search = PrivateSearchCV(DPPCA(1), grid, scoring=scorer)
    votes = search.privacy_plan(20_000)
    assert re.search(r"^\d+ blocks vote\.$", votes.details(), re.M)
    said = answers(statement(charged(votes)))["Composition"]
    assert "have a mu as an upper bound" in said
    assert "All mechanisms are Gaussian" not in said


def test_the_releases_of_every_client_are_listed():
    """Of clients with different releases, and those that are alike together."""
    clients = np.repeat(["north", "east", "west"], 134)[:400]
    epsilon = {"north": 0.5, "east": 1.0, "west": 1.0}
    model = FederatedDPPCA(1, epsilon=epsilon).fit(make_rows(), clients=clients)
    (rows,) = releases(statement(model)).values()
    alike = {}
    for name, block in model.privacy_.blocks:
        alike.setdefault(block.mechanisms, []).append(name)
    assert len(alike) > 1
    for mechanisms, names in alike.items():
        rows_of = PrivacyPlan(1.0, 1e-6, mechanisms, "x").rows()
        of_client = [row for *_, row in rows_of]
        listed = [r for r in rows if r["release"].startswith(", ".join(names) + ":")]
        assert [list(row.values())[1:7] for row in listed] == [
            list(row[1:]) for row in of_client
        ]


OF_COST = {
    *("privacy-curve", "charge", "sampled-replacement", "dominating", "stream"),
    *("noise-shares", "exponential-choice"),
    *("symmetric-noise", "chosen-branch"),
}


def test_every_lemma_of_the_source_has_a_page():
    named, pattern = set(), r'lemma"?\]?(?:: str)? ?[=:] "([\w -]+)"'
    for path in Path(skdpspectral.__file__).parent.rglob("*.py"):
        named |= set(" ".join(re.findall(pattern, path.read_text())).split())
    assert len(named) > 15
    theory = Path(__file__).parents[2] / "doc" / "theory"
    proved = "".join(page.read_text() for page in theory.glob("*.rst"))
    assert all(f".. _lemma-{name}:\n" in proved for name in named | OF_COST)


def test_words_of_others_are_no_markup():
    made = statement(
        two_analysts(),
        title="<script>alert(1)</script>",
        curator="שלום \u202e<b>*x*</b>",
        tuning='```json\n{}\n```\n</pre><pre id="record">{}</pre>',
    )
    text = made.to_html()
    page = Page(text)
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert "<b>ann</b> & co" in page.words
    assert "<bdi>نورا</bdi>" in text
    assert "<bdi>שלום \\u202e&lt;b&gt;" in text
    assert "\u202e" not in text


BAD_WORDS = (
    *("- a", "+ a", "1. a", "2) a", "---", "===", "    a", "> a", "# a", "``` a"),
    *("[a](javascript:b)", "![a](b)", "https://a.b", "www.a.b", "a@b.c", "$a$"),
    *("yes", "no", "1e3", "0x1f", "~", "null", "a: b", "a #b", "- a\n- b", "\ta"),
    *("{a}", "[a]", "*a", "!a", "%a", "'a", "---\na: b", "\u2028a", "\x00a\x7f\x85"),
    *("<!--", "]]>", "</style><style>*{}", "\ud800", "\u202ea\u2066", "\U0001f600"),
    *("a\n\n## b", "a\n| b | c |", "</details><b>", '" onload="a', "\U000e0041"),
    *("|a|", "&amp;", "~~~"),
)


@pytest.mark.parametrize("word", BAD_WORDS)
def test_every_word_stays_a_word(word):
    """As many elements as of a harmless word."""
    names = ("title", "curator", "intended_use", "description", "tuning")
    made, plain = (
        statement(PrivacyAccountant(), **dict.fromkeys(names, text))
        for text in (word, "plain")
    )
    text = made.to_html()
    tags = Page(text).tags - {"bdi", "br", "span"}
    assert tags == Page(plain.to_html()).tags - {"span"}
    assert json.loads(made.to_json())["title"] == word
    for c in text:
        assert c.isprintable() or c == "\n", ascii(c)


def test_large_ledgers_have_small_pages():
    accountant = PrivacyAccountant()
    plans = [
        DPPCA(1, epsilon=0.01 + k * 1e-4, center="none").privacy_plan(400, 4)
        for k in range(45)
    ]
    for k, plan in enumerate(plans):
        accountant.named(f"analyst {k}").charge(plan)
    content = statement(accountant).to_dict()
    assert (len(content["entries"]), content["n_groups"]) == (40, 45)
    assert "5 further plans" in statement(accountant).to_html()


def test_what_is_no_promise_is_refused():
    X = np.zeros((20, 3))
    with pytest.raises(TypeError, match="has no privacy_"):
        statement(DPPCA())
    with pytest.raises(TypeError, match="has no privacy_"):
        statement(X)
    search = GridSearchCV(DPPCA(), {"n_components": [1, 2]})
    search.cv_results_ = {}
    plain = make_pipeline(DPStandardScaler(), DPPCA(2)).fit(make_rows())
    for several in (search, plain):
        with pytest.raises(TypeError, match="charged one by one"):
            statement(several)
    ledger = PrivacyAccountant()
    with pytest.raises(ValueError, match="date must have the form"):
        statement(ledger, date="yesterday")
    with pytest.raises(TypeError, match="curator must be a string"):
        statement(ledger, curator=3)
    with pytest.raises(TypeError, match="n_units must be an integer"):
        statement(ledger, n_units="4")
    with pytest.raises(ValueError, match="units_per_person must be at least 1"):
        statement(ledger, units_per_person=0)
    with pytest.raises(ValueError, match="n_units must be at least 1"):
        statement(ledger, n_units=-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-7), (0.0, 1e-7), (800.0, 0.1)])
@pytest.mark.parametrize("k", [2, 3, 20, 10**12, 10**400])
def test_odds_of_a_ledger_with_other_tools_are_those_of_k_steps(epsilon, delta, k):
    """However many rows a person has, a statement takes no time for each."""
    ledger = PrivacyAccountant()
    ledger.charge_external(
        epsilon, delta, "counts", unit="row", neighbors="replace-one"
    )
    said = answers(statement(ledger, units_per_person=k))[SEVERAL]
    assert "assumes that all fits were planned in advance" in said
    if k > 20 or k * epsilon > 13.8:
        assert f"{k:,d} rows: no useful limit." in said
        return
    spent = ledger.spent()
    grown = spent.delta * sum(math.exp(i * spent.epsilon) for i in range(k))
    (found,) = odds(said)
    assert found == pytest.approx((math.exp(k * spent.epsilon), grown), rel=0.01)
