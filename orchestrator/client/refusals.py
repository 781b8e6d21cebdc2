"""What a service that said no means, and what its user can do (contract, Errors).

The status decides; the body is tolerated in every form, since the contract shows none, and only adds words.
"""

import re
from typing import Final

import msgspec

from orchestrator.core.outcome import HINT_CHARS_MAX, Answer
from orchestrator.core.pacing import Operation
from orchestrator.errors import OrchestratorError

_MEANINGS: Final = {
    400: ("the service takes the request for malformed", "check the input and its settings"),
    401: ("the service refused the API key", "check ORCHESTRATOR_API_KEY: the key is wrong or lacks permission"),
    402: ("the account's balance does not allow it", "add to the balance and repeat the command"),
    403: ("the API key has no permission for this endpoint", "use a key that has"),
    404: ("the service does not know it", "check the endpoint id; a new endpoint is unknown for its first moments"),
    405: ("this address takes no such requests", "check the service URL"),
    407: ("the proxy wants authentication", "put it into HTTPS_PROXY"),
    409: ("the job is in no state for this", "look at its status"),
    410: ("the endpoint is gone", "check the endpoint id"),
    413: ("the request is too large", "put large data into storage and send its URL"),
    422: ("the service cannot work with the request", "check the input and its settings"),
    429: ("too many requests", "wait a little and repeat it"),
    500: ("the service failed", "a worker may have crashed: look into the endpoint's logs"),
}

_SERVER: Final = ("the service failed", "repeat it a little later")
_OTHER: Final = ("the service gave no success", "check the service URL")

_NO_SUCH_JOB: Final = (
    "the service does not know the job",
    "check both ids; or it was forgotten: a result is kept for 30 minutes (of runsync for 1), at most until the TTL",
)
_NOT_IN_STATE: Final = {
    Operation.RETRY: ("the service does not retry this job", "only a failed or timed-out job can be retried"),
    Operation.CANCEL: ("the service does not cancel this job", "it may have finished; look at its status"),
}

_OF_A_JOB: Final = frozenset({Operation.STATUS, Operation.STREAM, Operation.CANCEL, Operation.RETRY})
_SUBMITS: Final = frozenset({Operation.RUN, Operation.RUNSYNC, Operation.RETRY, Operation.OPENAI})

_SERVER_ERROR_MIN: Final = 500
_MARKUP: Final = re.compile(r"\s*<")


class RefusedError(OrchestratorError):
    """The service answered a request with a status that is no success.

    `status` is the HTTP status, `said` what the service said about it ("" for nothing that can be read), `advice` what
    to do, `retry_after_s` the service's wish, if it has one.
    """

    exit_code = 3

    def __init__(self, doing: str, operation: Operation, answer: Answer) -> None:
        meaning, self.advice = _meaning(operation, answer.status)
        self.operation = operation
        self.status = answer.status
        self.said = said(answer.body)
        self.retry_after_s = answer.retry_after_s
        if answer.retry_after_s is not None:
            self.advice = f"the service asks to wait for {answer.retry_after_s:g} s"
        if answer.status >= _SERVER_ERROR_MIN and operation in _SUBMITS:
            self.advice += "; whether it took effect is unknown, and to repeat it may be paid twice"
        quoted = f": {self.said}" if self.said else ""
        super().__init__(f"{doing}: {meaning} ({answer.status}{quoted}); {self.advice}")


def _meaning(operation: Operation, status: int) -> tuple[str, str]:
    if status == 404 and operation in _OF_A_JOB:  # noqa: PLR2004
        return _NO_SUCH_JOB
    if status in (400, 409, 422) and operation in _NOT_IN_STATE:
        return _NOT_IN_STATE[operation]
    return _MEANINGS.get(status, _SERVER if status >= _SERVER_ERROR_MIN else _OTHER)


def said(body: bytes) -> str:
    """The text of an error body, in one line: of JSON what stands under the usual names, else plain text; no markup."""
    try:
        return one_line(_in_json(msgspec.json.decode(body)))
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
        return "" if _MARKUP.match(text) else one_line(text)


def _in_json(value: object) -> str:
    match value:
        case str():
            return value
        case dict():
            found = (_in_json(value.get(name)) for name in ("error", "message", "detail", "title"))
            return next((text for text in found if text), "")
        case _:
            return ""


def one_line(text: str) -> str:
    """`text` as far as a person wants it: what a server says must not draw on the user's terminal."""
    printable = "".join(character if character.isprintable() else " " for character in text[: 4 * HINT_CHARS_MAX])
    return " ".join(printable.split())[:HINT_CHARS_MAX]
