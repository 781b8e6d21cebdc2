"""Engine and dashboard are killed beside each other: what is counted, traced and told goes on where it was."""

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.system.browsing import Visitor, dashboard_of, looking_at
from tests.system.processes import FAST, Desk, Service, lines_of, looks
from tests.system.receiver import Receiver, receiving
from tests.telemetry.traces.receiver import numbers_by_job, spans_of

pytestmark = [pytest.mark.system, pytest.mark.slow]

JOBS: Final = 40
ENDED_FIRST: Final = 20
CONFIGURATION: Final = '[dashboard]\ntrace = 1.0\n\n[notify.ops]\nkind = "webhook"\nurl = "env:OPS_URL"\n'


def told_of(receiver: Receiver) -> Mapping[int, set[str]]:
    """The numbers of the spans of each job."""
    return numbers_by_job(spans_of(ExportTraceServiceRequest.FromString(came.body) for came in receiver.at("/otlp")))


def until_told_of(receiver: Receiver, jobs: int) -> None:
    """Returns once the receiver knows of so many jobs."""
    while len(told_of(receiver)) < jobs:
        receiver.until("/otlp", len(receiver.at("/otlp")) + 1)


def until_nobody_works(visitor: Visitor) -> None:
    """Returns once the dashboard shows that."""
    assert any(visitor.json("/engine")["held_by"] is None for _ in looks())


def test_nothing_is_lost_told_twice_or_counted_less_when_both_are_killed(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    rows = [{"custom_id": f"row-{n}", "input": {"n": n, "eager": n < ENDED_FIRST}} for n in range(JOBS)]
    desk.write("night.jsonl", lines_of(rows))
    desk.write("orchestrator.toml", CONFIGURATION)
    with receiving() as receiver:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{receiver.url}/otlp", "OPS_URL": f"{receiver.url}/ops"}
        held = receiver.holds["/ops"] = threading.Event()
        dashboard = dashboard_of(desk, **environ)
        with looking_at(dashboard) as visitor:
            engine = desk.start(
                "run", "night.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--notify",
                "ops:started,interrupted,recovered,done", *FAST, environ=environ,
            )  # fmt: skip
            [first] = receiver.until("/ops")  # it has it, and has not answered
            desk.until_state("succeeded", ENDED_FIRST)
            until_told_of(receiver, ENDED_FIRST)
            before = visitor.counters()
            engine.kill()
            until_nobody_works(visitor)
            after = visitor.counters()
            dashboard.kill()
        held.set()
        receiver.holds.clear()
        service.change(hold=False)
        again = dashboard_of(desk, **environ)
        with looking_at(again) as visitor:
            ended = desk.call("resume", "night", "--output", "out.jsonl", *FAST, environ=environ)
            assert ended.exit_code == 0, ended
            until_told_of(receiver, JOBS)
            later = visitor.counters()
        again.signal(signal.SIGINT)
        assert again.ended().exit_code == 0
    assert before
    assert [name for name in before if after.get(name, 0) < before[name]] == []
    assert [name for name in after if later.get(name, 0) < after[name]] == []
    assert all(len(numbers) == 1 for numbers in told_of(receiver).values())
    ids: dict[str, set[bytes]] = {}
    for came in receiver.at("/ops"):
        ids.setdefault(came.headers["webhook-id"], set()).add(came.body)
    assert all(len(bodies) == 1 for bodies in ids.values()), "what has one id says one thing"
    assert len([came for came in receiver.at("/ops") if came.headers["webhook-id"] == first.headers["webhook-id"]]) > 1
    news = [next(iter(bodies)) for bodies in ids.values()]
    assert len({body.partition(b'"timestamp"')[0] for body in news}) == len(news), "and nothing has two"


def test_a_run_goes_on_whose_dashboard_is_killed(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(JOBS)
    run = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--dashboard", "127.0.0.1:0",
        "--output", "results.jsonl", *FAST,
    )  # fmt: skip
    run.until_said("the dashboard is at")
    service.wait("accepted", JOBS)
    for child in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    service.change(hold=False)
    ended = run.ended()
    assert ended.exit_code == 0, ended
    assert len(desk.rows()) == JOBS
