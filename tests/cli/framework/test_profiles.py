"""Profiles of several accounts in the configuration file: which key and which addresses a command has."""

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.account import Account
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.cli.framework.flags_to_requests import doctor_request, serve_request
from orchestrator.cli.framework.service_access import Access, Interface
from orchestrator.cli.help.command_screens import split_examples
from orchestrator.core.service.profiles import profile_of
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.settings.words_and_defaults import REST_URL_DEFAULT, SERVERLESS_URL_DEFAULT
from tests.cli.command_line import LOCAL, Asked, call, requested
from tests.cli.framework.test_request import asked, refused
from tests.cli.help.test_command_screens import COMMANDS
from tests.cli.test_config import write

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


def test_addresses_that_a_profile_does_not_say_are_no_variables() -> None:
    """Those are of another account, or of an emulator, and would get this one's key."""
    write(TWO)
    variables = dict.fromkeys(("ORCHESTRATOR_SERVERLESS_URL", "ORCHESTRATOR_REST_URL"), "https://other.example")
    home = asked("--endpoint", "abc123", "--profile", "home", **KEYS, **variables)
    assert whose(home) == (f"{SERVERLESS_URL_DEFAULT}#home", "key-of-home")
    assert home.connection.rest_url == REST_URL_DEFAULT
    nobody = asked("--endpoint", "abc123", **KEYS, **variables)
    assert (*whose(nobody), nobody.connection.rest_url) == (
        *("https://other.example", "key-of-nobody"),
        "https://other.example",
    )


@pytest.mark.parametrize(
    "words",
    [
        *(("resume", "in"), ("serve",), ("doctor", *RUN[2:]), ("runs", "tidy"), ("plan", *RUN[1:])),
        *(("tick",), ("trigger", "captions", "--wait"), RUN),
    ],
)
@pytest.mark.parametrize("profile", ["work", "home"])
def test_every_command_that_sends_takes_a_profile(words: tuple[str, ...], profile: str) -> None:
    write(TWO)
    by_variable = {"ORCHESTRATOR_PROFILE": profile}
    for given, variables in (((f"--profile={profile}",), KEYS), ((), KEYS | by_variable)):
        found = requested(*words, *given, **variables)
        if isinstance(found, Asked):
            made = (
                doctor_request(None, found.choices, variables)
                if words[0] == "doctor"
                else serve_request(found.choices, variables)
            )
            found = made
        request: Any = getattr(found, "run", found)
        assert profile_of(request.connection.serverless_url) == profile
        assert request.connection.api_key == KEYS[f"{profile.upper()}_KEY"]


ELSEWHERE = """
[profile.NAME]
key = "env:NAME_KEY"
rest-url = "https://NAME.example"
base-url = "https://NAME.example"
serverless-url = "https://NAME.example"
graphql-url = "https://NAME.example"
"""
OF_ACCOUNT = [
    example.removeprefix("orchestrator ")
    for path, command in COMMANDS.items()
    if path.split()[0] in ("api", "pods", "endpoints", "templates", "secrets")
    for example in split_examples(command.help)[1]
]


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["work", "home"])
def test_no_command_of_an_account_has_a_key_or_an_address_of_another(profile: str) -> None:
    write("".join(ELSEWHERE.replace("NAME", name) for name in ("work", "home")))
    seen: list[Access] = []

    def connect(access: Access) -> Account:
        seen.append(access)
        raise UsageError("that is enough")

    variables = {"work_KEY": "key-of-work", "home_KEY": "key-of-home", "ORCHESTRATOR_API_KEY": "key-of-nobody"}
    variables |= {"HF_TOKEN": "hf", "ORCHESTRATOR_BASE_URL": "https://other.example"}
    for example in OF_ACCOUNT:
        words = ["{}" if word.endswith(".json") else word for word in shlex.split(example)]
        calling = partial(call, connect=connect)
        flag = calling([*words, "--profile", profile], environment=variables)
        variable = calling(words, environment={**variables, "ORCHESTRATOR_PROFILE": profile})
        assert "that is enough" in flag.stderr, (example, flag.stderr)
        assert "that is enough" in variable.stderr, (example, variable.stderr)
    assert {access.key for access in seen} == {f"key-of-{profile}"}
    assert {url for access in seen for url in access.urls.values()} == {f"https://{profile}.example"}


