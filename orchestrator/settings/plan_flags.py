"""What a plan is asked, and what it can be told of an endpoint, declared in the same way as the settings of runs."""

from typing import Any, Final

import msgspec

from orchestrator.core.gates.costs import Price
from orchestrator.settings import parsers
from orchestrator.settings.setting import SWITCH, Group, Setting, duration, whole
from orchestrator.settings.structs import RunRequest, RunSettings

FIGURES: Final = "What is known"


class PlanFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of an endpoint, so that a plan can be made of it. Durations are in microseconds."""

    execution_us: int | None = None
    """How long an execution takes; None: as the ledger tells."""

    workers: int | None = None
    """How many there will be at most."""

    start_us: int | None = None
    """How long a worker takes to start."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to plan: a run that was not begun, with what is known of its endpoint beside what the ledger tells."""

    run: RunRequest
    figures: PlanFigures = PlanFigures()
    probe: int | None = None
    """So many jobs of the input are executed first, to learn of their times; None: nothing is sent."""

    workers_there: int | None = None
    """How many workers the endpoint may have, as its settings in the account say; None: nobody was asked."""

    price_there: Price | None = None
    """What a second of a worker costs, as the account's catalog says; None: nobody was asked."""


_figures: Final = Group(PlanFigures, FIGURES)
_wish: Final = Group(RunSettings, "Jobs")

EXECUTION_TIME: Final = _figures(
    "execution-time",
    duration(parsers.some_time),
    "How long a worker takes for a job, about; it goes before what the ledger knows of the endpoint.",
    field="execution_us",
    default="as the latest executions in the ledger took",
    brief="How long an execution takes",
)
WORKERS: Final = _figures(
    "workers",
    whole(1),
    "How many workers the endpoint will have at most.",
    default="as the account says of the endpoint, or as many as were seen at work",
    brief="How many workers there will be",
)
COLD_START: Final = _figures(
    "cold-start",
    duration(),
    "How long a worker takes to start.",
    field="start_us",
    default="as the ledger tells, or not at all",
)
PROBE: Final = Setting(
    "probe",
    whole(1),
    "Executes N jobs first, spread over the input, and plans with what they took. They are paid: a run of their own,"
    " `NAME-probe`, of which the same command again sends nothing twice.",
    of=PlanRequest,
    default="nothing is sent",
    panel=FIGURES,
    brief="Sends so many rows first, to measure",
)

FIGURES_OF_PLAN: Final[tuple[Setting[Any], ...]] = (EXECUTION_TIME, WORKERS, COLD_START, PROBE)

# --- of runs

WORKERS_MAX: Final = _wish(
    "workers-max",
    whole(1),
    "[Raises](planning.md#workers-for-the-run) how many workers the endpoint may have to N while the run is at work."
    " The API key must be allowed to change endpoints.",
    default="as many as it may have",
)
WORKERS_MIN: Final = _wish(
    "workers-min",
    whole(1),
    "Keeps N workers warm at the endpoint while the run is at work; they are paid, busy or not.",
    default="as many as are kept warm",
)
DRY_RUN: Final = Setting(
    "dry-run",
    SWITCH,
    "Sends nothing, and [tells how it would go](planning.md), as `plan` does.",
    panel="What is shown",
    brief="Sends nothing, and says how it would go",
)
