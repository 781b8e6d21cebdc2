"""Steps that findings advise, as commands that find what they need."""

from pathlib import Path

import pytest

from orchestrator.api.inspect.run_facts import wording
from orchestrator.core.service.profiles import place
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT

SERVICES = {"night run": "http://service", "of work": place("http://service", "work")}


@pytest.mark.parametrize(
    ("suggestion", "usual", "elsewhere"),
    [
        (Suggestion(NextStep.RESUME_RUN, "night run"), "resume 'night run'", "resume 'night run' --ledger 'my l.db'"),
        (Suggestion(NextStep.RESUME_RUN, "of work"), "resume 'of work' --profile work", None),
        (Suggestion(NextStep.UNPAUSE_RUN, "of work"), "unpause 'of work'", None),
        (
            Suggestion(NextStep.CARRY_OUT_FLOWS, "of work"),
            "tick --profile work",
            "tick --profile work --ledger 'my l.db'",
        ),
        (Suggestion(NextStep.READ_WORKER_LOGS), "endpoints logs", "endpoints logs"),
    ],
)
def test_a_step_is_a_command_that_finds_ledger_and_key(
    suggestion: Suggestion, usual: str, elsewhere: str | None
) -> None:
    assert wording(LEDGER_DEFAULT, SERVICES)(suggestion) == f"orchestrator {usual}"
    if elsewhere is not None:
        assert wording(Path("my l.db"), SERVICES)(suggestion) == f"orchestrator {elsewhere}"
