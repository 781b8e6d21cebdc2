"""The reference names everything that the command line has."""

import re
from pathlib import Path

import pytest

from orchestrator.cli.config import EMULATE_KEYS, KEYS
from orchestrator.cli.failures import API_KEY_VARIABLES
from orchestrator.core.lifecycle import State
from orchestrator.core.outcome import Trouble
from orchestrator.core.pacing import CONTRACT_LIMITS
from orchestrator.settings import EndpointLimits, OperationLimits, RunStatus, Summary
from tests.cli.fake_app import FakeApp, invoke

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["run", "resume", "status", "results", "emulate"])
def test_every_command_and_flag_is_in_the_reference(command: str) -> None:
    assert f"### `orchestrator {command}" in REFERENCE
    flags = set(re.findall(r"--[a-z][a-z-]+", invoke(FakeApp(), command, "--help", COLUMNS="200").output))
    assert len(flags) > 2
    missing = sorted(flag for flag in flags if not re.search(rf"`(orchestrator )?{flag}\b", REFERENCE))
    assert missing == []


@pytest.mark.parametrize(
    ("noun", "page"),
    [
        ("limits", "reference.md"),
        ("api", "interface-jobs.md"),
        ("pods", "interface-pods.md"),
        ("endpoints", "interface-endpoints.md"),
        ("templates", "interface-templates-and-secrets.md"),
        ("secrets", "interface-templates-and-secrets.md"),
    ],
)
def test_every_command_and_flag_of_a_noun_is_in_the_reference_or_on_its_page(noun: str, page: str) -> None:
    assert f"### `orchestrator {noun}" in REFERENCE
    documented = REFERENCE + (DOCS / page).read_text(encoding="utf-8")
    commands = re.findall(r"^│ ([a-z]+) ", invoke(FakeApp(), noun, "--help", COLUMNS="200").output, re.MULTILINE)
    assert len(commands) > 2
    for command in commands:
        assert f"`{noun} {command}" in documented
        flags = set(re.findall(r"--[a-z][a-z-]+", invoke(FakeApp(), noun, command, "--help", COLUMNS="200").output))
        assert sorted(flag for flag in flags if not re.search(rf"{flag}\b", documented)) == []


@pytest.mark.parametrize(
    "words",
    [
        KEYS,
        EMULATE_KEYS,
        API_KEY_VARIABLES,
        State,
        Trouble,
        Summary.__struct_fields__,
        RunStatus.__struct_fields__,
        EndpointLimits.__struct_fields__,
        OperationLimits.__struct_fields__,
        CONTRACT_LIMITS,
    ],
)
def test_every_word_of_the_program_is_in_the_reference(words: tuple[str, ...]) -> None:
    assert [str(word) for word in words if f"`{word}`" not in REFERENCE] == []


def test_the_limits_of_the_reference_are_the_contracts() -> None:
    for operation, limit in CONTRACT_LIMITS.items():
        at_once = "" if limit.concurrent is None else f":{limit.concurrent}"
        assert f"| `{operation}` | `{limit.requests}/{limit.window_s:g}{at_once}` |" in REFERENCE
