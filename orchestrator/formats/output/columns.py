"""Outcomes as rows of a table: which columns there are, and what stands in them.

The columns have the order of the members of a JSON line. A member of the output or the input that has a column of its
own is called by its path, and stays the JSON text that it was until a format says what becomes of it.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from orchestrator.formats.output.outcome_lines import ErrorLine, OutcomeDetails, ResultLine, WrittenOutcome, encodable
from orchestrator.settings.words_and_defaults import Include

OUTPUT: Final = "output"
INPUT: Final = "input"
METADATA: Final = "metadata"

OF_ANY: Final = (f"{INPUT}.", f"{METADATA}.")
"""With these begin paths into what jobs have whatever they came to."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])


class CellKind(Enum):
    """What the cells of a column are."""

    TEXT = "text"
    COUNT = "count"
    JSON = "json"
    """The JSON text of a whole output or input."""

    ANY = "any"
    """The JSON text of one member, of whatever type."""


class Column(NamedTuple):
    """A column of a table of outcomes."""

    name: str
    holds: CellKind


Cell = str | int | bytes | None

_OF_RESULTS: Final = (Column("attempts", CellKind.COUNT), Column("paid_at_most", CellKind.COUNT))
_TIMES: Final = (Column("delay_ms", CellKind.COUNT), Column("execution_ms", CellKind.COUNT))
_FIRST: Final = (Column("custom_id", CellKind.TEXT), Column("job_id", CellKind.TEXT), Column("status", CellKind.TEXT))


class _Node:
    """A part of paths: where its value goes, and what is below."""

    def __init__(self) -> None:
        self.place: int | None = None
        self.below: dict[str, _Node] = {}


class Members:
    """The members of outputs and inputs at some paths."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._tree = _Node()
        for place, path in enumerate(paths):
            node = self._tree
            for part in path.split("."):
                node = node.below.setdefault(part, _Node())
            node.place = place

    def of(self, roots: Mapping[str, bytes | None]) -> list[bytes | None]:
        """The JSON text of each, by `output` and `input`; None where it is not there."""
        found: list[bytes | None] = [None] * len(self.paths)
        for root, text in roots.items():
            if text is not None and (node := self._tree.below.get(root)):
                self._walk(node, text, found)
        return found

    def _walk(self, node: _Node, text: bytes, found: list[bytes | None]) -> None:
        if node.place is not None:
            found[node.place] = text
        if not node.below:
            return
        try:
            known = _parts(text, node.below)
        except (msgspec.DecodeError, RecursionError):  # as nothing that can be looked into
            return
        for part, below in node.below.items():
            if part in known:
                self._walk(below, bytes(known[part]).strip(), found)


def _parts(text: bytes, wanted: Collection[str]) -> Mapping[str, msgspec.Raw]:
    """The members of an object, or the `wanted` ones of an array by their numbers; of all else there are none."""
    if text.startswith(b"{"):
        return _members.decode(text)
    if text.startswith(b"["):
        items = _items.decode(text)
        return {part: items[int(part)] for part in wanted if part.isdecimal() and int(part) < len(items)}
    return {}


class Columns:
    """The columns of results, or of errors, with what they are to `include`."""

    def __init__(self, *, is_errors: bool, include: Collection[Include], flatten: Sequence[str] = ()) -> None:
        self._include = include
        self._members = Members([path for path in flatten if not is_errors or path.startswith(OF_ANY)])
        flat = [Column(path, CellKind.JSON if path == OUTPUT else CellKind.ANY) for path in self._members.paths]
        if is_errors:
            text = [Column("error.text", CellKind.TEXT)] if Include.TEXT in include else []
            message = [Column("error.class", CellKind.TEXT), Column("error.message", CellKind.TEXT), *text]
            times = _TIMES if Include.TIMES in include else ()
            self.all: tuple[Column, ...] = (*_FIRST, *message, *flat, *_OF_RESULTS, *times, *self._more())
        else:
            flat = flat or [Column(OUTPUT, CellKind.JSON)]
            self.all = (*_FIRST, *flat, *_OF_RESULTS, *_TIMES, *self._more())

    def _more(self) -> list[Column]:
        columns = {
            Include.LINE: [Column("line", CellKind.COUNT)],
            Include.WORKER: [Column("worker", CellKind.TEXT)],
            Include.ENDPOINT: [Column("endpoint", CellKind.TEXT)],
            Include.TIMES: [Column("sent_at", CellKind.TEXT), Column("ended_at", CellKind.TEXT)],
            Include.INPUT: [Column(INPUT, CellKind.JSON)],
            Include.METADATA: [Column(METADATA, CellKind.JSON)],
        }
        return [column for include, of in columns.items() if include in self._include for column in of]

    @property
    def paths(self) -> tuple[str, ...]:
        """The members that have columns of their own."""
        return self._members.paths

    def members(self, outcome: WrittenOutcome) -> list[tuple[str, bytes | None]]:
        """The paths that have a column of their own, with what is there."""
        return list(zip(self._members.paths, self._members.of(roots_of(outcome)), strict=True))

    def cells(self, outcome: WrittenOutcome) -> list[Cell]:
        """What stands in the columns, in their order."""
        line = outcome.line
        flat = [text for _, text in self.members(outcome)] if self._members.paths else []
        first = (line.custom_id, line.job_id, line.status)
        counts = (line.attempts, line.paid_at_most)
        more = self._more_cells(outcome.more or OutcomeDetails())
        if Include.METADATA in self._include:
            more.append(None if line.metadata is UNSET else bytes(line.metadata))
        times = (_set(line.delay_ms), _set(line.execution_ms))
        if isinstance(line, ErrorLine):
            error = line.error
            text = () if error.text is UNSET else (encodable(error.text),)
            said = (error.trouble, encodable(error.message), *text)
            return [*first, *said, *flat, *counts, *(times if Include.TIMES in self._include else ()), *more]
        return [*first, *(flat if self._members.paths else [bytes(line.output)]), *counts, *times, *more]

    def _more_cells(self, more: OutcomeDetails) -> list[Cell]:
        cells: list[Cell] = []
        if Include.LINE in self._include:
            cells.append(_set(more.line))
        if Include.WORKER in self._include:
            cells.append(_set(more.worker))
        if Include.ENDPOINT in self._include:
            cells.append(_set(more.endpoint))
        if Include.TIMES in self._include:
            cells += (_set(more.sent_at), _set(more.ended_at))
        if Include.INPUT in self._include:
            cells.append(None if more.input is UNSET else bytes(more.input))
        return cells


def roots_of(outcome: WrittenOutcome) -> dict[str, bytes | None]:
    """What paths begin in: the JSON texts of the output and of the input, where they are there."""
    line = outcome.line
    return {
        OUTPUT: bytes(line.output) if isinstance(line, ResultLine) else None,
        INPUT: None if outcome.input is None else bytes(outcome.input),
        METADATA: None if line.metadata is UNSET else bytes(line.metadata),
    }


def _set(value: object) -> str | int | None:
    return value if isinstance(value, str | int) else None


def kind_of_cell(text: bytes) -> str:
    """What sort of value a JSON text is, in the words of an error."""
    match text[:1]:
        case b"{":
            return "an object"
        case b"[":
            return "an array"
        case b'"':
            return "a text"
        case b"t" | b"f":
            return "true or false"
        case b"n":
            return "null"
        case _:
            return "a number"