def test_the_commands_of_an_account_take_what_the_file_says_of_all() -> None:
    write(TWO)
    seen: list[Access] = []

    def connect(access: Access) -> Account:
        seen.append(access)
        raise UsageError("that is enough")

    for profile in ("work", "home"):
        call(["pods", "list", "--profile", profile], environment=KEYS, connect=connect)
    assert [(access.key, access.urls[Interface.PODS], access.team) for access in seen] == [
        ("key-of-work", "https://pods.work.example", "red"),
        ("key-of-home", "https://api.runpod.io", "nobody"),
    ]


def test_the_key_of_an_account_elsewhere_does_not_go_to_the_public_service() -> None:
    write('[profile.lab]\nkey = "env:LAB_KEY"\nserverless-url = "https://lab.example"')
    listed = call(["pods", "list", "--profile", "lab"], environment={"LAB_KEY": "key-of-lab"})
    assert listed.stderr == (
        "error: the profile lab has a serverless-url of its own and no base-url: its key is not for"
        " https://api.runpod.io unless you say so; add base-url to [profile.lab], or give --base-url\n"
    )


def test_no_flag_leads_the_key_of_one_account_to_another() -> None:
    write(TWO)
    wrong = call(["pods", "list", "--profile", "home", "--base-url", "https://pods.work.example"], environment=KEYS)
    assert wrong.stderr == (
        "error: --base-url https://pods.work.example is where the profile work is, and the key is that of home; give"
        " --profile work, or leave --base-url out\n"
    )
    assert "is where the profile work is" in refused(
        *RUN, "--profile", "home", "--serverless-url", "https://work.example", **KEYS
    )
    same = asked("--endpoint", "abc123", "--profile", "work", "--serverless-url", "https://work.example", **KEYS)
    assert whose(same) == ("https://work.example#work", "key-of-work")


def test_who_has_no_key_or_no_file_is_told_of_the_accounts_that_there_are() -> None:
    write(TWO)
    assert "or choose an account: --profile work|home\nor run without an account" in refused(*RUN)
    Path("orchestrator.toml").unlink()
    assert "--profile work: there is no orchestrator.toml here that has profiles" in refused(
        *RUN, "--profile", "work", WORK_KEY="k"
    )


def test_who_only_looks_is_not_refused_for_a_profile_that_the_shell_has_and_the_file_has_not() -> None:
    """A variable of another project's is no reason to show nothing of this one's ledger."""
    write(TWO)
    shell = {**KEYS, "ORCHESTRATOR_PROFILE": "gone"}
    for looking in (("status",), ("failures", "r"), ("jobs", "list"), ("flows",), ("results", "r")):
        assert "profile" not in call(looking, environment=shell).stderr, looking
    assert "profile" not in call(["doctor"], environment=shell).stderr
    asked_for = doctor_request(None, requested("doctor", **shell).choices, shell)
    assert "ORCHESTRATOR_PROFILE: orchestrator.toml has no [profile.gone]" in asked_for.no_account
    assert asked_for.connection.api_key == ""
    assert "ORCHESTRATOR_PROFILE: orchestrator.toml has no [profile.gone]" in refused(*RUN, **shell)


def test_a_program_s_own_key_is_not_for_a_profile_of_the_shell() -> None:
    write(TWO)
    around = Dependencies(environ={**KEYS, "ORCHESTRATOR_PROFILE": "work"})
    with pytest.raises(UsageError, match="ORCHESTRATOR_PROFILE chooses an account, and api_key= may be another's"):
        Orchestrator(api_key="key-of-home", _dependencies=around)
    Orchestrator(api_key="key-of-work", profile="work", _dependencies=around)


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
        ('profile = "work"\n[profile.work]\nkey = "env:A"', "--profile or ORCHESTRATOR_PROFILE chooses one"),
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
