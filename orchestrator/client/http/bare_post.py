"""One bare request to any URL, without the service's key: to see who answers there."""

from typing import Final

import httpx

from orchestrator import __version__
from orchestrator.client.http.backends import Request, header_table
from orchestrator.client.http.transport import Transport, environment_proxy
from orchestrator.clock import Clock
from orchestrator.core.service.answers import Answer

ANSWER_BYTES_MAX: Final = 64 * 1024


async def post_without_key(url: str, clock: Clock, *, within_s: float) -> Answer:
    """The answer to a `POST` of an empty object, by the way that the environment names.

    Raises `NotSent`, `Unanswered`, and `UsageError` for a proxy that cannot be used.
    """
    transport = Transport(
        clock,
        proxy=environment_proxy(httpx.URL(url)),
        connect_s=within_s,
        request_s=within_s,
        body_bytes_max=ANSWER_BYTES_MAX,
    )
    headers = header_table(
        {b"Content-Type": b"application/json", b"User-Agent": b"orchestrator/" + __version__.encode("ascii")}
    )
    try:
        return await transport.send(Request("POST", url, headers, b"{}"))
    finally:
        await transport.aclose()
