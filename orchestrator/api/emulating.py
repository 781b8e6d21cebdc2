"""`orchestrator emulate`: the emulator on a port, until a signal."""

from collections.abc import Callable, Mapping

import anyio

from orchestrator.api.emulation import EmulateRequest, emulator_settings
from orchestrator.api.signals import stop_signals
from orchestrator.client import Deliverer
from orchestrator.clock import SystemClock
from orchestrator.emulator.serving import serve_emulator
from orchestrator.engine.observers.view import View

STDERR = 2
"""Where worker processes write: standard output is for data."""


async def emulate(
    request: EmulateRequest, view: View, ready: Callable[[Mapping[str, str], Mapping[str, str]], None]
) -> None:
    """Serves an emulated service until a signal.

    `ready` gets its URLs by name and the environment that points clients at it, once requests are taken. Raises
    `UsageError` for whatever cannot be emulated as asked.
    """
    settings = emulator_settings(request)
    clock = SystemClock()
    deliverer = Deliverer(clock)
    with anyio.open_signal_receiver(*stop_signals()) as signals:
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
            async for signum in signals:
                view.interrupted(signum)
                break
    await deliverer.aclose()
