"""Why something is refused that a program asks of the Batch API."""

from enum import StrEnum

from orchestrator.errors import UsageError


class RefusalKind(StrEnum):
    """Of which kind it is: what the program may do about it."""

    INVALID = "invalid"
    """It has to ask for something else."""

    NOT_FOUND = "not_found"
    """There is no such thing, or not for this program."""

    TOO_LARGE = "too_large"
    CONFLICT = "conflict"
    """It may ask again later."""


class RequestRefusedError(UsageError):
    """What a program asked for is refused; nothing was changed."""

    def __init__(
        self,
        message: str,
        kind: RefusalKind = RefusalKind.INVALID,
        *,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.param = param
        """The part of the question that it is about."""

        self.code = code
        """What it is called in OpenAI's interface, if anything."""


def not_found(what: str, given: str, *, param: str = "id") -> RequestRefusedError:
    """There is no such file or batch of this program's."""
    return RequestRefusedError(f"No such {what} object: {given:.80}", RefusalKind.NOT_FOUND, param=param)
