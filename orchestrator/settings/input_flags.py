"""The settings of how an input is read, each declared once, as those in `declared`."""

from typing import Any, Final

from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.core.text.durations import format_duration, parse_duration
from orchestrator.settings import parsers
from orchestrator.settings.setting import SWITCH, Form, Group, Kind, Setting, one_of, text, whole
from orchestrator.settings.structs import InputFormat, InputSettings, RunRequest, RunSettings

INPUT: Final = "Input"

BYTES_MAX: Final = 1 << 50

_input: Final = Group(InputSettings, INPUT)

FORMAT: Final[Setting[InputFormat]] = _input(
    "format",
    one_of(InputFormat),
    "What [the input](#input) is written in.",
    default="as its name ends, or as it begins; gzip and zstd are unpacked",
    brief="csv, json, parquet ...; else by the file's name",
)
ID_FIELD: Final[Setting[str]] = _input(
    "id-field",
    text("NAME"),
    "The column or field that is the row's `custom_id`.",
    default="`custom_id`, if there is one",
    brief="The column or field that is the custom_id",
)
INPUT_FIELD: Final[Setting[str]] = _input(
    "input-field",
    text("NAME"),
    "The column or field that holds the whole input, an object or its JSON text.",
    default="all fields but the id are the input",
)
MAP: Final = _input(
    "map",
    Form(Kind.LIST, "NAME=TEMPLATE", parsers.templates, parsers.pairs, by_lines=True),
    "A field of the input, and the [template](#templates) that makes it of a row, as in `prompt={{ row.caption }}`."
    " Repeatable; the input then has these fields only.",
    more="In `ORCHESTRATOR_MAP` each has a line of its own.",
    field="templates",
    default="the fields as they are",
    brief="Makes a field of the input from a row",
)
TYPES: Final = _input(
    "types",
    Form(Kind.TEXT, "NAME=TYPE,...", parsers.types, lambda value: (",".join(parsers.pairs(value)),)),
    "Columns of CSV and TSV that are no text: `int`, `float`, `bool` or `json`; several with commas between them.",
    default="all cells are text",
)
MAX_INPUT_BYTES: Final = _input(
    "max-input-bytes",
    whole(1, BYTES_MAX),
    "How many bytes an input may have, unpacked.",
    field="input_bytes_max",
    default="68719476736 (64 GiB)",
)

REPLACE_INPUT: Final = Setting(
    "replace-input",
    SWITCH,
    "The input [replaces the one that the run has](how-it-works.md#a-corrected-input): jobs that are no longer in it"
    " go, if they have not succeeded. Without it, whoever sits at a terminal is asked.",
    of=RunRequest,
    panel=INPUT,
)
ALLOW_ENV: Final[Setting[tuple[str, ...]]] = Setting(
    "allow-env",
    Form(Kind.LIST, "NAME", parsers.allowed_variables, tuple),
    "A variable that the rows of the input may name in their `s3Config`, or how such begin, as in `S3_*`. Repeatable.",
    more="[Keys of this program's own](#secrets-that-rows-name) they never get.",
    of=RunSettings,
    default="none",
    panel=INPUT,
)
REUSE: Final = Setting(
    "reuse",
    Form(
        Kind.DURATION,
        "D",
        lambda texts: Reuse(young_us=parse_duration(texts[-1])),
        lambda value: (format_duration(value.young_us),),
    ),
    "A row whose input another run has [sent for the same endpoint](how-it-works.md#rows-with-the-same-input) gets the"
    " result of that, if it is no older, and is not sent: of runs that were given this, too.",
    of=RunSettings,
    panel=INPUT,
    default="never",
)
ONCE: Final = Setting(
    "once",
    SWITCH,
    "Of rows with the same input [one is sent](how-it-works.md#rows-with-the-same-input), and the others get its"
    " result.",
    of=RunSettings,
    panel=INPUT,
)

INPUTS: Final[tuple[Setting[Any], ...]] = (FORMAT, ID_FIELD, INPUT_FIELD, MAP, TYPES, MAX_INPUT_BYTES)
