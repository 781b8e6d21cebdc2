"""Schedules: paused, continued and removed, each with its action."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orchestrator.api.flows.flows import hand_over, pipeline_named, time_of
from orchestrator.api.flows.schedules import schedule_statuses
from orchestrator.api.runs.process_commands import asker_of, beside, refusals_noted
from orchestrator.core.pipelines.due_fires import GapKind, gap
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import Act, SubjectKind, Verb
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_flags import NOTE
from orchestrator.views.flows import ScheduleStatus


async def schedules_pause(
    ledger: LedgerAddress, name: str, note: str, until: str | None, dependencies: Dependencies | None = None
) -> ScheduleStatus:
    """Nothing fires from now on, until `until` or until somebody continues it. Raises `UsageError`."""
    async with _asked_of(ledger, name, Verb.SCHEDULE_PAUSE, dependencies) as (opened, asked):
        while True:
            before, now = await _settled(opened, name)
            if not note.strip():  # a wrong name is told first
                raise UsageError(f"say why {name} is paused, for whoever looks: {NOTE} 'WHY'")
            ends = None if until is None else time_of(until, before.pipeline, "--until")
            if ends is not None and ends <= now:
                raise UsageError(f"--until {until} is past")
            if before.watermark is not None and before.watermark.is_paused(now):
                raise UsageError(f"{name} is paused already: {before.note}; orchestrator schedules continue {name}")
            if await opened.flows.pipelines.pause(before, now=now, until=ends, note=note, asked=asked):
                return (await schedule_statuses(opened, [await pipeline_named(opened, name)]))[0]


async def schedules_continue(
    ledger: LedgerAddress, name: str, *, catch_up: bool, dependencies: Dependencies | None = None
) -> ScheduleStatus:
    """It fires again: what was due meanwhile is left out, or with `catch_up` made up for. Raises `UsageError`."""
    async with _asked_of(ledger, name, Verb.SCHEDULE_CONTINUE, dependencies) as (opened, asked):
        while True:
            before, now = await _settled(opened, name)
            if before.watermark is None or not before.watermark.is_paused(now):
                raise UsageError(f"{name} is not paused")
            assert before.pipeline.schedule is not None
            left_out = None
            if not catch_up:
                left_out = gap(GapKind.PAUSED, before.pipeline.schedule, name, before.watermark.at_us, now)
            if await opened.flows.pipelines.proceed(before, now=now, gap=left_out, catch_up=catch_up, asked=asked):
                await hand_over(opened)
                return (await schedule_statuses(opened, [await pipeline_named(opened, name)]))[0]


async def schedules_remove(
    ledger: LedgerAddress, name: str, dependencies: Dependencies | None = None
) -> ScheduleStatus:
    """It fires no more; its history and flows stay, and `apply` brings it back. Raises `UsageError`."""
    async with _asked_of(ledger, name, Verb.SCHEDULE_REMOVE, dependencies) as (opened, asked):
        before, _ = await _settled(opened, name)
        await opened.flows.pipelines.unschedule(before, asked=asked)
        return (await schedule_statuses(opened, [await pipeline_named(opened, name)]))[0]


@asynccontextmanager
async def _asked_of(
    ledger: LedgerAddress, name: str, verb: Verb, dependencies: Dependencies | None
) -> AsyncIterator[tuple[Ledger, Asker]]:
    """The ledger, to ask something of the schedule of the pipeline `name`, and who asks. What is refused of one that
    there is, is written.
    """
    asked = asker_of(dependencies)
    async with beside(ledger, dependencies) as opened:
        number = (await pipeline_named(opened, name)).id
        act = Act(verb=verb, subject=SubjectKind.PIPELINE, number=number, name=name)
        async with refusals_noted(opened, asked, act):
            yield opened, asked


async def _settled(ledger: Ledger, name: str, console: Console | None = None) -> tuple[Defined, int]:
    """The pipeline, looked at up to now. Raises `UsageError` where it has no schedule."""
    console = console or SilentConsole()
    now = ledger.now()
    found = await ScheduleEvaluator(ledger=ledger, say=console.info, warn=console.warn).settle(name, now)
    if found is None:
        found = await pipeline_named(ledger, name)
    if found.watermark is None:
        raise UsageError(f"{name} does not fire by itself: it has no schedule, or it was removed; apply it again")
    return found, now
