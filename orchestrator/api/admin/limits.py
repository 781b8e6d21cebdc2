"""Looking at the rate limits of a ledger's endpoints, and changing them, beside whoever works on it."""

from collections.abc import Collection, Mapping, Sequence

from orchestrator.api.runs.process_commands import ask_process, asker_of, beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.limits.limit_text import format_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import is_local
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.commands.command_types import Action, NewLimits, ResetLimits
from orchestrator.ledger.runs.endpoints import ChosenLimit
from orchestrator.ledger.runs.heartbeats import Heartbeat, MeterReading
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.limits import EndpointLimitStatus, OperationLimits


async def limits(ledger: LedgerAddress, name: str | None) -> list[EndpointLimitStatus]:
    """The limits of every endpoint of the ledger, or of those of the run `name`. Raises `UsageError`."""
    async with read_ledger(ledger) as opened:
        runs = [run for run in await _everywhere(opened) if run.accepted]
        only = None if name is None else await run_named(opened, name)
        shown = runs if only is None else [run for run in runs if run.id == only.id]
        return [await _of(opened, number, runs) for number in dict.fromkeys(run.endpoint_id for run in shown)]


async def _everywhere(ledger: Ledger) -> list[Run]:
    """Every run as it is at its endpoint, and then as it is at others to which jobs of it were sent again."""
    return [*await ledger.runs.all(), *await ledger.runs.elsewhere()]


async def _at(ledger: Ledger, name: str, endpoint: str | None) -> Run:
    """The run `name` as it is at its endpoint, or at that one of the others. Raises `UsageError`."""
    run = await run_named(ledger, name, not_accepted=True)
    there = [run, *await ledger.runs.elsewhere([run.id])]
    if endpoint is None and run.settings.members:
        known = ", ".join(each.endpoint for each in there)
        own = f"{run.name} has a pool, and each member has limits of its own"
        raise UsageError(f"{own}; name one with {run_request.ENDPOINT}: {known}")
    found = next((each for each in there if endpoint in (None, each.endpoint)), None)
    if found is None:
        known = ", ".join(each.endpoint for each in there)
        raise UsageError(f"{run.name} has no jobs at the endpoint {endpoint}; it is at {known}")
    return found


async def limits_set(
    ledger: LedgerAddress,
    name: str,
    chosen: Mapping[Operation, Limit],
    dependencies: Dependencies | None = None,
    *,
    endpoint: str | None = None,
) -> EndpointLimitStatus:
    """Sets limits of the endpoint of the run `name`, or of that one of the others to which jobs of it were sent again;
    whoever works on it takes them on within a second.

    Raises `UsageError` where there is no such run, and for a `local:` endpoint.
    """
    async with beside(ledger, dependencies) as opened:
        run = await _at(opened, name, endpoint)
        runs = await _everywhere(opened)
        if is_local(run.endpoint):
            raise UsageError(f"{run.name} runs a function of yours; its limits are those that the run is started with")
        acknowledged = await ask_process(
            opened,
            Action.LIMITS_SET,
            endpoint=run.endpoint_id,
            argument=NewLimits(chosen),
            asked=asker_of(dependencies),
        )
        return await _of(opened, run.endpoint_id, runs, outcome=acknowledged.outcome)


async def limits_reset(
    ledger: LedgerAddress,
    name: str,
    operations: Collection[Operation],
    dependencies: Dependencies | None = None,
    *,
    endpoint: str | None = None,
) -> EndpointLimitStatus:
    """Forgets what was set for these operations, or for all where there are none. Raises like `limits_set`."""
    async with beside(ledger, dependencies) as opened:
        run = await _at(opened, name, endpoint)
        runs = await _everywhere(opened)
        argument = ResetLimits(tuple(operations or Operation))
        acknowledged = await ask_process(
            opened, Action.LIMITS_RESET, endpoint=run.endpoint_id, argument=argument, asked=asker_of(dependencies)
        )
        return await _of(opened, run.endpoint_id, runs, outcome=acknowledged.outcome)


async def _of(ledger: Ledger, number: int, runs: Sequence[Run], *, outcome: str | None = None) -> EndpointLimitStatus:
    """The limits of the endpoint that is `number` in the ledger."""
    chosen = (await ledger.runs.limits.all()).get(number, {})
    held_by = await ledger.holder(number)
    beats = await ledger.beats_at_work(held_by)
    its_runs = [run for run in runs if run.endpoint_id == number]
    return EndpointLimitStatus(
        endpoint=its_runs[0].endpoint,
        service_url=its_runs[0].service_url,
        runs=tuple(run.name for run in its_runs),
        holder=held_by,
        operations=tuple(
            operation_limits(each, chosen.get(each), meter_of(beats, number, each, chosen.get(each)))
            for each in Operation
        ),
        outcome=outcome,
    )


def meter_of(
    beats: Sequence[Heartbeat], endpoint: int, operation: Operation, chosen: ChosenLimit | None
) -> MeterReading | None:
    """How `operation` of an endpoint stands with its limit, where whoever works has said so since that was set."""
    said = (
        meter for beat in beats if chosen is None or beat.beaten_at >= chosen.set_at for meter in beat.report.meters
    )
    return next((meter for meter in said if (meter.endpoint_id, meter.operation) == (endpoint, operation)), None)


def operation_limits(operation: Operation, chosen: ChosenLimit | None, meter: MeterReading | None) -> OperationLimits:
    """An operation with its limit: the one that was chosen, else the contract's."""
    limit = CONTRACT_LIMITS[operation] if chosen is None else chosen.limit
    return OperationLimits(
        operation=operation,
        limit=format_limit(operation, limit),
        set_at=None if chosen is None else chosen.set_at,
        used=None if meter is None else meter.used,
        allowed=None if meter is None else meter.allowance,
        window_s=None if meter is None else meter.window_s,
        throttled=None if meter is None else meter.throttled,
    )
