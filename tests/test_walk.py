"""A walk over all that users can say: each command, option and public name is explained, and tried by some test.

What a test must show is another's business; here none may be forgotten. An option counts as tried where a test other
than those of help, reference and config file names it, as a flag or as the parameter that it is.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import orchestrator
from orchestrator.cli import build
from orchestrator.settings import command_flags, run_request, run_settings
from orchestrator.settings.setting import Setting

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
TELLING = {
    "test_walk.py",
    "test_reference.py",
    "test_config.py",
    "test_command_screens.py",
    "test_completing.py",
    "reference.py",
}
OF_ALL = {"--help", "--version", "--install-completion", "--show-completion"}


def flags_of_commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each command by its words, with the flags of each of its options. Second names of commands are hidden."""
    groups: list[tuple[tuple[str, ...], Any]] = [((), get_command(build()))]
    while groups:
        words, command = groups.pop()
        inner: dict[str, Any] = getattr(command, "commands", {})
        groups += [((*words, name), each) for name, each in inner.items() if not each.hidden]
        for parameter in command.params:
            flags = tuple(f for f in (*parameter.opts, *parameter.secondary_opts) if f.startswith("--"))
            if flags and not OF_ALL.intersection(flags):
                yield " ".join(words), flags


@cache
def pages() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))


@cache
def tried() -> frozenset[str]:
    """Every word that a test says: names, parameters, and the words of its texts."""
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        if path.name in TELLING or "planted" in path.relative_to(TESTS).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.keyword(arg=str(word)) | ast.Attribute(attr=word) | ast.Name(id=word):
                    found.add(word)
                case ast.Constant(value=str(text)):
                    found.update(re.split(r"[\s=]+", text))
                case _:
                    pass
    settings = {
        name: str(each)
        for module in (command_flags, run_request, run_settings)
        for name, each in vars(module).items()
        if isinstance(each, Setting)
    }
    return frozenset(found | {settings[word] for word in found & settings.keys()})


def test_every_command_is_explained() -> None:
    commands = {command for command, _ in flags_of_commands()}
    assert len(commands) > 60
    assert [each for each in commands if not re.search(rf"`(orchestrator )?{each}\b", pages())] == []


@pytest.mark.slow
def test_every_option_of_every_command_is_explained_and_tried() -> None:
    untold, untried = set(), set()
    for command, flags in flags_of_commands():
        if not any(re.search(rf"{flag}\b", pages()) for flag in flags):
            untold.add(f"{command} {flags[0]}")
        if not any(map(is_tried, flags)):
            untried.add(f"{command} {flags[0]}")
    assert (sorted(untold), sorted(untried)) == ([], [])


def is_tried(flag: str) -> bool:
    key = flag.removeprefix("--").removeprefix("no-")  # in a file
    name = key.replace("-", "_")
    return not tried().isdisjoint({flag, key, name, f"{name}_us", f"{name}_s"})


@pytest.mark.slow
def test_every_public_name_with_its_members_and_parameters_is_explained_and_tried() -> None:
    page = "".join((DOCS / "how-to" / name).read_text(encoding="utf-8") for name in ("python.md", "pipelines.md"))
    untold, untried = set(), set()
    for name in orchestrator.__all__:
        thing = getattr(orchestrator, name)
        words = words_of(name, thing)
        untold |= {
            f"{name}: {word}" for word in words if not re.search(rf"\b({word}|{word.replace('_', '-')})\b", page)
        }
        untried |= {f"{name}: {word}" for word in words if not is_tried("--" + word.replace("_", "-"))}
    assert (sorted(untold), sorted(untried)) == ([], [])


def words_of(name: str, thing: Any) -> set[str]:
    """What a program says of a public name: its members, and the parameters of what it calls itself."""
    members = {}
    called = [thing]
    if inspect.isclass(thing):
        members = {key: each for key, each in vars(thing).items() if not key.startswith("_")}
        called = [each for each in members.values() if inspect.isfunction(each)]
        if name in {"Job", "Orchestrator"}:  # what else there is we make
            called.append(thing)
    parameters = {key for each in called for key in inspect.signature(each).parameters}
    return {word for word in {name, *members, *parameters} if not word.startswith("_")} - {"self", "options"}
