"""What happens to pods by itself, made to happen by a request: `POST /emulator/pods/{id}/{event}`.

For tests that reach the emulator by HTTP alone; no key is needed. `fail`: its status is ERROR. `exit`: its container
ends. `join`: it is a member of the cluster that the body names, `{"id": "c1", "rank": 0, "role": "worker"}`.
"""

from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.emulator.account.pod_records import ClusterRecord
from orchestrator.emulator.account.pods import PodWorld
from orchestrator.emulator.contract.answers import ProblemRefusal, malformed_problem, not_found_problem
from orchestrator.emulator.http.delivery import AnswerResponse
from orchestrator.emulator.http.request_body import read_bounded_body
from orchestrator.emulator.http.wire import OutgoingAnswer

BODY_BYTES_MAX = 4096


class PodEvents:
    """Answers `/emulator/pods`: 204, or a problem document."""

    def __init__(self, world: PodWorld, clock: Clock) -> None:
        self._world = world
        self._clock = clock

    def routes(self) -> list[Route]:
        """The route of each event."""
        return [
            Route(f"/emulator/pods/{{pod_id}}/{event}", partial(self._answer, event), methods=["POST"])
            for event in ("fail", "exit", "join")
        ]

    async def _answer(self, event: str, request: Request) -> Response:
        pod_id: str = request.path_params["pod_id"]
        try:
            body = await read_bounded_body(request, BODY_BYTES_MAX)
            if not self._world.knows(pod_id):
                raise not_found_problem()
            if event == "join":
                self._world.join(pod_id, _cluster_in(body))
            else:
                (self._world.fail if event == "fail" else self._world.exit)(pod_id, self._clock.now())
        except ProblemRefusal as problem:
            return AnswerResponse(OutgoingAnswer(answer=problem.answer()))
        return Response(status_code=204)


def _cluster_in(body: bytes) -> ClusterRecord:
    try:
        return msgspec.json.decode(body, type=ClusterRecord)
    except (ValueError, RecursionError):
        raise malformed_problem() from None
