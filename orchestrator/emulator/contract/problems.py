"""What the REST interface (v2) answers to a request that it turns down: a problem document."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from orchestrator.emulator.contract.answers import Answer

MEDIA_TYPE = "application/problem+json"

_TITLES = {HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Entity"}
"""Where Python calls a status otherwise than the service does (3.13 renamed it)."""


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body (contract of pods, Errors)."""

    title: str
    status: int
    detail: str
    errors: tuple[str, ...] = ()


class Problem(Exception):
    """The request is turned down with `status`; `errors` are the single failures of its validation."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[str] = (), headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = headers

    def answer(self) -> Answer:
        """The problem as it goes over the wire."""
        title = _TITLES.get(HTTPStatus(self.status), HTTPStatus(self.status).phrase)
        document = Document(title=title, status=self.status, detail=self.detail, errors=self.errors)
        return Answer(
            status=self.status, body=msgspec.json.encode(document), content_type=MEDIA_TYPE, headers=self.headers
        )


def malformed() -> Problem:
    """400: what came is not even JSON."""
    return Problem(HTTPStatus.BAD_REQUEST, "request could not be processed")


def invalid(errors: Sequence[str]) -> Problem:
    """422: JSON, and not of the form that the operation takes."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Request validation failed.", errors)


def not_found() -> Problem:
    """404: there is no such thing, or it is somebody else's."""
    return Problem(HTTPStatus.NOT_FOUND, "resource not found")
