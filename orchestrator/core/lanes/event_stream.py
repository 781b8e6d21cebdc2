"""Answers that come in pieces (`text/event-stream`), as servers send what a model writes: gathered into one list."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.text.json_compact import compact

CONTENT_TYPE: Final = "text/event-stream"

_END: Final = b"[DONE]"
"""What servers of OpenAI's interface say at the end; it is no piece."""

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_FIELD: Final = b"data"


def pieces_of(body: bytes) -> Sequence[bytes]:
    """The data of the events, each as JSON: as it came, or as a text where it is none. Raises `ValueError` where the
    body is no text.
    """
    body.decode()
    pieces: list[bytes] = []
    lines: list[bytes] = []
    for line in (*_LINE_END.split(body), b""):
        name, _, value = line.partition(b":")
        if name == _FIELD:
            lines.append(value.removeprefix(b" "))
        elif not line and lines:
            if (piece := b"\n".join(lines)) != _END:
                pieces.append(_as_json(piece))
            lines = []
    return pieces


def _as_json(piece: bytes) -> bytes:
    try:
        return compact(piece)
    except (ValueError, RecursionError):
        return msgspec.json.encode(piece.decode())


class _Piece(msgspec.Struct):
    error: object = None
    choices: object = None


_piece: Final = msgspec.json.Decoder(_Piece)


def ends_in_error(pieces: Sequence[bytes]) -> bool:
    """Whether the last piece says that the server failed after it had begun to answer."""
    if not pieces:
        return False
    try:
        last = _piece.decode(pieces[-1])
    except (ValueError, RecursionError):
        return False
    return last.error is not None and last.choices is None
