"""Answers requests for pages and forms: each view is computed once for all, and rendered for whoever asks."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote, urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.dashboard.access.access_middleware import person_of
from orchestrator.dashboard.access.authentication import Visitors
from orchestrator.dashboard.error_answers import wants_json
from orchestrator.dashboard.page import FormAnswer, FormRequest, FormRoute, KeptFile, Page, PageRequest
from orchestrator.dashboard.payload_redaction import Payloads
from orchestrator.dashboard.reading.asked_action import asked_action
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.dashboard.reading.view_cache import CachedView, ViewCache
from orchestrator.dashboard.rendering.jinja_environment import Urls
from orchestrator.dashboard.rendering.renderer import HTML, JSON, Renderer, Scene
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import TookTooLongError
from orchestrator.settings.monitoring.dashboard_settings import PayloadChoice

PAGE_S_MAX: Final = 5.0
"""So long one page may take, of several questions."""

FORM_S_MAX: Final = 10.0
"""So long what a form holds may take to come."""

DID: Final = "did"
"""The name in a query of the action that was asked from there."""

WHERE: Final = "where"
"""The field of a form that holds a filter."""

LIVE: Final = "live"
"""The name in a query of the parts that are asked for."""


@dataclass(kw_only=True, eq=False)
class Site:
    """The pages of one ledger."""

    reader: LedgerReader
    clock: Clock
    renderer: Renderer
    urls: Urls
    visitors: Visitors
    dependencies: Dependencies
    """What the functions build on that forms call."""

    views: ViewCache[msgspec.Struct | KeptFile] = field(init=False)

    def __post_init__(self) -> None:
        self.views = ViewCache(self.reader, self.clock)

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

    def scene(self, request: Request) -> Scene:
        """What stands around a page that is none."""
        here = request.scope["path"]
        if person_of(request) is None:
            return Scene(now=self.clock.now(), here=here, is_stranger=True)
        return self._scene(request, "", self.clock.now(), self.reader.holder())

    async def _page(self, page: Page, request: Request) -> Response:
        query = dict(request.query_params)
        live = tuple(name for name in query.pop(LIVE, "").split(",") if name in (*page.parts, DID))
        did = await asked_action(self.reader, query.pop(DID, ""))
        shows = self._shows(request)

        async def compute(now: int, holder: str | None) -> msgspec.Struct | KeptFile:
            numbers: Mapping[str, int] = request.path_params
            with _within(PAGE_S_MAX):
                async with self.reader.borrowed() as ledger:
                    return await page.compose(
                        PageRequest(ledger=ledger, now=now, holder=holder, numbers=numbers, query=query, shows=shows)
                    )

        key = (request.scope["path"], tuple(sorted(query.items())), shows)
        cached = await self.views.get(key, compute)
        if isinstance(cached.view, KeptFile):
            self.views.forget_one(key)
            return _attached(cached.view)
        as_json = wants_json(request)
        scene = replace(self._scene(request, page.heading, cached.at, cached.holder), did=did, query=urlencode(query))
        body = self._body(page, scene, cached, cached.view, None if as_json else live)
        return _tagged(request, body, JSON if as_json else HTML)

    def _body(
        self,
        page: Page,
        scene: Scene,
        cached: CachedView[msgspec.Struct | KeptFile],
        view: msgspec.Struct,
        live: tuple[str, ...] | None,
    ) -> bytes:
        """The page, its parts `live`, or for None its JSON, as whoever asks sees it: made once of each view."""
        did = scene.did
        key = (live, scene.person, scene.may_act, did and (did.id, did.state, did.outcome))
        body = cached.bodies.get(key)
        if body is None:
            if live is None:
                body = self.renderer.json(view)
            else:
                body = self.renderer.html(page.template, view, scene, live).encode()
            cached.bodies[key] = body
        return body

    async def _form(self, form: FormRoute, request: Request) -> Response:
        with _within(FORM_S_MAX):
            sent = await request.form()
        person, now, holder = person_of(request), self.clock.now(), self.reader.holder()
        fields = {name: value for name, value in sent.items() if isinstance(value, str)}
        shows = self._shows(request)
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
        return self._answer(answer, self._scene(request, form.heading, now, holder))

    def _answer(self, answer: FormAnswer, scene: Scene) -> Response:
        if answer.redirect:
            return RedirectResponse(self.urls.url(answer.redirect), status_code=303)
        return Response(self.renderer.html(answer.template, answer.view, scene), answer.status, media_type=HTML)

    def _shows(self, request: Request) -> Payloads:
        settings, person = self.visitors.settings, person_of(request)
        is_viewer = person is None or not person.may_act
        return Payloads(are_hidden=is_viewer or settings.payloads is PayloadChoice.HIDE, redacted=settings.redact)

    def _scene(self, request: Request, heading: str, now: int, holder: str | None) -> Scene:
        person = person_of(request)
        return Scene(
            now=now,
            here=request.scope["path"],
            heading=heading,
            holder=holder,
            may_act=self.visitors.may_act(person),
            person=None if person is None or self.visitors.tokens is None else person.name,
        )


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise TookTooLongError from None


def _attached(file: KeptFile) -> Response:
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
    return Response(file.body, media_type=file.media_type, headers=headers)


def _tagged(request: Request, body: bytes, media_type: str) -> Response:
    """The answer with a tag of what it holds, or without its body where the asker has just that."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Vary": "Accept, Cookie"}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
