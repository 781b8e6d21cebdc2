"""Ctrl-C at a store that says nothing, before anything has begun: the command ends, and has made nothing."""

import signal
from collections.abc import Iterator

import pytest

from tests.stores.gate import gate_before
from tests.stores.s3_server import BUCKET, S3Server, s3_server
from tests.system.processes import Desk

pytestmark = [pytest.mark.system, pytest.mark.slow]

ECHO = "def echo(job):\n    return job['input']\n"
LOCAL = ("--endpoint", "local:echo.py:echo")
URL = f"s3://{BUCKET}/rows.jsonl"
SAVE = ("--save", f"output.n=s3://{BUCKET}/out/{{custom_id}}.txt")
WITHIN_S = 15.0
"""A store is waited for half a minute, twice."""


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.mark.parametrize(
    "command",
    [
        ("run", URL, *LOCAL),
        ("run", f"s3://{BUCKET}/*.jsonl", "--name", "n", *LOCAL),
        ("run", "prompts.jsonl", *LOCAL, "--output", URL),
        ("run", "prompts.jsonl", *LOCAL, "--output", URL, "--split", "2", "--overwrite"),
        ("run", "prompts.jsonl", *LOCAL, *SAVE),
        ("plan", URL, *LOCAL),
    ],
    ids=["input", "inputs", "output", "parts", "save", "plan"],
)
def test_a_run_that_has_not_begun_ends_at_once_and_leaves_nothing(
    desk: Desk, store: S3Server, command: tuple[str, ...]
) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(1)
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        gate.is_silent = True
        program = desk.start(*command, environ={**store.environment, "AWS_ENDPOINT_URL": gate.url}, within_s=WITHIN_S)
        gate.stalled.wait()
        program.signal(signal.SIGINT)
        ended = program.ended()
    told = (
        ""
        if command[0] == "plan"
        else "error: Stopped before anything had begun; nothing was made, and nothing was sent.\n"
    )
    assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", told)
    assert {path.name for path in desk.folder.iterdir()} == {"echo.py", "prompts.jsonl"}
    assert (store.names(), store.uploads()) == ([], [])


@pytest.mark.parametrize("to", [("--output", URL), SAVE], ids=["output", "save"])
def test_whoever_writes_or_saves_results_leaves_before_that_has_begun(
    desk: Desk, store: S3Server, to: tuple[str, ...]
) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(1)
    assert desk.call("run", "prompts.jsonl", *LOCAL).exit_code == 0
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        gate.is_silent = True
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        program = desk.start("results", "prompts", *to, environ=environ, within_s=WITHIN_S)
        gate.stalled.wait()
        program.signal(signal.SIGINT)
        assert program.ended().exit_code == 130
    assert (store.names(), store.uploads()) == ([], [])


PIPELINE = f"""name = "nightly"
input = "{URL}"
wait-for-input = "10 m"
[stage.first]
endpoint = "local:echo.py:echo"
output = "s3://{BUCKET}/out/{{fire:%Y-%m-%d}}.jsonl"
"""


@pytest.mark.parametrize("stage", ["", f'save = ["output.n=s3://{BUCKET}/out/{{custom_id}}.txt"]\n'], ids=["", "save"])
def test_a_flow_whose_store_says_nothing_can_be_left(desk: Desk, store: S3Server, stage: str) -> None:
    desk.write("echo.py", ECHO)
    desk.write("nightly.toml", PIPELINE + stage)
    assert desk.call("apply", "nightly.toml").exit_code == 0
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        gate.is_silent = True
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        program = desk.start("trigger", "nightly", "--wait", environ=environ, within_s=WITHIN_S)
        gate.stalled.wait()
        program.signal(signal.SIGINT)
        assert program.ended().exit_code == 130
    assert (store.names(), store.uploads()) == ([], [])
