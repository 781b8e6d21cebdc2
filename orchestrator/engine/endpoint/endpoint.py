"""What the parts of one process share about one endpoint: its interface, health, what was learned of it, our jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.client import ServerlessEndpoint
from orchestrator.clock import Clock
from orchestrator.core.jobs.deadlines import TTL_GRACE_US, WEBHOOK_SLACK_US, uncertain_grace_us
from orchestrator.core.jobs.job import Job
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.core.polling.stuck_jobs import StuckDetector
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.remote_ids import RemoteIds
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording, plain
from orchestrator.engine.endpoint.claimed_jobs import ClaimedJobs
from orchestrator.engine.endpoint.estimates import EndpointEstimates
from orchestrator.engine.endpoint.health import EndpointHealth
from orchestrator.engine.endpoint.output_streams import OutputStreams
from orchestrator.engine.endpoint.outstanding_jobs import OutstandingJobs
from orchestrator.engine.endpoint.probe import EndpointProbe
from orchestrator.engine.endpoint.run_homes import RunHomes
from orchestrator.engine.endpoint.run_stops import RunStops
from orchestrator.engine.endpoint.sync_places import SyncPlaces
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain


@dataclass(kw_only=True, eq=False)
class Endpoint:
    """One endpoint of the service, as this process uses it.

    `id` is its number in the ledger. `settings_of` has the settings of runs as they are here. `warn` says something
    that the user should not miss, in which `word` words what people can do. `homes` says where the jobs of pools wait.
    `owed` is woken when something is to be cancelled at the service, and `scrub` takes secrets out of what the service
    says.
    """

    id: int
    api: ServerlessEndpoint
    clock: Clock
    settings_of: Mapping[int, RunSettings]
    retries: RetryBudgets
    webhooks: bool
    warn: Callable[[str], None]
    homes: RunHomes = field(default_factory=RunHomes)
    owed: Subscribers = field(default_factory=Subscribers)
    word: Wording = plain
    is_local: bool = False
    scrub: Callable[[bytes], bytes] = bytes
    written: Learned = field(init=False, default=Learned())
    """What the ledger has of what was learned here."""

    claimed: ClaimedJobs = field(init=False, default_factory=ClaimedJobs)
    remote_ids: RemoteIds = field(init=False, default_factory=RemoteIds)
    stuck_detector: StuckDetector = field(init=False, default_factory=StuckDetector)
    changes: Subscribers = field(init=False, default_factory=Subscribers)
    """Who is woken when its health, or what is known of it, is another."""

    _disbelieved: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.health = EndpointHealth(self.api, self.clock, self.warn, self.changes)
        self.probe = EndpointProbe(self.api, self.clock, self.health, self.changes)
        self.runs = RunStops(
            self.id, self.clock, self.settings_of, self.warn, self._advice, self.changes, self.homes.output_faults
        )
        self.estimates = EndpointEstimates(
            self.api,
            self.clock,
            self.settings_of,
            webhooks=self.webhooks,
            status_limit=self.api.limiter.limit(Operation.STATUS),
            warn=self.warn,
            changes=self.changes,
        )
        self.sync_places = SyncPlaces(self.api.limiter, self.estimates, self.warn)
        self.output_streams = OutputStreams(self.api, self.settings_of, warn=self.warn, scrub=self.scrub)
        self.outstanding = OutstandingJobs(
            self.id,
            self.clock,
            self.settings_of,
            estimates=self.estimates,
            remote_ids=self.remote_ids,
            stuck_detector=self.stuck_detector,
        )

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing of ours."""
        return not self.outstanding and not self.claimed.in_flight

    def adopt(self, jobs: Sequence[Job]) -> None:
        """Takes over jobs that an earlier process has left here, which are asked for at once."""
        self.health.has_worked = self.health.has_worked or bool(jobs)
        self.outstanding.adopt(jobs)

    def _advice(self, step: NextStep, run: int) -> str:
        """What people can do about `run`, in the words of those who read it."""
        return self.word(Suggestion(step, self.homes.names.get(run, "")))

    def why_stopped(self, run: int) -> str | None:
        """Why going on submitting jobs of `run` is pointless for now, if so."""
        return self.health.stopped or self.runs.why_stopped(run)

    def disbelieve(self, why: str) -> None:
        """Something that the service said cannot be about the job that it was said of: the user hears of it, once."""
        if why not in self._disbelieved:
            self._disbelieved.add(why)
            self.warn(f"{why}: such answers are not believed, and counted as no news (is the service in order?)")

    @property
    def learned(self) -> Learned:
        """What others are to know of it when this process is gone."""
        scale, counted_on_us = self.api.time_scale, self.estimates.retention.counted_on_us
        return Learned(
            time_scale=scale,
            counted_on_us=counted_on_us,
            refused=self.health.probing.why,
            refused_status=self.health.probing.status,
        )

    def recall(self, learned: Learned) -> None:
        """Begins with what an earlier process knew; but how long results are kept is found out anew."""
        self.written = learned
        self.api.time_scale, self.health.probing.why = learned.time_scale, learned.refused
        self.health.probing.status = learned.refused_status

    def settle_at(self, job: Job, now: int) -> int:
        """When the uncertain submission of `job` is to be settled, if no webhook adopts it before."""
        if self.is_local:
            return now
        settings = self.settings_of[job.run]
        if settings.on_uncertain is OnUncertain.HOLD and job.ttl_at is not None:
            return job.ttl_at + TTL_GRACE_US  # the service has deleted it by then
        grace_us = uncertain_grace_us(
            job,
            webhooks=self.webhooks and settings.via.has_queue,
            p95_us=self.estimates.durations.whole.p95_us,
            wanted_us=settings.uncertain_after_us,
        )
        return now + grace_us

    def doubts_until(self, job: Job, finished_at: int, deadline: int) -> int:
        """When an answer is believed that `job`, first called finished at `finished_at`, has finished.

        At once, but where the service gives ids twice, or may have given this one: what `/status` tells of an id may be
        about another job. What the job's own webhook brings cannot, so that has its time first, while webhooks arrive
        and the result can wait.
        """
        is_sure = not self.remote_ids.are_repeated and not self.remote_ids.is_doubted(job.remote_id or "")
        if is_sure or not self.estimates.webhook_health.healthy or not job.is_first_execution:
            return finished_at
        return min(finished_at + min(WEBHOOK_SLACK_US, self.estimates.retention_of(job) // 4), deadline)

    def on_webhook(self, job: Job, record: Record, now: int, *, is_news: bool) -> None:
        """A webhook brought `record`, of an execution that has ended. It is news unless the job was asked for first."""
        self.health.missing_jobs.known_by_webhook(self.clock.now())
        self.estimates.on_webhook(job, record, now, is_news=is_news)
