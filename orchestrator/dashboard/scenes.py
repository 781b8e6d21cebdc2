"""What stands around a page, and what of inputs and outputs is shown there, by who asks."""

from dataclasses import dataclass

from starlette.requests import Request

from orchestrator.dashboard.access.access_middleware import person_of
from orchestrator.dashboard.access.authentication import Visitors
from orchestrator.dashboard.payload_redaction import Payloads
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.dashboard.rendering.renderer import Scene
from orchestrator.settings.monitoring.dashboard_settings import PayloadChoice


@dataclass(kw_only=True, eq=False)
class Scenes:
    """Those of one dashboard."""

    reader: LedgerReader
    visitors: Visitors

    def around(self, request: Request, heading: str, now: int, holder: str | None) -> Scene:
        """What stands around a page below that heading, which shows how things stood at `now`."""
        person = person_of(request)
        return Scene(
            now=now,
            here=request.scope["path"],
            heading=heading,
            holder=holder,
            may_act=self.visitors.may_act(person),
            person=None if person is None or self.visitors.settings.no_login else person.name,
        )

    async def without_page(self, request: Request) -> Scene:
        """What stands around what is said where there is no page."""
        if person_of(request) is None:
            return Scene(now=self.reader.now(), here=request.scope["path"], is_stranger=True)
        return self.around(request, "", self.reader.now(), await self.reader.holder())

    def shows(self, request: Request) -> Payloads:
        """What of inputs and outputs may be shown."""
        settings, person = self.visitors.settings, person_of(request)
        is_viewer = person is None or not person.may_act
        return Payloads(are_hidden=is_viewer or settings.payloads is PayloadChoice.HIDE, redacted=settings.redact)
