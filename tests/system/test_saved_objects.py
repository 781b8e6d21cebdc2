"""Outputs that become objects of a store, by real processes and a real S3 server."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.formats.output.saved_files import flaw_of
from orchestrator.formats.output.saved_objects import NewObject
from tests.stores.gate import gate_before
from tests.stores.s3_server import BUCKET, S3Server, s3_server
from tests.system.processes import FAST, Desk
from tests.system.test_saved_files import PICTURE, PNG

pytestmark = [pytest.mark.system, pytest.mark.slow]

FOLDER = f"s3://{BUCKET}/out"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for key in server.names():
        server.client.delete_object(Bucket=BUCKET, Key=key)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


def test_members_become_objects_and_verify_reads_them(desk: Desk, store: S3Server, tmp_path: Path) -> None:
    desk.inputs(3, prompt="a lighthouse")
    store.put("out/row-1.png", b"somebody's")
    command = ("run", "prompts.jsonl", *PICTURE, *FAST, "--output", "results.jsonl")
    ended = desk.call(*command, "--save", f"output.image={FOLDER}/{{custom_id}}.png", environ=store.environment)
    assert ended.exit_code == 0, ended
    saved = [row["output"]["image"]["file"] for row in desk.rows()]
    assert saved == [f"{FOLDER}/row-{name}.png" for name in ("0", "1-2", "2")]
    assert all(store.get(f"out/row-{name}.png").startswith(PNG) for name in ("0", "1-2", "2"))
    assert store.get("out/row-1.png") == b"somebody's"
    assert store.uploads() == []
    assert "3 saved files" in desk.call("verify", environ=store.environment).stdout
    store.put("out/row-2.png", b"spoilt")
    spoilt = desk.call("verify", environ=store.environment)
    assert spoilt.exit_code == 1
    assert f"{FOLDER}/row-2.png of row-2 has 6 bytes" in spoilt.stdout


def test_the_same_again_is_the_same_object(store: S3Server) -> None:
    found = []
    for content in (b"one", b"one", b"two"):
        with NewObject(FOLDER, ["a7", "1.png"]) as file:
            file.write(content)
            found.append(file.commit())
    assert [each.file for each in found] == [f"{FOLDER}/a7/{name}.png" for name in ("1", "1", "1-2")]
    assert sorted(store.names()) == ["out/a7/1-2.png", "out/a7/1.png"]
    store.client.delete_object(Bucket=BUCKET, Key="out/a7/1.png")
    assert [flaw_of(each) for each in found] == ["is not there", "is not there", None]


def test_a_store_that_is_not_to_be_written_is_told_before_anything_is_sent(desk: Desk, store: S3Server) -> None:
    desk.inputs(1, prompt="a lighthouse")
    save = ("--save", "output.image=s3://nowhere/{custom_id}.png")
    refused = desk.call("run", "prompts.jsonl", *PICTURE, *save, environ=store.environment)
    assert (refused.exit_code, "cannot write s3://nowhere" in refused.stderr) == (2, True), refused


def test_whoever_only_saves_leaves_a_store_at_once_that_says_nothing(desk: Desk, store: S3Server) -> None:
    desk.inputs(3, prompt="a lighthouse")
    assert desk.call("run", "prompts.jsonl", *PICTURE, *FAST, "--output", "out.jsonl").exit_code == 0
    save = ("--save", f"output.image={FOLDER}/{{custom_id}}.png")
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        gate.unread = 3
        program = desk.start("results", "prompts", *save, environ=environ)
        gate.stalled.wait()
        program.signal(signal.SIGINT)
        assert program.ended().exit_code == 130
        gate.unread = 0
        assert desk.call("results", "prompts", *save, environ=environ).exit_code == 0
    assert sorted(store.names()) == [f"out/row-{n}.png" for n in range(3)]
