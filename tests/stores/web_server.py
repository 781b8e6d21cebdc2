"""A web server of one object, which knows ranges and conditions, and can be told to do wrong."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler

from tests.http_server import listening

CHUNK = 16 * 1024


@dataclass
class WebObject:
    """What is served, and how."""

    data: bytes
    tag: str = '"first"'
    has_ranges: bool = True
    has_conditions: bool = True
    cut_after: list[int] = field(default_factory=list)
    """Each of the next answers ends, with its connection, behind so many bytes."""

    silent_after: list[int] = field(default_factory=list)
    """Each of the next answers comes no further than so many bytes, and its connection stays; -1: not even its status."""

    answered_before: int = 0
    """So many requests are answered before those."""

    piece: int = CHUNK
    """So many bytes are sent at a time."""

    stalled: threading.Event = field(default_factory=threading.Event)
    """Set once one of these answers comes no further."""

    over: threading.Event = field(default_factory=threading.Event)

    refuse: list[int] = field(default_factory=list)
    """The next requests are answered with these."""

    said_more: int = 0
    """So many bytes more are announced than there are."""

    then: list[bytes] = field(default_factory=list)
    """What takes the place of the object once the next answer has gone."""

    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The `Range` and the `If-Match` of each request."""

    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def serving(served: WebObject) -> Iterator[WebObject]:
    """`served`, under its URL."""

    with listening(partial(_answer, served), "HTTP/1.1") as url:
        served.url = f"{url}/rows.jsonl"
        yield served
        served.over.set()


def _answer(served: WebObject, handler: BaseHTTPRequestHandler) -> None:
    wanted, condition = handler.headers.get("Range", ""), handler.headers.get("If-Match", "")
    served.asked.append((wanted, condition))
    data, tag, size = served.data, served.tag, len(served.data)
    if served.refuse:
        _say(served, handler, served.refuse.pop(0), {}, b"", 0)
    elif condition not in ("", tag) and served.has_conditions:
        _say(served, handler, 412, {}, b"", 0)
    elif wanted and served.has_ranges:
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begins, ends = int(first), min(int(last or size), size - 1)
        if begins >= size:
            _say(served, handler, 416, {"Content-Range": f"bytes */{size}"}, b"", 0)
        else:
            part, said = data[begins : ends + 1], size + served.said_more
            more = {"ETag": tag, "Content-Range": f"bytes {begins}-{ends}/{said}"}
            _say(served, handler, 206, more | served.headers, part, len(part) + served.said_more)
    else:
        _say(served, handler, 200, {"ETag": tag} | served.headers, data, size + served.said_more)
    if served.then:
        served.data, served.tag = served.then.pop(0), '"another"'


def _say(
    served: WebObject, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes, length: int
) -> None:
    is_silent = served.silent_after and len(served.asked) > served.answered_before
    silent_after = served.silent_after.pop(0) if is_silent else None
    if silent_after == -1:
        served.stalled.set()
        served.over.wait()
    handler.send_response(status)
    for name, value in {**headers, "Content-Length": str(length)}.items():
        handler.send_header(name, value)
    handler.end_headers()
    until = served.cut_after.pop(0) if body and served.cut_after else len(body)
    until = until if silent_after is None else min(until, silent_after)
    for at in range(0, min(until, len(body)), served.piece):
        handler.wfile.write(body[at : min(at + served.piece, until)])
    if silent_after is not None:
        served.stalled.set()
        served.over.wait()
    if until < len(body) or length > len(body):
        handler.close_connection = True
