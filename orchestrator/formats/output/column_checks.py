"""Columns of results that have no value in any row, of which people are told. One that is empty from top to bottom is a
mistyped name far more often than it is meant, and that the worker gives something else than was thought is seen by
nobody who does not look into the file.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from orchestrator.core.text.name_match import nearest
from orchestrator.errors import MisfitError
from orchestrator.formats.output.columns import OUTPUT, Columns, Members, kind_of_cell, roots_of
from orchestrator.formats.output.outcome_lines import WrittenOutcome
from orchestrator.settings.words_and_defaults import OnMisfit

ROWS_LOOKED_AT: Final = 1_000
"""A member that so many rows lack is missing; of fewer rows, one that all of them lack."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RowSink(Protocol):
    """What takes rows, one after the other."""

    def write(self, outcome: WrittenOutcome) -> None:
        """One more row. Raises `MisfitError`."""
        ...

    def finish(self) -> None:
        """Nothing comes after. Raises as `write`."""
        ...

    def abandon(self) -> None:
        """What was begun is left as it is."""
        ...


class CheckedMembers:
    """Rows on their way to `rows`, of which the first ones are to have the members that have columns of their own."""

    def __init__(self, rows: RowSink, columns: Columns) -> None:
        self._rows = rows
        self._columns = columns
        self._missing: dict[str, WrittenOutcome | None] = dict.fromkeys(columns.paths)
        self._number = 0

    def write(self, outcome: WrittenOutcome) -> None:
        if self._missing:
            self._look(outcome)
        self._rows.write(outcome)

    def finish(self) -> None:
        self._check()
        self._rows.finish()

    def abandon(self) -> None:
        self._rows.abandon()

    def _look(self, outcome: WrittenOutcome) -> None:
        self._number += 1
        for path, text in self._columns.members(outcome):
            if path in self._missing:
                if text is not None:
                    del self._missing[path]
                elif self._missing[path] is None:
                    self._missing[path] = outcome
        if self._number >= ROWS_LOOKED_AT:
            self._check()

    def _check(self) -> None:
        """Raises `MisfitError` where enough rows lack the same member."""
        missing, self._missing = self._missing, {}
        for path, first in missing.items():
            if first is not None:
                raise MisfitError(self._told(path, first))

    def _told(self, path: str, first: WrittenOutcome) -> str:
        root, *below = path.split(".")
        advice = _advice_below(roots_of(first)[root], root, below, first.line.custom_id)
        rows = "the first row does not have" if self._number == 1 else f"none of the first {self._number:,} rows has"
        return (
            f"<setting flatten> {path}: {rows} it; {advice}; if the column is"
            f" to be empty, add <setting on-misfit={OnMisfit.JSON}>"
        )


def _advice_below(text: bytes | None, there: str, missing: Sequence[str], custom_id: str) -> str:
    """What there is in place of what is missing: `text` stands at the path `there`, and `missing` leads on from it."""
    if text is None or not text.startswith(b"{"):
        return f"{there} of {custom_id} is {'missing' if text is None else kind_of_cell(text)}"
    try:
        known = _members.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return f"{there} of {custom_id} cannot be looked into"
    part, *deeper = missing
    if part not in known:
        near = nearest(part, list(known))
        has = f"{there} of {custom_id} has {', '.join(known)[:200] or 'nothing in it'}"
        return has if near is None else f"did you mean {there}.{near}? {has}"
    return _advice_below(bytes(known[part]).strip(), f"{there}.{part}", deeper, custom_id)


class EmptyColumns:
    """Looks, in each row that is written, at the columns of outputs and of members that were null so far: as soon as
    none is left, rows cost nothing here.
    """

    def __init__(self, columns: Columns) -> None:
        self._members = Members(columns.paths or (OUTPUT,))
        self._has_rows = False

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are null, or missing, in every row so far; none where there is no row."""
        return self._members.paths if self._has_rows else ()

    def saw(self, outcome: WrittenOutcome) -> None:
        """One more row is written."""
        self._has_rows = True
        if self._members.paths:
            texts = zip(self._members.paths, self._members.of(roots_of(outcome)), strict=True)
            left = [path for path, text in texts if text in (None, b"null")]
            if len(left) < len(self._members.paths):
                self._members = Members(left)
