"""The emulator as a part of this process, for `local:` endpoints."""

import random
from typing import Final

from orchestrator.client import Deliverer, InProcess, Service
from orchestrator.clock import Clock
from orchestrator.emulator.answers import ConnectionCut
from orchestrator.emulator.handlers import load_handler
from orchestrator.emulator.limits import Limit, Operation
from orchestrator.emulator.server import Emulator, EmulatorSettings
from orchestrator.engine.local import LOCAL, LOCAL_ENDPOINT, LOCAL_KEY, LOCAL_URL, absolute
from orchestrator.settings import ConnectionSettings, RunSettings

WORKERS: Final = 8


def embedded(
    endpoint: str, connection: ConnectionSettings, settings: RunSettings, clock: Clock
) -> tuple[Emulator, Deliverer]:
    """An emulator that serves the function which `endpoint` names, within the limits that the client keeps.

    Raises `UsageError` where the function cannot be loaded. The caller serves the emulator and closes the deliverer.
    """
    handler = load_handler(absolute(endpoint).removeprefix(LOCAL))
    deliverer = Deliverer(clock)
    emulator = Emulator(
        EmulatorSettings(
            endpoints={LOCAL_ENDPOINT: handler},
            workers=WORKERS,
            keys=(LOCAL_KEY,),
            limits=_limits(connection),
            retention_s=settings.retention_us / 1_000_000,
        ),
        clock=clock,
        rng=random.Random(clock.now()),  # noqa: S311  else every process would give out the same ids
        deliver=deliverer.deliver,
    )
    return emulator, deliverer


def in_process(emulator: Emulator, connection: ConnectionSettings, clock: Clock) -> Service:
    """The service that `emulator` is, reached without a network."""
    transport = InProcess(emulator.app, cut=ConnectionCut)
    limits, pacing = connection.limits, connection.pacing
    return Service(LOCAL_URL, LOCAL_KEY, clock, limits=limits, pacing=pacing, transport=transport)


def _limits(connection: ConnectionSettings) -> dict[Operation, Limit]:
    known = {operation.value: operation for operation in Operation}
    return {
        known[operation.value]: Limit(
            requests=limit.requests, window_us=int(limit.window_s * 1_000_000), concurrent=limit.concurrent
        )
        for operation, limit in connection.limits.items()
        if operation.value in known
    }
