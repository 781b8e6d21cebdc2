"""What a command of people's gives: the lines that it prints, or that it has failed."""

from collections.abc import Sequence
from typing import NamedTuple


class PrintedLine(NamedTuple):
    """What a command has printed, as a row."""

    custom_id: str | None
    output: bytes
    parents: Sequence[str]
    """The custom_ids of the rows that it was made of, as far as it names them."""


class CommandFailed(Exception):
    """A command has failed, or what it printed are no rows. Its text says how."""
