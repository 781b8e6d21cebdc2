"""The page of the process at work and its ledger."""

from typing import Final

from orchestrator.api.pages.engine import engine_page
from orchestrator.dashboard.page import Page, PageRequest
from orchestrator.dashboard.pages.endpoints import span_of
from orchestrator.views.pages.engine import EnginePage


async def _compose(request: PageRequest) -> EnginePage:
    with_rows = request.query.get("count") == "rows"
    return await engine_page(request.ledger, request.holder, span_of(request), with_rows=with_rows)


PAGE: Final = Page(
    path="/engine", template="engine.html", compose=_compose, parts=("standing", "charts"), heading="Engine"
)
