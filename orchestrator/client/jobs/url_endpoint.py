"""An endpoint that is a URL: a server that answers each request with its result, and knows of no jobs."""

from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.client.http.backends import Request
from orchestrator.client.http.bodies import Leaving
from orchestrator.client.jobs.rate_limiter import Permit
from orchestrator.client.jobs.serverless import ServerlessEndpoint
from orchestrator.core.lanes.openai import ROUTE
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.url_endpoints import openai_url, root_of
from orchestrator.errors import NotSent

_WELL: Final = b"{}"
"""What stands for the answer of a server that is well: it does not say how many workers it has, or what waits."""

_ACCEPT: Final = "application/json, text/event-stream;q=0.9, */*;q=0.5"

_HAS_NONE: Final = frozenset({404, 405, 501})
_STARTING: Final = 204
_PATHS: Final = ("ping", "health")
"""Where servers tell how they are: load balancing endpoints by the first, language-model servers by either."""


class UrlEndpoint(ServerlessEndpoint):
    """One endpoint at a URL of its own. Of the operations of the job interface it has none; see `ServerlessEndpoint`
    for how permits and errors are.
    """

    is_by_url = True
    _asks_at: str | None = None
    """Where it has told how it is, of `_PATHS`; None before that."""

    async def openai(
        self, permit: Permit, route: str, body: bytes, *, within_s: float, leaving: Leaving | None = None
    ) -> Answer:
        """`POST` to that route of OpenAI's interface. The URL may have its version, `/v1`, or not."""
        if ROUTE.fullmatch(route) is None:
            raise ValueError(f"{route!r} is no path of OpenAI's interface")
        request = self.submission_to(openai_url(self.url, route), body, leaving)
        return await self.send(permit, Operation.OPENAI, request, within_s=within_s)

    async def health(self, permit: Permit, *, within_s: float | None = None) -> Answer:
        """How the server is, by `GET /ping`, or `/health` where it has no such: 200 where it is well, 204 while it
        starts. One that has neither counts as well, and `tells_health` is False then.
        """
        answer = await self._asked(permit, self._asks_at or _PATHS[0], within_s)
        if answer.status in _HAS_NONE and self._asks_at is None:
            answer = await self._asked(await self.limiter.permit(Operation.HEALTH), _PATHS[1], within_s)
        self.tells_health = answer.status not in _HAS_NONE
        if not self.tells_health or (200 <= answer.status < 300 and answer.status != _STARTING):  # noqa: PLR2004
            return msgspec.structs.replace(answer, status=200, body=_WELL)
        return answer

    async def _asked(self, permit: Permit, path: str, within_s: float | None) -> Answer:
        request = self.request("GET", f"{root_of(self.url)}/{path}")
        answer = await self.send(permit, Operation.HEALTH, request, within_s=within_s)
        if answer.status not in _HAS_NONE:
            self._asks_at = path
        return answer


class PodsPlace(UrlEndpoint):
    """The place where jobs wait for pods to take them: nothing is ever sent there, and it is always well."""

    takes_jobs = False

    async def send(
        self,
        permit: Permit,
        operation: Operation,
        request: Request,
        *,
        within_s: float | None = None,  # noqa: ARG002
    ) -> Answer:
        """Answers a question how it is. Raises `NotSent` for anything else."""
        permit.use(operation)
        permit.not_sent()
        if operation is not Operation.HEALTH:
            raise NotSent(f"{self.url} is no server: {request.method} cannot go there")
        now = self._clock.now()
        return Answer(status=200, body=_WELL, sent_at=now, answered_at=now)


def own_headers(plain: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """What requests to a URL carry: `plain` headers and those that were `given`, which win whatever their case."""
    names = {name.lower() for name in given}
    ours = {**plain, "Accept": _ACCEPT}
    return {**{name: value for name, value in ours.items() if name.lower() not in names}, **given}
