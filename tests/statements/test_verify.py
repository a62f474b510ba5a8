"""Statements on the command line, and how changes of them and of ledgers are found."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.preprocessing import StandardScaler
from statement_tools import make_rows, two_analysts

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    FederatedDPPCA,
    PrivacyAccountant,
    statement,
)
from skdpspectral.pipeline import make_private_pipeline
from skdpspectral.statements._command import main
from skdpspectral.statements._facts import facts_in, ledger_facts
from skdpspectral.statements._statement import Statement

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


@pytest.mark.slow
def test_a_ledger_without_the_last_entries_is_found(ledger, make, tmp_path):
    shutil.copy(ledger, tmp_path / "older.db")
    PrivacyAccountant(path=ledger).charge_external(
        0.01, 0.0, "more", unit="row", neighbors="replace-one"
    )
    # In a process that has not seen the newer one: this one refuses the older.
    command = [sys.executable, "-m", "skdpspectral.statements._command", "verify"]
    ran = subprocess.run(
        [*command, make("json"), str(tmp_path / "older.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    said = "the statement has 4 entries, and the ledger 3\n"
    assert (ran.returncode, ran.stdout) == (1, said), ran.stderr


def test_statements_of_fits_are_looked_up(tmp_path, kinds, capsys):
    path, page = str(tmp_path / "fits.db"), str(tmp_path / "page.html")
    accountant = PrivacyAccountant(path=path)
    for number, name in enumerate(("estimator", "seeded", "stream", "search"), 1):
        accountant.charge(kinds[name].privacy_)
        statement(kinds[name]).to_html(page)
        code, said = verified(capsys, page, path)
        assert (code, said.split(".")[0]) == (
            0,
            f"Entry {number} of the ledger confirms the figures",
        )
        assert "No ledger can confirm: the versions of the software" in said
    statement(kinds["federation"]).to_html(page)
    code, said = verified(capsys, page, path)
    assert (code, "no entry of FederatedDPPCA" in said) == (1, True)
    FederatedDPPCA(1, accountant=accountant).fit(
        [[0.0, 1.0, 2.0, 3.0]] * 400, clients=["north"] * 200 + ["east"] * 200
    )
    assert verified(capsys, page, path)[0] == 0
    write(page, read(page).replace("2 clients", "3 clients"))
    assert verified(capsys, page, path)[0] == 1


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


def test_the_command_is_the_one_that_is_installed():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    named = re.search(r'^skdpspectral-ledger = "(.*)"$', project, re.M)
    assert named[1] == f"{main.__module__}:main"


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
    "no releases of a ledger": ("ledger", empty),
    "remarks removed": ("leak", set_plan(remarks=[], concerns=[])),
    "leak is no leak": ("leak", void),
    "leak has another sentence": ("leak", remark()),
    "leak is a remark on nothing": ("leak", set_plan(concerns=["other"] * 2)),
    "a release is left out": ("estimator", cheaper),
    "two plans in the place of one": (
        "estimator",
        lambda record: record.update(entries=record["entries"] * 2),
    ),
    # Others.
    "seed is secret": ("seeded", set_plan(seeded=False)),
    "seeded is private": ("seeded", void),
    "a smaller epsilon": ("estimator", set_fact(epsilon=0.1)),
    "a better guess": ("estimator", set_fact(distance=0.001)),
    "less noise": ("estimator", set_release(noise_std=1e3)),
    "another lemma": ("estimator", set_release(lemma="grid")),
    "no model": ("model", set_plan(assumption="none")),
    "no remark on a model": ("model", remark()),
    "no failure": ("model", set_plan(failure=0.0)),
    "users in the place of rows": ("estimator", set_plan(unit="user")),
    "a client is left out": ("federation", fewer),
    "separate machines": ("federation", set_fact(parties=["separate"])),
    "a search that was none": ("search", set_fact(kind="estimator")),
    "a larger budget": ("ledger", set_fact(budget=None)),
    "an entry is left out": (
        "ledger",
        lambda record: record.update(entries=record["entries"][:1], n_groups=1),
    ),
    "no other tool": ("ledger", set_fact(kinds=["gaussian"])),
    "an earlier digest": ("ledger", lambda record: record["ledger"].update(entries=2)),
    # Of a ledger of the same id, with as many entries, whose digests were made anew.
    "another digest": ("ledger", lambda record: record["ledger"].update(digest="a1")),
    "another name": ("ledger", set_fact(name="Audited")),
    "a ledger of a pipeline": ("ledger", set_fact(kind="pipeline")),
    # Of a ledger, which has none, of a number that is secret, and of nobody.
    "a number of rows of a ledger": ("ledger", set_fact(n_units=10**6)),
    "a number of users": ("users", set_fact(n_units=10**6)),
    "a number of rows below 1": ("estimator", set_fact(n_units=-5)),
}


@pytest.fixture(scope="module")
def charged(kinds, tmp_path_factory):
    """Return statements of fits and of a ledger by name, each with its ledger."""
    folder = tmp_path_factory.mktemp("forged")
    path, other = str(folder / "fits.db"), str(folder / "other.db")
    accountant = PrivacyAccountant(path=path)
    leaky = make_private_pipeline(
        StandardScaler(), DPPCA(2), on_leak="warn", accountant=accountant
    )
    with pytest.warns(UserWarning, match="leak"):
        leaky.fit(make_rows())
    made = {"leak": (statement(leaky), path)}
    for name in ("estimator", "model", "seeded", "federation", "search"):
        accountant.charge(kinds[name].privacy_)
        made[name] = statement(kinds[name]), path
    of_users = str(folder / "users.db")
    PrivacyAccountant(path=of_users).charge(kinds["users"].privacy_)
    made["users"] = statement(kinds["users"]), of_users
    return {**made, "ledger": (statement(two_analysts(other)), other)}


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


def test_what_no_ledger_has_is_never_confirmed(charged, tmp_path, capsys):
    """Sentences and numbers that a forger may add are named, one by one."""
    made, path = charged["estimator"]
    record = made.to_dict()
    plan_of(record)["remarks"].append("Reviewed and approved.")
    plan_of(record)["concerns"].append("trust")
    record["stated"]["tuning"], record["n_units"] = "Nothing.", 10**6
    page = tmp_path / "page.json"
    write(page, Statement(facts_in(record)).to_json())
    code, said = verified(capsys, str(page), path)
    assert code == 0
    _, found, beside = said.partition("No ledger can confirm: ")
    assert found
    for what in (
        "what the curator states (tuning)",
        "the versions of the software",
        "the number of rows",
        "the remark 'Reviewed and approved.'",
    ):
        assert what in beside


def test_tricks_with_texts_are_found(make, ledger, capsys):
    """Lines that are empty, marks that are not seen, and keys that stand twice."""
    for ending in ("html", "json"):
        path = make(ending)
        text = read(path)
        once = '"kind": "ledger"'
        quoted = once if ending != "html" else once.replace('"', "&quot;")
        assert quoted in text
        for changed in (
            text + "\n",
            text[:-1],
            "\ufeff" + text,
            text.replace("\n", "\r\n"),
            text.replace("spent", "sp\u0435nt", 1),
            text.replace("Privacy", "Priv\u200bacy", 1),
            text.replace(quoted, f"{quoted}, {quoted}"),
            text.replace("</main>", "<p>And epsilon = 1.</p></main>") + " ",
        ):
            write(path, changed)
            code, said = verified(capsys, path, ledger)
            assert code == 1 or changed == text, said
        Path(path).unlink()


def test_files_that_are_no_statements(make, ledger, tmp_path, capsys):
    bad = tmp_path / "bad"
    good = json.loads(Path(make("json")).read_text())
    record = json.dumps({**good, "stated": "x"})
    negative = json.dumps({**good, "ledger": {**good["ledger"], "entries": -1}})
    huge = json.dumps({**good, "ledger": {**good["ledger"], "entries": 1e300}})
    deep, yaml = "[" * 10**5, Path(make("registry")).read_text()
    for text in (deep, record, negative, huge, '{"record": []}', yaml):
        bad.write_text(text)
        capsys.readouterr()
        assert main(["verify", str(bad), ledger]) in (1, 2)
        said = capsys.readouterr()
        assert len((said.out + said.err).splitlines()) == 1
    bad.write_bytes(bytes(range(256)))
    assert main(["verify", str(bad), ledger]) == 2
    assert main(["verify", str(tmp_path), ledger]) == 2
    assert main(["verify", make("html"), str(bad)]) == 2


@pytest.mark.parametrize("number", [0, -5, 0.5, True, "2", [1]])
@pytest.mark.parametrize("name", ["units_per_person", "n_units"])
def test_a_number_that_no_curator_can_state_is_refused(ledger, number, name):
    """Odds of fewer than one row would be a promise that nobody has made."""
    accountant = PrivacyAccountant(path=ledger)
    record = statement(accountant, units_per_person=3).to_dict()
    record["stated"][name] = number
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        Statement(facts_in(record))
