"""What an answer that is none leaves in memory: nothing, and at once."""

import gc
import gzip
import tracemalloc

import anyio
import pytest
from anyio.abc import SocketStream

from orchestrator.client.http.transport import Transport
from orchestrator.clock import SystemClock
from orchestrator.errors import Unanswered, bare
from tests.client.http.test_transport import request_to
from tests.client.raw_server import Handler, answering, read_request, response, serving
from tests.few_files import settled

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both loops: each keeps its connections in its own way."""
    return "asyncio", {"use_uvloop": request.param}


MB = 1_000_000


async def silent(stream: SocketStream) -> None:
    await read_request(stream)
    await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6000000\r\n\r\n" + bytes(MB))
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    "handler",
    [
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 6000000\r\n\r\n" + bytes(MB)),
        answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nF4240\r\n" + bytes(MB) + b"\r\n5\r\nab"),
        answering(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6000000\r\n\r\n"
            + gzip.compress(bytes(MB), 0)
        ),
        answering(response(bytes(3 * MB))),
        answering(response(gzip.compress(bytes(30 * MB), 1), headers="Content-Encoding: gzip\r\n")),
        silent,
    ],
    ids=["cut", "cut chunks", "cut gzip", "too long", "bomb", "silent"],
)
async def test_nothing_stays_of_an_answer_that_is_none(handler: Handler) -> None:
    transport = Transport(SystemClock(), request_s=0.1, body_bytes_max=2 * MB)
    caught: list[Unanswered] = []
    kept = peak = 0
    async with serving(handler) as address:
        request = request_to(address)
        for times in (1, 3):
            gc.collect()
            gc.disable()  # what only it would free is not freed at once
            tracemalloc.start()
            try:
                for _ in range(times):
                    with pytest.raises(Unanswered) as failure:
                        await transport.send(request)
                    caught.append(bare(failure.value))  # as those do who go on with it
                    del failure
                await settled()
                kept, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
                gc.enable()
        await transport.aclose()
    assert len(caught) == 4
    assert (kept < MB / 2, peak < 8 * MB) == (True, True), (kept, peak)
