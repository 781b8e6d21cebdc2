"""`orchestrator emulate`: the same settings by flag, by variable, and in the file."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.emulation.flags import EMULATOR, EmulateRequest
from orchestrator.cli.service.emulate import show_place
from orchestrator.emulator.contract.answers import ErrorBodies
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.jobs.scaling_rules import Scaler, Scaling
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import choose
from tests.cli import command_line
from tests.cli.command_line import LOCAL, give
from tests.cli.test_config import some_value

FILE = """
    endpoint = "abc"
    requests-per-worker = 7

    [emulate]
    handler = "h.py:f"
    endpoint = ["a=h.py:f", "b=h.py:g"]
    http-endpoint = ["*=h.py:app"]
    handler-processes = 2
    worker = "python h.py"
    key = ["k1", "k2"]
    strict = true
    env = "emulator.env"
    accounts = "accounts.toml"
    quota = ["minute=5"]
    capacity = 2
    no-balance = true
    template-release = 1
    host = "0.0.0.0"
    port = 0
    workers-min = 0
    workers-max = 9
    idle_timeout = 2.5
    scaler = "REQUEST_COUNT"
    scaler-value = 3
    cold-start = 1.5
    machines = 1
    broken-workers = true
    requests-per-worker = 50
    queue-per-worker = 500
    algorithm = "token_bucket"
    retry-after = true
    retention = 60
    propagation = 0
    faults = "faults.toml"
    fault = "lost_answer=0.02"
    seed = 7
    error-bodies = "html"
    webhooks-as-observed = true
    service-retries = 2
    time-scale = 60
    page-size = 2
    without = ["v1=410"]
    json = true
"""

ASKED = EmulateRequest(
    handler="h.py:f",
    endpoints=("a=h.py:f", "b=h.py:g"),
    http_endpoints=("*=h.py:app",),
    handler_processes=2,
    worker="python h.py",
    keys=("k1", "k2"),
    strict=True,
    env_file=Path("emulator.env"),
    accounts_file=Path("accounts.toml"),
    quotas=("minute=5",),
    capacity=2,
    no_balance=True,
    template_release_s=1,
    host="0.0.0.0",
    port=0,
    scaling=Scaling(
        workers_min=0,
        workers_max=9,
        idle_timeout_s=2.5,
        scaler=Scaler.REQUEST_COUNT,
        scaler_value=3,
        cold_start_s=1.5,
        machines=1,
        is_broken=True,
    ),
    requests_per_worker=50,
    queue_per_worker=500,
    algorithm=Algorithm.TOKEN_BUCKET,
    retry_after=True,
    retention_s=60,
    propagation_s=0,
    faults_file=Path("faults.toml"),
    faults=("lost_answer=0.02",),
    seed=7,
    error_bodies=ErrorBodies.HTML,
    webhooks_as_observed=True,
    service_retries=2,
    page_size=2,
    without=("v1=410",),
    time_scale=60,
)
"""All that stands in the file."""

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


def test_every_setting_can_stand_in_the_table_of_the_file_and_none_outside_of_it_counts() -> None:
    Path("orchestrator.toml").write_text(FILE, encoding="utf-8")
    assert requested() == ASKED
    assert choose({}, {}, EMULATOR).is_on(EMULATOR.settings["json"])


@pytest.mark.parametrize("setting", EMULATOR.settings.values(), ids=str)
def test_each_setting_can_stand_in_the_table_of_the_file(setting: Setting[Any]) -> None:
    Path("orchestrator.toml").write_text(
        f"[emulate]\n{setting.key} = {json.dumps(some_value(setting))}", encoding="utf-8"
    )
    assert choose({}, {}, EMULATOR)[setting] is not None


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
