"""What people find a process by: its number, and its machine, by the name that somebody gave it."""

import os
import platform
from collections.abc import Iterator

import pytest

from orchestrator.ledger.holder_text import call_machine, process_name
from orchestrator.settings.command_flags import MACHINE
from orchestrator.settings.parsers.name_parsers import MACHINE_CHARS_MAX


@pytest.fixture(autouse=True)
def nobody_has_named_it() -> Iterator[None]:
    yield
    call_machine("")


def test_a_process_is_found_on_the_machine_that_it_runs_on_or_where_somebody_says() -> None:
    host = platform.node().partition(".")[0][:MACHINE_CHARS_MAX]
    assert process_name("orchestrator serve") == f"process {os.getpid()} on {host} (serve)"
    call_machine("night-1")
    assert process_name("orchestrator serve") == f"process {os.getpid()} on night-1 (serve)"
    assert process_name() == f"process {os.getpid()} on night-1"


@pytest.mark.parametrize("name", ["night", "a.b_c-1", "n" * MACHINE_CHARS_MAX])
def test_a_name_is_one_short_word(name: str) -> None:
    assert MACHINE.value_type.read((name,)) == name


@pytest.mark.parametrize("name", ["", "two words", "-x", "n" * (MACHINE_CHARS_MAX + 1), "a\nb", "a#b", "ü"])
def test_what_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a name"):
        MACHINE.value_type.read((name,))
