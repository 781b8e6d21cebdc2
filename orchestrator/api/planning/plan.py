"""The plan of a run before it is sent: reads the input, looks up what the ledger knows of the endpoint, asks the
service how it is, and has it planned (`core.planning`).
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import anyio
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.api.foreground.forecast_line import executions_at, known_of, line_of, terms_of
from orchestrator.api.inspect.service_probe import service_state
from orchestrator.api.outcomes import result_files
from orchestrator.api.planning.probe import probed
from orchestrator.api.runs.run_identity import check_given
from orchestrator.client import Service
from orchestrator.core.gates.costs import Price
from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.core.planning.observed_times import Execution
from orchestrator.core.planning.plan import Batch, Plan
from orchestrator.core.planning.planner import plan_of as planned
from orchestrator.core.service.health import Health
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.engine.hosting.worker_scaling import knows_account
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import absolute_endpoint, is_local
from orchestrator.engine.runtime.view import Silent, View
from orchestrator.errors import OrchestratorError, Problems, UsageError
from orchestrator.formats.input.readers import Places, Reading
from orchestrator.formats.input.rows import Problem
from orchestrator.ledger import is_made, read_ledger
from orchestrator.settings import plan_flags, run_flags
from orchestrator.settings.plan_flags import PlanRequest
from orchestrator.settings.profiles import own_keys
from orchestrator.settings.structs import (
    LOCAL,
    STANDARD_INPUT,
    ConnectionSettings,
    RunSettings,
)

ASK_S_MAX: Final = 5.0
"""How long the service may take to say how it is: without that, a plan is made all the same."""

REPEATS_COUNTED_MAX: Final = 5_000_000
"""Of so many different inputs it is remembered that they were there."""

DIGEST_BYTES: Final = 8
"""So much of an input's digest tells it from the others, where nothing depends on it."""

T = TypeVar("T")


