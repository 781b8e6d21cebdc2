"""The jobs of a run that a filter means."""

from typing import Final

from orchestrator.api.pages.runs.jobs_page import JobsAsked, jobs_page
from orchestrator.dashboard.page import MisreadError, Page, PageRequest
from orchestrator.dashboard.reading.queries import run_of
from orchestrator.views.runs.run_pages import JobsPage


async def _compose(request: PageRequest) -> JobsPage:
    asked = JobsAsked(
        where=request.query.get("where", ""),
        order=request.query.get("order", "line"),
        after=request.query.get("after"),
        counted=request.query.get("count") == "1",
    )
    page = await jobs_page(request.ledger, await run_of(request), asked, shows=request.shows)
    if page.problem is not None:
        raise MisreadError(page.problem, page)
    return page


PAGE: Final = Page(path="/runs/{run:number}/jobs", template="jobs.html", compose=_compose, heading="Runs")
