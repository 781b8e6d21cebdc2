"""The trace ids and span ids, made of what they are about: who sends one again sends it under the same number.

A job of a flow belongs to the trace of that flow; any other one has a trace of its own.
"""

from hashlib import blake2b
from typing import Final

TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
_WHOLE: Final = 1 << 64


def trace_id(*of: object) -> int:
    """The number of the trace that is about this."""
    return _number("trace", of, TRACE_BYTES)


def span_id(*of: object) -> int:
    """The number of the span that is about this."""
    return _number("span", of, SPAN_BYTES)


def is_sampled(run: int, job: int, share: float) -> bool:
    """Whether that job is one of the `share` that is told of: the same ones, whoever asks, and however often."""
    return _number("sample", (run, job), SPAN_BYTES) < share * _WHOLE


def _number(kind: str, of: tuple[object, ...], size: int) -> int:
    """Never 0, which stands for none."""
    digest = blake2b("\0".join(map(str, (kind, *of))).encode("utf-8", "surrogatepass"), digest_size=size).digest()
    return int.from_bytes(digest) or 1
