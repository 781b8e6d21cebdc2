"""The messages of failures: short for people, and without what differs from one failure of a kind to the next
(`error_key`).

Workers report an error as they like: a sentence, a traceback, or a JSON object in a string that holds both. Its kind
is its type and its message, less numbers, ids, paths, times and quoted values.
"""

import re
from hashlib import blake2b
from typing import Final

import msgspec

READ_MAX: Final = 2_000
"""So many characters of what a message says are looked at."""

KIND_MAX: Final = 300
"""So many characters of a kind count."""

KEY_BYTES: Final = 6

_TRACEBACK: Final = "Traceback (most recent call last):"
_OF_CLASS: Final = re.compile(r"<class '([^']+)'>")
_LAST_LINE: Final = re.compile(r"[A-Za-z_][\w.]*(?::.*)?")


class _Reported(msgspec.Struct, frozen=True):
    """The object that workers put into the string of an error; of the names that are in use, the first is taken."""

    error_type: str | None = None
    error_message: str | None = None
    error_traceback: str | None = None
    error: str | None = None
    message: str | None = None
    type: str | None = None


_reported: Final = msgspec.json.Decoder(_Reported)

_VARIES: Final = re.compile(
    r"""
    (?P<quoted>"[^"\n]{0,400}"|(?<!\w)'[^'\n]{0,400}'(?!\w)|`[^`\n]{0,400}`)
    |(?P<url>\b[a-z][a-z0-9+.-]*://[^\s,;)\]}>]+)
    |(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)
    |(?P<time>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?
      |\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b)
    |(?P<path>(?<![\w/])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[^\s:,;"'()\[\]{}<>]+)
    |(?P<hex>\b0x[0-9a-fA-F]+\b|\b(?=[a-fA-F]{0,40}\d)(?=\d{0,40}[a-fA-F])[0-9a-fA-F]{6,}\b)
    |(?P<id>\b(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[A-Za-z])[\w-]{10,}\b)
    |(?P<number>[+-]?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?)
    """,
    re.VERBOSE,
)


def summary_of(message: str) -> str:
    """`message` in one line: of a traceback or an object in a string only the type and the message."""
    text = _told(message).strip() or message.strip()
    return " ".join(text[:READ_MAX].split())


def _told(message: str) -> str:
    text = message.strip()
    if text.startswith("{") and (reported := _decoded(text)) is not None:
        return reported
    if _TRACEBACK in text:
        return _last_of_traceback(text)
    return text


def _decoded(text: str) -> str | None:
    """What the object in `text` says, as `type: message`; None where it is none, or says nothing."""
    try:
        found = _reported.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    kind = found.error_type or found.type or ""
    kind = kind if (named := _OF_CLASS.fullmatch(kind)) is None else named[1]
    kind = kind.removeprefix("builtins.")
    message = found.error_message or found.message or found.error
    if not message and found.error_traceback:
        return _last_of_traceback(found.error_traceback)
    if not message:
        return kind or None
    said = _last_of_traceback(message) if _TRACEBACK in message else message
    return f"{kind}: {said}" if kind and not said.startswith(kind) else said


def _last_of_traceback(text: str) -> str:
    """The line with which the (last) traceback of `text` ends: the exception and its message."""
    lines = text[text.rfind(_TRACEBACK) :].splitlines()[1:]
    return next((line for line in lines if _LAST_LINE.fullmatch(line)), text)


def error_kind(message: str) -> str:
    """What failures with such a message have in common."""
    return _VARIES.sub(_blank, summary_of(message))[:KIND_MAX]


def _blank(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"


def error_key(trouble: str, message: str | None) -> int:
    """A number, of 48 bits, for failures of this class whose messages are of one kind: the name of their cluster."""
    kind = f"{trouble}\n{error_kind(message or '')}"
    return int.from_bytes(blake2b(kind.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest())
