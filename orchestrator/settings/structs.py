"""What can be set.

`RunSettings` belong to a run and are stored with it in the ledger; the later process may change them. `Settings` belong
to a process. Neither ever holds a secret's value in a field that is stored or printed.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

import msgspec

from orchestrator.core.gates.brake_settings import BrakeSettings
from orchestrator.core.jobs.deadlines import RETENTION_US_DEFAULT
from orchestrator.core.jobs.escalation import EscalationRule
from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.core.jobs.retry import AttemptLimits
from orchestrator.core.jobs.segments import SegmentLimits
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation, Pacing
from orchestrator.core.polling.admission import QueueDepth
from orchestrator.core.service.openai import Via
from orchestrator.core.text.durations import TTL_MS_DEFAULT, Policy
from orchestrator.units import MIB

SERVERLESS_URL_DEFAULT: Final = "https://api.runpod.ai"
"""The public host of the service; `/v2/{endpoint_id}/...` is added."""

BASE_URL_DEFAULT: Final = "https://api.runpod.io"
"""The public host of the REST interface; `/v2/pods/...` is added. One letter apart from the job host."""

REST_URL_DEFAULT: Final = "https://rest.runpod.io"
"""The public host of the older REST interface, which creates endpoints; `/v1/endpoints` is added."""

GRAPHQL_URL_DEFAULT: Final = "https://api.runpod.io/graphql"
"""The public GraphQL address, for templates and secrets."""

KeyPlace = Literal["query", "header"]
"""Where GraphQL gets the API key: the parameter `api_key` of the contract, or `Authorization: Bearer`."""

LEDGER_DEFAULT: Final = Path("orchestrator.db")
STANDARD_INPUT: Final = "-"
"""The input of that name is standard input."""

LOCAL: Final = "local:"
"""What an endpoint begins with that is a function of the user's, run by the embedded emulator."""

API_KEY_VARIABLES: Final = ("ORCHESTRATOR_API_KEY", "RUNPOD_API_KEY")
"""Where the API key comes from, the first that is set."""

CONFIGURATION_DEFAULT: Final = Path("orchestrator.toml")
"""The configuration file that is read, where it is present, when none is named."""

BODY_BYTES_MAX_DEFAULT: Final = 10 * MIB
"""The largest body that the service takes on `/run`."""

INPUT_BYTES_MAX_DEFAULT: Final = 64 * 1024 * MIB
"""So much may be in an input, unpacked: a small file can hold any amount of zeros."""

EVENTS_KEPT_US_DEFAULT: Final = 30 * 86_400 * 1_000_000  # 30 days

PROGRESS_EVERY_US_DEFAULT: Final = 60_000_000
"""How often a resumable job is asked how far it is: each minute."""


class OnUncertain(StrEnum):
    """What becomes of a submission whose answer never came and which nobody adopted."""

    RESUBMIT = "resubmit"
    HOLD = "hold"
    FAIL = "fail"


class OnExpired(StrEnum):
    """What becomes of a job whose result we came too late for."""

    RESUBMIT = "resubmit"
    FAIL = "fail"


class OnStuck(StrEnum):
    """What becomes of a job that does not come to an end."""

    REPORT = "report"
    RESUBMIT = "resubmit"


IN_FLIGHT_S_MAX: Final = 10.0
"""How long requests in flight may go on once we stop; what is unanswered then is uncertain."""


class Pinned(msgspec.Struct, frozen=True):
    """A file of the user's, or a function in one, as it was when it was named: another file is another validator."""

    ref: str
    """A full path, with `:FUNCTION` behind it where a function is meant; or `MODULE:FUNCTION`."""

    sha256: str
    """Of the file."""


