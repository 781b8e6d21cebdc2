"""Takes secrets out of what a service says, before it is kept or shown.

Workers print what they were given, and services repeat what they were told. A value is found in every spelling that it
may have in a JSON text or a URL, and in each of its lines where a text is folded; JSON stays JSON. A spelling that is
too short is let be: to look for "a" or "test" would spoil honest results, and as a secret it would be none.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

SECRET_CHARS_MIN: Final = 8

SENT_CHARS_MIN: Final = 4
"""The same of a secret that stood in the request itself: what answers it is short, and nobody's result."""

HIDDEN: Final = "hidden"
"""The label of a secret that has no name of its own."""

_NUMBER: Final = re.compile(r"[0-9.eE+-]+")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9.eE+-]+', re.DOTALL)
"""A string of JSON, or what may be a number."""


class Redactor:
    """Knows some secrets: `secrets` are their values by the label that is put in their place, in brackets.

    `sent` are those of a request, where its own answer is looked through.
    """

    def __init__(self, secrets: Mapping[str, str], *, sent: Iterable[str] = ()) -> None:
        known = [(label, value, SECRET_CHARS_MIN) for label, value in secrets.items()]
        known += [(HIDDEN, value, SENT_CHARS_MIN) for value in sent]
        found = {
            spelling: f"[{label}]"
            for label, value, chars_min in known
            for spelling in spellings(value)
            if len(spelling) >= chars_min and len(value) >= chars_min
        }
        self._found = tuple(
            (spelling, spelling.encode("utf-8", "surrogatepass"), label)
            for spelling, label in sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))
        )

    def text(self, text: str) -> str:
        """`text` without the secrets."""
        for spelling, _, label in self._found:
            text = text.replace(spelling, label)
        return text

    def scrub(self, text: bytes) -> bytes:
        """The JSON `text` without the secrets: itself where none is in it."""
        for spelling, spelled, label in self._found:
            if spelled not in text:
                continue
            if _NUMBER.fullmatch(spelling):
                text = _TOKEN.sub(_in_token(spelled, label.encode()), text)
            else:
                text = text.replace(spelled, label.encode())
        return text


def _in_token(spelling: bytes, label: bytes) -> Callable[[re.Match[bytes]], bytes]:
    """A secret of digits may be (in) a number, in whose place only a string leaves the text JSON."""

    def replaced(token: re.Match[bytes]) -> bytes:
        found = token[0]
        if found.startswith(b'"'):
            return found.replace(spelling, label)
        return b'"%b"' % label if spelling in found else found

    return replaced


def spellings(value: str) -> frozenset[str]:
    """`value` as it may stand in an answer: as it is, in a URL, in a string of JSON, and in one inside another."""
    found: set[str] = set()
    for part in (value, " ".join(value.split()), *value.splitlines()):
        in_urls = (quote(part, safe=safe, errors="replace") for safe in ("", "/"))
        for plain in (part, *in_urls, quote_plus(part, errors="replace")):
            for ascii_only in (False, True):
                once = json.dumps(plain, ensure_ascii=ascii_only)[1:-1]
                inside = (plain, once, once.replace("/", "\\/"))
                found.update(inside)
                found.update(json.dumps(each, ensure_ascii=ascii_only)[1:-1] for each in inside)
    return frozenset(found)
