"""What is read from a ledger for monitoring: every metric, within its labels, and nothing of a dead process as if it
lived."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent
from orchestrator.ledger import Ledger, dispatcher_lock, holder
from orchestrator.ledger.runs.heartbeats import Heartbeat, Heartbeats, ProcessReport
from orchestrator.ledger.samples.samples import EndpointSample, RunSample
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions.repository import Access
from orchestrator.settings.addresses.ledger_address import file_of
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.telemetry.metrics.labels import ENDPOINTS_MAX, OTHER, PIPELINES_MAX, RUNS_MAX
from orchestrator.telemetry.metrics.prometheus_collector import exposed
from orchestrator.telemetry.metrics.readings import Distribution, MetricsSnapshot, Value
from orchestrator.telemetry.metrics.registry import METRICS
from orchestrator.telemetry.metrics.snapshot_reader import metrics_text, read_snapshot
from orchestrator.units import DAY_US, HOUR_US, SECOND_US
from tests.factories import a_row
from tests.ledger.ledgers import a_run, brought_to, obeyed, opened
from tests.ledger.pipelines import a_pipeline, applied
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.telemetry.metrics.watched_ledger import a_watched_ledger, an_endpoint, sampled
from tests.telemetry.promtool import promtool

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SERIES_MAX = 1_500


class Found:
    """A snapshot, asked by names."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self.snapshot = snapshot

    def __call__(self, name: str, *labels: str) -> Value | None:
        return self.snapshot.values.get(name, {}).get(labels)

    def has(self, name: str) -> bool:
        return name in self.snapshot.values


@asynccontextmanager
async def a_ledger(tmp_path: Path, clock: VirtualClock | None = None) -> AsyncIterator[Ledger]:
    async with opened(tmp_path / "l.db", clock=clock or VirtualClock()) as ledger:
        yield ledger


@contextmanager
def at_work(ledger: Ledger) -> Iterator[None]:
    with dispatcher_lock(file_of(ledger.address), now=ledger.now()):
        yield


async def found_in(ledger: Ledger) -> Found:
    return Found(await read_snapshot(ledger))