class RunSettings(BrakeSettings, frozen=True, kw_only=True):
    """The settings of one run. Durations are in microseconds."""

    via: Via = Via.QUEUE
    policy: Policy = Policy()
    max_attempts: int = 3
    retention_us: int = RETENTION_US_DEFAULT
    on_uncertain: OnUncertain = OnUncertain.RESUBMIT
    uncertain_after_us: int | None = None
    on_expired: OnExpired = OnExpired.RESUBMIT
    queue_depth: QueueDepth = "auto"
    on_stuck: OnStuck = OnStuck.REPORT
    reuse: Reuse | None = None  # that its jobs take results again that are there
    once: bool = False  # whether of rows with the same input one is sent, whose result the others have
    takes_over: int | None = None  # the run of its stage the time before: what has succeeded there is not sent again
    events_kept_us: int = EVENTS_KEPT_US_DEFAULT
    """How long the history of a job that has ended is kept whole."""

    stop_after_failures: int | None = None
    """So many failed executions in a row end the sending; None: however many."""

    give_up_after_us: int | None = None
    """The run ends when it got nowhere for so long; None: however long."""

    priority: int = 0
    """The run's weight in its endpoint's turns beside other runs, from -10 (least) to 10."""

    output_required: bool = False  # `COMPLETED` without any output, or with null, is a failure
    stream: bool = False  # what its workers yield is gathered into the outputs
    schema: Pinned | None = None
    """The JSON Schema that outputs have to fit."""

    check: Pinned | None = None
    """The function that outputs have to please."""
    workers_max: int | None = None  # of its endpoint, while it is at work; None: as it is
    workers_min: int | None = None
    allow_env: tuple[str, ...] = ()  # which environment variables its rows may name (`core.row_variables`)
    resumable: bool = False
    """Whether its jobs outlive their submissions: each goes on from its newest checkpoint (`core.resuming`)."""

    progress_every_us: int = PROGRESS_EVERY_US_DEFAULT
    """How often a resumable job is asked how far it is; 0: at its deadlines only."""

    stall_after_us: int | None = None
    """A resumable job is stuck that has had nothing new to report for so long; None: that is not looked at."""

    max_segments: int = 100
    max_execution_us: int | None = None
    """How long a resumable job may be executed in all its segments together; None: however long."""

    escalate: tuple[EscalationRule, ...] = ()
    """What jobs are given after their troubles."""

    notify: str | None = None  # who is told of its end, and of what has stopped it (`written.notify`)
    retry_budget: int | None = None
    """So many millionths of its jobs may have an execution repeated; None: any number."""

    output: str | None = None
    """Where its results were written last, a full path; None: nowhere, or to a stream. A `resume` writes there, too."""

    errors: str | None = None
    files_at: int = 0
    """When these two were named (microseconds UTC): of several runs that name one file, it is the latest's."""

    cli_defaults: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="told")
    """What the last command had set of its process, as texts by key (`api.runs.run_defaults`)."""

    @property
    def limits(self) -> AttemptLimits:
        """How often a job of the run may be executed again."""
        return AttemptLimits(
            executions=self.max_attempts,
            uncertain=0 if self.on_uncertain is OnUncertain.FAIL else 3,
            expired=0 if self.on_expired is OnExpired.FAIL else 1,
        )

    @property
    def segments(self) -> SegmentLimits:
        """How often, and how long in all, a resumable job of the run may be executed."""
        return SegmentLimits(segments=self.max_segments, execution_us=self.max_execution_us)

    @property
    def ttl_us(self) -> int:
        """The TTL of the run's jobs where a row does not say otherwise."""
        return (self.policy.ttl_ms or TTL_MS_DEFAULT) * 1000


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a process reaches the service and is reached by it."""

    serverless_url: str = SERVERLESS_URL_DEFAULT
    api_key: str = ""
    """Never stored, printed or logged: `repr` leaves it out."""

    listen: str | None = None
    """`HOST:PORT` of the webhook listener; None for none."""

    webhook_url: str | None = None
    """Under which URL the service reaches the listener; None: the listener's own, for a service on loopback."""

    key_variables: frozenset[str] = frozenset()  # what holds keys of ours beside those that `keys` names
    limits: Mapping[Operation, Limit] = CONTRACT_LIMITS
    pacing: Pacing = "even"
    rest_url: str = REST_URL_DEFAULT
    requests_per_worker: int | None = None
    """What each running worker adds to the limits (contract, Limits, dynamic rule); None: that is not known."""

    keys: Mapping[str, str] = {}
    """API keys of further services by URL, or `env:NAME` for the variable that holds one. Never stored or printed."""

    def key_for(self, service_url: str, environ: Mapping[str, str]) -> str:
        """The API key for the service at that URL; "" where there is none."""
        if service_url == self.serverless_url.rstrip("/"):
            return self.api_key
        key = self.keys.get(service_url, "")
        return environ.get(key.removeprefix("env:"), "") if key.startswith("env:") else key

    def __repr__(self) -> str:
        return f"ConnectionSettings(serverless_url={self.serverless_url!r}, listen={self.listen!r})"


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


def errors_beside(output: Path) -> Path:
    """Where the errors file is written if only its results file is named."""
    return output.parent / f"{output.name}.errors.jsonl"  # with_name refuses "." and "/"


class Include(StrEnum):
    """What rows of results and errors can carry besides."""

    INPUT = "input"
    LINE = "line"
    WORKER = "worker"
    TIMES = "times"
    TEXT = "text"
    METADATA = "metadata"
    """Of tables; a line of JSON has it wherever its row has any."""


def partial_of(output: Path) -> Path:
    """Where the results grow that are written to `output` in the end."""
    return output.parent / f"{output.name}.partial"


class LogFormat(StrEnum):
    """How the lines of a log are written."""

    TEXT = "text"
    JSON = "json"


