"""The settings of runs and of the commands for an account, each declared once. As text each is its flag."""

from typing import Any, Final

from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.addresses import parse_address, webhook_base_url
from orchestrator.core.service.openai import Via
from orchestrator.core.text.durations import Policy
from orchestrator.settings import parsers
from orchestrator.settings.account import AccountSettings
from orchestrator.settings.brake_flags import BRAKES, NOTIFY
from orchestrator.settings.input_flags import ALLOW_ENV, INPUTS, ONCE, REPLACE_INPUT, REUSE
from orchestrator.settings.output_flags import FILES, OUTPUTS
from orchestrator.settings.plan_flags import DRY_RUN, WORKERS_MAX, WORKERS_MIN
from orchestrator.settings.profiles import PROFILE
from orchestrator.settings.setting import (
    SWITCH,
    Form,
    Group,
    Kind,
    Setting,
    duration,
    one_of,
    parsed,
    path,
    text,
    whole,
)
from orchestrator.settings.structs import (
    ConnectionSettings,
    Include,
    LogFormat,
    OnExpired,
    OnStuck,
    OnUncertain,
    Pinned,
    RunRequest,
    RunSettings,
)

SERVICE: Final = "Service"
JOBS: Final = "Jobs"
LONG: Final = "Long jobs"
TROUBLE: Final = "When things go wrong"
SHOWN: Final = "What is shown"

ATTEMPTS_MAX: Final = 1_000


def pinned_ref(pinned: Pinned) -> str:
    """How what was pinned is named."""
    return pinned.ref


_service: Final = Group(ConnectionSettings, SERVICE)
_account: Final = Group(AccountSettings, SERVICE)
_file: Final = Group(RunRequest, FILES)
_job: Final = Group(RunSettings, JOBS)
_trouble: Final = Group(RunSettings, TROUBLE)
_long: Final = Group(RunSettings, LONG)

# --- the service, and how it is reached

ENDPOINT: Final = Setting(
    "endpoint",
    parsed("ID|NAME", parsers.endpoint),
    "The endpoint's id, or its [name](#names-of-endpoints), or `local:FILE.py:FUNCTION`: a function of your own, run"
    " here by the embedded emulator, without an account.",
    of=RunRequest,
    default="required",
    panel=SERVICE,
    brief="The endpoint, or local:FILE.py:FUNCTION. Required",
)
SERVERLESS_URL: Final = _service(
    "serverless-url", parsers.address("/v2"), "Where the service is. The path `/v2/{endpoint_id}/…` is added."
)
LISTEN: Final = _service(
    "listen",
    parsed("HOST:PORT", lambda given: str(parse_address(given))),
    "Take the service's webhooks here.",
    more="`:PORT` listens on 127.0.0.1 only; port 0 is any free one.",
    default="no listener: results are polled",
)
WEBHOOK_URL: Final = _service(
    "webhook-url",
    parsed("URL", webhook_base_url),
    "The URL under which the service reaches the listener; a path prefix is fine. Needed with `--listen`, unless"
    " the service is on this machine.",
    default="the listener's own",
)
LIMIT: Final = _service(
    "limit",
    Form(Kind.LIST, "OP=N/SECONDS[:CONCURRENT]", parsers.limits, parsers.limit_texts),
    "A limit to keep: at most N requests of operation OP in so many seconds, and so many at once, as in"
    " `run=1000/10:200`. Repeatable.",
    field="limits",
    default="[the contract's](#durations-and-limits)",
)
PACING: Final = _service(
    "pacing",
    parsed("even|window", parsers.pacing),
    "How requests are spread within the limits. `even`: evenly, safe however the service counts. `window`: bursts"
    " that fill a window at once, for a service known to count plain windows.",
    more="5,000 jobs then leave in 40 s rather than 50.",
)
REQUESTS_PER_WORKER: Final = _service(
    "requests-per-worker",
    whole(1),
    "How many requests in a limit's time each running worker adds to the service's limits, if you know it.",
    more="The workers are counted by `/health`, and the limits [grow with them](how-it-works.md#limits).",
    default="the base limits",
)
SERVICE_KEY: Final = _service(
    "service-key",
    Form(Kind.LIST, "URL=env:NAME", parsers.keys, parsers.variables),
    "The variable that holds the API key of a further service, where a ledger's runs are at several. Repeatable.",
    field="keys",
    default="only the service of `--serverless-url` has a key",
)
BASE_URL: Final = _account(
    "base-url", parsers.address("/v2"), "Where REST v2 is; `/v2/pods`, `/v2/serverless` and so on are added."
)
INTERFACE: Final = _account(
    "interface",
    one_of(Interface),
    "Which interface is spoken for endpoints, templates and secrets. `auto`: the newest that the service has.",
    more="If the address of one was set and not that of another, `auto` leaves the other alone. See"
    " [interfaces](interface.md#one-account-three-interfaces).",
)
TEAM: Final[Setting[str]] = _account(
    "team",
    text("ID"),
    "Act for this team; for session tokens only. A key made inside a team acts for it anyway.",
    default="none",
)
REST_URL: Final = _service(
    "rest-url", parsers.address("/v1"), "Where REST v1 is, the older interface; `/v1/endpoints` is added."
)
GRAPHQL_URL: Final = _account("graphql-url", parsers.address(""), "The GraphQL address.")
GRAPHQL_KEY: Final = _account(
    "graphql-key",
    parsed("query|header", parsers.key_place),
    "Where the API key goes: the URL's parameter api_key, or a bearer header.",
)

