"""What a program can say of a run and of how the service is reached: the command line's settings, as keyword arguments.

`None` says nothing, everywhere: the environment, the configuration file and the default then speak, in this order.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Final, Literal, TypedDict

from msgspec.structs import replace

from orchestrator.core.outputs.save_rules import SaveRule
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings import (
    command_flags,
    input_settings,
    output_settings,
    run_request,
    run_settings,
)
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import DisplayName, Setting
from orchestrator.settings.sources import Choices, choices_by_flags, choose
from orchestrator.settings.words_and_defaults import Include

Duration = str | float | timedelta
"""`"90s"`, `"30m"`, a number of seconds, or a `timedelta`."""


class StageRunOptions(TypedDict, total=False):
    """The settings of a run that a stage of a pipeline has, too; each means what the flag of that name means."""

    # <declared: run of a stage>
    ttl: Duration | None
    execution_timeout: Duration | None
    low_priority: bool | None
    via: Literal["queue", "sync", "both", "openai", "http", "batch"] | None
    path: str | None
    chunk: int | str | None
    chunk_input: str | None
    chunk_output: str | None
    batch_rows: int | None
    batch_call_bytes: int | None
    batch_active: int | None
    batch_queued: int | None
    batch_result_retention: Duration | None
    batch_wait: Duration | None
    batch_repeats: int | None
    batch_discount: str | None
    save: Mapping[str, str] | Sequence[str] | None
    save_from: str | Sequence[str] | None
    save_bytes_max: int | None
    on_unsaved: Literal["keep", "fail"] | None
    max_attempts: int | None
    priority: int | None
    queue_depth: int | Literal["auto", "off"] | None
    prefer: Literal["fast", "cheap"] | None
    spill_after: Duration | None
    pods: int | None
    result_retention: Duration | None
    workers: int | str | None
    workers_max: int | None
    workers_min: int | None
    once: bool | None
    allow_env: str | Sequence[str] | None
    resumable: bool | None
    progress_every: Duration | Literal["off"] | None
    stall_after: Duration | None
    max_segments: int | None
    max_execution: Duration | None
    require_output: bool | None
    stream: bool | None
    schema: str | PathLike[str] | None
    escalate: str | Sequence[str] | None
    retry_budget: str | None
    on_stuck: Literal["report", "resubmit"] | None
    events_kept: Duration | None
    stop_after_failures: int | None
    on_uncertain: Literal["resubmit", "hold", "fail"] | None
    uncertain_after: Duration | None
    on_expired: Literal["resubmit", "fail"] | None
    breaker: str | None
    canary: int | str | None
    price_per_second: float | None
    budget: float | Literal["off"] | None
    budget_per_day: float | Literal["off"] | None
    budget_per_hour: float | Literal["off"] | None
    finish_by: str | datetime | None
    stop_late: bool | None
    # <end>


class RunOptions(StageRunOptions, total=False):
    """The settings of a run; each means what the flag of that name means. `None`, as leaving out, says nothing: a run
    that is there keeps what it has, and a new one gets what the environment, the configuration file or the default
    says.
    """

    # <declared: run alone>
    reuse: Duration | None
    check: str | None
    notify: str | Sequence[str] | None
    max_failures: int | str | None
    # <end>


class ConnectionOptions(TypedDict, total=False):
    """How a ledger's service is reached; each means what the flag of that name means. `None` says nothing: the
    environment, the configuration file and the default then speak, in this order.

    `limits` are texts by operation, as in `{"run": "500/10"}`; `service_keys` are variables by URL, as in
    `{"https://api.example": "env:OTHER_KEY"}`.
    """

    api_key: str | None
    # <declared: connection>
    serverless_url: str | None
    listen: str | None
    webhook_url: str | None
    limits: Mapping[str, str] | Sequence[str] | None
    pacing: Literal["even", "window"] | None
    rest_url: str | None
    requests_per_worker: int | None
    service_keys: Mapping[str, str] | Sequence[str] | None
    profile: str | None
    config: str | PathLike[str] | None
    # <end>


class ServiceOptions(ConnectionOptions, total=False):
    """The same, with the ledger."""

    ledger: str | PathLike[str] | None


class InputOptions(TypedDict, total=False):
    """How inputs are read that are a file; each means what the flag of that name means. `None` says nothing.

    `map` are templates by field, as in `{"prompt": "{{ row.caption }}"}`; `types` are types by column.
    """

    # <declared: input>
    format: Literal["jsonl", "csv", "tsv", "json", "parquet", "openai-batch"] | None
    id_field: str | None
    input_field: str | None
    map: Mapping[str, str] | Sequence[str] | None
    types: Mapping[str, str] | Sequence[str] | None
    max_input_bytes: int | None
    # <end>


class OutputOptions(TypedDict, total=False):
    """How files of results are written; each means what the flag of that name means. `None` says nothing."""

    # <declared: output>
    order: Literal["input", "completion"] | None
    split: int | None
    flatten: str | Sequence[str] | None
    on_misfit: Literal["error", "json"] | None
    csv_safe: bool | None
    include: str | Sequence[str] | None
    # <end>


class SubmitOptions(RunOptions, InputOptions, total=False):
    """Both, for `submit`. With `replace_input` jobs go that are no longer in the input and have not succeeded."""

    replace_input: bool | None


class MapOptions(ServiceOptions, SubmitOptions, total=False):
    """All of them, for `map`."""


OF_RUN: Final = tuple(RunOptions.__annotations__)
OF_INPUT: Final = tuple(InputOptions.__annotations__)
OF_OUTPUT: Final = tuple(OutputOptions.__annotations__)
OF_SUBMIT: Final = (*OF_RUN, *OF_INPUT, run_request.REPLACE_INPUT.name)
OF_CONNECTION: Final = tuple(ConnectionOptions.__annotations__)
OF_SERVICE: Final = tuple(ServiceOptions.__annotations__)

_KEYS: Final = {each.keyword: each.key for each in RUNS.settings.values()}


def chosen(options: Mapping[str, object], environ: Mapping[str, str]) -> Choices:
    """What `options`, the environment and the file say together. Raises `UsageError` for a file that is none."""
    return choose(_flags(options), environ, display_name=display_name)


def choices_of(**options: object) -> Choices:
    """What `options` say of the settings of runs, and nothing else."""
    return choices_by_flags(_flags(options), display_name)


def _flags(options: Mapping[str, object]) -> Mapping[str, object]:
    """`options`, by their keys, as the command line would have them."""
    flags = {_KEYS.get(name, name): as_flag(value) for name, value in options.items() if value is not None}
    for setting in (input_settings.TYPES, run_request.INCLUDE):  # of which a flag has several in one text
        if isinstance(texts := flags.get(setting.key), list):
            flags[setting.key] = ",".join(texts)
    return flags


def check_known(options: Iterable[str], known: Sequence[str], function: str) -> None:
    """Raises `TypeError`, as Python does, for an option that there is not."""
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{advice}")


def settings_from(choices: Choices, options: Mapping[str, object], known: RunSettings | None) -> RunSettings:
    """The settings of a run: those that it has, with what `options` say; of a new one, all that was chosen."""
    if known is None:
        settings = choices.run_settings()
        check_together(settings, display_name)
        return settings
    every = (*command_flags.RUN, *command_flags.FILE_ONLY)
    said = [setting for setting in every if options.get(setting.keyword) is not None]
    policy = replace(known.policy, **choices.fields(Policy, said))
    if options.get(job_policy.LOW_PRIORITY.keyword) is False:  # which a policy says by saying nothing
        policy = replace(policy, low_priority=None)
    settings = replace(known, policy=policy, **choices.fields(RunSettings, said))
    check_together(settings, display_name)
    return settings


def writing_of(options: OutputOptions, form: str | None) -> tuple[OutputSettings, Sequence[Include]]:
    """How outputs are written, in the format `form`, and what their rows carry besides. Raises `UsageError`."""

    def name(setting: Setting[Any]) -> str:
        return "format=" if setting is output_settings.OUTPUT_FORMAT else display_name(setting)

    choices = choices_by_flags(_flags({**options, output_settings.OUTPUT_FORMAT.keyword: form}), name)
    return choices.build(OutputSettings), choices[run_request.INCLUDE] or ()


def saves_of(save: Mapping[str, str] | Sequence[str] | None) -> Sequence[SaveRule]:
    """Which members of outputs become files, and where. Raises `UsageError`."""
    rules = choices_of(save=save)[SAVE]
    return rules or ()


def policy_of(options: Mapping[str, object]) -> Policy:
    """The policy of a job. Raises `TypeError` for an unknown key and `UsageError` for a bad value."""
    check_known(options, [setting.keyword for setting in job_policy.POLICY], "policy")
    return choices_of(**options).build(Policy)


VALIDATORS: Final[tuple[Setting[Any], ...]] = (run_settings.REQUIRE_OUTPUT, run_settings.SCHEMA, run_settings.CHECK)
"""What says which outputs are results."""


def validators_of(**options: object) -> dict[str, Any]:
    """The fields of `RunSettings` that `options` change. Raises `UsageError`."""
    return choices_of(**options).fields(RunSettings, VALIDATORS)


def retry_choice(where: str, endpoint: str | None, choices: Choices) -> RetryChoice:
    """The jobs that `where` means, with what was chosen of their own, which may be another endpoint."""
    policy = choices.build(Policy)
    return RetryChoice(
        where=where,
        execution_timeout_ms=policy.execution_timeout_ms,
        ttl_ms=policy.ttl_ms,
        max_attempts=choices[run_settings.MAX_ATTEMPTS],
        endpoint=endpoint,
    )


def display_name(setting: Setting[Any]) -> str:
    """What a program calls a setting."""
    return f"{setting.keyword}="


def grace_of(duration: Duration | None, name: DisplayName = display_name) -> int:
    """How long a job that is to be cancelled may take to its next checkpoint, in microseconds; `name` is how that is
    called. Raises `UsageError`.
    """
    if duration is None:
        return 0
    try:
        return command_flags.GRACE.value_type.read((str(as_flag(duration)),))
    except ValueError as error:
        raise UsageError(f"{name(command_flags.GRACE)}: {error}") from None


def as_flag(value: object) -> object:
    """A value as the command line would have it."""
    match value:
        case datetime():
            return value.isoformat()  # without a zone it is refused
        case timedelta():
            return f"{value.total_seconds():f}s"
        case Mapping():
            return [f"{key}={text}" for key, text in value.items()]
        case list() | tuple():
            return [*value]
        case _:
            return value


Function = Callable[[dict[str, Any]], Any]
"""A worker's function: it is given a job, with `id` and `input`, and returns its output."""

Endpoints = str | Sequence[str] | Function
"""An endpoint's id or name, those of a pool, or a worker's function."""
