"""What is answered where there is no page: by what went wrong, for people or for programs."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from orchestrator.dashboard.page import ElsewhereError, NotFoundError
from orchestrator.dashboard.reading.ledger_reader import UnreadableError
from orchestrator.dashboard.rendering.jinja_environment import Urls
from orchestrator.dashboard.rendering.renderer import HTML, PROBLEM_JSON, Problem, Renderer, Scene, page_problem
from orchestrator.errors import OrchestratorError, StorageError, TookTooLongError, UsageError, message_of

log = logging.getLogger(__name__)

ANSWERED: Final = (HTTPException, NotFoundError, ElsewhereError, OrchestratorError, Exception)
"""What is raised in place of an answer. Where it is none of those before it, the last is a mistake of ours."""


@dataclass(kw_only=True, eq=False)
class ProblemPages:
    """Answers for one dashboard; `sign_in` is the page for a stranger who wants to go to a path, None without login."""

    renderer: Renderer
    urls: Urls
    scene: Callable[[Request], Awaitable[Scene]]
    sign_in: Callable[[str], Response] | None = None

    async def answer(self, request: Request, error: Exception) -> Response:
        """The answer in place of a page."""
        if isinstance(error, ElsewhereError):
            return RedirectResponse(self.urls.url(error.path), status_code=303)
        problem = _problem(error)
        if wants_json(request):
            answer = Response(self.renderer.problem_json(problem), problem.status, media_type=PROBLEM_JSON)
        elif problem.status == 401 and self.sign_in is not None:  # noqa: PLR2004
            answer = self.sign_in(request.scope["path"])
        else:
            answer = Response(
                self.renderer.problem_html(problem, await self.scene(request)), problem.status, media_type=HTML
            )
        if problem.status == 401:  # noqa: PLR2004
            answer.headers["WWW-Authenticate"] = "Bearer"
        if problem.status == 503:  # noqa: PLR2004
            answer.headers["Retry-After"] = "5"
        return answer


def _problem(error: Exception) -> Problem:
    match error:
        case NotFoundError():
            return page_problem(404, str(error), error.nearest)
        case HTTPException(status_code=404):
            return page_problem(404, "There is no such page.", {"Now": "/"})
        case HTTPException():
            return page_problem(error.status_code, str(error.detail))
        case UnreadableError() | StorageError() | TookTooLongError():
            return page_problem(503, message_of(error))
        case UsageError():
            return page_problem(400, message_of(error))
        case _:
            log.error("a page failed: %s", type(error).__name__)
            log.debug("the page that failed", exc_info=error)
            return page_problem(500, "This page has failed; the log of the dashboard names the error.")


def wants_json(request: Request) -> bool:
    """Whether JSON is asked for by its name; who says nothing gets the page."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted
