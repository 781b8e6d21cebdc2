"""The list of runs, by state and name."""

from typing import Final

from orchestrator.api.pages.run_lines import run_lines
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.run_list import RunsWanted
from orchestrator.views.runs.run_pages import RunsPage

RUNS_A_PAGE: Final = 50
NAME_CHARS_MAX: Final = 200


async def runs_page(
    ledger: Ledger, held_by: str | None, *, show: str = "all", name: str = "", before: int | None = None
) -> RunsPage:
    """The runs that are wanted, a page of them, older than the one numbered `before`. Raises `UsageError`."""
    if show not in list(RunsWanted):
        raise UsageError(f"there are no runs that are {show!r:.60}; there are {', '.join(RunsWanted)}")
    if len(name) > NAME_CHARS_MAX:
        raise UsageError(f"a name has {counted(NAME_CHARS_MAX, 'character')} at most")
    wanted = RunsWanted(show)
    found = await ledger.reports.run_list.page(wanted=wanted, name=name, before=before, most=RUNS_A_PAGE + 1)
    among = found[:RUNS_A_PAGE]
    lines = await run_lines(ledger, held_by, among=among)
    if before is not None:  # a flow whose latest stage was on the page before stood there, with all of them
        lines = tuple(line for line in lines if all((stage.run or 0) < before for stage in line.stages))
    number, _ = await ledger.runs.totals()
    return RunsPage(
        lines=lines, show=show, name=name, runs=number, after=among[-1] if len(found) > RUNS_A_PAGE else None
    )
