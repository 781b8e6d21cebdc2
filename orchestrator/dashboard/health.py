"""What monitoring asks: whether the ledger can be read. It needs no key, and names nothing."""

from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.dashboard.access.door import HEALTH
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.dashboard.rendering.renderer import JSON
from orchestrator.errors import OrchestratorError


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered."""

    status: str


@dataclass(kw_only=True, eq=False)
class HealthChecks:
    """Their routes."""

    reader: LedgerReader

    def routes(self) -> list[Route]:
        """One for each question."""
        return [Route(HEALTH, self._can_be_read, methods=["GET"])]

    async def _can_be_read(self, _request: Request) -> Response:
        try:
            await self.reader.version()
        except OrchestratorError:
            return _answer("the ledger cannot be read", 503)
        return _answer("ok", 200)


def _answer(status: str, code: int) -> Response:
    return Response(msgspec.json.encode(HealthAnswer(status=status)), code, media_type=JSON)
