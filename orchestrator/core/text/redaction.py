"""Takes secrets out of what a service says, before it is kept, logged or shown.

Workers print what they were given, and services repeat what they were told. A value is found in every spelling of
`spellings.py`, and in each of its lines where a text is folded; JSON stays JSON. What is too short is let be: to look
for "a" or "test" would spoil honest results, and as a secret it would be none.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from orchestrator.core.text.spellings import Spelling, base64_spelling, in_base64, spelling

SECRET_CHARS_MIN: Final = 8

SENT_CHARS_MIN: Final = 4
"""The same of a secret that stood in the request itself: what answers it is short, and nobody's result."""

HIDDEN: Final = "hidden"
"""The label of a secret that has no name of its own."""

_NUMBER: Final = re.compile(r"[0-9.eE+-]+")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9.eE+-]+', re.DOTALL)
"""A string of JSON, or what may be a number."""


class _Sought:
    """One text that is looked for. Its pattern is made when it may be there: that takes longer than most answers."""

    def __init__(self, text: str, found_by: Spelling, label: str) -> None:
        self.kept = found_by.kept
        self._label = f"[{label}]".encode()
        self._pattern = found_by.pattern
        self._may_be_number = _NUMBER.fullmatch(text) is not None

    @cached_property
    def _compiled(self) -> re.Pattern[bytes]:
        return re.compile(self._pattern)

    def replaced(self, text: bytes) -> bytes:
        """`text` with the label in its place."""
        return self._compiled.sub(self._in_place, text)

    def replaced_in_json(self, text: bytes) -> bytes:
        """The same of a JSON text, which stays one: itself where there is nothing to replace."""
        if not self._compiled.search(text):
            return text
        return _TOKEN.sub(self._in_token, text) if self._may_be_number else self.replaced(text)

    def _in_place(self, _: re.Match[bytes]) -> bytes:
        return self._label

    def _in_token(self, token: re.Match[bytes]) -> bytes:
        """A secret of digits may be (in) a number, in whose place only a string leaves the text JSON."""
        found = token[0]
        if found.startswith(b'"'):
            return self.replaced(found)
        return b'"%b"' % self._label if self._compiled.search(found) else found


class Redactor:
    """Knows some secrets: `secrets` are their values by the label that is put in their place, in brackets.

    `sent` are those of a request, where its own answer is looked through.
    """

    def __init__(self, secrets: Mapping[str, str], *, sent: Iterable[str] = ()) -> None:
        known = [(label, value, SECRET_CHARS_MIN) for label, value in secrets.items()]
        known += [(HIDDEN, value, SENT_CHARS_MIN) for value in sent]
        found: dict[str, tuple[Callable[[str], Spelling], str]] = {}
        for label, value, chars_min in known:
            if len(value) < chars_min:
                continue
            found |= {part: (spelling, label) for part in _parts(value) if len(part) >= chars_min}
            found |= {core: (base64_spelling, label) for core in in_base64(value) if len(core) > SECRET_CHARS_MIN}
        longest_first = sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))
        self._sought = tuple(_Sought(text, found_by(text), label) for text, (found_by, label) in longest_first)

    def text(self, text: str) -> str:
        """`text` without the secrets."""
        raw = text.encode("utf-8", "surrogatepass")
        for sought in self._sought:
            if sought.kept in raw:
                raw = sought.replaced(raw)
        return raw.decode("utf-8", "surrogatepass")

    def scrub(self, text: bytes) -> bytes:
        """The JSON `text` without the secrets: itself where none is in it."""
        for sought in self._sought:
            if sought.kept in text:
                text = sought.replaced_in_json(text)
        return text


def _parts(value: str) -> Iterator[str]:
    """`value` as it is, folded into one line, and each of its lines."""
    yield value
    yield " ".join(value.split())
    yield from value.splitlines()
