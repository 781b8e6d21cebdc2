"""Where results may not be written, and what the user hears when nothing gets through."""

from pathlib import Path

import pytest

from orchestrator.app.files import LEDGER_COMPANIONS, check_outputs
from orchestrator.core.pacing import CONTRACT_LIMITS, Operation
from orchestrator.errors import UsageError
from orchestrator.services.endpoint import TOLD_AGAIN_US, Endpoint
from tests.simulation.clock import VirtualClock


@pytest.mark.parametrize("suffix", LEDGER_COMPANIONS)
def test_an_output_must_not_be_one_of_the_files_of_the_ledger(tmp_path: Path, suffix: str) -> None:
    ledger = tmp_path / "ledger.db"
    with pytest.raises(UsageError, match="belongs to the ledger"):
        check_outputs(ledger, [tmp_path / "results.jsonl", tmp_path / "x" / ".." / f"ledger.db{suffix}"])
    assert list(tmp_path.iterdir()) == []


def test_any_other_output_is_tried(tmp_path: Path) -> None:
    check_outputs(tmp_path / "ledger.db", [tmp_path / "results.jsonl", tmp_path / "errors.jsonl"])
    with pytest.raises(UsageError, match="does not exist"):
        check_outputs(tmp_path / "ledger.db", [tmp_path / "nowhere" / "results.jsonl"])


def test_that_the_service_cannot_be_reached_is_said_once_a_minute() -> None:
    said: list[str] = []
    endpoint = Endpoint(
        id=1, api=None, clock=VirtualClock(), settings_of={}, webhooks=False, status_limit=CONTRACT_LIMITS[Operation.STATUS],  # type: ignore[arg-type]  # not asked
        warn=said.append,
    )  # fmt: skip
    for now in (0, 1, TOLD_AGAIN_US - 1, TOLD_AGAIN_US):
        endpoint.unreachable(f"no connection at {now}", now, now)
    assert said == ["no connection at 0; trying again", f"no connection at {TOLD_AGAIN_US}; trying again"]
