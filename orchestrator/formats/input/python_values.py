"""Rows from a program's own values rather than the lines of a file: the same rules, and the same rows.

A mapping is what a line of a file would be, in either form. A `JobParts` is a job by its parts, and its input is always
the input.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.core.text.durations import Policy, encode_policy
from orchestrator.formats.input.jsonl import RowReader
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.formats.text.value_text import NESTED_TOO_DEEPLY, NOT_WRITABLE, value_text


class JobParts(msgspec.Struct, frozen=True, kw_only=True):
    """A job by its parts, as far as they were given."""

    input: Mapping[str, Any]
    custom_id: str | None = None
    policy: Policy | None = None
    s3_config: Mapping[str, Any] | None = None
    priority: int = 0
    metadata: Mapping[str, Any] | None = None


class ValueReader:
    """Reads value after value, counting from 1 or from after `first`. The readers are for rows in one form each."""

    def __init__(self, mappings: RowReader, jobs: RowReader) -> None:
        self._mappings = mappings
        self._jobs = jobs

    def read(self, number: int, value: object) -> Row | RowProblem:
        """The row that `value` is, or why it is none."""
        try:
            match value:
                case JobParts():
                    return self._jobs.read(number, value_text({"input": _checked(value.input), **_parts(value)}))
                case Mapping():
                    return self._mappings.read(number, value_text(value))
                case _:
                    return RowProblem(line=number, text=f"{type(value).__name__}, not a dict or a Job")
        except NOT_WRITABLE as error:
            return RowProblem(line=number, text=f"not JSON: {error}")
        except RecursionError:
            return RowProblem(line=number, text=NESTED_TOO_DEEPLY)


def _checked(input_: object) -> Mapping[str, Any]:
    if not isinstance(input_, Mapping):
        raise TypeError(f"the input of a Job must be a dict, not {type(input_).__name__}")
    return input_


def _parts(given: JobParts) -> dict[str, Any]:
    """What stands beside the input of a line."""
    parts = {
        "custom_id": given.custom_id,
        "policy": None if given.policy is None else msgspec.Raw(encode_policy(given.policy)),
        "s3Config": given.s3_config,
        "priority": given.priority or None,
        "metadata": given.metadata,
    }
    return {name: value for name, value in parts.items() if value is not None}
