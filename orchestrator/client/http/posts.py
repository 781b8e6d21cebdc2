"""One POST to any URL outside of the service: without its key, once, and without following redirects.

None of its errors names more of the URL than its host, since its path may be a secret.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

import anyio
import httpx
from multidict import CIMultiDict

from orchestrator import __version__
from orchestrator.client.http.backends import Request
from orchestrator.client.http.transport import Transport, environment_proxy
from orchestrator.clock import Clock
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import Hurdle, Unanswered

ANSWERED_S_MAX: Final = 20.0
"""So long the receiver of a message may take in all."""

CONNECT_S_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024


async def post_without_key(
    url: str,
    clock: Clock,
    *,
    body: bytes = b"{}",
    headers: Mapping[str, str] = {},
    within_s: float,
    is_head_enough: bool = False,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Answer:
    """The answer to a `POST` of the JSON `body`, by the way that the environment names.

    `within_s` is how long nothing may come of it. `is_head_enough`: the body of the answer is not read. Raises
    `NotSent`, `Unanswered`, and `UsageError` for a proxy that cannot be used.
    """
    carrier = Transport(
        clock,
        transport=transport,
        proxy=None if transport is not None else environment_proxy(httpx.URL(url)),
        connect_s=min(within_s, CONNECT_S_MAX),
        request_s=within_s,
        body_bytes_max=ANSWER_BYTES_MAX,
    )
    given = {"Content-Type": "application/json", "User-Agent": f"orchestrator/{__version__}", **headers}
    try:
        return await carrier.send(Request("POST", url, CIMultiDict(given), body, is_head_enough=is_head_enough))
    finally:
        await carrier.aclose()


class PostNotification(Protocol):
    """Posts a message: `post_notification`."""

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes, clock: Clock, /) -> Answer:
        """The answer."""
        ...


async def post_notification(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    clock: Clock,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Answer:
    """What a receiver answers to `body`, JSON unless the headers say otherwise: its status, for what it says besides is
    for nobody, and may be a page without end. Raises as `post_without_key`.
    """
    post = partial(post_without_key, url, clock, body=body, headers=headers, transport=transport, is_head_enough=True)
    with anyio.move_on_after(ANSWERED_S_MAX):
        return await post(within_s=ANSWERED_S_MAX)
    failure = Unanswered(f"no complete answer within {ANSWERED_S_MAX:g} s")
    failure.hurdle = Hurdle.TIME_OUT
    try:
        raise failure
    finally:
        del failure
