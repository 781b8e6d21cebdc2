"""What `orchestrator emulate` is asked for: the settings of the emulator, each declared once."""

from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.core.service.addresses import PORT_MAX
from orchestrator.emulator.contract.answers import ErrorBodies
from orchestrator.emulator.contract.paging import PAGE_MAX
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.jobs.scaling_rules import PROPAGATION_S, Scaler
from orchestrator.settings import command_settings
from orchestrator.settings.configuration_file import EMULATE_TABLE, ENVIRONMENT_PREFIX, Section, by_key
from orchestrator.settings.setting import Setting
from orchestrator.settings.value_types import SWITCH, number, one_of, path, text, texts, whole

PORT_DEFAULT: Final = 8900


class EmulateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be emulated; `docs/interface-emulator.md` explains each."""

    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    handler: str | None = None
    endpoints: tuple[str, ...] = ()
    """`NAME=FILE.py:FUNCTION` each."""

    http_endpoints: tuple[str, ...] = ()
    """`NAME=FILE.py:APPLICATION` each."""

    handler_processes: int = 0
    worker: str | None = None
    workers_min: int = 4
    workers_max: int = 4
    idle_timeout_s: float = 5.0
    scaler: Scaler = Scaler.QUEUE_DELAY
    scaler_value: float = 4.0
    cold_start_s: float = 0.0
    machines: int | None = None
    is_broken: bool = False
    requests_per_worker: int | None = None
    queue_per_worker: int | None = None
    keys: tuple[str, ...] = ()
    """The API keys that are taken; without any, every key is."""

    strict: bool = False
    env_file: Path | None = None
    run: str | None = None
    accounts_file: Path | None = None
    quotas: tuple[str, ...] = ()
    """`WINDOW=N` each."""

    capacity: int | None = None
    no_balance: bool = False
    template_release_s: float | None = None
    algorithm: Algorithm = Algorithm.SLIDING_LOG
    retry_after: bool = False
    retention_s: float = 1800.0
    propagation_s: float = PROPAGATION_S
    faults_file: Path | None = None
    faults: tuple[str, ...] = ()
    seed: int | None = None
    error_bodies: ErrorBodies = ErrorBodies.JSON
    webhooks_as_observed: bool = False
    service_retries: int = 0
    time_scale: float = 1.0
    page_size: int = PAGE_MAX
    without: tuple[str, ...] = ()
    """`INTERFACE` or `INTERFACE=STATUS` each."""


_other: Final = partial(Setting, of=EmulateRequest)
_served: Final = partial(Setting, of=EmulateRequest, panel="What is served")
_scaling: Final = partial(Setting, of=EmulateRequest, panel="Workers")
_account: Final = partial(Setting, of=EmulateRequest, panel="The account")
_behaviour: Final = partial(Setting, of=EmulateRequest, panel="How it behaves")

HANDLER: Final = _served(
    "handler",
    text("FILE.py:FUNCTION"),
    "Your function for every endpoint id, written as for the service's official worker: `def handler(job)`, plain or"
    ' `async`, with `job["input"]` and `job["id"]`; it returns or generates the output.',
    brief="Your function, behind every endpoint id",
)
ENDPOINTS: Final = _served(
    "endpoint",
    texts("NAME=FILE.py:FUNCTION"),
    "A function for one endpoint. Repeatable.",
    field="endpoints",
    brief="A function for one endpoint",
)
HTTP_ENDPOINTS: Final = _served(
    "http-endpoint",
    texts("NAME=FILE.py:APP"),
    "The ASGI application (FastAPI, Starlette …) that the workers of a [load balancing"
    " endpoint](interface-emulator.md#load-balancing-endpoints) run; `*` for each that is created. Repeatable.",
    field="http_endpoints",
)
HANDLER_PROCESSES: Final = _served(
    "handler-processes",
    whole(0),
    "Runs plain functions in so many processes at each endpoint rather than in threads: for work that fills a core, or"
    " that may crash. A crash fails its job.",
    default="0 (threads)",
)
WORKER: Final = _served(
    "worker",
    text("COMMAND"),
    'Starts processes that run the [official worker](interface-workers.md): `--worker "python handler.py"`.',
    more="Without any of these, endpoints exist once they are created.",
    brief="A command that runs the official worker",
)
KEYS: Final = _served(
    "key",
    texts("KEY"),
    "An API key that is taken. Repeatable.",
    field="keys",
    default="any key",
    brief="An API key that is taken; any, without",
)
STRICT: Final = _behaviour(
    "strict",
    SWITCH,
    "Refuses what the service was seen to refuse also where its contract is silent:"
    " [what that is](interface-emulator.md#strict).",
    brief="Refuses what the service was seen to refuse",
)
ENV: Final = _other(
    "env",
    path(Path),
    "Writes the variables that point this program and the official tools here to a file, `NAME=VALUE` a line.",
    field="env_file",
    brief="Writes the variables to use it to a file",
)
RUN: Final = _other(
    "run",
    text("COMMAND"),
    'Starts a command with these variables set, as in `--run "pytest -x"`, and ends with it and its exit code.',
    brief="Runs a command beside it, and ends with that",
)
ACCOUNTS: Final = _account(
    "accounts",
    path(Path, "FILE.toml"),
    "[Callers](interface-emulator.md#accounts): whom each key stands for, and what it may do.",
    more="Capacity, balance, quotas and the release of templates may stand there, too.",
    field="accounts_file",
)
QUOTAS: Final = _account(
    "quota",
    texts("WINDOW=N"),
    "So many requests by REST v2 in a `minute`, an `hour` or a `day`; wins over the file. Repeatable.",
    field="quotas",
    default="`minute=60`, `hour=3000`, `day=50000`",
)
CAPACITY: Final = _account(
    "capacity", whole(0), "There is room for so many pods that compute; wins over the file.", default="any number"
)
NO_BALANCE: Final = _account("no-balance", SWITCH, "Nothing is left to pay with: creating a pod is answered 402.")
TEMPLATE_RELEASE: Final = _account(
    "template-release",
    number("SECONDS"),
    "How long after its last use a template cannot be deleted; wins over the file.",
    field="template_release_s",
    default="120",
)
HOST: Final = _other("host", text("HOST"), "Where to listen.")
PORT: Final = _other(
    "port", whole(0, PORT_MAX, "PORT"), "Port to listen on; 0 is any free one.", brief="Where to listen; 8900"
)
WORKERS: Final = _scaling(
    "workers",
    whole(0),
    "So many workers at all times; wins over the next two. A worker runs one job at once.",
    of=None,
    brief="How many workers there are; 4",
)
WORKERS_MIN: Final = _scaling("workers-min", whole(0), "Never fewer workers.")
WORKERS_MAX: Final = _scaling("workers-max", whole(0), "Never more workers.")
IDLE_TIMEOUT: Final = _scaling(
    "idle-timeout", number("SECONDS"), "Stops a worker that was idle for so long.", field="idle_timeout_s"
)
SCALER: Final = _scaling("scaler", one_of(Scaler), "What starts workers.")
SCALER_VALUE: Final = _scaling(
    "scaler-value",
    number("N"),
    "The seconds that a job waits, or the jobs for each worker, before one more is started.",
)
COLD_START: Final = _scaling(
    "cold-start",
    number("SECONDS"),
    "From a worker's start to its first job.",
    field="cold_start_s",
    brief="From a worker's start to its first job",
)
MACHINES: Final = _scaling(
    "machines", whole(0), "There is a machine for so many workers; further ones are throttled.", default="any number"
)
BROKEN_WORKERS: Final = _scaling(
    "broken-workers",
    SWITCH,
    "Workers end by themselves when they should be ready, and are unhealthy.",
    field="is_broken",
)
REQUESTS_PER_WORKER: Final = _scaling(
    "requests-per-worker", whole(1), "Workers that are up raise the limits by so much each.", default="off"
)
QUEUE_PER_WORKER: Final = _scaling(
    "queue-per-worker",
    whole(1),
    "Answers 429 to `/run` while more than `N` jobs for each worker there may be (and more than 50) are queued.",
    default="off",
)
ALGORITHM: Final = _behaviour(
    "algorithm",
    one_of(Algorithm, "NAME"),  # the names together are wider than a screen
    "How requests are counted: `sliding_log`, `fixed_window`, `weighted_counter`, `token_bucket`, or"
    " `token_bucket_small` (a tenth of the requests at once).",
)
RETRY_AFTER: Final = _behaviour("retry-after", SWITCH, "Says in a 429 when to come again.")
SERVICE_RETRIES: Final = _behaviour(
    "service-retries",
    whole(0, 100, "N"),
    "Executes a job that fails up to N times more, by itself, before it is said to have failed.",
)
RETENTION: Final = _behaviour("retention", number("SECONDS"), "How long a finished job is kept.", field="retention_s")
PROPAGATION: Final = _behaviour(
    "propagation", number("SECONDS"), "How long a created endpoint answers 404 to jobs.", field="propagation_s"
)
FAULTS_FILE: Final = _behaviour(
    "faults", path(Path, "FILE.toml"), "[Faults](interface-emulator.md#faults) and their rates.", field="faults_file"
)
FAULTS: Final = _behaviour(
    "fault",
    texts("NAME=RATE"),
    "One fault, as `lost_answer=0.02`, or `not_json=1@60+40` for a while; wins over the file. Repeatable.",
    field="faults",
)
SEED: Final = _behaviour(
    "seed",
    whole(0),
    "Makes ids and faults the same every time.",
    default="chance",
    brief="Makes ids and faults the same every time",
)
ERROR_BODIES: Final = _behaviour("error-bodies", one_of(ErrorBodies), "Bodies of errors.")
WEBHOOKS_AS_OBSERVED: Final = _behaviour(
    "webhooks-as-observed",
    SWITCH,
    "Tries webhooks again after 5 s and 15 s, not after the contract's 10 s and 10 s, and takes any 2xx for a success,"
    " not 200 alone.",
)
PAGE_SIZE: Final = _behaviour(
    "page-size", whole(1, PAGE_MAX), "The most that a page of a list holds by REST v2, pods included."
)
WITHOUT: Final = _behaviour(
    "without",
    texts("INTERFACE[=STATUS]"),
    "An interface of the account that the service has not, or no longer: `v1`, `v2` (but for pods) or `graphql`,"
    " answered 404, or as in `v1=410`. Repeatable.",
    default="all are there",
)
TIME_SCALE: Final = _behaviour(
    "time-scale", number("X"), "Lets `X` seconds pass in one.", brief="Lets X seconds pass in one"
)
JSON: Final = _behaviour(
    "json",
    SWITCH,
    'Says URLs and variables as one JSON object, `{"urls": …, "environment": …}`, on standard output, once requests'
    " are taken.",
    of=None,
)

EMULATE: Final[command_settings.Settings] = (
    *(HANDLER, ENDPOINTS, HTTP_ENDPOINTS, HANDLER_PROCESSES, WORKER, KEYS, HOST, PORT),
    *(RUN, ENV, STRICT),
    *(ACCOUNTS, QUOTAS, CAPACITY, NO_BALANCE, TEMPLATE_RELEASE),
    *(WORKERS, WORKERS_MIN, WORKERS_MAX, IDLE_TIMEOUT, SCALER, SCALER_VALUE, COLD_START),
    *(MACHINES, BROKEN_WORKERS),
    *(REQUESTS_PER_WORKER, QUEUE_PER_WORKER, ALGORITHM, RETRY_AFTER, RETENTION, PROPAGATION),
    *(FAULTS_FILE, FAULTS, SEED, ERROR_BODIES, WEBHOOKS_AS_OBSERVED, SERVICE_RETRIES, TIME_SCALE),
    *(PAGE_SIZE, WITHOUT),
    *(command_settings.CONFIG, JSON),
)

EMULATOR: Final = Section(by_key(EMULATE), f"{ENVIRONMENT_PREFIX}EMULATE_", EMULATE_TABLE)