# --- files

NAME: Final = _file(
    "name",
    parsed("NAME", parsers.parse_name),
    "The run's name, 1 to 200 characters. The same name is the same run.",
    default="the input's file name without its ending; standard input needs a name",
    brief="The run's name; the same name is the same run",
)
LEDGER: Final = _file(
    "ledger",
    path(parsers.file_path),
    "The database that remembers everything.",
    brief="What remembers everything; orchestrator.db",
)
OUTPUT: Final = _file(
    "output",
    path(parsers.output_path),
    "Where the [results](#results) are written, in input order, when the run ends or is interrupted; `-` is standard"
    " output. Until then they grow in `FILE.partial`, as they come.",
    default="nowhere; the end names `orchestrator results NAME`",
    brief="Where the results are written, in input order",
)
ERRORS: Final = _file(
    "errors",
    path(parsers.output_path),
    "Where the [failed and cancelled](#errors) jobs are written. Needs `--output`.",
    default="`OUTPUT.errors.jsonl`",
)
INCLUDE: Final = _file(
    "include",
    Form(Kind.TEXT, "WHAT,...", parsers.includes, ",".join, words=tuple(Include)),
    "What the rows of results and errors [carry besides](#results): `input`, `line`, `worker`, `times`, and `text`, the"
    " whole of what a worker said of an error; several with commas between them.",
    default="nothing",
)
OVERWRITE: Final = Setting(
    "overwrite",
    SWITCH,
    "Replaces an output file that is there already. Without it, that is refused unless the run has written it; what"
    " another run of the ledger has written is never replaced.",
    of=RunRequest,
    panel=FILES,
)
AFRESH: Final = Setting(
    "afresh",
    SWITCH,
    "Takes [nothing over](how-it-works.md#the-same-run-again) from the run's last command.",
    of=RunRequest,
    panel=FILES,
)
CONFIG: Final[Setting[str]] = Setting(
    "config",
    text("FILE"),
    "The [configuration file](#configuration): TOML with the same settings; flags and `ORCHESTRATOR_<FLAG>`"
    " variables win over it.",
    default="`orchestrator.toml` where present",
    panel=FILES,
)
BODY_BYTES_MAX: Final = Setting(
    "body-bytes-max",
    whole(1),
    "The largest request body, in bytes; a row that would exceed it is an error of the input.",
    of=RunRequest,
    default="10485760 (10 MiB, the service's limit)",
    has_flag=False,
)

# --- jobs

