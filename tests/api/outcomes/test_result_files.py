"""Where results may not be written, and what the user hears when nothing gets through."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from orchestrator.api.outcomes.output_places import check_outputs
from orchestrator.api.runs.settings_check import check_reach
from orchestrator.client import Service
from orchestrator.core.gates.circuit_breaker import MANY
from orchestrator.core.gates.gates import CANCELLED, PAUSED, STOPPED, UNANSWERED, suspected
from orchestrator.core.service.http_answers import Pointless
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.endpoint.health import SUSPECT_US, WARN_AGAIN_US
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.errors import UsageError
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.settings.addresses.companions import Companion
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import why_blocked
from tests.simulation.clock import VirtualClock


@pytest.mark.parametrize("suffix", [*Companion, ".intake-0123456789abcdef", ".files/out.jsonl"])
def test_an_output_must_not_be_one_of_the_files_of_the_ledger(tmp_path: Path, suffix: str) -> None:
    ledger = tmp_path / "ledger.db"
    with pytest.raises(UsageError, match="belongs to the ledger"):
        check_outputs(ledger, [tmp_path / "results.jsonl", tmp_path / "x" / ".." / f"ledger.db{suffix}"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["", *Companion])
def test_links_to_the_ledger_and_to_its_files_do_not_hide_them(tmp_path: Path, suffix: str) -> None:
    real, link, twin = tmp_path / "there" / "real.db", tmp_path / "link.db", tmp_path / "twin"
    real.parent.mkdir()
    link.symlink_to(real)
    part = real.with_name(f"real.db{suffix}")
    for output in (part, tmp_path / "there" / ".." / "there" / part.name):
        with pytest.raises(UsageError, match="belongs to the ledger"):
            check_outputs(link, [output])
    part.touch()
    twin.hardlink_to(part)
    with pytest.raises(UsageError, match="belongs to the ledger"):
        check_outputs(link, [tmp_path / "results.jsonl", twin])
    check_outputs(link, [tmp_path / f"link.db.results{suffix}"])


def test_any_other_output_is_tried(tmp_path: Path) -> None:
    check_outputs(tmp_path / "ledger.db", [tmp_path / "results.jsonl", tmp_path / "errors.jsonl"])
    with pytest.raises(UsageError, match="does not exist"):
        check_outputs(tmp_path / "ledger.db", [tmp_path / "nowhere" / "results.jsonl"])


@pytest.mark.parametrize(
    ("host", "is_here"), [("emu.localhost", True), ("127.0.0.2", True), ("127.evil.example", False)]
)
def test_a_resume_may_listen_without_a_url_for_the_service_on_this_machine_alone(host: str, is_here: bool) -> None:
    run = Run(
        id=1, name="run", endpoint_id=1, service_url=f"http://{host}:8900", endpoint="ep", source="-",
        settings=RunSettings(), created_at=0, accepted=True, rows=1,
    )  # fmt: skip
    connection = ConnectionSettings(api_key="key", listen="127.0.0.1:0")
    request = RunRequest(name="run", source=None, endpoint=None, ledger=Path("l.db"), connection=connection)
    with nullcontext() if is_here else pytest.raises(UsageError, match="listen= needs webhook_url="):
        check_reach(run, request)


def endpoint_that_says(say: Callable[[str], None]) -> Endpoint:
    clock = VirtualClock()
    return Endpoint(
        id=1, api=Service("http://service", "key", clock).endpoint("ep").api, clock=clock, settings_of={},
        retries=RetryBudgets({}), webhooks=False, warn=say,
    )  # fmt: skip


def test_that_the_service_cannot_be_reached_is_said_once_a_minute() -> None:
    said: list[str] = []
    endpoint = endpoint_that_says(said.append)
    for now in (0, 1, WARN_AGAIN_US - 1, WARN_AGAIN_US):
        endpoint.health.unreachable(f"no connection at {now}", now, now)
    assert said == ["no connection at 0; trying again", f"no connection at {WARN_AGAIN_US}; trying again"]


def test_why_nothing_is_sent_is_what_people_asked_for_before_what_the_endpoint_suffers() -> None:
    endpoint = endpoint_that_says(lambda _: None)
    now = endpoint.clock.now()
    assert why_blocked(endpoint, 1) is None
    for _ in range(MANY):
        endpoint.health.submissions.breaker.record_failure(sent_at=now, now=now, is_costly=True)
    assert why_blocked(endpoint, 1) == UNANSWERED
    endpoint.health.suspect(now)
    assert why_blocked(endpoint, 1) == suspected(now + SUSPECT_US)
    endpoint.runs.lack(2, "a variable is missing", ["SECRET"])
    assert why_blocked(endpoint, 1) == suspected(now + SUSPECT_US)
    assert why_blocked(endpoint, 2) == f"{STOPPED}: a variable is missing"
    endpoint.health.stop_submitting(Pointless("no such endpoint", 401))
    assert why_blocked(endpoint, 1) == f"{STOPPED}: no such endpoint"
    assert why_blocked(endpoint, 1, RunControls(pause=True)) == PAUSED
    assert why_blocked(endpoint, 1, RunControls(pause=True, cancel=True)) == CANCELLED
