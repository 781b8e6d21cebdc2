"""A world for tests, and what the service's client would see of it."""

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.emulator.jobs.job_table import JobObserver
from orchestrator.emulator.jobs.jobs import JobExecution, RunBody, ServiceRecord, WorkerResult
from orchestrator.emulator.jobs.run_body import parse_submission
from orchestrator.emulator.jobs.scaling_rules import fixed
from orchestrator.emulator.jobs.world import World
from orchestrator.units import SECOND_US

T0 = 1_700_000_000 * SECOND_US
MINUTE = 60 * SECOND_US
EP = "ep"
NO_FAULTS = Faults()
SUCCESS = WorkerResult(output=b'{"ok":1}')
HOOK = "https://listener/hooks/1"


def world(
    faults: Faults = NO_FAULTS, *, observer: JobObserver | None = None, seed: int = 1, service_retries: int = 0
) -> World:
    rng = random.Random(seed)
    return World(
        scaling=lambda _endpoint: (fixed(2), False),
        retention_us=30 * MINUTE,
        dice=FaultDice(faults, rng),
        rng=rng,
        observer=observer,
        service_retries=service_retries,
    )


def submission(value: int = 1, *, webhook: str | None = None, **policy: int) -> RunBody:
    return parse_submission(msgspec.json.encode({"input": {"n": value}, "webhook": webhook, "policy": policy}))


def submit(world: World, now: int = T0, value: int = 1, *, webhook: str | None = None, **policy: int) -> str:
    return world.submit(EP, submission(value, webhook=webhook, **policy), now).id


def take(world: World, now: int = T0, worker_id: str = "w1") -> JobExecution:
    execution = world.executions.take(EP, worker_id, now)
    assert execution is not None
    return execution


def finish(world: World, now: int = T0, result: WorkerResult = SUCCESS) -> JobExecution:
    """Take the next job and report at once."""
    execution = take(world, now)
    assert world.executions.done(execution, result, now)
    return execution


def seen(record: ServiceRecord) -> Mapping[str, Any]:
    """The record as it goes over the wire, without its id."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    del fields["id"]
    return fields


def status(world: World, job_id: str, now: int = T0) -> str:
    return str(world.status(EP, job_id, now).status)
