"""Each test of the command line stands in an empty folder, with none of our variables set, and speaks of no ledger."""

import os
from pathlib import Path

import pytest

from orchestrator.cli.output import streams


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in list(os.environ):
        if variable.startswith(("ORCHESTRATOR_", "RUNPOD_")):
            monkeypatch.delenv(variable)
    streams.speak_of(None)  # as a process does that begins
