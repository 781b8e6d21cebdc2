"""What the parts of one process share about one endpoint: its interface, what was learned of it, and its health."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.client import ServerlessEndpoint
from orchestrator.clock import Clock
from orchestrator.core.gates import gates
from orchestrator.core.gates.circuit_breaker import QUESTIONS, SUBMISSIONS, CircuitBreaker, Connectivity
from orchestrator.core.gates.gates import EndpointFacts, suspected
from orchestrator.core.gates.probe_backoff import PAUSE_US_MAX, Probing
from orchestrator.core.gates.refusal_backoff import Refusals
from orchestrator.core.gates.run_health import Alarm, RunHealth
from orchestrator.core.jobs.deadlines import WEBHOOK_SLACK_US
from orchestrator.core.jobs.job import Job
from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.polling.admission import Throughput
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.core.polling.latency import Durations
from orchestrator.core.polling.missing_jobs import MissingJobs
from orchestrator.core.polling.retention import RetentionEstimate
from orchestrator.core.polling.stuck_jobs import StuckDetector
from orchestrator.core.polling.webhook_health import WebhookHealth
from orchestrator.core.service.health import is_of_service
from orchestrator.core.service.remote_ids import RemoteIds
from orchestrator.core.service.responses import (
    HINT_CHARS_MAX,
    OF_THE_ADDRESS,
    POINTLESS,
    Accepted,
    AskAgain,
    Deferred,
    NoNews,
    Pointless,
    Record,
    RunOutcome,
    StatusOutcome,
    Trouble,
    Uncertain,
    sane_ms,
    trouble_of,
)
from orchestrator.core.text.durations import format_duration, rough_duration
from orchestrator.core.text.error_text import told
from orchestrator.core.text.wording import counted, shortened
from orchestrator.engine.endpoint.output_streams import OutputStreams
from orchestrator.engine.runtime.poll_loop import Wakeup, keep_polling
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger.jobs.history import Took
from orchestrator.ledger.transactions.run_controls import Wishes
from orchestrator.settings import run_flags
from orchestrator.settings.structs import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US
from orchestrator.views.status import CollectedBy

TOLD_AGAIN_US: Final = MINUTE_US
"""How long after one warning that nothing gets through the next one may come."""

SUSPECT_US: Final = MINUTE_US
"""How long submitting pauses after an answer that makes the whole endpoint suspect."""


class Endpoint:
    """One endpoint of the service, as this process uses it."""

    def __init__(
        self,
        *,
        id: int,  # noqa: A002  the ledger's number
        api: ServerlessEndpoint,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        retries: RetryBudgets,
        webhooks: bool,
        status_limit: Limit,
        warn: Callable[[str], None],
        owed: Callable[[], None] = lambda: None,
        is_local: bool = False,
        scrub: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.id = id
        self.api = api
        self.clock = clock
        self.settings_of = settings_of
        self.retries = retries
        self.webhooks = webhooks
        self.status_limit = status_limit
        self.is_local = is_local
        self.scrub = scrub
        """Takes secrets out of what the service says."""

        self.output_streams = OutputStreams(api, settings_of, warn=warn, scrub=scrub)
        self.durations = Durations()
        self.remote_ids = RemoteIds()
        self.webhook_health = WebhookHealth(expected=webhooks)
        self.missing_jobs = MissingJobs()
        self.retention_estimate = RetentionEstimate()
        self.stuck_detector = StuckDetector()
        self.submission_breaker = CircuitBreaker(SUBMISSIONS)
        self.question_breaker = CircuitBreaker(QUESTIONS)
        self.refused_submissions = Refusals()
        self.refused_questions = Refusals()
        self.connectivity = Connectivity()
        self.throughput = Throughput()
        self.running = 0
        """How many jobs were in execution when the service was last asked how many."""

        self.stopped: str | None = None
        """Why going on submitting is pointless, of whichever run, until somebody mends something."""

        self.uncollectable: str | None = None
        """Why going on asking is pointless as well."""

        self.has_worked = False
        """Whether a job of the ledger's was ever accepted here, as far as this process knows."""

        self._is_looking = False
        self._began_at = clock.now()
        self.warn = warn
        """Says something that the user should not miss."""

        self.owed = owed
        """Is called when something is to be cancelled at the service."""

        self._suspect_until = 0
        self._told_at: int | None = None
        self._disbelieved: set[str] = set()
        self._unread: int | None = None
        """The job of the first answer that was no news, since the last one that was."""

        self._runs: dict[int, RunHealth] = {}
        self._probing = Probing()
        self._probe_wakeup = Wakeup()
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever the endpoint's health changes."""
        self._on_change.append(wake)

    def stop_submitting(self, reason: str) -> None:
        """Going on submitting is pointless until somebody mends something."""
        if self.stopped is None:
            self.stopped = reason
            self._probing.stop(self.clock.now(), reason)
            self._probe_wakeup.wake()
            self._changed()

    def lack(self, run: int, reason: str, names: Sequence[str]) -> None:
        """The variables `names`, which jobs of `run` need, are not set; others may be sent."""
        if self._run(run).lack(reason, names, self.clock.now()):
            self._changed()

    def look_again(self, run: int, is_set: Callable[[str], bool]) -> None:
        """Looks, at growing pauses, whether the variables are set that `run` lacks."""
        if self._run(run).look_again(self.clock.now(), is_set):
            self.warn("the variables that were missing are set: going on")
            self._changed()

    def why_stopped(self, run: int) -> str | None:
        """Why going on submitting jobs of `run` is pointless for now, if so."""
        return self.stopped or self._run(run).why_stopped

    def gate_results(
        self, run: int, wishes: Wishes, *, in_flight: int = 0, by_retry: bool = False
    ) -> list[gates.GateResult]:
        """What the gates say to jobs of `run`. `in_flight`: how many are claimed or on their way."""
        facts = EndpointFacts(
            stopped=self.stopped,
            probed_at=self._probing.due_at,
            suspect_until=self._suspect_until,
            submissions_refused_until=self.refused_submissions.until,
            questions_refused_until=self.refused_questions.until,
            unanswered_until=self.submission_breaker.until,
            in_flight=in_flight,
            by_retry=by_retry,
        )
        run_facts = self._run(run).facts(cancelled=wishes.cancel, paused=wishes.pause)
        return gates.of_run(run_facts, facts, self.clock.now())

    async def probe(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """While the endpoint is stopped, asks `/health` at growing pauses; a good answer lets everything go on."""
        task_status.started()
        await keep_polling(self._probe, self._probe_wakeup, at_least_every_s=PAUSE_US_MAX / SECOND_US)

    async def _probe(self) -> float:
        due_at, now = self._probing.due_at, self.clock.now()
        if due_at is None or now < due_at:
            return (PAUSE_US_MAX if due_at is None else due_at - now) / SECOND_US
        if await self.api.ask_health() is None:
            self._probing.wait(self.clock.now())
        else:
            self.go_on()
        return 0.0

    def go_on(self) -> None:
        """It seems to be mended, as `/health` tells, or a question that was answered: single requests find out, and the
        first that is not refused lets all go.
        """
        self.warn("the endpoint says that it is well again: going on")
        self.stopped = self.uncollectable = None
        self._probing.go_on()
        now = self.clock.now()
        self.refused_submissions.try_again(now)
        self.refused_questions.try_again(now)
        self._changed()

    def stop_collecting(self, reason: str) -> None:
        """Even `/status` is refused."""
        self.stop_submitting(reason)
        if self.uncollectable is None:
            self.uncollectable = reason
            self._changed()

    def unreachable(self, reason: str, sent_at: int, now: int) -> None:
        """A request found no way to the service: it is repeated without end, so the user must hear of it."""
        self.connectivity.record_failure(sent_at=sent_at, now=now)
        if self._told_at is None or now >= self._told_at + TOLD_AGAIN_US:
            self._told_at = now
            self.warn(f"{reason}; trying again")

    def submission(self, outcome: RunOutcome, sent_at: int, now: int, *, by_retry: bool = False) -> None:
        """What came of a `/run` or `/retry`: while none is answered, only one leaves at a time.

        That a `/retry` is answered is no reason to go on with a `/run` that may be paid twice.
        """
        if isinstance(outcome, Accepted):
            self.has_worked = True
            self._probing.works()
            self.missing_jobs.accepted(now)
        if isinstance(outcome, Pointless):
            self._refused(self.refused_submissions, outcome.reason, sent_at, now)
            if self.refused_submissions.are_lasting:
                self.stop_submitting(self._placed(outcome.reason))
        elif self.refused_submissions.over(sent_at=sent_at):
            self._changed()
        if isinstance(outcome, Uncertain | Deferred) and trouble_of(outcome) is not Trouble.THROTTLED:
            is_costly = isinstance(outcome, Uncertain) and not by_retry
            trips = self.submission_breaker.record_failure(sent_at=sent_at, now=now, is_costly=is_costly)
            if trips and trouble_of(outcome) is not Trouble.TRANSPORT:
                self.warn(f"{outcome.reason}: no submission is answered; sending one at a time until one is")
        elif (not by_retry or not self.submission_breaker.is_costly) and self.submission_breaker.record_success(now):
            self._changed()

    def question(self, job: int, outcome: StatusOutcome, sent_at: int, now: int) -> None:
        """What came of a `/status`: while none is answered, single ones go, and the first answer lets all go again.

        An answer that is no news is none, unless it is always about the same job: then that one is to blame.
        """
        if isinstance(outcome, Pointless):
            self._refused(self.refused_questions, outcome.reason, sent_at, now)
            if self.refused_questions.are_lasting:
                self.stop_collecting(self._placed(outcome.reason))
        elif self.refused_questions.over(sent_at=sent_at):
            self._changed()
        if isinstance(outcome, NoNews):
            if outcome.is_torn:
                return
            if self._unread in (None, job):
                self._unread = job
                return
        elif not isinstance(outcome, AskAgain) or trouble_of(outcome) is Trouble.THROTTLED:
            self._unread = None
            if self.question_breaker.record_success(now):
                self._changed()
            return
        trips = self.question_breaker.record_failure(sent_at=sent_at, now=now)
        if trips and trouble_of(outcome) is not Trouble.TRANSPORT:
            self.warn(f"{outcome.reason}: no question is answered; asking every few seconds until one is")

    def _refused(self, refusals: Refusals, reason: str, sent_at: int, now: int) -> None:
        was_refused = self.refused_submissions.are_on or self.refused_questions.are_on
        if refusals.refused(sent_at=sent_at, now=now) and not was_refused:  # mostly both are, and once said is enough
            self.warn(f"{self._placed(reason)}: nothing is sent for now; the run stops if that lasts for a minute")

    def _placed(self, reason: str) -> str:
        """`reason` with the address, id and all, where that may be wrong."""
        return f"{reason}: {self.api.url}" if reason in OF_THE_ADDRESS else reason

    async def stop_if_shut(self, reason: str) -> None:
        """Where nothing was ever accepted, and the endpoint refuses to say even how it is, the key is wrong, or the
        address: nobody need wait a minute for that.
        """
        if self.has_worked or self.stopped is not None or self._is_looking:
            return
        self._is_looking = True
        try:
            answer = await self.api.health_answer()  # without one the minute tells
        finally:
            self._is_looking = False
        if answer is not None and answer.status in POINTLESS and not self.has_worked:
            self.stop_submitting(self._placed(reason))

    def disbelieve(self, why: str) -> None:
        """Something that the service said cannot be about the job that it was said of: the user hears of it, once."""
        if why not in self._disbelieved:
            self._disbelieved.add(why)
            self.warn(f"{why}: such answers are not believed, and counted as no news (is the service in order?)")

    @property
    def is_silent(self) -> bool:
        """Whether nothing should be sent before a question that costs nothing was answered."""
        return self.submission_breaker.is_tripped or self.question_breaker.is_tripped

    async def is_answering(self) -> bool:
        """Whether the service answers a question that costs nothing; else the breaker stays tripped."""
        permit = await self.api.health_permit()
        sent_at = self.clock.now()
        if permit is None:  # it is not to be asked for a while: then single submissions find out
            return not self.question_breaker.is_tripped
        if self.submission_breaker.wait_us(sent_at):  # somebody else has found out meanwhile
            permit.give_back()
            return False
        try:
            answer = await self.api.health(permit)
        except (NotSent, Unanswered):
            answer = None
            self.connectivity.record_failure(sent_at=sent_at, now=self.clock.now())
        else:
            self.connectivity.record_success(self.clock.now())
        if answer is not None and is_of_service(answer.status, answer.body):
            return True
        self.submission_breaker.record_failure(sent_at=sent_at, now=self.clock.now())
        return False

    def suspect(self, now: int) -> None:
        """So many 404s that the endpoint must be to blame: nothing is declared lost, nothing new is submitted."""
        if not self.is_suspect(now):
            self.warn(
                f"{suspected(now + SUSPECT_US)}, or longer while it goes on so (404); none is declared lost. Nothing"
                " needs to be done if the service is at fault; if its queue was purged or the endpoint made anew, their"
                " jobs count as expired, and are sent again, once their results could no longer be there"
            )
        self._suspect_until = now + SUSPECT_US

    def is_suspect(self, now: int) -> bool:
        """Whether the endpoint is out of its mind for the moment."""
        return now < self._suspect_until

    def retention_us(self, run: int) -> int:
        """For how long results of `run` may be counted on: as agreed, or less where the service has been found out."""
        return self.retention_estimate.retention_us(self.agreed_us(run))

    @property
    def learned(self) -> Learned:
        """What others are to know of it when this process is gone."""
        scale, counted_on_us = self.api.time_scale, self.retention_estimate.counted_on_us
        return Learned(time_scale=scale, counted_on_us=counted_on_us, refused=self._probing.why)

    def recall(self, learned: Learned) -> None:
        """Begins with what an earlier process knew; but how long results are kept is found out anew."""
        self.api.time_scale, self._probing.why = learned.time_scale, learned.refused

    def here_us(self, there_us: int) -> int:
        """How long a time of the service's lasts here: less, where it is an emulator that runs fast."""
        return there_us if self.api.time_scale == 1.0 else round(there_us / self.api.time_scale)

    def agreed_us(self, run: int) -> int:
        """For how long the service is to keep results of `run`: by this it is judged what a 404 means."""
        return self.here_us(self.settings_of[run].retention_us)

    def gone(self, run: int, after_us: int) -> None:
        """The service has forgotten a job of `run` before its time, asked for so long after its probable finish."""
        agreed_us = self.agreed_us(run)
        gone_us = self.retention_estimate.gone(after_us, agreed_us)
        if gone_us is not None:
            gone, agreed, believed = rough_duration(gone_us), format_duration(agreed_us), self.retention_us(run)
            self.warn(
                f"results are gone from the service {gone} after their jobs have finished, though it should keep them "
                f"for {agreed}: they are asked for sooner from now on, as if they were kept for "
                f"{rough_duration(believed)}. Jobs whose results are gone count as lost, and are sent again"
            )
            self._changed()

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
            (rate for way in (self.api.up, self.api.down) if (rate := way.bytes_per_s()) is not None), default=None
        )

    @property
    def status_per_s(self) -> float:
        """How many questions a second there may be; where the line is full, how many large answers it brings."""
        allowed = self.status_limit.requests / self.status_limit.window_s
        brought = self.api.down.bodies_per_s()
        return allowed if brought is None else min(allowed, brought)

    def finished(self, job: Job, record: Record, now: int) -> None:
        """`record` was asked for, and is of an execution of `job` that has ended."""
        self._learn(job, record, now)
        self.throughput.observe(now)
        self._observe(job, finished=True, arrived=False)
        if (took_us := self._took_us(job, record)) is not None:
            finished_at = max(job.unfinished_at or 0, (job.sent_at or 0) + took_us)
            self.retention_estimate.there(now - finished_at, self.agreed_us(job.run))

    def doubts_until(self, job: Job, finished_at: int, deadline: int) -> int:
        """When an answer is believed that `job`, first called finished at `finished_at`, has finished.

        At once, but where the service gives ids twice, or may have given this one: what `/status` tells of an id may be
        about another job. What the job's own webhook brings cannot, so that has its time first, while webhooks arrive
        and the result can wait.
        """
        is_sure = not self.remote_ids.are_repeated and not self.remote_ids.is_doubted(job.remote_id or "")
        if is_sure or not self.webhook_health.healthy or not job.is_first_execution:
            return finished_at
        return min(finished_at + min(WEBHOOK_SLACK_US, self.retention_us(job.run) // 4), deadline)

    def on_webhook(self, job: Job, record: Record, now: int, *, is_news: bool) -> None:
        """A webhook brought `record`, of an execution that has ended. It is news unless the job was asked for first."""
        self.missing_jobs.known_by_webhook(self.clock.now())
        if is_news:
            self._learn(job, record, now)
            self.throughput.observe(now)
        self._observe(job, finished=is_news, arrived=True)

    def _took_us(self, job: Job, record: Record) -> int | None:
        """How long `job` took from its submission on: as the service says, else as every second of its like."""
        if record.delay_ms is None or record.execution_ms is None or not job.is_first_execution:
            return self.durations.whole.p50_us
        return self.here_us((record.delay_ms + record.execution_ms) * 1_000)

    def remember(self, executions: Iterable[Took]) -> None:
        """Learns from what the ledger still tells of earlier processes."""
        for took in executions:
            self._took(sane_ms(took.delay_ms), sane_ms(took.execution_ms), took.whole_ms)

    def _learn(self, job: Job, record: Record, now: int) -> None:
        """How long it took: as the service says, else as far as we can tell. Of a cancelled one nothing is learned."""
        if record.status == "CANCELLED":
            return
        whole_ms = None if job.sent_at is None else max(now - job.sent_at, 0) // 1_000
        self._took(self._here_ms(record.delay_ms), self._here_ms(record.execution_ms), whole_ms)

    def _here_ms(self, there_ms: int | None) -> int | None:
        return None if there_ms is None else self.here_us(there_ms * 1_000) // 1_000

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
                self.warn(f"{share}: results are left to them again")
            else:
                self.warn(f"only {share}: results are asked for instead (is the webhook URL reachable from outside?)")
            self._changed()

    def succeeded(self, run: int) -> None:
        """An execution of `run` has brought a result."""
        self._run(run).streak.observe(failed=False, stop_after=None)

    def failed(self, run: int, message: str) -> None:
        """An execution of `run` has failed: the user must hear of it where that is the rule, before it costs more."""
        streak, stop_after = self._run(run).streak, self.settings_of[run].stop_after_failures
        sample = shortened(told(message), HINT_CHARS_MAX)
        match streak.observe(failed=True, stop_after=stop_after):
            case Alarm.EARLY if self.settings_of[run].breaker.first and streak.failed == streak.ended:
                pass  # the breaker says so
            case Alarm.EARLY:
                self.warn(
                    f"{streak.failed} of the first {streak.ended} executions failed, the last one with: {sample}\n"
                    f"Each may have been paid for. Ctrl-C stops, and {run_flags.STOP_AFTER_FAILURES} N would by itself"
                )
            case Alarm.ENOUGH:
                reason = f"{counted(streak.in_row, 'execution')} in a row failed, the last one with: {sample}"
                self.stop_run(run, reason)
            case None:
                pass

    def stop_run(self, run: int, reason: str) -> None:
        """Going on submitting jobs of `run` is pointless until somebody mends something."""
        if self._run(run).stop(reason):
            self._changed()

    def _run(self, run: int) -> RunHealth:
        if (found := self._runs.get(run)) is None:
            found = self._runs[run] = RunHealth()
        return found

    def _changed(self) -> None:
        for wake in self._on_change:
            wake()
