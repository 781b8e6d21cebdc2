"""What went wrong at a store, as an error of a file: whoever handles one handles the other, and says it alike.

Drivers raise errors of many libraries, whose texts may quote a request. Only what is known to be harmless is told.
"""

import errno
from collections.abc import Iterator, Sequence
from typing import Final

_NO_CREDENTIALS: Final = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError"}
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_CONDITION_FAILED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412"})
_PASSING_CODES: Final = frozenset(
    {"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "500", "502", "503", "504", "429"}
)
_PASSING_MODULES: Final = ("aiohttp", "httpx", "urllib3", "requests", "ssl")
_PASSING_NAMES: Final = frozenset(
    {
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "EndpointConnectionError",
        "FSTimeoutError",
        "HTTPClientError",
        "IncompleteReadError",
        "ReadTimeoutError",
        "ResponseStreamingError",
        "ServiceRequestError",
        "ServiceResponseError",
    }
)
_SILENT_NAMES: Final = frozenset(
    {"FSTimeoutError", "ReadTimeout", "ReadTimeoutError", "ServerTimeoutError", "SocketTimeoutError", "WriteTimeout"}
)
_PASSING_NUMBERS: Final = frozenset({errno.EBUSY, errno.EIO, getattr(errno, "EREMOTEIO", errno.EIO)})

CHANGED: Final = "it was changed meanwhile"


class StoreError(OSError):
    """A store does not do what it was asked for; `strerror` says why, in our words."""

    def __init__(self, number: int, why: str, *, may_pass: bool = False) -> None:
        super().__init__(number, why)
        self.may_pass = may_pass
        """Whether the same may go well a little later."""


def not_there(why: str = "there is no such object") -> StoreError:
    """There is nothing of that name."""
    return StoreError(errno.ENOENT, why)


def denied(why: str) -> StoreError:
    """Whoever we are there may not do that, or nobody knows who we are."""
    return StoreError(errno.EACCES, why)


def changed() -> StoreError:
    """It is not what it was when we began with it."""
    return StoreError(errno.ESTALE, CHANGED)


def gone() -> StoreError:
    """What was uploaded of it is not there any more."""
    return StoreError(errno.ENOENT, "its parts are gone: somebody has aborted the upload")


def given_up_error() -> StoreError:
    """Nobody waits any longer."""
    return StoreError(errno.ECANCELED, "it was not there in time, as a stop was asked for")


def too_large(most: int) -> StoreError:
    """A store takes no more of one object."""
    return StoreError(errno.EFBIG, f"it has more than {most:,} bytes; <setting split> makes several of it")


def is_missing(error: OSError) -> bool:
    """Whether there is nothing of that name."""
    return error.errno == errno.ENOENT


def is_unknown_request(error: OSError) -> bool:
    """Whether the store does not know what was asked of it."""
    return error.errno == errno.ENOSYS


def broken(why: str) -> StoreError:
    """What may go well a little later."""
    return StoreError(errno.EIO, why, may_pass=True)


def store_error_of(error: Exception) -> StoreError:
    """What a driver raised."""
    if isinstance(error, StoreError):
        return error
    chain = list(_chain(error))
    names = {type(each).__name__ for each in chain}
    code = next(filter(None, map(_code, chain)), "")
    is_denied = isinstance(error, PermissionError) or "ClientAuthenticationError" in names
    is_missing = isinstance(error, FileNotFoundError)
    may_pass = code in _PASSING_CODES or any(map(_may_pass, chain))
    called = code or type(error).__name__
    found: Sequence[tuple[bool, StoreError]] = (
        (bool(names & _NO_CREDENTIALS), denied("there are no credentials where its driver looks for them")),
        (code in _EXPIRED, denied("the credentials have expired")),
        (code in _CONDITION_FAILED or "FileExpired" in names or isinstance(error, FileExistsError), changed()),
        (is_missing and code == "NoSuchBucket", not_there("there is no such bucket")),
        (is_missing, not_there()),
        (is_denied, denied(f"access is denied ({called})")),
        (bool(names & _SILENT_NAMES), broken(f"the server says nothing ({called})")),
        (may_pass, broken(f"the connection failed ({called})")),
    )
    refused = StoreError(getattr(error, "errno", None) or errno.EIO, f"the store refuses ({called})")
    return next((made for holds, made in found if holds), refused)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _code(error: BaseException) -> str:
    """What the store itself calls it."""
    response = getattr(error, "response", None)
    found = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    codes = (found, getattr(error, "code", None), getattr(error, "error_code", None))
    return next((code for code in codes if isinstance(code, str)), "")[:40]


def _may_pass(error: BaseException) -> bool:
    kind = type(error)
    if isinstance(error, ConnectionError | TimeoutError) or kind.__name__ in _PASSING_NAMES:
        return True
    is_number = type(error) is OSError and error.errno in _PASSING_NUMBERS
    return is_number or kind.__module__.partition(".")[0] in _PASSING_MODULES
