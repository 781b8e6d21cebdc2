"""Answers forms that were sent: whatever they have changed, every view is computed anew afterwards."""

from dataclasses import dataclass, field
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.dashboard.access.access_middleware import person_of
from orchestrator.dashboard.page import FormRequest, FormRoute, KeptFile
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.dashboard.reading.time_limits import within
from orchestrator.dashboard.reading.view_cache import ViewCache
from orchestrator.dashboard.rendering.jinja_environment import Urls
from orchestrator.dashboard.rendering.renderer import HTML, Renderer
from orchestrator.dashboard.scenes import Scenes
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Connect

FORM_S_MAX: Final = 10.0
"""So long what a form holds may take to come."""

WHERE: Final = "where"
"""The field of a form that holds a filter."""


@dataclass(kw_only=True, eq=False)
class FormAnswers:
    """Those of one dashboard."""

    reader: LedgerReader
    clock: Clock
    renderer: Renderer
    urls: Urls
    scenes: Scenes
    views: ViewCache[msgspec.Struct | KeptFile]
    """Those of its pages."""

    connect: Connect | None
    """How the functions that forms call connect to the ledger."""

    dependencies: Dependencies = field(init=False)

    def __post_init__(self) -> None:
        connect = self.connect
        self.dependencies = Dependencies(clock=self.clock, connect=None if connect is None else lambda _: connect)

    def route(self, form: FormRoute) -> Route:
        """The route of a form."""

        async def answer(request: Request) -> Response:
            return await self._answer(form, request)

        return Route(form.path, answer, methods=["POST"])

    async def _answer(self, form: FormRoute, request: Request) -> Response:
        with within(FORM_S_MAX):
            sent = await request.form()
        person, now, holder = person_of(request), self.reader.now(), await self.reader.holder()
        fields = {name: value for name, value in sent.items() if isinstance(value, str)}
        shows = self.scenes.shows(request)
        shows.refuse_where(fields.get(WHERE, ""), now)
        async with self.reader.borrowed() as ledger:  # whether it can be read at all
            asked = FormRequest(
                ledger=ledger,
                now=now,
                holder=holder,
                numbers=request.path_params,
                query=dict(request.query_params),
                shows=shows,
                person="" if person is None else person.name,
                fields=fields,
                dependencies=self.dependencies,
            )
        try:
            answer = await form.answer(asked)
        finally:
            self.views.forget()
        if answer.redirect:
            return RedirectResponse(self.urls.url(answer.redirect), status_code=303)
        scene = self.scenes.around(request, form.heading, now, holder)
        return Response(self.renderer.html(answer.template, answer.view, scene), answer.status, media_type=HTML)
