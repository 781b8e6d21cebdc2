"""Writes the tables of settings in docs/reference.md from their declarations.

python -m tests.reference
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator import declared
from orchestrator.api import emulated
from orchestrator.api.config import EMULATOR, RUNS, Section
from orchestrator.declaration import Setting

PATH: Final = Path(__file__).resolve().parent.parent / "docs" / "reference.md"

_BLOCK: Final = re.compile(r"(<!-- declared: ([a-z ]+) -->\n)(.*?)(\n<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """`page` with what follows from the declarations between its marks."""
    return _BLOCK.sub(lambda found: f"{found[1]}{_BLOCKS[found[2]]}{found[4]}", page)


def _table(heading: str, settings: Iterable[Setting[Any]]) -> str:
    return "\n".join([f"| {heading} | Meaning | Default |", "|---|---|---|", *map(_row, settings)])


def _row(setting: Setting[Any]) -> str:
    said = f"{setting} {setting.form.metavar}".rstrip().replace("|", r"\|") if setting.has_flag else setting.key
    meaning = f"{setting.means} {setting.more}".rstrip()
    return f"| `{said}` | {meaning} | {setting.without or 'none'} |"


def _keys(section: Section) -> str:
    return ", ".join(f"`{key}`" for key, setting in section.settings.items() if setting.has_flag)


_BLOCKS: Final[Mapping[str, str]] = {
    "run": _table("Flag", declared.RUN),
    "emulate": _table("Flag", emulated.EMULATE),
    "keys": _keys(RUNS),
    "keys of emulate": _keys(EMULATOR),
    "file only": _table("Key", declared.FILE_ONLY),
}


if __name__ == "__main__":
    PATH.write_text(written(PATH.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"written: docs/{PATH.name}\n")
