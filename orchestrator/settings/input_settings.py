"""How an input is read: what can be set of that."""

from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.settings.parsers import row_parsers
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.value_types import Kind, ValueType, one_of, text, whole
from orchestrator.settings.words_and_defaults import INPUT_BYTES_MAX_DEFAULT, CellType, InputFormat

BYTES_MAX: Final = 1 << 50

_input: Final = partial(Setting, panel=Panel.INPUT)


class InputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an input is read."""

    format: Annotated[
        InputFormat | None,
        _input(
            "format",
            one_of(InputFormat),
            "What [the input](#input) is written in.",
            default="as its name ends, or as it begins; gzip and zstd are unpacked",
            brief="csv, json, parquet ...; else by the file's name",
        ),
    ] = None
    id_field: Annotated[
        str | None,
        _input(
            "id-field",
            text("NAME"),
            "The column or field that is the row's `custom_id`.",
            default="`custom_id`, if there is one",
            brief="The column or field that is the custom_id",
        ),
    ] = None
    input_field: Annotated[
        str | None,
        _input(
            "input-field",
            text("NAME"),
            "The column or field that holds the whole input, an object or its JSON text.",
            default="all fields but the id are the input",
        ),
    ] = None
    templates: Annotated[
        tuple[tuple[str, str], ...],
        _input(
            "map",
            ValueType(Kind.LIST, "NAME=TEMPLATE", row_parsers.parse_templates, row_parsers.format_pairs, by_lines=True),
            "A field of the input, and the [template](#templates) that makes it of a row, as in `prompt={{"
            " row.caption }}`. Repeatable; the input then has these fields only.",
            more="In `ORCHESTRATOR_MAP` each has a line of its own.",
            default="the fields as they are",
            brief="Makes a field of the input from a row",
        ),
    ] = ()
    types: Annotated[
        tuple[tuple[str, CellType], ...],
        _input(
            "types",
            ValueType(Kind.TEXT, "NAME=TYPE,...", row_parsers.parse_types, row_parsers.format_types),
            "Columns of CSV and TSV that are no text: `int`, `float`, `bool` or `json`; several with commas between"
            " them.",
            default="all cells are text",
        ),
    ] = ()
    input_bytes_max: Annotated[
        int,
        _input(
            "max-input-bytes",
            whole(1, BYTES_MAX),
            "How many bytes an input may have, unpacked.",
            default="68719476736 (64 GiB)",
        ),
    ] = INPUT_BYTES_MAX_DEFAULT

    @property
    def are_records(self) -> bool:
        """Whether each line is a record of which an input is made, not a job or an input as it stands."""
        return bool(self.id_field or self.input_field or self.templates)


MAP: Final[Setting[tuple[tuple[str, str], ...]]] = setting_of(InputSettings, "templates")
TYPES: Final[Setting[tuple[tuple[str, CellType], ...]]] = setting_of(InputSettings, "types")

INPUTS: Final = settings_in(InputSettings)
