"""The first page (`/`): what needs a person, how pipelines stand, and what is not finished."""

from typing import Final

from orchestrator.api.pages.now import now_page
from orchestrator.dashboard.page import Page, PageRequest
from orchestrator.views.pages.now import NowPage


async def _compose(request: PageRequest) -> NowPage:
    return await now_page(request.ledger, request.holder)


PAGE: Final = Page(path="/", template="now.html", compose=_compose, parts=("needs", "pipelines", "runs"), heading="Now")
