"""Takes secrets out of what a service says, before it is kept.

Workers print what they were given, and services repeat what they were told. A value is found in every spelling that it
may have in a JSON text or a URL; JSON stays JSON. Values shorter than `SECRET_CHARS_MIN` are let be: to look for "a" or
"test" would spoil honest results, and as a secret it would be none.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

SECRET_CHARS_MIN: Final = 8

_NUMBER: Final = re.compile(rb"[0-9.eE+-]+")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9.eE+-]+', re.DOTALL)
"""A string of JSON, or what may be a number."""


class Redactor:
    """Knows some secrets: `secrets` are their values by the label that is put in their place, in brackets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        known = [(label, value) for label, value in secrets.items() if len(value) >= SECRET_CHARS_MIN]
        found = [(spelling, b"[%b]" % label.encode()) for label, value in known for spelling in spellings(value)]
        self._found = tuple(sorted(found, key=lambda pair: -len(pair[0])))

    def scrub(self, text: bytes) -> bytes:
        """`text` without the secrets: itself where none is in it."""
        for spelling, label in self._found:
            if spelling not in text:
                continue
            if _NUMBER.fullmatch(spelling):
                text = _TOKEN.sub(_in_token(spelling, label), text)
            else:
                text = text.replace(spelling, label)
        return text


def _in_token(spelling: bytes, label: bytes) -> Callable[[re.Match[bytes]], bytes]:
    """A secret of digits may be (in) a number, in whose place only a string leaves the text JSON."""

    def replaced(token: re.Match[bytes]) -> bytes:
        found = token[0]
        if found.startswith(b'"'):
            return found.replace(spelling, label)
        return b'"%b"' % label if spelling in found else found

    return replaced


def spellings(value: str) -> tuple[bytes, ...]:
    """`value` as it may stand in an answer: as it is, in a URL, in a string of JSON, and in one inside another."""
    found: dict[bytes, None] = {}
    for plain in (value, quote(value, safe="")):
        for ascii_only in (False, True):
            once = json.dumps(plain, ensure_ascii=ascii_only)[1:-1]
            for inside in (plain, once, once.replace("/", "\\/")):
                twice = json.dumps(inside, ensure_ascii=ascii_only)[1:-1]
                found |= dict.fromkeys(
                    (inside.encode("utf-8", "surrogatepass"), twice.encode("utf-8", "surrogatepass"))
                )
    return tuple(sorted(found, key=lambda spelling: (-len(spelling), spelling)))
