"""`GET /emulator/files/{name}`: files to which outputs of handlers can link, for whoever tests what becomes of links.

Not part of the service. It takes any key, or none, and a file is always the same by its name.
"""

import random
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.contract.answers import HTML_PAGE, HttpAnswer
from orchestrator.emulator.contract.faults import Fault, FaultDice
from orchestrator.emulator.http.delivery import AnswerResponse
from orchestrator.emulator.http.wire import Cut, OutgoingAnswer

BYTES: Final = 100_000


class LinkedFiles:
    """Answers `/emulator/files`."""

    def __init__(self, dice: FaultDice) -> None:
        self._dice = dice

    def routes(self) -> list[Route]:
        """Their route."""
        return [Route("/emulator/files/{name:path}", self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> Response:
        cut = Cut.NOWHERE
        if self._dice.strikes(Fault.GONE_LINK):
            answer = HttpAnswer(status=HTTPStatus.FORBIDDEN, body=b"expired", content_type="text/plain")
        elif self._dice.strikes(Fault.PAGE_LINK):
            answer = HttpAnswer(status=HTTPStatus.OK, body=HTML_PAGE, content_type="text/html")
        else:
            content = random.Random(request.path_params["name"]).randbytes(BYTES)  # noqa: S311
            answer = HttpAnswer(status=HTTPStatus.OK, body=content, content_type="application/octet-stream")
            cut = Cut.INSIDE_BODY if self._dice.strikes(Fault.CUT_LINK) else cut
        return AnswerResponse(OutgoingAnswer(answer=answer, cut=cut))
