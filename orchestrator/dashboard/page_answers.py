"""Answers requests for pages: each view is computed once for all, rendered for whoever asks, and 304 where its ETag is
known.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.dashboard.error_answers import wants_json
from orchestrator.dashboard.page import KeptFile, MisreadError, Page, PageRequest
from orchestrator.dashboard.reading.asked_action import asked_action
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.dashboard.reading.time_limits import within
from orchestrator.dashboard.reading.view_cache import CachedView, ViewCache
from orchestrator.dashboard.rendering.renderer import HTML, JSON, Renderer, Scene
from orchestrator.dashboard.scenes import Scenes

PAGE_S_MAX: Final = 5.0
"""So long one page may take, of several questions."""

DID: Final = "did"
"""The name in a query of the action that was asked from there."""

LIVE: Final = "live"
"""The name in a query of the parts that are asked for."""


@dataclass(kw_only=True, eq=False)
class PageAnswers:
    """Those of one dashboard."""

    reader: LedgerReader
    renderer: Renderer
    scenes: Scenes
    views: ViewCache[msgspec.Struct | KeptFile] = field(init=False)

    def __post_init__(self) -> None:
        self.views = ViewCache(self.reader)

    def route(self, page: Page) -> Route:
        """The route of a page."""

        async def answer(request: Request) -> Response:
            return await self._answer(page, request)

        return Route(page.path, answer, methods=["GET"])

    async def _answer(self, page: Page, request: Request) -> Response:
        query = dict(request.query_params)
        live = tuple(name for name in query.pop(LIVE, "").split(",") if name in (*page.parts, DID))
        did = await asked_action(self.reader, query.pop(DID, ""))
        shows = self.scenes.shows(request)

        async def compute(now: int, holder: str | None) -> msgspec.Struct | KeptFile:
            numbers: Mapping[str, int] = request.path_params
            with within(PAGE_S_MAX):
                async with self.reader.borrowed() as ledger:
                    return await page.compose(
                        PageRequest(ledger=ledger, now=now, holder=holder, numbers=numbers, query=query, shows=shows)
                    )

        key = (request.scope["path"], tuple(sorted(query.items())), shows)
        as_json = wants_json(request)
        try:
            cached = await self.views.get(key, compute)
        except MisreadError as error:
            if as_json:
                raise
            scene = self.scenes.around(request, page.heading, self.reader.now(), await self.reader.holder())
            return Response(self.renderer.html(page.template, error.view, scene), 400, media_type=HTML)
        if isinstance(cached.view, KeptFile):
            self.views.forget_one(key)
            return _attached(cached.view)
        scene = self.scenes.around(request, page.heading, cached.at, cached.holder)
        scene = replace(scene, did=did, query=urlencode(query))
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
