"""What can be asked of a run's process, by `run` and `resume`, beside the settings of the run itself: input, files,
ledger, log.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec

from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.text.object_urls import file_name_for
from orchestrator.settings.addresses.ledger_address import LedgerAddress, folder_of
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.parsers import name_parsers, row_parsers
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Panel, Setting, setting_of
from orchestrator.settings.value_types import SWITCH, Kind, ValueType, one_of, parsed, path, whole
from orchestrator.settings.words_and_defaults import BODY_BYTES_MAX_DEFAULT, LEDGER_DEFAULT, Include, LogFormat
from orchestrator.stores.object_url import Location, ObjectUrl

_service: Final = partial(Setting, panel=Panel.SERVICE)
_file: Final = partial(Setting, panel=Panel.FILES)
_input: Final = partial(Setting, panel=Panel.INPUT)
_trouble: Final = partial(Setting, panel=Panel.TROUBLE)
_shown: Final = partial(Setting, panel=Panel.SHOWN)


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line takes from the configuration file and the environment, as texts."""

    named: str | None = None
    """The file, if it was named."""

    in_file: Mapping[str, tuple[str, ...]] = {}
    """What stands there, by key."""

    in_environment: frozenset[str] = frozenset()
    """The keys of what was set by a variable. The next command may be given without it."""

    in_flags: frozenset[str] = frozenset()
    """The keys of what was set by its flag."""

    @property
    def chosen(self) -> frozenset[str]:
        """The keys of all that was set, whichever way."""
        return self.in_flags | self.in_environment | frozenset(self.in_file)


def errors_beside(output: Location) -> Location:
    """Where the errors file is written if only its results file is named."""
    return output.parent / f"{output.name}.errors.jsonl"  # with_name refuses "." and "/"


