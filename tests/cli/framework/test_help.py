"""How help looks: no types, and an example with each command."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.main import get_command

from orchestrator.cli import build
from orchestrator.cli.framework.help import EXAMPLES
from tests.cli.fake_api import FakeApp, invoke


def paths(group: typer.Typer, path: str = "") -> Iterator[str]:
    for command in group.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").rstrip("_")
        yield f"{path}{name.replace('_', '-')}"
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from paths(inner.typer_instance, f"{path}{inner.name} ")


PROGRAM = build()
COMMAND_LINE = get_command(PROGRAM)
COMMANDS = [*paths(PROGRAM)]


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert sorted(EXAMPLES) == sorted(COMMANDS)


@pytest.mark.parametrize("path", ["", *COMMANDS, "runs"])
def test_no_help_shows_the_type_of_anything(path: str) -> None:
    said = invoke(FakeApp(), *path.split(), "--help").stdout
    assert "Usage:" in said
    assert not any(f"<{kind}>" in said for kind in ("bool", "str", "int"))
    assert not path or path not in EXAMPLES or "Example: orchestrator" in said


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_is_a_command_line_of_its_command(path: str) -> None:
    words = shlex.split(EXAMPLES[path].partition(" > ")[0])
    with COMMAND_LINE.make_context("orchestrator", list(words), resilient_parsing=True) as context:
        assert context is not None
    assert words[: len(path.split())] == path.split() or path.endswith(" list")


def texts_of(command: Any) -> Iterator[str]:
    """What is written for the help of `command`, of its parameters, and of the commands below it."""
    yield from (command.help or "", command.epilog or "")
    yield from (getattr(param, "help", None) or "" for param in command.params)
    for inner in getattr(command, "commands", {}).values():
        yield from texts_of(inner)


def test_no_help_loses_what_stands_in_brackets() -> None:
    for text in texts_of(COMMAND_LINE):
        assert Text.from_markup(text).plain == re.sub(r"\[(?:bold|/)\]", "", text).replace("\\[", "[")
    said = " ".join(invoke(FakeApp(), "run", "--help", COLUMNS="300").stdout.split())
    assert "its addresses stand in [profile.NAME] of the configuration file" in said


def test_the_endpoint_is_told_to_be_required() -> None:
    assert "Required, here" in " ".join(invoke(FakeApp(), "run", "--help").stdout.split())
