"""JSON kept as text: one canonical form for inputs that mean the same, and what is wrong with text that is not JSON.

msgspec decides what is valid, because it is what reads the text later. The standard library explains the rest, because
it says where, and stands in for numbers that msgspec does not hold.
"""

import json
from typing import Final, NoReturn

import msgspec

from orchestrator.core.text.json_compact import compact
from orchestrator.formats.text.value_text import NESTED_TOO_DEEPLY

_decoder: Final = msgspec.json.Decoder()
_encoder: Final = msgspec.json.Encoder(order="sorted")

_KINDS: Final = {b"{": "an object", b"[": "an array", b'"': "a string", b"n": "null", b"t": "true", b"f": "false"}


def canonical(text: bytes) -> bytes:
    """`text`, one valid JSON document, with keys sorted, no white space, and each number and string in one form.

    A key that stands twice counts with its last value, as it does for every reader of JSON that matters here. Numbers
    beyond the range of a float or of msgspec's integers stay as they are written. Raises RecursionError.
    """
    try:
        return _encoder.encode(_decoder.decode(text))
    except msgspec.ValidationError:
        return _encoder.encode(json.loads(text.decode(), parse_int=_number, parse_float=_number))


def _number(token: str) -> object:
    try:
        return _decoder.decode(token)
    except msgspec.ValidationError:
        return msgspec.Raw(token.encode())


def json_kind(text: bytes) -> str:
    """What sort of value the valid JSON document `text` (no white space before it) is: "an array", "null"."""
    return _KINDS.get(text[:1], "a number")


def json_problem(text: bytes) -> str | None:
    """Why `text` is not one JSON document that can be sent, in words for its author; None when it is."""
    try:
        _parse(text.decode())
        compact(text)
    except UnicodeDecodeError as error:
        return f"not valid UTF-8: byte 0x{text[error.start]:02x} at position {error.start + 1}; save the file as UTF-8"
    except RecursionError:
        return NESTED_TOO_DEEPLY
    except json.JSONDecodeError as error:
        return f"not JSON: {_where(error)}"
    except msgspec.DecodeError:
        # The standard library took it and msgspec did not: half of a surrogate pair, which has no UTF-8 form.
        return r"not JSON: half of a surrogate pair, an escape such as \ud83d without the other half after it"
    except ValueError as error:
        return f"not JSON: {error}"
    return None


def _parse(text: str) -> None:
    json.loads(text, parse_constant=_refuse, parse_int=len, parse_float=len)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number; write null or a string")


def _where(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return "it ends too early; each line must hold one whole object"
    if error.msg == "Extra data":
        return f"more text after the first value, at column {error.pos + 1}; write one object a line"
    return f"{error.msg[0].lower()}{error.msg[1:]}, at column {error.pos + 1}"
