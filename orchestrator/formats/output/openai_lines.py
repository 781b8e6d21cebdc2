"""The lines of results and errors of an OpenAI Batch file, whose requests `openai_batch` reads.

What a worker answers is the body of the response, alone or as the only element of an array.
"""

from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import UNSET

from orchestrator.core.batch_api.token_usage import TokenUsage
from orchestrator.formats.input.openai_batch import METADATA
from orchestrator.formats.output.outcome_lines import ErrorLine, ResultLine, encodable

OK: Final = 200
REFUSED: Final = 400
FAULTY: Final = 500
STATUS_MAX: Final = 599

TOKENS_MAX: Final = 2**53
"""What says that it took more is not believed."""

_encode: Final = msgspec.json.Encoder().encode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])

_Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)] | None


class _Said(msgspec.Struct):
    """What an answer may say beside its content: an error, in either of its shapes, or what it took."""

    object: str | None = None
    code: int | str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Details(msgspec.Struct):
    cached_tokens: _Tokens = None
    reasoning_tokens: _Tokens = None


class _Usage(msgspec.Struct):
    """Of a chat, a completion or embeddings, and of a response, which has other names for the same."""

    prompt_tokens: _Tokens = None
    completion_tokens: _Tokens = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens: _Tokens = None
    output_tokens: _Tokens = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


_said: Final = msgspec.json.Decoder(_Said)
_usage: Final = msgspec.json.Decoder(_Usage)


class RequestAnswer(NamedTuple):
    """What a worker has answered to a request."""

    status: int
    """The worker's, where it has refused the request."""

    body: bytes | None
    """None where its output is no body of a response."""

    usage: TokenUsage | None
    """What it took; None where it does not say."""


def answer_of(line: ResultLine) -> RequestAnswer:
    """The answer that the output of a job is that succeeded."""
    body = _body(bytes(line.output))
    if body is None:
        return RequestAnswer(OK, None, None)
    try:
        said = _said.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return RequestAnswer(OK, body, None)
    return RequestAnswer(_status(said), body, _usage_of(said))


def result_line(line: ResultLine, *, is_any_body: bool) -> bytes:
    """The line of a job that succeeded. Raises `ValueError` where its output is no answer, unless it may be any."""
    answer = answer_of(line)
    if answer.body is None and not is_any_body:
        raise ValueError("the output is no object, nor one in an array, so it is no body of a response")
    return answer_line(line, answer)


def answer_line(line: ResultLine, answer: RequestAnswer) -> bytes:
    """The line of a job whose output is that `answer`, or else any value."""
    response = {
        "status_code": answer.status,
        "request_id": line.job_id or "",
        "body": line.output if answer.body is None else msgspec.Raw(answer.body),
    }
    return _line(line, response, None)


def error_line(line: ErrorLine) -> bytes:
    """The line of a job that did not succeed: its class is the code."""
    return _line(line, None, {"code": line.error.trouble, "message": encodable(line.error.message)})


def _line(line: ResultLine | ErrorLine, response: object, error: object) -> bytes:
    members = {
        "id": f"batch_req_{line.job_id or line.custom_id}",
        "custom_id": line.custom_id,
        "response": response,
        "error": error,
    }
    if line.metadata is not UNSET:
        members[METADATA] = line.metadata
    return _encode(members) + b"\n"


def _body(output: bytes) -> bytes | None:
    try:
        if output.startswith(b"[") and len(items := _items.decode(output)) == 1:
            output = bytes(items[0]).strip()
    except (msgspec.DecodeError, RecursionError):
        return None
    return output if output.startswith(b"{") else None


def _status(said: _Said) -> int:
    """The status of an answer: vLLM's errors have one, as their `code`."""
    inner = bytes(said.error).strip()
    if inner.startswith(b"{"):
        try:
            said = msgspec.structs.replace(_said.decode(inner), object="error")
        except (msgspec.DecodeError, RecursionError):
            return OK
    elif inner != b"null":
        return FAULTY
    if said.object != "error":
        return OK
    return said.code if isinstance(said.code, int) and REFUSED <= said.code <= STATUS_MAX else FAULTY


def _usage_of(said: _Said) -> TokenUsage | None:
    try:
        found = _usage.decode(said.usage)
    except (msgspec.DecodeError, RecursionError):  # null, or nothing that anybody could add up
        return None
    taken, made = found.input_tokens_details or found.prompt_tokens_details, found.output_tokens_details
    taken, made = taken or _Details(), made or found.completion_tokens_details or _Details()
    return TokenUsage(
        input=found.input_tokens or found.prompt_tokens or 0,
        cached=taken.cached_tokens or 0,
        output=found.output_tokens or found.completion_tokens or 0,
        reasoning=made.reasoning_tokens or 0,
    )
