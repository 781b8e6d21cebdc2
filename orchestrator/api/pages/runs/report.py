"""A report of a run or a flow: what its page shows, of all its time."""

from typing import Final

from orchestrator.api.pages.run_lines import run_lines
from orchestrator.api.pages.runs.payload_policy import PayloadPolicy, are_texts_hidden
from orchestrator.api.pages.runs.run_page import run_page
from orchestrator.api.pages.runs.run_places import named_among
from orchestrator.api.runs.run_lookup import unknown_name
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.runs.report import ReportContent
from orchestrator.views.runs.run_lines import RunLine

STAGES_MAX: Final = 20
"""Of a flow so many stages are told of, the first ones."""


async def report_content(ledger: Ledger, held_by: str | None, name: str, *, shows: PayloadPolicy) -> ReportContent:
    """The report of the run or the flow that `name`, or its beginning, means. Raises `UsageError` where it means none,
    or several.
    """
    found = await _named(ledger, name)
    line, runs = (None, [found]) if isinstance(found, Run) else await _of_flow(ledger, held_by, found)
    return ReportContent(
        name=found.name,
        made_at=ledger.now(),
        ledger=ledger.address.name,
        flow=line,
        runs=[await run_page(ledger, held_by, run, shows=shows, window="all") for run in runs[:STAGES_MAX]],
        texts_hidden=are_texts_hidden(shows),
    )


async def _named(ledger: Ledger, name: str) -> Run | Flow:
    """The run or flow of that name, else of which it is the beginning."""
    runs, flows = await ledger.runs.names(), await ledger.flows.names()
    meant = name if name in runs or name in flows else named_among([*runs, *flows], name).name
    if meant in flows and (flow := await ledger.flows.named(meant)) is not None:
        return flow
    run = None if meant is None else await ledger.runs.named(meant)
    if run is None:
        raise unknown_name("run or flow", name, ledger.address, [*runs, *flows])
    return run


async def _of_flow(ledger: Ledger, held_by: str | None, flow: Flow) -> tuple[RunLine | None, list[Run]]:
    stages = [each.run for each in await ledger.flows.stages([flow.id]) if each.run is not None]
    lines = await run_lines(ledger, held_by, among=stages)
    line = next((each for each in lines if each.flow == flow.id), None)
    numbers = [] if line is None else [each.run for each in line.stages if each.run is not None]
    runs = {run.id: run for run in await ledger.runs.all(numbers)}
    return line, [runs[number] for number in numbers if number in runs]
