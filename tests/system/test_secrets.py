"""Secrets and the API key are found nowhere: not in the ledger, its log and copies, nor in any output."""

import json
import shutil
import signal
import sqlite3
import zlib
from pathlib import Path

import pytest

from tests.system.processes import FAST, KEY, Desk, Service, Verdict, lines_of

pytestmark = pytest.mark.system

SECRET = "wJalrXUtnFEMI-K7MDENG"
ACCESS = "AKIAIOSFODNN7EXAMPLE"


def blobs_of(ledger: Path) -> list[bytes]:
    """Every value of every table as bytes; what is compressed, unpacked as well."""
    found = []
    connection = sqlite3.connect(ledger)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                content = value if isinstance(value, bytes) else str(value).encode()
                found.append(content)
                try:
                    found.append(zlib.decompress(content))
                except zlib.error:
                    continue
    connection.close()
    assert {"jobs", "payloads", "outcomes", "submissions", "notices", "runs"} <= set(tables)
    return found


@pytest.mark.slow
def test_neither_the_secret_nor_the_key_is_kept_or_said_anywhere(desk: Desk, service: Service) -> None:
    service.change(answers_dropped=0.1)
    config = {"accessId": "env:S3_ID", "accessSecret": "env:S3_SECRET", "bucketName": "b", "endpointUrl": "http://s3"}
    # Inputs above a few KB are packed; some jobs fail, some are refused by an answer that repeats the whole request.
    kinds: list[dict[str, object]] = [
        {},
        {"failures": 9},
        {"reject": True},
        {"padding": "p" * 10_000, "filler": 10_000},
    ]
    rows = [
        {"custom_id": f"row-{n}", "input": {"n": n} | kinds[n % len(kinds)], "s3Config": config} for n in range(200)
    ]
    desk.write("in.jsonl", lines_of(rows))
    command = (
        "run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl", "--json",
        "--listen", "127.0.0.1:0", "--max-attempts", "2", "--uncertain-after", "200ms",
        "--result-retention", "12s", "--allow-env", "S3_*", *FAST,
    )  # fmt: skip
    secrets = {"S3_SECRET": SECRET, "S3_ID": ACCESS}
    ended: list[Verdict] = []

    program = desk.start(*command, environ=secrets)
    service.wait("accepted", 60)
    ended.append(program.kill())
    shutil.copytree(desk.folder, desk.folder / "crashed")  # with the write-ahead log as the crash left it
    wrong_key = desk.start(*command, environ={**secrets, "ORCHESTRATOR_API_KEY": "the-wrong-key-of-the-tests"})
    wrong_key.until_said("nothing is sent there for now")  # what is outstanding keeps it trying for a minute
    wrong_key.signal(signal.SIGINT)
    ended.append(wrong_key.ended())
    assert ended[-1].exit_code == 128 + signal.SIGINT, ended[-1]
    ended.append(desk.call(*command, environ=secrets))
    assert ended[-1].exit_code == 1, ended[-1]
    ended += [desk.call("status"), desk.call("results", "in"), desk.call("results", "in", "--errors")]

    first = service.log()
    assert first["counted"]["accepted"] >= 150
    jobs = ended[2].summary["jobs"]
    assert (jobs["succeeded"], jobs["failed"]) == (100, 100)
    assert sum("bad request" in row["error"]["message"] for row in desk.rows("out.jsonl.errors.jsonl")) == 50
    where = {f"process {n}": (each.stdout + each.stderr).encode() for n, each in enumerate(ended)}
    where |= {str(path): path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()}
    for folder in (desk.folder, desk.folder / "crashed"):
        blobs = blobs_of(folder / "orchestrator.db")
        assert any(b"pppppp" in blob for blob in blobs)
        where[f"the values of {folder}"] = b"\n".join(blobs)
    for secret in (SECRET, ACCESS, KEY, "the-wrong-key-of-the-tests"):
        spellings = (secret.encode(), json.dumps(secret).encode()[1:-1], secret.encode("utf-16-le"))
        assert [place for place, content in where.items() if any(each in content for each in spellings)] == []


def test_the_service_gets_the_secrets_that_the_references_name(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", lines_of([{"input": {"n": 1}, "s3Config": {"accessSecret": "env:S3_SECRET"}}]))

    ended = desk.call(
        "run",
        "in.jsonl",
        "--endpoint",
        "ep1",
        "--serverless-url",
        service.url,
        "--allow-env",
        "S3_SECRET",
        environ={"S3_SECRET": SECRET},
    )

    assert ended.exit_code == 0, ended
    assert service.log()["stores"] == [{"accessSecret": SECRET}]
