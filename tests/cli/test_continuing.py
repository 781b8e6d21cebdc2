"""The command that a message names goes on as the process went that said so, in the same folder, without its variables."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from orchestrator.api.identity import resume_command
from orchestrator.settings import RunRequest
from tests.cli.fake_api import FakeApp, invoke
from tests.cli.test_config import write

KEY = "rpa_secret"
REQUIRED = "--endpoint abc123 "

SAID: Mapping[str, tuple[str, dict[str, str], str]] = {
    "nothing": (REQUIRED, {}, ""),
    "all flags": (
        REQUIRED + "--ledger 'my l.db' --output out/r.jsonl --errors 'an e.jsonl' --listen :8080 --webhook-url"
        " https://me.example/x --limit run=500/10:50 --limit status=100/1 --pacing window --requests-per-worker 30",
        {},
        "",
    ),
    "flags of the run alone": (REQUIRED + "--ttl 2h --max-attempts 5 --retry-failed --json", {}, ""),
    "variables": (
        REQUIRED,
        {"ORCHESTRATOR_LIMIT": "run=7/1,status=9/1", "ORCHESTRATOR_LEDGER": "v.db", "ORCHESTRATOR_OUTPUT": "-v.jsonl"},
        "",
    ),
    "the file": ("", {}, 'endpoint = "abc123"\nlimit = ["run=1/10"]\noutput = "f.jsonl"\nlisten = ":0"\nwebhook-url = "http://me"'),
    "flags over the file, as they would be without it": (
        "--limit run=1000/10:200 --ledger orchestrator.db --pacing even",
        {},
        'endpoint = "abc123"\nlimit = ["run=1/10"]\nledger = "f.db"\npacing = "window"',
    ),
    "another file": (REQUIRED + "--config 'an other.toml' --limit run=3/1", {}, ""),
    "another file by its variable": (REQUIRED, {"ORCHESTRATOR_CONFIG": "an other.toml"}, ""),
    "a name like a flag": (REQUIRED + "--name=--quiet --limit run=3/1 --output=-o", {}, ""),
}  # fmt: skip


def process_of(request: RunRequest) -> RunRequest:
    """What of `request` concerns the process rather than the run."""
    return msgspec.structs.replace(
        request, source=None, endpoint=None, settings=None, retry_failed=False, named=True, flags=None
    )


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_the_command_that_is_named_leads_to_the_same_process(said: tuple[str, dict[str, str], str]) -> None:
    arguments, environment, file = said
    if file:
        write(file)
    write('limit = ["run=2/1", "cancel=1/1"]\nledger = "o.db"\nerrors = "oe"\noutput = "oo"', "an other.toml")
    first, next_one = FakeApp(), FakeApp()
    began = invoke(first, "run", "prompts.jsonl", *shlex.split(arguments), ORCHESTRATOR_API_KEY=KEY, **environment)
    assert began.exit_code == 0, began.stderr

    command = resume_command(first.request)
    assert KEY not in command
    program, *words = shlex.split(command)
    continued = invoke(next_one, *words, ORCHESTRATOR_API_KEY=KEY)

    assert (program, continued.exit_code) == ("orchestrator", 0), continued.stderr
    assert process_of(next_one.request) == process_of(first.request)
    assert resume_command(next_one.request) == command


def test_a_request_that_came_from_no_command_line_names_its_files() -> None:
    app = FakeApp()
    invoke(app, "run", "p.jsonl", "--endpoint", "local:f.py:f", "--ledger", "l.db", "--output", "r.jsonl")
    request = msgspec.structs.replace(app.request, flags=None)
    assert resume_command(request) == (
        "orchestrator resume p --ledger l.db --output r.jsonl --errors r.jsonl.errors.jsonl"
    )
    assert resume_command(msgspec.structs.replace(request, ledger=Path("orchestrator.db"), output=None)) == (
        "orchestrator resume p"
    )
