"""What stands before a store and hands requests on to it: by it a store can refuse, from a moment on."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.http_server import listening

EXPIRED = b"""<?xml version="1.0"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"""

Asked = Callable[[str, str], None]
"""Is told the method and the path of each request before it is handed on."""


@dataclass
class Gate:
    """The gate before `behind`, under its URL."""

    behind: str
    url: str = ""
    is_expired: bool = False
    is_silent: bool = False
    """Nothing is answered."""

    unread: int = 0
    """Of so many of the next objects and parts that come nothing is read."""

    silent: int = 0
    """So many of the next requests for what an object holds are not answered."""

    stalled: threading.Event = field(default_factory=threading.Event)
    """Set once something is not read, or not answered."""

    over: threading.Event = field(default_factory=threading.Event)
    asked: Asked = lambda method, path: None
    seen: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def gate_before(behind: str) -> Iterator[Gate]:
    """The gate, open."""
    gate = Gate(behind)

    with listening(partial(_hand_on, gate), "HTTP/1.1") as gate.url:
        yield gate
        gate.over.set()


def give_up(stalled: threading.Event, given_up: threading.Event) -> None:
    """Gives up what is under way once it is `stalled`."""
    stalled.wait()
    given_up.set()


def _hand_on(gate: Gate, handler: BaseHTTPRequestHandler) -> None:
    if handler.command == "PUT" and gate.unread:
        gate.unread -= 1
        gate.stalled.set()
        gate.over.wait()
        return
    if gate.is_silent:
        gate.stalled.set()
        gate.over.wait()
        return
    body = _body_of(handler)
    gate.seen.append((handler.command, handler.path))
    gate.asked(handler.command, handler.path)
    if handler.command == "GET" and gate.silent:
        gate.silent -= 1
        gate.over.wait()
        return
    if gate.is_expired:
        _say(handler, 400, [("Content-Type", "application/xml")], EXPIRED)
        return
    connection = http.client.HTTPConnection(urlsplit(gate.behind).netloc)
    headers = {name: value for name, value in handler.headers.items() if name.lower() != "transfer-encoding"}
    connection.request(handler.command, handler.path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    kept = [
        (name, value) for name, value in answer.getheaders() if name.lower() not in ("content-length", "connection")
    ]
    _say(handler, answer.status, kept, data, answer.getheader("Content-Length"))
    connection.close()


def _body_of(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Expect", "").lower() == "100-continue":
        handler.send_response_only(100)
        handler.end_headers()
    return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))


def _say(
    handler: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], data: bytes, length: str | None = None
) -> None:
    handler.send_response_only(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("Content-Length", length or str(len(data)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(data)
