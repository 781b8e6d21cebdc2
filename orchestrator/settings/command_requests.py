"""What commands beside `run` and `resume` can be asked, each as one value."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from orchestrator.core.gates.costs import Price
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.parsers import job_parsers
from orchestrator.settings.parsers.job_parsers import duration
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.value_types import whole
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT, Include, LogFormat, OutputFormat, ResultOrder
from orchestrator.stores.object_url import Location

_figure: Final = partial(Setting, panel=Panel.FIGURES)


class ServeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `orchestrator serve` can be told."""

    ledger: LedgerAddress = LEDGER_DEFAULT
    connection: ConnectionSettings
    apply: tuple[Path, ...] = ()
    """The files of pipelines that are recorded first."""

    accept_lost_commits: bool = False
    """Whether to go on where the ledger's server has lost what it had confirmed."""

    takes_pipelines: bool = True
    """Whether it may have schedules and flows, where others share the ledger."""

    log_file: Path | None = None
    log_format: LogFormat = LogFormat.TEXT


class DoctorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at: a ledger, or one of its runs, or those at one endpoint, and what to ask their services with."""

    ledger: LedgerAddress = LEDGER_DEFAULT
    name: str | None = None
    endpoint: str | None = None
    """The id of one to ask, whether a run uses it or not; without a ledger it alone is looked at."""

    connection: ConnectionSettings = ConnectionSettings()
    no_account: str = ""
    """Why nobody knows with which account to ask, where that is so: then no service is asked."""


class ControlAction(StrEnum):
    """What a person can ask of a run while it goes on."""

    PAUSE = "pause"
    CONTINUE = "continue"
    CANCEL = "cancel"


class ResultsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `orchestrator results` can be told."""

    ledger: LedgerAddress = LEDGER_DEFAULT
    name: str | None = None
    """The run, or the beginning of its name; None for the only one."""

    errors: bool = False
    """The failed and cancelled jobs instead of the results."""

    failed: bool = False
    """Of these the failed ones alone."""

    where: str = ""
    """A filter that means the jobs; empty for all."""

    order: ResultOrder | None = None
    """None: in that of the input, those of a filter as they were taken in, and where they are followed as they end."""

    follow: bool = False
    """Also what ends from now on, in order of completion, until the run has ended."""

    include: tuple[Include, ...] = ()
    """What the rows carry besides."""

    writing: OutputSettings = OutputSettings()
    """Of which the order and the split are not for this."""


class RetryChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which failed and cancelled jobs are tried again, and with which settings of their own."""

    where: str = ""
    """A filter (`core.filters.filter_parser`); empty: all."""

    execution_timeout_ms: int | None = None
    ttl_ms: int | None = None
    max_attempts: int | None = None
    endpoint: str | None = None
    """Another endpoint of the run's service; None for the run's own."""


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to verify: a ledger and, where `output` is given, the files of one of its runs."""

    ledger: LedgerAddress
    name: str | None = None
    """The run that the files are of; None for the only one."""

    output: Location | None = None
    errors: Location | None = None
    format: OutputFormat | None = None
    """What the results are written in; None: as the run was told, or their name says."""

    order: ResultOrder | None = None
    """The order of both files; None: as the run was told, or that of the input."""

    complete: bool = False
    """Whether it is wrong that a job of the run is in neither file."""


class PlanFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of an endpoint, so that a plan can be made of it. Durations are in microseconds."""

    execution_us: Annotated[
        int | None,
        _figure(
            "execution-time",
            duration(job_parsers.check_not_zero),
            "How long a worker takes for a job, about; it goes before what the ledger knows of the endpoint.",
            default="as the latest executions in the ledger took",
            brief="How long an execution takes",
        ),
    ] = None
    start_us: Annotated[
        int | None,
        _figure(
            "cold-start",
            duration(),
            "How long a worker takes to start.",
            default="as the ledger tells, or not at all",
        ),
    ] = None


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to plan: a run that was not begun, with what is known of its endpoint beside what the ledger tells."""

    run: RunRequest
    figures: PlanFigures = PlanFigures()
    probe: Annotated[
        int | None,
        _figure(
            "probe",
            whole(1),
            "Executes N jobs first, spread over the input, and plans with what they took. They are paid: a run of"
            " their own, `NAME-probe`, of which the same command again sends nothing twice.",
            default="nothing is sent",
            brief="Sends so many rows first, to measure",
        ),
    ] = None
    workers_there: int | None = None
    """How many workers the endpoint may have, as its settings in the account say; None: nobody was asked."""

    price_there: Price | None = None
    """What a second of a worker costs, as the account's catalog says; None: nobody was asked."""


EXECUTION_TIME: Final[Setting[int]] = setting_of(PlanFigures, "execution_us")
PROBE: Final[Setting[int]] = setting_of(PlanRequest, "probe")

FIGURES_OF_PLAN: Final[tuple[Setting[Any], ...]] = (*settings_in(PlanFigures), PROBE)
