"""What settings can have for values: the words that they know, and what holds where nothing is set (default URLs,
files, variables).
"""

from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

import msgspec

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

POOL: Final = "pool:"
"""What an endpoint begins with that is a pool of the configuration file."""

API_KEY_VARIABLES: Final = ("ORCHESTRATOR_API_KEY", "RUNPOD_API_KEY")
"""Where the API key comes from, the first that is set."""

WEBHOOK_KEY_VARIABLE: Final = "ORCHESTRATOR_WEBHOOK_KEY"
SECRET_VARIABLES: Final = (*API_KEY_VARIABLES, WEBHOOK_KEY_VARIABLE, "PGPASSWORD")
"""Where keys of ours are, and the password of a ledger on a server: they leave for no row, and for no report."""

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


class Include(StrEnum):
    """What rows of results and errors can carry besides."""

    INPUT = "input"
    LINE = "line"
    WORKER = "worker"
    ENDPOINT = "endpoint"
    """A run with a pool has it beside `WORKER`."""

    TIMES = "times"
    TEXT = "text"
    METADATA = "metadata"
    """Of tables; a line of JSON has it wherever its row has any."""


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


class OnUnsaved(StrEnum):
    """What becomes of a result of which a member cannot be saved to its file."""

    KEEP = "keep"
    FAIL = "fail"


class OnMisfit(StrEnum):
    """What becomes of a value that a format cannot hold."""

    ERROR = "error"
    JSON = "json"
