"""Statements on the command line, and how changes of them and of ledgers are found."""

import inspect
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from statement_tools import two_analysts

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    FederatedDPPCA,
    PrivacyAccountant,
    statement,
)
from skdpspectral.statements._command import _HELP, main
from skdpspectral.statements._statement import made_of

# A text that looks like the end of a page, and like a record.
TRICK = 'None.\n```\n```json\n{}\n```\n</pre><pre id="record">{}</pre> "record": {}'


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
        words = ["--tuning", TRICK, "--date", "2026-01-31"]
        assert main(["statement", ledger, "-o", path, *words, "--n-units", "400"]) == 0
        return path

    return made


def verified(capsys, *arguments):
    code = main(["verify", *arguments])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1
    return code, said[0]


def test_every_option_says_what_to_pass(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["statement", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "as stated" not in said.replace("shown as not stated", "")
    parameters = set(inspect.signature(statement).parameters)
    assert parameters - set(_HELP) == {"of", "audit", "registry"}
    for name, what in _HELP.items():
        assert f"--{name.replace('_', '-')} " in said
        assert what in said
        assert len(what.split()) >= 5


@pytest.mark.parametrize("ending", ["html", "json", "md"])
def test_a_statement_is_that_of_its_ledger(make, ledger, ending, capsys):
    path = make(ending)
    assert verified(capsys, path, ledger) == (0, "The statement matches the ledger.")
    PrivacyAccountant(path=ledger).charge_external(
        0.01, 0.0, "more", unit="row", neighbors="replace-one"
    )
    code, said = verified(capsys, path, ledger)
    assert (code, said.endswith("first 3 entries: 1 came later.")) == (0, True)


@pytest.mark.parametrize("ending", ["html", "json", "md"])
def test_every_changed_digit_is_found(make, ledger, ending, capsys):
    path = make(ending)
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    places = [m.start() for m in re.finditer(r"\d", text)]
    assert len(places) > 300
    for place in places[:: len(places) // 12]:
        digit = str((int(text[place]) + 1) % 10)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text[:place] + digit + text[place + 1 :])
        code, said = verified(capsys, path, ledger)
        assert code == 1, text[place - 40 : place + 40]
        assert said


def test_a_changed_figure_is_named(make, ledger, capsys):
    path = make("md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("of 4 at delta=1e-06", "of 3 at delta=1e-06"))
    code, said = verified(capsys, path, ledger)
    assert code == 1
    assert "of 3 at" in said
    assert "of 4 at" in said


def test_removed_entries_and_other_ledgers_are_found(make, ledger, tmp_path, capsys):
    path = make("html")
    two_analysts(tmp_path / "other.db")
    code, said = verified(capsys, path, str(tmp_path / "other.db"))
    assert (code, "is of a different ledger" in said) == (1, True)
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


def test_a_rewritten_ledger_is_found(make, ledger, tmp_path, capsys):
    """Of the same id and as many entries, with digests that are computed anew."""
    path = make("json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    digest = content["ledger"]["digest"]
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(content).replace(digest, digest[::-1]))
    code, said = verified(capsys, path, ledger)
    assert code == 1
    assert said == "entries 1 to 3 of the ledger do not match the statement"


def test_statements_of_fits_are_looked_up(tmp_path, kinds, capsys):
    path, page = str(tmp_path / "fits.db"), str(tmp_path / "page.html")
    accountant = PrivacyAccountant(path=path)
    accountant.charge(kinds["estimator"].privacy_)
    statement(kinds["estimator"]).to_html(page)
    assert verified(capsys, page, path)[0] == 0
    statement(kinds["federation"]).to_html(page)
    code, said = verified(capsys, page, path)
    assert (code, "no entry of FederatedDPPCA of 'north'" in said) == (1, True)
    FederatedDPPCA(1, accountant=accountant).fit(
        [[0.0, 1.0, 2.0, 3.0]] * 400, clients=["north"] * 200 + ["east"] * 200
    )
    assert verified(capsys, page, path)[0] == 0
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with open(page, "w", encoding="utf-8") as file:
        file.write(text.replace("2 clients", "3 clients"))
    assert verified(capsys, page, path)[0] == 1


def test_a_ledger_is_read_as_it_was(tmp_path):
    """Also where mechanisms are no Gaussians, and blocks cost the dearest."""
    accountant = PrivacyAccountant(6.0, 1e-6, path=tmp_path / "ledger.db")
    small = DPPCA(1, epsilon=0.3, center="none").privacy_plan(400, 4)
    sampled = DPAdamClassifier(classes=[0, 1], epsilon=0.5).privacy_plan(400, 4)
    parts = [accountant.named(name, disjoint_within="half") for name in "ab"]
    made = []
    for handle, plan in zip(
        [accountant, *parts, *parts], [small, sampled] * 3, strict=False
    ):
        made.append(statement(accountant))
        handle.charge(plan)
    assert [s.to_dict()["ledger"]["entries"] for s in made] == [0, 1, 2, 3, 4]
    for before in made:
        again = made_of(before.to_dict()["record"], accountant)
        assert again.to_json() == before.to_json()


def test_bad_calls(ledger, make, tmp_path, capsys):
    path = make("html")
    assert main(["statement", ledger, "-o", str(tmp_path / "page.pdf")]) == 2
    assert "--output must end with" in capsys.readouterr().err
    assert main(["statement", ledger, "-o", path]) == 2  # nothing is replaced
    assert main(["verify", path, str(tmp_path / "none.db")]) == 2
    assert main(["verify", str(tmp_path / "none.html"), ledger]) == 2
    for text in ("", "{}", "<html></html>", '<pre id="record">{"plans": 3}</pre>'):
        (tmp_path / "bad").write_text(text)
        capsys.readouterr()
        code, said = verified(capsys, str(tmp_path / "bad"), ledger)
        assert (code, "or its record is damaged" in said) == (1, True)
    assert main(["check", ledger]) == 0  # the other commands are there too


def test_the_command_is_the_one_that_is_installed():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    named = re.search(r'^skdpspectral-ledger = "(.*)"$', project, re.M)
    assert named[1] == f"{main.__module__}:main"


def forged(text, change):
    """Return a statement of a changed record, as a forger who has the code makes it."""
    record = json.loads(text)["record"]
    change(record)
    return made_of(record, None).to_json()


def test_records_of_fits_are_those_of_their_entries(tmp_path, kinds, capsys):
    """A whole plan is compared, and each fit has an entry of its own."""
    path, page = str(tmp_path / "fits.db"), tmp_path / "page.json"
    accountant = PrivacyAccountant(path=path)
    for name in ("estimator", "seeded", "pipeline"):
        accountant.charge(kinds[name].privacy_)
        text = statement(kinds[name]).to_json(page)
        assert verified(capsys, str(page), path)[0] == 0

    def secret(record):
        record["plans"][0][1]["seeded"] = False
        record["report"] = None

    def quieter(record):
        record["plans"][0][1]["mechanisms"][0]["noise_std"] *= 1.5

    def twice(record):
        record["plans"] *= 2

    seeded, fit = (statement(kinds[name]).to_json() for name in ("seeded", "estimator"))
    for text, change in ((seeded, secret), (fit, quieter), (fit, twice)):
        page.write_text(forged(text, change))
        code, said = verified(capsys, str(page), path)
        assert (code, "no entry of DPPCA" in said) == (1, True), change


def test_records_of_ledgers_are_those_of_ledgers(ledger, make, capsys):
    path = make("json")
    with open(path, encoding="utf-8") as file:
        record = json.load(file)["record"]
    changes = {"kind": "pipeline", "name": "Audited", "n_units": 7, "report": []}
    for name, value in changes.items():
        made = made_of({**record, name: value}, PrivacyAccountant(path=ledger))
        made.to_json(path)
        code, said = verified(capsys, path, ledger)
        assert (code, f"record's {name}" in said) == (1, True)


def test_tricks_with_texts_are_found(make, ledger, capsys):
    """Lines that are empty, marks that are not seen, and keys that stand twice."""
    for ending in ("html", "json", "md"):
        path = make(ending)
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
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
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(changed)
            code, said = verified(capsys, path, ledger)
            assert (code, bool(said)) == (1, True), changed[:60]
        Path(path).unlink()


def test_files_that_are_no_statements(make, ledger, tmp_path, capsys):
    bad = tmp_path / "bad"
    record = '{"record": {"ledger": null, "plans": [], "stated": "x", "audit": 1}}'
    negative = record.replace("null", '{"entries": -1, "id": "", "digest": ""}')
    deep, yaml = "[" * 10**5, Path(make("yaml")).read_text()
    for text in (deep, record, negative, '{"record": []}', yaml, "```json\n" * 10**5):
        bad.write_text(text)
        capsys.readouterr()
        assert main(["verify", str(bad), ledger]) in (1, 2)
        said = capsys.readouterr()
        assert len((said.out + said.err).splitlines()) == 1
    bad.write_bytes(bytes(range(256)))
    assert main(["verify", str(bad), ledger]) == 2
    assert main(["verify", str(tmp_path), ledger]) == 2
    assert main(["verify", make("html"), str(bad)]) == 2


def test_an_empty_ledger_says_nothing_of_units(tmp_path, capsys):
    """The first entry fixes them, and statements from before it stay true."""
    page, path = str(tmp_path / "page.html"), tmp_path / "ledger.db"
    accountant = PrivacyAccountant(2.0, 1e-6, path=path)
    made = statement(accountant)
    assert made.to_dict()["guarantee"]["unit"] is None
    made.to_html(page)
    accountant.charge_external(0.1, 0.0, "x", unit="user", neighbors="add-remove-one")
    assert verified(capsys, page, str(path))[0] == 0


@pytest.mark.parametrize("number", [0, -5, 0.5, True, "2", [1]])
@pytest.mark.parametrize("name", ["units_per_person", "n_units"])
def test_a_number_that_no_curator_can_state_is_refused(ledger, number, name):
    """Odds of fewer than one row would be a promise that nobody has made."""
    accountant = PrivacyAccountant(path=ledger)
    record = statement(accountant, units_per_person=3).to_dict()["record"]
    record["stated"][name] = number
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        made_of(record, accountant)
