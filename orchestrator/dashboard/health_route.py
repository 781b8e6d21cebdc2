"""`/healthz`, what monitoring asks: whether the ledger can be read, and whether anything needs a person.

Neither needs a key. A stranger is told nothing but that; who is known, what it is.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.api.pages.attention import needs_now
from orchestrator.dashboard.access.access_middleware import HEALTH, person_of
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.dashboard.reading.view_cache import ViewCache
from orchestrator.dashboard.rendering.renderer import JSON
from orchestrator.errors import OrchestratorError

WORK: Final = f"{HEALTH}/work"


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is answered."""

    status: str
    needs: tuple[str, ...] = ()
    """What needs a person, in a line each."""


_WELL: Final = HealthAnswer(status="ok")
_UNREADABLE: Final = HealthAnswer(status="the ledger cannot be read")


@dataclass(kw_only=True, eq=False)
class HealthChecks:
    """Their routes."""

    reader: LedgerReader
    needs: ViewCache[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.needs = ViewCache(self.reader)

    def routes(self) -> list[Route]:
        """One for each question."""
        return [
            Route(HEALTH, self._can_be_read, methods=["GET"]),
            Route(WORK, self._needs_nobody, methods=["GET"]),
        ]

    async def _can_be_read(self, _request: Request) -> Response:
        try:
            await self.reader.version()
        except OrchestratorError:
            return _answer(_UNREADABLE, 503)
        return _answer(_WELL, 200)

    async def _needs_nobody(self, request: Request) -> Response:
        try:
            needs = (await self.needs.get(WORK, self._lines)).view
        except OrchestratorError:
            return _answer(_UNREADABLE, 503)
        if not needs:
            return _answer(_WELL, 200)
        named = () if person_of(request) is None else needs
        return _answer(HealthAnswer(status="something needs a person", needs=named), 503)

    async def _lines(self, _now: int, holder: str | None) -> tuple[str, ...]:
        async with self.reader.borrowed() as ledger:
            return tuple(f"{need.name}: {need.cause}" for need in await needs_now(ledger, holder))


def _answer(answer: HealthAnswer, code: int) -> Response:
    return Response(msgspec.json.encode(answer), code, media_type=JSON)
