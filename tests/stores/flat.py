"""How much memory it takes to read and to write an object, however large: `python -m tests.stores.flat --gigabytes 5`.

The store is one of a process of its own that makes each byte when it is asked for, and drops each that it is given.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from orchestrator.formats.input.readers import ReadOptions, read_inputs
from orchestrator.formats.input.rows import Row
from orchestrator.settings.input_settings import InputSettings
from orchestrator.stores.object_url import ObjectUrl
from orchestrator.units import MIB

GROWTH_MAX: Final = 120 * MIB
"""So much more than before its first byte a process may hold."""

LINE: Final = (json.dumps({"text": "x" * 65_000}) + "\n").encode()
BLOCK: Final = LINE * 64
TAG: Final = '"always-the-same"'
KINDS: Final = ("read-web", "read-s3", "write-s3")

_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_STARTED: Final = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
_COMPLETED: Final = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"


class Counted:
    """What the store was given."""

    parts = 0
    bytes = 0


class Handler(BaseHTTPRequestHandler):
    """What the store answers."""

    protocol_version = "HTTP/1.1"
    size: int
    counted: Counted

    def do_HEAD(self) -> None:
        if "/out/" in self.path:
            self._say(404)
        else:
            self._say(200, headers={"ETag": TAG, "Content-Length": str(self.size)})

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._say(200, b"<ListBucketResult></ListBucketResult>")
            return
        found = _RANGE.match(self.headers.get("Range", "bytes=0-"))
        assert found
        first, last = int(found[1]), min(int(found[2] or self.size), self.size - 1)
        length = last - first + 1
        self._say(206, headers={
            "ETag": TAG, "Content-Range": f"bytes {first}-{last}/{self.size}", "Content-Length": str(length)
        })  # fmt: skip
        with suppress(BrokenPipeError, ConnectionResetError):
            at = first
            while at <= last:
                begins = at % len(BLOCK)
                piece = BLOCK[begins : begins + last + 1 - at]
                self.wfile.write(piece)
                at += len(piece)

    def do_PUT(self) -> None:
        left = int(self.headers["Content-Length"])
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        while left:
            left -= len(self.rfile.read(min(left, MIB)))
        self.counted.parts += 1
        self.counted.bytes += int(self.headers.get("x-amz-decoded-content-length") or self.headers["Content-Length"])
        self._say(200, headers={"ETag": '"part"'})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._say(200, _STARTED if "uploads" in parse_qs(urlsplit(self.path).query, True) else _COMPLETED)

    def do_DELETE(self) -> None:
        self._say(204)

    def _say(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def endless_store(size: int) -> Iterator[tuple[str, Counted]]:
    """A store whose objects have `size` bytes; its URL, and what it was given."""
    counted = Counted()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Sized", (Handler,), {"size": size, "counted": counted}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", counted
    finally:
        server.shutdown()
        server.server_close()


def measured(kind: str, size: int) -> tuple[int, int]:
    """How many bytes more than before a process held that did so, and how many bytes it read or wrote."""
    with endless_store(size) as (url, counted):
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.stores.flat", "--do", kind, "--bytes", str(size), "--url", url],
            env={**os.environ, **keys, "AWS_ENDPOINT_URL": url}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        growth, number = map(int, done.stdout.split())
        return growth, counted.bytes if kind == "write-s3" else number


def _held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _do(kind: str, size: int, url: str) -> None:
    """In a process of its own: reads or writes, and prints how much it came to hold, and how much that was."""
    place = f"{url}/data/in/rows.jsonl" if kind == "read-web" else "s3://data/in/rows.jsonl"
    if kind == "write-s3":
        from orchestrator.stores.object_writer import ObjectReplacement

        with suppress(OSError):
            ObjectUrl.parsed("s3://data/out/first").stat()  # loads the driver
        before = _held()
        with ObjectReplacement(ObjectUrl.parsed("s3://data/out/results.jsonl")) as coming:
            for _ in range(size // len(BLOCK)):
                coming.write(BLOCK)
            coming.prepare()
            coming.put_in_place()
        print(_held() - before, 0)
        return
    ObjectUrl.parsed(place).stat()
    before = _held()
    options = ReadOptions(settings=InputSettings(input_bytes_max=2 * size))
    number = sum(len(row.input) for row in read_inputs([place], options) if isinstance(row, Row))
    print(_held() - before, number)


def main() -> None:
    """Prints a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--do", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.do:
        _do(given.do, given.bytes, given.url)
        return
    size = int(given.gigabytes * 1e9) // len(LINE) * len(LINE)
    for kind in KINDS:
        growth, number = measured(kind, size)
        print(f"{kind}: {number / 1e9:.2f} GB, and {growth / MIB:.0f} MiB more than before its first byte")


if __name__ == "__main__":
    main()