VIA: Final = _job(
    "via",
    one_of(Via),
    "How jobs reach their workers. `queue`: by `/run`. `openai`: by [`/openai/*`](files.md#past-the-queue), where the"
    " answer to the request is the result; for workers that take requests of an OpenAI Batch file in no other way.",
)
MAX_ATTEMPTS: Final = _job(
    "max-attempts",
    whole(1, ATTEMPTS_MAX),
    "How often a job may be executed before it counts as failed, 1 to 1000.",
    brief="How often a job may be executed; 3",
)
TTL: Final = Setting(
    "ttl",
    parsers.policy_milliseconds("ttl_ms"),
    "A job's whole life at the service, queue and execution included; 10s to 7d.",
    of=Policy,
    field="ttl_ms",
    default="the service's, 24h; of resumable jobs the execution timeout and 24h, 7d at most",
    panel=JOBS,
)
EXECUTION_TIMEOUT: Final = Setting(
    "execution-timeout",
    parsers.policy_milliseconds("execution_timeout_ms"),
    "The longest that a worker may run a job; 5s to 7d.",
    of=Policy,
    field="execution_timeout_ms",
    default="the service's, 10m",
    panel=JOBS,
    brief="The longest that a worker may run a job; 10m",
)
PRIORITY: Final = _job(
    "priority",
    whole(PRIORITY_MIN, PRIORITY_MAX, f"{PRIORITY_MIN}...{PRIORITY_MAX}"),
    "The run's weight [beside other runs](how-it-works.md#runs-that-share-an-endpoint) at the same endpoint: the"
    " higher, the more turns it gets.",
)
LOW_PRIORITY: Final = Setting(
    "low-priority",
    Form(Kind.SWITCH, "", lambda texts: SWITCH.read(texts) or None),
    "Jobs that do not make the endpoint start workers.",
    of=Policy,
    panel=JOBS,
)
QUEUE_DEPTH: Final = _job(
    "queue-depth",
    parsed("N|auto|off", parsers.queue_depth, kind=Kind.WHOLE_OR_TEXT),
    "How many of the run's jobs may wait in the endpoint's queue. `auto`: as many as it finishes in ten minutes,"
    " at least 1,000. `off`: any number that [can be collected in time](how-it-works.md#how-much-is-sent).",
)
RESUMABLE: Final = Setting(
    "resumable",
    SWITCH,
    "The jobs of the run [outlive their submissions](long-jobs.md): each goes on from the newest checkpoint that its"
    " worker has reported.",
    of=RunSettings,
    panel=LONG,
)
PROGRESS_EVERY: Final = _long(
    "progress-every",
    parsed("D|off", parsers.progress_every, parsers.progress_every_text, kind=Kind.DURATION),
    "How often a resumable job is asked how far it is; all of them together take a tenth of the questions at most."
    " `off`: only in time for its result, every 25 min.",
    field="progress_every_us",
)
STALL_AFTER: Final = _long(
    "stall-after",
    duration(parsers.patience),
    "A resumable job that has had nothing new to report for so long counts as stuck, see `--on-stuck`.",
    field="stall_after_us",
    default="that is not looked at",
)
MAX_SEGMENTS: Final = _long(
    "max-segments", whole(1), "How often a resumable job may be executed, failed or not, before it counts as failed."
)
MAX_EXECUTION: Final = _long(
    "max-execution",
    duration(parsers.patience),
    "How long a resumable job may be executed in all its segments together before it counts as failed.",
    field="max_execution_us",
    default="however long",
)
GRACE: Final = Setting(
    "grace",
    duration(parsers.patience),
    "Cancels each resumable job at the service once it has a newer checkpoint, and after so long at the latest.",
    default="at once",
    panel=LONG,
)
RESULT_RETENTION: Final = _job(
    "result-retention",
    duration(parsers.retention),
    "How long the service keeps a result for us; at least 1s.",
    field="retention_us",
)

# --- when things go wrong

