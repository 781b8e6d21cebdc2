"""The members of a run's pool, as a table and in words."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from orchestrator.cli.output import tables, theme
from orchestrator.core.planning.plan_types import MemberPlan
from orchestrator.core.pools.member_health import MemberState
from orchestrator.core.text.figures import lasting, money
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.views.members import MemberStatus

if TYPE_CHECKING:
    from rich.table import Table  # at run time `--help` would pay for it

_STYLES = {MemberState.WELL: theme.GOOD, MemberState.TRIED: theme.DOUBTFUL, MemberState.UNWELL: theme.BAD}


def members_table(members: Sequence[MemberStatus], *, width: int | None = None) -> "Table":
    """What each has done and how it goes on, a line for each; `width`: None for the terminal's. `unwell_members` tells
    why one is not well.
    """
    columns = [
        _column(members, "outstanding", lambda each: f"{each.outstanding:,}", can_go=2),
        _column(members, "done", lambda each: f"{each.done:,}"),
        _column(members, "failed", lambda each: f"{each.failed:,}" if each.failed else "", can_go=3),
        _column(members, "jobs/s", lambda each: "" if each.jobs_per_s is None else f"{each.jobs_per_s:,.1f}"),
        _column(members, "execution", _execution, can_go=1),
        _column(members, "cost", lambda each: "" if each.cost is None else money(each.cost)),
    ]
    shown = [each for each in columns if any(each.cells)]
    if have_lanes(members):
        shown.insert(0, tables.Figures("via", [each.via for each in members], is_right=False))
    if any(each.state is not None for each in members):
        states = [each.state or "left" for each in members]
        styles = ["dim" if each.state is None else _STYLES[each.state] for each in members]
        shown.insert(0, tables.Figures("is", states, styles, is_right=False))
    return tables.of_names("member", [member_name(each.endpoint) for each in members], shown, width=width)


def _column(
    members: Sequence[MemberStatus], heading: str, cell: Callable[[MemberStatus], str], can_go: int = 0
) -> tables.Figures:
    return tables.Figures(heading, [cell(each) for each in members], can_go=can_go)


def _execution(member: MemberStatus) -> str:
    return "" if member.execution_s is None else exactly(member.execution_s)


def have_lanes(members: Sequence[MemberStatus | MemberPlan]) -> bool:
    """Whether they have different ones, so that each has to be named."""
    return len({each.via for each in members}) > 1


def unwell_members(members: Sequence[MemberStatus]) -> Iterator[str]:
    """Which of them are not well, and why, in a few words each."""
    for each in members:
        if each.state is MemberState.UNWELL:
            yield f"{member_name(each.endpoint)} is not well: {each.why}"
        elif each.state is MemberState.TRIED:
            yield f"{member_name(each.endpoint)} gets single jobs: {each.why}"


def exactly(seconds: float) -> str:
    """How long an execution takes, so that members can be told apart."""
    return f"{1_000 * seconds:.0f} ms" if seconds < 1 else lasting(seconds)


def member_name(endpoint: str) -> str:
    """What a member is called where there is little room: of a function of the user's, its file without the folders."""
    return f"{LOCAL}{PurePath(endpoint.removeprefix(LOCAL)).name}" if endpoint.startswith(LOCAL) else endpoint
