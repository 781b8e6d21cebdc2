"""`/metrics`: what Prometheus asks for."""

from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.core.service.addresses import is_loopback
from orchestrator.dashboard.access.access_middleware import METRICS, person_of
from orchestrator.dashboard.access.authentication import Visitors
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.telemetry.metrics.snapshot_reader import metrics_text

_KEY_NEEDED: Final = "Send the key that `orchestrator dashboard key` prints as a bearer token."


@dataclass(kw_only=True, eq=False)
class MetricsRoute:
    """From this machine nobody has to say who they are, unless a proxy here lets others in; others send the key."""

    reader: LedgerReader
    visitors: Visitors

    def routes(self) -> list[Route]:
        """The one route."""
        return [Route(METRICS, self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> Response:
        if person_of(request) is None and not self._is_from_here(request):
            raise HTTPException(401, _KEY_NEEDED)
        async with self.reader.borrowed() as ledger:
            found = await metrics_text(ledger, request.headers.get("accept", ""))
        return Response(found.body, headers={"Content-Type": found.content_type})

    def _is_from_here(self, request: Request) -> bool:
        settings, peer = self.visitors.settings, request.client
        is_proxied = settings.url is not None or settings.user_header is not None
        return peer is not None and is_loopback(peer.host) and not is_proxied
