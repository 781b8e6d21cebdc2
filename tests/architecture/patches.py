"""Tests hand the program what it works with; they put nothing in the place of a part of it."""

import ast
import re
from collections.abc import Sequence
from typing import Final

from tests.architecture.rules import Rule
from tests.architecture.source import Module

TOOLS: Final = re.compile(r"monkeypatch\.(?!setenv|delenv|chdir)\w|mock\.patch|from unittest|import mock")

ASSIGNMENT: Final = re.compile(r"^[ \t]*([A-Za-z_]\w*)(?:\.\w+)+ *(?::[^=\n]+)?=(?!=)", re.MULTILINE)
"""What looks like one to an attribute of something; a file that has none for a name of its imports is not parsed."""


def tools(modules: Sequence[Module]) -> list[str]:
    """Where a tool for it is used; this file has to name them."""
    return [found for module in modules if module.name != THIS for found in module.finds(TOOLS)]


def set_by_name(modules: Sequence[Module]) -> list[str]:
    """Where `setattr` sets an attribute of something that the file has not defined itself."""
    return [
        f"{module.name}: {ast.unparse(node)}"
        for module in modules
        if "setattr(" in module.text
        for own in [{name for name, _ in module.definitions}]
        for node in module.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr" and ast.unparse(node.args[0]) not in own
    ]


def assigned(modules: Sequence[Module]) -> list[str]:
    """Attributes of the program's modules, and of what was imported from them, that are assigned."""
    return [
        f"{module.name}: {ast.unparse(target)}"
        for module in modules
        if any(re.search(rf"import\b.*\b{root}\b", module.text) for root in set(ASSIGNMENT.findall(module.text)))
        for names in [_ours(module)]
        for node in module.nodes
        for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
        if isinstance(target, ast.Attribute) and ast.unparse(target).partition(".")[0] in names
    ]


def _ours(module: Module) -> set[str]:
    """The names under which a file has the program's modules, and what is in them."""
    return {
        (name.asname or name.name).partition(".")[0]
        for node in module.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        if (getattr(node, "module", None) or name.name).partition(".")[0] == "orchestrator"
    }


THIS: Final = "tests/architecture/patches.py"

RULES: Final = (
    Rule("tools that patch", tools, {"tests/a.py": "monkeypatch.setattr(a, 'b', c)\n"}, ("tests",)),
    Rule(
        "attributes set by their names",
        set_by_name,
        {"tests/a.py": "module = import_module('orchestrator.clock')\nsetattr(module, 'SystemClock', Clock)\n"},
        ("tests",),
    ),
    Rule(
        "assigned attributes of the program",
        assigned,
        {"tests/a.py": "from orchestrator.api.inspect import status\nstatus.latest = latest\n"},
        ("tests",),
    ),
)
