"""Columns of a file of results in which no row has a value: that the worker gives something else than was thought is
seen by nobody who does not look into the file.
"""

from orchestrator.formats.output.columns import OUTPUT, Columns, Members, roots_of
from orchestrator.formats.output.lines import WrittenOutcome


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
