"""The plan of a run before it is sent: reads the input, looks up what the ledger knows of the endpoint, asks the
service how it is, and has it planned (`core.planning`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import anyio
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.api.foreground.forecast_line import (
    Place,
    candidate,
    endpoint_place,
    endpoint_places,
    executions_at,
    rule_of,
    terms_of,
)
from orchestrator.api.foreground.run import run, unless_stopped
from orchestrator.api.planning.endpoint_facts import endpoint_state, price_in_account, unwell, workers_in_account
from orchestrator.api.planning.pod_facts import PodHistory, at_pods, known_pods, pod_history
from orchestrator.api.planning.row_count import counted_rows
from orchestrator.api.runs.run_identity import check_given
from orchestrator.core.jobs.lifecycle import ended
from orchestrator.core.planning.observed_times import ObservedExecution
from orchestrator.core.planning.plan_types import Candidate, Plan
from orchestrator.core.planning.planner import plan_of_pool
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import absolute_members
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import StoppedError, UsageError
from orchestrator.ledger import is_made, read_ledger
from orchestrator.settings import command_requests, run_request
from orchestrator.settings.command_requests import PlanRequest
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import STANDARD_INPUT


async def plan(
    request: PlanRequest,
    console: Console | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> Plan:
    """How the run that `request` means would go. Nothing is sent but what it wants to be probed with.

    Raises `UsageError` for what `run` would refuse as well, `InputError` for rows that are none, and `NotBegunError`
    where `stop` is set while the input is read.
    """
    given = dependencies or Dependencies()
    asked = request.run
    async with unless_stopped(stop):
        await check_given(asked)
    if asked.source is None or asked.endpoint is None:
        raise UsageError(f"a plan is made of an input and an endpoint; give both, with {run_request.ENDPOINT}")
    if request.probe is not None and STANDARD_INPUT in asked.source.splitlines():
        raise UsageError(f"{command_requests.PROBE} reads the input twice, and standard input can be read once only")
    settings = replace(asked.settings or RunSettings(), members=absolute_members(asked.members))
    async with unless_stopped(stop):
        counted = await to_thread.run_sync(counted_rows, request, settings, given.environ, abandon_on_cancel=True)
    if request.probe is not None and counted.jobs and not counted.oversize:
        await probed(
            asked, request.probe, rows=counted.rows, console=console or SilentConsole(), dependencies=given, stop=stop
        )
    places = endpoint_places(settings, endpoint_place(asked.endpoint, asked.connection.serverless_url))
    done, executions, history = await _of_ledger(asked, given, settings, places)
    counted = replace(counted, done=min(done, counted.rows))
    candidates: dict[Place, Candidate] = {}

    async def ask(place: Place, seen: list[ObservedExecution]) -> None:
        candidates[place] = await _candidate_at(place, request, settings, given, seen)

    async with anyio.create_task_group() as group:
        for place, seen in zip(places, executions, strict=True):
            group.start_soon(ask, place, seen)
    terms, found = terms_of(settings, given.clock.now()), [candidates[place] for place in places]
    if settings.pod_template is not None:
        pods = await known_pods(history, request, settings, given, jobs=counted.jobs)
        terms, found = replace(terms, pods=pods), [at_pods(each, pods, history, settings) for each in found]
    return plan_of_pool(counted, found, terms, rule_of(settings))


async def _candidate_at(
    place: Place,
    request: PlanRequest,
    settings: RunSettings,
    given: Dependencies,
    executions: list[ObservedExecution],
) -> Candidate:
    """One endpoint, with what the ledger knows of it (`executions`), and what it and its account say now."""
    connection = request.run.connection
    if settings.pod_template is not None:  # nobody can be asked before there is any
        return candidate(place, connection, settings, executions, request)
    state, trip_us = await endpoint_state(connection, given, place)
    if request.workers_there is None and not isinstance(settings.workers, int):
        request = replace(request, workers_there=await workers_in_account(connection, given, place))
    found = candidate(
        place, connection, settings, executions, request, None if state is None else state.health, trip_us
    )
    price = found.price or request.price_there or await price_in_account(connection, given, place)
    return replace(found, price=price, unwell=unwell(state))


async def _of_ledger(
    asked: RunRequest, given: Dependencies, settings: RunSettings, places: Sequence[Place]
) -> tuple[int, list[list[ObservedExecution]], PodHistory]:
    """How many jobs of the run are done, and what is known of executions at each endpoint, and of its pods."""
    path = asked.ledger
    if not await is_made(path, connect=given.connect_to(path)):
        return 0, [[] for _ in places], PodHistory()
    async with read_ledger(path, clock=given.clock, connect=given.connect_to(path)) as ledger:
        run = await ledger.runs.named(asked.name)
        counts: Mapping[str, int] = {} if run is None else await ledger.runs.counts(run=run.id)
        if settings.pod_template is not None:
            history = await pod_history(ledger, settings.pod_template, asked.connection.serverless_url)
            return ended(counts), [[*history.executions]], history
        return ended(counts), [await executions_at(ledger, each) for each in places], PodHistory()


ENDING: Final = "-probe"
"""What is added to a run's name for that of its probe."""


def spread(number: int, rows: int) -> Iterator[int]:
    """The places, from 1, of `number` rows that lie evenly among so many; all, where there are no more."""
    number = min(number, rows)
    return (place * rows // number + rows // (2 * number) + 1 for place in range(number))


async def probed(
    asked: RunRequest,
    number: int,
    *,
    rows: int,
    console: Console,
    dependencies: Dependencies,
    stop: anyio.Event | None,
) -> None:
    """Executes so many of the jobs of `asked`, which has `rows`. The same again goes on with the same ones. Of a pool
    each member gets as many as the others: of one that gets nothing nothing is learned.

    Raises what `run` raises, and `StoppedError` where it was interrupted.
    """
    chosen = frozenset(spread(number, rows))
    request = replace(
        asked,
        name=f"{asked.name}{ENDING}",
        named=True,
        output=None,
        errors=None,
        only_rows=chosen,
        retry_failed=False,
        settings=replace(asked.settings or RunSettings(), is_probe=True),
    )
    console.info(f"{request.name}: {len(chosen):,} jobs of {rows:,} are executed to learn of their times")
    summary = await run(request, console, dependencies, stop)
    if summary.interrupted:
        raise StoppedError("the probe was interrupted; the same command goes on with it")
