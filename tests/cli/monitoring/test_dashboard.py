"""`orchestrator dashboard link` and `key`; what `dashboard` itself serves is tested where that is made."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.framework.dashboard_child import ENDS_WITH_INPUT
from orchestrator.cli.monitoring.dashboard import unreachable
from orchestrator.clock import SystemClock
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Tokens
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARD_FLAGS, DASHBOARDS
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import choose
from orchestrator.settings.value_types import Kind
from tests.cli.command_line import call
from tests.engine.rows import empty_ledger

AT = "http://127.0.0.1:8901"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return empty_ledger(tmp_path / "ledger.db")


def test_a_link_is_data_on_standard_output_and_signs_in_whom_it_says(ledger: Path) -> None:
    folder = KeyFolder(ledger)
    folder.note_address(AT)
    found = call(["dashboard", "link", "--viewer", "--name", "ana", "--ledger", str(ledger)], environment={})
    assert found.exit_code == 0
    assert found.stdout.startswith(f"{AT}/login?link=")
    assert "signs in ana, who looks on" in found.stderr
    token = found.stdout.strip().partition("link=")[2]
    person = Tokens(folder.key(), SystemClock()).person_of_link(token)
    assert person is not None
    assert (person.name, person.may_act) == ("ana", False)
    assert folder.use_link(token)


def test_a_link_as_json_leads_where_it_is_told_to(ledger: Path) -> None:
    words = ["dashboard", "link", "--json", "--url", "https://x.example/jobs", "--ledger", str(ledger)]
    found = json.loads(call(words, environment={}).stdout)
    assert found["link"].startswith("https://x.example/jobs/login?link=")
    assert (found["may_act"], found["until_iso"][-1]) == (True, "Z")


def test_there_is_no_link_to_where_nothing_was_served(ledger: Path) -> None:
    found = call(["dashboard", "link", "--ledger", str(ledger)], environment={})
    assert found.exit_code == 2
    assert "no dashboard of" in found.stderr


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\nb"])
def test_a_name_can_be_shown(ledger: Path, name: str) -> None:
    assert call(["dashboard", "link", "--name", name, "--ledger", str(ledger)], environment={}).exit_code == 2


def test_it_says_whom_it_cannot_tell_that_nobody_works_and_why() -> None:
    targets = {
        "ops": NotifyTarget(kind=TargetKind.SLACK, url="env:OPS"),
        "mail": NotifyTarget(kind=TargetKind.EMAIL, server="s.example", sender="a@b", to=("a@b",), user="a", password="env:MAIL"),
        "quiet": NotifyTarget(kind=TargetKind.SLACK, url="env:QUIET", on=("failed",)),
        "pager": NotifyTarget(kind=TargetKind.COMMAND, command=("page",)),
    }  # fmt: skip
    assert unreachable(targets, {"OPS": "https://x.example/", "MAIL": "p"}) is None
    assert unreachable(targets, {"OPS": "https://x.example/"}) == (
        "it cannot tell mail that results expire while nobody works: MAIL is not set in the environment of this process"
    )
    child = unreachable(targets, {ENDS_WITH_INPUT: "1"})
    assert child is not None
    assert "cannot tell ops, mail that" in child
    assert child.endswith("one that can is begun by itself: orchestrator dashboard")


def test_the_key_of_programs_is_that_of_this_ledger(ledger: Path) -> None:
    found = call(["dashboard", "key", "--ledger", str(ledger)], environment={}).stdout.strip()
    assert Tokens(KeyFolder(ledger).key(), SystemClock()).is_program_key(found)


@pytest.mark.parametrize(
    "words",
    [
        ["--no-login", "--listen", "0.0.0.0:8901"],
        ["--user-header", "X-Remote-User"],
        ["--proxy", "somewhere"],
        ["--redact", "email"],
        ["--listen", "here"],
        ["--trace", "0"],
        ["--trace", "1.5"],
        ["--trace", "some"],
    ],
)
def test_what_cannot_be_served_is_refused_by_its_flag(ledger: Path, words: list[str]) -> None:
    found = call(["dashboard", *words, "--ledger", str(ledger)], environment={})
    assert found.exit_code == 2
    assert words[0] in found.stderr


VALUES = {
    "listen": "127.0.0.1:9000",
    "url": AT,
    "user-header": "X-User",
    "proxy": "10.0.0.9",
    "operator": "ana",
    "payloads": "hide",
    "redact": "input.email",
    "trace": "0.01",
}


@pytest.mark.parametrize("setting", DASHBOARD_FLAGS, ids=str)
def test_each_setting_is_the_same_by_flag_variable_and_file(setting: Setting[object], tmp_path: Path) -> None:
    text = VALUES.get(setting.key, "true")
    file = tmp_path / "orchestrator.toml"
    is_bare = text == "true" or setting.value_type.kind is Kind.NUMBER
    file.write_text(f"[dashboard]\n{setting.key} = {text if is_bare else json.dumps(text)}\n")
    given = [text] if setting.key in ("proxy", "operator", "redact") else text
    found = [
        choose({setting.key.replace("-", "_"): given}, {}, DASHBOARDS)[setting],
        choose({}, {DASHBOARDS.variable(setting): text}, DASHBOARDS)[setting],
        choose({"config": str(file)}, {}, DASHBOARDS)[setting],
    ]
    assert found[0] is not None
    assert found[0] == found[1] == found[2]
