"""The flags that only the command line has, and which command takes which settings."""

from functools import partial
from typing import Any, Final

from orchestrator.core.service.addresses import Address, parse_address
from orchestrator.settings.connection_settings import (
    PROFILE,
    REST_URL,
    SERVERLESS_URL,
    SERVICE_KEY,
    TRANSPORT,
    ConnectionSettings,
)
from orchestrator.settings.input_settings import INPUTS
from orchestrator.settings.output_settings import OUTPUTS
from orchestrator.settings.parsers import job_parsers
from orchestrator.settings.parsers.job_parsers import duration
from orchestrator.settings.parsers.job_policy import POLICY
from orchestrator.settings.parsers.name_parsers import parse_machine
from orchestrator.settings.run_request import (
    BODY_BYTES_MAX,
    ENDPOINT,
    ERRORS,
    INCLUDE,
    LEDGER,
    LOG_FILE,
    LOG_FORMAT,
    NAME,
    OUTPUT,
    POD_TEMPLATE,
    REPLACE_INPUT,
    RunRequest,
)
from orchestrator.settings.run_settings import ALLOW_ENV, PODS, RunSettings
from orchestrator.settings.setting import Panel, Setting, settings_in
from orchestrator.settings.value_types import SWITCH, parsed, text

Settings = tuple[Setting[Any], ...]

_shown: Final = partial(Setting, panel=Panel.SHOWN)

CONFIG: Final[Setting[str]] = Setting(
    "config",
    text("FILE"),
    "The [configuration file](#configuration): TOML with the same settings; flags and `ORCHESTRATOR_<FLAG>` variables"
    " win over it.",
    default="`orchestrator.toml` where present",
    panel=Panel.FILES,
)
GRACE: Final[Setting[int]] = Setting(
    "grace",
    duration(job_parsers.check_second_or_more),
    "Cancels each resumable job at the service once it has a newer checkpoint, and after so long at the latest.",
    default="at once",
    panel=Panel.LONG_JOBS,
)
DASHBOARD_ON: Final = "on"
DASHBOARD: Final[Setting[str]] = _shown(
    "dashboard",
    parsed("HOST:PORT", str),
    "Serves [the dashboard](dashboard.md) meanwhile, by a process of its own that has no API key and ends with this"
    " one. Without a value: where its settings say, else at 127.0.0.1:8901.",
    default="none is served",
    brief="Serves the dashboard meanwhile; alone: at 127.0.0.1:8901",
)
BATCH_API: Final[Setting[Address]] = _shown(
    "batch-api",
    parsed("HOST:PORT", parse_address),
    "Answers programs that are written for OpenAI's Batch API [there](batch-api.md): `base_url` is"
    " `http://HOST:PORT/v1`. Other machines reach it only where another host is named, and keys are set.",
    default="nobody is answered",
    brief="Answers programs for OpenAI's Batch API there",
)
ACCEPT_LOST_COMMITS: Final[Setting[bool]] = Setting(
    "accept-lost-commits",
    SWITCH,
    "Goes on where [the ledger's server has lost](postgres.md#what-breaks-it) what it had confirmed, with what it has."
    " What was sent meanwhile may be sent, and paid, again.",
    default="nothing is sent then, by nobody",
    panel=Panel.FILES,
)
MACHINE: Final[Setting[str]] = Setting(
    "name",
    parsed("NAME", parse_machine),
    "What people see in the place of this machine's name, where that says nothing, as in a container: `process 1 on"
    " NAME (serve)`. Of two that would be called the same, the later one has a number behind it.",
    default="the machine's name",
    panel=Panel.FILES,
)
NO_PIPELINES: Final[Setting[bool]] = Setting(
    "no-pipelines",
    SWITCH,
    "Leaves schedules and flows, and what else belongs to no run, to the other processes of [a ledger on a"
    " server](postgres.md#several-machines).",
    default="whoever comes first has them",
    panel=Panel.FILES,
)
DETACH: Final[Setting[bool]] = _shown(
    "detach",
    SWITCH,
    "Goes on in the background once the input is taken in, and returns. What it says goes to `LEDGER.log`.",
    brief="Goes on in the background",
)
DRY_RUN: Final[Setting[bool]] = _shown(
    "dry-run",
    SWITCH,
    "Sends nothing, and [tells how it would go](planning.md), as `plan` does.",
    brief="Sends nothing, and says how it would go",
)
JSON: Final[Setting[bool]] = _shown(
    "json",
    SWITCH,
    "One JSON object, the [summary](#the-summary), on standard output at the end.",
    brief="The summary as JSON on standard output",
)
QUIET: Final[Setting[bool]] = _shown(
    "quiet", SWITCH, "No progress and no summary for people; warnings and errors remain."
)
NOTE: Final[Setting[str]] = Setting("note", parsed("T", str), "Why, for whoever looks: it must be said.")
"""With which a schedule is paused."""

# --- which command takes which


def in_panels(*settings: Setting[Any]) -> Settings:
    """Those that have a flag, in the order of their panels."""
    panels: list[str | None] = [None, *Panel]
    return tuple(sorted((each for each in settings if each.has_flag), key=lambda each: panels.index(each.panel)))


_REQUEST: Final = settings_in(RunRequest)

PROCESS: Final[Settings] = (LEDGER, OUTPUT, ERRORS, *TRANSPORT)
"""What belongs to a process rather than to its run."""

KEPT: Final[Settings] = (*TRANSPORT, INCLUDE, *OUTPUTS, LOG_FILE, LOG_FORMAT, BODY_BYTES_MAX, *INPUTS)
"""What of that a run remembers for its next process, beside its files."""

RUN: Final[Settings] = in_panels(
    *(ENDPOINT, PROFILE, *settings_in(ConnectionSettings)),
    *(each for each in _REQUEST if each is not ENDPOINT),
    *(*INPUTS, *OUTPUTS, CONFIG, *POLICY, *settings_in(RunSettings)),
    *(DASHBOARD, DRY_RUN, DETACH, JSON, QUIET),
)
RESUME: Final[Settings] = in_panels(
    *(PROFILE, *TRANSPORT, ALLOW_ENV, PODS),
    *(each for each in _REQUEST if each not in (ENDPOINT, POD_TEMPLATE, NAME, REPLACE_INPUT)),
    *(*OUTPUTS, CONFIG, DASHBOARD, DETACH, JSON, QUIET),
)
SERVE: Final[Settings] = (PROFILE, SERVERLESS_URL, *TRANSPORT, LEDGER, CONFIG, LOG_FILE, LOG_FORMAT, JSON, QUIET)
DOCTOR: Final[Settings] = (PROFILE, SERVERLESS_URL, SERVICE_KEY, LEDGER, CONFIG, JSON)
TIDY: Final[Settings] = (PROFILE, SERVERLESS_URL, SERVICE_KEY, REST_URL, LEDGER, CONFIG)
FILE_ONLY: Final[Settings] = tuple(each for each in (*_REQUEST, *settings_in(RunSettings)) if not each.has_flag)
"""What stands in the configuration file only."""
