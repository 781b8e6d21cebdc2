"""One run."""

from typing import Final

from orchestrator.api.pages.runs.run_page import run_page
from orchestrator.dashboard.page import Page, PageRequest
from orchestrator.dashboard.reading.queries import run_of
from orchestrator.views.runs.run_pages import RunPage


async def _compose(request: PageRequest) -> RunPage:
    return await run_page(
        request.ledger,
        request.holder,
        await run_of(request),
        shows=request.shows,
        window=request.query.get("window"),
    )


PAGE: Final = Page(
    path="/runs/{run:number}",
    template="run.html",
    compose=_compose,
    parts=("verdict", "figures", "members", "failures", "progress", "charts"),
    heading="Runs",
)
