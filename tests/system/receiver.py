"""Receivers of what the program sends to others than the service: an HTTP server, in a thread of the test process."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.http_server import listening


@dataclass(frozen=True)
class Came:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    """By their names in small letters."""

    body: bytes


@dataclass
class Receiver:
    """What came in, and how it is answered: by a path's beginning."""

    url: str = ""
    answers: dict[str, int] = field(default_factory=dict)
    """The status of what is asked for below a path; 200 for all else. What is refused is answered with all that came."""

    holds: dict[str, threading.Event] = field(default_factory=dict)
    """What is asked for below a path is answered once its event is set."""

    came: list[Came] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def at(self, path: str) -> list[Came]:
        """What came below that path."""
        return [each for each in self.came if each.path.startswith(path)]

    def until(self, path: str, number: int = 1, within_s: float = 60.0) -> list[Came]:
        """The same, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.at(path)) >= number, within_s), (path, len(self.at(path)))
        return self.at(path)

    def take(self, request: Came) -> int:
        """Notes it, and says with which status it is answered."""
        with self._changed:
            self.came.append(request)
            self._changed.notify_all()
        for path, held in [*self.holds.items()]:
            if request.path.startswith(path):
                held.wait()
        return next((status for path, status in self.answers.items() if request.path.startswith(path)), 200)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver, until the block ends."""
    receiver = Receiver()

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in request.headers.items()}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        status = receiver.take(Came(request.path, headers, body))
        told = b"" if status == 200 else f"{request.path} {headers}".encode() + body
        request.send_response(status)
        if status in range(300, 400):
            request.send_header("Location", f"{receiver.url}/elsewhere{request.path}")
        request.send_header("Content-Length", str(len(told)))
        request.end_headers()
        request.wfile.write(told)

    with listening(answer) as receiver.url:
        try:
            yield receiver
        finally:
            for held in receiver.holds.values():
                held.set()
