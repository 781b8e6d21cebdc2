"""The page of a flow."""

from typing import Final

from orchestrator.api.pages.flow import flow_page
from orchestrator.dashboard.page import NotFoundError, Page, PageRequest
from orchestrator.views.pages.flow_page import FlowPage


async def _compose(request: PageRequest) -> FlowPage:
    number = request.numbers["flow"]
    row = request.query.get("row", "").strip() or None
    found = await flow_page(request.ledger, request.holder, number, row)
    if found is None:
        raise NotFoundError(f"There is no flow {number} in this ledger.", {"Pipelines": "/pipelines"})
    return found


PAGE: Final = Page(
    path="/flows/{flow:number}",
    template="flow.html",
    compose=_compose,
    parts=("standing", "stages"),
    heading="Pipelines",
)
