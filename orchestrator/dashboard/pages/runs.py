"""All runs, by state and name, newest first."""

from typing import Final

from orchestrator.api.pages.runs.runs_page import runs_page
from orchestrator.dashboard.page import Page, PageRequest
from orchestrator.dashboard.reading.queries import whole_number
from orchestrator.views.runs.run_pages import RunsPage


async def _compose(request: PageRequest) -> RunsPage:
    return await runs_page(
        request.ledger,
        request.holder,
        show=request.query.get("show", "all"),
        name=request.query.get("name", ""),
        before=whole_number(request.query, "after"),
    )


PAGE: Final = Page(path="/runs", template="runs.html", compose=_compose, parts=("runs",), heading="Runs")
