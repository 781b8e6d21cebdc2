"""Webhooks make collecting cheaper, and nothing hangs on them: results arrive before a short retention all the same."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.processes import Desk, Service

pytestmark = pytest.mark.system

JOBS = 300
RETENTION_S = 20


@pytest.fixture
def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def collect(desk: Desk, service: Service, *more: str) -> Any:
    """Runs the jobs; returns the summary."""
    desk.inputs(JOBS)
    ended = desk.call(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--json", "--listen", "127.0.0.1:0", "--result-retention", f"{RETENTION_S}s", "--limit", "run=500/1:200",
        "--limit", "status=1000/1:200", *more,
    )  # fmt: skip
    assert ended.exit_code == 0, ended
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    assert len(service.accepted()) == JOBS
    summary = ended.summary
    assert summary["margin_s"]["min"] > 0
    assert summary["lost"] == summary["expired"] == summary["uncertain"]["seen"] == 0
    return summary


@pytest.mark.slow
def test_with_the_listener_down_for_the_whole_run_everything_is_collected_by_asking(
    desk: Desk, services: Callable[..., Service], closed_port: int
) -> None:
    service = services(retention_s=RETENTION_S, hook_gap_s=3.0)

    summary = collect(desk, service, "--webhook-url", f"http://127.0.0.1:{closed_port}")

    assert summary["requests"]["status"] >= JOBS
    assert service.counted("hooks_taken") == 0
    assert service.counted("hooks_refused") >= JOBS


@pytest.mark.slow
def test_with_a_third_of_the_webhooks_lost_the_rest_is_asked_for(desk: Desk, services: Callable[..., Service]) -> None:
    service = services(retention_s=RETENTION_S, hooks_lost=0.3)

    summary = collect(desk, service)

    lost = service.counted("hooks_lost")
    assert 0.2 * JOBS < lost < 0.4 * JOBS
    assert lost <= summary["requests"]["status"] <= JOBS + lost  # a busy machine's webhooks are late, and asked for


@pytest.mark.slow
def test_with_every_webhook_sent_twice_each_result_counts_once(desk: Desk, services: Callable[..., Service]) -> None:
    service = services(retention_s=RETENTION_S, hook_copies=2)

    summary = collect(desk, service)

    assert service.counted("hooks_taken") > JOBS
    assert summary["jobs"]["succeeded"] == JOBS
    assert summary["requests"].get("status", 0) < JOBS  # hardly any, unless the machine is busy