REQUIRE_OUTPUT: Final = _trouble(
    "require-output",
    SWITCH,
    "A job that completes without any output, or with `null`, has failed ([class `invalid_output`](retries.md)).",
    field="output_required",
    brief="A job without output has failed",
)
STREAM: Final = _trouble(
    "stream", SWITCH, "Gathers what [a worker yields](retries.md#workers-that-yield) into the output, as a list."
)
SCHEMA: Final = _trouble(
    "schema",
    parsed("FILE", parsers.schema_file, pinned_ref),
    "A [JSON Schema](retries.md#what-counts-as-a-result) that outputs have to fit: one that does not has failed (class"
    " `invalid_output`).",
    default="none",
)
CHECK: Final = _trouble(
    "check",
    parsed("MODULE:FUNCTION", parsers.check_function, pinned_ref),
    "A [function of yours](retries.md#what-counts-as-a-result), or FILE.py:FUNCTION, that is given each output: where"
    " it raises or returns None or False, the job has failed (class `invalid_output`).",
    default="none",
)
ESCALATE: Final = _trouble(
    "escalate",
    Form(Kind.LIST, "RULE", parsers.rules, parsers.rule_texts, by_lines=True),
    "What a job is [given after its troubles](retries.md#escalation), by their class, one step after the other, as in"
    " `timed_out: execution-timeout*2, then endpoint big`, or by what their error says, as in"
    ' `failed~"spot instance": free`. Repeatable.',
    default="every execution is like the first",
)
RETRY_BUDGET: Final = _trouble(
    "retry-budget",
    parsed("PERCENT", parsers.share, parsers.percentage),
    "For how many of the run's jobs an execution may be [repeated](retries.md#a-budget-for-retries) that failed, timed"
    " out or gave no usable output, as in `20%`; after that such jobs fail.",
    default="any number, within `--max-attempts`",
)
ON_STUCK: Final = _trouble(
    "on-stuck",
    one_of(OnStuck),
    "What becomes of [jobs that do not come to an end](how-it-works.md#stuck-jobs). `report`: you are told."
    " `resubmit`: they are cancelled at the service and sent anew, which counts as an execution of class"
    " `timed_out`.",
)
EVENTS_KEPT: Final = _trouble(
    "events-kept",
    duration(),
    "How long the history of a job is kept whole once it has ended; afterwards only its last event, and"
    " the submissions that still count.",
    field="events_kept_us",
)
STOP_AFTER_FAILURES: Final = _trouble(
    "stop-after-failures",
    whole(1),
    "Sends no more of this run (others go on) once N executions in a row have failed, and ends with"
    " exit code 3 when what is outstanding was collected.",
    more="Without it there is one warning, with an"
    " example, when nearly all of the first 20 (or more) executions failed.",
    default="however many",
)
GIVE_UP_AFTER: Final = _trouble(
    "give-up-after",
    duration(parsers.patience),
    "Ends a run that gets nowhere, with exit code 3, to be resumed: for so long the service took none of its jobs and"
    " none came to an end. Longer than a job takes, and at least 1s; a pause does not count.",
    field="give_up_after_us",
    default="however long",
)
ON_UNCERTAIN: Final = _trouble(
    "on-uncertain",
    one_of(OnUncertain),
    "What becomes of a submission whose answer never came. `resubmit`: it is sent again, and may be paid twice."
    " `hold`: it is sent again when its TTL is over. `fail`: the job fails.",
)
UNCERTAIN_AFTER: Final = _trouble(
    "uncertain-after",
    duration(),
    "How long to wait for news of such a submission first.",
    field="uncertain_after_us",
    default="10s, doubling; with webhooks 2m or twice what a job takes",
)
ON_EXPIRED: Final = _trouble(
    "on-expired",
    one_of(OnExpired),
    "What becomes of a job whose result we came too late for.",
    default="`resubmit`, once",
)
RETRY_FAILED: Final = Setting(
    "retry-failed",
    SWITCH,
    "Opens the run's failed and cancelled jobs again. Refused for a run that was cancelled, before"
    " `orchestrator unpause`.",
    of=RunRequest,
    panel=TROUBLE,
    brief="Opens what failed in this run before again",
)

# --- what is shown

DETACH: Final = Setting(
    "detach",
    SWITCH,
    "Goes on in the background once the input is taken in, and returns. What it says goes to `LEDGER.log`.",
    panel=SHOWN,
    brief="Goes on in the background",
)

