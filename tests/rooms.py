"""The pages of all packages and rooms, with what each says of itself and what it may import, and of all modules.

python -m tests.rooms          writes docs/generated/rooms.md, docs/generated/modules.md and docs/generated/verbs.md
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests import verbs

ROOT: Final = Path(__file__).resolve().parent.parent
PRODUCT: Final = ROOT / "orchestrator"
PAGE: Final = ROOT / "docs" / "generated" / "rooms.md"
MODULES: Final = ROOT / "docs" / "generated" / "modules.md"

_ENDS: Final = re.compile(r"(?<=[.!?]) (?=[A-Z`])")
"""Between two sentences."""


def layers(container: str) -> list[str]:
    """The order of a package's rooms, top first, as the import rules have it; empty for a package without rooms."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return next((each["layers"] for each in contracts if each.get("containers") == [container]), [])


def page() -> str:
    """The page, as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Rooms",
        "",
        "<!-- written by `python -m tests.rooms`; the suite compares -->",
        "",
        "For those who look for the place of something. Imports point down only, in the order that is given; those between",
        "bars do not import each other. Each line is what the room says of itself.",
        "",
        f"The packages: {_order('orchestrator')}.",
    )
    packages = [name for layer in layers("orchestrator") for name in layer.replace("|", " ").split()]
    for package in packages:
        folder = PRODUCT / package
        if folder.is_dir():
            yield from ("", f"## {package}", "", _sentence(folder / "__init__.py"))
            rooms = sorted(inner.parent for inner in folder.glob("*/__init__.py"))
            if rooms:
                yield from ("", f"{_order(f'orchestrator.{package}')}.", "")
            yield from (f"- **{room.name}**: {_sentence(room / '__init__.py')}" for room in rooms)
    yield from ("", "## Files beside the packages", "")
    yield from (f"- **{path.stem}**: {_sentence(path)}" for path in sorted(PRODUCT.glob("[a-z]*.py")))


def modules_page() -> str:
    """The page of all modules, as Markdown: a line for each, by room, so that a search for a word finds its place."""
    return "\n".join(_module_lines()) + "\n"


def _module_lines() -> Iterator[str]:
    yield from (
        "# Modules",
        "",
        "<!-- written by `python -m tests.rooms`; the suite compares -->",
        "",
        "For those who search for a word, such as 429, checkpoint or cron: each module with the first sentence that it says of",
        "itself. [Rooms](rooms.md) says what belongs where. Paths are below `orchestrator/`.",
    )
    by_room: dict[Path, list[Path]] = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        if path.stem != "__init__" and "migrations" not in path.parent.parts:
            by_room.setdefault(path.parent, []).append(path)
    for room, paths in sorted(by_room.items()):
        yield from ("", f"## {room.relative_to(PRODUCT.parent)}", "")
        for path in paths:
            yield f"- `{path.relative_to(PRODUCT)}`: {_ENDS.split(_sentence(path))[0]}"


def _order(container: str) -> str:
    return f"`{' > '.join(layers(container))}`"


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    MODULES.write_text(modules_page(), encoding="utf-8")
    verbs.VERBS.write_text(verbs.page(), encoding="utf-8")
