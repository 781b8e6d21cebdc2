"""A message to a URL of the user's, over real sockets."""

from contextlib import suppress

import anyio
import pytest
from anyio.abc import SocketStream

from orchestrator.client.http.posts import post_notification
from orchestrator.clock import SystemClock
from orchestrator.errors import NotSent
from tests.client.raw_server import answering, closed_port, read_request, response, serving

pytestmark = pytest.mark.anyio


async def test_it_arrives_with_its_headers_and_without_any_key() -> None:
    seen: list[bytes] = []

    async def handler(stream: SocketStream) -> None:
        seen.append(await read_request(stream))
        await stream.send(response(b"<html>thanks</html>", status="202 Accepted"))

    async with serving(handler) as address:
        answer = await post_notification(f"http://{address}/T0/x", {"webhook-id": "msg_1"}, b'{"a":1}', SystemClock())
    assert answer.status == 202
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /t0/x http/1.1"
    assert {"webhook-id: msg_1", "content-type: application/json"} <= set(lines)
    assert not any(line.startswith(("authorization", "cookie")) for line in lines)
    assert body == b'{"a":1}'


async def test_a_redirect_is_an_answer() -> None:
    seen: list[bytes] = []

    async def handler(stream: SocketStream) -> None:
        seen.append(await read_request(stream))
        await stream.send(response(b"", status="302 Found", headers="Location: /elsewhere\r\n"))

    async with serving(handler) as address:
        assert (await post_notification(f"http://{address}/", {}, b"{}", SystemClock())).status == 302
    assert len(seen) == 1


async def test_an_error_names_the_host_and_not_the_path() -> None:
    with pytest.raises(NotSent) as refused:
        await post_notification(f"http://{closed_port()}/very-secret", {}, b"{}", SystemClock())
    assert "127.0.0.1" in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_an_answer_is_taken_whatever_it_says() -> None:
    async with serving(answering(response(b"not even JSON \xff"))) as address:
        assert (await post_notification(f"http://{address}/", {}, b"{}", SystemClock())).status == 200


async def test_an_answer_is_taken_however_long_it_is_and_whether_or_not_it_ever_ends() -> None:
    async def handler(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(
            response(b"", headers="Transfer-Encoding: chunked\r\n").replace(b"Content-Length: 0\r\n", b"")
        )
        with suppress(anyio.BrokenResourceError):
            for _ in range(10):
                await stream.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
            await anyio.sleep_forever()

    async with serving(handler) as address:
        with anyio.fail_after(5):
            assert (await post_notification(f"http://{address}/", {}, b"{}", SystemClock())).status == 200
