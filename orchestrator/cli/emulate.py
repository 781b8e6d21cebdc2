"""`orchestrator emulate`."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import printing
from orchestrator.cli.display import QuietView, view_for_stderr
from orchestrator.cli.execution import App, execute

if TYPE_CHECKING:
    from orchestrator.app.emulation import EmulateRequest

PORT_DEFAULT = 8900
WORKERS_DEFAULT = 4

PORT_MAX = 65_535

SERVED = "What is served"
SCALING = "Workers"
BEHAVIOUR = "How it behaves"

Host = Annotated[str, typer.Option(metavar="HOST", help="Where to listen; by default this machine only.")]
Port = Annotated[int, typer.Option(metavar="PORT", min=0, max=PORT_MAX, help="Port to listen on; 0 is any free one.")]
Handler = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        rich_help_panel=SERVED,
        help="Your function for every endpoint, written as for the service's worker: def handler(job), which returns"
        " or generates the output.",
    ),
]
Endpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--endpoint", metavar="NAME=FILE.py:FUNCTION", rich_help_panel=SERVED, help="One endpoint; repeatable."
    ),
]
HandlerProcesses = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        rich_help_panel=SERVED,
        help="Run plain functions in so many processes rather than in threads: it may fill cores, or crash.",
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
    typer.Option(
        metavar="COMMAND",
        rich_help_panel=SERVED,
        help="Start processes that run the official worker: --worker 'python handler.py'.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(metavar="N", min=0, rich_help_panel=SCALING, help="So many workers at all times.")
]
WorkersMin = Annotated[int, typer.Option(metavar="N", min=0, rich_help_panel=SCALING, help="Never fewer workers.")]
WorkersMax = Annotated[
    int,
    typer.Option(metavar="N", min=0, rich_help_panel=SCALING, help="Never more workers; raised to --workers-min."),
]
IdleTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, rich_help_panel=SCALING, help="Stop a worker idle for so long.")
]
ScalerName = Annotated[
    str, typer.Option(metavar="NAME", rich_help_panel=SCALING, help="QUEUE_DELAY or REQUEST_COUNT starts workers.")
]
ScalerValue = Annotated[
    float,
    typer.Option(metavar="N", rich_help_panel=SCALING, help="Seconds a job waits, or jobs per worker, for one more."),
]
ColdStart = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, rich_help_panel=SCALING, help="From a worker's start to its first job."),
]
RequestsPerWorker = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, rich_help_panel=SCALING, help="Running workers raise the limits by so much each."),
]
QueuePerWorker = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, rich_help_panel=SCALING, help="Answer 429 to more queued jobs for each worker."),
]
AlgorithmName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=BEHAVIOUR,
        help="How requests are counted: sliding_log, fixed_window, weighted_counter, token_bucket, token_bucket_small.",
    ),
]
RetryAfter = Annotated[
    bool, typer.Option("--retry-after", rich_help_panel=BEHAVIOUR, help="Say in a 429 when to come again.")
]
Retention = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, rich_help_panel=BEHAVIOUR, help="Keep results for so long.")
]
Propagation = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, rich_help_panel=BEHAVIOUR, help="Answer 404 to jobs for so long after a creation."
    ),
]
FaultsFile = Annotated[
    Path | None, typer.Option(metavar="FILE.toml", rich_help_panel=BEHAVIOUR, help="Faults and their rates.")
]
Fault = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=RATE", rich_help_panel=BEHAVIOUR, help="One fault, as lost_answer=0.02; repeatable."),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", rich_help_panel=BEHAVIOUR, help="Make ids and faults the same every time.")
]
ErrorBody = Annotated[
    str, typer.Option(metavar="FORM", rich_help_panel=BEHAVIOUR, help="Bodies of errors: json, plain, html or empty.")
]
WebhooksAsObserved = Annotated[
    bool,
    typer.Option(
        "--webhooks-as-observed",
        rich_help_panel=BEHAVIOUR,
        help="Try webhooks again after 5 s and 15 s, not after the contract's 10 s and 10 s.",
    ),
]
TimeScale = Annotated[
    float, typer.Option(metavar="X", rich_help_panel=BEHAVIOUR, help="Let X seconds pass in one; 60 is a minute.")
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        metavar="",
        rich_help_panel=BEHAVIOUR,
        help="Say URLs and variables as one JSON object on standard output, once requests are taken.",
    ),
]


def add_emulate(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `emulate`."""

    @commands.command()
    def emulate(
        handler: Handler = None,
        endpoint: Endpoints = None,
        handler_processes: HandlerProcesses = 0,
        worker: Worker = None,
        key: Keys = None,
        host: Host = "127.0.0.1",
        port: Port = PORT_DEFAULT,
        workers: Workers = None,
        workers_min: WorkersMin = WORKERS_DEFAULT,
        workers_max: WorkersMax = WORKERS_DEFAULT,
        idle_timeout: IdleTimeout = 5.0,
        scaler: ScalerName = "QUEUE_DELAY",
        scaler_value: ScalerValue = 4.0,
        cold_start: ColdStart = 0.0,
        requests_per_worker: RequestsPerWorker = None,
        queue_per_worker: QueuePerWorker = None,
        algorithm: AlgorithmName = "sliding_log",
        retry_after: RetryAfter = False,
        retention: Retention = 1800.0,
        propagation: Propagation = 5.0,
        faults: FaultsFile = None,
        fault: Fault = None,
        seed: Seed = None,
        error_bodies: ErrorBody = "json",
        webhooks_as_observed: WebhooksAsObserved = False,
        time_scale: TimeScale = 1.0,
        as_json: AsJson = False,
    ) -> None:
        """Serve a stand-in for the whole service until Ctrl-C. Without function or worker, create endpoints first."""
        from orchestrator.app.emulation import EmulateRequest  # noqa: PLC0415  costs every --help the whole program

        request = EmulateRequest(
            host=host,
            port=port,
            handler=handler,
            endpoints=tuple(endpoint or ()),
            handler_processes=handler_processes,
            worker=worker,
            keys=tuple(key or ()),
            workers_min=workers_min if workers is None else workers,
            workers_max=workers_max if workers is None else workers,
            idle_timeout_s=idle_timeout,
            scaler=scaler,
            scaler_value=scaler_value,
            cold_start_s=cold_start,
            requests_per_worker=requests_per_worker,
            queue_per_worker=queue_per_worker,
            algorithm=algorithm,
            retry_after=retry_after,
            retention_s=retention,
            propagation_s=propagation,
            faults_file=faults,
            faults=tuple(fault or ()),
            seed=seed,
            error_bodies=error_bodies,
            webhooks_as_observed=webhooks_as_observed,
            time_scale=time_scale,
        )
        raise typer.Exit(execute(partial(_emulate, load, view_for_stderr(quiet=False), request, as_json=as_json)))


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

    await load().emulate(request, view, ready)
    return 0


def _served(request: "EmulateRequest") -> str:
    named = [text.partition("=")[0] for text in request.endpoints]
    every = request.handler or request.worker
    return ", ".join([*named, *([every] if every else [])]) or "endpoints once they are created"
