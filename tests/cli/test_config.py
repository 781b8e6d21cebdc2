"""Flags over environment over file; what is wrong is said with the name that the user wrote."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.api.emulation.emulate_request import EMULATOR, EmulateRequest
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.batches.batch_rules import BatchOptions
from orchestrator.emulator.emulator_flags import EmulatorOptions
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.settings import command_flags, connection_settings, run_request, run_settings
from orchestrator.settings.command_requests import PlanFigures, PlanRequest
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.connection_settings import PROFILE, AccountSettings, ConnectionSettings
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.lanes import lane_settings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import choose
from orchestrator.settings.value_types import Kind
from orchestrator.settings.words_and_defaults import Include
from tests.cli.command_line import LOCAL, call, requested
from tests.cli.framework.test_request import asked, refused


def write(text: str, name: str = "orchestrator.toml") -> None:
    Path(name).write_text(text, encoding="utf-8")


def attempts(*arguments: str, **environment: str) -> int:
    settings = asked("--endpoint", LOCAL, *arguments, **environment).settings
    assert settings is not None
    return settings.max_attempts


def test_a_flag_wins_over_a_variable_and_that_over_the_file() -> None:
    assert attempts() == 3
    write("max-attempts = 4")
    assert attempts() == 4
    assert attempts(ORCHESTRATOR_MAX_ATTEMPTS="5") == 5
    assert attempts("--max-attempts", "6", ORCHESTRATOR_MAX_ATTEMPTS="5") == 6


def test_an_empty_variable_is_not_set() -> None:
    write("max-attempts = 4")
    assert attempts(ORCHESTRATOR_MAX_ATTEMPTS="") == 4


def test_the_file_can_be_named_by_flag_or_variable() -> None:
    write("max_attempts = 7", "other.toml")
    assert attempts("--config", "other.toml") == 7
    assert attempts(ORCHESTRATOR_CONFIG="other.toml") == 7


WRITTEN = {
    "endpoint": "local:f.py:f",
    "name": "captions",
    "path": "",
    "format": "csv",
    "include": "times,input",
    "flatten": ["output.caption"],
    "map": ["prompt={{ row.caption }}"],
    "types": "n=int,x=float",
    "listen": ":0",
    "batch-call-bytes": 2048,
    "batch-discount": "20%",
    "webhook-url": "http://127.0.0.1:1",
    "execution-timeout": 60,
    "priority": -10,
    "workers": "auto:2-9",
    "workers-max": 9,
    "budget-per-hour": 100_000,
    "result-retention": 90.5,
    "notify": "env:HOOK",
    "finish-by": "06:00",
    "canary": "10:80%",
    "max-failures": "5%",
    "limit": ["run=5/1", "status=7/1"],
    "service-key": ["http://127.0.0.1:2=env:OTHER"],
    "save": ["output.image=out/{custom_id}.png"],
    "save-from": ["10.2.0.0/16"],
    "schema": "s.json",
    "check": "c.py:good",
    "escalate": ["timed_out: execution-timeout*2, then endpoint big"],
    "retry-budget": "20%",
    "dry-run": False,
    "detach": False,
    "replace-input": False,
    "body-bytes-max": 1000,
}
"""What keys are given of which not any value is one."""

PROFILE_OF_WORK = """
[profile.work]
key = "env:WORK_KEY"
"""

OF_KIND = {
    Kind.WHOLE: 2,
    Kind.WHOLE_OR_TEXT: 7,
    Kind.NUMBER: 2.5,
    Kind.DURATION: "2h",
    Kind.SWITCH: True,
    Kind.LIST: ["A"],
}


def some_value(setting: Setting[Any]) -> object:
    """One that the file can have; where the program has one without it, that one."""
    if setting.key in WRITTEN:
        return WRITTEN[setting.key]
    if setting.value_type.kind is Kind.TEXT:
        return " ".join(setting.value_type.write(setting.unset or [*setting.value_type.words, setting.key][0]))
    return OF_KIND[setting.value_type.kind]


def test_every_key_can_stand_in_the_file() -> None:
    Path("s.json").write_text("{}", encoding="utf-8")
    Path("c.py").touch()
    of_pods = {PROFILE.key, run_request.POD_TEMPLATE.key, run_settings.PODS.key}  # these take the place of the endpoint
    of_chunks = {lane_settings.CHUNK.key, lane_settings.CHUNK_INPUT.key, lane_settings.CHUNK_OUTPUT.key}
    others = of_pods | of_chunks  # no long job travels with others
    values = {key: some_value(setting) for key, setting in RUNS.settings.items() if key not in others}
    write("\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items()) + PROFILE_OF_WORK)
    request = requested("run", "i.jsonl")
    assert request.include == (Include.INPUT, Include.TIMES)
    assert request.settings is not None
    assert (request.name, request.retry_failed, request.body_bytes_max) == ("captions", True, 1000)
    assert (request.settings.policy.execution_timeout_ms, request.settings.policy.low_priority) == (60_000, True)
    assert request.settings.priority == -10
    assert (request.settings.retention_us, request.settings.output_required) == (90_500_000, True)
    assert request.connection.limits[Operation.STATUS].requests == 7


def test_a_list_may_be_one_text_in_the_file_and_words_in_a_variable() -> None:
    write('limit = "run=5/1"')
    assert asked("--endpoint", LOCAL).connection.limits[Operation.RUN].requests == 5
    limits = asked("--endpoint", LOCAL, ORCHESTRATOR_LIMIT="run=6/1:2, status=7/1").connection.limits
    assert (limits[Operation.RUN].requests, limits[Operation.STATUS].requests) == (6, 7)


def test_a_switch_that_the_file_turns_on_can_be_turned_off_by_a_variable() -> None:
    write("json = true")
    assert choose({}, {}).is_on(command_flags.JSON)
    assert not choose({}, {"ORCHESTRATOR_JSON": "false"}).is_on(command_flags.JSON)


def test_resume_takes_from_the_file_only_what_it_has_flags_for() -> None:
    write('endpoint = "abc"\nttl = "1h"\noutput = "o.jsonl"\nname = "other"')
    request = requested("resume", "captions")
    assert (request.name, request.endpoint, request.settings) == ("captions", None, None)
    assert request.output == Path("o.jsonl")


def test_status_and_results_find_the_ledger_in_the_file() -> None:
    write('ledger = "elsewhere.db"')
    assert "elsewhere.db: there is no ledger here" in call(["status"], environment={}).stderr
    assert "elsewhere.db: there is no ledger here" in call(["results", "captions"], environment={}).stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-atempts = 3", 'orchestrator.toml: there is no key "max-atempts"; did you mean max-attempts?'),
        ("zzz = 3", 'orchestrator.toml: there is no key "zzz"; docs/reference/configuration.md lists the keys'),
        ('api-key = "rpa_secret"', "orchestrator.toml: api-key cannot be set here; keep the key out of files and set ORCHESTRATOR_API_KEY in the environment"),
        ('runpod_api_key = "rpa_secret"', "orchestrator.toml: runpod_api_key cannot be set here; keep the key out of files and set ORCHESTRATOR_API_KEY in the environment"),
        ("max-attempts = '3'", "orchestrator.toml: max-attempts must be a whole number, as in max-attempts = 5"),
        ("max_attempts = true", "orchestrator.toml: max_attempts must be a whole number, as in max_attempts = 5"),
        ("ttl = true", 'orchestrator.toml: ttl must be a duration, as in ttl = "90s" (or a number of seconds)'),
        ("name = 3", 'orchestrator.toml: name must be text, as in name = "..."'),
        ("quiet = 'yes'", "orchestrator.toml: quiet must be true or false"),
        ("limit = [3]", 'orchestrator.toml: limit must be a list of texts, as in limit = ["..."]'),
        ("ttl = 'x'", 'ttl in orchestrator.toml: "x" is not a duration; write a number and a unit: 250ms, 90s, 30m, 24h or 7d'),
        ("on-expired = 'x'", 'on-expired in orchestrator.toml: "x" is none of resubmit, fail'),
        ("body-bytes-max = 0", 'body-bytes-max in orchestrator.toml: "0" is no whole number from 1 to 1000000000'),
        ("max-attempts = 1\nmax_attempts = 2", "orchestrator.toml: max-attempts stands there twice, with a dash and with an underscore"),
        ("errors = 'e'", "errors in orchestrator.toml needs --output: the two files are written together"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused(text: str, message: str) -> None:
    write(text)
    assert refused("run", "i.jsonl", "--endpoint", LOCAL) == message


def test_every_field_that_can_be_set_is_declared_and_every_declared_one_is_there() -> None:
    fields: dict[type[msgspec.Struct], set[str]] = {}
    for setting in (*RUNS.settings.values(), *EMULATOR.settings.values()):
        if setting.of is not None:
            fields.setdefault(setting.of, set()).add(setting.name)
    assert fields == {
        AccountSettings: names_of(AccountSettings),
        ConnectionSettings: names_of(ConnectionSettings)
        - {"api_key", "headers", "key_variables", "targets", "dashboard_url"},  # tables, and what is never written down
        EmulateRequest: names_of(EmulateRequest) - names_of(EmulatorOptions) - {"scaling", "batch"},
        EmulatorOptions: names_of(EmulatorOptions),
        Scaling: names_of(Scaling),
        BatchOptions: names_of(BatchOptions),
        Policy: names_of(Policy),
        InputSettings: names_of(InputSettings),
        OutputSettings: names_of(OutputSettings),
        RunRequest: names_of(RunRequest)
        - {
            "named",
            "source",
            "reading",
            "writing",
            "connection",
            "settings",
            "configuration",
            "only_rows",
            "remembered",
            "allow_env",
            "members",
            "pods",
        },
        PlanFigures: names_of(PlanFigures),
        PlanRequest: {"probe"},  # the others are what was found out
        RunSettings: names_of(RunSettings)
        - {"policy", "output", "errors", "files_at", "files_on", "cli_defaults"}  # what is remembered
        - {"takes_over"}  # of stages only
        - {"members", "former_members", "pod_template"}  # which follow from the endpoint
        - {"is_probe"},  # and from what is planned
    }


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    return set(kind.__struct_fields__)


def test_what_a_setting_is_without_being_set_can_be_read_as_it_is_written() -> None:
    for setting in (*RUNS.settings.values(), *EMULATOR.settings.values()):
        if setting.unset not in (None, (), False):
            assert setting.value_type.read(setting.value_type.write(setting.unset)) == setting.unset, setting


def test_a_file_that_is_not_toml_is_refused() -> None:
    write("max-attempts: 3")
    assert refused("run", "i.jsonl", "--endpoint", LOCAL).startswith("orchestrator.toml: this is not TOML: ")


def test_what_does_not_fit_is_named_as_it_was_set() -> None:
    told = "is for resumable jobs; give --resumable too"
    assert refused("run", "i.jsonl", "--endpoint", LOCAL, ORCHESTRATOR_STALL_AFTER="2h") == (
        f"ORCHESTRATOR_STALL_AFTER {told}"
    )
    write('progress-every = "5m"')
    for command in ("run", "plan"):
        assert refused(command, "i.jsonl", "--endpoint", LOCAL) == f"progress-every in orchestrator.toml {told}"


def test_a_wrong_variable_is_named() -> None:
    message = refused("run", "i.jsonl", "--endpoint", LOCAL, ORCHESTRATOR_QUIET="perhaps")
    assert message == 'ORCHESTRATOR_QUIET: "perhaps" is neither true nor false'


def test_a_key_without_a_flag_has_no_variable_either() -> None:
    choices = choose({}, {"ORCHESTRATOR_BODY_BYTES_MAX": "5", "ORCHESTRATOR_PREFER": "cheap"})
    assert {choices[setting] for setting in command_flags.FILE_ONLY} == {None}


def test_an_empty_list_says_nothing() -> None:
    write("limit = []")
    assert choose({}, {})[connection_settings.LIMIT] is None


def test_seconds_in_the_file_never_turn_into_powers_of_ten() -> None:
    write("uncertain-after = 0.00005")
    assert choose({}, {})[run_settings.UNCERTAIN_AFTER] == 50
    write("uncertain-after = nan")
    assert refused("run", "i.jsonl", "--endpoint", LOCAL).startswith('uncertain-after in orchestrator.toml: "nan"')


def test_a_price_is_that_of_the_endpoint_and_keeps_every_digit() -> None:
    write("""
        price-per-second = 0.5
        [endpoints.abc1]
        price-per-second = 0.0001583
        [endpoints.other1]
        price_per_second = 2
    """)
    prices = {"abc1": 0.0001583, "other1": 2.0, "third1": 0.5}
    for endpoint, price in prices.items():
        settings = asked("--endpoint", endpoint, ORCHESTRATOR_API_KEY="k").settings
        assert settings is not None
        assert settings.price_per_second == price
    told = asked("--endpoint", "abc1", ORCHESTRATOR_API_KEY="k", ORCHESTRATOR_PRICE_PER_SECOND="3").settings
    assert told is not None
    assert told.price_per_second == 3.0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("endpoints = 3", "a table for each endpoint"),
        ("[endpoints]\nabc = 3", "a table for each endpoint"),
        ("[endpoints.abc1]\nttl = '1h'", 'there is no key "ttl"'),
        ("[endpoints.abc1]\nprice-per-second = '1'", "must be a number"),
        ("[endpoints.abc1]\nprice-per-second = 0", "[endpoints.abc1] of orchestrator.toml"),
        ("price-per-second = -1", "is no amount"),
        ("price-per-second = inf", "is no amount"),
    ],
)
def test_what_is_wrong_with_a_price_is_said_with_its_place(text: str, error: str) -> None:
    write(text)
    result = call(["run", "i.jsonl", "--endpoint", "abc1"], environment={"ORCHESTRATOR_API_KEY": "k"})
    assert result.exit_code == 2
    assert error in result.stderr
