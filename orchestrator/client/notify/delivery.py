"""What came of sending a message: taken, or why not, and for how long the receiver takes nothing (`Retry-After`)."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from orchestrator.client.http.posts import PostNotification
from orchestrator.clock import Clock
from orchestrator.core.pipelines.message_text import Letter
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import OrchestratorError
from orchestrator.units import SECOND_US

_OK: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way."""

    number: str
    """What it is called: the same each time it is sent."""

    of: str
    """What it is of: what belongs together has the same."""

    body: bytes
    letter: Letter
    template: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What came of sending it once."""

    problem: str | None = None
    """Why nobody has taken it; None: somebody has."""

    wait_us: int = 0
    """For so long the receiver takes nothing, as far as it said."""

    is_wanted: bool = True
    """False: who was to be told does not want to hear of that, or not any more."""


TAKEN: Final = Delivery()
UNWANTED: Final = Delivery(is_wanted=False)


def failed(problem: str) -> Delivery:
    """Nobody has taken it, for that reason."""
    return Delivery(problem=problem)


def judged(url: str, answer: Answer) -> Delivery:
    """What the answer of the receiver at `url` means. Of the URL nothing is named but its host."""
    if answer.status in _OK:
        return TAKEN
    problem = f"{urlsplit(url).hostname} answered {answer.status}"
    if answer.status in _REDIRECTS:
        problem += ", and redirects are not followed: write the address that it leads to"
    return Delivery(problem=problem, wait_us=int((answer.retry_after_s or 0.0) * SECOND_US))


async def posted(
    url: str, body: bytes, post: PostNotification, clock: Clock, headers: Mapping[str, str] | None = None
) -> Delivery:
    """Posts it once."""
    try:
        return judged(url, await post(url, headers or {}, body, clock))
    except OrchestratorError as error:
        return failed(str(error))
