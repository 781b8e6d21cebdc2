"""What things are called."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from tests.architecture.rules import Rule
from tests.architecture.source import FOLDERS, Definition, Module

SAY_NOTHING: Final = {"utils", "util", "common", "helpers", "base", "models", "manager"}

RIDDLES: Final = {
    "told",
    "said",
    "seen",
    "anew",
    "afresh",
    "owing",
    "held",
    "spare",
    "keeping",
    "wish",
    "wishes",
    "lies",
}
"""Words from which a stranger guesses nothing, or the wrong thing."""

PUBLIC: Final = {"RunStatus.held_by", "RunStatus.held_up", "UncertainSummary.seen"}
"""What programs read of `Orchestrator.status()`: called as in `--json`, for good."""

GERUNDS: Final = {
    "opening",
    "paging",
    "pruning",
    "scaling",
    "serving",
    "setting",
    "spacing",
    "spending",
    "unpacking",
    "wording",
}
"""Modules may end so: the field has no other noun for it."""

WORLDS: Final = ("orchestrator/cli/", "orchestrator/api/python/", "orchestrator/emulator/", "orchestrator/worker.py")
"""What has names of its own: see `namesakes`."""


def say_nothing(modules: Sequence[Module]) -> list[str]:
    return [module.name for module in modules if module.stem in SAY_NOTHING]


def riddles(modules: Sequence[Module]) -> list[str]:
    return [
        name
        for module in modules
        for name in (module.stem, *_public(module.tree.body))
        if not RIDDLES.isdisjoint(_words(name.rpartition(".")[2])) and name not in PUBLIC
    ]


def _public(body: Sequence[ast.stmt], inside: str = "") -> Iterator[str]:
    """The public names that are defined there: of functions, classes and their members, of constants."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) if (
                not name.startswith("_")
            ):
                yield inside + name
                if isinstance(node, ast.ClassDef):
                    yield from _public(node.body, f"{inside}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield inside + name
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                yield inside + name


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def gerunds(modules: Sequence[Module]) -> list[str]:
    return [
        module.name
        for module in modules
        if module.stem.endswith("ing") and module.stem.rpartition("_")[2] not in GERUNDS
    ]


def namesakes(modules: Sequence[Module]) -> list[str]:
    """Public functions and classes of different modules that have one name.

    A command is called as the verb of `api` that it calls, what users import as the thing that it hands them, and what
    imitates the service as the service's: the command line, the Python face and the emulator are worlds of their own.
    """
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module in modules:
        world = next((each for each in WORLDS if module.name.startswith(each)), "")
        for node in module.tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                homes[world, node.name].add(module.name)
    return [name for (_, name), where in homes.items() if len(where) > 1]


RULES: Final = (
    Rule("names of modules that say nothing", say_nothing, {"orchestrator/core/utils.py": ""}, folders=FOLDERS),
    Rule("names that are riddles", riddles, {"orchestrator/a.py": "class A:\n    def was_told(self): ...\n"}),
    Rule("names of modules that are gerunds", gerunds, {"orchestrator/core/minding.py": ""}),
    Rule(
        "names of more than one thing",
        namesakes,
        {"orchestrator/a.py": "def read(): ...\n", "orchestrator/b.py": "class read: ...\n"},
    ),
)
