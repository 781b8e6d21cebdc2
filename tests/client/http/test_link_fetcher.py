"""What links of outputs lead to, over real sockets: hosts that lie, endless bodies, ways into our own network."""

import gzip

import pytest
from anyio.abc import SocketStream

from orchestrator.client.http.link_fetcher import REDIRECTS_MAX, fetched_link
from orchestrator.errors import Unanswered
from tests.client.raw_server import answering, closed_port, read_request, response, serving

pytestmark = pytest.mark.anyio

HERE = ("127.0.0.0/8", "::1")


async def fetched(
    url: str, *, networks: tuple[str, ...] = HERE, bytes_max: int = 1_000_000, pages: bool = False
) -> bytes:
    pieces = fetched_link(url, networks=networks, bytes_max=bytes_max, pages=pages)
    return b"".join([piece async for piece in pieces])


async def why_not(url: str, *, networks: tuple[str, ...] = HERE) -> str:
    with pytest.raises(Unanswered) as refused:
        await fetched(url, networks=networks)
    return str(refused.value)


async def test_it_is_fetched_by_one_request_without_any_key() -> None:
    seen: list[bytes] = []

    async def handler(stream: SocketStream) -> None:
        seen.append(await read_request(stream))
        await stream.send(response(b"\x89PNG"))

    async with serving(handler) as address:
        assert await fetched(f"http://{address}/a.png?X-Amz-Signature=a%2Fb") == b"\x89PNG"
    [request] = seen
    head = request.decode().lower()
    assert head.startswith("get /a.png?x-amz-signature=a%2fb http/1.1\r\n")
    assert "authorization" not in head
    assert "cookie" not in head


async def test_an_address_that_is_not_public_is_not_even_connected_to() -> None:
    seen: list[bytes] = []

    async def handler(stream: SocketStream) -> None:
        seen.append(await read_request(stream))

    async with serving(handler) as address:
        port = address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            why = await why_not(f"http://{host}:{port}/", networks=())
            assert "which is no public address" in why
    assert seen == []


async def test_a_redirect_is_followed_and_looked_at_like_the_link() -> None:
    async with serving(answering(response(b"whole"))) as there:
        moved = response(b"", status="302 Found", headers=f"Location: http://{there}/b\r\n")
        async with serving(answering(moved)) as address:
            assert await fetched(f"http://{address}/a") == b"whole"


async def test_a_redirect_into_our_network_is_refused() -> None:
    inside = response(b"", status="307 Temporary Redirect", headers="Location: http://127.0.0.2:9/secret\r\n")
    async with serving(answering(inside)) as address:
        why = await why_not(f"http://{address}/", networks=("127.0.0.1/32",))
    assert why == "it leads to 127.0.0.2, which is no public address"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://example.org/x", "gopher://127.0.0.1/"])
async def test_a_redirect_to_another_kind_of_address_is_refused(location: str) -> None:
    moved = response(b"", status="302 Found", headers=f"Location: {location}\r\n")
    async with serving(answering(moved)) as address:
        assert "no http:// or https:// link" in await why_not(f"http://{address}/")


async def test_redirects_come_to_an_end() -> None:
    asked = 0

    async def handler(stream: SocketStream) -> None:
        nonlocal asked
        await read_request(stream)
        asked += 1
        await stream.send(response(b"", status="302 Found", headers="Location: /again\r\n"))

    async with serving(handler) as address:
        assert await why_not(f"http://{address}/") == f"it was redirected more than {REDIRECTS_MAX} times"
    assert asked == REDIRECTS_MAX + 1


async def test_a_body_without_an_end_is_left_once_it_is_too_large() -> None:
    async def handler(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            await stream.send(b"x" * 65_536)

    async with serving(handler) as address:
        assert await why_not(f"http://{address}/") == "it is larger than 1,000,000 bytes"


async def test_a_bomb_is_left_once_it_is_too_large() -> None:
    packed = gzip.compress(b"\0" * 50_000_000)
    async with serving(answering(response(packed, headers="Content-Encoding: gzip\r\n"))) as address:
        assert await why_not(f"http://{address}/") == "it is larger than 1,000,000 bytes"


@pytest.mark.parametrize(("body", "kind"), [(b"<html>", "image/png"), (b"<script>", "text/html")])
async def test_a_page_in_the_place_of_a_file_is_refused_and_fetched_where_it_is_wanted(body: bytes, kind: str) -> None:
    async def handler(stream: SocketStream) -> None:
        await read_request(stream)
        head, _, rest = response(body + b"x" * 5_000, headers=f"Content-Type: {kind}\r\n").partition(body)
        await stream.send(head)
        for byte in body:  # one at a time, as slow servers do
            await stream.send(bytes([byte]))
        await stream.send(rest)

    async with serving(handler) as address:
        assert await why_not(f"http://{address}/a.png") == "127.0.0.1 answered with a page of HTML in place of it"
        assert await fetched(f"http://{address}/a.png", pages=True) == body + b"x" * 5_000


@pytest.mark.parametrize("size", [0, 1, 5_000, 300_000])
async def test_what_is_no_page_is_fetched_whole_whatever_its_size(size: int) -> None:
    async with serving(answering(response(b"\x89" * size, headers="Content-Type: text/html\r\n"))) as address:
        assert await fetched(f"http://{address}/a.png") == b"\x89" * size


async def test_a_body_that_is_cut_is_no_file() -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) as address:
        assert await why_not(f"http://{address}/") == "it ended in the middle"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (response(b"", status="404 Not Found"), "127.0.0.1 answered 404"),
        (response(b"", status="403 Forbidden"), "127.0.0.1 answered 403"),
        (response(b"", status="302 Found"), "127.0.0.1 answered 302"),
        (b"garbage\r\n\r\n", "no answer (ClientResponseError)"),
        (b"", "no answer (ServerDisconnectedError)"),
    ],
)
async def test_what_is_no_success_is_told_without_the_path(answer: bytes, why: str) -> None:
    async with serving(answering(answer)) as address:
        assert await why_not(f"http://{address}/secret?signature=secret") == why


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://nowhere.invalid/", "its host is not known"),
        ("http:///x", "it leads to something that is no http:// or https:// link"),
        ("http://[::1", "it is no URL"),
        ("http://127.0.0.1:99999/", "it is no URL"),
    ],
)
async def test_what_leads_nowhere_is_told(url: str, why: str) -> None:
    assert await why_not(url) == why


async def test_where_nobody_listens_that_is_told() -> None:
    assert await why_not(f"http://{closed_port()}/") == "no connection: Connection refused"
