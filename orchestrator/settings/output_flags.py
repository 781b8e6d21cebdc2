"""The settings of how outputs are written, each declared once, as those in `declared`."""

from typing import Any, Final

from orchestrator.settings import parsers
from orchestrator.settings.setting import SWITCH, Form, Group, Kind, Setting, one_of, whole
from orchestrator.settings.structs import OnMisfit, OutputFormat, OutputSettings, ResultOrder

FILES: Final = "Files"

_output: Final = Group(OutputSettings, FILES)

OUTPUT_FORMAT: Final[Setting[OutputFormat]] = _output(
    "output-format",
    one_of(OutputFormat),
    "What [the results](files.md#out) are written in. The errors are JSON lines, or what their own name says;"
    " OpenAI Batch has both.",
    field="format",
    default="as its name ends (`.csv`, `.tsv`, `.parquet`, packed with `.gz` or `.zst`), or `jsonl`",
)
ORDER: Final = _output(
    "order",
    one_of(ResultOrder),
    "The order of the rows in the files: that of the input, or that in which the jobs ended.",
)
SPLIT: Final = _output(
    "split",
    whole(1),
    "Writes the results to numbered files of so many rows, as `results-00001.csv`. All of them appear, or none.",
    default="one file",
)
FLATTEN: Final = _output(
    "flatten",
    Form(Kind.LIST, "output.PATH", parsers.flattened, tuple),
    "A member of each output, as `output.caption` or `output.choices.0.text`, in a column of its own, or of the input."
    " Repeatable; these then stand in place of the output.",
    default="the whole output, as JSON where the format has columns",
)
ON_MISFIT: Final = _output(
    "on-misfit",
    one_of(OnMisfit),
    "What becomes of a value that [the format cannot hold](files.md#misfits). `error`: nothing is written, and the row"
    " is named. `json`: its JSON text is written.",
)
CSV_SAFE: Final = _output(
    "csv-safe",
    SWITCH,
    "Makes cells of CSV and TSV harmless that [a spreadsheet would compute](files.md#spreadsheets): texts that begin"
    " with `=`, `+`, `-`, `@`, a tab or a carriage return have a `'` before them.",
)

OUTPUTS: Final[tuple[Setting[Any], ...]] = (OUTPUT_FORMAT, ORDER, SPLIT, FLATTEN, ON_MISFIT, CSV_SAFE)
"""How outputs are written."""
