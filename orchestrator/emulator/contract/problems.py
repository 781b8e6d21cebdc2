"""What the REST interface (v2) answers to a request that it turns down: a problem document."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from orchestrator.emulator.contract.answers import HttpAnswer

MEDIA_TYPE = "application/problem+json"

_TITLES = {HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Entity"}
"""Where Python calls a status otherwise than the service does (3.13 renamed it)."""


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body (contract of pods, Errors)."""

    title: str
    status: int
    detail: str
    errors: tuple[str, ...] = ()


class ProblemRefusal(Exception):
    """The request is turned down with `status`; `errors` are the single failures of its validation."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[str] = (), headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = headers

    def answer(self) -> HttpAnswer:
        """The problem as it goes over the wire."""
        title = _TITLES.get(HTTPStatus(self.status), HTTPStatus(self.status).phrase)
        document = ProblemDocument(title=title, status=self.status, detail=self.detail, errors=self.errors)
        return HttpAnswer(
            status=self.status, body=msgspec.json.encode(document), content_type=MEDIA_TYPE, headers=self.headers
        )


def malformed_problem() -> ProblemRefusal:
    """400: what came is not even JSON."""
    return ProblemRefusal(HTTPStatus.BAD_REQUEST, "request could not be processed")


def invalid_problem(errors: Sequence[str]) -> ProblemRefusal:
    """422: JSON, and not of the form that the operation takes."""
    return ProblemRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Request validation failed.", errors)


def not_found_problem() -> ProblemRefusal:
    """404: there is no such thing, or it is somebody else's."""
    return ProblemRefusal(HTTPStatus.NOT_FOUND, "resource not found")
