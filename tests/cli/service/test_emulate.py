"""`orchestrator emulate`: the same settings by flag, by variable, and in the file."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.emulation.emulate_request import EMULATOR, WORKERS, EmulateRequest
from orchestrator.cli.service.emulate import show_place
from orchestrator.emulator.batches.batch_rules import BatchOptions, BatchOrder
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import choose
from orchestrator.settings.tables.toml_values import toml_texts
from tests.cli import command_line
from tests.cli.command_line import LOCAL, give
from tests.cli.test_config import some_value

VARIABLES = {
    "ORCHESTRATOR_EMULATE_HANDLER": "h.py:f",
    "ORCHESTRATOR_EMULATE_ENDPOINT": "a=h.py:f, b=h.py:g",
    "ORCHESTRATOR_EMULATE_KEY": "k1 k2",
    "ORCHESTRATOR_EMULATE_WORKERS": "8",
    "ORCHESTRATOR_EMULATE_IDLE_TIMEOUT": "0.5",
    "ORCHESTRATOR_EMULATE_RETRY_AFTER": "yes",
    "ORCHESTRATOR_PORT": "1",
    "ORCHESTRATOR_ENDPOINT": "abc",
}


def requested(*arguments: str, **environment: str) -> EmulateRequest:
    request = command_line.requested("emulate", *arguments, **environment)
    assert isinstance(request, EmulateRequest)
    return request


@pytest.mark.parametrize("setting", EMULATOR.settings.values(), ids=str)
def test_each_setting_can_stand_in_the_table_of_the_file(setting: Setting[Any]) -> None:
    value = 8 if setting is WORKERS else some_value(setting)  # a run has another setting of that name
    written = f"[emulate]\n{setting.key.replace('-', '_')} = {json.dumps(value)}"
    Path("orchestrator.toml").write_text(written, encoding="utf-8")
    read = setting.value_type.read(toml_texts(value))
    assert choose({}, {}, EMULATOR)[setting] == read
    if setting.of is not None:
        request = requested()
        of = {Scaling: request.scaling, BatchOptions: request.batch}.get(setting.of, request)
        assert getattr(of, setting.name) == read


def test_what_stands_outside_of_the_table_is_not_the_emulator_s() -> None:
    Path("orchestrator.toml").write_text('endpoint = "abc"\nrequests-per-worker = 7\n', encoding="utf-8")
    assert requested() == EmulateRequest()


def test_a_command_is_run_and_its_exit_code_is_ours() -> None:
    request = requested("--handler", "h.py:f", "--run", "pytest -x")
    place = {"serverless_url": "http://127.0.0.1:8900"}
    result = command_line.shown(partial(show_place, request, place, {}, as_json=False))
    assert result.stdout == ""
    assert result.stderr == "serving h.py:f at http://127.0.0.1:8900 for: pytest -x\n"
    refused = give("emulate", "--run", "pytest", "--json")
    assert (refused.exit_code, "exclude each other" in refused.stderr) == (2, True)


def test_variables_have_a_name_of_their_own() -> None:
    assert requested(**VARIABLES) == EmulateRequest(
        port=8900,
        handler="h.py:f",
        endpoints=("a=h.py:f", "b=h.py:g"),
        keys=("k1", "k2"),
        scaling=Scaling(workers_min=8, workers_max=8, idle_timeout_s=0.5),
        retry_after=True,
    )


def test_a_flag_wins_over_a_variable_and_that_over_the_file() -> None:
    Path("my.toml").write_text("[emulate]\nport = 1\nseed = 1\nhost = 'a'", encoding="utf-8")
    found = requested(
        "--config", "my.toml", "--port", "3", ORCHESTRATOR_EMULATE_PORT="2", ORCHESTRATOR_EMULATE_SEED="2"
    )
    assert (found.port, found.seed, found.host) == (3, 2, "a")


def test_flags_reach_the_struct_that_declares_them() -> None:
    found = requested("--broken-workers", "--http-endpoint", "*=h.py:app")
    assert (found.scaling.is_broken, found.http_endpoints) == (True, ("*=h.py:app",))


def test_flags_reach_the_parts_of_the_emulator_that_go_by_them() -> None:
    found = requested("--restart-on-change", "--batch-order", "by_status", "--batch-retention", "60")
    assert found.scaling.restarts
    assert found.batch == BatchOptions(order=BatchOrder.BY_STATUS, retention_s=60)


def test_other_commands_leave_the_table_alone() -> None:
    Path("orchestrator.toml").write_text("name = 'n'\n[emulate]\nseed = 1", encoding="utf-8")
    found = command_line.requested("run", "i.jsonl", "--endpoint", LOCAL, ORCHESTRATOR_EMULATE_PORT="x")
    assert found.name == "n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[emulate]\nprot = 1", '[emulate] of orchestrator.toml: there is no key "prot"; did you mean port?'),
        ("[emulate]\nport = '1'", "[emulate] of orchestrator.toml: port must be a whole number, as in port = 5"),
        ("[emulate]\nretention = true", "[emulate] of orchestrator.toml: retention must be a number, as in retention = 2.5"),
        ("[emulate]\nport = 70000", 'port in [emulate] of orchestrator.toml: "70000" is no whole number from 0 to 65535'),
        ("emulate = 3", "orchestrator.toml: emulate must be a table, as in [emulate] and, below it, port = 8900"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(text: str, message: str) -> None:
    Path("orchestrator.toml").write_text(text, encoding="utf-8")
    result = give("emulate")
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


@pytest.mark.parametrize(
    ("flag", "text"),
    [("--port", "x"), ("--port", "-1"), ("--workers", "1.5"), ("--retention", "-1"), ("--cold-start", "inf"), ("--seed", ""),
     ("--scaler", "BY_MOOD"), ("--algorithm", "by_feel"), ("--error-bodies", "xml")],
)  # fmt: skip
def test_a_wrong_flag_is_refused_by_its_name(flag: str, text: str) -> None:
    result = give("emulate", flag, text)
    assert result.exit_code == 2
    assert result.stderr.startswith((f'error: {flag}: "{text}" is no ', f'error: {flag}: "{text}" is none of '))


def test_every_flag_has_its_key() -> None:
    shown = give("help", "emulate", COLUMNS="200").output
    assert [key for key in EMULATOR.settings if f"--{key}" not in shown] == []
