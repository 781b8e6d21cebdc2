"""The pages of endpoints, and of one."""

from typing import Final

from orchestrator.api.pages.endpoints import endpoint_page, endpoints_page
from orchestrator.api.pages.sample_charts import SPAN_DEFAULT, SPANS
from orchestrator.dashboard.page import NotFoundError, Page, PageRequest
from orchestrator.errors import UsageError
from orchestrator.views.pages.endpoints import EndpointPage, EndpointsPage

NEAREST_MAX: Final = 5


def span_of(request: PageRequest) -> str:
    """Of how long a time the charts are wanted. Raises `UsageError`."""
    span = request.query.get("span", SPAN_DEFAULT)
    if span not in SPANS:
        raise UsageError(f"there is no span {span!r:.40}; there are {', '.join(SPANS)}")
    return span


async def _all(request: PageRequest) -> EndpointsPage:
    return await endpoints_page(request.ledger, request.holder)


async def _one(request: PageRequest) -> EndpointPage:
    number = request.numbers["endpoint"]
    found = await endpoint_page(request.ledger, request.holder, number, span_of(request))
    if found is None:
        known = await request.ledger.overviews.endpoints.all(NEAREST_MAX)
        nearest = {row.endpoint: f"/endpoints/{row.id}" for row in known}
        raise NotFoundError(f"There is no endpoint {number} in this ledger.", nearest)
    return found


PAGES: Final = (
    Page(path="/endpoints", template="endpoints.html", compose=_all, parts=("endpoints",), heading="Endpoints"),
    Page(
        path="/endpoints/{endpoint:number}",
        template="endpoint.html",
        compose=_one,
        parts=("standing", "charts"),
        heading="Endpoints",
    ),
)
