"""The OpenAI Batch format: requests in, and the lines of its output and error files out.

A request becomes a job of a worker that takes `openai_route` and `openai_input`, as the service's vLLM worker does, so
that it is queued, retained and told of by webhook like any other.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from orchestrator.declared_inputs import FORMAT
from orchestrator.formats.custom_id import decode_custom_id
from orchestrator.formats.json_text import kind_of
from orchestrator.settings import InputFormat

KEYS: Final = frozenset({"custom_id", "method", "url", "body"})

LOOKS_LIKE_IT: Final = (
    "this looks like a request of an OpenAI Batch file, and the first line does not; keep to one form, or say"
    f" {FORMAT} {InputFormat.OPENAI_BATCH}"
)

_encode: Final = msgspec.json.Encoder().encode


def is_request(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object is a request of this format: these keys, an object as body, and no others."""
    return members.keys() | {"custom_id"} == KEYS and bytes(members["body"]).startswith(b"{")


def input_of(members: Mapping[str, msgspec.Raw]) -> tuple[str, bytes]:
    """The id of a request and the input that it becomes. Raises `ValueError` in words for its author."""
    if missing := sorted(KEYS - members.keys()):
        raise ValueError(f"a request of an OpenAI Batch file has {', '.join(sorted(KEYS))}; {missing[0]} is missing")
    if unknown := sorted(members.keys() - KEYS):
        raise ValueError(f'unknown key "{unknown[0]:.40}"; a request of an OpenAI Batch file has none but its four')
    method, url, body = (bytes(members[key]) for key in ("method", "url", "body"))
    if method != b'"POST"':
        raise ValueError(f"method must be POST, not {method.decode()[:40]}")
    if not url.startswith(b'"/'):
        raise ValueError(f'url must be a path, as in "/v1/chat/completions", not {url.decode()[:80]}')
    if not body.startswith(b"{"):
        raise ValueError(f"body must be an object, not {kind_of(body)}")
    if b'"stream"' in body and msgspec.json.decode(body).get("stream") is True:
        raise ValueError("a batch has no streams; leave stream out of the body")
    custom_id = decode_custom_id(bytes(members["custom_id"]))
    return custom_id, b'{"openai_route":%b,"openai_input":%b}' % (url, body)


class Response(msgspec.Struct, frozen=True):
    """What the worker answered."""

    status_code: int
    request_id: str | None
    body: Any


class Failure(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    code: str
    message: str


class Line(msgspec.Struct, frozen=True):
    """A line of the output file (with a `response`) or of the error file (with an `error`)."""

    id: str
    custom_id: str
    response: Response | None
    error: Failure | None


STATUS_OK: Final = 200
STATUS_BAD: Final = 400


def result_line(custom_id: str, job_id: str | None, output: bytes | None) -> bytes:
    """The line of a job that succeeded, with its line end.

    The output is the answer's body. Workers put what they yield into an array: of one with a single element that is
    the body. An answer that is an error object (`{"error": {...}}` or `{"object": "error"}`) has status 400.
    """
    body = b"null" if output is None else _single(output)
    code = STATUS_BAD if _is_error(body) else STATUS_OK
    answer = Response(code, job_id, msgspec.Raw(body))
    return _encode(Line(_line_id(job_id, custom_id), custom_id, answer, None)) + b"\n"


def error_line(custom_id: str, job_id: str | None, trouble: str, message: str) -> bytes:
    """The line of a job that did not succeed, with its line end."""
    return _encode(Line(_line_id(job_id, custom_id), custom_id, None, Failure(trouble, message))) + b"\n"


def _line_id(job_id: str | None, custom_id: str) -> str:
    return f"batch_req_{job_id or custom_id}"


def _single(output: bytes) -> bytes:
    if not output.startswith(b"["):
        return output
    parts = msgspec.json.decode(output, type=list[msgspec.Raw])
    return bytes(parts[0]) if len(parts) == 1 else output


def _is_error(body: bytes) -> bool:
    if not body.startswith(b"{") or b'"error"' not in body:
        return False
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return bytes(members.get("object", msgspec.Raw(b""))) == b'"error"' or (
        members.keys() == {"error"} and bytes(members["error"]) != b"null"
    )
