"""The settings of runs and of the commands for an account, each declared once. As text each is its flag."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from orchestrator.core.addresses import interface_url, parse_address, webhook_base_url
from orchestrator.core.admission import QueueDepth
from orchestrator.core.pacing import CONTRACT_LIMITS, Limit, Operation, Pacing, format_limit, parse_limit
from orchestrator.core.policy import Policy, format_duration, policy_problems
from orchestrator.core.s3_config import REFERENCE
from orchestrator.declaration import SWITCH, Form, Group, Kind, Setting, duration, one_of, parsed, path, text, whole
from orchestrator.settings import (
    LOCAL,
    PRIORITY_MAX,
    PRIORITY_MIN,
    STANDARD_INPUT,
    AccountSettings,
    ConnectionSettings,
    Include,
    KeyPlace,
    LogFormat,
    OnExpired,
    OnStuck,
    OnUncertain,
    RunRequest,
    RunSettings,
)
from orchestrator.units import MILLISECOND_US

FILES: Final = "Files"
SERVICE: Final = "Service"
JOBS: Final = "Jobs"
TROUBLE: Final = "When things go wrong"
SHOWN: Final = "What is shown"

ATTEMPTS_MAX: Final = 1_000
QUEUE_DEPTH_MAX: Final = 10_000_000
NAME_CHARACTERS_MAX: Final = 200
STANDARD_OUTPUT: Final = Path("/dev/stdout")
RETENTION_US_MIN: Final = 1_000_000
PATIENCE_US_MIN: Final = 1_000_000

_ENDPOINT: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


# --- how values are read


def _endpoint(text: str) -> str:
    if text.startswith(LOCAL):
        file, _, function = text.removeprefix(LOCAL).rpartition(":")
        if not file or not function.isidentifier():
            raise ValueError(f'"{text}" names no function; write local:FILE.py:FUNCTION')
    elif not _ENDPOINT.fullmatch(text):
        raise ValueError(f'"{text:.80}" is no endpoint id; write the id alone, or local:FILE.py:FUNCTION')
    return text


def parse_name(text: str) -> str:
    """The name of a run. Raises `ValueError`."""
    if not text.strip() or not text.isprintable() or len(text) > NAME_CHARACTERS_MAX:
        raise ValueError(f"a run's name has 1 to {NAME_CHARACTERS_MAX} printable characters")
    return text


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError("this is no file name")
    return Path(text)


def _output(text: str) -> Path:
    return STANDARD_OUTPUT if text == STANDARD_INPUT else _path(text)


def _includes(texts: Sequence[str]) -> tuple[Include, ...]:
    """In one order, whatever was written; without any word nothing."""
    words = [word.strip() for word in texts[-1].split(",") if word.strip()]
    for word in words:
        if word not in tuple(Include):
            raise ValueError(f'"{word:.40}" is none of {", ".join(Include)}')
    return tuple(each for each in Include if each in words)


def _limits(texts: Sequence[str]) -> Mapping[Operation, Limit]:
    """The limits to keep: the contract's, where nothing else was chosen."""
    limits = dict(map(parse_limit, texts))
    if len(limits) < len(texts):
        raise ValueError("an operation is named twice; give each one limit")
    return {**CONTRACT_LIMITS, **limits}


def _limit_texts(limits: Mapping[Operation, Limit]) -> Sequence[str]:
    """One at least, though it be the contract's: it says that what stands in the file does not count."""
    chosen = [each for each in CONTRACT_LIMITS if limits.get(each, CONTRACT_LIMITS[each]) != CONTRACT_LIMITS[each]]
    return [format_limit(each, limits[each]) for each in chosen or list(limits)[:1]]


def _keys(texts: Sequence[str]) -> Mapping[str, str]:
    """The variables that hold the keys of further services; a key itself is not for command lines and files."""
    keys: dict[str, str] = {}
    for each in texts:
        url, _, variable = each.rpartition("=")
        if not REFERENCE.fullmatch(variable):
            raise ValueError("write URL=env:NAME, where NAME is the variable that holds the key")
        keys[interface_url(url, added="/v2").rstrip("/")] = variable
    return keys


def _variables(keys: Mapping[str, str]) -> list[str]:
    """`keys` as they are written; what a program gave is a key itself, which is not for messages either."""
    return [f"{url}={key}" for url, key in keys.items() if REFERENCE.fullmatch(key)]


def _pacing(text: str) -> Pacing:
    match text:
        case "even" | "window":
            return text
        case _:
            raise ValueError(f'"{text:.40}" is no pacing; there are even and window')


