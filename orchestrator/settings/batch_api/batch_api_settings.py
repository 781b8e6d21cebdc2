"""What the Batch API takes and keeps, and whom it answers: what `[batch-api]` of the configuration file says."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.settings.configuration_file import ENVIRONMENT_PREFIX, Section, by_key
from orchestrator.settings.parsers import name_parsers
from orchestrator.settings.parsers.job_parsers import check_second_or_more, duration
from orchestrator.settings.setting import Setting, settings_in
from orchestrator.settings.tables.table_names import BATCH_API_TABLE
from orchestrator.settings.value_types import Kind, ValueType, whole
from orchestrator.units import DAY_US

MB: Final = 1_000_000
"""As OpenAI counts."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

_file_only: Final = partial(Setting, has_flag=False)


def _keys(given: Sequence[str]) -> Mapping[str, str]:
    """The variables that hold the keys, by what these are called."""
    found = {}
    for each in given:
        name, _, variable = each.partition("=")
        if not _NAME.fullmatch(name):
            raise ValueError(f'"{name:.40}" is no name of a key; write letters, digits, dots, dashes and underscores')
        found[name] = name_parsers.parse_variable(variable.strip())
    return found


class BatchApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken, and for how long it is kept. Durations are in microseconds."""

    keys: Annotated[
        Mapping[str, str],
        _file_only(
            "keys",
            ValueType(
                Kind.TABLE,
                "NAME = env:NAME",
                _keys,
                lambda keys: [f"{name}=env:{variable}" for name, variable in keys.items()],
            ),
            "Who may ask: for each a name, and the variable that holds its key. Each sees its own files and batches"
            " only. Without keys whoever reaches it may ask, and it listens on this machine's own addresses only.",
            default="none",
        ),
    ] = {}
    rows_max: Annotated[
        int,
        _file_only("max-rows", whole(1), "How many requests a batch has, at most."),
    ] = 50_000
    file_megabytes_max: Annotated[
        int,
        _file_only("max-file-megabytes", whole(1), "How large a file may be, in MB of 1,000,000 bytes."),
    ] = 200
    storage_megabytes_max: Annotated[
        int,
        _file_only(
            "max-storage-megabytes",
            whole(1),
            "How large all files may be together. What does not fit is refused, and the oldest files are told.",
        ),
    ] = 20_000
    keep_files_us: Annotated[
        int,
        _file_only(
            "keep-files",
            duration(check_second_or_more),
            "For how long a file is kept of which its sender says nothing.",
        ),
    ] = 30 * DAY_US
    keep_batches_us: Annotated[
        int,
        _file_only(
            "keep-batches",
            duration(check_second_or_more),
            "For how long a batch is kept once it has ended, and with it its run: the rows of that, their answers and"
            " histories. Its files are kept for themselves.",
        ),
    ] = 90 * DAY_US

    @property
    def file_bytes_max(self) -> int:
        """How many bytes a file has, at most."""
        return self.file_megabytes_max * MB

    @property
    def storage_bytes_max(self) -> int:
        """How many bytes all files have, at most."""
        return self.storage_megabytes_max * MB


OF_BATCH_API: Final = settings_in(BatchApiSettings)

BATCH_API: Final = Section(by_key(OF_BATCH_API), f"{ENVIRONMENT_PREFIX}BATCH_API_", BATCH_API_TABLE)
"""Its table of the file."""
