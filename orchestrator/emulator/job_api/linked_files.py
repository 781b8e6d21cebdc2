"""`GET /emulator/files/{name}`: files to which outputs of handlers can link, for whoever tests what becomes of links.

Not part of the service. It takes any key, or none, and a file is always the same by its name.
"""

import random
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.contract.answers import HttpAnswer
from orchestrator.emulator.http.delivery import AnswerResponse
from orchestrator.emulator.http.wire import Wire

BYTES: Final = 100_000


class LinkedFiles:
    """Answers `/emulator/files`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def routes(self) -> list[Route]:
        """Their route."""
        return [Route("/emulator/files/{name:path}", self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> Response:
        content = random.Random(request.path_params["name"]).randbytes(BYTES)  # noqa: S311
        whole = HttpAnswer(status=HTTPStatus.OK, body=content, content_type="application/octet-stream")
        return AnswerResponse(self._wire.linked(whole))