def _depth(text: str) -> QueueDepth:
    match text:
        case "auto" | "off":
            return text
        case _ if text.isascii() and text.isdecimal() and 0 < int(text[:10]) <= QUEUE_DEPTH_MAX:
            return int(text)
        case _:
            raise ValueError(
                f'"{text:.40}" is no queue depth; write auto, off, or a number from 1 to {QUEUE_DEPTH_MAX:,}'
            )


def _milliseconds(field: str) -> Form[int]:
    """A duration of the policy, inside the service's bounds."""

    def parse(duration_us: int) -> int:
        milliseconds = duration_us // MILLISECOND_US
        if problems := policy_problems(Policy(**{field: milliseconds})):  # type: ignore[arg-type]
            raise ValueError("; ".join(problems))
        return milliseconds

    return duration(parse, lambda milliseconds: milliseconds * MILLISECOND_US)


def _retention(duration_us: int) -> int:
    if duration_us < RETENTION_US_MIN:
        raise ValueError(f"a result is kept for {format_duration(RETENTION_US_MIN)} at least")
    return duration_us


def _patience(duration_us: int) -> int:
    if duration_us < PATIENCE_US_MIN:
        raise ValueError(f"so long it takes at least to get anywhere: {format_duration(PATIENCE_US_MIN)}")
    return duration_us


def _key_place(text: str) -> KeyPlace:
    place: KeyPlace | None = next((place for place in get_args(KeyPlace) if place == text), None)
    if place is None:
        raise ValueError("the key goes either in the query or in the header")
    return place


def _url(added: str) -> Form[str]:
    return parsed("URL", lambda given: interface_url(given, added=added))


_service: Final = Group(ConnectionSettings, SERVICE)
_account: Final = Group(AccountSettings, SERVICE)
_file: Final = Group(RunRequest, FILES)
_job: Final = Group(RunSettings, JOBS)
_trouble: Final = Group(RunSettings, TROUBLE)

# --- the service, and how it is reached

ENDPOINT: Final = Setting(
    "endpoint",
    parsed("ID", _endpoint),
    "The endpoint's id, or `local:FILE.py:FUNCTION`: a function of your own, run here by the embedded"
    " emulator, without an account.",
    of=RunRequest,
    default="required",
    panel=SERVICE,
)
SERVERLESS_URL: Final = _service(
    "serverless-url", _url("/v2"), "Where the service is. The path `/v2/{endpoint_id}/…` is added."
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
    Form(Kind.LIST, "OP=N/SECONDS[:CONCURRENT]", _limits, _limit_texts),
    "A limit to keep: at most N requests of operation OP in so many seconds, and so many at once, as in"
    " `run=1000/10:200`. Repeatable.",
    field="limits",
    default="[the contract's](#durations-and-limits)",
)
PACING: Final = _service(
    "pacing",
    parsed("even|window", _pacing),
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
    Form(Kind.LIST, "URL=env:NAME", _keys, _variables),
    "The variable that holds the API key of a further service, where a ledger's runs are at several. Repeatable.",
    field="keys",
    default="only the service of `--serverless-url` has a key",
)
BASE_URL: Final = _account("base-url", _url("/v2"), "Where the REST interface is; `/v2/pods` is added.")
TEAM: Final[Setting[str]] = _account(
    "team",
    text("ID"),
    "Act for this team; for session tokens only. A key made inside a team acts for it anyway.",
    default="none",
)
REST_URL: Final = _account("rest-url", _url("/v1"), "Where the REST interface is; `/v1/endpoints` is added.")
GRAPHQL_URL: Final = _account("graphql-url", _url(""), "The GraphQL address.")
GRAPHQL_KEY: Final = _account(
    "graphql-key",
    parsed("query|header", _key_place),
    "Where the API key goes: the URL's parameter api_key, or a bearer header.",
)

# --- files

