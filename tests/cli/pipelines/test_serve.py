"""`orchestrator serve`: what is refused before anything is worked on."""

from collections.abc import Iterator

import pytest

from orchestrator.cli.pipelines.serve import name_machine
from orchestrator.ledger.holder_text import call_machine, process_name
from tests.cli.command_line import give


@pytest.fixture(autouse=True)
def no_machine_has_a_name() -> Iterator[None]:
    yield
    call_machine("")


def test_people_see_the_name_that_was_given() -> None:
    name_machine({"name": "night-1"})
    assert process_name("orchestrator serve").endswith(" on night-1 (serve)")


def test_a_name_that_is_none_is_refused_with_its_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", "key")
    refused = give("serve", "--name", "two words")
    assert refused.exit_code == 2
    assert '--name: "two words" cannot be a name: write up to 24 letters' in " ".join(refused.stderr.split())


def test_of_a_file_schedules_cannot_be_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", "key")
    refused = give("serve", "--no-pipelines")
    assert refused.exit_code == 2
    assert "--no-pipelines is for one on a server" in " ".join(refused.stderr.split())