async def plan(
    request: PlanRequest,
    view: View | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> Plan:
    """How the run that `request` means would go. Nothing is sent but what it wants to be probed with.

    Raises `UsageError` for what `run` would refuse as well, `InputError` for rows that are none.
    """
    given = dependencies or Dependencies()
    asked = request.run
    check_given(asked)
    if asked.source is None or asked.endpoint is None:
        raise UsageError(f"a plan is made of an input and an endpoint; give both, with {run_flags.ENDPOINT}")
    if request.probe is not None and STANDARD_INPUT in asked.source.splitlines():
        raise UsageError(f"{plan_flags.PROBE} reads the input twice, and standard input can be read once only")
    settings = asked.settings or RunSettings()
    counted = await to_thread.run_sync(_counted, request, settings, given.environ)
    if request.probe is not None and counted.jobs and not counted.oversize:
        await probed(asked, request.probe, rows=counted.rows, view=view or Silent(), dependencies=given, stop=stop)
    url = LOCAL if is_local(asked.endpoint) else asked.connection.serverless_url.rstrip("/")
    endpoint = absolute_endpoint(asked.endpoint) if url == LOCAL else asked.endpoint
    done, executions = await _of_ledger(asked.ledger, given, asked.name, url, endpoint)
    health, trip_us = await _health(asked.connection, given, url, endpoint)
    if request.workers_there is None and request.figures.workers is None:
        request = replace(request, workers_there=await _workers_there(asked.connection, given, url, endpoint))
    price_there = request.price_there
    if price_there is None and settings.price_per_second is None:
        price_there = await _price_there(asked.connection, given, url, endpoint)
    known = known_of(executions, settings, request, health, is_embedded=url == LOCAL)
    return planned(
        replace(counted, done=min(done, counted.rows)),
        asked.endpoint,
        line_of(asked.connection, settings, is_embedded=url == LOCAL, trip_us=trip_us),
        terms_of(settings, given.clock.now(), price_there=price_there),
        known,
    )


async def _of_ledger(
    path: Path, given: Dependencies, name: str, url: str, endpoint: str
) -> tuple[int, list[Execution]]:
    """How many jobs of the run are done, and what is known of executions at the endpoint."""
    if not is_made(path):
        return 0, []
    async with read_ledger(path, clock=given.clock, connect=given.connect_to(path)) as ledger:
        run = await ledger.runs.named(name)
        counts: Mapping[str, int] = {} if run is None else await ledger.runs.counts(run=run.id)
        done = sum(counts.get(state.value, 0) for state in TERMINAL)
        return done, await executions_at(ledger, url, endpoint)


async def _health(
    connection: ConnectionSettings, given: Dependencies, url: str, endpoint: str
) -> tuple[Health | None, int | None]:
    """How the endpoint is, and how long that took to ask; None where it cannot be asked."""
    if url == LOCAL or not connection.api_key:
        return None, None
    async with given.service(connection, given.clock) as service:
        asked_at = given.clock.now()
        state = await service_state(service, url, endpoint, within_s=ASK_S_MAX)
        trip_us = given.clock.now() - asked_at
    return state.health, trip_us if state.health is not None else None


async def _workers_there(connection: ConnectionSettings, given: Dependencies, url: str, endpoint: str) -> int | None:
    """How many workers the endpoint may have, as its settings in the account say; None where they cannot be seen."""

    async def ask(service: Service) -> int | None:
        return (await given.bounds(service, connection.rest_url).show(endpoint)).most

    return await _of_account(connection, given, url, ask)


async def _price_there(connection: ConnectionSettings, given: Dependencies, url: str, endpoint: str) -> Price | None:
    """What a second of a worker costs, as the account's catalog says; None where that cannot be seen."""

    async def ask(service: Service) -> Price | None:
        return await given.prices(service, connection.rest_url).per_second(endpoint)

    return await _of_account(connection, given, url, ask)


async def _of_account(
    connection: ConnectionSettings, given: Dependencies, url: str, ask: Callable[[Service], Awaitable[T | None]]
) -> T | None:
    """What the account that goes with the service says; None where there is none, or it says nothing in time."""
    if url == LOCAL or not connection.api_key or not knows_account(connection.rest_url, url):
        return None
    with anyio.move_on_after(ASK_S_MAX), suppress(OrchestratorError):
        async with given.service(connection, given.clock) as service:
            return await ask(service)
    return None


class _Counter:
    """Counts what an input has."""

    def __init__(self) -> None:
        self.rows = self.repeats = self.oversize = self.bytes = 0
        self.problems = Problems()
        self._seen: set[bytes] = set()

    def row(self, digest: bytes, size: int) -> None:
        self.rows += 1
        self.bytes += size
        short = digest[:DIGEST_BYTES]
        if short in self._seen:
            self.repeats += 1
        elif len(self._seen) < REPEATS_COUNTED_MAX:
            self._seen.add(short)

    def problem(self, problem: Problem) -> None:
        if problem.is_oversize:
            self.rows += 1
            self.oversize += 1
            return
        self.problems.add(problem.line, problem.text)


def _counted(request: PlanRequest, settings: RunSettings, environ: Mapping[str, str]) -> Batch:
    """Reads the input. Raises `InputError` where rows of it are none."""
    asked = request.run
    assert asked.source is not None
    reading = Reading(
        settings=asked.reading,
        variables=RowVariables(environ, settings.allow_env, own_keys(asked.connection, environ)),
        run_policy=settings.policy,
        body_bytes_max=asked.body_bytes_max,
        is_resumable=settings.resumable,
        via=settings.via,
    )
    places, counter = Places(), _Counter()
    for batch in result_files.row_batches(asked.source, reading, places):
        for row in batch.rows:
            counter.row(row.digest, len(row.input))
        for fault in batch.faults:
            assert isinstance(fault, Problem)
            counter.problem(fault)
    if not counter.rows and not counter.problems.total:
        counter.problem(Problem(line=1, text="the input is empty"))
    if counter.problems.total:
        raise counter.problems.error(", ".join(asked.source.splitlines()), places.of)
    return Batch(rows=counter.rows, repeats=counter.repeats, oversize=counter.oversize, input_bytes=counter.bytes)
