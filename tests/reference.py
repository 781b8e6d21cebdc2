"""Writes the tables of the reference and of two pages from the declarations of settings, metrics and alerts.

python -m tests.reference
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator.api.emulation import emulate_request
from orchestrator.api.emulation.emulate_request import EMULATOR
from orchestrator.cli.help.exit_codes import EXIT_CODES, ExitCode
from orchestrator.cli.help.topics import FILTER_FIELDS
from orchestrator.settings import command_flags, pipeline_keys, run_settings
from orchestrator.settings.batch_api.batch_api_settings import OF_BATCH_API
from orchestrator.settings.command_requests import FIGURES_OF_PLAN
from orchestrator.settings.configuration_file import OF_MODELS, RUNS, Section
from orchestrator.settings.connection_settings import PROFILE, ConnectionSettings
from orchestrator.settings.input_settings import INPUTS
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARD_FLAGS, DASHBOARDS
from orchestrator.settings.monitoring.notify_targets import NotifyTarget
from orchestrator.settings.output_settings import OUTPUT_FORMAT, OUTPUTS
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.run_request import INCLUDE
from orchestrator.settings.setting import Setting, settings_in
from orchestrator.settings.tables.pod_templates import OF_POD_TEMPLATES
from orchestrator.settings.value_types import Kind, ValueType
from orchestrator.telemetry.alerts.alert import Alert
from orchestrator.telemetry.alerts.registry import ALERTS
from orchestrator.telemetry.metrics.registry import METRICS, Metric

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
REFERENCE: Final = tuple(
    DOCS / "reference" / f"{name}.md"
    for name in ("commands", "configuration", "exit-codes-and-output", "file-formats", "metrics")
)
KEYWORDS: Final = DOCS.parent / "orchestrator" / "api" / "runs" / "keyword_options.py"
"""What a type checker has to see written out."""

PAGES: Final = (
    *REFERENCE,
    *(DOCS / "how-to" / f"{name}.md" for name in ("pipelines", "pods", "python", "notify", "batch-api")),
)

_BLOCK: Final = re.compile(r"(<!-- declared: ([a-z ]+) -->\n)(.*?)(\n<!-- end -->)", re.DOTALL)
_FIELDS: Final = re.compile(r"( *# <declared: ([a-z ]+)>\n)(.*?)( *# <end>)", re.DOTALL)
_LINK: Final = re.compile(r"\]\(([a-z-]+\.md)?(#[a-z-]+)?\)")


def written(page: str) -> str:
    """`page` with what follows from the declarations between its marks."""
    page = _FIELDS.sub(lambda found: f"{found[1]}{_KEYWORDS[found[2]]}{found[4]}", page)
    return _BLOCK.sub(lambda found: f"{found[1]}{_LINK.sub(_link, _BLOCKS[found[2]])}{found[4]}", page)


def _link(found: re.Match[str]) -> str:
    """Declarations name a page without its folder, and a heading of the reference without its page."""
    name, anchor = found.groups(default="")
    page = next(DOCS.rglob(name)) if name else next(page for page in REFERENCE if anchor[1:] in anchors(page))
    return f"](../{page.relative_to(DOCS)}{anchor})"


def anchors(page: Path) -> set[str]:
    """What the headings of `page` are linked by."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _table(heading: str, settings: Iterable[Setting[Any]]) -> str:
    once = dict.fromkeys(map(_row, settings))  # several parts of what is configured may have the same one
    return "\n".join([f"| {heading} | Meaning | Default |", "|---|---|---|", *once])


def _row(setting: Setting[Any]) -> str:
    said = f"{setting} {setting.value_type.metavar}".rstrip().replace("|", r"\|") if setting.has_flag else setting.key
    meaning = f"{setting.means} {setting.more}".rstrip()
    return f"| `{said}` | {meaning} | {setting.without or 'none'} |"


def _keys_table(settings: Iterable[Setting[Any]]) -> str:
    rows = (f"| `{each.key}` | {each.means} | {each.without or 'none'} |" for each in settings)
    return "\n".join(["| Key | Meaning | Default |", "|---|---|---|", *rows])


def _keys(section: Section) -> str:
    return ", ".join(
        f"`{key}`" for key, setting in section.settings.items() if setting.has_flag and setting is not PROFILE
    )


def _fields(settings: Iterable[Setting[Any]]) -> str:
    return "".join(f"    {each.keyword}: {_type_of(each.value_type)} | None\n" for each in settings)


