"""Answers that come piece by piece, as told or as an application gives them; the transports of httpx wait for the end."""

from collections.abc import AsyncIterator, Sequence

import anyio
import anyio.abc
import httpx
from starlette.types import ASGIApp, Message

from orchestrator.emulator.contract.answers import ConnectionCut

EVENTS = {"content-type": "text/event-stream"}
Step = bytes | float | Exception
"""What comes, how many seconds pass (for tests on `virtual_time`), or how the connection ends; without an end of
that kind, the answer is whole."""


class Pieces(httpx.AsyncByteStream):
    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self.steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await anyio.sleep(step)


class Streams(httpx.AsyncBaseTransport):
    """Gives its answers in turn, the last one for ever: a stream of events by its steps, or a whole one."""

    def __init__(self, *answers: Sequence[Step] | httpx.Response) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, httpx.Response):
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return httpx.Response(200, headers=EVENTS, stream=Pieces(answer))


class Live(httpx.AsyncBaseTransport):
    """Carries requests to `app`, whose answers are read while it makes them, in tasks of `group`."""

    def __init__(self, app: ASGIApp, group: anyio.abc.TaskGroup) -> None:
        self._app = app
        self._group = group

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        puts, gets = anyio.create_memory_object_stream[Message | Exception](1_000)
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        has_asked = False

        async def receive() -> Message:
            nonlocal has_asked
            if has_asked:
                await anyio.sleep_forever()
            has_asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def run() -> None:
            with puts:
                try:
                    await self._app(scope, receive, puts.send)
                except ConnectionCut:
                    await puts.send(httpx.ReadError("cut"))
                except anyio.BrokenResourceError:  # nobody reads any more
                    return

        self._group.start_soon(run)
        head = await gets.receive()
        if isinstance(head, Exception):
            gets.close()
            raise head
        return httpx.Response(head["status"], headers=head["headers"], stream=_Body(gets))


class _Body(httpx.AsyncByteStream):
    def __init__(self, gets: "anyio.abc.ObjectReceiveStream[Message | Exception]") -> None:
        self._gets = gets

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._gets:
            if isinstance(message, Exception):
                raise message
            yield message.get("body", b"")

    async def aclose(self) -> None:
        await self._gets.aclose()
