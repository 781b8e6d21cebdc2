"""Writes the tables of settings of the reference and of two pages from their declarations.

python -m tests.reference
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator.api.emulation import flags
from orchestrator.api.emulation.flags import EMULATOR
from orchestrator.api.runs.keyword_options import ConnectionOptions, RunOptions
from orchestrator.cli.help.exit_codes import EXIT_CODES, ExitCode
from orchestrator.cli.help.filter_fields import FILTER_FIELDS
from orchestrator.settings import command_settings, pipeline_keys
from orchestrator.settings.profiles import PROFILE
from orchestrator.settings.requests import FIGURES_OF_PLAN
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import RUNS, Section

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
REFERENCE: Final = tuple(
    DOCS / "reference" / f"{name}.md" for name in ("commands", "configuration", "exit-codes-and-output", "file-formats")
)
PAGES: Final = (*REFERENCE, DOCS / "how-to" / "pipelines.md", DOCS / "how-to" / "python.md")

_BLOCK: Final = re.compile(r"(<!-- declared: ([a-z ]+) -->\n)(.*?)(\n<!-- end -->)", re.DOTALL)
_LINK: Final = re.compile(r"\]\(([a-z-]+\.md)?(#[a-z-]+)?\)")


def written(page: str) -> str:
    """`page` with what follows from the declarations between its marks."""
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
    return "\n".join([f"| {heading} | Meaning | Default |", "|---|---|---|", *map(_row, settings)])


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


def _exit_code(code: ExitCode) -> str:
    return f"| {code.code} | {code.means} | {code.resumable} |".replace("|  |", "| |")


_BLOCKS: Final[Mapping[str, str]] = {
    "run": _table("Flag", command_settings.RUN),
    "figures": _table("Flag", FIGURES_OF_PLAN),
    "emulate": _table("Flag", flags.EMULATE),
    "keys": _keys(RUNS),
    "keys of emulate": _keys(EMULATOR),
    "file only": _table("Key", command_settings.FILE_ONLY),
    "pipeline": _keys_table(pipeline_keys.PIPELINE),
    "schedule": _keys_table(pipeline_keys.SCHEDULE),
    "stage": _keys_table(pipeline_keys.STAGE),
    "notify": _keys_table(pipeline_keys.NOTIFY),
    "exit codes": "\n".join(["| Code | Meaning | Resumable |", "|---|---|---|", *map(_exit_code, EXIT_CODES)]),
    "filter fields": "\n".join(
        [
            "| Field | What it is | Comparisons |",
            "|---|---|---|",
            *(f"| `{a}` | {b} | {c} |" for a, b, c in FILTER_FIELDS),
        ]
    ),
    "run keywords": ", ".join(f"`{name}`" for name in RunOptions.__annotations__),
    "service keywords": ", ".join(f"`{name}`" for name in ConnectionOptions.__annotations__),
    "stage settings": ", ".join(f"`{setting.key}`" for setting in pipeline_keys.STAGE_RUN),
}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"written: docs/{page.relative_to(DOCS)}\n")
