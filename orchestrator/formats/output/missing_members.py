"""Members of outputs that have a column of their own, and that no row has: a column that is empty from top to bottom is
a mistyped name far more often than it is meant.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.text.name_match import nearest
from orchestrator.errors import MisfitError
from orchestrator.formats.output.columns import Columns, kind_of_cell, roots_of
from orchestrator.formats.output.lines import WrittenOutcome
from orchestrator.settings.values import OnMisfit

ROWS_LOOKED_AT: Final = 1_000
"""A member that so many rows lack is missing; of fewer rows, one that all of them lack."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class MissingMembers:
    """Looks at the first rows of a file for the members that have columns of their own."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._missing: dict[str, WrittenOutcome | None] = dict.fromkeys(columns.paths)
        self._rows = 0

    def saw(self, outcome: WrittenOutcome) -> None:
        """One more row is about to be written. Raises `MisfitError` where enough of them lack the same member."""
        if not self._missing:
            return
        self._rows += 1
        for path, text in self._columns.members(outcome):
            if path in self._missing:
                if text is not None:
                    del self._missing[path]
                elif self._missing[path] is None:
                    self._missing[path] = outcome
        if self._rows >= ROWS_LOOKED_AT:
            self.end()

    def end(self) -> None:
        """There are no more rows. Raises as `saw`."""
        missing, self._missing = self._missing, {}
        for path, first in missing.items():
            if first is not None:
                raise MisfitError(self._told(path, first))

    def _told(self, path: str, first: WrittenOutcome) -> str:
        rows = "the first row does not have" if self._rows == 1 else f"none of the first {self._rows:,} rows has"
        return (
            f"<setting flatten> {path}: {rows} it; {_advice(path.split('.'), first)}; if the column is"
            f" to be empty, add <setting on-misfit={OnMisfit.JSON}>"
        )


def _advice(parts: Sequence[str], outcome: WrittenOutcome) -> str:
    """What there is in place of the first part of a path that is not there."""
    return _advice_below(roots_of(outcome)[parts[0]], parts[0], parts[1:], outcome.line.custom_id)


def _advice_below(text: bytes | None, there: str, missing: Sequence[str], custom_id: str) -> str:
    """The same, where `text` stands at the path `there`, and `missing` leads from it to what is not there."""
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
