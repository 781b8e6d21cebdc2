"""Reads what the official worker posts to `job-done` and `job-stream` (as observed).

The body is JSON whatever the content type says (the worker sends a form's).
"""

from typing import TypeVar

import msgspec

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.jobs import WorkerResult

T = TypeVar("T")

IN_PROGRESS = "IN_PROGRESS"

ABSENT = msgspec.Raw(b"")


class DoneReport(msgspec.Struct, frozen=True, kw_only=True):
    """A `job-done`: the end of a job, or how far it is."""

    progress: bytes | None = None
    result: WorkerResult | None = None


class _Done(msgspec.Struct, frozen=True, rename="camel"):
    output: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    status: object = None
    stop_pod: object = None


class _Chunk(msgspec.Struct, frozen=True):
    output: msgspec.Raw


_DONE = msgspec.json.Decoder(_Done)
_CHUNK = msgspec.json.Decoder(_Chunk)


def parse_done(raw: bytes, *, is_stream: bool) -> DoneReport:
    """The report in the body of a `job-done`. Raises Refusal 400 for what is not JSON (NaN is not)."""
    done = _decode(_DONE, raw)
    output = _copy(done.output)
    if done.status == IN_PROGRESS:
        return DoneReport(progress=output or b"null")
    if is_stream and output == b"[]":
        output = None  # a generator that does not aggregate has no output (as observed)
    refresh = bool(done.stop_pod)
    error = _copy(done.error)
    if error is None or error in {b"null", b'""'}:
        return DoneReport(result=WorkerResult(output=output, refresh=refresh))
    if not error.startswith(b'"'):
        return DoneReport(result=WorkerResult(refresh=refresh))  # COMPLETED without output: the service's own bug (5.3)
    return DoneReport(result=WorkerResult(output=output, error=msgspec.json.decode(error, type=str), refresh=refresh))


def parse_chunk(raw: bytes) -> bytes:
    """The chunk in the body of a `job-stream`. Raises Refusal 400."""
    return bytes(_decode(_CHUNK, raw).output).strip()


def _decode(decoder: "msgspec.json.Decoder[T]", raw: bytes) -> T:
    try:
        raw.decode()
        return decoder.decode(raw)
    except (ValueError, RecursionError) as error:
        raise ServiceRefusal(400, f"bad request: {error}") from None


def _copy(raw: msgspec.Raw) -> bytes | None:
    """A copy: the Raw itself would keep the whole body alive."""
    return bytes(raw).strip() or None
