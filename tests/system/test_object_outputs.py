"""Results that are written to a store: whole or not at all, over nobody else's, and later where it cannot be now."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.stores.gate import gate_before
from tests.stores.s3_server import BUCKET, S3Server, s3_server
from tests.system.processes import ROOT, Desk

pytestmark = [pytest.mark.system, pytest.mark.slow]

ECHO = "def echo(job):\n    return job['input']\n"
LARGE = "def echo(job):\n    return 'x' * 5_000_000\n"
RUN = ("run", "prompts.jsonl", "--endpoint", "local:echo.py:echo")
URL = f"s3://{BUCKET}/out/results.jsonl"
TO_STORE = ("--output", URL)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(server: S3Server) -> S3Server:
    for name in server.names():
        server.client.delete_object(Bucket=BUCKET, Key=name)
    return server


def ids(store: S3Server, name: str = "out/results.jsonl") -> list[str]:
    return [json.loads(line)["custom_id"] for line in store.get(name).splitlines()]


def test_results_are_written_to_a_store_verified_there_and_written_again_by_the_same_run(
    desk: Desk, store: S3Server
) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(3)
    done = desk.call(*RUN, *TO_STORE, environ=store.environment)
    assert done.exit_code == 0, done.stderr
    grows = desk.folder / "data-out-results.jsonl.partial"
    assert f"until the end the results grow in {grows}" in done.stderr
    assert not grows.exists()
    assert ids(store) == ["row-0", "row-1", "row-2"]
    assert store.get("out/results.jsonl.errors.jsonl") == b""
    assert desk.call("verify", *TO_STORE, environ=store.environment).exit_code == 0

    desk.inputs(4)
    assert desk.call(*RUN, environ=store.environment).exit_code == 0, "it goes where it went"
    assert ids(store) == ["row-0", "row-1", "row-2", "row-3"]
    store.put("out/results.jsonl", store.get("out/results.jsonl").replace(b'"n":2', b'"n":9'))
    wrong = desk.call("verify", *TO_STORE, environ=store.environment)
    assert (wrong.exit_code, f"line 3 of {URL} is not what the ledger has for row-2" in wrong.stdout) == (1, True)


def test_what_is_there_of_somebody_else_is_replaced_only_when_told(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(1)
    store.put("out/results.jsonl", b"dear to somebody")
    refused = desk.call(*RUN, *TO_STORE, environ=store.environment)
    assert (refused.exit_code, f"{URL}: this file is there already" in refused.stderr) == (2, True), refused.stderr
    assert store.get("out/results.jsonl") == b"dear to somebody"
    assert desk.call(*RUN, *TO_STORE, "--overwrite", environ=store.environment).exit_code == 0
    assert ids(store) == ["row-0"]

    other = desk.call(*RUN, "--name", "other", *TO_STORE, "--overwrite", environ=store.environment)
    assert (other.exit_code, "the run 'prompts' of this ledger has written this file" in other.stderr) == (2, True)


def test_what_another_writes_while_the_run_goes_on_is_left_as_it_is(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(1)
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:

        def meanwhile(method: str, path: str) -> None:
            if method == "PUT" and path.endswith("/results.jsonl"):
                store.put("out/results.jsonl", b"theirs")

        gate.asked = meanwhile
        done = desk.call(*RUN, *TO_STORE, environ={**store.environment, "AWS_ENDPOINT_URL": gate.url})
    assert done.exit_code == 3, done.stderr
    assert f"cannot write {URL}: it was changed meanwhile; everything is in the ledger" in done.stderr
    assert store.get("out/results.jsonl") == b"theirs"


def test_credentials_that_expire_cost_nothing_but_the_writing_which_is_done_later(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", LARGE)
    desk.inputs(8)
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:

        def expire(method: str, path: str) -> None:
            gate.is_expired = "partNumber=2" in path or gate.is_expired

        gate.asked = expire
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        done = desk.call(*RUN, *TO_STORE, environ=environ)
        assert done.exit_code == 3, done.stderr
        later = f"orchestrator results prompts --output {URL}"
        assert f"cannot write {URL}: the credentials have expired" in done.stderr
        assert f"is written later by: {later}" in done.stderr
        assert "succeeded  8" in done.stderr
        assert (store.names(), len(store.uploads())) == ([], 1), "what could not be aborted is noted"

        gate.asked, gate.is_expired = lambda *_: None, False
        assert desk.call(*later.split()[1:], environ=environ).exit_code == 0
    assert len(ids(store)) == 8
    assert store.uploads() == []
    assert not (desk.folder / "orchestrator.db.uploads").exists()
    assert desk.call("verify", *TO_STORE, environ=store.environment).exit_code == 0


def test_a_stop_waits_for_an_object_on_its_way_and_says_for_how_long(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", LARGE)
    desk.inputs(8)
    goes_on = threading.Event()
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        program = desk.start(*RUN, *TO_STORE, environ={**store.environment, "AWS_ENDPOINT_URL": gate.url})

        def stop(method: str, path: str) -> None:
            if "partNumber=2" in path and not goes_on.is_set():
                program.signal(signal.SIGINT)
                goes_on.wait()

        gate.asked = stop
        program.until_said(f"{URL}: it has 30 s to be there, as a stop was asked for")
        goes_on.set()
        assert program.ended().exit_code == 130
    assert (len(ids(store)), store.uploads()) == (8, [])


def test_whoever_only_writes_results_leaves_at_once_and_leaves_no_upload_behind(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", LARGE)
    desk.inputs(8)
    assert desk.call(*RUN, "--output", "out.jsonl").exit_code == 0
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        gate.unread = 8
        program = desk.start("results", "prompts", *TO_STORE, environ=environ)
        gate.stalled.wait()
        program.signal(signal.SIGINT)
        assert program.ended().exit_code == 130
    assert (store.names(), store.uploads()) == ([], [])
    assert not (desk.folder / "orchestrator.db.uploads").exists()


def test_one_that_is_killed_in_the_middle_of_its_upload_leaves_nothing_that_the_next_does_not_take_away(
    desk: Desk, store: S3Server
) -> None:
    desk.write("echo.py", LARGE)
    desk.inputs(8)
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        program = desk.start(*RUN, *TO_STORE, environ=environ)

        def kill(method: str, path: str) -> None:
            if "partNumber=2" in path and not program.is_over:
                program.signal(signal.SIGKILL)  # in the gate's thread: only one may read what the program says

        gate.asked = kill
        program.ended()
        assert (store.names(), len(store.uploads())) == ([], 1)
        gate.asked = lambda *_: None
        assert desk.call("resume", "prompts", environ=environ).exit_code == 0
    assert (len(ids(store)), store.uploads()) == (8, [])


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3://none/results.jsonl", "cannot write s3://none/results.jsonl: there is no such bucket"),
        ("https://host/results.jsonl", "https:// is for reading"),
        ("gs://bucket/results.jsonl", "gs:// needs gcsfs, which is not installed"),
        ("s3://me:hush@data/results.jsonl", "with a user or a password in it is refused"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_is_sent(
    desk: Desk, store: S3Server, url: str, told: str
) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(1)
    refused = desk.call(*RUN, "--output", url, environ=store.environment)
    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    assert "hush" not in refused.stderr
    assert not (desk.folder / "orchestrator.db").exists()


def test_parts_tables_and_packed_ones_go_to_a_store_like_to_a_folder(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", ECHO)
    desk.inputs(5)
    to = ("--output", f"s3://{BUCKET}/out/r.jsonl.gz", "--split", "2")
    assert desk.call(*RUN, *to, environ=store.environment).exit_code == 0
    assert [name for name in store.names() if "errors" not in name] == [f"out/r-0000{n}.jsonl.gz" for n in (1, 2, 3)]
    assert desk.call("verify", "--output", f"s3://{BUCKET}/out/r.jsonl.gz", environ=store.environment).exit_code == 0
    table = ("--output", f"s3://{BUCKET}/out/r.parquet")
    assert desk.call("results", "prompts", *table, environ=store.environment).exit_code == 0
    verified = desk.call("verify", *table, environ=store.environment)
    assert verified.exit_code == 0, verified.stdout + verified.stderr


PIPELINE = f"""name = "nightly"
input = "s3://{BUCKET}/in/{{fire:%Y-%m-%d}}.jsonl"
wait-for-input = "10 m"
[stage.first]
endpoint = "local:echo.py:echo"
output = "s3://{BUCKET}/out/{{fire:%Y-%m-%d}}.jsonl"
"""


def test_a_flow_waits_for_its_object_and_writes_to_the_place_of_its_fire(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", ECHO)
    desk.write("nightly.toml", PIPELINE)
    assert desk.call("apply", "nightly.toml").exit_code == 0
    flow = desk.start("trigger", "nightly", "--at", "2027-03-28T00:00:00Z", "--wait", environ=store.environment)
    named = f"s3://{BUCKET}/in/2027-03-28.jsonl"
    flow.until_said(f"nightly@20270328T000000Z waits for {named}, for 10 m")
    etag = store.client.put_object(Bucket=BUCKET, Key="in/2027-03-28.jsonl", Body=b'{"custom_id": "r", "n": 1}\n')[
        "ETag"
    ]
    ended = flow.ended()
    assert ended.exit_code == 0, ended.stderr
    assert ids(store, "out/2027-03-28.jsonl") == ["r"]
    shown = desk.call("flows", "show", "nightly@20270328T000000Z", "--json").summary
    assert shown["stages"][0]["source"] == f"{named} (ETag {etag})"
    assert shown["stages"][0]["sha256"] == ""


@pytest.mark.parametrize(
    ("key", "url", "told"),
    [
        ("input", "https://host/rows.jsonl?sig=hush", "may have a signature in it"),
        ("input", "s3://me:hush@data/rows.jsonl", "with a user or a password in it is refused"),
        ("output", "https://host/rows.jsonl", "https:// is for reading"),
    ],
)
def test_a_pipeline_keeps_no_secret_and_is_refused_with_the_place(desk: Desk, key: str, url: str, told: str) -> None:
    desk.write("echo.py", ECHO)
    said = [line if not line.startswith(f"{key} =") else f'{key} = "{url}"' for line in PIPELINE.splitlines()]
    desk.write("nightly.toml", "\n".join(said))
    refused = desk.call("apply", "nightly.toml")
    line = 2 if key == "input" else 6
    assert (refused.exit_code, f"nightly.toml:{line}: " in refused.stderr, told in refused.stderr) == (2, True, True)
    assert "hush" not in refused.stderr


def test_the_example_of_a_program_reads_and_writes_there_too(desk: Desk, store: S3Server) -> None:
    store.put("in/1.jsonl", b'{"custom_id": "a", "prompt": "a fox"}\n')
    store.put("in/2.jsonl", b'{"custom_id": "b", "prompt": "an owl"}\n')
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "object_store.py"), f"s3://{BUCKET}"], cwd=desk.folder,
        env=desk.environment(store.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"2 results in s3://{BUCKET}/out/results.csv\n"), done.stderr
    assert [line.split(b",")[0] for line in store.get("out/results.csv").splitlines()] == [b"custom_id", b"a", b"b"]
