"""What `orchestrator emulate` is asked for: the settings of the emulator, each declared once."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

from orchestrator.core.service.addresses import PORT_MAX
from orchestrator.emulator.batches.batch_rules import BatchOptions
from orchestrator.emulator.emulator_flags import EmulatorOptions
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.settings import command_flags
from orchestrator.settings.configuration_file import ENVIRONMENT_PREFIX, Section, by_key
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.sources import Choices
from orchestrator.settings.tables.table_names import EMULATE_TABLE
from orchestrator.settings.value_types import SWITCH, number, path, text, texts, whole

PORT_DEFAULT: Final = 8900
WORKERS_DEFAULT: Final = 4


_other: Final = Setting
_served: Final = partial(Setting, panel=Panel.SERVED)
_account: Final = partial(Setting, panel=Panel.ACCOUNT)
_behaviour: Final = partial(Setting, panel=Panel.BEHAVIOUR)


class EmulateRequest(EmulatorOptions, frozen=True, kw_only=True):
    """What is to be emulated; `docs/reference/interface-emulator.md` explains each."""

    host: Annotated[str, _other("host", text("HOST"), "Where to listen.")] = "127.0.0.1"
    port: Annotated[
        int,
        _other(
            "port", whole(0, PORT_MAX, "PORT"), "Port to listen on; 0 is any free one.", brief="Where to listen; 8900"
        ),
    ] = PORT_DEFAULT
    handler: Annotated[
        str | None,
        _served(
            "handler",
            text("FILE.py:FUNCTION"),
            "Your function for every endpoint id, written as for the service's official worker: `def handler(job)`,"
            " plain or"
            ' `async`, with `job["input"]` and `job["id"]`; it returns or generates the output.',
            brief="Your function, behind every endpoint id",
        ),
    ] = None
    endpoints: Annotated[
        tuple[str, ...],
        _served(
            "endpoint",
            texts("NAME=FILE.py:FUNCTION"),
            "A function for one endpoint. Repeatable.",
            brief="A function for one endpoint",
        ),
    ] = ()
    http_endpoints: Annotated[
        tuple[str, ...],
        _served(
            "http-endpoint",
            texts("NAME=FILE.py:APP"),
            "The ASGI application (FastAPI, Starlette …) that the workers of a [load balancing"
            " endpoint](interface-emulator.md#load-balancing-endpoints) run; `*` for each that is created. Repeatable.",
        ),
    ] = ()
    pod_servers: Annotated[
        tuple[str, ...],
        _served(
            "pod-server",
            texts("PORT=FILE.py:APP"),
            "The ASGI application that listens [in every pod](interface-emulator.md#pods) at this port, behind"
            " `/proxy/PODID-PORT`. Repeatable.",
        ),
    ] = ()
    worker: Annotated[
        str | None,
        _served(
            "worker",
            text("COMMAND"),
            'Starts processes that run the [official worker](interface-workers.md): `--worker "python handler.py"`.',
            more="Without any of these, endpoints exist once they are created.",
            brief="A command that runs the official worker",
        ),
    ] = None
    keys: Annotated[
        tuple[str, ...],
        _served(
            "key",
            texts("KEY"),
            "An API key that is taken. Repeatable.",
            default="any key",
            brief="An API key that is taken; any, without",
        ),
    ] = ()
    env_file: Annotated[
        Path | None,
        _other(
            "env",
            path(Path),
            "Writes the variables that point this program and the official tools here to a file, `NAME=VALUE` a line.",
            brief="Writes the variables to use it to a file",
        ),
    ] = None
    run: Annotated[
        str | None,
        _other(
            "run",
            text("COMMAND"),
            'Starts a command with these variables set, as in `--run "pytest -x"`, and ends with it and its exit code.',
            brief="Runs a command beside it, and ends with that",
        ),
    ] = None
    accounts_file: Annotated[
        Path | None,
        _account(
            "accounts",
            path(Path, "FILE.toml"),
            "[Callers](interface-emulator.md#accounts): whom each key stands for, and what it may do.",
            more="Capacity, balance, quotas and the release of templates may stand there, too.",
        ),
    ] = None
    quotas: Annotated[
        tuple[str, ...],
        _account(
            "quota",
            texts("WINDOW=N"),
            "So many requests by REST v2 in a `minute`, an `hour` or a `day`; wins over the file. Repeatable.",
            default="`minute=60`, `hour=3000`, `day=50000`",
        ),
    ] = ()
    capacity: Annotated[
        int | None,
        _account(
            "capacity",
            whole(0),
            "There is room for so many pods that compute; wins over the file.",
            default="any number",
        ),
    ] = None
    no_balance: Annotated[
        bool, _account("no-balance", SWITCH, "Nothing is left to pay with: creating a pod is answered 402.")
    ] = False
    template_release_s: Annotated[
        float | None,
        _account(
            "template-release",
            number("SECONDS"),
            "How long after its last use a template cannot be deleted; wins over the file.",
            default="120",
        ),
    ] = None
    faults_file: Annotated[
        Path | None,
        _behaviour("faults", path(Path, "FILE.toml"), "[Faults](interface-emulator.md#faults) and their rates."),
    ] = None
    faults: Annotated[
        tuple[str, ...],
        _behaviour(
            "fault",
            texts("NAME=RATE"),
            "One fault, as `lost_answer=0.02`, or `not_json=1@60+40` for a while; wins over the file. Repeatable.",
        ),
    ] = ()
    seed: Annotated[
        int | None,
        _behaviour(
            "seed",
            whole(0),
            "Makes ids and faults the same every time.",
            default="chance",
            brief="Makes ids and faults the same every time",
        ),
    ] = None
    webhooks_as_observed: Annotated[
        bool,
        _behaviour(
            "webhooks-as-observed",
            SWITCH,
            "Tries webhooks again after 5 s and 15 s, not after the contract's 10 s and 10 s, and takes any 2xx for a"
            " success, not 200 alone.",
        ),
    ] = False
    without: Annotated[
        tuple[str, ...],
        _behaviour(
            "without",
            texts("INTERFACE[=STATUS]"),
            "An interface of the account that the service has not, or no longer: `v1`, `v2` (but for pods) or"
            " `graphql`, answered 404, or as in `v1=410`. Repeatable.",
            default="all are there",
        ),
    ] = ()
    scaling: Scaling = Scaling(workers_min=WORKERS_DEFAULT, workers_max=WORKERS_DEFAULT)
    batch: BatchOptions = BatchOptions()


HANDLER: Final = setting_of(EmulateRequest, "handler")
ENDPOINTS: Final = setting_of(EmulateRequest, "endpoints")
HTTP_ENDPOINTS: Final = setting_of(EmulateRequest, "http_endpoints")
POD_SERVERS: Final = setting_of(EmulateRequest, "pod_servers")
WORKER: Final = setting_of(EmulateRequest, "worker")
RUN: Final = setting_of(EmulateRequest, "run")
WITHOUT: Final = setting_of(EmulateRequest, "without")
TIME_SCALE: Final = setting_of(EmulatorOptions, "time_scale")
WORKERS: Final[Setting[int]] = Setting(
    "workers",
    whole(0),
    "So many workers at all times; wins over the next two. A worker runs one job at once.",
    panel=Panel.WORKERS,
    brief="How many workers there are; 4",
)
JSON: Final[Setting[bool]] = _behaviour(
    "json",
    SWITCH,
    'Says URLs and variables as one JSON object, `{"urls": …, "environment": …}`, on standard output, once requests'
    " are taken.",
)

EMULATE: Final = command_flags.in_panels(
    *settings_in(EmulateRequest),
    WORKERS,
    *settings_in(Scaling),
    *settings_in(BatchOptions),
    *settings_in(EmulatorOptions),
    *(command_flags.CONFIG, JSON),
)

EMULATOR: Final = Section(by_key(EMULATE), f"{ENVIRONMENT_PREFIX}EMULATE_", EMULATE_TABLE)


def emulate_request(choices: Choices) -> EmulateRequest:
    """What was chosen."""
    workers = choices[WORKERS]
    scaling = {"workers_min": WORKERS_DEFAULT, "workers_max": WORKERS_DEFAULT} | choices.fields(Scaling)
    if workers is not None:
        scaling |= {"workers_min": workers, "workers_max": workers}
    scaling["workers_max"] = max(scaling["workers_min"], scaling["workers_max"])
    given = choices.fields(EmulatorOptions) | choices.fields(EmulateRequest)
    return EmulateRequest(scaling=Scaling(**scaling), batch=BatchOptions(**choices.fields(BatchOptions)), **given)