async def test_an_empty_ledger_has_little_to_say_and_that_is_right(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        found = await found_in(ledger)
        text = (await metrics_text(ledger)).body.decode()
    assert not found.has("jobs")
    assert found("ledger_size_bytes", "database")
    assert "orchestrator_build_info{" in text


async def test_every_metric_is_told_while_somebody_works_and_promtool_takes_it(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger)
        with at_work(ledger):
            snapshot = await read_snapshot(ledger)
    assert [metric.name for metric in METRICS if metric.name not in snapshot.values] == []
    promtool("check", "metrics", stdin=exposed(snapshot).body)


async def test_what_the_process_wrote_down_is_told_as_it_stands(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger)
        with at_work(ledger):
            found = await found_in(ledger)
    at = "endpoint-1"
    assert found("jobs", at, "queued") == 2
    assert found("jobs", at, "outstanding") == 1
    assert found("runs", at, "held") == 1
    assert found("job_outcomes_total", at, "succeeded") == 8
    assert found("job_outcomes_total", at, "cancelled") == 0  # from the beginning: else nobody sees it grow
    assert found("executions_total", at, "expired") == 1
    assert found("submissions_total", at, "unanswered") == 1
    assert found("requests_total", at, "run", "429") == 1
    assert found("requests_total", at, "run", "new") is None  # a label is one of few
    assert found("limit_used_requests", at, "run") == 901
    assert found("workers", at, "idle") == 1
    assert found("workers_bound", at) == 8
    assert found("spend_total", at) == 1.5
    assert found("webhook_share_ratio", at) == 0.75
    margin = found("result_margin_seconds", at)
    assert isinstance(margin, Distribution)
    assert (margin.bounds[:4], margin.at_most[:4], margin.total) == ((0.0, 15.0, 60.0, 150.0), (0, 0, 1, 1), 40.0)
    assert found("engine_cpu_seconds_total", "0") == 12.5
    assert (found("ledger_processes", "works"), found("ledger_processes", "stands_by")) == (1, 0)
    assert found("ledger_shards_unowned") == 0
    assert found("janitor_failing", "prune") == 1
    assert found("webhooks_total", "accepted") == 4
    assert found("webhooks_total", "hints") == 2
    assert found("webhooks_total", "refused") == 1
    assert found("notifications_waiting", "ops") == 1
    assert found("notifications_total", "ops", "told") == 0
    assert found("notifications_waiting", "address") == 1  # it may hold a secret
    assert found("run_spend", "run-1-1") == 3.12
    assert found("run_budget", "run-1-1") == 25.0
    assert found("batch_api_batches", "validating") == 1
    assert found("batch_api_batch_ends_total", "expired") == 1
    assert found("batch_api_batch_ends_total", "completed") == 0
    assert found("batch_api_requests_total", "completed") == 40
    assert found("batch_api_requests_total", "failed") == 2
    assert found("batch_api_files_bytes") == 10
    assert found("flow_ends_total", "pipeline-1", "failed") == 1
    assert found("flows", "pipeline-1", "succeeded") == 1


async def test_a_run_is_done_when_its_page_says_that_it_is(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger, runs=2)
        with at_work(ledger):
            found = await found_in(ledger)
            shown = {each.run: each.verdict for each in await runs_now(ledger, holder(ledger.address))}
        now_s = ledger.now() / SECOND_US
    for run, left_s in (("run-1-1", 3 * 10), ("run-1-2", 3 / (60 / 70))):  # singles are sent of one, all of the other
        verdict = shown[run]
        assert verdict is not None
        assert verdict.eta_at is not None
        assert found("run_eta_timestamp_seconds", run) == verdict.eta_at / SECOND_US == pytest.approx(now_s + left_s)
    assert found("run_finish_by_timestamp_seconds", "run-1-1") == pytest.approx(now_s + 3600)


async def test_of_a_process_that_is_dead_only_what_it_has_counted_is_told(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger)
        found = await found_in(ledger)  # nobody holds the ledger
    present = (
        *("limit_requests", "limit_used_requests", "requests_in_flight", "webhook_share_ratio"),
        *("workers", "workers_bound"),
    )
    assert not any(map(found.has, (*present, "engine_resident_memory_bytes", "janitor_failing")))
    assert not found.has("run_eta_timestamp_seconds")
    assert found("at_work", "0") == 0
    assert found("requests_total", "endpoint-1", "run", "2xx") == 5
    assert found("safe_until_timestamp_seconds", "endpoint-1") == 2_000_000_000  # somebody should come
    assert found("runs", "endpoint-1", "running") == 1


async def test_of_a_process_that_hangs_nothing_is_told_as_if_it_were_so_now(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with a_ledger(tmp_path, clock) as ledger:
        await a_watched_ledger(ledger)
        clock.jump(120 * SECOND_US)
        with at_work(ledger):
            found = await found_in(ledger)
    assert not found.has("limit_requests")
    assert found("at_work", "0") == 0


class Beating(Heartbeats):
    """Those of a process that beats again once somebody has read how it beat last, a second later by `clock`."""

    def __init__(self, access: Access, clock: VirtualClock) -> None:
        super().__init__(access)
        self._clock = clock

    async def all(self) -> list[Heartbeat]:
        found = await super().all()
        self._clock.jump(SECOND_US)
        await self.beat(ProcessReport())
        return found


async def test_a_process_that_beats_meanwhile_is_at_work_all_the_same(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with a_ledger(tmp_path, clock) as ledger:
        await a_watched_ledger(ledger)
        database = Database(tmp_path / "l.db", connect=async_creator(tmp_path / "l.db"))
        ledger.runs.heartbeats = Beating(Access(database, ledger.writer, clock), clock)
        with at_work(ledger):
            found = await found_in(ledger)
        await database.aclose()
    assert found("at_work", "0") == 1
    assert found("engine_resident_memory_bytes", "0") == 50_000_000


async def test_results_that_cannot_expire_are_safe_until_no_time(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_run(ledger, [a_row(1, "a")], endpoint="x")
        await sampled(ledger, at=ledger.now(), endpoints={1: an_endpoint()})
        assert not (await found_in(ledger)).has("safe_until_timestamp_seconds")
        await brought_to(ledger, State.OUTSTANDING, ledger.now())
        assert (await found_in(ledger)).has("safe_until_timestamp_seconds")


async def test_jobs_that_were_sent_after_the_last_sample_of_a_dead_process_are_watched(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_run(ledger, [a_row(1, "a"), a_row(2, "b")], endpoint="x")
        await a_run(ledger, [a_row(1, "c")], endpoint="local:f", service_url=LOCAL, name="here")
        now = ledger.now()
        await sampled(ledger, at=now, endpoints={1: EndpointSample(), 2: EndpointSample()})
        await brought_to(ledger, State.OUTSTANDING, now, job=1)
        await brought_to(ledger, State.OUTSTANDING, now + 1, job=3)
        found = await found_in(ledger)
    safe_s = found("safe_until_timestamp_seconds", "x")
    assert isinstance(safe_s, float)
    assert now / SECOND_US < safe_s < now / SECOND_US + 3600
    assert found("safe_until_timestamp_seconds", "local:f") is None  # such jobs run again


async def test_what_was_counted_goes_on_whoever_asks_and_is_there(tmp_path: Path) -> None:
    """Counters are those of the ledger: another process that looks, or a run that is deleted, changes nothing."""
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger)
        before = await found_in(ledger)
        assert await ledger.flows.step(2, FlowEvent.REOPENED)
        for over in await ledger.runs.posted.batches.outlived(ledger.now() + 1):
            assert await ledger.runs.posted.batches.forget(over)
        await obeyed(ledger, "cancel", run=1)
        assert await ledger.runs.take_back(1)
    async with a_ledger(tmp_path) as ledger:
        after = await found_in(ledger)
    for metric in METRICS:
        if metric.name.endswith("_total"):
            assert after.snapshot.values.get(metric.name) == before.snapshot.values.get(metric.name), metric.name


async def test_beyond_so_many_endpoints_and_pipelines_all_are_called_other(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        for n in range(ENDPOINTS_MAX + 2):
            await a_run(ledger, [a_row(1, "a")], name=f"run-{n}", endpoint=f"endpoint-{n}")
        await sampled(ledger, at=ledger.now(), endpoints={n: an_endpoint() for n in range(1, ENDPOINTS_MAX + 3)})
        for n in range(PIPELINES_MAX + 2):
            await applied(ledger, a_pipeline(f"pipeline-{n}"), now=ledger.now())
        found = await found_in(ledger)
    assert found("jobs", OTHER, "queued") == 2
    assert found("job_outcomes_total", OTHER, "succeeded") == 16
    margin = found("result_margin_seconds", OTHER)
    assert isinstance(margin, Distribution)
    assert margin.at_most[-1] == 2
    assert len({labels[0] for labels in found.snapshot.values["jobs"]}) == ENDPOINTS_MAX + 1
    assert len({labels[0] for labels in found.snapshot.values["flows"]}) == PIPELINES_MAX + 1
    assert found("flows", OTHER, "running") == 0


@pytest.mark.slow
async def test_beyond_so_many_runs_all_are_called_other_and_ended_ones_go_first(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        for n in range(1, RUNS_MAX + 3):
            await a_run(ledger, [a_row(1, "a")], name=f"run-{n}")
        found = await found_in(ledger)
        assert found("run_jobs", OTHER, "queued") == 2
        assert found("run_jobs", "run-1", "queued") is None
        assert found("run_jobs", "run-3", "queued") == 1
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=RUNS_MAX + 2)
        found = await found_in(ledger)
    assert found("run_jobs", OTHER, "queued") == 1
    assert found("run_jobs", "run-2", "queued") == 1
    assert found("run_jobs", f"run-{RUNS_MAX + 2}", "succeeded") is None


async def test_a_run_that_has_ended_is_told_of_for_a_day(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with a_ledger(tmp_path, clock) as ledger:
        await a_run(ledger, [a_row(1, "a")], name="night")
        await brought_to(ledger, State.SUCCEEDED, ledger.now())
        clock.jump(HOUR_US)
        await sampled(ledger, at=ledger.now(), runs={1: RunSample(ends={"succeeded": 1})})
        clock.jump(DAY_US - SECOND_US)
        assert (await found_in(ledger))("run_jobs", "night", "succeeded") == 1
        clock.jump(2 * SECOND_US)
        assert (await found_in(ledger))("run_jobs", "night", "succeeded") is None
        assert (await found_in(ledger))("runs", "ep", "ended") == 1


async def test_two_endpoints_of_one_name_are_one(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_run(ledger, [a_row(1, "a")], name="one", service_url="https://one.example")
        await a_run(ledger, [a_row(1, "a")], name="two", service_url="https://two.example")
        await sampled(ledger, at=ledger.now(), endpoints={1: EndpointSample(ends={"failed": 1}), 2: an_endpoint()})
        found = await found_in(ledger)
    assert found("jobs", "ep", "queued") == 2
    assert found("job_outcomes_total", "ep", "failed") == 2


async def test_no_job_flow_or_error_becomes_a_label(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger, runs=2)
        run = await ledger.runs.named("run-1-1")
        assert run is not None
        flow = await ledger.flows.named((await ledger.flows.names())[0])
        assert flow is not None
        await ledger.flows.begin_stage(flow.id, "s", run=run.id, source="", sha256="")
        with at_work(ledger):
            found = await found_in(ledger)
    text = exposed(found.snapshot).body.decode()
    assert "run-1-2" in text
    assert "run-1-1" not in text  # the stage of a flow
    assert flow.name not in text
    assert "20 of 20 failed" not in text


async def test_three_endpoints_and_twelve_pipelines_make_few_series(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger, endpoints=3, pipelines=12, runs=17)
        with at_work(ledger):
            snapshot = await read_snapshot(ledger)
    lines = [line for line in exposed(snapshot).body.splitlines() if not line.startswith(b"#")]
    assert len(lines) == snapshot.series
    assert snapshot.series <= SERIES_MAX


async def test_who_accepts_openmetrics_gets_that(tmp_path: Path) -> None:
    async with a_ledger(tmp_path) as ledger:
        await a_watched_ledger(ledger)
        plain = await metrics_text(ledger, "text/plain")
        open_ = await metrics_text(ledger, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    assert open_.content_type.startswith("application/openmetrics-text")
    assert open_.body.endswith(b"# EOF\n")
