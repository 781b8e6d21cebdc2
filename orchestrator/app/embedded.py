"""The emulator as a part of this process: for `local:` endpoints, and served for `orchestrator emulate`."""

import random
from pathlib import Path
from typing import Final

from orchestrator.client import Deliverer, InProcess, Service
from orchestrator.clock import Clock
from orchestrator.emulator.answers import ConnectionCut
from orchestrator.emulator.handlers import load_handler
from orchestrator.emulator.limits import Limit, Operation
from orchestrator.emulator.server import Emulator, EmulatorSettings
from orchestrator.errors import UsageError
from orchestrator.settings import Connection, RunSettings

LOCAL: Final = "local:"
LOCAL_URL: Final = "http://emulator.local"
"""What stands for the service's URL where the service is part of the process."""

LOCAL_KEY: Final = "local"
LOCAL_ENDPOINT: Final = "local"
WORKERS: Final = 8


def is_local(endpoint: str) -> bool:
    """Whether `endpoint` names a function of the user's rather than an endpoint of the service."""
    return endpoint.startswith(LOCAL)


def absolute(endpoint: str) -> str:
    """A `local:` endpoint with the full path of its file, so that it is the same from every folder."""
    file, colon, function = endpoint.removeprefix(LOCAL).rpartition(":")
    if not colon or not file or not function:
        raise UsageError(f"--endpoint {endpoint}: write local:FILE.py:FUNCTION")
    return f"{LOCAL}{Path(file).resolve()}:{function}"


def embedded(endpoint: str, connection: Connection, settings: RunSettings, clock: Clock) -> tuple[Emulator, Deliverer]:
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


def in_process(emulator: Emulator, connection: Connection, clock: Clock) -> Service:
    """The service that `emulator` is, reached without a network."""
    transport = InProcess(emulator.app, cut=ConnectionCut)
    limits, pacing = connection.limits, connection.pacing
    return Service(LOCAL_URL, LOCAL_KEY, clock, limits=limits, pacing=pacing, transport=transport)


def _limits(connection: Connection) -> dict[Operation, Limit]:
    known = {operation.value: operation for operation in Operation}
    return {
        known[operation.value]: Limit(
            requests=limit.requests, window_us=int(limit.window_s * 1_000_000), concurrent=limit.concurrent
        )
        for operation, limit in connection.limits.items()
        if operation.value in known
    }
