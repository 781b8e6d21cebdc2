"""How help looks: what most people need in one screen, all of it by `help`, no types, and an example with each command."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text

from orchestrator.cli.help.command_screens import FLAGS_MAX, split_examples
from tests.cli.command_line import call, whole

LINES_MAX = 60


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each command that has no other name, by its words."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(commands(whole()))
LARGE = [path for path, command in COMMANDS.items() if len(command.params) > FLAGS_MAX + 2]


def shown(*words: str, columns: int = 80) -> str:
    result = call(words, environment={"COLUMNS": str(columns)})
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_an_example_that_is_a_command_line_of_it(path: str) -> None:
    _, examples = split_examples(COMMANDS[path].help)
    assert examples
    for example in examples:
        program, *words = shlex.split(example.partition(" > ")[0])
        with whole().make_context("orchestrator", words, resilient_parsing=True) as context:
            assert context is not None
        verb = path.rsplit(maxsplit=1)[-1]
        assert (program, verb in words or verb in ("list", "show", "info")) == ("orchestrator", True)


@pytest.mark.parametrize("path", ["", *COMMANDS, "runs"])
def test_no_help_shows_the_type_of_anything(path: str) -> None:
    told = shown(*path.split(), "--help")
    assert told.startswith("Usage: orchestrator ")
    assert not re.search(r"<(bool|str|int|list)", told)
    assert not path or path not in COMMANDS or "\nExample" in told
    assert all(len(line) <= 80 for line in told.splitlines() if not line.startswith("  orchestrator "))


def test_a_command_with_many_flags_shows_those_that_most_people_need_on_one_screen() -> None:
    assert {"run", "plan", "resume", "emulate", "pods create"} <= {*LARGE}
    for path in LARGE:
        told = shown(*path.split(), "--help")
        assert len(told.splitlines()) <= LINES_MAX
        assert re.search(rf"\n[0-9]+ more flags, and more about these: orchestrator help {path}\n$", told)
    told = shown("run", "--help")
    assert all(panel in told for panel in ("Service", "Files", "Jobs", "When things go wrong", "What is shown"))
    assert len(re.findall(r"^  --[a-z-]+ ", told, re.MULTILINE)) >= 17
    assert "--pacing" not in told


def test_all_flags_are_shown_by_help_each_with_its_text_below() -> None:
    lines = shown("help", "run").splitlines()
    of_pacing = lines.index("  --pacing even|window")
    assert lines[of_pacing + 1].startswith("      How requests are spread within the limits.")
    for path in LARGE:
        told = shown("help", *path.split(), columns=100)
        flags = {flag for param in COMMANDS[path].params for flag in param.opts if flag.startswith("--")}
        assert [
            flag for flag in sorted(flags - {"--help"}) if not re.search(rf"^  .*{flag}\b", told, re.MULTILINE)
        ] == []


def test_a_second_name_works_and_is_not_shown() -> None:
    groups = {"": shown("--help"), "runs": shown("runs", "--help"), "jobs": shown("jobs", "--help")}
    for group, names in {
        "": ("continue", "priority"),
        "runs": ("list", "pause", "retry", "cancel"),
        "jobs": ("retry",),
    }.items():
        for name in names:
            assert not re.search(rf"^  {name} ", groups[group], re.MULTILINE)
            assert shown(*group.split(), name, "--help").startswith("Usage: ")


def texts_of(command: Any) -> Iterator[str]:
    """What is written for the help of `command`, of its parameters, and of the commands below it."""
    yield from (command.help or "", command.epilog or "")
    yield from (getattr(param, "help", None) or "" for param in command.params)
    for inner in getattr(command, "commands", {}).values():
        yield from texts_of(inner)


def test_no_help_loses_what_stands_in_brackets() -> None:
    for text in texts_of(whole()):
        assert Text.from_markup(text).plain == re.sub(r"\[(?:bold|/)\]", "", text).replace("\\[", "[")
    assert "its addresses stand in [profile.NAME] of the configuration file" in " ".join(shown("help", "run").split())


def test_the_endpoint_is_told_to_be_required() -> None:
    assert "Required, here" in " ".join(shown("help", "run").split())
