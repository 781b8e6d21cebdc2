"""Profiles of several accounts in the configuration file: which key and which addresses a command has."""

from typing import Any

import pytest

from orchestrator.account import Account
from orchestrator.cli.access import Access, Interface
from orchestrator.cli.account.pods import add_pods
from orchestrator.errors import UsageError
from orchestrator.settings import SERVERLESS_URL_DEFAULT
from tests.cli.command_line import call_only
from tests.cli.fake_api import LOCAL, FakeApp, invoke
from tests.cli.test_config import write
from tests.cli.test_request import asked, refused

TWO = """
team = "nobody"
[profile.work]
key = "env:WORK_KEY"
serverless-url = "https://work.example"
base-url = "https://pods.work.example"
team = "red"

[profile.home]
key = "env:HOME_KEY"
"""
KEYS = {"WORK_KEY": "key-of-work", "HOME_KEY": "key-of-home", "ORCHESTRATOR_API_KEY": "key-of-nobody"}
RUN = ("run", "i.jsonl", "--endpoint", "abc123")


def whose(request: Any) -> tuple[str, str]:
    return request.connection.serverless_url, request.connection.api_key


def test_a_profile_brings_its_own_key_and_addresses_over_all_but_flags() -> None:
    write(TWO)
    url = {"ORCHESTRATOR_SERVERLESS_URL": "https://variable.example"}
    assert whose(asked("--endpoint", "abc123", **KEYS)) == (SERVERLESS_URL_DEFAULT, "key-of-nobody")
    work = asked("--endpoint", "abc123", "--profile", "work", **KEYS, **url)
    assert whose(work) == ("https://work.example#work", "key-of-work")
    by_variable = asked("--endpoint", "abc123", **KEYS, ORCHESTRATOR_PROFILE="home")
    assert whose(by_variable) == (f"{SERVERLESS_URL_DEFAULT}#home", "key-of-home")
    by_flag = asked("--endpoint", "abc123", "--profile", "work", "--serverless-url", "http://127.0.0.1:1", **KEYS)
    assert whose(by_flag) == ("http://127.0.0.1:1#work", "key-of-work")


@pytest.mark.parametrize(
    "words", [("resume", "in"), ("serve",), ("doctor", *RUN[2:]), ("runs", "tidy"), ("plan", *RUN[1:])]
)
def test_every_command_that_sends_takes_a_profile(words: tuple[str, ...]) -> None:
    write(TWO)
    app = FakeApp()
    invoke(app, *words, "--profile", "home", **KEYS)
    request: Any = [*app.requests, *(each[0] for each in app.asked)][0]
    assert whose(getattr(request, "run", request)) == (f"{SERVERLESS_URL_DEFAULT}#home", "key-of-home")


def test_the_commands_of_an_account_take_it_too() -> None:
    write(TWO)
    seen: list[Access] = []

    def connect(access: Access) -> Account:
        seen.append(access)
        raise UsageError("that is enough")

    for profile in ("work", "home"):
        call_only([add_pods], connect, ["pods", "list", "--profile", profile], environment=KEYS)
    assert [(access.key, access.urls[Interface.PODS], access.team) for access in seen] == [
        ("key-of-work", "https://pods.work.example", "red"),
        ("key-of-home", "https://api.runpod.io", "nobody"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--profile: orchestrator.toml has no [profile.work]; there is none"),
        ('[profile.worx]\nkey = "env:A"', "--profile: orchestrator.toml has no [profile.work]; did you mean worx?"),
        ('[profile.x]\nkey = "env:A"', "--profile: orchestrator.toml has no [profile.work]; there is x"),
        ("[profile.work]\n", '[profile.work] of orchestrator.toml: its key is missing; write key = "env:NAME"'),
        (
            '[profile.work]\nkey = "rpa_secret"',
            "key in [profile.work] of orchestrator.toml: write env:NAME, where NAME",
        ),
        (
            '[profile.work]\nkey = "env:A"\nledger = "x"',
            '[profile.work] of orchestrator.toml: there is no key "ledger"',
        ),
        ('[profile.work]\napi-key = "rpa_secret"', "api-key cannot be set here; keep the key out of files"),
        ('[profile.work]\nkey = "env:NOT_SET"', "the profile work has its API key in NOT_SET; set it: export NOT_SET"),
        ('profile = "work"', "profile has a table for each account, as in [profile.work]"),
        ('[profile]\nwork = "x"', "profile has a table for each account, as in [profile.work]"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said_with_its_place_and_without_its_key(text: str, said: str) -> None:
    write(text)
    message = refused(*RUN, "--profile", "work", ORCHESTRATOR_API_KEY="key-of-nobody")
    assert said in message
    assert "rpa_secret" not in message


def test_a_function_of_ones_own_needs_no_account() -> None:
    write(TWO)
    assert asked("--endpoint", LOCAL, ORCHESTRATOR_PROFILE="work").connection.api_key == ""
