"""What pages are asked for behind the question mark (filters, places in a list), and which run their path means."""

from collections.abc import Mapping

from orchestrator.api.pages.runs.run_places import run_numbered
from orchestrator.dashboard.page import NotFoundError, PageRequest
from orchestrator.errors import UsageError
from orchestrator.ledger.database import NUMBER_MAX
from orchestrator.ledger.runs.runs import Run


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """The number that is called `name`; None where there is none. Raises `UsageError` for what is no number of ours."""
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(NUMBER_MAX)) or int(text) > NUMBER_MAX:
        raise UsageError(f"{name} is no number that a page has said; begin at its first page")
    return int(text)


async def run_of(request: PageRequest) -> Run:
    """The run that the path means. Raises `NotFoundError`."""
    number = request.numbers["run"]
    found = await run_numbered(request.ledger, number)
    if found is None:
        raise NotFoundError(
            f"There is no run {number} in this ledger: it was deleted, or never was.", {"Runs": "/runs"}
        )
    return found
