"""`orchestrator emulate`.

Its settings stand apart from those of runs, in the file and in the environment (`config.EMULATOR`).
"""

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orchestrator.cli import options, printing
from orchestrator.cli.config import EMULATOR, Choices, choose
from orchestrator.cli.display import QuietView, view_for_stderr
from orchestrator.cli.execution import App, execute, explain
from orchestrator.cli.request import whole
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.api.emulation import EmulateRequest

PORT_DEFAULT: Final = 8900
PORT_MAX: Final = 65_535

SERVED: Final = "What is served"
SCALING: Final = "Workers"
BEHAVIOUR: Final = "How it behaves"


def _option(metavar: str, help_: str, panel: str | None = None) -> Any:
    return typer.Option(metavar=metavar, help=help_, rich_help_panel=panel)


def _switch(flag: str, help_: str) -> Any:
    return typer.Option(flag, metavar="", help=help_, rich_help_panel=BEHAVIOUR)


Host = Annotated[str | None, _option("HOST", "Where to listen. Default: 127.0.0.1, this machine only.")]
Port = Annotated[str | None, _option("PORT", "Port to listen on; 0 is any free one. Default: 8900.")]
Handler = Annotated[
    str | None,
    _option(
        "FILE.py:FUNCTION",
        "Your function for every endpoint, written as for the service's worker: def handler(job), which returns"
        " or generates the output.",
        SERVED,
    ),
]
Endpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--endpoint", metavar="NAME=FILE.py:FUNCTION", rich_help_panel=SERVED, help="One endpoint; repeatable."
    ),
]
HandlerProcesses = Annotated[
    str | None,
    _option(
        "N",
        "Run plain functions in so many processes rather than in threads: it may fill cores, or crash. Default: 0.",
        SERVED,
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="KEY", rich_help_panel=SERVED, help="An API key that is taken; repeatable. Else any is."
    ),
]
Worker = Annotated[
    str | None,
    _option("COMMAND", "Start processes that run the official worker: --worker 'python handler.py'.", SERVED),
]
Workers = Annotated[str | None, _option("N", "So many workers at all times.", SCALING)]
WorkersMin = Annotated[str | None, _option("N", "Never fewer workers. Default: 4.", SCALING)]
WorkersMax = Annotated[str | None, _option("N", "Never more workers; raised to --workers-min. Default: 4.", SCALING)]
IdleTimeout = Annotated[str | None, _option("SECONDS", "Stop a worker idle for so long. Default: 5.", SCALING)]
ScalerName = Annotated[
    str | None, _option("NAME", "QUEUE_DELAY or REQUEST_COUNT starts workers. Default: QUEUE_DELAY.", SCALING)
]
ScalerValue = Annotated[
    str | None, _option("N", "Seconds a job waits, or jobs per worker, for one more. Default: 4.", SCALING)
]
ColdStart = Annotated[str | None, _option("SECONDS", "From a worker's start to its first job. Default: 0.", SCALING)]
RequestsPerWorker = Annotated[
    str | None, _option("N", "Running workers raise the limits by so much each. Default: they do not.", SCALING)
]
QueuePerWorker = Annotated[
    str | None, _option("N", "Answer 429 to more queued jobs for each worker. Default: to none.", SCALING)
]
AlgorithmName = Annotated[
    str | None,
    _option(
        "NAME",
        "How requests are counted: sliding_log, fixed_window, weighted_counter, token_bucket, token_bucket_small."
        " Default: sliding_log.",
        BEHAVIOUR,
    ),
]
RetryAfter = Annotated[bool | None, _switch("--retry-after", "Say in a 429 when to come again.")]
Retention = Annotated[str | None, _option("SECONDS", "Keep results for so long. Default: 1800.", BEHAVIOUR)]
Propagation = Annotated[
    str | None, _option("SECONDS", "Answer 404 to jobs for so long after a creation. Default: 5.", BEHAVIOUR)
]
FaultsFile = Annotated[str | None, _option("FILE.toml", "Faults and their rates.", BEHAVIOUR)]
Fault = Annotated[
    list[str] | None,
    _option("NAME=RATE", "One fault, as lost_answer=0.02, or not_json=1@60+40 for a while; repeatable.", BEHAVIOUR),
]
Seed = Annotated[str | None, _option("N", "Make ids and faults the same every time.", BEHAVIOUR)]
ErrorBody = Annotated[
    str | None, _option("FORM", "Bodies of errors: json, plain, html or empty. Default: json.", BEHAVIOUR)
]
WebhooksAsObserved = Annotated[
    bool | None,
    _switch("--webhooks-as-observed", "Try webhooks again after 5 s and 15 s, not after the contract's 10 s and 10 s."),
]
TimeScale = Annotated[str | None, _option("X", "Let X seconds pass in one; 60 is a minute. Default: 1.", BEHAVIOUR)]
Json = Annotated[
    bool | None,
    _switch("--json", "Say URLs and variables as one JSON object on standard output, once requests are taken."),
]


