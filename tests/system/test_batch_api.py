"""The Batch API of a real process, asked by OpenAI's client over sockets: many at once, through kills, with keys."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from openai import AuthenticationError, NotFoundError, OpenAI
from openai.types import Batch

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS
from tests.batch_api.harness import CHAT, lines, request
from tests.system.emulators import emulated
from tests.system.processes import ROOT, SECONDS_MAX, Desk, Program, Verdict, looks

pytestmark = [pytest.mark.system, pytest.mark.slow]

HANDLER: Final = f"{ROOT / 'examples' / 'handlers.py'}:chat"
MODELS: Final = '[models.small]\nendpoint = "ep1"\nvia = "openai"\n'
FAST: Final = ("--limit", "openai=100000/1:100")
EMULATOR: Final = ("--handler", HANDLER, "--workers", "16", "--requests-per-worker", "100000")
ASK_EVERY_S, ASKS_MAX = 2.0, 90
KEY_A, KEY_B = "batch-key-a-of-the-test", "batch-key-b-of-the-test"


class Server:
    """`orchestrator serve --batch-api`, which can be killed and begun again at the same address."""

    def __init__(self, desk: Desk, url: str) -> None:
        self._desk, self._url = desk, url
        self._address = "127.0.0.1:0"
        self.program: Program
        self.base_url = ""

    def start(self) -> None:
        """Begins it."""
        environ = {"ORCHESTRATOR_SERVERLESS_URL": self._url, "KEY_A": KEY_A, "KEY_B": KEY_B}
        self.program = self._desk.start("serve", "--batch-api", self._address, *FAST, environ=environ, within_s=240)
        found = re.search(r"http://([0-9.:]+)/v1", self.program.until_said("the Batch API is at"))
        assert found is not None
        self.base_url, self._address = found[0], found[1]

    def stop(self) -> Verdict:
        """Ends it in order."""
        self.program.signal(signal.SIGINT)
        ended = self.program.ended()
        assert ended.exit_code == 0, ended
        return ended

    def client(self, key: str = "any") -> OpenAI:
        """OpenAI's client, as it is."""
        return OpenAI(base_url=self.base_url, api_key=key, max_retries=8)


@contextmanager
def server(desk: Desk, configuration: str = MODELS) -> Iterator[Server]:
    """One over an emulator; what is left of it is killed at the end."""
    desk.write("orchestrator.toml", configuration)
    with emulated(desk, *EMULATOR, within_s=240) as url:
        found = Server(desk, url)
        found.start()
        try:
            yield found
        finally:
            if not found.program.is_over:
                found.stop()


def made(client: OpenAI, text: bytes) -> Batch:
    file = client.files.create(file=("in.jsonl", text), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")


def ended(client: OpenAI, batch: Batch) -> Batch:
    """The batch once it has ended, for which a program asks now and then."""
    asks = threading.Event()
    for _ in range(ASKS_MAX):
        batch = client.batches.retrieve(batch.id)
        if batch.status in POSTED_ENDS:
            return batch
        asks.wait(ASK_EVERY_S)
    raise AssertionError(f"never ended: {batch}")


def said(client: OpenAI, batch: Batch) -> dict[str, str]:
    """What the model has said, by the ids of the requests, each of which stands there once."""
    assert batch.output_file_id is not None, batch
    found: dict[str, str] = {}
    for line in client.files.content(batch.output_file_id).text.splitlines():
        row: dict[str, Any] = json.loads(line)
        assert row["custom_id"] not in found
        found[row["custom_id"]] = row["response"]["body"]["choices"][0]["message"]["content"]
    return found


def expected(numbers: range) -> dict[str, str]:
    return {f"r{n}": f"You said: hi {n}" for n in numbers}


def text_of(numbers: range) -> bytes:
    return lines([request(n, "small") for n in numbers])


def test_the_program_of_the_examples_runs_as_it_is(desk: Desk) -> None:
    with server(desk, (ROOT / "examples" / "openai_batch.toml").read_text()) as at:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "openai_batch.py")], cwd=desk.folder,
            env=desk.environment({"OPENAI_BASE_URL": at.base_url, "OPENAI_API_KEY": "any"}),
            capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
    assert "is completed" in done.stdout
    assert "question-1 You said: Why do foxes climb?" in done.stdout


def test_a_hundred_programs_at_once_get_each_its_own(desk: Desk) -> None:
    """Each posts a file and reads it back; every fifth has a batch of it besides."""

    def whole(number: int) -> bool:
        client, numbers = at.client(), range(number * 3, number * 3 + 3)
        file = client.files.create(file=("in.jsonl", text_of(numbers)), purpose="batch")
        is_own = client.files.content(file.id).content == text_of(numbers)
        if number % 5:
            return is_own and client.files.delete(file.id).deleted
        return said(client, ended(client, made(client, text_of(numbers)))) == expected(numbers)

    with server(desk) as at, ThreadPoolExecutor(100) as programs:
        assert all(programs.map(whole, range(100)))


def test_fifty_thousand_requests_come_back_each_with_its_answer(desk: Desk) -> None:
    rows, questions = 50_000, 1_000
    text = lines([{**request(n % questions, "small"), "custom_id": f"r{n}"} for n in range(rows)])
    with server(desk, MODELS + "once = true\n") as at:  # what is asked twice is sent once
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
        before = high_water(at.program.pid)
        large = tmp_path / "large.jsonl"
        with large.open("wb") as file:
            for n in range(160):
                file.write(lines([request(n, "small", padding="x" * 1_000_000)]))
        with large.open("rb") as file:
            posted = at.client().files.create(file=file, purpose="batch")
        assert posted.bytes == large.stat().st_size > 160_000_000
        assert high_water(at.program.pid) - before < 40_000
        assert at.client().files.delete(posted.id).deleted


def high_water(pid: int) -> int:
    """The most memory that the process has had, in KiB."""
    found = re.search(r"VmHWM:\s+([0-9]+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])