LOG_FILE: Final = Setting(
    "log-file",
    path(parsers.file_path),
    "Appends to this file when the process began and why it ended, what it says, warns of and is held up by, and the"
    " kinds of failures, without secrets.",
    of=RunRequest,
    default="no log",
    panel=SHOWN,
)
LOG_FORMAT: Final = Setting(
    "log-format",
    one_of(LogFormat),
    "How its lines are written; `json` is one object a line.",
    of=RunRequest,
    panel=SHOWN,
)
JSON: Final = Setting(
    "json",
    SWITCH,
    "One JSON object, the [summary](#the-summary), on standard output at the end.",
    panel=SHOWN,
    brief="The summary as JSON on standard output",
)
QUIET: Final = Setting(
    "quiet", SWITCH, "No progress and no summary for people; warnings and errors remain.", panel=SHOWN
)

# --- which command takes which

Settings = tuple[Setting[Any], ...]

_LINE: Final[Settings] = (LISTEN, WEBHOOK_URL, LIMIT, PACING, REQUESTS_PER_WORKER, SERVICE_KEY, REST_URL)

PROCESS: Final[Settings] = (LEDGER, OUTPUT, ERRORS, *_LINE)
"""What belongs to a process rather than to its run."""

KEPT: Final[Settings] = (*_LINE, INCLUDE, *OUTPUTS, LOG_FILE, LOG_FORMAT, BODY_BYTES_MAX, *INPUTS)
"""What of that a run remembers for its next process, beside its files."""

RUN: Final[Settings] = (
    *(ENDPOINT, PROFILE, SERVERLESS_URL, *_LINE),
    *(NAME, LEDGER),
    *(*INPUTS, REPLACE_INPUT, ALLOW_ENV, REUSE, ONCE),
    *(OUTPUT, ERRORS, INCLUDE),
    *OUTPUTS,
    *(OVERWRITE, AFRESH, CONFIG),
    *(VIA, MAX_ATTEMPTS, TTL, EXECUTION_TIMEOUT, PRIORITY, LOW_PRIORITY, QUEUE_DEPTH, RESULT_RETENTION),
    *(WORKERS_MAX, WORKERS_MIN),
    *(RESUMABLE, PROGRESS_EVERY, STALL_AFTER, MAX_SEGMENTS, MAX_EXECUTION),
    *(REQUIRE_OUTPUT, STREAM, SCHEMA, CHECK, ESCALATE, RETRY_BUDGET),
    *(ON_STUCK, EVENTS_KEPT, STOP_AFTER_FAILURES, GIVE_UP_AFTER, NOTIFY),
    *(ON_UNCERTAIN, UNCERTAIN_AFTER, ON_EXPIRED, RETRY_FAILED),
    *BRAKES,
    *(DRY_RUN, DETACH, LOG_FILE, LOG_FORMAT, JSON, QUIET),
)
RESUME: Final[Settings] = (
    *(PROFILE, *_LINE, LEDGER, ALLOW_ENV, OUTPUT, ERRORS, INCLUDE),
    *OUTPUTS,
    *(OVERWRITE, AFRESH, CONFIG),
    *(RETRY_FAILED, DETACH, LOG_FILE, LOG_FORMAT, JSON, QUIET),
)
SERVE: Final[Settings] = (PROFILE, SERVERLESS_URL, *_LINE, LEDGER, CONFIG, LOG_FILE, LOG_FORMAT, JSON, QUIET)
DOCTOR: Final[Settings] = (PROFILE, SERVERLESS_URL, SERVICE_KEY, LEDGER, CONFIG, JSON)
TIDY: Final[Settings] = (PROFILE, SERVERLESS_URL, SERVICE_KEY, REST_URL, LEDGER, CONFIG)
ACCOUNT: Final[Settings] = (BASE_URL, TEAM, GRAPHQL_URL, GRAPHQL_KEY, INTERFACE)
FILE_ONLY: Final[Settings] = (BODY_BYTES_MAX,)
