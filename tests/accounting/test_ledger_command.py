"""``skdpspectral-ledger`` on the command line."""

import pytest
from ledger_tools import fit_plan

from skdpspectral import PrivacyAccountant, mechanisms
from skdpspectral.statements._command import main

ROWS = {"unit": "row", "neighbors": "replace-one"}


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with a fit, a labeled fit, and external spending."""
    file = tmp_path / "ledger.db"
    accountant = PrivacyAccountant(4.0, 1e-6, path=file)
    accountant.charge(fit_plan())
    accountant.named("north").charge(fit_plan(0.5))
    accountant.charge_external(0.25, 1e-8, "counts", **ROWS)
    return str(file)


def test_show(path, capsys):
    assert main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert str(PrivacyAccountant(path=path)) in shown
    assert shown.count("\nEntry ") == 3
    assert shown.count("differentially private") >= 3
    assert " UTC for 'north': " in shown


@pytest.mark.parametrize("kind", ["Gaussian", "ApproximateDP"])
def test_kinds_of_other_releases_are_listed(path, capsys, monkeypatch, kind):
    known = getattr(mechanisms, kind).kind
    monkeypatch.delitem(mechanisms.Mechanism.kinds, known)
    assert main(["show", path]) == 1
    shown = capsys.readouterr().out
    assert shown.count("\nEntry ") == 3
    assert f"knows no mechanism {known!r}" in shown
    cost = "for 'north': DPPCA has cost epsilon=0.5, delta=1e-06 per row (replace-one)"
    assert (cost in shown) == (kind == "Gaussian")


def test_names_do_not_control_a_terminal(path, capsys):
    """Neither by escapes nor by lines that look like entries, to the left or not."""
    bad = "x\x1b[2J\x9b1;1H\rEntry 1\nEntry 9, charged \u202ereven\x7f"
    accountant = PrivacyAccountant(path=path)
    accountant.charge_external(0.1, 0.0, bad, **ROWS)
    accountant.named(bad).charge(fit_plan(0.1))
    for command in ("show", "check"):
        assert main([command, path]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == (6 if command == "show" else 1)
        assert all(line.isprintable() for line in lines)
        if command == "show":
            assert r"x\x1b[2J\x9b1;1H\rEntry 1\nEntry 9" in "".join(lines)
    main(["show", f"{path}\x1b[2J\n"])
    assert capsys.readouterr().err.strip().isprintable()


def test_backup(path, tmp_path, capsys):
    assert main(["backup", path, str(tmp_path / "copy.db")]) == 0
    copy = PrivacyAccountant(path=tmp_path / "copy.db")
    assert copy.ledger == PrivacyAccountant(path=path).ledger
    assert main(["backup", path, str(tmp_path / "copy.db")]) == 2
    assert "choose another name" in capsys.readouterr().err


def test_bad_calls_make_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command, place, message in (
        ("show", "nowhere.db", "there is no ledger"),
        ("check", ".", "there is no ledger"),
        ("show", "mysql://me:secret@host/db", "must be a file"),
    ):
        assert main([command, place]) == 2
        error = capsys.readouterr().err
        assert error.startswith("skdpspectral-ledger: ")
        assert message in error
        assert "secret" not in error
    for arguments in ([], ["show"], ["spend", "ledger.db"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "usage: skdpspectral-ledger" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
