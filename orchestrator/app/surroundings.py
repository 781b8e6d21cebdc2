"""What the program takes from outside of itself; a simulation or a test brings its own."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.client import Service, for_a_batch
from orchestrator.clock import Clock, SystemClock
from orchestrator.ledger.database import Connect
from orchestrator.settings import Connection

MakeService = Callable[[Connection, Clock], Service]


def real_service(connection: Connection, clock: Clock) -> Service:
    """The service over the network; what people send by hand beside the run has its part of the limits."""
    return Service(connection.serverless_url, connection.api_key, clock, limits=for_a_batch(connection.limits))


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Clock, environment variables, and the ways out to service and database."""

    clock: Clock = msgspec.field(default_factory=SystemClock)
    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    service: MakeService = real_service
    connect: Callable[[Any], Connect] | None = None
    """Makes the database's way to connect for a path; None: the ordinary one."""

    signals: bool = True
    """Whether SIGINT and SIGTERM are ours."""
