"""From what is to be shown to HTML or JSON: a template for people, the same value for programs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec
from jinja2 import Environment

from orchestrator.dashboard.rendering.jinja_environment import Urls
from orchestrator.errors import flag_name, with_settings_named
from orchestrator.ledger import who_and_since
from orchestrator.views.actions import ActionLine
from orchestrator.views.json_values import as_printed

HEADINGS: Final[Mapping[str, str]] = {
    "Now": "/",
    "Runs": "/runs",
    "Pipelines": "/pipelines",
    "Endpoints": "/endpoints",
    "Engine": "/engine",
    "Messages": "/messages",
    "Actions": "/actions",
}
"""The navigation: paths by their names."""

PROBLEM_TEMPLATE: Final = "problem.html"

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What stands around a page, whichever it is."""

    now: int
    here: str
    """The path of the page, from the root."""

    query: str = ""
    """What follows it, as it is written: which part of a list it is."""

    heading: str = ""
    holder: str | None = None
    may_act: bool = False
    person: str | None = None
    """Who is signed in; None where nobody has to be."""

    did: ActionLine | None = None
    """What was asked from the page, and what came of it."""

    is_stranger: bool = False
    """Whoever asks is to learn nothing."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no page (RFC 9457)."""

    status: int
    title: str
    detail: str
    nearest: Mapping[str, str] = {}
    """Addresses of what was perhaps meant, by names."""


def page_problem(status: int, detail: str, nearest: Mapping[str, str] | None = None) -> Problem:
    """One of that HTTP status."""
    return Problem(status=status, title=HTTPStatus(status).phrase, detail=detail, nearest=nearest or {})


class Renderer:
    """Renders for one dashboard; `paths` are those of its pages."""

    def __init__(self, environment: Environment, urls: Urls, paths: Collection[str]) -> None:
        self._environment = environment
        self._urls = urls
        self._headings = {name: path for name, path in HEADINGS.items() if path in paths}

    def html(self, template: str, view: msgspec.Struct | None, scene: Scene, live: Collection[str] = ()) -> str:
        """The page, or of it the parts `live` only."""
        return self._environment.get_template(template).render(
            view=view,
            live=live,
            url=self._urls.url,
            static=self._urls.static,
            headings=self._headings,
            at_work=None if scene.holder is None else who_and_since(scene.holder),
            **{name: getattr(scene, name) for name in scene.__dataclass_fields__},
        )

    def json(self, view: msgspec.Struct) -> bytes:
        """As `--json` prints it."""
        return msgspec.json.encode(as_printed(view))

    def problem_html(self, problem: Problem, scene: Scene) -> str:
        """The page that says what is wrong."""
        return self.html(PROBLEM_TEMPLATE, self._addressed(problem), scene)

    def problem_json(self, problem: Problem) -> bytes:
        """The same as a problem document."""
        told = msgspec.structs.replace(self._addressed(problem), detail=with_settings_named(problem.detail, flag_name))
        return msgspec.json.encode(told)

    def _addressed(self, problem: Problem) -> Problem:
        nearest = {name: self._urls.url(path) for name, path in problem.nearest.items()}
        return msgspec.structs.replace(problem, nearest=nearest)
