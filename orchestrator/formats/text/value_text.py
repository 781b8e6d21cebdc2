"""A program's value as the line of a file that it would be. It is made where people's code has returned it, so this
module loads little.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

NESTED_TOO_DEEPLY: Final = "not usable: nested too deeply"

NOT_WRITABLE: Final = (TypeError, ValueError, OverflowError, msgspec.EncodeError)
"""What `value_text` raises, and `RecursionError`."""

_encode: Final = msgspec.json.Encoder().encode


def value_text(value: Mapping[str, Any]) -> bytes:
    """`value` as a line. Raises what `NOT_WRITABLE` lists, and `RecursionError`."""
    text = _encode(value if isinstance(value, dict) else dict(value))
    if b"null" in text and _has_no_number(value):  # which would be sent as null
        raise ValueError("NaN or an infinity is no number there; give None or a text")
    return text


def text_or_why(value: object) -> bytes | str:
    """`value` as a line, or why it is none."""
    if not isinstance(value, Mapping):
        return f"{type(value).__name__}, not a dict or a Job"
    try:
        return value_text(value)
    except NOT_WRITABLE as error:
        return f"not JSON: {error}"
    except RecursionError:
        return NESTED_TOO_DEEPLY


def _has_no_number(value: object) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case Mapping():
            return any(map(_has_no_number, value.values()))
        case str() | bytes():
            return False
        case Iterable():
            return any(map(_has_no_number, value))
        case _:
            return False
