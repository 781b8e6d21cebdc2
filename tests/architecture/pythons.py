"""What not every Python does rightly that the project is for."""

import ast
import re
from collections.abc import Sequence
from typing import Final

from tests.architecture.rules import Rule
from tests.architecture.source import Module

POSSESSIVE: Final = re.compile(r"(?:\)[*+?]|(?<!\\)\})\+")

SYMBOLS: Final = re.compile(r"\(\)")
"""A list of them is no pattern."""


def repeated_groups(modules: Sequence[Module]) -> list[str]:
    """Groups that are repeated without looking back: before Python 3.11.5 one that fails in its midst takes what it had.
    `(?>...)` does not.
    """
    return [
        f"{module.name}: {text}"
        for module in modules
        if "+" in module.text
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        if POSSESSIVE.search(text := str(node.value)) and not SYMBOLS.search(text)
    ]


RULES: Final = (
    Rule(
        "groups that are repeated without looking back", repeated_groups, {"orchestrator/a.py": 'A = rb"(?:a|b)*+"\n'}
    ),
)
