"""A program that does what a test says, in the place of `orchestrator.api`."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import msgspec

from orchestrator.api.admin.brakes import RunBrakeStatus
from orchestrator.api.admin.ledger_admin import LedgerInfo
from orchestrator.api.admin.process_stop import Stopped
from orchestrator.api.admin.revalidate import RecheckedRun
from orchestrator.api.admin.run_admin import Exported
from orchestrator.api.flows.apply import Applied
from orchestrator.api.outcomes.job_queries import JobsPreview
from orchestrator.api.outcomes.result_files import WrittenFiles
from orchestrator.api.outcomes.verify import Verification
from orchestrator.api.runs.job_progress import RunProgress
from orchestrator.core.diagnosis.findings import Diagnosis
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.planning.bottlenecks import Line
from orchestrator.core.planning.plan import Batch, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of
from orchestrator.engine.hosting.worker_scaling import PutBack
from orchestrator.engine.runtime.view import View
from orchestrator.settings.output_settings import AS_NAMED, OutputSettings
from orchestrator.settings.request_settings import RunRequest
from orchestrator.settings.requests import (
    DoctorRequest,
    PlanRequest,
    ResultsRequest,
    RetryChoice,
)
from orchestrator.settings.values import Include
from orchestrator.views.jobs import Failures, FoundJobs
from orchestrator.views.limits import EndpointLimitStatus
from orchestrator.views.status import (
    LastProcess,
    MarginSummary,
    RunControl,
    RunsShown,
    RunStatus,
    Snapshot,
    Summary,
    UncertainSummary,
)
from tests.cli.command_line import Result, call

LOCAL = "local:handlers.py:caption"
"""An endpoint that needs no key."""


def jobs(**counts: int) -> dict[str, int]:
    states = ("queued", "submitting", "uncertain", "outstanding", "succeeded", "failed", "cancelled")
    return {"total": sum(counts.values()), **{state: counts.get(state, 0) for state in states}}


def summary(*, interrupted: bool = False, **counts: int) -> Summary:
    return Summary(
        run="captions",
        jobs=jobs(**(counts or {"succeeded": 3})),
        requests={"run": 3, "status": 4},
        throttled=0,
        uncertain=UncertainSummary(seen=0, adopted=0, resubmitted=0),
        lost=0,
        expired=0,
        margin_s=MarginSummary(min=None, p1=None),
        wall_s=2.0,
        interrupted=interrupted,
    )


def snapshot(
    *,
    reading: bool = False,
    rows_read: int = 0,
    jobs_per_s: float | None = None,
    eta_s: float | None = None,
    throttled: int = 0,
    uncertain_seen: int = 0,
    margin_min_s: float | None = None,
    wall_s: float = 0.0,
    run: str = "captions",
    **counts: int,
) -> Snapshot:
    return Snapshot(
        run=run,
        reading=reading,
        rows_read=rows_read,
        counts=counts,
        jobs_per_s=jobs_per_s,
        eta_s=eta_s,
        sent=0,
        window_used=994,
        window_allowed=1000,
        window_s=10.0,
        throttled=throttled,
        uncertain_seen=uncertain_seen,
        margin_min_s=margin_min_s,
        wall_s=wall_s,
    )


def run_status(name: str = "captions", **counts: int) -> RunStatus:
    return RunStatus(
        run=name,
        endpoint="abc123",
        service_url="https://api.example",
        source="captions.jsonl",
        jobs=jobs(**counts),
        uncertain=UncertainSummary(seen=0, adopted=0, resubmitted=0),
        lost=0,
        expired=0,
        margin_s=MarginSummary(min=None, p1=None),
        created_at=1_767_225_600_000_000,
    )


class FakeApp:
    """Records what it is asked for; `script` is what `run` does with its view before it answers."""

    def __init__(
        self,
        answer: Summary | BaseException | None = None,
        *,
        script: Callable[[View], None] = lambda view: None,
        runs: Sequence[RunStatus] = (),
        lines: Sequence[bytes] = (),
        endpoints: Sequence[EndpointLimitStatus] = (),
        braked: RunBrakeStatus | None = None,
        verification: Verification | None = None,
    ) -> None:
        self.answer = answer or summary()
        self.script = script
        self.runs = runs
        self.lines = lines
        self.verification = verification
        self.endpoints = endpoints
        self.braked = braked
        self.requests: list[RunRequest] = []
        self.last_process: LastProcess | None = None
        self.info: LedgerInfo | None = None
        self.snapshots: Sequence[Snapshot] = ()
        self.held_by: str | None = None
        self.outcome: str | None = None
        self.so_far: int | None = None
        self.flow_of: str | None = None
        self.written = WrittenFiles(results=1_234, failures=5)
        self.stopped = Stopped(ledger="l.db", was="process 7", ended=True, outcome="it stops")
        self.diagnosis = Diagnosis(findings=(), runs=0)
        self.put_back: list[PutBack] = []
        self.planned = plan_of(
            Batch(rows=3), "abc", Line(), Terms(ttl_us=86_400_000_000, execution_timeout_us=600_000_000), Known()
        )
        self.has_ended = False
        self.applied: list[Applied] = []
        self.progresses: Sequence[RunProgress] = ()
        self.asked: list[tuple[object, ...]] = []

    @property
    def request(self) -> RunRequest:
        (request,) = self.requests
        return request

    async def run(self, request: RunRequest, view: View, *, stop: anyio.Event) -> Summary:
        self.requests.append(request)
        self.script(view)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def plan(self, request: PlanRequest, view: View, *, stop: anyio.Event) -> Plan:
        self.asked.append((request,))
        return self.planned

    async def status(self, ledger: Path) -> list[RunStatus]:
        self.asked.append((ledger,))
        return list(self.runs)

    async def doctor(self, request: DoctorRequest) -> Diagnosis:
        self.asked.append((request,))
        return self.diagnosis

    async def latest(self, ledger: Path, most: int | None) -> RunsShown:
        self.asked.append((ledger,))
        left = [run.jobs for run in self.runs[: -(most or len(self.runs))]]
        more = {state: sum(each[state] for each in left) for state in jobs() if state != "total"}
        return RunsShown(runs=self.runs[len(left) :], more=len(left), more_jobs=more, last_process=self.last_process)

    async def show(self, ledger: Path, name: str | None) -> RunStatus:
        self.asked.append((ledger, name))
        return next(run for run in self.runs if run.run == name or name is None)

    async def jobs_list(self, ledger: Path, name: str | None, where: str, limit: int) -> FoundJobs:
        self.asked.append((ledger, name, where, limit))
        return FoundJobs(run="captions", jobs=[], count=0, is_exact=True, inputs_read=0)

    async def failures(self, ledger: Path, name: str | None, limit: int) -> Failures:
        self.asked.append((ledger, name, limit))
        return Failures(run="captions", jobs=0, kinds=0, clusters=[], retried_executions=2)

    async def results(self, request: ResultsRequest, write: Callable[[bytes], None]) -> int:
        self.asked.append((request,))
        for line in self.lines:
            write(line)
        return len(self.lines)

    async def limits(self, ledger: Path, name: str | None) -> list[EndpointLimitStatus]:
        self.asked.append((ledger, name))
        return list(self.endpoints)

    async def limits_set(
        self, ledger: Path, name: str, chosen: Mapping[Operation, Limit], *, endpoint: str | None = None
    ) -> EndpointLimitStatus:
        self.asked.append((ledger, name, chosen, *filter(None, [endpoint])))
        return self.endpoints[0]

    async def limits_reset(
        self, ledger: Path, name: str, operations: Collection[Operation], *, endpoint: str | None = None
    ) -> EndpointLimitStatus:
        self.asked.append((ledger, name, operations, *filter(None, [endpoint])))
        return self.endpoints[0]

    async def retry_preview(self, ledger: Path, name: str | None, where: str, cluster: str | None) -> JobsPreview:
        self.asked.append((ledger, name, where, cluster))
        return JobsPreview(run="captions", where=where, count=2, execution_s=None, is_paid=True, sample=())

    async def recheck(
        self, ledger: Path, name: str, changes: Mapping[str, Any], *, dry_run: bool = False
    ) -> RecheckedRun:
        self.asked.append((ledger, name, dict(changes), dry_run))
        return RecheckedRun(
            run="captions", looked_at=9, rejected=3, again=2, accepted=1, is_done=not dry_run, outcome="9 outputs"
        )

    async def retry(self, ledger: Path, name: str, *, chosen: RetryChoice | None = None) -> RunControl:
        self.asked.append((ledger, name) if chosen is None else (ledger, name, chosen))
        return RunControl(
            run=name,
            paused=False,
            cancelled=False,
            held_by=self.held_by,
            outcome=self.outcome,
            so_far=self.so_far,
            flow=self.flow_of,
        )

    async def export_run(
        self,
        ledger: Path,
        name: str | None,
        output: Path | None,
        errors: Path | None,
        *,
        include: Collection[Include] = (),
        where: str = "",
        writing: OutputSettings = AS_NAMED,
    ) -> Exported:
        written = [] if writing == AS_NAMED else [writing]
        self.asked.append((ledger, name, output, errors, *include, *filter(None, [where]), *written))
        return Exported(
            run=name or "captions", output=str(output), errors=str(errors), **msgspec.structs.asdict(self.written)
        )

    async def watch(self, ledger: Path, name: str | None, view: View, *, stop: anyio.Event) -> Snapshot:
        self.asked.append((ledger, name))
        seen = iter(self.snapshots)
        last = next(seen)

        def look() -> Snapshot:
            nonlocal last
            last = next(seen, last)
            return last

        async with anyio.create_task_group() as group:
            group.start_soon(view.follow, look)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        return last


def invoke(app: FakeApp, *arguments: str, **environment: str) -> Result:
    """`orchestrator` with these arguments and variables; the result has `exit_code`, `stdout` and `stderr`."""
    with placed(app):
        return call(arguments, environment=environment)


_HOME = {
    "doctor": "orchestrator.api.inspect.doctor",
    "export_run": "orchestrator.api.admin.run_admin",
    "failures": "orchestrator.api.outcomes.job_queries",
    "jobs_list": "orchestrator.api.outcomes.job_queries",
    "latest": "orchestrator.api.inspect.status",
    "limits": "orchestrator.api.admin.limits",
    "limits_reset": "orchestrator.api.admin.limits",
    "limits_set": "orchestrator.api.admin.limits",
    "plan": "orchestrator.api.planning.plan",
    "results": "orchestrator.api.outcomes.result_lines",
    "recheck": "orchestrator.api.admin.revalidate",
    "retry": "orchestrator.api.runs.commands",
    "retry_preview": "orchestrator.api.outcomes.job_queries",
    "run": "orchestrator.api.foreground.run",
    "show": "orchestrator.api.inspect.status",
    "status": "orchestrator.api.inspect.status",
    "watch": "orchestrator.api.foreground.watch",
}


@contextmanager
def placed(app: FakeApp) -> Iterator[None]:
    modules = {verb: import_module(home) for verb, home in _HOME.items()}
    before = {verb: getattr(module, verb) for verb, module in modules.items()}
    try:
        for verb, module in modules.items():
            setattr(module, verb, getattr(app, verb))
        yield
    finally:
        for verb, module in modules.items():
            setattr(module, verb, before[verb])
