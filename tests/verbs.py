"""The page of all verbs by which the ledger is written, by whether others may go on beside them.

python -m tests.rooms          writes docs/generated/verbs.md
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LEDGER: Final = ROOT / "orchestrator" / "ledger"
VERBS: Final = ROOT / "docs" / "generated" / "verbs.md"

MARKS: Final = {
    "alone": (
        "Alone: they decide by what they read of others, so none of another process goes on meanwhile. Engines of other"
        " processes look afterwards."
    ),
    "signalling": "Signalling: shared as below, and engines of other processes look afterwards: they go by what is written.",
    "shared": "Shared: they read and write what no other process does, only add, or go by locks of rows that they take.",
}

_Method = ast.FunctionDef | ast.AsyncFunctionDef


def marked() -> Mapping[str, frozenset[str]]:
    """Each verb (`room/module.py::Class.method`) that opens a transaction, with all that it says of that."""
    found = {}
    for path in sorted(LEDGER.rglob("*.py")):
        if path.parent.name != "transactions":
            for name, method in _methods(ast.parse(path.read_text(encoding="utf-8"))):
                if marks := frozenset(_marks_of(method)):
                    found[f"{path.relative_to(LEDGER)}::{name}"] = marks
    return found


def _methods(module: ast.Module) -> Iterator[tuple[str, _Method]]:
    for each in module.body:
        if isinstance(each, ast.ClassDef):
            yield from ((f"{each.name}.{inner.name}", inner) for inner in each.body if isinstance(inner, _Method))


def _marks_of(method: _Method) -> Iterator[str]:
    for each in method.decorator_list:
        if isinstance(each, ast.Name) and each.id in MARKS:
            yield each.id
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and node.attr in MARKS and ast.unparse(node.value) == "self._access":
            yield node.attr


def page() -> str:
    """The page, as Markdown."""
    verbs = marked()
    lines = [
        "# Verbs that write",
        "",
        "<!-- written by `python -m tests.rooms`; the suite compares -->",
        "",
        "For those who add one, or ask what may happen at the same time in a ledger on a server. In a file one transaction",
        "writes at a time. Steps, notices and what jobs were found to be are shared; of these notices are signalled, and steps that",
        "have a message sent or a flow go on. Paths are below `orchestrator/ledger/`.",
    ]
    for mark, meaning in MARKS.items():
        lines += ["", f"## {meaning.partition(':')[0]}", "", meaning, ""]
        lines += [f"- `{verb}`" for verb, marks in verbs.items() if mark in marks]
    return "\n".join(lines) + "\n"
