"""What the tests of the listener send, and the sink that takes what comes of it."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import anyio.lowlevel

from orchestrator.core.service.addresses import Address
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import KEY_BYTES, Notice, token

KEY = bytes(range(KEY_BYTES))

BODY = (
    b'{"delayTime":512,"executionTime":40,"id":"ab12-u1","input":{"prompt":"echoed"},'
    b'"output":{"n":1},"status":"COMPLETED","webhook":"https://example.com/hooks/%s"}' % token(KEY, 7).encode()
)
RECORD = Record(remote_id="ab12-u1", status="COMPLETED", output=b'{"n":1}', delay_ms=512, execution_ms=40)


def hook(submission: int = 7) -> str:
    """The path of the webhook of `submission`."""
    return f"/hooks/{token(KEY, submission)}"


class Sink:
    """A `NoticeSink` that keeps what it is told, or raises `error`. Noting ends when `gate` is set (it is at first)."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.error: Exception | None = None
        self.gate = anyio.Event()
        self.gate.set()
        self.entered = anyio.Event()

    def close_gate(self) -> None:
        self.gate = anyio.Event()

    async def note(self, notice: Notice) -> None:
        self.entered.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.notices.append(notice)


class StillClock:
    """A clock that stands."""

    def __init__(self, now_at: int = 1_000_000) -> None:
        self.now_at = now_at

    def now(self) -> int:
        return self.now_at


def http(method: str, path: str, body: bytes | None = b"", *headers: str) -> bytes:
    """The bytes of a request, the path as it stands here; with a body of None no length is declared."""
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, *length, "", ""])
    return head.encode() + (body or b"")


class Wire:
    """A plain connection to a listener: what is sent is what stands in the test."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        self._stream: anyio.abc.SocketStream = await anyio.connect_tcp(*self._address)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.aclose()

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def head(self) -> bytes:
        """The next answer's head; the answers of the tests have no bodies."""
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += await self._stream.receive(1)
        return data

    async def status(self) -> int:
        return int((await self.head()).split(b" ", 2)[1])

    async def ask(self, data: bytes) -> int:
        await self.send(data)
        return await self.status()

    async def rest(self) -> bytes:
        """All that still comes until the other side closes."""
        data = b""
        while True:
            try:
                data += await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return data


async def forever(first: bytes) -> AsyncIterator[bytes]:
    """A body that begins and never goes on."""
    yield first
    await anyio.sleep_forever()
