"""Actions: what people have asked of runs, flows, schedules and endpoints, by which way, and what came of it."""

from typing import Final

from orchestrator.api.actions.action_lines import action_line, action_list
from orchestrator.dashboard.page import NotFoundError, Page, PageRequest
from orchestrator.errors import UsageError
from orchestrator.views.actions import ActionLine, ActionList

DIGITS_MAX: Final = 18


async def compose_list(request: PageRequest) -> ActionList:
    """The latest, or those behind `after`, of which who has `by` in it, and what `what`."""
    after = request.query.get("after", "")
    if after and not (after.isascii() and after.isdigit() and len(after) <= DIGITS_MAX):
        raise UsageError(f"after={after:.40}: this is the number of an action, as the link to more of them has it")
    return await action_list(
        request.ledger,
        request.holder,
        by=request.query.get("by", "").strip(),
        what=request.query.get("what", "").strip(),
        before=int(after) if after else None,
        shows=request.shows,
    )


async def compose_one(request: PageRequest) -> ActionLine:
    """One of them."""
    number = request.numbers["action"]
    found = await action_line(request.ledger, request.holder, number, shows=request.shows)
    if found is None:
        raise NotFoundError(f"There is no action {number}, or no more: they are kept for 400 days.")
    return found


PAGES: Final = (
    Page(path="/actions", template="actions.html", compose=compose_list, parts=("list",), heading="Actions"),
    Page(
        path="/actions/{action:number}",
        template="action_page.html",
        compose=compose_one,
        parts=("one",),
        heading="Actions",
    ),
)
