"""OpenAI Batch files: their requests, and the lines of their results and errors.

A request becomes a job of a worker that takes `openai_route` and `openai_input`, as the service's vLLM worker does, so
that it is queued, retained and told of by webhook like any other. What such a worker answers is the body of the
response, alone or as the only element of an array.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from orchestrator.core.openai import check_not_streamed
from orchestrator.declared_inputs import FORMAT
from orchestrator.formats.custom_id import decode_custom_id
from orchestrator.formats.json_text import kind_of
from orchestrator.formats.outcome_lines import ErrorLine, ResultLine, encodable
from orchestrator.settings import InputFormat

KEYS: Final = frozenset({"custom_id", "method", "url", "body"})

METADATA: Final = "metadata"
"""What a request may have besides: it is not sent, and stands in the line of its result."""

LOOKS_LIKE_IT: Final = (
    "this looks like a request of an OpenAI Batch file, and the first line does not; keep to one form, or say"
    f" {FORMAT} {InputFormat.OPENAI_BATCH}"
)


def is_request(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object is a request of this format: these keys, an object as body, and no others."""
    return (members.keys() | {"custom_id"}) - {METADATA} == KEYS and bytes(members["body"]).startswith(b"{")


def input_of(members: Mapping[str, msgspec.Raw]) -> tuple[str, bytes]:
    """The id of a request and the input that it becomes. Raises `ValueError` in words for its author."""
    if missing := sorted(KEYS - members.keys()):
        raise ValueError(f"a request of an OpenAI Batch file has {', '.join(sorted(KEYS))}; {missing[0]} is missing")
    if unknown := sorted(members.keys() - KEYS - {METADATA}):
        raise ValueError(
            f'unknown key "{unknown[0]:.40}"; a request of an OpenAI Batch file has none but its four, and {METADATA}'
        )
    method, url, body = (bytes(members[key]) for key in ("method", "url", "body"))
    if method != b'"POST"':
        raise ValueError(f"method must be POST, not {method.decode()[:40]}")
    if not url.startswith(b'"/'):
        raise ValueError(f'url must be a path, as in "/v1/chat/completions", not {url.decode()[:80]}')
    if not body.startswith(b"{"):
        raise ValueError(f"body must be an object, not {kind_of(body)}")
    check_not_streamed(body)
    custom_id = decode_custom_id(bytes(members["custom_id"]))
    return custom_id, b'{"openai_route":%b,"openai_input":%b}' % (url, body)


# --- what comes of them

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