class InputFormat(StrEnum):
    """What the rows of an input are written in."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    PARQUET = "parquet"
    OPENAI_BATCH = "openai-batch"


class CellType(StrEnum):
    """What the cells of a column of CSV are, where they are no text; an empty one is null then."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    JSON = "json"


class InputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an input is read."""

    format: InputFormat | None = None
    """None: as its name, or what it begins with, says."""

    id_field: str | None = None
    """The field that is the `custom_id`; None: the one of that name, if there is one."""

    input_field: str | None = None
    """The field that holds the whole input; None: all fields but the id are the input."""

    templates: tuple[tuple[str, str], ...] = ()
    """The fields of the input, each with the template that makes it, where they are not the row's."""

    types: tuple[tuple[str, CellType], ...] = ()
    """The columns of a table of text that are no text, with what they are."""

    input_bytes_max: int = INPUT_BYTES_MAX_DEFAULT

    @property
    def are_records(self) -> bool:
        """Whether each line is a record of which an input is made, not a job or an input as it stands."""
        return bool(self.id_field or self.input_field or self.templates)


class OutputFormat(StrEnum):
    """What the rows of an output are written in."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    OPENAI_BATCH = "openai-batch"


class ResultOrder(StrEnum):
    """In which order results are read and written."""

    INPUT = "input"
    COMPLETION = "completion"


class OnMisfit(StrEnum):
    """What becomes of a value that a format cannot hold."""

    ERROR = "error"
    JSON = "json"


class OutputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How outputs are written."""

    format: OutputFormat | None = None
    """None: as the file's name says, or JSON lines."""

    order: ResultOrder = ResultOrder.INPUT
    split: int | None = None
    """The rows of a file of results, of which there are several, numbered; None: there is one."""

    flatten: tuple[str, ...] = ()
    """The members of outputs (and inputs) that stand in columns of their own, in place of the whole output."""

    on_misfit: OnMisfit = OnMisfit.ERROR
    csv_safe: bool = False  # whether a cell that a spreadsheet would compute is made a text


AS_NAMED: Final = OutputSettings()
"""As the files are called."""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `orchestrator run` and `orchestrator resume` can be told."""

    name: str
    named: bool = True
    """Whether the user chose the name, or it is the stem of the input's file name."""

    source: str | None
    """The input: a path, or `-` for standard input, or several, one on each line. None: continue without reading any
    (`resume`)."""

    reading: InputSettings = InputSettings()

    endpoint: str | None
    """An endpoint id, or `local:FILE.py:FUNCTION`. None: what the run has (`resume`)."""

    ledger: Path = LEDGER_DEFAULT
    output: Path | None = None
    errors: Path | None = None
    include: tuple[Include, ...] = ()
    """What the rows of the files carry besides."""

    writing: OutputSettings = OutputSettings()
    connection: ConnectionSettings
    settings: RunSettings | None = None
    """None: what the run has (`resume`)."""

    body_bytes_max: int = BODY_BYTES_MAX_DEFAULT
    retry_failed: bool = False
    log_file: Path | None = None
    """Where to write down what the process did."""

    log_format: LogFormat = LogFormat.TEXT
    overwrite: bool = False
    """Whether an output file may be replaced that is there already and that no run has written."""

    afresh: bool = False
    """Whether nothing is taken over from the last command of the run."""
    replace_input: bool = False  # whether jobs that are no longer in the input go, if they have not succeeded
    allow_env: tuple[str, ...] = ()  # besides what the run's settings have
    only_rows: frozenset[int] | None = None  # that are taken in, counted from 1; None: all
    configuration: Configuration | None = None
    """What the next command has without a flag; None: the request was not made by a command line."""


class ServeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `orchestrator serve` can be told."""

    ledger: Path = LEDGER_DEFAULT
    connection: ConnectionSettings
    apply: tuple[Path, ...] = ()
    """The files of pipelines that are recorded first."""

    log_file: Path | None = None
    log_format: LogFormat = LogFormat.TEXT


class DoctorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at: a ledger, or one of its runs, or those at one endpoint, and what to ask their services with."""

    ledger: Path = LEDGER_DEFAULT
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

    ledger: Path = LEDGER_DEFAULT
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
    """A filter (`core.filter_text`); empty: all."""

    execution_timeout_ms: int | None = None
    ttl_ms: int | None = None
    max_attempts: int | None = None
    endpoint: str | None = None
    """Another endpoint of the run's service; None for the run's own."""


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to verify: a ledger and, where `output` is given, the files of one of its runs."""

    ledger: Path
    name: str | None = None
    """The run that the files are of; None for the only one."""

    output: Path | None = None
    errors: Path | None = None
    format: OutputFormat | None = None
    """What the results are written in; None: as the run was told, or their name says."""

    order: ResultOrder | None = None
    """The order of both files; None: as the run was told, or that of the input."""

    complete: bool = False
    """Whether it is wrong that a job of the run is in neither file."""