def partial_of(output: Location, ledger: LedgerAddress) -> Path:
    """Where the results grow that are written to `output` in the end: beside that, or beside the `ledger`, where
    it is elsewhere.
    """
    if isinstance(output, ObjectUrl):
        return folder_of(ledger) / f"{file_name_for(output.url)}.partial"
    return output.parent / f"{output.name}.partial"


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `orchestrator run` and `orchestrator resume` can be told."""

    name: Annotated[
        str,
        _file(
            "name",
            parsed("NAME", name_parsers.parse_run_name),
            "The run's name, 1 to 200 characters. The same name is the same run.",
            default="the input's file name without its ending; standard input needs a name",
            brief="The run's name; the same name is the same run",
        ),
    ]
    named: bool = True
    """Whether the user chose the name, or it is the stem of the input's file name."""

    endpoint: Annotated[
        str | None,
        _service(
            "endpoint",
            parsed("ID|NAME", name_parsers.parse_endpoint),
            "The endpoint's id, or its [name](#names-of-endpoints), or `local:FILE.py:FUNCTION`: a function of your"
            " own, run here by the embedded emulator, without an account. A URL is [a server without a"
            " queue](without-a-queue.md). Several, with commas between them, are a [pool](pools.md), as is"
            " `pool:NAME`.",
            default="required",
            brief="The endpoint, or local:FILE.py:FUNCTION. Required",
        ),
    ]
    pod_template: Annotated[
        str | None,
        _service(
            "pod-template",
            parsed("NAME", name_parsers.parse_pod_template),
            "In the place of an endpoint: [pods that work for the run](pods.md), as `[pod-templates.NAME]` of the"
            " configuration file says.",
            default="none",
            brief="Pods for the run, in an endpoint's place",
        ),
    ] = None
    ledger: Annotated[
        LedgerAddress,
        _file(
            "ledger",
            path(name_parsers.parse_ledger),
            "The database that remembers everything: a file, or one on a server of PostgreSQL, by its URL, as"
            " `postgresql://me@db.example/batches`.",
            brief="What remembers everything, a file or a postgresql:// URL; orchestrator.db",
        ),
    ] = LEDGER_DEFAULT
    source: str | None
    """The input: a path, or `-` for standard input, or several, one on each line. None: continue without reading any
    (`resume`)."""

    reading: InputSettings = InputSettings()
    replace_input: Annotated[
        bool,
        _input(
            "replace-input",
            SWITCH,
            "The input [replaces the one that the run has](how-it-works.md#a-corrected-input): jobs that are no"
            " longer in it go, if they have not succeeded. Without it, whoever sits at a terminal is asked.",
        ),
    ] = False
    output: Annotated[
        Location | None,
        _file(
            "output",
            path(name_parsers.parse_output_path),
            "Where the [results](#results) are written, in input order, when the run ends or is interrupted: a file,"
            " the [URL](object-stores.md) of an object, or `-` for standard output. Until then they grow in"
            " `FILE.partial`, as they come.",
            default="nowhere; the end names `orchestrator results NAME`",
            brief="Where the results are written, in input order",
        ),
    ] = None
    errors: Annotated[
        Location | None,
        _file(
            "errors",
            path(name_parsers.parse_output_path),
            "Where the [failed and cancelled](#errors) jobs are written. Needs `--output`.",
            default="`OUTPUT.errors.jsonl`",
        ),
    ] = None
    include: Annotated[
        tuple[Include, ...],
        _file(
            "include",
            ValueType(Kind.TEXT, "WHAT,...", row_parsers.parse_include, ",".join, words=tuple(Include)),
            "What the rows of results and errors [carry besides](#results): `input`, `line`, `worker`, `endpoint`,"
            " `times`, and `text`, the whole of what a worker said of an error; several with commas between them.",
            default="nothing",
        ),
    ] = ()
    writing: OutputSettings = OutputSettings()
    overwrite: Annotated[
        bool,
        _file(
            "overwrite",
            SWITCH,
            "Replaces an output file that is there already. Without it, that is refused unless the run has written"
            " it; what another run of the ledger has written is never replaced.",
        ),
    ] = False
    fresh_start: Annotated[
        bool,
        _file(
            "afresh",
            SWITCH,
            "Takes [nothing over](how-it-works.md#the-same-run-again) from the run's last command.",
        ),
    ] = False
    members: tuple[MemberSettings, ...] = ()
    """The endpoints of its pool, `endpoint` the first of them; none where that is the only one."""

    connection: ConnectionSettings
    settings: RunSettings | None = None
    """None: what the run has (`resume`)."""

    remembered: RunSettings | None = None
    """What the run had when `settings` were made of that."""

    body_bytes_max: Annotated[
        int,
        Setting(
            "body-bytes-max",
            whole(1),
            "The largest request body, in bytes; a row that would exceed it is an error of the input.",
            default="10485760 (10 MiB, the service's limit)",
            has_flag=False,
        ),
    ] = BODY_BYTES_MAX_DEFAULT
    retry_failed: Annotated[
        bool,
        _trouble(
            "retry-failed",
            SWITCH,
            "Opens the run's failed and cancelled jobs again. Refused for a run that was cancelled, before"
            " `orchestrator unpause`.",
            brief="Opens what failed in this run before again",
        ),
    ] = False
    log_file: Annotated[
        Path | None,
        _shown(
            "log-file",
            path(name_parsers.parse_path),
            "Appends to this file when the process began and why it ended, what it says, warns of and is held up by,"
            " and the kinds of failures, without secrets.",
            default="no log",
        ),
    ] = None
    log_format: Annotated[
        LogFormat,
        _shown("log-format", one_of(LogFormat), "How its lines are written; `json` is one object a line."),
    ] = LogFormat.TEXT
    allow_env: tuple[str, ...] = ()
    """Besides what the run's settings have."""

    pods: int | None = None
    """So many, in the place of what its settings have."""

    only_rows: frozenset[int] | None = None
    """That are taken in, counted from 1; None: all."""

    configuration: Configuration | None = None
    """What the next command has without a flag; None: the request was not made by a command line."""


ENDPOINT: Final[Setting[str]] = setting_of(RunRequest, "endpoint")
POD_TEMPLATE: Final[Setting[str]] = setting_of(RunRequest, "pod_template")
NAME: Final[Setting[str]] = setting_of(RunRequest, "name")
LEDGER: Final[Setting[LedgerAddress]] = setting_of(RunRequest, "ledger")
OUTPUT: Final[Setting[Location]] = setting_of(RunRequest, "output")
ERRORS: Final[Setting[Location]] = setting_of(RunRequest, "errors")
INCLUDE: Final[Setting[tuple[Include, ...]]] = setting_of(RunRequest, "include")
OVERWRITE: Final[Setting[bool]] = setting_of(RunRequest, "overwrite")
FRESH_START: Final[Setting[bool]] = setting_of(RunRequest, "fresh_start")
BODY_BYTES_MAX: Final[Setting[int]] = setting_of(RunRequest, "body_bytes_max")
RETRY_FAILED: Final[Setting[bool]] = setting_of(RunRequest, "retry_failed")
LOG_FILE: Final[Setting[Path]] = setting_of(RunRequest, "log_file")
LOG_FORMAT: Final[Setting[LogFormat]] = setting_of(RunRequest, "log_format")
REPLACE_INPUT: Final[Setting[bool]] = setting_of(RunRequest, "replace_input")
