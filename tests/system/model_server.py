"""A server of a language model, as far as a batch can tell: OpenAI's chat completions and a path of its own, by ASGI.

    python -m tests.system.model_server

serves on a free port of this machine, which it prints, until its standard input ends. It misbehaves by the number that
an input has, the first time that it is asked for it: see `Trouble`. `GET /seen` says how often which number was executed,
and which credentials came.
"""

import socket
import sys
from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Any, Final

import anyio
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

EVERY: Final = 50
"""Of so many numbers each trouble befalls one."""

BACKLOG: Final = 1_024
WORK_S: Final = 0.02
SLOW_S: Final = 1.0
STREAMED: Final = ("Once", " upon", " a time")


class Trouble(IntEnum):
    """What befalls the numbers that leave this rest."""

    THROTTLED = 7
    FAILED = 8
    SLOW = 10
    CUT = 11
    BUSY = 12
    GATEWAY = 13


REFUSALS: Final[Mapping[int | None, int]] = {Trouble.THROTTLED: 429, Trouble.BUSY: 503}
FAILURES: Final[Mapping[int | None, int]] = {Trouble.FAILED: 500, Trouble.GATEWAY: 502}


class Seen:
    """What was asked, and what was done."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.executed: Counter[int] = Counter()
        self.credentials: Counter[str] = Counter()


class _Cut(Response):
    """An answer of which a half comes."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]}
        await send(head)
        await send({"type": "http.response.body", "body": b'{"n":', "more_body": True})
        raise ConnectionAbortedError


def application() -> Starlette:
    """The server, which remembers what it did."""
    seen = Seen()

    async def work(request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        number = int(body["n"])
        seen.credentials[request.headers.get("authorization", "none")] += 1
        seen.asked[number] += 1
        trouble = number % EVERY if seen.asked[number] == 1 else None
        if trouble in REFUSALS:
            return JSONResponse({"error": "no room"}, status_code=REFUSALS[trouble], headers={"retry-after": "0.2"})
        seen.executed[number] += 1
        await anyio.sleep(SLOW_S if trouble == Trouble.SLOW else WORK_S)
        if trouble in FAILURES:
            return JSONResponse({"error": {"message": "CUDA out of memory"}}, status_code=FAILURES[trouble])
        if trouble == Trouble.CUT:
            return _Cut()
        if body.get("stream"):
            return StreamingResponse(_pieces(number), media_type="text/event-stream")
        return JSONResponse(
            {"n": number, "choices": [{"message": {"role": "assistant", "content": "".join(STREAMED)}}]}
        )

    async def tell(_request: Request) -> Response:
        return JSONResponse({"executed": dict(seen.executed), "credentials": dict(seen.credentials)})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", work, methods=["POST"]),
            Route("/generate", work, methods=["POST"]),
            Route("/health", lambda _: Response()),
            Route("/seen", tell),
        ]
    )


async def _pieces(number: int) -> Any:
    for word in STREAMED:
        yield f'data: {{"n":{number},"choices":[{{"delta":{{"content":"{word}"}}}}]}}\n\n'
        await anyio.sleep(WORK_S / len(STREAMED))
    yield "data: [DONE]\n\n"


app: Final = application()
"""For whoever serves it by its name, as the emulator does."""


async def _serve(listener: socket.socket) -> None:
    server = uvicorn.Server(uvicorn.Config(application(), log_level="critical", lifespan="off"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(server.serve, sockets=[listener]))
        await to_thread.run_sync(sys.stdin.read)
        server.should_exit = server.force_exit = True


def main() -> None:
    """Serves until its standard input ends."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        listener.listen(BACKLOG)
        anyio.run(_serve, listener)


if __name__ == "__main__":
    main()
