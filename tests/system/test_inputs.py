"""Inputs in the formats that people have, run to their results."""

import gzip
import json
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.system.processes import Desk

pytestmark = pytest.mark.system

ECHO = "def echo(job):\n    return job['input']\n"
LOCAL = "local:echo.py:echo"


VLLM = """
def answer(job):
    route, body = job["input"]["openai_route"], job["input"]["openai_input"]
    assert route == "/v1/chat/completions"
    if body["messages"][0]["content"] == "break":
        raise ValueError("no")
    if "max_tokens" in body:
        return [{"object": "error", "message": "too many", "type": "BadRequestError", "param": None, "code": 400}]
    message = {"role": "assistant", "content": body["messages"][0]["content"].upper()}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
             "choices": [choice], "usage": usage}]
"""
"""As the service's vLLM worker: what it yields comes as an array."""


def outputs(desk: Desk) -> dict[str, object]:
    return {row["custom_id"]: row["output"] for row in desk.rows()}


@pytest.mark.slow
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


@pytest.mark.slow
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


def request(custom_id: str, content: str, **more: object) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **more}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body})


@pytest.mark.slow
def test_a_batch_comes_back_as_its_own_kind_of_file_which_openai_s_types_read(desk: Desk) -> None:
    chat = pytest.importorskip("openai.types.chat")
    desk.write("vllm.py", VLLM)
    requests = [request("a", "grüße"), request("b", "break"), request("c", "x", max_tokens=10**9)]
    desk.write("batch.jsonl", "\n".join(requests))
    flags = ("--output", "answers.jsonl", "--output-format", "openai-batch", "--max-attempts", "1")
    assert desk.call("run", "batch.jsonl", "--endpoint", "local:vllm.py:answer", *flags).exit_code == 1
    answered, refused = desk.rows("answers.jsonl")
    completion = chat.ChatCompletion.model_validate(answered["response"]["body"], strict=True)
    assert (answered["custom_id"], answered["error"]) == ("a", None)
    assert (completion.choices[0].message.content, completion.usage.total_tokens) == ("GRÜSSE", 2)
    assert (refused["custom_id"], refused["response"]["status_code"]) == ("c", 400)
    [failed] = desk.rows("answers.jsonl.errors.jsonl")
    error = pytest.importorskip("openai.types.batch_error").BatchError.model_validate(failed["error"])
    assert (failed["custom_id"], failed["response"], error.code) == ("b", None, "failed")
    verified = desk.call("verify", "--output", "answers.jsonl", "--name", "batch")
    assert verified.exit_code == 0, verified

    direct = ("--via", "openai", "--name", "direct", "--output", "direct.jsonl", *flags[2:])
    ended = desk.call("run", "batch.jsonl", "--endpoint", "local:vllm.py:answer", *direct)
    assert ended.exit_code == 1, ended
    assert [line_of(row) for row in desk.rows("direct.jsonl")] == [line_of(answered), line_of(refused)]
    [failed_too] = desk.rows("direct.jsonl.errors.jsonl")
    assert (failed_too["custom_id"], failed_too["response"], failed_too["error"]["code"]) == ("b", None, "failed")
    verified = desk.call("verify", "--output", "direct.jsonl", "--name", "direct")
    assert verified.exit_code == 0, verified


def line_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a line says, but for the ids that the service gave."""
    return row["custom_id"], row["response"]["status_code"], row["response"]["body"], row["error"]


@pytest.mark.slow
def test_in_the_folder_of_its_ledger_a_run_takes_no_file_of_its_own_for_an_input(desk: Desk) -> None:
    (desk.folder / "texts").mkdir()
    desk.write("echo.py", ECHO)
    for name in ("a.txt", "b.txt"):
        desk.write(f"texts/{name}", name)
    flags = ("--name", "texts", "--endpoint", LOCAL, "--ledger", "texts/l.db")
    files = ("--output", "texts/out.jsonl", "--log-file", "texts/log.txt")
    for _ in range(2):
        ended = desk.call("run", "texts", *flags, *files)
        assert ended.exit_code == 0, ended
        assert [row["output"]["name"] for row in desk.rows("texts/out.jsonl")] == ["a.txt", "b.txt"]


@pytest.mark.slow
def test_a_run_writes_what_it_was_told_and_goes_on_so(desk: Desk) -> None:
    desk.write(
        "echo.py",
        "def echo(job):\n    if job['input']['n'] == 3:\n        raise ValueError('x')\n    return job['input']\n",
    )
    desk.write(
        "in.jsonl", "\n".join(f'{{"custom_id":"r{n}","input":{{"n":{n},"tags":["t{n}"]}}}}' for n in range(1, 6))
    )
    command = ("run", "in.jsonl", "--endpoint", LOCAL, "--max-attempts", "1")
    flags = ("--output", "out.parquet", "--split", "2", "--order", "completion", "--flatten", "output.n")
    assert desk.call(*command, *flags, "--errors", "failed.csv").exit_code == 1
    parts = sorted(each.name for each in desk.folder.glob("out*"))
    assert parts == ["out-00001.parquet", "out-00002.parquet"]
    found = [row for part in parts for row in parquet.read_table(desk.folder / part).to_pylist()]
    assert sorted(row["output.n"] for row in found) == [1, 2, 4, 5]
    assert (desk.folder / "failed.csv").read_text().splitlines()[1].startswith("r3,")
    verified = desk.call("verify", "--output", "out.parquet", "--errors", "failed.csv", "--complete")
    assert verified.exit_code == 0, verified
    misfit = desk.call("resume", "in", "--flatten", "output.tags")
    assert misfit.exit_code == 2
    assert "output.tags is an array, and a column has values of one type" in misfit.stderr
    again = desk.call("resume", "in", "--flatten", "output.tags", "--on-misfit", "json")
    assert "--split 2" in again.stderr
    [first, _] = parquet.read_table(desk.folder / parts[0]).to_pylist()
    assert first["output.tags"].startswith('["t')
    tampered = desk.folder / parts[1]
    parquet.write_table(parquet.read_table(tampered).slice(1), tampered)
    assert "has no line for" in desk.call("verify", "--output", "out.parquet", "--errors", "failed.csv").stdout
