"""`orchestrator report`: the file, the values, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Result, call
from tests.cli.small_ledger import a_ledger


def told(*words: str) -> Result:
    return call(["report", *words], environment={})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    a_ledger(name="run", succeeded=2, failed=1)
    return tmp_path


def test_a_report_is_written_to_a_file_and_that_is_said(here: Path) -> None:
    done = told("run", "--output", "run.html")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("run is written to run.html, ")
    html = (here / "run.html").read_text(encoding="utf-8")
    assert "Over: 2 of 3 succeeded; 1 failed." in html


def test_its_values_are_for_programs_with_or_without_a_file(here: Path) -> None:
    done = told("run", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["name"], found["flow"], len(found["runs"])) == ("run", None, 1)
    assert found["runs"][0]["status"]["verdict"]["standing"] == "partial"
    assert not list(here.glob("*.html"))
    assert json.loads(told("run", "--json", "--output", "run.html").stdout)["name"] == "run"
    assert (here / "run.html").exists()


def test_what_workers_said_is_left_out_by_a_flag_and_by_the_configuration(here: Path) -> None:
    [kind] = json.loads(told("run", "--json").stdout)["runs"][0]["clusters"]
    assert kind["sample"] == "it broke"
    hidden = json.loads(told("run", "--json", "--payloads", "hide").stdout)
    assert (hidden["runs"][0]["clusters"][0]["sample"], hidden["texts_hidden"]) == ("", True)
    (here / "orchestrator.toml").write_text('[dashboard]\npayloads = "hide"\n')
    assert json.loads(told("run", "--json").stdout)["texts_hidden"] is True


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("run",), "name a file for the report with --output"),
        (("rum", "--output", "x.html"), "there is no run or flow called 'rum' here; did you mean 'run'?"),
        (("run", "--output", "none/x.html"), "none does not exist"),
        (("run", "--output", "x.html", "--ledger", "no.db"), "no.db: there is no ledger here"),
        (("run", "--json", "--redact", "email"), "is no part of a payload"),
    ],
)
def test_what_cannot_be_done_is_told_with_what_to_do(words: tuple[str, ...], why: str) -> None:
    done = told(*words)
    assert done.exit_code == 2
    assert why in done.stderr.replace("\n", " ")
