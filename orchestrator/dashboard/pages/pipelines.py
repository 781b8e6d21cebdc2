"""The pages of pipelines, and of one."""

from typing import Final

from orchestrator.api.pages.pipeline import pipeline_page, pipelines_page
from orchestrator.dashboard.page import NotFoundError, Page, PageRequest
from orchestrator.views.pages.pipelines import PipelinePage, PipelinesPage


async def _all(request: PageRequest) -> PipelinesPage:
    return await pipelines_page(request.ledger, request.holder)


async def _one(request: PageRequest) -> PipelinePage:
    number = request.numbers["pipeline"]
    found = await pipeline_page(request.ledger, request.holder, number)
    if found is None:
        known = await request.ledger.flows.pipelines.all()
        nearest = {each.name: f"/pipelines/{each.id}" for each in known[:NEAREST_MAX]}
        raise NotFoundError(f"There is no pipeline {number} in this ledger.", nearest)
    return found


NEAREST_MAX: Final = 5

PAGES: Final = (
    Page(path="/pipelines", template="pipelines.html", compose=_all, parts=("pipelines",), heading="Pipelines"),
    Page(
        path="/pipelines/{pipeline:number}",
        template="pipeline.html",
        compose=_one,
        parts=("standing", "fires"),
        heading="Pipelines",
    ),
)
