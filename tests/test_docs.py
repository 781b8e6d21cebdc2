"""What the documentation says is what the program does."""

import re
from pathlib import Path

import pytest

from orchestrator.core.lifecycle import TRANSITIONS, Event, State
from orchestrator.core.responses import POINTLESS, Trouble

ROOT = Path(__file__).parent.parent
HOW = (ROOT / "docs" / "how-it-works.md").read_text()


def drawn_from_the_table() -> str:
    lines = ["stateDiagram-v2", "    [*] --> queued"]
    lines += [f"    {state} --> {row[event]}: {event}" for state, row in TRANSITIONS.items() for event in row]
    return "\n".join(lines)


def test_the_lifecycle_diagram_is_the_one_drawn_from_the_table() -> None:
    found = re.search(r"```mermaid\n(.*?)\n```", HOW, re.DOTALL)
    assert found is not None
    assert sorted(found[1].splitlines()) == sorted(drawn_from_the_table().splitlines())


@pytest.mark.parametrize("word", [*State, *Event, *Trouble])
def test_every_state_event_and_class_of_trouble_is_explained(word: str) -> None:
    assert re.search(rf"(\*\*|`){word}(\*\*|`)", HOW) or re.search(rf"\b{word}\b", HOW)


@pytest.mark.parametrize("status", POINTLESS)
def test_every_refusal_that_stops_a_run_is_documented(status: int) -> None:
    assert str(status) in HOW


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_public_name_can_be_imported() -> None:
    import orchestrator

    for name in orchestrator.__all__:
        assert getattr(orchestrator, name) is not None


def test_the_exit_codes_of_the_readme_are_those_of_the_errors() -> None:
    from orchestrator.errors import OrchestratorError, StoppedError, UsageError

    codes = set(re.findall(r"^\| ([0-9, ]+) \|", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert {"0", "1", "130, 143, 129"} <= codes
    for error in (OrchestratorError, StoppedError, UsageError):
        assert str(error.exit_code) in codes