def _type_of(values: ValueType[Any]) -> str:
    """The type of a keyword, as it is written: several texts, or what its kind is, or one of its words."""
    if "=" in values.metavar and values.kind in (Kind.LIST, Kind.TEXT):
        return "Mapping[str, str] | Sequence[str]"
    if "..." in values.metavar and values.kind is Kind.TEXT:
        return _TYPES[Kind.LIST]
    places = values.metavar.split("|")
    words = values.words or tuple(each for each in places if each.isalpha() and each.islower())
    others = [each for each in places if each not in words]
    literal = "Literal[" + ", ".join(f'"{word}"' for word in words) + "]"
    if values.kind is Kind.TEXT:
        return _TEXTS.get(others[0], "str") if others else literal
    if values.kind is Kind.WHOLE_OR_TEXT and others != ["N"]:
        return "int | str"
    return _TYPES[values.kind] + (f" | {literal}" if words else "")


_TYPES: Final = {
    Kind.WHOLE: "int",
    Kind.WHOLE_OR_TEXT: "int",
    Kind.NUMBER: "float",
    Kind.DURATION: "Duration",
    Kind.SWITCH: "bool",
    Kind.LIST: "str | Sequence[str]",
}
_TEXTS: Final = {"FILE": "str | PathLike[str]", "TIME": "str | datetime"}
"""What may stand in the place of texts."""

_RUN: Final = (*job_policy.POLICY, *settings_in(run_settings.RunSettings))
_OF_STAGE: Final = [each for each in _RUN if each in pipeline_keys.STAGE_RUN and each is not run_settings.CHECK]
_OF_RUN: Final = [*_OF_STAGE, *(each for each in _RUN if each not in (*_OF_STAGE, run_settings.GIVE_UP_AFTER))]
_OF_CONNECTION: Final = (*settings_in(ConnectionSettings), PROFILE, command_flags.CONFIG)

_KEYWORDS: Final[Mapping[str, str]] = {
    "run of a stage": _fields(_OF_STAGE),
    "run alone": _fields(_OF_RUN[len(_OF_STAGE) :]),
    "connection": _fields(_OF_CONNECTION),
    "input": _fields(INPUTS),
    "output": _fields((*(each for each in OUTPUTS if each is not OUTPUT_FORMAT), INCLUDE)),
}
"""Keywords of programs. A run is ended early by a command alone, and what checks outputs may be a function for a stage."""


def _exit_code(code: ExitCode) -> str:
    return f"| {code.code} | {code.means} | {code.resumable} |".replace("|  |", "| |")


def _metric(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.full_name}` | {metric.type} | {labels} | {metric.help} | {metric.unit} |".replace("|  |", "| |")


def _alert(alert: Alert) -> str:
    when = f"`{alert.name}`, {alert.severity}, for {alert.for_}: `{alert.expr}`"
    return f"### {alert.title}\n\n{_ALERT_LABEL.sub(_LABELLED, alert.summary)}.\n\n{alert.todo}\n\n{when}\n"


_ALERT_LABEL: Final = re.compile(r"{{ \$labels\.(\w+) }}")
_LABELLED: Final = r"*\1*"


_BLOCKS: Final[Mapping[str, str]] = {
    "run": _table("Flag", command_flags.RUN),
    "figures": _table("Flag", FIGURES_OF_PLAN),
    "emulate": _table("Flag", emulate_request.EMULATE),
    "keys": _keys(RUNS),
    "keys of emulate": _keys(EMULATOR),
    "dashboard": _table("Flag", DASHBOARD_FLAGS),
    "keys of dashboard": _keys(DASHBOARDS),
    "file only": _table("Key", command_flags.FILE_ONLY),
    "batch api": _table("Key", OF_BATCH_API),
    "keys of models": _keys(OF_MODELS),
    "pod templates": _table("Key", OF_POD_TEMPLATES),
    "pipeline": _keys_table(pipeline_keys.PIPELINE),
    "schedule": _keys_table(pipeline_keys.SCHEDULE),
    "stage": _keys_table(pipeline_keys.STAGE),
    "notify": _keys_table(pipeline_keys.NOTIFY),
    "targets": _keys_table(settings_in(NotifyTarget)),
    "exit codes": "\n".join(["| Code | Meaning | Resumable |", "|---|---|---|", *map(_exit_code, EXIT_CODES)]),
    "filter fields": "\n".join(
        [
            "| Field | What it is | Comparisons |",
            "|---|---|---|",
            *(f"| `{a}` | {b} | {c} |" for a, b, c in FILTER_FIELDS),
        ]
    ),
    "metrics": "\n".join(
        ["| Metric | Type | Labels | What it says | Unit |", "|---|---|---|---|---|", *map(_metric, METRICS)]
    ),
    "alerts": "\n".join(map(_alert, ALERTS)).rstrip(),
    "run keywords": ", ".join(f"`{each.keyword}`" for each in _OF_RUN),
    "service keywords": ", ".join(["`api_key`", *(f"`{each.keyword}`" for each in _OF_CONNECTION)]),
    "stage settings": ", ".join(f"`{setting.key}`" for setting in pipeline_keys.STAGE_RUN),
}


if __name__ == "__main__":
    for page in (*PAGES, KEYWORDS):
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"written: {page.relative_to(DOCS.parent)}\n")
