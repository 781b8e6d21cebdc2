"""Flows that somebody asks for: one for a time (`trigger`), or those of past fires (`backfill`)."""

from itertools import islice
from typing import Final

import msgspec

from orchestrator.api.flows.flows import flow_named, hand_over, pipeline_named, time_of
from orchestrator.api.runs.process_commands import asker_of, beside, refusals_noted
from orchestrator.api.runs.run_lookup import unknown_name
from orchestrator.core.pipelines.flow_lifecycle import LIVE, FlowKind
from orchestrator.core.pipelines.pipeline import Pipeline, run_name
from orchestrator.core.pipelines.schedule_calendar import fires_from
from orchestrator.core.pipelines.stage_graph import ancestors
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import Act, SubjectKind, Verb
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.flows.flow_actions import MadeUp
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import SECOND_US

BACKFILL_MAX: Final = 10_000
"""So many fires at most are asked for at once."""


class TriggeredFlows(msgspec.Struct, frozen=True, kw_only=True):
    """Flows that were asked for."""

    pipeline: str
    flows: tuple[str, ...]
    """Those that were made."""

    known: int
    """How many there were already, of which none was made."""

    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, and begins them in their turn."""


class BackfillFires(msgspec.Struct, frozen=True, kw_only=True):
    """The fires that a backfill means."""

    pipeline: str
    fires: tuple[int, ...]
    known: int
    """How many of them have a flow."""

    zone: str


async def trigger(
    ledger: LedgerAddress, name: str, at: str | None, dependencies: Dependencies | None = None
) -> TriggeredFlows:
    """A flow of the pipeline `name` for the time `at`, or for now; the same time is the same flow. Raises `UsageError`
    for an unknown pipeline or time.
    """
    async with beside(ledger, dependencies) as opened:
        flow, is_new = await ask_for(opened, name, at, "--at", asker_of(dependencies))
        return TriggeredFlows(pipeline=name, flows=(flow,), known=0 if is_new else 1, holder=await hand_over(opened))


async def ask_for(ledger: Ledger, name: str, at: str | None, flag: str, asked: Asker) -> tuple[str, bool]:
    """As `trigger`, in a ledger that is open: the name of the flow, and whether it is new. `flag` is what a time is
    called.
    """
    pipeline = await pipeline_named(ledger, name)
    fire = ledger.now() // SECOND_US * SECOND_US if at is None else time_of(at, pipeline.pipeline, flag)
    made = await ledger.flows.add(pipeline.id, name, pipeline.definition, [fire], FlowKind.TRIGGERED, asked=asked)
    if made:
        return made[0], True
    known = await ledger.flows.of_fire(pipeline.id, fire)
    assert known is not None
    return known.name, False


async def backfill_preview(
    ledger: LedgerAddress, name: str, since: str, until: str, dependencies: Dependencies | None = None
) -> BackfillFires:
    """The fires of the pipeline `name` from `since` to `until`, both included. Raises `UsageError`, also for more than
    `BACKFILL_MAX`.
    """
    async with beside(ledger, dependencies) as opened:
        return await fires_meant(opened, name, (since, until), ("--from", "--to"))


async def fires_meant(ledger: Ledger, name: str, times: tuple[str, str], flags: tuple[str, str]) -> BackfillFires:
    """The same, in a ledger that is open; `flags` are what the times are called."""
    pipeline = await pipeline_named(ledger, name)
    fires = _fires_between(pipeline.pipeline, times, flags)
    known = await ledger.flows.fires.with_flow(pipeline.id, fires)
    schedule = pipeline.pipeline.schedule
    return BackfillFires(pipeline=name, fires=fires, known=known, zone="UTC" if schedule is None else schedule.zone)


async def backfill(
    ledger: LedgerAddress,
    fires: BackfillFires,
    *,
    parallel: int = 1,
    again: bool = False,
    dependencies: Dependencies | None = None,
) -> TriggeredFlows:
    """Flows for these fires, behind all others; for those that have one only with `again`."""
    async with beside(ledger, dependencies) as opened:
        made = await make_up_for(opened, fires, asker_of(dependencies), parallel=parallel, again=again)
        held_by = await hand_over(opened)
        known = len(fires.fires) - len(made)
        return TriggeredFlows(pipeline=fires.pipeline, flows=tuple(made), known=known, holder=held_by)


async def make_up_for(ledger: Ledger, fires: BackfillFires, asked: Asker, *, parallel: int, again: bool) -> list[str]:
    """The same, in a ledger that is open: the names of the flows that were made."""
    pipeline = await pipeline_named(ledger, fires.pipeline)
    return await ledger.flows.add(
        pipeline.id,
        pipeline.name,
        pipeline.definition,
        fires.fires,
        FlowKind.BACKFILL,
        made_up=MadeUp(parallel=parallel, again=again),
        asked=asked,
    )


def _fires_between(pipeline: Pipeline, times: tuple[str, str], flags: tuple[str, str]) -> tuple[int, ...]:
    schedule = pipeline.schedule
    if schedule is None:
        raise UsageError(f"{pipeline.name} has no schedule, so there are no fires of the past; trigger it at a time")
    (since, until), (from_, to) = times, flags
    first, last = time_of(since, pipeline, from_), time_of(until, pipeline, to)
    if last < first:
        raise UsageError(f"{to} {until} lies before {from_} {since}")
    found: list[int] = []
    for fire in islice(fires_from(schedule, first), BACKFILL_MAX + 1):
        if fire > last:
            return tuple(found)
        found.append(fire)
    raise UsageError(
        f"from {since} to {until} {pipeline.name} has more than {BACKFILL_MAX:,} fires; ask for less at once"
    )


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """What is carried out anew."""

    flow: str
    runs: tuple[str, ...]
    """The new runs, one for each of its stages from the one that was named on."""

    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, and goes on with the flow."""


async def flow_rerun(
    ledger: LedgerAddress, name: str, stage: str, *, only_failed: bool = False, dependencies: Dependencies | None = None
) -> Rerun:
    """A flow that has ended goes on with new runs of `stage` and of all that follow it; the old ones stay as they are.

    With `only_failed` what has succeeded in the run before is taken over where its input is the same. Raises
    `UsageError` where there is no such flow or stage, or it has not ended.
    """
    async with beside(ledger, dependencies) as opened:
        flow = await flow_named(opened, name)
        [pipeline] = (await opened.flows.pipelines.definitions([flow.definition])).values()
        names = [each.name for each in pipeline.stages]
        if stage not in names:
            raise unknown_name("stage", stage, opened.address, names)
        again = [each for each in names if each == stage or stage in ancestors(pipeline.stages, each)]
        asked = asker_of(dependencies)
        act = Act(verb=Verb.RERUN, subject=SubjectKind.FLOW, number=flow.id, name=flow.name, options={"from": stage})
        async with refusals_noted(opened, asked, act):
            done = flow.state not in LIVE and await opened.flows.rerun(
                flow.id, again, only_failed=only_failed, asked=asked
            )
            if not done:
                raise UsageError(
                    f"{flow.name} has not ended: it is {flow.state}; wait until it has, or cancel it first"
                )
        latest = {row.stage: row.again for row in await opened.flows.stages([flow.id])}
        runs = tuple(run_name(flow.name, each, latest[each]) for each in again)
        return Rerun(flow=flow.name, runs=runs, holder=await hand_over(opened))