def add_emulate(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `emulate`."""

    @commands.command()
    def emulate(  # one parameter for each flag, read through locals()
        handler: Handler = None,
        endpoint: Endpoints = None,
        handler_processes: HandlerProcesses = None,
        worker: Worker = None,
        key: Keys = None,
        host: Host = None,
        port: Port = None,
        workers: Workers = None,
        workers_min: WorkersMin = None,
        workers_max: WorkersMax = None,
        idle_timeout: IdleTimeout = None,
        scaler: ScalerName = None,
        scaler_value: ScalerValue = None,
        cold_start: ColdStart = None,
        requests_per_worker: RequestsPerWorker = None,
        queue_per_worker: QueuePerWorker = None,
        algorithm: AlgorithmName = None,
        retry_after: RetryAfter = None,
        retention: Retention = None,
        propagation: Propagation = None,
        faults: FaultsFile = None,
        fault: Fault = None,
        seed: Seed = None,
        error_bodies: ErrorBody = None,
        webhooks_as_observed: WebhooksAsObserved = None,
        time_scale: TimeScale = None,
        config: options.Config = None,
        json: Json = None,
    ) -> None:
        """Serve a stand-in for the whole service until Ctrl-C. Without function or worker, create endpoints first."""
        try:
            choices = choose(locals(), os.environ, EMULATOR)
            request, as_json = _request(choices), choices.switch("json")
        except UsageError as error:
            raise typer.Exit(explain(error)) from None
        view = view_for_stderr(quiet=False)
        raise typer.Exit(execute(partial(_emulate, load, view, request, as_json=as_json), needs=lambda: load().emulate))


def _number(least: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number < math.inf:
            raise ValueError(f'"{text:.40}" is no number from {least:g}')
        return number

    return parse


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "handler": ("handler", str),
    "handler-processes": ("handler_processes", whole(0)),
    "worker": ("worker", str),
    "host": ("host", str),
    "port": ("port", whole(0, PORT_MAX)),
    "workers-min": ("workers_min", whole(0)),
    "workers-max": ("workers_max", whole(0)),
    "idle-timeout": ("idle_timeout_s", _number(0)),
    "scaler": ("scaler", str),
    "scaler-value": ("scaler_value", _number(0)),
    "cold-start": ("cold_start_s", _number(0)),
    "requests-per-worker": ("requests_per_worker", whole(1)),
    "queue-per-worker": ("queue_per_worker", whole(1)),
    "algorithm": ("algorithm", str),
    "retention": ("retention_s", _number(0)),
    "propagation": ("propagation_s", _number(0)),
    "faults": ("faults_file", Path),
    "seed": ("seed", whole(0)),
    "error-bodies": ("error_bodies", str),
    "time-scale": ("time_scale", _number(0)),
}
"""What a setting is called in the request, and how it is read; whatever is not set has its default there."""


def _request(choices: Choices) -> "EmulateRequest":
    from orchestrator.api.emulation import EmulateRequest  # noqa: PLC0415  costs every --help the whole program

    chosen: dict[str, Any] = {"port": PORT_DEFAULT}
    for key, (field, parse) in _FIELDS.items():
        if (value := choices.parsed(key, parse)) is not None:
            chosen[field] = value
    if (workers := choices.parsed("workers", whole(0))) is not None:
        chosen |= {"workers_min": workers, "workers_max": workers}
    return EmulateRequest(
        **chosen,
        endpoints=choices.each("endpoint", str),
        keys=choices.each("key", str),
        faults=choices.each("fault", str),
        retry_after=choices.switch("retry-after"),
        webhooks_as_observed=choices.switch("webhooks-as-observed"),
    )


async def _emulate(load: Callable[[], App], view: QuietView, request: "EmulateRequest", *, as_json: bool) -> int:
    def ready(urls: Mapping[str, str], environment: Mapping[str, str]) -> None:
        if as_json:
            printing.put_json({"urls": dict(urls), "environment": dict(environment)})
            return
        printing.say(f"serving {_served(request)} at {urls['serverless_url']}; stop with Ctrl-C")
        for name, url in urls.items():
            printing.say(f"  {name:<15} {url}")
        printing.say("for this program and the official tools:")
        for name, value in environment.items():
            printing.say(f"  export {name}={value}")

    from orchestrator.cli.signals import stop_on_signals  # noqa: PLC0415  loads the event loop

    async with stop_on_signals(view, "stopping") as stop:
        await load().emulate(request, ready, stop)
    return 0


def _served(request: "EmulateRequest") -> str:
    named = [text.partition("=")[0] for text in request.endpoints]
    every = request.handler or request.worker
    return ", ".join([*named, *([every] if every else [])]) or "endpoints once they are created"
