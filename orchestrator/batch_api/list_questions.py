"""Lists a page at a time, by cursors: what a request asks for, and what is answered."""

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request

from orchestrator.api.batch_api.refusals import RequestRefusedError
from orchestrator.core.text.whole_numbers import plain_number
from orchestrator.views.batch_api import BatchObject, FileObject, ListPage


class AskedPage(NamedTuple):
    """Which part of a list is asked for."""

    after: str | None
    """The id behind which it begins."""

    most: int
    is_oldest_first: bool


def page_of(request: Request, *, most: int, usual: int) -> AskedPage:
    """What `request` asks for: `usual` where it does not say how much. Raises `RequestRefusedError`."""
    asked = request.query_params
    limit = plain_number(asked.get("limit", str(usual))) or 0
    if not 1 <= limit <= most:
        raise RequestRefusedError(f"limit is a whole number from 1 to {most:,}", param="limit")
    order = asked.get("order", "desc")
    if order not in ("asc", "desc"):
        raise RequestRefusedError('order is "asc" or "desc"', param="order")
    return AskedPage(asked.get("after") or None, limit, order == "asc")


def list_page(found: Sequence[FileObject] | Sequence[BatchObject], page: AskedPage) -> ListPage:
    """What is answered where one more than was asked for was looked for."""
    data = found[: page.most]
    return ListPage(
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=len(found) > page.most,
    )
