"""The project's Python files as the rules see them."""

import ast
import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("orchestrator", "migrations", "tests", "examples")


Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module:
    """One file: its name from the project's root, its text, and its syntax."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def stem(self) -> str:
        return self.name.rpartition("/")[2].removesuffix(".py")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def definitions(self) -> list[tuple[str, Definition]]:
        """Every class and function with its name, in which stands what it is inside of: `Class.method`."""
        return list(_definitions(self.tree, ""))

    def texts(self) -> Iterator[tuple[int, str]]:
        """The texts of a module, each with its line, that are no documentation, which stands by itself."""
        documentation = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                yield node.lineno, node.value

    def calls(self, *names: str) -> list[str]:
        """Where something of these dotted names is called, whatever stands before the first dot."""
        if not any(name.rpartition(".")[2] in self.text for name in names):
            return []  # there is no need to parse it
        return [
            f"{self.name}:{node.lineno} {called}"
            for node in self.nodes
            if isinstance(node, ast.Call)
            for called in [ast.unparse(node.func)]
            if any(called == name or called.endswith(f".{name}") for name in names)
        ]

    def finds(self, pattern: re.Pattern[str]) -> Iterator[str]:
        """Each match in the text, with the name of the file."""
        return (f"{self.name}: {match[0]}" for match in pattern.finditer(self.text))


def _definitions(tree: ast.AST, inside: str) -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield inside + node.name, node
            yield from _definitions(node, f"{inside}{node.name}.")
        else:
            yield from _definitions(node, inside)


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """The files of these folders, each read and parsed once in a process."""
    return tuple(module(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def module(path: Path) -> Module:
    return Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def tracked() -> Iterator[Path]:
    """Every text file of the project, without what tools leave behind."""
    kinds = ("*.py", "*.toml", "*.md", "*.mako", "*.yml", "*.yaml", "*.jsonl", "*.cfg", "*.txt")
    for kind in kinds:
        yield from (path for path in ROOT.glob(kind) if path.is_file())
        for folder in (*FOLDERS, "docs", ".ci", ".github"):
            yield from (ROOT / folder).rglob(kind)
    yield from (path for path in (ROOT / "Makefile", ROOT / ".ci" / "run") if path.is_file())
