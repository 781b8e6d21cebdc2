"""Messages: what is owed to whom, how often it was tried, and what is in the way."""

from typing import Final

from orchestrator.api.messages.message_lists import message_page
from orchestrator.dashboard.page import Page, PageRequest
from orchestrator.views.flows import MessagePage

PER_PAGE: Final = 50


async def _compose(request: PageRequest) -> MessagePage:
    return await message_page(
        request.ledger,
        request.holder,
        most=PER_PAGE,
        after=request.query.get("after") or None,
        waiting=request.query.get("show") == "waiting",
    )


PAGE: Final = Page(
    path="/messages", template="messages.html", compose=_compose, parts=("targets", "messages"), heading="Messages"
)
