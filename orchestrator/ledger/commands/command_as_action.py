"""What a command asks, as an action that people read."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.limits.limit_text import format_limit
from orchestrator.ledger.actions.action_rows import Act, SubjectKind
from orchestrator.ledger.commands.command_types import (
    Action,
    Argument,
    CancelledJobs,
    CancelledRun,
    NewBrakes,
    NewLimits,
    NewValidator,
    ResetLimits,
)
from orchestrator.ledger.schema.job_tables import endpoints, runs
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.units import MILLISECOND_US, SECOND_US


async def command_act(
    connection: AsyncConnection, action: Action | str, run: int | None, endpoint: int | None, argument: Argument | None
) -> Act:
    """What a command asks, of what, by the name that it has now."""
    if run is not None:
        subject, number, name = SubjectKind.RUN, run, select(runs.c.name).where(runs.c.id == run)
    elif endpoint is not None:
        subject, number = SubjectKind.ENDPOINT, endpoint
        name = select(endpoints.c.endpoint).where(endpoints.c.id == endpoint)
    else:
        return Act(verb=action, subject=SubjectKind.LEDGER, name="")
    return Act(
        verb=action,
        subject=subject,
        number=number,
        name=(await connection.execute(name)).scalar() or "",
        where=argument.where if isinstance(argument, CancelledJobs | RetryChoice) else "",
        options=_options(argument),
    )


def _options(argument: Argument | None) -> dict[str, str]:
    """What an argument asks for, as texts by names that people know."""
    found: Mapping[str, object]
    match argument:
        case None | CancelledJobs():
            found = {}
        case NewLimits(limits):
            found = {"limits": " ".join(format_limit(each, limit) for each, limit in limits.items())}
        case ResetLimits(operations):
            found = {"limits": " ".join(operations)}
        case NewBrakes(settings):
            found = settings
        case CancelledRun(grace_us):
            found = {"grace": f"{grace_us / SECOND_US:g} s" if grace_us else None}
        case RetryChoice():
            found = {
                "execution timeout": _seconds(argument.execution_timeout_ms),
                "ttl": _seconds(argument.ttl_ms),
                "max attempts": argument.max_attempts,
                "endpoint": argument.endpoint,
            }
        case NewValidator(schema, check, output_required):
            found = {
                "schema": schema and schema.ref,
                "check": check and check.ref,
                "output required": "yes" if output_required else None,
            }
        case _:
            found = msgspec.structs.asdict(argument)
    return {key.replace("_", " "): str(value) for key, value in found.items() if value is not None}


def _seconds(ms: int | None) -> str | None:
    return None if ms is None else f"{ms * MILLISECOND_US / SECOND_US:g} s"
