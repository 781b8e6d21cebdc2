"""How outputs are written: what can be set of that."""

from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.settings.parsers import row_parsers
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.value_types import SWITCH, Kind, ValueType, one_of, whole
from orchestrator.settings.words_and_defaults import OnMisfit, OutputFormat, ResultOrder

_file: Final = partial(Setting, panel=Panel.FILES)


class OutputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How outputs are written."""

    format: Annotated[
        OutputFormat | None,
        _file(
            "output-format",
            one_of(OutputFormat),
            "What [the results](files.md#out) are written in. The errors are JSON lines, or what their own name says;"
            " OpenAI Batch has both.",
            default="as its name ends (`.csv`, `.tsv`, `.parquet`, packed with `.gz` or `.zst`), or `jsonl`",
        ),
    ] = None
    order: Annotated[
        ResultOrder,
        _file(
            "order",
            one_of(ResultOrder),
            "The order of the rows in the files: that of the input, or that in which the jobs ended.",
        ),
    ] = ResultOrder.INPUT
    split: Annotated[
        int | None,
        _file(
            "split",
            whole(1),
            "Writes the results to numbered files of so many rows, as `results-00001.csv`. All of them appear, or"
            " none.",
            default="one file",
        ),
    ] = None
    flatten: Annotated[
        tuple[str, ...],
        _file(
            "flatten",
            ValueType(Kind.LIST, "output.PATH", row_parsers.parse_flatten, tuple),
            "A member of each output, as `output.caption` or `output.choices.0.text`, in a column of its own, or of"
            " the input. Repeatable; these then stand in place of the output.",
            default="the whole output, as JSON where the format has columns",
        ),
    ] = ()
    on_misfit: Annotated[
        OnMisfit,
        _file(
            "on-misfit",
            one_of(OnMisfit),
            "What becomes of a value that [the format cannot hold](files.md#misfits). `error`: nothing is written,"
            " and the row is named. `json`: its JSON text is written.",
        ),
    ] = OnMisfit.ERROR
    csv_safe: Annotated[
        bool,
        _file(
            "csv-safe",
            SWITCH,
            "Makes cells of CSV and TSV harmless that [a spreadsheet would compute](files.md#spreadsheets): texts"
            " that begin with `=`, `+`, `-`, `@`, a tab or a carriage return have a `'` before them.",
        ),
    ] = False


AS_NAMED: Final = OutputSettings()
"""As the files are called."""

OUTPUT_FORMAT: Final[Setting[OutputFormat]] = setting_of(OutputSettings, "format")
ORDER: Final[Setting[ResultOrder]] = setting_of(OutputSettings, "order")
SPLIT: Final[Setting[int]] = setting_of(OutputSettings, "split")
FLATTEN: Final[Setting[tuple[str, ...]]] = setting_of(OutputSettings, "flatten")
ON_MISFIT: Final[Setting[OnMisfit]] = setting_of(OutputSettings, "on_misfit")
CSV_SAFE: Final[Setting[bool]] = setting_of(OutputSettings, "csv_safe")

OUTPUTS: Final = settings_in(OutputSettings)
