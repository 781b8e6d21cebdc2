"""The Batch API of a real process, asked by OpenAI's client over sockets: many at once, through kills, with keys."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from openai import AuthenticationError, NotFoundError

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS
from tests.batch_api.harness import lines, request
from tests.system.batch_api_server import KEY_A, KEY_B, MODEL, MODELS, ended, expected, made, said, server, text_of
from tests.system.processes import ROOT, SECONDS_MAX, Desk, looks

pytestmark = [pytest.mark.system, pytest.mark.slow]

SELDOM_S = 8.0
"""Each of a hundred programs asks as often: to answer them costs more than their batches do."""


def test_the_program_of_the_examples_runs_as_it_is(desk: Desk) -> None:
    with server(desk, (ROOT / "examples" / "openai_batch.toml").read_text()) as at:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "openai_batch.py")], cwd=desk.folder,
            env=desk.environment({"OPENAI_BASE_URL": at.base_url, "OPENAI_API_KEY": "any"}),
            capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
    assert "is completed 32 tokens" in done.stdout
    assert "question-1 You said: Why do foxes climb?" in done.stdout


def test_a_hundred_programs_at_once_have_each_a_file_and_a_batch_of_its_own(desk: Desk) -> None:
    def whole(number: int) -> bool:
        client, numbers = at.client(), range(number * 3, number * 3 + 3)
        batch = made(client, text_of(numbers))
        assert client.files.content(batch.input_file_id).content == text_of(numbers)
        return said(client, ended(client, batch, ask_every_s=SELDOM_S)) == expected(numbers)

    with server(desk) as at, ThreadPoolExecutor(100) as programs:
        assert all(programs.map(whole, range(100)))
        assert len([*at.client().batches.list(limit=20)]) == 100


def test_fifty_thousand_requests_come_back_each_with_its_answer(desk: Desk) -> None:
    """What is asked twice is sent once here: `python -m tests.benchmarks batch-api` sends each of them."""
    rows, questions = 50_000, 1_000
    text = lines([{**request(n % questions, MODEL), "custom_id": f"r{n}"} for n in range(rows)])
    with server(desk, MODELS + "once = true\n") as at:
        client = at.client()
        batch = ended(client, made(client, text))
        assert batch.request_counts is not None
        assert (batch.status, batch.request_counts.completed) == ("completed", rows)
        assert said(client, batch) == {f"r{n}": f"You said: hi {n % questions}" for n in range(rows)}


def test_a_batch_goes_on_through_kills_and_its_program_does_not_notice(desk: Desk) -> None:
    rows = 1_500
    with server(desk) as at:
        client = at.client()
        batch = made(client, text_of(range(rows)))
        for wanted in (1, rows // 2):
            for _ in looks():
                now = client.batches.retrieve(batch.id)
                if now.status in POSTED_ENDS or (now.request_counts and now.request_counts.completed >= wanted):
                    break
            at.program.kill()
            at.start()
        batch = ended(client, batch)
        assert batch.status == "completed"
        found = said(client, batch)
        failed = batch.request_counts.failed if batch.request_counts else 0
        assert len(found) + failed == rows, "past the queue what was under way may be held as uncertain"
        assert found.items() <= expected(range(rows)).items()
    assert desk.call("verify", batch.id).exit_code == 0


def test_keys_keep_programs_apart_and_stand_nowhere(desk: Desk) -> None:
    keys = '[batch-api]\nkeys = { a = "env:KEY_A", b = "env:KEY_B" }\n'
    with server(desk, MODELS + keys) as at:
        ours, theirs = at.client(KEY_A), at.client(KEY_B)
        batch = ended(ours, made(ours, text_of(range(3))))
        assert said(ours, batch) == expected(range(3))
        with pytest.raises(NotFoundError):
            theirs.batches.retrieve(batch.id)
        with pytest.raises(NotFoundError):
            theirs.files.content(batch.output_file_id or "")
        with pytest.raises(AuthenticationError):
            at.client("another").files.list()
        shown = desk.call("status", "--json").stdout
        ended_so = at.stop()
    left = [path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()]
    for text in (*left, shown.encode(), ended_so.stderr.encode(), ended_so.stdout.encode()):
        assert KEY_A.encode() not in text
        assert KEY_B.encode() not in text


def test_an_upload_that_is_cut_leaves_nothing_and_a_long_one_takes_no_memory(desk: Desk, tmp_path: Path) -> None:
    with server(desk) as at:
        host, port = at.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port))) as cut:
            head = "POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999\r\n"
            part = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
            cut.sendall(f"{head}Content-Type: multipart/form-data; boundary=b\r\n\r\n{part}{'x' * 100_000}".encode())
        folder = desk.folder / "orchestrator.db.files"
        assert any(not [*folder.iterdir()] for _ in looks())
        before = at.peak_mb
        large = tmp_path / "large.jsonl"
        with large.open("wb") as file:
            for n in range(160):
                file.write(lines([request(n, MODEL, padding="x" * 1_000_000)]))
        with large.open("rb") as file:
            posted = at.client().files.create(file=file, purpose="batch")
        assert posted.bytes == large.stat().st_size > 160_000_000
        assert at.peak_mb - before < 40
        assert at.client().files.delete(posted.id).deleted
