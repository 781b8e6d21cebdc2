"""An HTTP server in a thread of the test process, for what is no service of ours: receivers, stores, web servers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients go away as they like."""


@contextmanager
def listening(answer: Callable[[BaseHTTPRequestHandler], None], protocol: str = "HTTP/1.0") -> Iterator[str]:
    """Has `answer` answer each request, whatever its method, until the block ends; its URL. By HTTP/1.1 connections stay."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def handle_one(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):
                answer(self)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one  # noqa: N815  as the standard library calls them

        def log_message(self, *_: object) -> None:
            """It says nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
