"""The first screen that somebody sees: each command on a line, by what it is for."""

import re

from orchestrator.cli import PANELS
from orchestrator.cli.help.topics import TOPICS
from tests.cli.command_line import call, whole

LINES_MAX = 55


def test_every_command_has_one_line_in_its_panel() -> None:
    shown = call(["--help"], environment={"COLUMNS": "80"}).stdout
    lines = shown.splitlines()
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line in PANELS] == [*PANELS]
    visible = [name for name, command in whole().commands.items() if not command.hidden]
    rows = re.findall(r"^  ([a-z]+) +\S", shown.partition("\nExamples\n")[0], re.MULTILINE)
    assert sorted(rows) == sorted([*visible, "help"])
    assert shown.count("\n  orchestrator ") == 3
    assert all(topic in " ".join(shown.split()) for topic in TOPICS)


def test_it_is_shown_to_who_says_nothing_too() -> None:
    nothing, asked = (call(words, environment={}) for words in ([], ["-h"]))
    assert (nothing.exit_code, asked.exit_code) == (2, 0)
    assert nothing.stderr == asked.stdout
