"""The short forms of what `python -m tests.narrow` measures; those of the client are in `tests/client/http/test_large_bodies.py`."""

from contextlib import suppress

import anyio
import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.limits.transfer_slots import AT_ONCE
from orchestrator.core.service.addresses import Address
from orchestrator.emulator.http.webhook_post import post
from orchestrator.web.application import listener_application
from orchestrator.web.server import Listener
from orchestrator.web.webhook_routes import BodyLimits, Webhooks
from tests.narrow.relay import narrow
from tests.web.requests import BODY, KEY, Sink, hook

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
LARGE = BODY.replace(b'{"n":1}', b'"%s"' % (b"x" * (MIB // 4)))
WEBHOOKS = 32
BYTES_PER_S = 4 * MIB
PATIENCE_S = 1.0
"""Half of what the line needs for all of them."""


async def test_large_webhooks_over_a_narrow_line_are_read_or_soon_hints_and_few_bytes_come_in_vain() -> None:
    sink = Sink()
    webhooks = Webhooks(key=KEY, sink=sink, clock=SystemClock(), limits=BodyLimits(body_s=PATIENCE_S))
    listener = Listener(listener_application(webhooks), Address("127.0.0.1", 0))

    async def push(url: str) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):  # the rest of a hint is not read
            await post(url, LARGE, {})

    async with anyio.create_task_group() as serving:
        await serving.start(listener.serve)
        async with narrow(str(listener.address), BYTES_PER_S) as line, anyio.create_task_group() as pushing:
            for _ in range(WEBHOOKS):
                pushing.start_soon(push, f"http://{line.address}{hook()}")
        serving.cancel_scope.cancel()
    read = sum(notice.record is not None for notice in sink.notices)
    assert len(sink.notices) == WEBHOOKS
    assert read >= AT_ONCE
    assert line.up.carried < read * len(LARGE) + (WEBHOOKS - read) * len(LARGE) / 2
