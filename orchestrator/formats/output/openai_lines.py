"""The lines of results and errors of an OpenAI Batch file, whose requests `openai_batch` reads.

What a worker answers is the body of the response, alone or as the only element of an array.
"""

from typing import Final

import msgspec
from msgspec import UNSET

from orchestrator.formats.input.openai_batch import METADATA
from orchestrator.formats.output.outcome_lines import ErrorLine, ResultLine, encodable

OK: Final = 200
REFUSED: Final = 400
FAULTY: Final = 500
STATUS_MAX: Final = 599

_encode: Final = msgspec.json.Encoder().encode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])


class _Refusal(msgspec.Struct):
    """An error that a worker answers with, in either of its shapes."""

    object: str | None = None
    code: int | str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_refusal: Final = msgspec.json.Decoder(_Refusal)


def result_line(line: ResultLine, *, is_any_body: bool) -> bytes:
    """The line of a job that succeeded. Raises `ValueError` where its output is no answer, unless it may be any."""
    body = _body(bytes(line.output))
    if body is None and not is_any_body:
        raise ValueError("the output is no object, nor one in an array, so it is no body of a response")
    status = OK if body is None else _status(body)
    response = {
        "status_code": status,
        "request_id": line.job_id or "",
        "body": line.output if body is None else msgspec.Raw(body),
    }
    return _line(line, response, None)


def answer_status(line: ResultLine) -> int:
    """The status of the answer of a job that succeeded: the worker's, where it has refused the request."""
    body = _body(bytes(line.output))
    return OK if body is None else _status(body)


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


def _status(body: bytes) -> int:
    """The status of an answer: vLLM's errors have one, as their `code`."""
    try:
        said = _refusal.decode(body)
        inner = bytes(said.error).strip()
        if inner.startswith(b"{"):
            said = msgspec.structs.replace(_refusal.decode(inner), object="error")
        elif inner != b"null":
            return FAULTY
    except (msgspec.DecodeError, RecursionError):
        return OK
    if said.object != "error":
        return OK
    return said.code if isinstance(said.code, int) and REFUSED <= said.code <= STATUS_MAX else FAULTY
