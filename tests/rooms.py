"""The page of all packages and rooms, with what each says of itself and what it may import.

python -m tests.rooms          writes docs/generated/rooms.md
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PRODUCT: Final = ROOT / "orchestrator"
PAGE: Final = ROOT / "docs" / "generated" / "rooms.md"


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


def _order(container: str) -> str:
    return f"`{' > '.join(layers(container))}`"


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
