"""A message to a URL of the user's, outside of the service: without its key, once, and without following redirects."""

from collections.abc import Mapping
from typing import Final, Protocol

import anyio
import httpx

from orchestrator import __version__
from orchestrator.client.http.backends import Request, header_table
from orchestrator.client.http.transport import Transport, environment_proxy
from orchestrator.clock import Clock
from orchestrator.errors import Hurdle, Unanswered

ANSWERED_S_MAX: Final = 20.0
"""So long a receiver may take in all."""

CONNECT_S_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024


class PostNotification(Protocol):
    """Posts a message: `post_notification`."""

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes, clock: Clock, /) -> int:
        """The status of the answer."""
        ...


async def post_notification(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    clock: Clock,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> int:
    """The status that a receiver answers to the JSON `body`, by the way that the environment names.

    Raises `NotSent`, `Unanswered`, and `UsageError` for a proxy that cannot be used; none names more of the URL than
    its host, since its path may be a secret.
    """
    carrier = Transport(
        clock,
        transport=transport,
        proxy=None if transport is not None else environment_proxy(httpx.URL(url)),
        connect_s=CONNECT_S_MAX,
        request_s=ANSWERED_S_MAX,
        body_bytes_max=ANSWER_BYTES_MAX,
    )
    given = {"Content-Type": "application/json", "User-Agent": f"orchestrator/{__version__}", **headers}
    table = header_table({name.encode("ascii"): value.encode("ascii") for name, value in given.items()})
    try:
        with anyio.move_on_after(ANSWERED_S_MAX):
            return (await carrier.send(Request("POST", url, table, body))).status
    finally:
        await carrier.aclose()
    failure = Unanswered(f"no complete answer within {ANSWERED_S_MAX:g} s")
    failure.hurdle = Hurdle.TIME_OUT
    try:
        raise failure
    finally:
        del failure
