"""The list of what was asked, the audit trail of people, as they are shown it: by pages, by the command line and by
programs alike.
"""

from typing import Final

import msgspec

from orchestrator.api.actions.proposal import named_resume_command
from orchestrator.api.outcomes.job_queries import filter_of
from orchestrator.api.pages.runs.payload_policy import PayloadPolicy, check_filter
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import ActionRow, SubjectKind
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import MINUTE_US
from orchestrator.views.actions import ActionLine, ActionList

PAGE: Final = 50

UNKNOWN_US: Final = MINUTE_US
"""What was begun so long ago, and is no command that waits, was cut off: nobody says any more what came of it."""

_PATHS: Final = {
    SubjectKind.RUN: "/runs/{}",
    SubjectKind.FLOW: "/flows/{}",
    SubjectKind.PIPELINE: "/pipelines/{}",
    SubjectKind.ENDPOINT: "/endpoints/{}",
    SubjectKind.MESSAGE: "/messages",
}

WAITING: Final = "waiting"
"""How an action stands that nobody has begun."""

_WAITS: Final = "it is carried out by the next process that works on this ledger"
_HIDDEN: Final = "a filter of what is hidden here"
_CUT_OFF: Final = "it is not known what came of it: whoever did it ended before it could say"


async def action_list(
    ledger: Ledger,
    held_by: str | None,
    *,
    by: str = "",
    what: str = "",
    before: int | None = None,
    shows: PayloadPolicy | None = None,
) -> ActionList:
    """A page of the actions of which who has `by` in it, and what `what`, behind the one numbered `before`."""
    rows = await ledger.actions.page(before=before, most=PAGE + 1, by=by, what=what)
    shown = rows[:PAGE]
    lines = tuple([await _line(row, ledger, held_by, shows) for row in shown])
    return ActionList(actions=lines, by=by, what=what, after=shown[-1].id if len(rows) > PAGE else None)


async def action_line(
    ledger: Ledger, held_by: str | None, number: int, *, shows: PayloadPolicy | None = None
) -> ActionLine | None:
    """The action of that number, or None."""
    row = await ledger.actions.one(number)
    return None if row is None else await _line(row, ledger, held_by, shows)


async def _line(row: ActionRow, ledger: Ledger, held_by: str | None, shows: PayloadPolicy | None) -> ActionLine:
    state, outcome = _state(row, ledger.now(), held_by)
    outcome = with_its_ledger(outcome, ledger.address)
    command = ""
    if state == WAITING and held_by is None and row.kind is SubjectKind.RUN and row.number is not None:
        command = await named_resume_command(ledger, row.number, row.subject)
    left = None if row.asked_n is None or row.done_n is None else max(0, row.asked_n - row.done_n)
    return ActionLine(
        id=row.id,
        asked_at=row.asked_at,
        asked_by=row.asked_by,
        way=row.way.value,
        verb=row.verb,
        kind=row.kind.value,
        number=row.number,
        subject=row.subject,
        path=_PATHS[row.kind].format(row.number) if row.number is not None and row.kind in _PATHS else None,
        where=_where_shown(row.where, ledger.now(), shows),
        options=msgspec.json.decode(row.options, type=dict[str, str]),
        asked=row.asked_n,
        done=row.done_n,
        left=left,
        state=state,
        outcome=outcome,
        command=command,
        done_at=row.done_at,
    )


def _where_shown(where: str, now: int, shows: PayloadPolicy | None) -> str:
    """A filter, unless it repeats of inputs or messages what is not to be shown."""
    if shows is None or not where:
        return where
    try:
        check_filter(shows, filter_of(where, now=now))
    except UsageError:
        return _HIDDEN
    return where


def _state(row: ActionRow, now: int, held_by: str | None) -> tuple[str, str]:
    """How it stands, and what is said of it."""
    if row.outcome is not None:
        return ("refused" if row.is_refused else "done"), row.outcome
    if row.command is None:
        return ("running", "") if now - row.asked_at < UNKNOWN_US else ("unknown", _CUT_OFF)
    if held_by is None:
        return WAITING, _WAITS if not row.done_n else f"{row.done_n:,} so far; {_WAITS}"
    if row.taken_at is not None:
        return "running", f"{row.done_n or 0:,} so far"
    return WAITING, f"{held_by} has not begun it yet"
