"""What this process has learned of one endpoint: how long jobs take there, how long results stay, how many arrive."""

from collections.abc import Callable, Iterable, Mapping

from orchestrator.client import ServerlessEndpoint
from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job
from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.polling.admission import Throughput
from orchestrator.core.polling.latency import Durations
from orchestrator.core.polling.result_retention import RetentionEstimate
from orchestrator.core.polling.webhook_health import WebhookHealth
from orchestrator.core.pools.member_pace import MemberPace
from orchestrator.core.service.job_record import Record, sane_ms
from orchestrator.core.text.durations import format_duration, rough_duration
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.ledger.jobs.history import ExecutionTimes
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MILLISECOND_US
from orchestrator.views.status import CollectedBy


class EndpointEstimates:
    """Of one endpoint. Durations are microseconds of our time; `status_limit` is what `/status` has for a start."""

    def __init__(
        self,
        api: ServerlessEndpoint,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        *,
        webhooks: bool,
        status_limit: Limit,
        warn: Callable[[str], None],
        changes: Subscribers,
    ) -> None:
        self._api = api
        self._settings_of = settings_of
        self._warn = warn
        self._changes = changes
        self._began_at = clock.now()
        self.status_limit = status_limit
        self.durations = Durations()
        self.retention = RetentionEstimate()
        self.throughput = Throughput()
        self.webhook_health = WebhookHealth(expected=webhooks)
        self.pace: MemberPace | None = None
        """How fast it is, where that is to be known exactly: it is one of a pool."""

        self.running = 0
        """How many jobs were in execution when the service was last asked how many."""

    def here_us(self, there_us: int) -> int:
        """How long a time of the service's lasts here: less, where it is an emulator that runs fast."""
        return there_us if self._api.time_scale == 1.0 else round(there_us / self._api.time_scale)

    def agreed_us(self, run: int) -> int:
        """For how long the service is to keep results of `run`: by this it is judged what a 404 means."""
        return self.here_us(self._settings_of[run].retention_us)

    def retention_us(self, run: int) -> int:
        """For how long results of `run` may be counted on: as agreed, or less where the service has been found out."""
        return self.retention.retention_us(self.agreed_us(run))

    def agreed_of(self, job: Job) -> int:
        """For how long the service is to keep the result of `job`: as it left, that may be less than for its run."""
        agreed_us = self.agreed_us(job.run)
        return agreed_us if job.retention_us is None else min(agreed_us, self.here_us(job.retention_us))

    def retention_of(self, job: Job) -> int:
        """For how long the result of `job` may be counted on."""
        return self.retention.retention_us(self.agreed_of(job))

    def result_was_gone(self, job: Job, after_us: int) -> None:
        """The service has forgotten `job` before its time, asked for so long after its probable finish."""
        if job.retention_us is not None:
            return  # how long the others are kept does not follow
        run, agreed_us = job.run, self.agreed_us(job.run)
        gone_us = self.retention.gone(after_us, agreed_us)
        if gone_us is not None:
            gone, agreed, believed = rough_duration(gone_us), format_duration(agreed_us), self.retention_us(run)
            self._warn(
                f"results are gone from the service {gone} after their jobs have finished, though it should keep them "
                f"for {agreed}: they are asked for sooner from now on, as if they were kept for "
                f"{rough_duration(believed)}. Jobs whose results are gone count as lost, and are sent again"
            )
            self._changes.wake()

    @property
    def collected_by(self) -> CollectedBy:
        """How it is found out that jobs have finished."""
        if not self.webhook_health.expected:
            return CollectedBy.POLLING
        return CollectedBy.WEBHOOKS if self.webhook_health.healthy else CollectedBy.POLLING_INSTEAD

    @property
    def line_bytes_per_s(self) -> float | None:
        """What the line brings where it is full, up or down, whichever is more."""
        return max(
            (rate for way in (self._api.up, self._api.down) if (rate := way.bytes_per_s()) is not None), default=None
        )

    @property
    def status_per_s(self) -> float:
        """How many questions a second there may be; where the line is full, how many large answers it brings."""
        allowed = self.status_limit.requests / self.status_limit.window_s
        brought = self._api.down.bodies_per_s()
        return allowed if brought is None else min(allowed, brought)

    def finished(self, job: Job, record: Record, now: int) -> None:
        """`record` was asked for, and is of an execution of `job` that has ended."""
        self._learn(job, record, now)
        self.throughput.observe(now)
        self._observe(job, finished=True, arrived=False)
        if (took_us := self._took_us(job, record)) is not None:
            finished_at = max(job.unfinished_at or 0, (job.sent_at or 0) + took_us)
            self.retention.there(now - finished_at, self.agreed_of(job))

    def on_webhook(self, job: Job, record: Record, now: int, *, is_news: bool) -> None:
        """A webhook brought `record`, of an execution that has ended. It is news unless the job was asked for first."""
        if is_news:
            self._learn(job, record, now)
            self.throughput.observe(now)
        self._observe(job, finished=is_news, arrived=True)

    def answered(self, record: Record | None, took_us: int, now: int) -> None:
        """A request past the queue was answered after so long, with the `record` of an execution; None: with nothing
        that can be read.

        What waits for others at the server, nobody tells: whoever is answered is taken to have waited. So a member of a
        pool is as fast as answers come from it, and has as many at once as its limits allow before long.
        """
        self.throughput.observe(now)
        if self.pace is not None:
            is_failed = record is None or record.status != "COMPLETED"
            self.pace.observe(now, waited_us=took_us, execution_us=took_us, is_failed=is_failed)
        if record is not None:
            whole_ms = took_us // MILLISECOND_US
            self.remember([ExecutionTimes(delay_ms=None, execution_ms=record.execution_ms, whole_ms=whole_ms)])

    def _took_us(self, job: Job, record: Record) -> int | None:
        """How long `job` took from its submission on: as the service says, else as every second of its like."""
        if record.delay_ms is None or record.execution_ms is None or not job.is_first_execution:
            return self.durations.whole.p50_us
        return self.here_us((record.delay_ms + record.execution_ms) * 1_000)

    def remember(self, executions: Iterable[ExecutionTimes]) -> None:
        """Learns from what the service has said of executions, as from what the ledger tells of earlier processes."""
        for took in executions:
            self._took(self._here_ms(sane_ms(took.delay_ms)), self._here_ms(sane_ms(took.execution_ms)), took.whole_ms)

    def _learn(self, job: Job, record: Record, now: int) -> None:
        """How long it took: as the service says, else as far as we can tell. Of a cancelled one nothing is learned."""
        if record.status == "CANCELLED":
            return
        if self.pace is not None:
            waited_us, execution_us = self._here(record.delay_ms), self._here(record.execution_ms)
            told_at = (job.sent_at or now) + (waited_us or 0) + (execution_us or 0)
            ended_at = min(told_at, now) if job.is_first_execution and waited_us is not None else now
            is_failed = record.status != "COMPLETED"
            self.pace.observe(ended_at, waited_us=waited_us, execution_us=execution_us, is_failed=is_failed)
        whole_ms = None if job.sent_at is None else max(now - job.sent_at, 0) // 1_000
        self._took(self._here_ms(record.delay_ms), self._here_ms(record.execution_ms), whole_ms)

    def _here(self, there_ms: int | None) -> int | None:
        return None if there_ms is None else self.here_us(there_ms * 1_000)

    def _here_ms(self, there_ms: int | None) -> int | None:
        here_us = self._here(there_ms)
        return None if here_us is None else here_us // 1_000

    def _took(self, delay_ms: int | None, execution_ms: int | None, whole_ms: int | None) -> None:
        self.durations.observe(delay_ms, execution_ms)
        if delay_ms is None and execution_ms is None and whole_ms is not None:
            self.durations.whole.observe(whole_ms)

    def _observe(self, job: Job, *, finished: bool, arrived: bool) -> None:
        # A submission's number is the time of its claim. What an earlier process sent may have no webhook, or one that
        # leads to where nobody listens any more: it tells nothing of ours.
        is_ours = (job.submission or 0) >= self._began_at
        if is_ours and self.webhook_health.observe(finished=finished, arrived=arrived):
            share = f"{self.webhook_health.share or 0.0:.0%} of the webhooks arrive"
            if self.webhook_health.healthy:
                self._warn(f"{share}: results are left to them again")
            else:
                self._warn(f"only {share}: results are asked for instead (is the webhook URL reachable from outside?)")
            self._changes.wake()
