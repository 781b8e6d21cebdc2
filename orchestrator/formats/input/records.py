"""Records on their way to rows: which of their fields are sent, and which one is the id."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from orchestrator.formats.input.custom_id import check_custom_id
from orchestrator.formats.input.jsonl import RowReader, members_of
from orchestrator.formats.input.openai_batch import METADATA
from orchestrator.formats.input.rows import ID_FIELD, InputRecord, Row, RowProblem, problem_of
from orchestrator.formats.templates.field_templates import instead_of, template_of
from orchestrator.formats.text.json_text import json_problem
from orchestrator.formats.text.value_text import NESTED_TOO_DEEPLY

_object: Final = msgspec.json.Decoder(dict[str, Any])
_encode: Final = msgspec.json.Encoder().encode


class RecordReader:
    """Reads record after record.

    Without anything else all fields are sent but the id, which is the field `custom_id` where there is one. `id_field`
    names another one, `input_field` one that holds the whole input, and `templates` make an input of their fields only.
    With one of the last two, a field `metadata` that holds an object (or its JSON text) is what the row carries unsent.
    """

    def __init__(
        self,
        rows: RowReader,
        *,
        id_field: str | None = None,
        input_field: str | None = None,
        templates: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._rows = rows
        self._id_field = id_field
        self._input_field = input_field
        self._templates = {name: template_of(text) for name, text in templates}
        self._input_of: Callable[[Mapping[str, Any]], bytes] = self._all_but_id
        if input_field is not None:
            self._input_of = self._one_field
        if self._templates:
            self._input_of = self._mapped

    def read(self, number: int, record: Mapping[str, Any]) -> Row | RowProblem:
        """The row that `record` is, or why it is none."""
        try:
            return self._rows.row_of(number, self._input_of(record), self._id(record), self._metadata(record))
        except RecursionError:
            return RowProblem(line=number, text=NESTED_TOO_DEEPLY)
        except (ValueError, TypeError, OverflowError, msgspec.EncodeError) as error:
            return problem_of(number, error)

    def read_text(self, number: int, text: bytes) -> Row | RowProblem:
        """The same of an object in JSON."""
        try:
            record = _object.decode(text)
        except (ValueError, RecursionError) as error:
            members = members_of(number, text)  # which explains, but for numbers that only a record cannot hold
            return members if isinstance(members, RowProblem) else RowProblem(line=number, text=f"not usable: {error}")
        return self.read(number, record)

    def all(self, records: Iterable[InputRecord | RowProblem]) -> Iterator[Row | RowProblem]:
        """The rows that `records` are."""
        for record in records:
            yield record if isinstance(record, RowProblem) else self.read(record.line, record.values)

    def _id(self, record: Mapping[str, Any]) -> str | None:
        name = self._id_field or ID_FIELD
        if name not in record:
            if self._id_field is not None:
                raise ValueError(_missing(self._id_field, record))
            return None
        value = record[name]
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise TypeError(f"the id in {name!r} must be a text or a whole number, not {_kind(value)}")
        return check_custom_id(value)

    def _metadata(self, record: Mapping[str, Any]) -> bytes | None:
        """Where the whole record is the input, a field of that name is sent like any other."""
        value = None if self._input_of == self._all_but_id else record.get(METADATA)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            text = value.strip().encode()
            return None if json_problem(text) else text
        return _encode(value) if isinstance(value, Mapping) else None

    def _all_but_id(self, record: Mapping[str, Any]) -> bytes:
        name = self._id_field or ID_FIELD
        return _encode({key: value for key, value in record.items() if key != name} if name in record else record)

    def _one_field(self, record: Mapping[str, Any]) -> bytes:
        name = self._input_field
        assert name is not None
        if name not in record:
            raise ValueError(_missing(name, record))
        value = record[name]
        if isinstance(value, str):
            text = value.strip().encode()
            if told := json_problem(text):
                raise ValueError(f"the input in {name!r} is {told}")
            if text.startswith(b"{"):
                return text
            value = msgspec.json.decode(text)
        if not isinstance(value, Mapping):
            raise TypeError(f"the input in {name!r} must be an object, not {_kind(value)}")
        return _encode(value)

    def _mapped(self, record: Mapping[str, Any]) -> bytes:
        made = {}
        for name, template in self._templates.items():
            try:
                made[name] = template(record)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return _encode(made)


def _missing(name: str, record: Mapping[str, Any]) -> str:
    return f"there is no {name!r}; {instead_of(name, record)}"


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", float: "a number", int: "a number", list: "an array"}
    return names.get(type(value), "a text" if isinstance(value, str) else type(value).__name__)
