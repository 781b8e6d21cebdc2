"""`orchestrator emulate`: the emulator on a port, until it is stopped."""

from collections.abc import Callable, Mapping

import anyio

from orchestrator.api.emulated import EmulateRequest
from orchestrator.api.emulation import emulator_settings
from orchestrator.client import Deliverer
from orchestrator.clock import SystemClock
from orchestrator.emulator.serving import serve_emulator

STDERR = 2
"""Where worker processes write: standard output is for data."""


async def emulate(
    request: EmulateRequest, ready: Callable[[Mapping[str, str], Mapping[str, str]], None], stop: anyio.Event
) -> None:
    """Serves an emulated service until `stop` is set.

    `ready` gets its URLs by name and the environment that points clients at it, once requests are taken. Raises
    `UsageError` for whatever cannot be emulated as asked.
    """
    settings = emulator_settings(request)
    clock = SystemClock()
    deliverer = Deliverer(clock)
    async with serve_emulator(
        settings,
        host=request.host,
        port=request.port,
        seed=request.seed,
        clock=clock,
        deliver=deliverer.deliver,
        worker_output=STDERR,
    ) as service:
        ready(service.urls, service.environment())
        await stop.wait()
    await deliverer.aclose()
