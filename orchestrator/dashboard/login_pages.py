"""Signing in by a link, and out again.

To open a link only asks whether to sign in: what looks at links before people do must not use them up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.dashboard.access.access_middleware import LOGIN, LOGOUT
from orchestrator.dashboard.access.authentication import Visitors
from orchestrator.dashboard.access.tokens import SESSION_S, Person
from orchestrator.dashboard.rendering.jinja_environment import Urls
from orchestrator.dashboard.rendering.renderer import HTML, Renderer, Scene

TEMPLATE: Final = "login.html"


class LoginForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the page asks."""

    next: str
    """Where to go then, from the root."""

    link: str = ""
    name: str = ""
    """Whom the link signs in; empty where there is none that does."""

    may_act: bool = False
    problem: str = ""


@dataclass(kw_only=True, eq=False)
class Login:
    """The pages that strangers see."""

    visitors: Visitors
    renderer: Renderer
    urls: Urls
    clock: Clock

    def routes(self) -> list[Route]:
        """Of signing in and out."""
        return [
            Route(LOGIN, self._asked, methods=["GET"]),
            Route(LOGIN, self._sent, methods=["POST"]),
            Route(LOGOUT, self._left, methods=["POST"]),
        ]

    def page(self, next_path: str, problem: str = "", status: int = 401) -> Response:
        """The page that asks for a link."""
        return self._answer(LoginForm(next=next_path, problem=problem), status)

    async def _asked(self, request: Request) -> Response:
        link, next_path = _token_in(request.query_params.get("link", "")), _path_in(request.query_params)
        if not link:
            return self.page(next_path, status=200)
        person = self._person(link)
        if person is None:
            return self._refused(next_path)
        return self._answer(LoginForm(next=next_path, link=link, name=person.name, may_act=person.may_act), 200)

    async def _sent(self, request: Request) -> Response:
        fields = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
        link, next_path = _token_in(fields.get("link", "")), _path_in(fields)
        person = self._person(link)
        if person is None or not self.visitors.folder.use_link(link):
            if person is not None:
                self.visitors.wrong_keys.add()
            return self._refused(next_path)
        answer = RedirectResponse(self.urls.url(next_path), status_code=303)
        settings = self.visitors.settings
        answer.set_cookie(
            self.visitors.cookie,
            self.visitors.tokens.session(person),
            max_age=SESSION_S,
            path=settings.prefix or "/",
            secure=(settings.origin or "").startswith("https:"),
            httponly=True,
            samesite="lax",
        )
        return answer

    async def _left(self, _request: Request) -> Response:
        answer = RedirectResponse(self.urls.url(LOGIN), status_code=303)
        answer.delete_cookie(self.visitors.cookie, path=self.visitors.settings.prefix or "/")
        return answer

    def _person(self, link: str) -> Person | None:
        """Whom it signs in. None is looked at where too many were wrong."""
        if self.visitors.wrong_keys.are_too_many:
            return None
        person = self.visitors.tokens.person_of_link(link)
        if person is None:
            self.visitors.wrong_keys.add()
        return person

    def _refused(self, next_path: str) -> Response:
        if self.visitors.wrong_keys.are_too_many:
            return self.page(next_path, "Too many wrong links: none is looked at for a minute.", 429)
        return self.page(next_path, "This link is too old, was used already, or is none of this dashboard.", 401)

    def _answer(self, form: LoginForm, status: int) -> Response:
        scene = Scene(now=self.clock.now(), here=LOGIN, is_stranger=True)
        return Response(self.renderer.html(TEMPLATE, form, scene), status, media_type=HTML)


def _token_in(text: str) -> str:
    """The token, of a whole link, too."""
    query = parse_qs(urlsplit(text.strip()).query) if "?" in text else {}
    return query["link"][0] if "link" in query else text.strip()


def _path_in(fields: Mapping[str, str]) -> str:
    """Where to go on, if that is a page of ours."""
    path = fields.get("next", "")
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"
