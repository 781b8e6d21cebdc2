"""A service on a loopback port that answers as told, beside a command that runs in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.abc import SocketStream
from anyio.from_thread import start_blocking_portal

from tests.cli.command_line import Result, call
from tests.client.raw_server import read_request, response, serving

KEY = "sk-very-secret-key"


class Service:
    """Gives `replies` (whole answers as bytes; b"" hangs up) in turn, the last one for ever."""

    def __init__(self, *replies: bytes) -> None:
        self.replies = list(replies)
        self.requests: list[bytes] = []
        self.url = ""

    async def handle(self, stream: SocketStream) -> None:
        while True:
            self.requests.append(await read_request(stream))
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            await stream.send(reply)
            if not reply.endswith(END):
                return

    @property
    def asked(self) -> list[str]:
        """`METHOD /path` of each request."""
        return [" ".join(request.decode().split(" ")[:2]) for request in self.requests]

    def body(self, n: int = 0) -> bytes:
        return self.requests[n].split(b"\r\n\r\n", 1)[1]

    def api(self, *arguments: str, input: str | None = None, **environment: str) -> Result:  # noqa: A002
        """`orchestrator api` with these arguments, at this service."""
        variables = {"ORCHESTRATOR_API_KEY": KEY, "ORCHESTRATOR_SERVERLESS_URL": self.url, "COLUMNS": "100"}
        result = call(["api", *arguments], environment={**variables, **environment}, given=input)
        for stream in (result.stdout, result.stderr):
            assert KEY not in stream
            assert "Traceback" not in stream
        return result


END = b"\n"
"""Bodies end with this, so that a cut one can be told from a whole one."""


def ok(body: str) -> bytes:
    return response(body.encode() + END)


def refusal(status: str, body: str = "", headers: str = "") -> bytes:
    return response(body.encode() + END, status=status, headers=headers)


@contextmanager
def service(*replies: bytes) -> Iterator[Service]:
    """A `Service` that is being served, from a thread of its own."""
    served = Service(*replies)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(served.handle)) as address:
        served.url = f"http://{address}"
        yield served
