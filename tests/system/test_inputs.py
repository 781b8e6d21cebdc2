"""Inputs in the formats that people have, run to their results."""

import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.system.processes import Desk

pytestmark = pytest.mark.system

ECHO = "def echo(job):\n    return job['input']\n"
LOCAL = "local:echo.py:echo"


def outputs(desk: Desk) -> dict[str, object]:
    return {row["custom_id"]: row["output"] for row in desk.rows()}


def test_several_tables_are_mapped_to_one_run_which_remembers_how(desk: Desk) -> None:
    desk.write("echo.py", ECHO)
    desk.write("a.txt", "key,caption,n\n1,a fox,5\n2,a hen,6\n")
    desk.write("b.txt.gz", gzip.compress(b"key,caption,n\n3,an owl,7\n"))
    mapped = ("--format", "csv", "--id-field", "key", "--types", "n=int", "--max-input-bytes", "1000")
    templates = ("--map", "prompt={{ row.caption }}!", "--map", "steps={{ row.n * 2 }}")
    run = ("run", "a.txt", "b.txt.gz", "--name", "birds", "--endpoint", LOCAL, "--output", "results.jsonl")
    assert desk.call(*run, *mapped, *templates).exit_code == 0
    assert outputs(desk) == {
        "1": {"prompt": "a fox!", "steps": 10},
        "2": {"prompt": "a hen!", "steps": 12},
        "3": {"prompt": "an owl!", "steps": 14},
    }
    desk.write("b.txt.gz", gzip.compress(b"key,caption,n\n3,an owl,7\n4,an emu,8\n"))
    again = desk.call(*run)
    assert "--map 'prompt={{ row.caption }}!'" in again.stderr
    assert outputs(desk)["4"] == {"prompt": "an emu!", "steps": 16}
    assert desk.call(*run, "--max-input-bytes", "20", "--output", "other.jsonl").exit_code == 2


def test_parquet_with_its_inputs_in_a_column_and_requests_of_a_batch_go_through(desk: Desk) -> None:
    desk.write("echo.py", ECHO)
    table = pa.table({"id": ["x"], "job": [{"prompt": "a fox", "n": 2**60}]})
    parquet.write_table(table, desk.folder / "a.parquet")
    flags = ("--endpoint", LOCAL, "--output", "results.jsonl")
    assert desk.call("run", "a.parquet", *flags, "--id-field", "id", "--input-field", "job").exit_code == 0
    assert outputs(desk) == {"x": {"prompt": "a fox", "n": 2**60}}

    body = {"model": "m", "messages": []}
    request = {"custom_id": "r", "method": "POST", "url": "/v1/chat/completions", "body": body}
    desk.write("batch.jsonl", json.dumps(request))
    assert desk.call("run", "batch.jsonl", *flags[:3], "batch-results.jsonl").exit_code == 0
    [row] = desk.rows("batch-results.jsonl")
    assert row["output"] == {"openai_route": "/v1/chat/completions", "openai_input": body}
