"""What can be set of a run. It is stored with the run in the ledger; a later process may change it."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from orchestrator.core.gates.brake_gates import Canary, MaxFailures
from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.failure_breaker import BreakerRules
from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.jobs.escalation import EscalationRule
from orchestrator.core.jobs.escalation_text import format_rule, parse_rule
from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.core.jobs.retry import AttemptLimits
from orchestrator.core.jobs.segments import SegmentLimits
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.core.polling.admission import QueueDepth
from orchestrator.core.pools.member import (
    SPILL_AFTER_US_DEFAULT,
    Prefer,
    budget_per_day_at,
    cheapest_first,
    dearest,
    discount,
    price_at,
)
from orchestrator.core.text.durations import TTL_MS_DEFAULT, Policy, format_duration, parse_duration
from orchestrator.settings.outputs.save_settings import SaveSettings
from orchestrator.settings.parsers import brake_parsers, job_parsers, name_parsers, service_parsers
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.value_types import SWITCH, Kind, ValueType, listed, one_of, parsed, whole
from orchestrator.settings.words_and_defaults import (
    EVENTS_KEPT_US_DEFAULT,
    PROGRESS_EVERY_US_DEFAULT,
    OnExpired,
    OnStuck,
    OnUncertain,
    Pinned,
)

ATTEMPTS_MAX: Final = 1_000
PODS_MAX: Final = 100

_job: Final = partial(Setting, panel=Panel.JOBS)
_input: Final = partial(Setting, panel=Panel.INPUT)
_long_job: Final = partial(Setting, panel=Panel.LONG_JOBS)
_trouble: Final = partial(Setting, panel=Panel.TROUBLE)
_brake: Final = partial(Setting, panel=Panel.BRAKES)


class RunSettings(SaveSettings, frozen=True, kw_only=True):
    """The settings of one run. Durations are in microseconds."""

    max_attempts: Annotated[
        int,
        _job(
            "max-attempts",
            whole(1, ATTEMPTS_MAX),
            "How often a job may be executed before it counts as failed, 1 to 1000.",
            brief="How often a job may be executed; 3",
        ),
    ] = 3
    policy: Policy = Policy()
    priority: Annotated[
        int,
        _job(
            "priority",
            whole(PRIORITY_MIN, PRIORITY_MAX, f"{PRIORITY_MIN}...{PRIORITY_MAX}"),
            "The run's weight [beside other runs](how-it-works.md#runs-that-share-an-endpoint) at the same endpoint:"
            " the higher, the more turns it gets.",
        ),
    ] = 0
    queue_depth: Annotated[
        QueueDepth,
        _job(
            "queue-depth",
            parsed("N|auto|off", job_parsers.parse_queue_depth, kind=Kind.WHOLE_OR_TEXT),
            "How many of the run's jobs may wait in the endpoint's queue. `auto`: as many as it finishes in ten"
            " minutes, at least 1,000. `off`: any number that [can be collected in"
            " time](how-it-works.md#how-much-is-sent).",
        ),
    ] = "auto"
    prefer: Annotated[
        Prefer,
        _job(
            "prefer",
            one_of(Prefer),
            "Which member of a [pool](pools.md) a job goes to. `fast`: where it is expected to end soonest. `cheap`: to"
            " the cheapest that has room.",
            has_flag=False,
        ),
    ] = Prefer.FAST
    spill_after_us: Annotated[
        int,
        _job(
            "spill-after",
            job_parsers.duration(),
            'With `prefer = "cheap"`: what would wait for longer than this goes to the next member.',
            has_flag=False,
        ),
    ] = SPILL_AFTER_US_DEFAULT
    is_probe: bool = False  # something is to be known of each of these: as many jobs go to each as to the others

    pods: Annotated[
        int | None,
        _job(
            "pods",
            whole(1, PODS_MAX),
            "With a pod template: [so many pods](pods.md) work for the run, no more than it has jobs.",
            default="1",
            brief="With a pod template: so many of them; 1",
        ),
    ] = None
    pod_template: PodTemplate | None = None
    """What its pods are made of; None: it has none."""

    retention_us: Annotated[
        int,
        _job(
            "result-retention",
            job_parsers.duration(job_parsers.check_retention),
            "How long the service keeps a result for us; at least 1s.",
        ),
    ] = RETENTION_US_DEFAULT
    workers: Annotated[
        int | WorkerRange | None,
        _job(
            "workers",
            parsed("N|auto:MIN-MAX", job_parsers.parse_workers, job_parsers.format_workers, kind=Kind.WHOLE_OR_TEXT),
            "[As many as are needed](workers.md), from MIN to MAX, for `--finish-by`, or as `--budget-per-hour` pays"
            " for; put back afterwards. Of a `plan`, a number: how many there will be at most.",
            default="as many as the endpoint may have",
            brief="auto:2-30: as many as are needed; plan: N",
        ),
    ] = None
    workers_max: Annotated[
        int | None,
        _job(
            "workers-max",
            whole(1),
            "[Raises](workers.md#for-the-length-of-a-run) how many workers the endpoint may have to N while the run is"
            " at work. The API key must be allowed to change endpoints.",
            default="as many as it may have",
        ),
    ] = None
    workers_min: Annotated[
        int | None,
        _job(
            "workers-min",
            whole(1),
            "Keeps N workers warm at the endpoint while the run is at work; they are paid, busy or not.",
            default="as many as are kept warm",
        ),
    ] = None
    reuse: Annotated[
        Reuse | None,
        _input(
            "reuse",
            ValueType(
                Kind.DURATION,
                "D",
                lambda texts: Reuse(young_us=parse_duration(texts[-1])),
                lambda value: (format_duration(value.young_us),),
            ),
            "A row whose input another run has [sent for the same endpoint](how-it-works.md#rows-with-the-same-input)"
            " gets the result of that, if it is no older, and is not sent: of runs that were given this, too.",
            default="never",
        ),
    ] = None
    once: Annotated[
        bool,
        _input(
            "once",
            SWITCH,
            "Of rows with the same input [one is sent](how-it-works.md#rows-with-the-same-input), and the others get"
            " its result.",
        ),
    ] = False
    allow_env: Annotated[
        tuple[str, ...],
        _input(
            "allow-env",
            ValueType(Kind.LIST, "NAME", name_parsers.parse_allowed_variables, tuple),
            "A variable that the rows of the input may name in their `s3Config`, or how such begin, as in `S3_*`."
            " Repeatable.",
            more="[Keys of this program's own](#secrets-that-rows-name) they never get.",
            default="none",
        ),
    ] = ()
    resumable: Annotated[
        bool,
        _long_job(
            "resumable",
            SWITCH,
            "The jobs of the run [outlive their submissions](long-jobs.md): each goes on from the newest checkpoint"
            " that its worker has reported.",
        ),
    ] = False
    progress_every_us: Annotated[
        int,
        _long_job(
            "progress-every",
            parsed("D|off", job_parsers.parse_progress_every, job_parsers.format_progress_every, kind=Kind.DURATION),
            "How often a resumable job is asked how far it is; all of them together take a tenth of the questions at"
            " most. `off`: only in time for its result, every 25 min.",
        ),
    ] = PROGRESS_EVERY_US_DEFAULT
    stall_after_us: Annotated[
        int | None,
        _long_job(
            "stall-after",
            job_parsers.duration(job_parsers.check_second_or_more),
            "A resumable job that has had nothing new to report for so long counts as stuck, see `--on-stuck`.",
            default="that is not looked at",
        ),
    ] = None
    max_segments: Annotated[
        int,
        _long_job(
            "max-segments",
            whole(1),
            "How often a resumable job may be executed, failed or not, before it counts as failed.",
        ),
    ] = 100
    max_execution_us: Annotated[
        int | None,
        _long_job(
            "max-execution",
            job_parsers.duration(job_parsers.check_second_or_more),
            "How long a resumable job may be executed in all its segments together before it counts as failed.",
            default="however long",
        ),
    ] = None
    output_required: Annotated[
        bool,
        _trouble(
            "require-output",
            SWITCH,
            "A job that completes without any output, or with `null`, has failed ([class"
            " `invalid_output`](retries.md)).",
            brief="A job without output has failed",
        ),
    ] = False
    stream: Annotated[
        bool,
        _trouble(
            "stream",
            SWITCH,
            "Gathers what [a worker yields](retries.md#workers-that-yield) into the output, as a list.",
        ),
    ] = False
    schema: Annotated[
        Pinned | None,
        _trouble(
            "schema",
            parsed("FILE", job_parsers.parse_schema, job_parsers.format_pinned),
            "A [JSON Schema](retries.md#what-counts-as-a-result) that outputs have to fit: one that does not has"
            " failed (class `invalid_output`).",
            default="none",
        ),
    ] = None
    check: Annotated[
        Pinned | None,
        _trouble(
            "check",
            parsed("MODULE:FUNCTION", job_parsers.parse_check, job_parsers.format_pinned),
            "A [function of yours](retries.md#what-counts-as-a-result), or FILE.py:FUNCTION, that is given each"
            " output: where it raises or returns None or False, the job has failed (class `invalid_output`).",
            default="none",
        ),
    ] = None
    escalate: Annotated[
        tuple[EscalationRule, ...],
        _trouble(
            "escalate",
            listed("RULE", parse_rule, format_rule, by_lines=True),
            "What a job is [given after its troubles](retries.md#escalation), by their class, one step after the"
            " other, as in `timed_out: execution-timeout*2, then endpoint big`, or by what their error says, as in"
            ' `failed~"spot instance": free`. Repeatable.',
            default="every execution is like the first",
        ),
    ] = ()
    retry_budget: Annotated[
        int | None,
        _trouble(
            "retry-budget",
            parsed("PERCENT", brake_parsers.parse_percentage, brake_parsers.format_percentage),
            "For how many of the run's jobs an execution may be [repeated](retries.md#a-budget-for-retries) that"
            " failed, timed out or gave no usable output, as in `20%`; after that such jobs fail.",
            default="any number, within `--max-attempts`",
        ),
    ] = None
    on_stuck: Annotated[
        OnStuck,
        _trouble(
            "on-stuck",
            one_of(OnStuck),
            "What becomes of [jobs that do not come to an end](how-it-works.md#stuck-jobs). `report`: you are told."
            " `resubmit`: they are cancelled at the service and sent anew, which counts as an execution of class"
            " `timed_out`.",
        ),
    ] = OnStuck.REPORT
    events_kept_us: Annotated[
        int,
        _trouble(
            "events-kept",
            job_parsers.duration(),
            "How long the history of a job is kept whole once it has ended; afterwards only its last event, and the"
            " submissions that still count.",
        ),
    ] = EVENTS_KEPT_US_DEFAULT
    stop_after_failures: Annotated[
        int | None,
        _trouble(
            "stop-after-failures",
            whole(1),
            "Sends no more of this run (others go on) once N executions in a row have failed, and ends with exit code"
            " 3 when what is outstanding was collected.",
            more=(
                "Without it there is one warning, with an example, when nearly all of the first 20 (or more)"
                " executions failed."
            ),
            default="however many",
        ),
    ] = None
    give_up_after_us: Annotated[
        int | None,
        _trouble(
            "give-up-after",
            job_parsers.duration(job_parsers.check_second_or_more),
            "Ends a run that gets nowhere, with exit code 3, to be resumed: for so long the service took none of its"
            " jobs and none came to an end. Longer than a job takes, and at least 1s; a pause does not count, nor time"
            " in which this process was asleep or cut off from the ledger.",
            default="however long",
        ),
    ] = None
    notify: Annotated[
        str | None,
        _trouble(
            "notify",
            ValueType(
                Kind.LIST,
                "TARGET[:NEWS,...]|URL|COMMAND",
                service_parsers.parse_notify,
                service_parsers.format_notify,
                by_lines=True,
            ),
            "Who is [told](notify.md) how the run goes: a target of the [file](#configuration), `ops`, or of some news"
            " only, `ops:failed,held`; a URL, `env:NAME` of the variable that holds one, or a command that gets it on"
            " its input, as JSON. Repeatable.",
            default="nobody",
        ),
    ] = None
    on_uncertain: Annotated[
        OnUncertain,
        _trouble(
            "on-uncertain",
            one_of(OnUncertain),
            "What becomes of a submission whose answer never came. `resubmit`: it is sent again, and may be paid"
            " twice. `hold`: it is sent again when its TTL is over. `fail`: the job fails.",
        ),
    ] = OnUncertain.RESUBMIT
    uncertain_after_us: Annotated[
        int | None,
        _trouble(
            "uncertain-after",
            job_parsers.duration(),
            "How long to wait for news of such a submission first.",
            default="10s, doubling; with webhooks 2m or twice what a job takes",
        ),
    ] = None
    on_expired: Annotated[
        OnExpired,
        _trouble(
            "on-expired",
            one_of(OnExpired),
            "What becomes of a job whose result we came too late for.",
            default="`resubmit`, once",
        ),
    ] = OnExpired.RESUBMIT
    breaker: Annotated[
        BreakerRules,
        _brake(
            "breaker",
            parsed("FIRST:SHARE/LAST|off", brake_parsers.parse_breaker, brake_parsers.format_breaker),
            "When [the breaker](brakes.md#the-breaker) trips: as the FIRST executions of the run have failed, or more"
            " than this share of the LAST ones, most of them in one way. Then one job a minute is sent, until one"
            " succeeds.",
        ),
    ] = BreakerRules()
    canary: Annotated[
        Canary,
        _brake(
            "canary",
            parsed("K[:SHARE]|off", brake_parsers.parse_canary, brake_parsers.format_canary, kind=Kind.WHOLE_OR_TEXT),
            "Sends K rows first, spread over the input; the rest once they have succeeded, or this share of them.",
            default="none go first",
        ),
    ] = Canary()
    max_failures: Annotated[
        MaxFailures,
        _brake(
            "max-failures",
            parsed(
                "N|P%|off", brake_parsers.parse_max_failures, brake_parsers.format_max_failures, kind=Kind.WHOLE_OR_TEXT
            ),
            "Holds the run once more than N rows have failed for good, or P percent of those that have ended (from 20"
            " on): nothing more is sent, and what is outstanding is collected.",
            default="any number may fail",
        ),
    ] = MaxFailures()
    price_per_second: Annotated[
        float | None,
        _brake(
            "price-per-second",
            brake_parsers.amount("PRICE"),
            "What a second of execution costs at the endpoint, in whatever currency: [costs](brakes.md#costs) are"
            " told by it.",
            more="Best set for each endpoint in the [file](#configuration).",
            default="costs are not told",
            brief="What a second of execution costs",
        ),
    ] = None
    budget: Annotated[
        float,
        _brake(
            "budget",
            brake_parsers.amount("AMOUNT|off", may_be_off=True),
            "Sends no more once what [was spent, and is expected](brakes.md#budgets) of what is outstanding, reaches"
            " this amount. Needs a price.",
            default="any amount",
            brief="Sends no more once this much is spent or expected",
        ),
    ] = 0.0
    budget_per_day: Annotated[
        float,
        _brake(
            "budget-per-day",
            brake_parsers.amount("AMOUNT|off", may_be_off=True),
            "The same of all runs of the ledger at the endpoint, for each day (UTC).",
            more="Best set for each endpoint in the [file](#configuration).",
            default="any amount",
        ),
    ] = 0.0
    budget_per_hour: Annotated[
        float,
        _brake(
            "budget-per-hour",
            brake_parsers.amount("AMOUNT|off", may_be_off=True),
            "What the workers of `--workers auto` may cost in an hour: [no more of them](workers.md) than that pays"
            " for. Needs a price.",
            default="any amount",
        ),
    ] = 0.0
    finish_by: Annotated[
        int,
        _brake(
            "finish-by",
            parsed("TIME|off", brake_parsers.parse_finish_by, brake_parsers.format_finish_by),
            "When the run is to be finished: `06:00` (the next one, here), `06:00 Europe/Berlin`, `06:00Z`, or a time"
            " stamp with its zone. You are told as soon as it will be missed, and what would be needed.",
            default="whenever",
            brief="Warns, and says what helps, if it will be missed",
        ),
    ] = 0
    stop_late: Annotated[
        bool,
        _brake("stop-late", SWITCH, "Does not send what would not be finished by `--finish-by`."),
    ] = False
    takes_over: int | None = None
    """The run of its stage the time before: what has succeeded there is not sent again."""

    output: str | None = None
    """Where its results were written last, a full path; None: nowhere, or to a stream. A `resume` writes there, too."""

    errors: str | None = None
    files_at: int = 0
    """When these two were named (microseconds UTC): of several runs that name one file, it is the latest's."""

    files_on: str = ""
    """The name of the machine whose files they are, where several share the ledger; empty: of each that looks."""

    cli_defaults: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="told")
    """What the last command had set of its process, as texts by key (`api.runs.run_defaults`)."""

    @property
    def has_pool(self) -> bool:
        """Whether several endpoints share its jobs: members, or pods as they come."""
        return bool(self.members) or self.pod_template is not None

    def merged_into(self, stored: "RunSettings", *, before: "RunSettings") -> "RunSettings":
        """`stored`, but for what these have another than `before`, of which they were made."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        changed = {name: value for name, value in fields.items() if value != getattr(before, name)}
        return msgspec.structs.replace(stored, **changed)

    def price_at(self, endpoint: str) -> float | None:
        """What a second of execution costs at `endpoint`; None where nobody says."""
        return price_at(self.members, endpoint, self.price_per_second)

    def budget_per_day_at(self, endpoint: str) -> float:
        """What all runs may spend in a day at `endpoint`; 0 for any amount."""
        return budget_per_day_at(self.members, endpoint, self.budget_per_day)

    @property
    def worker_range(self) -> WorkerRange | None:
        """Between which numbers its workers follow what it needs; None where they do not."""
        return self.workers if isinstance(self.workers, WorkerRange) else None

    @property
    def price(self) -> float | None:
        """What a second of execution of the run costs; of a pool, at its dearest member. None: nobody says."""
        return dearest(self.members, self.price_per_second)

    def discount(self, took: Mapping[str, DurationTotals]) -> float:
        """By how much less these executions cost, which are by endpoint, than at its dearest member and by `/run`."""
        return discount(self.members, self.price_per_second, took, self.batch_discount)

    @property
    def cheapest_first(self) -> tuple[str, ...]:
        """The members of its pool by their prices; of as cheap ones as they are named."""
        return cheapest_first(self.members, self.price_per_second)

    @property
    def limits(self) -> AttemptLimits:
        """How often a job of the run may be executed again."""
        return AttemptLimits(
            executions=self.max_attempts,
            uncertain=0 if self.on_uncertain is OnUncertain.FAIL else 3,
            expired=0 if self.on_expired is OnExpired.FAIL else 1,
        )

    @property
    def segments(self) -> SegmentLimits:
        """How often, and how long in all, a resumable job of the run may be executed."""
        return SegmentLimits(segments=self.max_segments, execution_us=self.max_execution_us)

    @property
    def ttl_us(self) -> int:
        """The TTL of the run's jobs where a row does not say otherwise."""
        return (self.policy.ttl_ms or TTL_MS_DEFAULT) * 1000