NAME: Final = _file(
    "name",
    parsed("NAME", parse_name),
    "The run's name, 1 to 200 characters. The same name is the same run.",
    default="the input's file name without its ending; standard input needs a name",
)
LEDGER: Final = _file("ledger", path(_path), "The database that remembers everything.")
OUTPUT: Final = _file(
    "output",
    path(_output),
    "Where the [results](#results) are written, in input order, when the run ends or is interrupted; `-` is standard"
    " output. Until then they grow in `FILE.partial`, as they come.",
    default="nowhere; the end names `orchestrator results NAME`",
)
ERRORS: Final = _file(
    "errors",
    path(_output),
    "Where the [failed and cancelled](#errors) jobs are written. Needs `--output`.",
    default="`OUTPUT.errors.jsonl`",
)
INCLUDE: Final = _file(
    "include",
    Form(Kind.TEXT, "WHAT,...", _includes, ",".join, words=tuple(Include)),
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

MAX_ATTEMPTS: Final = _job(
    "max-attempts", whole(1, ATTEMPTS_MAX), "How often a job may be executed before it counts as failed, 1 to 1000."
)
TTL: Final = Setting(
    "ttl",
    _milliseconds("ttl_ms"),
    "A job's whole life at the service, queue and execution included; 10s to 7d.",
    of=Policy,
    field="ttl_ms",
    default="the service's, 24h",
    panel=JOBS,
)
EXECUTION_TIMEOUT: Final = Setting(
    "execution-timeout",
    _milliseconds("execution_timeout_ms"),
    "The longest that a worker may run a job; 5s to 7d.",
    of=Policy,
    field="execution_timeout_ms",
    default="the service's, 10m",
    panel=JOBS,
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
    parsed("N|auto|off", _depth),
    "How many of the run's jobs may wait in the endpoint's queue. `auto`: as many as it finishes in ten minutes,"
    " at least 1,000. `off`: any number that [can be collected in time](how-it-works.md#how-much-is-sent).",
)
RESULT_RETENTION: Final = _job(
    "result-retention",
    duration(_retention),
    "How long the service keeps a result for us; at least 1s.",
    field="retention_us",
)
OUTPUT_REQUIRED: Final = Setting(
    "output-required",
    SWITCH,
    "Whether a job that completes without any output has failed (class `invalid_output`).",
    of=RunSettings,
    has_flag=False,
)

# --- when things go wrong

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
    duration(_patience),
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
    " `orchestrator continue`.",
    of=RunRequest,
    panel=TROUBLE,
)

# --- what is shown

DETACH: Final = Setting(
    "detach",
    SWITCH,
    "Goes on in the background once the input is taken in, and returns. What it says goes to `LEDGER.log`.",
    panel=SHOWN,
)

LOG_FILE: Final = Setting(
    "log-file",
    path(_path),
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
    "json", SWITCH, "One JSON object, the [summary](#the-summary), on standard output at the end.", panel=SHOWN
)
QUIET: Final = Setting(
    "quiet", SWITCH, "No progress and no summary for people; warnings and errors remain.", panel=SHOWN
)

# --- which command takes which

Settings = tuple[Setting[Any], ...]

_LINE: Final[Settings] = (LISTEN, WEBHOOK_URL, LIMIT, PACING, REQUESTS_PER_WORKER, SERVICE_KEY)

PROCESS: Final[Settings] = (LEDGER, OUTPUT, ERRORS, *_LINE)
"""What belongs to a process rather than to its run."""

KEPT: Final[Settings] = (*_LINE, INCLUDE, LOG_FILE, LOG_FORMAT, BODY_BYTES_MAX)
"""What of that a run remembers for its next process, beside its files."""

RUN: Final[Settings] = (
    *(ENDPOINT, SERVERLESS_URL, *_LINE),
    *(NAME, LEDGER, OUTPUT, ERRORS, INCLUDE, OVERWRITE, AFRESH, CONFIG),
    *(MAX_ATTEMPTS, TTL, EXECUTION_TIMEOUT, PRIORITY, LOW_PRIORITY, QUEUE_DEPTH, RESULT_RETENTION),
    *(ON_STUCK, EVENTS_KEPT, STOP_AFTER_FAILURES, GIVE_UP_AFTER),
    *(ON_UNCERTAIN, UNCERTAIN_AFTER, ON_EXPIRED, RETRY_FAILED),
    *(DETACH, LOG_FILE, LOG_FORMAT, JSON, QUIET),
)
RESUME: Final[Settings] = (
    *(*_LINE, LEDGER, OUTPUT, ERRORS, INCLUDE, OVERWRITE, AFRESH, CONFIG),
    *(RETRY_FAILED, DETACH, LOG_FILE, LOG_FORMAT, JSON, QUIET),
)
SERVE: Final[Settings] = (SERVERLESS_URL, *_LINE, LEDGER, CONFIG, LOG_FILE, LOG_FORMAT, JSON, QUIET)
DOCTOR: Final[Settings] = (SERVERLESS_URL, SERVICE_KEY, LEDGER, CONFIG, JSON)
ACCOUNT: Final[Settings] = (BASE_URL, TEAM, REST_URL, GRAPHQL_URL, GRAPHQL_KEY)
FILE_ONLY: Final[Settings] = (OUTPUT_REQUIRED, BODY_BYTES_MAX)
