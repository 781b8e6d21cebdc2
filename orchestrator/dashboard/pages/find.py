"""From the names of runs, flows and jobs to their pages: what messages and `status` link to."""

from typing import Final, NoReturn

from orchestrator.api.pages.runs.run_places import named_among
from orchestrator.core.filters.filter import Comparison, Text
from orchestrator.dashboard.page import ElsewhereError, NotFoundError, Page, PageRequest
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run

WINDOWS_MAX: Final = 8
"""A job is looked for by an index; so many windows of a million numbers each are more than a ledger has."""


async def _compose(request: PageRequest) -> NoReturn:
    ledger, query = request.ledger, request.query
    if "flow" in query:
        flow = await ledger.flows.named(query["flow"])
        found = named_among(await ledger.flows.names(), query["flow"]) if flow is None else None
        if found is not None and found.name is not None:
            flow = await ledger.flows.named(found.name)
        if flow is None:
            perhaps = {} if found is None else {name: await _flow_path(ledger, name) for name in found.perhaps}
            raise NotFoundError(f"There is no flow called {query['flow']!r:.200} here.", perhaps)
        raise ElsewhereError(f"/flows/{flow.id}")
    if "run" not in query:
        raise UsageError("name a run or a flow: /find?run=NAME, /find?run=NAME&job=ID or /find?flow=NAME")
    run = await _run(ledger, query["run"])
    if "job" not in query:
        raise ElsewhereError(f"/runs/{run.id}")
    raise ElsewhereError(f"/runs/{run.id}/jobs/{await _job(ledger, run, query['job'])}")


async def _flow_path(ledger: Ledger, name: str) -> str:
    flow = await ledger.flows.named(name)
    return "/" if flow is None else f"/flows/{flow.id}"


async def _run(ledger: Ledger, name: str) -> Run:
    meant = await ledger.runs.named(name)
    if meant is not None and meant.accepted:
        return meant
    found = named_among(await ledger.runs.names(), name)
    if found.name is not None and (run := await ledger.runs.named(found.name)) is not None:
        return run
    runs = {each: await ledger.runs.named(each) for each in found.perhaps}
    perhaps = {each: f"/runs/{run.id}" for each, run in runs.items() if run is not None}
    raise NotFoundError(f"There is no run called {name!r:.200} here.", perhaps)


async def _job(ledger: Ledger, run: Run, custom_id: str) -> int:
    after = 0
    for _ in range(WINDOWS_MAX):
        named = Text("id", Comparison.EQUAL, custom_id)
        page = await ledger.reports.job_queries.page(run.id, named, after=after, most=1)
        if page.jobs:
            return page.jobs[0].job
        if page.is_last:
            break
        after = page.after
    raise NotFoundError(f"{run.name} has no job {custom_id!r:.200}.", {"its jobs": f"/runs/{run.id}/jobs"})


PAGE: Final = Page(path="/find", template="", compose=_compose, heading="Runs")
