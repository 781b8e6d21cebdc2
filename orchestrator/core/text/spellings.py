"""How a text may stand in another one: escaped for JSON, a URL, HTML or Python, one within the other, or in base64.

Each of these but base64 spells character by character. So a pattern has for each character what any nesting makes of
it: backslashes double at each level, `%` becomes `%25`, `&` becomes `&amp;`. Levels may differ in what they escape, as
where a JSON text of ASCII holds one of UTF-8. Letters, digits and `-._~` stay as they are everywhere: a text without
the longest run of them holds no spelling, which takes one look to see.
"""

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

BACKSLASHES_MAX: Final = 15
"""As many precede a quote after four levels; an odd number, so that of a longer run no half of a pair is taken."""

_PIECE: Final = re.compile(r"\\+|[A-Za-z0-9._~-]+|.", re.DOTALL)
_KEPT: Final = re.compile(r"[A-Za-z0-9._~-]+")
_BASE64_KEPT: Final = re.compile(r"[A-Za-z0-9]+")  # its other alphabet has "-" and "_" for "+" and "/"

_PERCENT: Final = "%(?:25){0,3}"
_BACKSLASH: Final = rf"(?:\\|{_PERCENT}(?i:5c))"
_BACKSLASHES: Final = rf"(?>{_BACKSLASH}{{1,{BACKSLASHES_MAX}}})"
_SEMICOLON: Final = rf"(?:;|{_PERCENT}(?i:3b))"
_AMPERSAND: Final = rf"(?:&|{_PERCENT}26|u0026)(?:amp{_SEMICOLON}){{0,3}}"  # what precedes it has its backslashes
_HASH: Final = rf"(?:\#|{_PERCENT}23)"

_LETTERS: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_NAMED: Final = {'"': "quot", "'": "apos", "<": "lt", ">": "gt", "&": "amp"}
_BASE64: Final = {"+": "-", "/": "_"}
"""What the alphabet for URLs has in their place."""


class Spelling(NamedTuple):
    """What a text is found by."""

    kept: bytes
    """Stands in each spelling; empty where there is nothing that does."""

    pattern: bytes
    """A regular expression for all of them, in UTF-8."""


def spelling(text: str) -> Spelling:
    """How `text` may stand somewhere, but for base64."""
    return Spelling(_longest(_KEPT, text), _pattern(text, {}))


def in_base64(text: str) -> frozenset[str]:
    """What is the same of `text`, escaped once or not at all, in any base64 that holds it, whatever surrounds it."""
    return frozenset(
        _core(each.encode("utf-8", "surrogatepass"), offset) for each in _once(text) for offset in range(3)
    )


def base64_spelling(core: str) -> Spelling:
    """How what `in_base64` gives may stand somewhere, by either alphabet."""
    return Spelling(_longest(_BASE64_KEPT, core), _pattern(core, _BASE64))


def _longest(kept: re.Pattern[str], text: str) -> bytes:
    return max(kept.findall(text), key=len, default="").encode()


def _once(text: str) -> Iterator[str]:
    yield text
    for ascii_only in (False, True):
        yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    yield quote(text, safe="", errors="replace")
    yield quote(text, errors="replace")
    yield quote_plus(text, errors="replace")
    yield html.escape(text)
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]


def _core(data: bytes, offset: int) -> str:
    """The characters of base64 that say nothing but `data`, where `offset` bytes precede it in its group of three."""
    encoded = base64.b64encode(b"\0" * offset + data).decode()
    return encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


def _pattern(text: str, others: dict[str, str]) -> bytes:
    parts: list[str] = []
    follows_backslash = False
    pieces = _PIECE.findall(text)
    for number, piece in enumerate(pieces, 1):
        if piece.startswith("\\"):
            parts.append(_backslashes(len(piece), is_last=number == len(pieces)))
        elif _KEPT.match(piece):
            parts.append(re.escape(piece))
        else:
            parts.append(_character(piece, others.get(piece), follows_backslash=follows_backslash))
        follows_backslash = piece.startswith("\\")
    return "".join(parts).encode("utf-8", "surrogatepass")


def _backslashes(count: int, *, is_last: bool) -> str:
    """As many backslashes at any level, with those that escape what follows: told apart, they could be divided in very
    many ways. At the end only so many as a level makes of them, lest a quote that follows loses its own.
    """
    most = count * (BACKSLASHES_MAX + 1)
    if not is_last:
        return f"(?>{_BACKSLASH}{{{count},{most + BACKSLASHES_MAX}}})"
    levels = (count << level for level in reversed(range(most.bit_length())) if count << level <= most)
    return f"(?:{'|'.join(f'{_BACKSLASH}{{{each}}}' for each in levels)})"


def _character(character: str, other: str | None, *, follows_backslash: bool) -> str:
    """A pattern for what any nesting makes of `character`; its backslashes are taken already, if it follows some."""
    plain, escaped = "|".join(_plain(character, other)), "|".join(_escaped(character))
    if follows_backslash:
        return f"(?:{plain}|{escaped})"
    return f"(?:(?>{_BACKSLASH}{{0,{BACKSLASHES_MAX}}})(?:{plain})|{_BACKSLASHES}(?:{escaped}))"


def _plain(character: str, other: str | None) -> Iterator[str]:
    """What needs no backslash before it."""
    code = ord(character)
    in_url = character.encode("utf-8", "replace")
    yield (
        _AMPERSAND
        if character == "&"
        else f"{re.escape(character)}(?:25){{0,3}}"
        if character == "%"
        else re.escape(character)
    )
    yield "".join(f"{_PERCENT}(?i:{byte:02x})" for byte in in_url)
    yield rf"{_AMPERSAND}(?:{_HASH}0*(?:{code}|(?i:x0*{code:x})){_in_html(character)}){_SEMICOLON}"
    if character == " ":
        yield rf"\+|{_PERCENT}(?i:2b)"
    if other is not None:
        yield other


def _in_html(character: str) -> str:
    return f"|{_NAMED[character]}" if character in _NAMED else ""


def _escaped(character: str) -> Iterator[str]:
    """What stands behind a backslash in place of `character`."""
    code = ord(character)
    units = character.encode("utf-16-be", "surrogatepass")
    yield _BACKSLASHES.join(f"u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2))
    yield f"U(?i:{code:08x})"
    if code <= 0xFF:  # noqa: PLR2004  what two digits can say
        yield f"x(?i:{code:02x})"
    yield _BACKSLASHES.join(f"x(?i:{byte:02x})" for byte in character.encode("utf-8", "surrogatepass"))
    if character in _LETTERS:
        yield _LETTERS[character]
