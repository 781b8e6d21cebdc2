"""The reference names everything that the command line has."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.emulation.emulate_request import EMULATOR
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.words_and_defaults import API_KEY_VARIABLES
from orchestrator.views.limits import EndpointLimitStatus, OperationLimits
from orchestrator.views.status import RunStatus, Summary
from tests import reference
from tests.cli.command_line import give, whole

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
REFERENCE = "".join(page.read_text(encoding="utf-8") for page in reference.REFERENCE)


@pytest.mark.parametrize(
    "command", ["run", "plan", "resume", "tick", "trigger", "backfill", "apply", "status", "results", "emulate"]
)
def test_every_command_and_flag_is_in_the_reference(command: str) -> None:
    assert f"## `orchestrator {command}" in REFERENCE
    flags = set(re.findall(r"--[a-z][a-z-]+", give("help", command).output))
    assert len(flags) > 2
    missing = sorted(flag for flag in flags if not re.search(rf"`(orchestrator )?{flag}\b", REFERENCE))
    assert missing == []


@pytest.mark.parametrize(
    ("noun", "page"),
    [
        ("limits", "commands.md"),
        ("runs", "commands.md"),
        ("ledger", "commands.md"),
        ("schedules", "commands.md"),
        ("api", "interface-jobs.md"),
        ("pods", "interface-pods.md"),
        ("endpoints", "interface-endpoints.md"),
        ("templates", "interface-templates-and-secrets.md"),
        ("secrets", "interface-templates-and-secrets.md"),
    ],
)
def test_every_command_and_flag_of_a_noun_is_in_the_reference_or_on_its_page(noun: str, page: str) -> None:
    assert f"## `orchestrator {noun}" in REFERENCE
    documented = REFERENCE + (DOCS / "reference" / page).read_text(encoding="utf-8")
    commands = [name for name, command in whole().commands[noun].commands.items() if not command.hidden]
    assert len(commands) > 2
    for command in commands:
        assert f"`{noun} {command}" in documented
        flags = set(re.findall(r"--[a-z][a-z-]+", give("help", noun, command).output))
        assert sorted(flag for flag in flags if not re.search(rf"{flag}\b", documented)) == []


def test_every_flag_that_the_documentation_names_is_there() -> None:
    """In a command, it is one of that command; by itself, one of what its page tells of."""
    flags = flags_by_command()
    unknown = [
        f"{page.name}: {flag} in {code!r}"
        for page in PAGES
        for code in re.findall(r"```.*?```|`[^`]+`", page.read_text(encoding="utf-8"), re.DOTALL)
        for line in code.strip("`").splitlines()
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)
        if flag not in known_at(line, flags, of_page(page.name, flags))
    ]
    assert unknown == []


def flags_by_command() -> Mapping[str, set[str]]:
    """The flags of each command, by its words: "run", "limits set"."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        texts = [text for one in command.params for text in (*one.opts, *one.secondary_opts)]
        found[" ".join(words)] = {"--help", *(text for text in texts if text[:2] == "--")}
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))

    walk(whole(), ())
    return found


def of_page(page: str, flags: Mapping[str, set[str]]) -> set[str]:
    """The flags that may stand by themselves on a page."""
    if page in ("README.md", "guarantees.md", "how-it-works.md"):
        return flags["run"]
    if page == "contributing.md":
        sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
        return {"--help"} | {
            flag for source in sources for flag in re.findall(r'add_argument\(\s*"(--[a-z-]+)"', source)
        }
    return set().union(*flags.values())


def known_at(line: str, flags: Mapping[str, set[str]], otherwise: set[str]) -> set[str]:
    """The flags that may stand in this line of code."""
    if re.search(r"\b(python -m|python3 -m|pytest|mypy|useradd|systemctl|podman|pip install)\b", line):
        return set(re.findall(r"--[a-z-]+", line))  # other programs'
    words = re.search(r"\borchestrator ([a-z]+)(?: ([a-z]+))?", line)
    if words is None:
        return otherwise
    return flags.get(f"{words[1]} {words[2]}") or flags.get(words[1]) or set()


@pytest.mark.parametrize(
    "words",
    [
        tuple(RUNS.settings),
        tuple(EMULATOR.settings),
        API_KEY_VARIABLES,
        State,
        FailureClass,
        Summary.__struct_encode_fields__,
        RunStatus.__struct_encode_fields__,
        EndpointLimitStatus.__struct_encode_fields__,
        OperationLimits.__struct_encode_fields__,
        CONTRACT_LIMITS,
    ],
)
def test_every_word_of_the_program_is_in_the_reference(words: tuple[str, ...]) -> None:
    assert [str(word) for word in words if f"`{word}`" not in REFERENCE] == []


def test_the_tables_of_settings_are_what_is_declared() -> None:
    assert reference.written(REFERENCE) == REFERENCE, "python -m tests.reference writes them"
    assert REFERENCE.count("<!-- declared: ") == 13


def test_the_keywords_of_programs_are_what_is_declared() -> None:
    """A type checker has to see them written out."""
    keywords = reference.KEYWORDS.read_text(encoding="utf-8")
    assert reference.written(keywords) == keywords, "python -m tests.reference writes them"


def test_the_tables_of_a_pipeline_s_keys_are_what_is_declared() -> None:
    page = (DOCS / "how-to" / "pipelines.md").read_text(encoding="utf-8")
    assert reference.written(page) == page, "python -m tests.reference writes them"
    assert page.count("<!-- declared: ") == 5


def test_the_limits_of_the_reference_are_the_contracts() -> None:
    for operation, limit in CONTRACT_LIMITS.items():
        at_once = "" if limit.concurrent is None else f":{limit.concurrent}"
        assert f"| `{operation}` | `{limit.requests}/{limit.window_s:g}{at_once}` |" in REFERENCE
