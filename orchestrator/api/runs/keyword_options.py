"""What a program can say of a run and of how the service is reached: the command line's settings, as keyword arguments.

`None` says nothing, everywhere: the environment, the configuration file and the default then speak, in this order.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Final, Literal, TypedDict

from msgspec.structs import replace

from orchestrator.core.service.openai import Via
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings import (
    command_settings,
    connection_settings,
    input_settings,
    output_settings,
    request_settings,
    run_settings,
)
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.requests import RetryChoice
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.values import Include

Duration = str | float | timedelta
"""`"90s"`, `"30m"`, a number of seconds, or a `timedelta`."""


class RunOptions(TypedDict, total=False):
    """The settings of a run; each means what the flag of that name means. `None`, as leaving out, says nothing: a run
    that is there keeps what it has, and a new one gets what the environment, the configuration file or the default
    says.
    """

    via: Literal["queue", "openai"] | None
    max_attempts: int | None
    ttl: Duration | None
    execution_timeout: Duration | None
    priority: int | None
    low_priority: bool | None
    queue_depth: int | Literal["auto", "off"] | None
    workers_max: int | None
    workers_min: int | None
    result_retention: Duration | None
    require_output: bool | None
    stream: bool | None
    schema: str | PathLike[str] | None
    check: str | None
    escalate: str | Sequence[str] | None
    allow_env: str | Sequence[str] | None
    retry_budget: str | None
    on_stuck: Literal["report", "resubmit"] | None
    events_kept: Duration | None
    stop_after_failures: int | None
    notify: str | None
    breaker: str | None
    canary: int | str | None
    max_failures: int | str | None
    price_per_second: float | None
    budget: float | Literal["off"] | None
    budget_per_day: float | Literal["off"] | None
    finish_by: str | datetime | None
    stop_late: bool | None
    on_uncertain: Literal["resubmit", "hold", "fail"] | None
    uncertain_after: Duration | None
    on_expired: Literal["resubmit", "fail"] | None
    resumable: bool | None
    progress_every: Duration | Literal["off"] | None
    stall_after: Duration | None
    max_segments: int | None
    max_execution: Duration | None
    reuse: Duration | None
    once: bool | None


class ConnectionOptions(TypedDict, total=False):
    """How a ledger's service is reached; each means what the flag of that name means. `None` says nothing: the
    environment, the configuration file and the default then speak, in this order.

    `limits` are texts by operation, as in `{"run": "500/10"}`; `service_keys` are variables by URL, as in
    `{"https://api.example": "env:OTHER_KEY"}`.
    """

    serverless_url: str | None
    api_key: str | None
    listen: str | None
    webhook_url: str | None
    limits: Mapping[str, str] | None
    pacing: Literal["even", "window"] | None
    requests_per_worker: int | None
    rest_url: str | None
    service_keys: Mapping[str, str] | None
    profile: str | None
    config: str | PathLike[str] | None


class ServiceOptions(ConnectionOptions, total=False):
    """The same, with the ledger."""

    ledger: str | PathLike[str] | None


class InputOptions(TypedDict, total=False):
    """How inputs are read that are a file; each means what the flag of that name means. `None` says nothing.

    `map` are templates by field, as in `{"prompt": "{{ row.caption }}"}`; `types` are types by column.
    """

    format: Literal["jsonl", "csv", "tsv", "json", "parquet", "openai-batch"] | None
    id_field: str | None
    input_field: str | None
    map: Mapping[str, str] | None
    types: Mapping[str, Literal["int", "float", "bool", "json"]] | None
    max_input_bytes: int | None


class SubmitOptions(RunOptions, InputOptions, total=False):
    """Both, for `submit`. With `replace_input` jobs go that are no longer in the input and have not succeeded."""

    replace_input: bool | None


class MapOptions(ServiceOptions, SubmitOptions, total=False):
    """All of them, for `map`."""


OF_RUN: Final = tuple(RunOptions.__annotations__)
OF_INPUT: Final = tuple(InputOptions.__annotations__)
OF_SUBMIT: Final = (*OF_RUN, *OF_INPUT, request_settings.REPLACE_INPUT.name)
OF_CONNECTION: Final = tuple(ConnectionOptions.__annotations__)
OF_SERVICE: Final = tuple(ServiceOptions.__annotations__)

_KEYS: Final = {"limits": connection_settings.LIMIT.key, "service_keys": connection_settings.SERVICE_KEY.key}
"""Where a keyword is not the flag, since it takes several."""

_NAMES: Final = {key: name for name, key in _KEYS.items()}


def chosen(options: Mapping[str, object], environ: Mapping[str, str]) -> Choices:
    """What `options`, the environment and the file say together. Raises `UsageError` for a file that is none."""
    flags = {_KEYS.get(name, name): as_flag(value) for name, value in options.items() if value is not None}
    if isinstance(types := flags.get(input_settings.TYPES.key), list):  # which a flag has in one text
        flags[input_settings.TYPES.key] = ",".join(types)
    return choose(flags, environ, said=named)


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
        settings = RunSettings(policy=Policy(**choices.fields(Policy)), **choices.fields(RunSettings))
        check_together(settings, named)
        return settings
    every = (*command_settings.RUN, *command_settings.FILE_ONLY)
    said = [setting for setting in every if options.get(setting.key.replace("-", "_")) is not None]
    policy = replace(known.policy, **choices.fields(Policy, said))
    if options.get(run_settings.LOW_PRIORITY.name) is False:  # which a policy says by saying nothing
        policy = replace(policy, low_priority=None)
    settings = replace(known, policy=policy, **choices.fields(RunSettings, said))
    check_together(settings, named)
    return settings


def check_together(settings: RunSettings, name: Callable[[Setting[Any]], str]) -> None:
    """Raises `UsageError` where settings contradict each other; `name` is how one is named."""
    least, most = settings.workers_min, settings.workers_max
    if least is not None and most is not None and least > most:
        raise UsageError(
            f"{name(run_settings.WORKERS_MIN)} {least} is more than {name(run_settings.WORKERS_MAX)} {most}"
        )
    check_resumable(settings, name)
    check_direct(settings, name)
    check_brake_settings(settings, name)


def check_brake_settings(settings: RunSettings, name: Callable[[Setting[Any]], str] = str) -> None:
    """The same of the brakes alone."""
    try:
        run_settings.check_brakes(settings, name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_direct(settings: RunSettings, name: Callable[[Setting[Any]], str]) -> None:
    """Raises `UsageError` where requests are to go past the queue, and something is said of them that only it knows."""
    if settings.via is not Via.OPENAI:
        return
    of_queue = (
        (run_settings.TTL, settings.policy.ttl_ms is not None),
        (run_settings.LOW_PRIORITY, settings.policy.low_priority is not None),
        (run_settings.RESUMABLE, settings.resumable),
    )
    for setting, is_said in of_queue:
        if is_said:
            raise UsageError(
                f"{name(setting)} is for jobs in the service's queue, and {name(run_settings.VIA)} {Via.OPENAI} goes"
                " past it; leave one out"
            )


def check_resumable(settings: RunSettings, name: Callable[[Setting[Any]], str]) -> None:
    """Raises `UsageError` where settings are of resumable jobs, and the run has none; `name` is how one is named."""
    if settings.resumable:
        if settings.stall_after_us is not None and not settings.progress_every_us:
            raise UsageError(
                f"{name(run_settings.STALL_AFTER)} needs to know how far a job is, and"
                f" {name(run_settings.PROGRESS_EVERY)} off asks not for that; leave one out"
            )
        return
    for setting in (
        run_settings.PROGRESS_EVERY,
        run_settings.STALL_AFTER,
        run_settings.MAX_SEGMENTS,
        run_settings.MAX_EXECUTION,
    ):
        if getattr(settings, setting.name) != setting.unset:
            raise UsageError(f"{name(setting)} is for resumable jobs; give {name(run_settings.RESUMABLE)} too")


def writing_of(
    *,
    format: str | None,  # noqa: A002  as the flag is called
    order: str,
    split: int | None,
    flatten: str | Sequence[str],
    on_misfit: str,
    csv_safe: bool,
    include: str | Sequence[str],
) -> tuple[OutputSettings, tuple[Include, ...]]:
    """How outputs are written, and what their rows carry besides. Raises `UsageError`."""

    def said(setting: Setting[Any]) -> str:
        return "format=" if setting is output_settings.OUTPUT_FORMAT else named(setting)

    given = {
        output_settings.OUTPUT_FORMAT.key: format,
        output_settings.ORDER.key: order,
        output_settings.SPLIT.key: split,
        output_settings.FLATTEN.key: [flatten] if isinstance(flatten, str) else list(flatten),
        output_settings.ON_MISFIT.key: on_misfit,
        output_settings.CSV_SAFE.key: csv_safe,
        request_settings.INCLUDE.key: include if isinstance(include, str) else ",".join(include),
    }
    choices = Choices.of(given, said)
    return OutputSettings(**choices.fields(OutputSettings)), choices[request_settings.INCLUDE] or ()


def policy_of(options: Mapping[str, object]) -> Policy:
    """The policy of a job. Raises `TypeError` for an unknown key and `UsageError` for a bad value."""
    settings: tuple[Setting[Any], ...] = (
        run_settings.EXECUTION_TIMEOUT,
        run_settings.TTL,
        run_settings.LOW_PRIORITY,
    )
    check_known(options, [named(setting).removesuffix("=") for setting in settings], "policy")
    flags = {name: as_flag(value) for name, value in options.items() if value is not None}
    return Policy(**Choices.of(flags, named).fields(Policy, settings))


VALIDATORS: Final[tuple[Setting[Any], ...]] = (run_settings.REQUIRE_OUTPUT, run_settings.SCHEMA, run_settings.CHECK)
"""What says which outputs are results."""


def validators_of(options: Mapping[str, object]) -> dict[str, Any]:
    """The fields of `RunSettings` that `options` change. Raises `UsageError`."""
    choices = Choices.of({name: as_flag(value) for name, value in options.items() if value is not None}, named)
    return {each.name: choices[each] for each in VALIDATORS if choices.is_told(each)}


def attempts_of(number: int | None) -> int | None:
    """How often a job may be executed, where that is said. Raises `UsageError`."""
    return Choices.of({run_settings.MAX_ATTEMPTS.key: number}, named)[run_settings.MAX_ATTEMPTS]


def retry_choice(
    where: str,
    *,
    execution_timeout: Duration | None,
    ttl: Duration | None,
    max_attempts: int | None,
    endpoint: str | None,
) -> RetryChoice:
    """The jobs that `where` means, with these settings of their own. Raises `UsageError`."""
    policy = policy_of({"execution_timeout": execution_timeout, "ttl": ttl})
    return RetryChoice(
        where=where,
        execution_timeout_ms=policy.execution_timeout_ms,
        ttl_ms=policy.ttl_ms,
        max_attempts=attempts_of(max_attempts),
        endpoint=endpoint,
    )


def named(setting: Setting[Any]) -> str:
    """What a program calls a setting."""
    key = setting.key
    return f"{_NAMES.get(key, key.replace('-', '_'))}="


def grace_of(duration: Duration | None, name: Callable[[Setting[Any]], str] = named) -> int:
    """How long a job that is to be cancelled may take to its next checkpoint, in microseconds; `name` is how that is
    called. Raises `UsageError`.
    """
    if duration is None:
        return 0
    try:
        return command_settings.GRACE.value_type.read((str(as_flag(duration)),))
    except ValueError as error:
        raise UsageError(f"{name(command_settings.GRACE)}: {error}") from None


def as_flag(value: object) -> object:
    """A value as the command line would have it."""
    match value:
        case datetime():
            return value.isoformat()  # without a zone it is refused
        case timedelta():
            return f"{value.total_seconds():f}s"
        case Mapping():
            return [f"{key}={text}" for key, text in value.items()]
        case _:
            return value


Function = Callable[[dict[str, Any]], Any]
"""A worker's function: it is given a job, with `id` and `input`, and returns its output."""
