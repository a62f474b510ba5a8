"""Statements on the command line, and how changes of them and of ledgers are found."""

import json
import re
import sqlite3
from pathlib import Path

import pytest
from statement_tools import two_analysts

from skdpspectral import DPPCA, DPAdamClassifier, PrivacyAccountant, statement
from skdpspectral.statements._command import main
from skdpspectral.statements._statement import Statement, facts_in, ledger_facts

# A text that looks like the end of a page, and like a record.
TRICK = 'None.\n</pre><pre id="record">{}</pre> "record": {}'


@pytest.fixture
def ledger(tmp_path):
    path = str(tmp_path / "ledger.db")
    two_analysts(path)
    return path


@pytest.fixture
def make(ledger, tmp_path):
    """Return a maker of statements of the ledger in a file of a format."""

    def made(ending):
        path = str(tmp_path / f"page.{ending}")
        words = {"tuning": TRICK, "date": "2026-01-31", "n_units": 400}
        made = statement(PrivacyAccountant(path=ledger), **words)
        getattr(made, f"to_{ending}")(path)
        return path

    return made


def read(path):
    return Path(path).read_bytes().decode()


def write(path, text):
    Path(path).write_bytes(text.encode())


def verified(capsys, *arguments):
    code = main(["verify", *arguments])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1
    return code, said[0]


@pytest.mark.parametrize("ending", ["html", "json"])
def test_a_statement_is_that_of_its_ledger(make, ledger, ending, capsys):
    path = make(ending)
    confirmed = "Entries 1 to 3 of the ledger confirm the figures."
    beside = (
        "No ledger can confirm: what the curator states (date, n_units, tuning); the "
        "versions of the software."
    )
    code, said = verified(capsys, path, ledger)
    assert (code, said.startswith(confirmed), said.endswith(beside)) == (0, True, True)
    PrivacyAccountant(path=ledger).charge_external(
        0.01, 0.0, "more", unit="row", neighbors="replace-one"
    )
    code, said = verified(capsys, path, ledger)
    assert (code, said) == (0, f"{confirmed} 1 came later. {beside}")


