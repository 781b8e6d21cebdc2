"""Where results may not be written, and what the user hears when nothing gets through."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.app.files import LEDGER_COMPANIONS, check_outputs
from orchestrator.app.summary import hold_of
from orchestrator.core.pacing import CONTRACT_LIMITS, Operation
from orchestrator.core.silence import MANY
from orchestrator.errors import UsageError
from orchestrator.ledger.control import Wishes
from orchestrator.services.endpoint import TOLD_AGAIN_US, Endpoint
from orchestrator.settings import Hold
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


def endpoint_that_says(say: Callable[[str], None]) -> Endpoint:
    return Endpoint(
        id=1, api=None, clock=VirtualClock(), settings_of={}, webhooks=False, status_limit=CONTRACT_LIMITS[Operation.STATUS],  # type: ignore[arg-type]  # not asked
        warn=say,
    )  # fmt: skip


def test_that_the_service_cannot_be_reached_is_said_once_a_minute() -> None:
    said: list[str] = []
    endpoint = endpoint_that_says(said.append)
    for now in (0, 1, TOLD_AGAIN_US - 1, TOLD_AGAIN_US):
        endpoint.unreachable(f"no connection at {now}", now, now)
    assert said == ["no connection at 0; trying again", f"no connection at {TOLD_AGAIN_US}; trying again"]


def test_why_nothing_is_sent_is_what_people_asked_for_before_what_the_endpoint_suffers() -> None:
    endpoint = endpoint_that_says(lambda _: None)
    now = endpoint.clock.now()
    assert hold_of(Wishes(), endpoint) is None
    for _ in range(MANY):
        endpoint.silence.unanswered(sent_at=now, now=now)
    assert hold_of(Wishes(), endpoint) is Hold.UNANSWERED
    endpoint.suspect(now)
    assert hold_of(Wishes(), endpoint) is Hold.SUSPECT
    endpoint.stop_submitting("no such endpoint")
    assert hold_of(Wishes(), endpoint) is Hold.STOPPED
    assert hold_of(Wishes(pause=True), endpoint) is Hold.PAUSED
    assert hold_of(Wishes(pause=True, cancel=True), endpoint) is Hold.CANCELLED
