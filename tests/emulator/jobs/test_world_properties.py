"""Any sequence of verbs and times keeps the world's books in order."""

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.jobs import FINISHED, JobExecution, ServiceStatus, WorkerResult
from tests.emulator.worlds import EP, MINUTE, T0, submit, world

SOME_TROUBLE = Faults(dead_worker=0.3, stuck_worker=0.2, lost_job=0.1, empty_output=0.1, handler_error=0.1)


class WorldMachine(RuleBasedStateMachine):
    jobs: Bundle[str] = Bundle("jobs")
    executions: Bundle[JobExecution] = Bundle("executions")

    def __init__(self) -> None:
        super().__init__()
        self.now = T0
        self.world = world(SOME_TROUBLE)
        self.finished: dict[tuple[str, int], ServiceStatus] = {}

    @rule(target=jobs, ttl_ms=st.integers(10_000, 4_000_000), timeout_ms=st.integers(5_000, 700_000))
    def submit(self, ttl_ms: int, timeout_ms: int) -> str:
        return submit(self.world, self.now, ttl=ttl_ms, executionTimeout=timeout_ms)

    @rule(target=executions)
    def take(self) -> JobExecution:
        execution = self.world.executions.take(EP, "w", self.now)
        return execution or JobExecution(
            endpoint=EP, job_id="none", number=1, worker_id="w", input=b"{}", s3_config=None, silent=False
        )

    @rule(execution=consumes(executions), fails=st.booleans())
    def done(self, execution: JobExecution, fails: bool) -> None:
        self.world.executions.done(
            execution, WorkerResult(error="bad") if fails else WorkerResult(output=b"1"), self.now
        )

    @rule(job_id=jobs, verb=st.sampled_from(["cancel", "retry"]))
    def order(self, job_id: str, verb: str) -> None:
        with suppress(ServiceRefusal):
            getattr(self.world, verb)(EP, job_id, self.now)

    @rule()
    def purge(self) -> None:
        assert self.world.purge(EP).removed >= 0
        assert self.world.endpoints.queued(EP) == 0

    @rule(microseconds=st.integers(0, 40 * MINUTE))
    def let_time_pass(self, microseconds: int) -> None:
        self.now += microseconds

    @rule()
    def step(self) -> None:
        self.world.step(self.now)
        due = self.world.next_due()
        assert due is None or due > self.now

    @invariant()
    def the_books_agree(self) -> None:
        jobs = self.world.table.by_id.values()
        counts = self.world.health(EP).jobs
        assert counts.in_queue == sum(job.status is ServiceStatus.IN_QUEUE for job in jobs)
        assert counts.in_progress == sum(job.status is ServiceStatus.IN_PROGRESS for job in jobs)
        assert all((job.finished_at is not None) is (job.status in FINISHED) for job in jobs)
        assert set(self.world.table.timers._at) == {job.id for job in jobs}


TestWorld = WorldMachine.TestCase
TestWorld.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
