"""The flags, once each, with the help that a stranger understands.

None is "not given": the value may still come from the environment or the file (see `config`), so defaults stand in
the text only.
"""

from typing import Annotated, Final

import typer

from orchestrator.settings import OnExpired, OnStuck, OnUncertain

FILES: Final = "Files"
SERVICE: Final = "Service"
JOBS: Final = "Jobs"
TROUBLE: Final = "When things go wrong"
SHOWN: Final = "What is shown"

Source = Annotated[
    str,
    typer.Argument(metavar="INPUT", help="The input: JSON lines, one job a line. [bold]-[/] is standard input."),
]
RunName = Annotated[str, typer.Argument(metavar="NAME", help="The run, as [bold]orchestrator status[/] names it.")]

Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Endpoint id, or local:FILE.py:FUNCTION to run your own function here, without an account.",
        rich_help_panel=SERVICE,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The run's name; the same name is the same run. Default: the input's file name without its ending.",
        rich_help_panel=FILES,
    ),
]
Ledger = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The database that remembers everything. Default: orchestrator.db.",
        rich_help_panel=FILES,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where results are written, in input order, at the end or when interrupted."
        " Default: nowhere; ask for them with orchestrator results.",
        rich_help_panel=FILES,
    ),
]
Errors = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where failed and cancelled jobs are written. Default: OUTPUT.errors.jsonl.",
        rich_help_panel=FILES,
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with the same settings; flags and ORCHESTRATOR_<FLAG> variables win over it."
        " Default: orchestrator.toml where present.",
        rich_help_panel=FILES,
    ),
]
ServerlessUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the service is; /v2/ID/... is added. Default: https://api.runpod.ai.",
        rich_help_panel=SERVICE,
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Take the service's webhooks here. Default: no listener; results are polled.",
        rich_help_panel=SERVICE,
    ),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL under which the service reaches the listener. May be left out for a service on this machine.",
        rich_help_panel=SERVICE,
    ),
]
LimitRule = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OP=N/S[:C]",
        help="At most N requests of operation OP in S seconds, C at once, as in run=1000/10:200. Repeatable."
        " Default: the service's own limits.",
        rich_help_panel=SERVICE,
    ),
]
Pace = Annotated[
    str | None,
    typer.Option(
        "--pacing",
        metavar="even|window",
        help="How requests are spread within the limits: evenly, or as bursts that fill a window at once, for a service"
        " known to count plain windows. Default: even.",
        rich_help_panel=SERVICE,
    ),
]
RequestsPerWorker = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="How many requests in a limit's time each running worker adds, if you know it: limits then grow with"
        " the workers. Default: the base limits.",
        rich_help_panel=SERVICE,
    ),
]
MaxAttempts = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="How often a job may be executed before it counts as failed. Default: 3.",
        rich_help_panel=JOBS,
    ),
]
Ttl = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="A job's whole life at the service, queue and execution; 10s to 7d. Default: the service's, 24h.",
        rich_help_panel=JOBS,
    ),
]
ExecutionTimeout = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="The longest that a worker may run a job; 5s to 7d. Default: the service's, 10m.",
        rich_help_panel=JOBS,
    ),
]
Priority = Annotated[
    str | None,
    typer.Option(
        metavar="-10...10",
        help="The run's weight beside others at the same endpoint: more turns, or fewer below 0. Default: 0.",
        rich_help_panel=JOBS,
    ),
]
LowPriority = Annotated[
    bool | None,
    typer.Option(
        "--low-priority",
        metavar="",
        help="Jobs that do not make the endpoint start workers.",
        rich_help_panel=JOBS,
    ),
]
ResultRetention = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="How long the service keeps a result for us. Default: 30m.",
        rich_help_panel=JOBS,
    ),
]
WhenStuck = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(OnStuck),
        help="What becomes of a job that does not come to an end. Default: report.",
        rich_help_panel=TROUBLE,
    ),
]
EventsKept = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="How long the history of a finished job is kept whole in the ledger. Default: 30d.",
        rich_help_panel=TROUBLE,
    ),
]
StopAfterFailures = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Send no more once N executions in a row have failed. Default: however many.",
        rich_help_panel=TROUBLE,
    ),
]
Depth = Annotated[
    str | None,
    typer.Option(
        "--queue-depth",
        metavar="N|auto|off",
        help="How many jobs may wait in the endpoint's queue. Default: auto, what it finishes in ten minutes, or 1000.",
        rich_help_panel=JOBS,
    ),
]
WhenUncertain = Annotated[
    OnUncertain | None,
    typer.Option(
        "--on-uncertain",
        help="A submission that was never answered: send it again (it may be paid twice), wait until its TTL is over"
        " and send it again then, or give the job up. Default: resubmit.",
        rich_help_panel=TROUBLE,
    ),
]
UncertainAfter = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="How long to wait for news of such a submission first. Default: 10s, doubling; with webhooks 2m or more.",
        rich_help_panel=TROUBLE,
    ),
]
WhenExpired = Annotated[
    OnExpired | None,
    typer.Option(
        "--on-expired",
        help="A result that we came too late for: run the job once more, or give it up. Default: resubmit.",
        rich_help_panel=TROUBLE,
    ),
]
RetryFailed = Annotated[
    bool | None,
    typer.Option(
        "--retry-failed", metavar="", help="Run this run's failed and cancelled jobs again.", rich_help_panel=TROUBLE
    ),
]
Json = Annotated[
    bool | None,
    typer.Option("--json", metavar="", help="One JSON object on standard output at the end.", rich_help_panel=SHOWN),
]
JsonList = Annotated[bool | None, typer.Option("--json", metavar="", help="One JSON array on standard output.")]
Quiet = Annotated[
    bool | None,
    typer.Option(
        "--quiet", metavar="", help="No progress and no summary; only warnings and errors.", rich_help_panel=SHOWN
    ),
]
