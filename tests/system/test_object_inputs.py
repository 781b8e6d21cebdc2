"""Inputs that lie elsewhere: in a store, by its own protocol, and on a web server."""

import gzip
import io
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.stores.gate import gate_before
from tests.stores.s3_server import S3Server, s3_server
from tests.stores.web_server import WebObject, serving
from tests.system.processes import Desk, lines_of

pytestmark = pytest.mark.system

LOCAL = ("--endpoint", "local:echo.py:echo")
ECHO = "def echo(job):\n    return job['input']\n"


def rows(first: int, number: int) -> bytes:
    return lines_of({"custom_id": f"row-{n}", "n": n} for n in range(first, first + number)).encode()


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.mark.slow
def test_objects_of_a_store_are_read_like_files_whatever_they_are_written_in(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", ECHO)
    table = io.BytesIO()
    parquet.write_table(pa.table({"custom_id": ["p-1", "p-2"], "n": [1, 2]}), table)
    store.put("in/1.jsonl", rows(0, 3))
    store.put("in/2.jsonl.gz", gzip.compress(rows(3, 2)))
    store.put("in/3.parquet", table.getvalue())
    run = ("run", "s3://data/in/*", "--name", "all", "--output", "results.jsonl", *LOCAL)
    done = desk.call(*run, environ=store.environment)
    assert done.exit_code == 0, done.stderr
    assert desk.ids() == ["row-0", "row-1", "row-2", "row-3", "row-4", "p-1", "p-2"]
    assert desk.call("status", "all", "--json").summary[0]["source"] == "s3://data/in/*"

    store.put("in/1.jsonl", rows(0, 2) + b'{"custom_id": "row-2", "n": "another"}\n')
    changed = desk.call(*run, environ=store.environment)
    assert changed.exit_code == 2
    assert "s3://data/in/1.jsonl, line 3: " in changed.stderr


@pytest.mark.slow
def test_what_a_store_refuses_is_told_before_anything_is_made(desk: Desk, store: S3Server) -> None:
    desk.write("echo.py", ECHO)
    told = {
        "s3://data/none.jsonl": "there is no such object",
        "s3://data/none-*.jsonl": "no object has a name like that",
        "s3://another/rows.jsonl": "there is no such",
        "s3://me:a-secret-of-mine@data/rows.jsonl": "with a user or a password in it is refused",
        "s3://data/in/": "a folder of a store is no input; name its objects, for example s3://data/in/*.jsonl",
        "ftp://host/rows.jsonl": "ftp:// is not known here",
    }
    for url, why in told.items():
        refused = desk.call("run", url, "--name", "x", *LOCAL, environ=store.environment)
        assert (refused.exit_code, why in refused.stderr) == (2, True), refused.stderr
        assert "a-secret" not in refused.stderr
    assert not (desk.folder / "orchestrator.db").exists()


@pytest.mark.slow
def test_a_signed_address_is_read_where_it_broke_and_its_signature_is_kept_nowhere(desk: Desk) -> None:
    desk.write("echo.py", ECHO)
    with serving(WebObject(rows(0, 40), cut_after=[1, 600])) as served:
        address = f"{served.url}?X-Amz-Signature=hush-hush"
        done = desk.call("run", address, *LOCAL, "--output", "results.jsonl", "--log-file", "log.txt")
        assert done.exit_code == 0, done.stderr
        assert len(desk.ids()) == 40
        assert served.asked[-1] == ("bytes=600-", '"first"')
    with closing(sqlite3.connect(desk.folder / "orchestrator.db")) as ledger:
        assert ledger.execute("SELECT name, source FROM runs").fetchall() == [("rows", f"{served.url}?...")]
    said = done.stdout + done.stderr + (desk.folder / "log.txt").read_text()
    kept = b"".join(path.read_bytes() for path in desk.folder.glob("orchestrator.db*"))
    assert "hush" not in said
    assert b"hush" not in kept


@pytest.mark.slow
def test_one_that_is_changed_while_it_is_read_is_refused_whole(desk: Desk) -> None:
    desk.write("echo.py", ECHO)
    with serving(WebObject(rows(0, 40))) as served:
        served.cut_after, served.then = [1, 600], [rows(0, 40), rows(5, 40)]
        done = desk.call("run", served.url, *LOCAL)
    assert done.exit_code == 2
    assert "from here on it cannot be read: it was changed meanwhile" in done.stderr


def test_a_first_configuration_file_may_name_them(desk: Desk) -> None:
    desk.write("echo.py", ECHO)
    first = ("init", *LOCAL, "--output", "s3://data/out/results.jsonl", "--json", "--input")
    with serving(WebObject(rows(0, 1))) as served:
        made = desk.call(*first, served.url)
        assert (made.exit_code, made.summary["input_exists"]) == (0, True)
        assert 'output = "s3://data/out/results.jsonl"' in (desk.folder / "orchestrator.toml").read_text()
        served.refuse = [404]
        assert not desk.call(*first, served.url, "--force").summary["input_exists"]


@pytest.mark.slow
def test_nobody_is_asked_again_for_what_a_pattern_has_just_found(desk: Desk, store: S3Server) -> None:
    for n in range(3):
        store.put(f"listed/{n}.jsonl", rows(n, 1))
    desk.write("echo.py", ECHO)
    with gate_before(store.environment["AWS_ENDPOINT_URL"]) as gate:
        environ = {**store.environment, "AWS_ENDPOINT_URL": gate.url}
        done = desk.call("run", "s3://data/listed/*.jsonl", *LOCAL, "--output", "out.jsonl", environ=environ)
        assert done.exit_code == 0, done
    heads = Counter(path.rpartition("/")[2] for method, path in gate.seen if method == "HEAD")
    found = [heads[f"{n}.jsonl"] for n in range(3)]
    assert found == [2, 2, 2], "as each is opened, and behind its last byte"
