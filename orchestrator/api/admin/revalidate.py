"""Judges anew what a run has collected (`runs recheck`): by whoever works on the ledger, or here, where nobody does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from orchestrator.api.runs.process_commands import Acknowledged, ask_process, beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.jobs.revalidation import Rechecked
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.commands.revalidate import Revalidator, validated_by
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action, NewValidator
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.parsers.job_parsers import parse_check, parse_schema


class RecheckedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it, or would come: how many jobs (`core.jobs.revalidation.Rechecked`)."""

    run: str
    looked_at: int
    rejected: int
    again: int
    accepted: int
    is_done: bool
    """False where it was only looked at, or is still being carried out."""

    outcome: str
    failed_otherwise: int = msgspec.field(default=0, name="anew")
    """Had failed, and fail for another reason by now."""


async def recheck(
    ledger: LedgerAddress,
    name: str,
    changes: Mapping[str, Any],
    dependencies: Dependencies | None = None,
    *,
    dry_run: bool = False,
) -> RecheckedRun:
    """Judges the outputs of the run `name` anew by its validator with these `changes` (fields of `RunSettings`), each
    file as it is now; `dry_run`: says what would come of that.

    Raises `UsageError` where that cannot be, and for a run whose rows were handed on.
    """
    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        run = await run_named(opened, name)
        wanted = await wanted_of(opened, run, changes)
        found = await looked(opened, run, wanted)
        if dry_run:
            return found
        try:
            async with given.lock(ledger, now=given.clock.now(), doing=f"recheck {run.name}"):
                number = await opened.commands.ask(Action.RECHECK, run=run.id, argument=wanted, asked=given.asked)
                command = await opened.commands.one(number)
                with _rechecker(opened, run, wanted) as rechecker:
                    reply = await rechecker.recheck_asked(command)
                await opened.commands.finish(number, reply)
                return replace(found, is_done=True, outcome=reply.text)
        except LedgerBusyError:
            done = await ask_process(opened, Action.RECHECK, run=run.id, argument=wanted, asked=given.asked)
            return carried_out(found, done)


def carried_out(found: RecheckedRun, done: Acknowledged) -> RecheckedRun:
    """`found`, as far as whoever works on the ledger has done it."""
    outcome = done.outcome or f"{done.by} is at it: {found.outcome}"
    return replace(found, is_done=done.outcome is not None, outcome=outcome)


async def wanted_of(ledger: Ledger, run: Run, changes: Mapping[str, Any]) -> NewValidator:
    """The validator of `run` with these `changes`, each file as it is now. Raises `UsageError`."""
    if await ledger.flows.handovers.is_handed_on(run.id):
        raise UsageError(f"{run.name} is a stage of a flow, and what it brought is in the next one")
    settings = replace(run.settings, **changes)
    try:
        return NewValidator(
            None if settings.schema is None else parse_schema(settings.schema.ref),
            None if settings.check is None else parse_check(settings.check.ref),
            settings.output_required,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextmanager
def _rechecker(ledger: Ledger, run: Run, wanted: NewValidator) -> Iterator[Revalidator]:
    settings = validated_by(run, wanted)
    validators = ValidationPool({run.id: settings}, lambda _: None)
    validators.load(settings)
    try:
        yield Revalidator(ledger=ledger, validators=validators, settings_of={run.id: settings})
    finally:
        validators.leave()


async def looked(ledger: Ledger, run: Run, wanted: NewValidator) -> RecheckedRun:
    """What would come of judging the outputs of `run` by the validator `wanted`; changes nothing."""
    with _rechecker(ledger, run, wanted) as rechecker:
        found: Rechecked = await rechecker.recheck(run, validated_by(run, wanted))
    return RecheckedRun(run=run.name, **msgspec.structs.asdict(found), is_done=False, outcome=str(found))
