"""The members of an output that become files: what each holds, and what its row has in its place, which tells of it.

Everything else of an output stays the text that it was: each number as the worker wrote it.
"""

import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from orchestrator.core.outputs.save_rules import EACH, path_of

LINKS: Final = ("http://", "https://")

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_text: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.encode
_BLANK: Final = re.compile(r"\s+")
_URL_SAFE: Final = str.maketrans("-_", "+/")


class SavedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a row has in place of a member that became a file."""

    file: str
    """Its full path."""

    bytes: int
    sha256: str


class UnsavedMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a row has in place of a member that became none."""

    value: msgspec.Raw
    """What the worker gave."""

    unsaved: str
    """Why."""


class Link(msgspec.Struct, frozen=True):
    """Where the file is, as an URL."""

    url: str


class Unusable(msgspec.Struct, frozen=True):
    """Nothing that a file can be made of."""

    why: str


_saved: Final = msgspec.json.Decoder(SavedFile)
_unsaved: Final = msgspec.json.Decoder(UnsavedMember)


def members_at(output: bytes, path: Sequence[str]) -> list[tuple[int, bytes]]:
    """The members of `output` at `path`, as JSON texts: each with its number, from 1, where it is in a list of such.

    A null is none, as what is not there.
    """
    return list(_walk(output.strip(), tuple(path), 1))


def _walk(text: bytes, path: tuple[str, ...], n: int) -> Iterator[tuple[int, bytes]]:
    if not path:
        if text != b"null":
            yield n, text
        return
    for key, part in _inside(text, path[0]):
        yield from _walk(bytes(part).strip(), path[1:], key + 1 if path[0] == EACH and isinstance(key, int) else n)


def _inside(text: bytes, part: str) -> Iterator[tuple[str | int, msgspec.Raw]]:
    """What `part` of a path leads to in an object or array, of which it may be nothing."""
    try:
        if text.startswith(b"{") and part in (members := _members.decode(text)):
            yield part, members[part]
        elif text.startswith(b"["):
            yield from ((n, item) for n, item in enumerate(_items.decode(text)) if part in (EACH, str(n)))
    except (msgspec.DecodeError, RecursionError):  # as nothing that can be looked into
        return


def with_replaced(output: bytes, path: Sequence[str], put: Sequence[bytes]) -> bytes:
    """`output` with these JSON texts in place of the members that `members_at` found, in their order."""
    return bytes(_rebuilt(output.strip(), tuple(path), iter(put)))


def _rebuilt(text: bytes, path: tuple[str, ...], put: Iterator[bytes]) -> msgspec.Raw:
    if not path:
        return msgspec.Raw(text if text == b"null" else next(put))
    found = list(_inside(text, path[0]))
    if not found:
        return msgspec.Raw(text)
    whole: Any = _members.decode(text) if text.startswith(b"{") else _items.decode(text)
    for key, part in found:
        whole[key] = _rebuilt(bytes(part).strip(), path[1:], put)
    return msgspec.Raw(_encode(whole))


def saved_file(member: bytes) -> SavedFile | None:
    """The file that this member tells of; None where it tells of none."""
    try:
        return _saved.decode(member)
    except (msgspec.MsgspecError, RecursionError):
        return None


def made_files(output: bytes, members: Iterable[str]) -> list[SavedFile]:
    """The files of which `output` tells where these `members` were, which have become files; each once.

    A worker's own output may look like that anywhere: only where we have put it, it is one.
    """
    found = (saved_file(text) for member in members for _, text in members_at(output, path_of(member)))
    return list(dict.fromkeys(file for file in found if file is not None))


def unsaved_member(member: bytes) -> UnsavedMember | None:
    """The member that became no file as this one tells; None where it tells of none."""
    try:
        return _unsaved.decode(member)
    except (msgspec.MsgspecError, RecursionError):
        return None


def content_of(member: bytes) -> bytes | Link | Unusable:
    """What the file holds that `member`, a JSON text, is to become."""
    if not member.startswith(b'"'):
        return Unusable("it is no text")
    text = _text.decode(member)
    if text.lower().startswith(LINKS):
        return Link(text)
    if text[:5].lower() == "data:":
        return _of_data_url(text)
    if not text.strip():
        return Unusable("it is empty")
    return _of_base64(text)


def _of_data_url(text: str) -> bytes | Unusable:
    head, comma, data = text.partition(",")
    if not comma:
        return Unusable("it is a data URL without data")
    if head.lower().endswith(";base64"):
        return _of_base64(data if "%" not in data else unquote_to_bytes(data).decode("ascii", "replace"))
    return unquote_to_bytes(data)


def _of_base64(text: str) -> bytes | Unusable:
    try:
        return binascii.a2b_base64(_in_one_form(text), strict_mode=True)
    except (binascii.Error, ValueError):
        return Unusable("it is neither Base64, a data URL nor a link")


def _in_one_form(text: str) -> str:
    """Base64 without breaks of lines, in the alphabet that most use, and with its padding."""
    if "\n" in text or " " in text or "\r" in text:
        text = _BLANK.sub("", text)
    if "-" in text or "_" in text:
        text = text.translate(_URL_SAFE)
    return text if len(text) % 4 == 0 else text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)


def saved_text(saved: SavedFile) -> bytes:
    """The JSON text of it."""
    return _encode(saved)


def unsaved_text(member: bytes, why: str) -> bytes:
    """The JSON text of what stands for `member`."""
    return _encode(UnsavedMember(msgspec.Raw(member), why))
