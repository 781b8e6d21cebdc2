"""The pages about the interface list every line of the contract, with commands and tests that exist.

A page explains its shorthands (*client* is `account/pods/test_pods.py`). In a column headed "Test", each part between
semicolons begins with one and names functions of that file; one of them says in its docstring which line of the
contract it is about.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from orchestrator.cli import build

ROOT = Path(__file__).parents[1]
PAGES = ("interface-jobs", "interface-pods", "interface-endpoints", "interface-templates-and-secrets")
SHORTHAND = re.compile(r"\*(\w+)\*\s+(?:is )?`([\w/]+/test_\w+\.py)`")
NOUNS = ("api", "pods", "endpoints", "templates", "secrets", "run", "emulate")


class Row(NamedTuple):
    page: str
    contract: str
    cells: dict[str, str]

    @property
    def tests(self) -> list[tuple[str, str]]:
        """(shorthand, function) of each test that the row names."""
        found = []
        for part in self.cells.get("Test", "").split(";"):
            shorthand = re.match(r"\s*(\w+) `", part)
            names = re.findall(r"`(\w+)`", part)
            found += [(shorthand[1] if shorthand else "", name) for name in names]
        return found


@cache
def text(page: str) -> str:
    return next((ROOT / "docs").rglob(f"{page}.md")).read_text(encoding="utf-8")


@cache
def shorthands(page: str) -> dict[str, Path]:
    return {word: ROOT / "tests" / path for word, path in SHORTHAND.findall(text(page))}


@cache
def docstrings(path: Path) -> dict[str, str]:
    """Those of the tests of a file, by function; "" where there is none."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def rows(page: str) -> Iterator[Row]:
    """The rows of the tables of `page` that begin with the contract, or with what it does not show."""
    headings: list[str] = []
    for line in text(page).splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            headings = []
        elif not headings:
            headings = cells
        elif headings[0] in ("Contract", "Not shown") and not set(line) <= set("|- "):
            yield Row(page, cells[0], dict(zip(headings, cells, strict=True)))


def lines(page: str) -> list[Row]:
    """Those that the contract has."""
    return [row for row in rows(page) if "Contract" in row.cells]


def test_the_pages_have_something_to_check() -> None:
    assert sum(len(lines(page)) for page in PAGES) > 120


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_where_it_says(page: str) -> None:
    files = shorthands(page)
    named = [(word, name) for row in rows(page) for word, name in row.tests]
    assert [word for word, _ in named if word not in files] == []
    assert [f"{word} {name}" for word, name in named if name not in docstrings(files[word])] == []


@pytest.mark.parametrize("page", sorted(path.stem for path in (ROOT / "docs").rglob("*.md")))
def test_every_test_that_any_other_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+(?:\.py)?)(?:::(test_\w+))?`", text(page)))
    files = set((ROOT / "tests").rglob("test_*.py"))
    known = {path.name for path in files} | {name for path in files for name in docstrings(path)}
    assert sorted(name for pair in named for name in pair if name and name not in known) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_line_of_the_contract_has_a_test_that_names_it(page: str) -> None:
    files = shorthands(page)

    def names_the_contract(word: str, name: str) -> bool:
        return "contract" in docstrings(files[word])[name].lower()

    assert [row.contract for row in lines(page) if not any(names_the_contract(*test) for test in row.tests)] == []


@pytest.mark.parametrize("page", PAGES)
def test_whatever_the_contract_does_not_show_is_chosen(page: str) -> None:
    open_questions = [row for row in rows(page) if "Not shown" in row.cells]
    assert open_questions
    assert [row.contract for row in open_questions if not row.cells["Choice"]] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_line_of_the_contract_has_its_command_or_says_that_there_is_none(page: str) -> None:
    for row in lines(page):
        said = row.cells["Command"]
        commands = [words for span in re.findall(r"`([^`]+)`", said) if (words := span.split())[0] in NOUNS]
        assert commands or re.match(r"none|in |`--", said), row.contract
        assert [words for words in commands if not _exists(words)] == []


def _exists(words: list[str]) -> bool:
    """Whether the command line has the command, and the flags behind it."""
    command: Any = _command_line()
    for word in words:
        if word.startswith("-"):
            if word not in {option for parameter in command.params for option in parameter.opts}:
                return False
        elif (command := getattr(command, "commands", {}).get(word)) is None:
            return False
    return True


@cache
def _command_line() -> Any:
    return typer.main.get_command(build())
