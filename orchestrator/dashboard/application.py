"""The dashboard as one ASGI application: each page by its path, as HTML or JSON, and a page for what goes wrong."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from orchestrator.clock import Clock, local_zone
from orchestrator.dashboard.charts.chart_functions import chart_functions
from orchestrator.dashboard.page import (
    ElsewhereError,
    FormAnswer,
    FormRequest,
    FormRoute,
    KeptFile,
    NotFoundError,
    Page,
    PageRequest,
)
from orchestrator.dashboard.pages.all_pages import all_pages
from orchestrator.dashboard.reading.ledger_reader import LedgerReader, open_reader
from orchestrator.dashboard.rendering.action_button import action
from orchestrator.dashboard.rendering.environment import STATIC, TEMPLATES, Urls, environment
from orchestrator.dashboard.rendering.renderer import HTML, JSON, PROBLEM_JSON, Renderer, Scene, page_problem
from orchestrator.errors import OrchestratorError, StorageError, UsageError, message_of
from orchestrator.ledger import Connect

log = logging.getLogger(__name__)

GLOBALS: Final[Mapping[str, object]] = {"action": action}
"""What templates may name beside their filters, whoever renders them."""


@dataclass(kw_only=True, eq=False)
class Site:
    """Answers requests for pages and forms of one ledger."""

    reader: LedgerReader
    clock: Clock
    renderer: Renderer
    urls: Urls

    def route(self, page: Page) -> Route:
        """The route of a page."""

        async def answer(request: Request) -> Response:
            return await self._page(page, request)

        return Route(page.path, answer, methods=["GET"])

    def form_route(self, form: FormRoute) -> Route:
        """The route of a form."""

        async def answer(request: Request) -> Response:
            return await self._form(form, request)

        return Route(form.path, answer, methods=["POST"])

    async def problem(self, request: Request, error: Exception) -> Response:
        """What is answered in place of a page."""
        match error:
            case ElsewhereError():
                return RedirectResponse(self.urls.url(error.path), status_code=303)
            case NotFoundError():
                problem = page_problem(404, str(error), error.nearest)
            case HTTPException(status_code=404):
                problem = page_problem(404, "There is no such page.", {"Now": "/"})
            case HTTPException():
                problem = page_problem(error.status_code, str(error.detail))
            case UsageError():
                problem = page_problem(400, message_of(error))
            case StorageError():
                problem = page_problem(503, message_of(error))
            case _:
                log.error("a page failed: %s", type(error).__name__)
                log.debug("the page that failed", exc_info=error)
                problem = page_problem(500, "This page has failed; the log says by what.")
        if _wants_json(request):
            return Response(self.renderer.problem_json(problem), problem.status, media_type=PROBLEM_JSON)
        html = self.renderer.problem_html(problem, self._scene(request, ""))
        return Response(html, problem.status, media_type=HTML)

    async def _page(self, page: Page, request: Request) -> Response:
        query = dict(request.query_params)
        live = [name for name in query.pop("live", "").split(",") if name in page.parts]
        asked = PageRequest(
            ledger=await self.reader.ledger(),
            now=self.clock.now(),
            holder=self.reader.holder(),
            numbers=request.path_params,
            query=query,
        )
        view = await page.compose(asked)
        if isinstance(view, KeptFile):
            return _attached(view)
        if _wants_json(request):
            return Response(self.renderer.json(view), media_type=JSON)
        return Response(
            self.renderer.html(page.template, view, self._scene(request, page.heading), live), media_type=HTML
        )

    async def _form(self, form: FormRoute, request: Request) -> Response:
        fields = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
        asked = FormRequest(
            ledger=await self.reader.ledger(),
            now=self.clock.now(),
            holder=self.reader.holder(),
            numbers=request.path_params,
            query=dict(request.query_params),
            person="somebody",
            fields=fields,
        )
        return self._answer(await form.answer(asked), self._scene(request, form.heading))

    def _answer(self, answer: FormAnswer, scene: Scene) -> Response:
        if answer.redirect:
            return RedirectResponse(self.urls.url(answer.redirect), status_code=303)
        html = self.renderer.html(answer.template, answer.view, scene)
        return Response(html, answer.status, media_type=HTML)

    def _scene(self, request: Request, heading: str) -> Scene:
        return Scene(
            now=self.clock.now(),
            here=request.url.path,
            heading=heading,
            holder=self.reader.holder(),
            may_act=True,
        )


def _attached(file: KeptFile) -> Response:
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
    return Response(file.body, media_type=file.media_type, headers=headers)


def _wants_json(request: Request) -> bool:
    """Whether JSON is asked for by its name; who says nothing gets the page."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


@asynccontextmanager
async def open_dashboard(
    ledger: Path,
    *,
    clock: Clock,
    zone: tzinfo | None = None,
    connect: Connect | None = None,
    pages: Sequence[Page] | None = None,
    forms: Sequence[FormRoute] = (),
    templates: Sequence[Path] = (TEMPLATES,),
) -> AsyncIterator[ASGIApp]:
    """The application for the ledger at that path; moments are shown by the clock of `zone`, that of this machine."""
    pages = all_pages() if pages is None else pages
    urls = Urls()
    zone = zone or local_zone()
    rendering = environment(ledger, zone, templates)
    rendering.globals.update({**chart_functions(zone), **GLOBALS})
    renderer = Renderer(rendering, urls, {page.path for page in pages})
    async with open_reader(ledger, clock=clock, connect=connect) as reader:
        site = Site(reader=reader, clock=clock, renderer=renderer, urls=urls)
        routes: list[BaseRoute] = [
            Mount("/static", StaticFiles(directory=STATIC)),
            *map(site.route, pages),
            *map(site.form_route, forms),
        ]
        known = dict.fromkeys(
            (HTTPException, NotFoundError, ElsewhereError, OrchestratorError, Exception), site.problem
        )
        yield Starlette(routes=routes, exception_handlers=known)