@pytest.mark.parametrize("ending", ["html", "json"])
def test_every_changed_digit_is_found(make, ledger, ending, capsys):
    path = make(ending)
    text = read(path)
    # In a record alone, what no ledger has stands for itself.
    end = text.index('"stated"') if ending == "json" else len(text)
    places = [m.start() for m in re.finditer(r"\d", text[:end])]
    assert len(places) > 250
    for place in places[:: len(places) // 12]:
        digit = str((int(text[place]) + 1) % 10)
        write(path, text[:place] + digit + text[place + 1 :])
        code, said = verified(capsys, path, ledger)
        assert code == 1, text[place - 40 : place + 40]
        assert said


def test_removed_entries_and_other_ledgers_are_found(make, ledger, tmp_path, capsys):
    path = make("html")
    two_analysts(tmp_path / "other.db")
    code, said = verified(capsys, path, str(tmp_path / "other.db"))
    assert (code, "where it must say" in said) == (1, True)
    cut = str(tmp_path / "cut.db")
    PrivacyAccountant(path=ledger).backup(cut)
    with sqlite3.connect(cut) as connection:
        connection.execute("DELETE FROM entries WHERE id = 2")
    code, said = verified(capsys, path, cut)
    assert (code, "entries 2 to 2 are missing" in said) == (1, True)


def test_a_ledger_is_read_as_it_was(tmp_path):
    """Also where mechanisms are no Gaussians."""
    accountant = PrivacyAccountant(6.0, 1e-6, path=tmp_path / "ledger.db")
    small = DPPCA(1, epsilon=0.3, center="none").privacy_plan(400, 4)
    sampled = DPAdamClassifier(classes=[0, 1], epsilon=0.5).privacy_plan(400, 4)
    parts = [accountant.named(name) for name in "ab"]
    made = []
    for handle, plan in zip(
        [accountant, *parts, *parts], [small, sampled] * 3, strict=False
    ):
        made.append(statement(accountant))
        handle.charge(plan)
    assert [s.to_dict()["ledger"]["entries"] for s in made] == [0, 1, 2, 3, 4]
    for before in made:
        n, versions = (
            before.to_dict()["ledger"]["entries"],
            before.to_dict()["versions"],
        )
        again = ledger_facts(accountant, n, stated={}, versions=versions)
        assert Statement(again).to_json() == before.to_json()


def test_bad_calls(ledger, make, tmp_path, capsys):
    path = make("html")
    assert main(["verify", path, str(tmp_path / "none.db")]) == 2
    assert main(["verify", str(tmp_path / "none.html"), ledger]) == 2
    capsys.readouterr()
    for text in ("", "{}", "<html></html>", '<pre id="record">{"entries": 3}</pre>'):
        write(tmp_path / "bad", text)
        code, said = verified(capsys, str(tmp_path / "bad"), ledger)
        assert (code, "or its record is damaged" in said) == (1, True)
    assert main(["check", ledger]) == 0  # the other commands are there too


# -- forgeries: records changed by somebody who has the code, and pages made of them ---


def plan_of(record):
    return record["entries"][0]["plan"]


def set_plan(**values):
    return lambda record: plan_of(record).update(values)


def set_release(**values):
    return lambda record: plan_of(record)["mechanisms"][0].update(values)


def set_fact(**values):
    return lambda record: record.update(values)


def remark(text="Reviewed and approved.", place=0):
    def change(record):
        plan_of(record)["remarks"][place] = text

    return change


def void(record):
    """Make a private one of a statement that says that nothing is."""
    record.update(why_not=None, seeded=False, assumptions=[])


def empty(record):
    record.update(entries=[], n_groups=0)


def fewer(record):
    plan_of(record)["blocks"].pop()


def cheaper(record):
    """Leave out a release, and state what the others cost."""
    plan_of(record)["mechanisms"].pop(0)
    record.update(epsilon=0.1, mu=0.03)


FORGERIES = {
    # Which old statements of the same kind "matched".
    "no releases": ("estimator", empty),
    "remarks removed": ("leak", set_plan(remarks=[], concerns=[])),
    "leak is no leak": ("leak", void),
    "a release is left out": ("estimator", cheaper),
    # Others.
    "seed is secret": ("seeded", set_plan(seeded=False)),
    "a smaller epsilon": ("estimator", set_fact(epsilon=0.1)),
    "less noise": ("estimator", set_release(noise_std=1e3)),
    "no model": ("model", set_plan(assumption="none")),
    "no failure": ("model", set_plan(failure=0.0)),
    "users in the place of rows": ("estimator", set_plan(unit="user")),
    "a client is left out": ("federation", fewer),
    "separate machines": ("federation", set_fact(parties=["separate"])),
    "a larger budget": ("ledger", set_fact(budget=None)),
    "an entry is left out": (
        "ledger",
        lambda record: record.update(entries=record["entries"][:1], n_groups=1),
    ),
    "an earlier digest": ("ledger", lambda record: record["ledger"].update(entries=2)),
    # Of a ledger of the same id, with as many entries, whose digests were made anew.
    "another digest": ("ledger", lambda record: record["ledger"].update(digest="a1")),
    # Of a ledger, which has none, and of a number that is secret.
    "no remark on a model": ("model", remark()),
    "a number of rows of a ledger": ("ledger", set_fact(n_units=10**6)),
    "a number of users": ("users", set_fact(n_units=10**6)),
}


@pytest.fixture(scope="module")
def charged(kinds, tmp_path_factory):
    """Return statements of ledgers by what was fitted, each with its ledger."""
    folder, made = tmp_path_factory.mktemp("forged"), {}
    for name in ("estimator", "model", "seeded", "federation", "leak", "users"):
        accountant = PrivacyAccountant(path=folder / f"{name}.db")
        accountant.charge(kinds[name].privacy_)
        made[name] = statement(accountant), accountant.path
    path = str(folder / "other.db")
    return {**made, "ledger": (statement(two_analysts(path)), path)}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("ending", ["html", "json"])
def test_forgeries_are_found(charged, name, ending, tmp_path, capsys):
    """Also where the forger lets this package make a page of a changed record."""
    kind, change = FORGERIES[name]
    made, path = charged[kind]
    page = tmp_path / f"page.{ending}"
    to_text = {"html": Statement.to_html, "json": Statement.to_json}[ending]
    write(page, to_text(made))
    code, said = verified(capsys, str(page), path)
    assert code == 0, said
    record = made.to_dict()
    change(record)
    try:
        write(page, to_text(Statement(facts_in(record))))
    except (LookupError, TypeError, ValueError):  # no page can be made of it
        write(page, json.dumps(record, indent=1) + "\n")
    code, said = verified(capsys, str(page), path)
    assert code == 1, said
