"""The failures of a run by their kinds."""

from typing import Final

from orchestrator.api.pages.runs.failures_page import failures_page
from orchestrator.dashboard.page import Page, PageRequest
from orchestrator.dashboard.reading.queries import run_of
from orchestrator.views.runs.run_pages import FailuresPage


async def _compose(request: PageRequest) -> FailuresPage:
    return await failures_page(request.ledger, await run_of(request), shows=request.shows)


PAGE: Final = Page(
    path="/runs/{run:number}/failures",
    template="failures.html",
    compose=_compose,
    parts=("kinds",),
    heading="Runs",
)
