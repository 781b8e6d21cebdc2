"""Each test of the command line stands in an empty folder, with none of our variables set."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in list(os.environ):
        if variable.startswith(("ORCHESTRATOR_", "RUNPOD_")):
            monkeypatch.delenv(variable)
