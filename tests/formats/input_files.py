"""Input files for the tests of their readers."""

import json
from collections.abc import Callable
from typing import Any

from orchestrator.formats.reading import Places, Reading, read_inputs
from orchestrator.formats.rows import Problem, Row
from orchestrator.settings import InputSettings

Put = Callable[[str, bytes | str], str]
"""Writes a file of that name, and returns its path."""


def read(
    *sources: str, body_bytes_max: int = 100_000, places: Places | None = None, **settings: Any
) -> list[Row | Problem]:
    reading = Reading(environ={}, settings=InputSettings(**settings), body_bytes_max=body_bytes_max)
    return list(read_inputs(sources, reading, places))


def inputs(*sources: str, **settings: Any) -> list[tuple[str | None, Any]]:
    """The id (None: derived) and the input of each row."""
    found = read(*sources, **settings)
    assert all(isinstance(row, Row) for row in found), found
    rows = [row for row in found if isinstance(row, Row)]
    return [(None if row.derived else row.custom_id, json.loads(row.input)) for row in rows]


def problems(*sources: str, **settings: Any) -> list[tuple[int, str]]:
    return [(item.line, item.text) for item in read(*sources, **settings) if isinstance(item, Problem)]
