"""How large things may be. A limit below which many things crowd has stopped designing: split by idea, not by length."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from tests.architecture.rules import Rule
from tests.architecture.source import FOLDERS, Definition, Module

FILES_OF_ROOM_MAX: Final = 15
LINES_OF_FILE_MAX: Final = 350
LINES_OF_TABLE_MAX: Final = 600
LINES_OF_TEST_MAX: Final = 500
LINES_OF_FUNCTION_MAX: Final = 70
ATTRIBUTES_MAX: Final = 15
METHODS_MAX: Final = 25
IMPORTS_MAX: Final = 25
PARAMETERS_MAX: Final = 8

CROWD: Final = 0.05
CROWD_SHARE_MAX: Final = 0.02
"""The share of files that may be within `CROWD` of the limit."""

TABLES: Final = {
    "orchestrator/api/emulation/emulate_request.py",
    "orchestrator/core/gates/gates.py",
    "orchestrator/ledger/schema/job_tables.py",
    "orchestrator/settings/run_settings.py",
}
"""Files that are tables of data, which are read by the entry and may be longer."""

COMPOSITION: Final = {"open_engine"}
"""Where the program is put together: what it is made of is handed in."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def crowded_rooms(modules: Sequence[Module]) -> list[str]:
    rooms = Counter(module.folder for module in modules if module.stem != "__init__")
    return [room for room, files in rooms.items() if files > FILES_OF_ROOM_MAX]


def long_files(modules: Sequence[Module]) -> list[str]:
    def lines_max(name: str) -> int:
        return LINES_OF_TABLE_MAX if name in TABLES else LINES_OF_FILE_MAX

    return [module.name for module in modules if module.lines > lines_max(module.name)]


def long_tests(modules: Sequence[Module]) -> list[str]:
    return [module.name for module in modules if module.lines > LINES_OF_TEST_MAX]


def just_below(modules: Sequence[Module]) -> list[str]:
    near = [each.name for each in modules if LINES_OF_FILE_MAX * (1 - CROWD) < each.lines <= LINES_OF_FILE_MAX]
    return near if len(near) > CROWD_SHARE_MAX * len(modules) else []


def long_functions(modules: Sequence[Module]) -> list[str]:
    return [
        name
        for name, node in _definitions([module for module in modules if _may_have_a_long_function(module)])
        if isinstance(node, _Function) and (node.end_lineno or 0) - node.lineno + 1 > LINES_OF_FUNCTION_MAX
    ]


def _may_have_a_long_function(module: Module) -> bool:
    """To parse everything takes seconds. A function ends where the next begins that is indented no more, at the latest."""
    begun: list[tuple[int, int]] = []  # how much each is indented that has not ended, and its line
    for number, line in enumerate([*module.text.splitlines(), "def end():"]):
        text = line.lstrip()
        if text.startswith(("def ", "async def ", "class ")):
            while begun and begun[-1][0] >= len(line) - len(text):
                if number - begun.pop()[1] > LINES_OF_FUNCTION_MAX:
                    return True
            begun.append((len(line) - len(text), number))
    return False


def _definitions(modules: Sequence[Module]) -> Iterator[tuple[str, Definition]]:
    for module in modules:
        if "/versions/" not in module.name:  # a migration is a list that Alembic wrote
            yield from module.definitions


def wide_classes(modules: Sequence[Module]) -> list[str]:
    return [
        name
        for name, node in _definitions(modules)
        if isinstance(node, ast.ClassDef) and len(_attributes(node)) > ATTRIBUTES_MAX
    ]


def _attributes(node: Definition) -> set[str]:
    """What the methods of a class assign on `self`."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def tall_classes(modules: Sequence[Module]) -> list[str]:
    return [
        name
        for name, node in _definitions(modules)
        if isinstance(node, ast.ClassDef) and sum(isinstance(each, _Function) for each in node.body) > METHODS_MAX
    ]


def many_imports(modules: Sequence[Module]) -> list[str]:
    return [
        module.name
        for module in modules
        if sum(isinstance(node, ast.Import | ast.ImportFrom) for node in module.tree.body) > IMPORTS_MAX
    ]


def many_parameters(modules: Sequence[Module]) -> list[str]:
    return [
        name
        for name, node in _definitions(modules)
        if isinstance(node, _Function) and name not in COMPOSITION and len(_parameters(node)) > PARAMETERS_MAX
    ]


def _parameters(node: _Function) -> list[str]:
    arguments = node.args
    named = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in named if name not in {"self", "cls"}]


def _lines(number: int) -> str:
    return "a = 0\n" * number


RULES: Final = (
    Rule("rooms of too many files", crowded_rooms, {f"orchestrator/a/b{n}.py": "" for n in range(16)}),
    Rule("files that are too long", long_files, {"orchestrator/a.py": _lines(LINES_OF_FILE_MAX + 1)}),
    Rule("files just below the limit", just_below, {"orchestrator/a.py": _lines(LINES_OF_FILE_MAX - 1)}),
    Rule("tests that are too long", long_tests, {"tests/a.py": _lines(LINES_OF_TEST_MAX + 1)}, folders=("tests",)),
    Rule(
        "functions that are too long",
        long_functions,
        {"orchestrator/a.py": "def a():\n" + "    pass\n" * LINES_OF_FUNCTION_MAX},
        folders=FOLDERS,
    ),
    Rule(
        "classes of too many attributes",
        wide_classes,
        {"orchestrator/a.py": "class A:\n    def a(self):\n" + "".join(f"        self.a{n} = 0\n" for n in range(16))},
    ),
    Rule(
        "classes of too many methods",
        tall_classes,
        {"orchestrator/a.py": "class A:\n" + "".join(f"    def a{n}(self): ...\n" for n in range(26))},
    ),
    Rule("modules of too many imports", many_imports, {"orchestrator/a.py": "import a\n" * 26}),
    Rule(
        "functions of too many parameters",
        many_parameters,
        {"orchestrator/a.py": "def a(b, c, d, /, e, f, *, g, h, i, j): ..."},
    ),
)