VIA: Final = setting_of(RunSettings, "via")
PATH: Final[Setting[str]] = setting_of(RunSettings, "path")
PODS: Final[Setting[int]] = setting_of(RunSettings, "pods")
PREFER: Final[Setting[Prefer]] = setting_of(RunSettings, "prefer")
SPILL_AFTER: Final[Setting[int]] = setting_of(RunSettings, "spill_after_us")
MAX_ATTEMPTS: Final[Setting[int]] = setting_of(RunSettings, "max_attempts")
RESUMABLE: Final[Setting[bool]] = setting_of(RunSettings, "resumable")
PROGRESS_EVERY: Final[Setting[int]] = setting_of(RunSettings, "progress_every_us")
STALL_AFTER: Final[Setting[int]] = setting_of(RunSettings, "stall_after_us")
MAX_SEGMENTS: Final[Setting[int]] = setting_of(RunSettings, "max_segments")
MAX_EXECUTION: Final[Setting[int]] = setting_of(RunSettings, "max_execution_us")
REQUIRE_OUTPUT: Final[Setting[bool]] = setting_of(RunSettings, "output_required")
STREAM: Final[Setting[bool]] = setting_of(RunSettings, "stream")
SCHEMA: Final[Setting[Pinned]] = setting_of(RunSettings, "schema")
CHECK: Final[Setting[Pinned]] = setting_of(RunSettings, "check")
ESCALATE: Final[Setting[tuple[EscalationRule, ...]]] = setting_of(RunSettings, "escalate")
GIVE_UP_AFTER: Final[Setting[int]] = setting_of(RunSettings, "give_up_after_us")
ON_UNCERTAIN: Final[Setting[OnUncertain]] = setting_of(RunSettings, "on_uncertain")
UNCERTAIN_AFTER: Final[Setting[int]] = setting_of(RunSettings, "uncertain_after_us")
ON_EXPIRED: Final[Setting[OnExpired]] = setting_of(RunSettings, "on_expired")
BREAKER: Final[Setting[BreakerRules]] = setting_of(RunSettings, "breaker")
CANARY: Final[Setting[Canary]] = setting_of(RunSettings, "canary")
MAX_FAILURES: Final[Setting[MaxFailures]] = setting_of(RunSettings, "max_failures")
PRICE_PER_SECOND: Final[Setting[float]] = setting_of(RunSettings, "price_per_second")
BUDGET: Final[Setting[float]] = setting_of(RunSettings, "budget")
BUDGET_PER_DAY: Final[Setting[float]] = setting_of(RunSettings, "budget_per_day")
BUDGET_PER_HOUR: Final[Setting[float]] = setting_of(RunSettings, "budget_per_hour")
FINISH_BY: Final[Setting[int]] = setting_of(RunSettings, "finish_by")
STOP_LATE: Final[Setting[bool]] = setting_of(RunSettings, "stop_late")
NOTIFY: Final[Setting[str]] = setting_of(RunSettings, "notify")
ALLOW_ENV: Final[Setting[tuple[str, ...]]] = setting_of(RunSettings, "allow_env")
REUSE: Final[Setting[Reuse]] = setting_of(RunSettings, "reuse")
WORKERS: Final[Setting[int | WorkerRange]] = setting_of(RunSettings, "workers")
WORKERS_MAX: Final[Setting[int]] = setting_of(RunSettings, "workers_max")
WORKERS_MIN: Final[Setting[int]] = setting_of(RunSettings, "workers_min")

BRAKES: Final = tuple(each for each in settings_in(RunSettings) if each.panel is Panel.BRAKES)
"""What can be changed while a run goes on."""

OF_ENDPOINTS: Final[tuple[Setting[Any], ...]] = (VIA, PATH, PRICE_PER_SECOND, BUDGET_PER_DAY)
"""What the configuration file can say of single endpoints."""
