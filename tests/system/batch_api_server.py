"""`orchestrator serve --batch-api` as a process of its own, and a program that asks it by OpenAI's client, as it is."""

import json
import re
import signal
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from openai import DefaultHttpxClient, OpenAI
from openai.types import Batch

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS
from tests.batch_api.harness import CHAT, lines, request
from tests.system.emulators import emulated
from tests.system.processes import ROOT, Desk, Program, Verdict

HANDLER: Final = f"{ROOT / 'examples' / 'handlers.py'}:chat"
MODEL: Final = "small"
MODELS: Final = f'[models.{MODEL}]\nendpoint = "ep1"\nvia = "openai"\n'
FAST: Final = ("--limit", "openai=100000/1:100")
EMULATOR: Final = ("--handler", HANDLER, "--workers", "16", "--requests-per-worker", "100000")
CERTIFICATES: Final = ssl.create_default_context()
ASK_EVERY_S, ASKS_MAX = 2.0, 90
WITHIN_S: Final = 240.0
KEY_A, KEY_B = "batch-key-a-of-the-test", "batch-key-b-of-the-test"


class Server:
    """One that can be killed and begun again at the same address."""

    def __init__(self, desk: Desk, url: str, within_s: float) -> None:
        self._desk, self._url, self._within_s = desk, url, within_s
        self._address = "127.0.0.1:0"
        self._clients = ExitStack()
        self.program: Program
        self.base_url = ""

    def start(self) -> None:
        """Begins it."""
        environ = {"ORCHESTRATOR_SERVERLESS_URL": self._url, "KEY_A": KEY_A, "KEY_B": KEY_B}
        words = ("serve", "--batch-api", self._address, *FAST)
        self.program = self._desk.start(*words, environ=environ, within_s=self._within_s)
        self.base_url = address_said(self.program)
        self._address = self.base_url.removeprefix("http://").removesuffix("/v1")

    def stop(self) -> Verdict:
        """Ends it in order."""
        self.program.signal(signal.SIGINT)
        ended = self.program.ended()
        assert ended.exit_code == 0, ended
        return ended

    def close(self) -> None:
        """Stops it where it still works, and closes its clients."""
        self._clients.close()
        if not self.program.is_over:
            self.stop()

    def client(self, key: str = "any") -> OpenAI:
        """OpenAI's client, as it is, but for certificates that it has in common with the others: to load them for each of
        a hundred takes seconds.
        """
        http = self._clients.enter_context(DefaultHttpxClient(verify=CERTIFICATES))
        return OpenAI(base_url=self.base_url, api_key=key, max_retries=8, http_client=http)

    @property
    def peak_mb(self) -> float:
        """The most memory that it has had, in units of 10^6 bytes."""
        found = re.search(r"VmHWM:\s+([0-9]+)", Path(f"/proc/{self.program.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024 / 1e6


def address_said(program: Program) -> str:
    """The `base_url` of the Batch API of a program, once it has said it."""
    found = re.search(r"http://[0-9.:]+/v1", program.until_said("the Batch API is at"))
    assert found is not None
    return found[0]


@contextmanager
def server(desk: Desk, configuration: str = MODELS, *, within_s: float = WITHIN_S) -> Iterator[Server]:
    """One over an emulator; what is left of it is killed at the end, and by then `within_s` have not passed."""
    desk.write("orchestrator.toml", configuration)
    with emulated(desk, *EMULATOR, within_s=within_s) as url:
        found = Server(desk, url, within_s)
        found.start()
        try:
            yield found
        finally:
            found.close()


def made(client: OpenAI, text: bytes) -> Batch:
    """A batch of a file with this text."""
    file = client.files.create(file=("in.jsonl", text), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")


def ended(client: OpenAI, batch: Batch, *, asks_max: int = ASKS_MAX, ask_every_s: float = ASK_EVERY_S) -> Batch:
    """The batch once it has ended, for which a program asks now and then."""
    asks = threading.Event()
    for _ in range(asks_max):
        batch = client.batches.retrieve(batch.id)
        if batch.status in POSTED_ENDS:
            return batch
        asks.wait(ask_every_s)
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
    """What it is to have said."""
    return {f"r{n}": f"You said: hi {n}" for n in numbers}


def text_of(numbers: range) -> bytes:
    """A file with requests of these numbers, each of which is another one."""
    return lines([request(n, MODEL) for n in numbers])
