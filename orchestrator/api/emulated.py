"""What `orchestrator emulate` is asked for: the settings of the emulator, each declared once."""

from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator import declared
from orchestrator.core.addresses import PORT_MAX
from orchestrator.declaration import SWITCH, Form, Setting, number, path, text, texts, whole
from orchestrator.emulator.answers import ErrorBodies
from orchestrator.emulator.counters import Algorithm
from orchestrator.emulator.fleet import PROPAGATION_S, Scaler

PORT_DEFAULT: Final = 8900

SERVED: Final = "What is served"
SCALING: Final = "Workers"
BEHAVIOUR: Final = "How it behaves"


class EmulateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be emulated; `docs/interface-emulator.md` explains each."""

    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    handler: str | None = None
    endpoints: tuple[str, ...] = ()
    """`NAME=FILE.py:FUNCTION` each."""

    handler_processes: int = 0
    worker: str | None = None
    workers_min: int = 4
    workers_max: int = 4
    idle_timeout_s: float = 5.0
    scaler: str = Scaler.QUEUE_DELAY.value
    scaler_value: float = 4.0
    cold_start_s: float = 0.0
    requests_per_worker: int | None = None
    queue_per_worker: int | None = None
    keys: tuple[str, ...] = ()
    """The API keys that are taken; without any, every key is."""

    algorithm: str = Algorithm.SLIDING_LOG.value
    retry_after: bool = False
    retention_s: float = 1800.0
    propagation_s: float = PROPAGATION_S
    faults_file: Path | None = None
    faults: tuple[str, ...] = ()
    seed: int | None = None
    error_bodies: str = ErrorBodies.JSON.value
    webhooks_as_observed: bool = False
    time_scale: float = 1.0


def _setting(key: str, form: Form[Any], means: str, panel: str | None = None, **more: Any) -> Setting[Any]:
    return Setting(key=key, form=form, means=means, panel=panel, **{"of": EmulateRequest, **more})


HANDLER: Final = _setting(
    "handler",
    text("FILE.py:FUNCTION"),
    "Your function for every endpoint id, written as for the service's official worker: `def handler(job)`, plain or"
    ' `async`, with `job["input"]` and `job["id"]`; it returns or generates the output.',
    SERVED,
)
ENDPOINTS: Final = _setting(
    "endpoint",
    texts("NAME=FILE.py:FUNCTION"),
    "A function for one endpoint. Repeatable.",
    SERVED,
    field="endpoints",
)
HANDLER_PROCESSES: Final = _setting(
    "handler-processes",
    whole(0),
    "Runs plain functions in so many processes at each endpoint rather than in threads: for work that fills a core, or"
    " that may crash. A crash fails its job.",
    SERVED,
    default="0 (threads)",
)
WORKER: Final = _setting(
    "worker",
    text("COMMAND"),
    'Starts processes that run the [official worker](interface-workers.md): `--worker "python handler.py"`.',
    SERVED,
    more="Without any of these three, endpoints exist once they are created.",
)
KEYS: Final = _setting(
    "key", texts("KEY"), "An API key that is taken. Repeatable.", SERVED, field="keys", default="any key"
)
HOST: Final = _setting("host", text("HOST"), "Where to listen.")
PORT: Final = _setting("port", whole(0, PORT_MAX, "PORT"), "Port to listen on; 0 is any free one.")
WORKERS: Final = _setting(
    "workers",
    whole(0),
    "So many workers at all times; wins over the next two. A worker runs one job at once.",
    SCALING,
    of=None,
)
WORKERS_MIN: Final = _setting("workers-min", whole(0), "Never fewer workers.", SCALING)
WORKERS_MAX: Final = _setting("workers-max", whole(0), "Never more workers.", SCALING)
IDLE_TIMEOUT: Final = _setting(
    "idle-timeout", number("SECONDS"), "Stops a worker that was idle for so long.", SCALING, field="idle_timeout_s"
)
SCALER: Final = _setting("scaler", text("NAME"), "What starts workers: `QUEUE_DELAY` or `REQUEST_COUNT`.", SCALING)
SCALER_VALUE: Final = _setting(
    "scaler-value",
    number("N"),
    "The seconds that a job waits, or the jobs for each worker, before one more is started.",
    SCALING,
)
COLD_START: Final = _setting(
    "cold-start", number("SECONDS"), "From a worker's start to its first job.", SCALING, field="cold_start_s"
)
REQUESTS_PER_WORKER: Final = _setting(
    "requests-per-worker", whole(1), "Workers that are up raise the limits by so much each.", SCALING, default="off"
)
QUEUE_PER_WORKER: Final = _setting(
    "queue-per-worker",
    whole(1),
    "Answers 429 to `/run` while more than `N` jobs for each worker there may be (and more than 50) are queued.",
    SCALING,
    default="off",
)
ALGORITHM: Final = _setting(
    "algorithm",
    text("NAME"),
    "How requests are counted: `sliding_log`, `fixed_window`, `weighted_counter`, `token_bucket`, or"
    " `token_bucket_small` (a tenth of the requests at once).",
    BEHAVIOUR,
)
RETRY_AFTER: Final = _setting("retry-after", SWITCH, "Says in a 429 when to come again.", BEHAVIOUR)
RETENTION: Final = _setting(
    "retention", number("SECONDS"), "How long a finished job is kept.", BEHAVIOUR, field="retention_s"
)
PROPAGATION: Final = _setting(
    "propagation",
    number("SECONDS"),
    "How long a created endpoint answers 404 to jobs.",
    BEHAVIOUR,
    field="propagation_s",
)
FAULTS_FILE: Final = _setting(
    "faults",
    path(Path, "FILE.toml"),
    "[Faults](interface-emulator.md#faults) and their rates.",
    BEHAVIOUR,
    field="faults_file",
)
FAULTS: Final = _setting(
    "fault",
    texts("NAME=RATE"),
    "One fault, as `lost_answer=0.02`, or `not_json=1@60+40` for a while; wins over the file. Repeatable.",
    BEHAVIOUR,
    field="faults",
)
SEED: Final = _setting("seed", whole(0), "Makes ids and faults the same every time.", BEHAVIOUR, default="chance")
ERROR_BODIES: Final = _setting(
    "error-bodies", text("FORM"), "Bodies of errors: `json`, `plain`, `html` or `empty`.", BEHAVIOUR
)
WEBHOOKS_AS_OBSERVED: Final = _setting(
    "webhooks-as-observed",
    SWITCH,
    "Tries webhooks again after 5 s and 15 s, not after the contract's 10 s and 10 s.",
    BEHAVIOUR,
)
TIME_SCALE: Final = _setting("time-scale", number("X"), "Lets `X` seconds pass in one.", BEHAVIOUR)
JSON: Final = _setting(
    "json",
    SWITCH,
    'Says URLs and variables as one JSON object, `{"urls":…,"environment":…}`, on standard output, once requests are'
    " taken.",
    BEHAVIOUR,
    of=None,
)

EMULATE: Final[declared.Settings] = (
    *(HANDLER, ENDPOINTS, HANDLER_PROCESSES, WORKER, KEYS, HOST, PORT),
    *(WORKERS, WORKERS_MIN, WORKERS_MAX, IDLE_TIMEOUT, SCALER, SCALER_VALUE, COLD_START),
    *(REQUESTS_PER_WORKER, QUEUE_PER_WORKER, ALGORITHM, RETRY_AFTER, RETENTION, PROPAGATION),
    *(FAULTS_FILE, FAULTS, SEED, ERROR_BODIES, WEBHOOKS_AS_OBSERVED, TIME_SCALE),
    *(declared.CONFIG, JSON),
)
