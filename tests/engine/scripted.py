"""A service that answers what the test says, and remembers what it was asked, and when."""

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import anyio
import httpx

from tests.simulation.loop import running_loop


class Asked(NamedTuple):
    """One request: when (virtual seconds), for which operation, about which remote id, with which body."""

    at_s: float
    operation: str
    remote_id: str
    body: bytes


class Reply(NamedTuple):
    """One answer after `after_s`, or the failure to give one."""

    status: int = 200
    body: bytes = b""
    after_s: float = 0.0
    headers: dict[str, str] | None = None
    error: Exception | None = None
    is_of_asked: bool = False
    """Whether the id in it becomes the one that was asked for, or for a `/run` one that names its input."""


Script = Callable[[Asked], Reply]


def says(status: str, remote_id: str | None = None, **fields: Any) -> Reply:
    """A job record, of the job that is asked for unless a `remote_id` is given."""
    body = json.dumps({"id": remote_id or "r-1", "status": status, **fields}).encode()
    return Reply(body=body, is_of_asked=remote_id is None)


ACCEPTED = says("IN_QUEUE")
COMPLETED = says("COMPLETED", output={"ok": 1}, delayTime=10, executionTime=20)
FAILED = says("FAILED", error="boom", delayTime=10, executionTime=20, workerId="w")
IN_PROGRESS = says("IN_PROGRESS")
CANCELLED = says("CANCELLED")
GONE = Reply(404, b'{"error":"job not found"}')
WELL = Reply(body=b"{}")
NOT_FOUND = Reply(404, b'{"error":"not found"}')
REFUSED = Reply(error=httpx.ConnectError("refused"))
CUT = Reply(error=httpx.ReadError("cut"))


def in_turn(*replies: Reply) -> Script:
    """One reply after the other; the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def numbered() -> Script:
    """Accepts each submission under an id that names its input: `{"n":7}` becomes `r-7`."""
    return lambda asked: says("IN_QUEUE", _named(asked))


def _named(asked: Asked) -> str:
    return asked.remote_id or f"r-{json.loads(asked.body)['input']['n']}"


class Scripted(httpx.AsyncBaseTransport):
    """A transport; each operation has a script, or one reply for all."""

    def __init__(
        self,
        *,
        run: Script | Reply = ACCEPTED,
        status: Script | Reply = IN_PROGRESS,
        retry: Script | Reply = ACCEPTED,
        health: Script | Reply = WELL,
        cancel: Script | Reply = CANCELLED,
        openai: Script | Reply = NOT_FOUND,
        stream: Script | Reply = NOT_FOUND,
        runsync: Script | Reply = NOT_FOUND,
    ) -> None:
        self.scripts = {
            "run": run, "status": status, "retry": retry, "health": health, "cancel": cancel, "openai": openai,
            "stream": stream, "runsync": runsync,
        }  # fmt: skip
        self.asked: list[Asked] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        _, _, path = request.url.path.removeprefix("/v2/").partition("/")  # whichever endpoint
        operation, _, remote_id = path.partition("/")
        asked = Asked(running_loop().time(), operation, remote_id, request.content)
        self.asked.append(asked)
        script = self.scripts[operation]
        reply = script if isinstance(script, Reply) else script(asked)
        await anyio.sleep(reply.after_s)
        if reply.error is not None:
            raise reply.error
        body = reply.body
        if reply.is_of_asked:
            body = body.replace(b'"id": "r-1"', b'"id": "%s"' % _named(asked).encode(), 1)
        return httpx.Response(reply.status, content=body, headers=reply.headers)

    def times(self, operation: str) -> list[float]:
        """When `operation` was asked for, in virtual seconds to the millisecond."""
        return [round(asked.at_s, 3) for asked in self.of(operation)]

    def since_sent(self, operation: str) -> list[float]:
        """The same, counted from the first `/run`."""
        sent_s = self.of("run")[0].at_s
        return [round(asked.at_s - sent_s, 3) for asked in self.of(operation)]

    def of(self, operation: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.operation == operation]


def gaps(times: Iterable[float]) -> list[float]:
    """The pauses between `times`."""
    return [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
