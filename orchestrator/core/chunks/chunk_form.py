"""What is sent for a chunk, and which part of its output is of which row.

By default the input is `{"items": [...]}` with the inputs of the rows, and the output a list of as many outputs, in the
same order. A template says otherwise: `"{inputs}"` in it stands for the list of the inputs, `"{rows}"` for one of
`{"id": ..., "input": ...}`, and then each element of the output names its row by the same id.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.text.json_compact import compact

ITEMS: Final = "items"
INPUTS, ROWS = b'"{inputs}"', b'"{rows}"'
TEMPLATE: Final = '{"items":"{inputs}"}'
_PLACES: Final = re.compile(rb'("\{inputs\}"|"\{rows\}")(?!:)')
_KEYS: Final = re.compile(rb'"\{(?:inputs|rows)\}":')

_list: Final = msgspec.json.Decoder(list[msgspec.Raw])
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text: Final = msgspec.json.Decoder(str)


class TravellingRow(NamedTuple):
    """One row of a chunk, as it is sent."""

    id: str
    input: bytes


class ChunkPart(NamedTuple):
    """What has come of one row: an output, or an error."""

    output: bytes | None = None
    error: str | None = None


def checked_template(text: str) -> str:
    """`text` as a template of an input, compact. Raises `ValueError` in words for its author."""
    try:
        template = compact(text.encode())
        _members.decode(template)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON object") from None
    found = set(_PLACES.findall(template))
    if len(found) != 1 or _KEYS.search(template) is not None:
        raise ValueError('it needs "{inputs}" as a value, or "{rows}", and not both')
    return template.decode()


class ChunkForm(msgspec.Struct, frozen=True):
    """What the input of a chunk is, and where in its output the parts are."""

    template: str = TEMPLATE
    member: str = ""
    """The member of the output that is the list; empty: the output is, or its member `items`."""

    @property
    def is_by_id(self) -> bool:
        """Whether each part of the output names its row."""
        return ROWS in self.template.encode()

    def joint(self, rows: Sequence[TravellingRow]) -> bytes:
        """The input of a chunk of these rows."""
        return b"".join(self._spliced(rows))

    def _spliced(self, rows: Sequence[TravellingRow]) -> Iterator[bytes]:
        for part in _PLACES.split(self.template.encode()):
            if part == INPUTS:
                yield b"[%b]" % b",".join(row.input for row in rows)
            elif part == ROWS:
                yield b"[%b]" % b",".join(
                    b'{"id":%b,"input":%b}' % (msgspec.json.encode(row.id), row.input) for row in rows
                )
            else:
                yield part

    def split(self, output: bytes | None, ids: Sequence[str]) -> list[ChunkPart] | str:
        """The part of each row, in the order of `ids`; or why `output` is not that of a chunk of these rows."""
        elements = self._elements(output)
        if isinstance(elements, str):
            return elements
        if len(elements) != len(ids):
            return f"the output has {len(elements):,} parts, and the chunk {len(ids):,} rows"
        return _parts_by_id(elements, ids) if self.is_by_id else [_part(each) for each in _in_order(elements, ids)]

    def _elements(self, output: bytes | None) -> list[bytes] | str:
        if output is None:
            return "there is no output"
        where = f'the member "{self.member}" of the output' if self.member else "the output"
        found: bytes | None = output
        if self.member or output.lstrip().startswith(b"{"):
            found = _member(output, self.member or ITEMS)
        try:
            return [bytes(each) for each in _list.decode(found or b"")]
        except (ValueError, RecursionError):
            return f"{where} is no list of parts"


def _in_order(elements: Sequence[bytes], ids: Sequence[str]) -> Sequence[bytes]:
    """`elements` that go by place, unless each names one of the rows: a chunk may have left under another template."""
    if not all(b'"id"' in each for each in elements):
        return elements
    found = {_id_of(each): each for each in elements}
    return [found[each] for each in ids] if found.keys() == set(ids) else elements


def _parts_by_id(elements: Sequence[bytes], ids: Sequence[str]) -> list[ChunkPart] | str:
    found: dict[str, ChunkPart] = {}
    for each in elements:
        name = _id_of(each)
        if name is None:
            return 'a part of the output has no "id"'
        if name in found:
            return f"two parts of the output have the id {name!r:.100}"
        found[name] = _part_by_id(each)
    missing = next((each for each in ids if each not in found), None)
    if missing is not None:
        return f"no part of the output has the id {missing!r:.100}"
    return [found[each] for each in ids]


def _member(of: bytes, name: str) -> bytes | None:
    try:
        found = _members.decode(of).get(name)
    except (ValueError, RecursionError):
        return None
    return None if found is None else bytes(found)


def _id_of(element: bytes) -> str | None:
    try:
        return _text.decode(_member(element, "id") or b"")
    except ValueError:
        return None


def _part(element: bytes) -> ChunkPart:
    """Of one that is an output, or has an error."""
    error = _member(element, "error") if element.startswith(b"{") else None
    if error is None or error in (b"null", b'""', b"false"):
        return ChunkPart(output=element)
    try:
        return ChunkPart(error=_text.decode(error))
    except ValueError:
        return ChunkPart(error=error.decode())


def _part_by_id(element: bytes) -> ChunkPart:
    """Of one with an id, whose member `output` is the output, if it has one."""
    part = _part(element)
    if part.error is not None:
        return part
    output = _member(element, "output")
    return part if output is None else ChunkPart(output=output)
