"""A pipeline as a program writes it: structs with the keys of a pipeline's file, which are read as that file is.

So what is wrong with one is told in the same words. `declared_pipelines` says what each key means, and a test sees that
these fields are its keys.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Unpack

import msgspec
from msgspec.structs import asdict

from orchestrator.api.flows.pipeline_files import read_pipeline, read_tables
from orchestrator.api.runs.keyword_options import (
    Duration,
    Function,
    InputOptions,
    OutputOptions,
    StageRunOptions,
    as_flag,
    check_known,
)
from orchestrator.core.pipelines.pipeline import Pipeline as Definition
from orchestrator.errors import UsageError
from orchestrator.settings import pipeline_keys, run_request, run_settings
from orchestrator.settings.words_and_defaults import LOCAL

StepFunction = Callable[[Any], Any]
"""Takes what is handed over; returns None, a dict for one row, or an iterable of dicts for several."""

News = Literal["started", "done", "partial", "failed", "held", "late", "missed", "paused", "abandoned"]


class Schedule(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """When a pipeline fires.

    Each field means what the key of `[schedule]` means, and `None` says nothing.

        schedule = Schedule(cron="30 2 * * *", zone="Europe/Berlin", catch_up="6h")
    """

    cron: str | Sequence[str] | None = None
    every: Duration | None = None
    offset: Duration | None = None
    zone: str | None = None
    jitter: Duration | None = None
    overlap: Literal["queue", "latest", "skip", "replace"] | None = None
    parallel: int | None = None
    catch_up: Duration | None = None
    late_after: Duration | None = None
    pause_after_failures: int | None = None


class Notify(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Who is told of what.

    Each field means what the key of `[notify]` means, and `None` says nothing.

        notify = Notify(on=["failed", "held"], url="https://example.org/hook", secret="env:HOOK_SECRET")
    """

    on: News | Sequence[News] | None = None
    to: str | Sequence[str] | None = None
    url: str | None = None
    command: Sequence[str] | None = None
    secret: str | None = None


class StageOptions(StageRunOptions, InputOptions, OutputOptions, total=False):
    """What a stage can be told; each means what the key of `[stage.NAME]` means, and `None` says nothing."""

    from_: str | Sequence[str] | None
    step: StepFunction | str | None
    gather: str | None
    command: Sequence[str] | None
    needs: str | None
    max_failed: str | None
    reuse: Duration | None
    reuse_version: str | None
    endpoint: Function | str | None
    profile: str | None
    serverless_url: str | None
    output: str | PathLike[str] | None
    errors: str | PathLike[str] | None
    output_format: Literal["jsonl", "csv", "tsv", "parquet", "openai-batch"] | None
    body_bytes_max: int | None
    check: StepFunction | str | None


class Stage:
    """One stage, by its name; each keyword means what the key of `[stage.NAME]` means, and `None` says nothing.

    A `step`, a `check`, or an `endpoint` that is run here may be a function instead of `FILE.py:FUNCTION`, if a file
    that can be imported defines it by its name: whichever process carries out a flow imports it from there.

        stage = Stage("caption", endpoint="abc123", output="out/{fire:%Y-%m-%d}.jsonl", max_attempts=5)
    """

    __slots__ = ("name", "options")

    def __init__(self, name: str, **options: Unpack[StageOptions]) -> None:
        check_known(options, OF_STAGE, "Stage")
        self.name = name
        self.options: Mapping[str, Any] = {key: value for key, value in options.items() if value is not None}

    def __getattr__(self, name: str) -> Any:
        """What it was told, and None for what it was not."""
        if name not in OF_STAGE:
            raise AttributeError(f"a stage has no {name}")
        return self.options.get(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and (self.name, self.options) == (other.name, other.options)

    __hash__ = None  # type: ignore[assignment]  # its options may be lists

    def __repr__(self) -> str:
        return f"Stage({', '.join([repr(self.name), *(f'{key}={value!r}' for key, value in self.options.items())])})"


class _Named(msgspec.Struct, frozen=True):
    name: str


class Pipeline(_Named, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A pipeline, by its name; each field means what the key of a [pipeline's file](docs/how-to/pipelines.md) means,
    and `None` says nothing. Paths count from `folder`, or else from the folder in which the program works.

        pipeline = Pipeline(
            "captions",
            input="inbox/{previous:%Y-%m-%d}.jsonl",
            schedule=Schedule(cron="30 2 * * *", zone="Europe/Berlin"),
            stages=[Stage("caption", endpoint="abc123", output="out/{previous:%Y-%m-%d}.jsonl")],
        )
    """

    stages: Sequence[Stage]
    input: str | PathLike[str] | None = None
    input_command: Sequence[str] | None = None
    wait_for_input: Duration | None = None
    keep: Duration | None = None
    schedule: Schedule | None = None
    notify: Notify | None = None
    folder: str | PathLike[str] | None = None

    def read(self, now: int) -> Definition:
        """What it says. Raises `UsageError` with all that is wrong with it; `now` decides which fires are the next."""
        folder = Path.cwd() if self.folder is None else Path(self.folder).resolve()
        told = f"the pipeline {self.name!s:.64}"
        own = asdict(self)
        for name in ("stages", "schedule", "notify", "folder"):
            del own[name]
        tables = _table(own, told, folder)
        for name, part, kind in (("schedule", self.schedule, Schedule), ("notify", self.notify, Notify)):
            if part is not None and not isinstance(part, kind):
                raise UsageError(f"{told}: {name}: this must be a {kind.__name__}, as in {name}={kind.__name__}(...)")
            if part is not None:
                tables[name] = _table(asdict(part), f"{told}: {name}", folder)
        tables["stage"] = _stages(self.stages, told, folder)
        return read_tables(tables, told, folder, now)


def pipeline_reading(pipeline: Pipeline | str | PathLike[str]) -> tuple[str, Callable[[int], Definition]]:
    """What a pipeline, or the path of a pipeline's file, is called, and what reads it, at the time of its argument."""
    if isinstance(pipeline, Pipeline):
        return f"Pipeline({pipeline.name!r})", pipeline.read
    if not isinstance(pipeline, str | PathLike):
        raise UsageError(f"a Pipeline is applied, or the path of a pipeline's file, not {type(pipeline).__name__}")
    path = Path(pipeline)
    return str(path), lambda now: read_pipeline(path, now)


_FUNCTIONS: Final = {pipeline_keys.STEP.key: "", run_settings.CHECK.key: "", run_request.ENDPOINT.key: LOCAL}
"""What may be a function, and what stands before its file then."""

OF_STAGE: Final = tuple(StageOptions.__annotations__)


def _stages(stages: object, told: str, folder: Path) -> dict[str, Any]:
    if not isinstance(stages, Sequence) or not all(isinstance(each, Stage) for each in stages):
        raise UsageError(f'{told}: stages: this must be a list of stages, as in stages=[Stage("caption", ...)]')
    found: dict[str, Any] = {}
    for stage in stages:
        if not isinstance(stage.name, str):
            raise UsageError(
                f'{told}: a stage has a name first, as in Stage("caption", ...), and no {stage.name!r:.40}'
            )
        if stage.name in found:
            raise UsageError(f"{told}: stage.{stage.name}: there are two stages of this name; rename one of them")
        found[stage.name] = _table(stage.options, f"{told}: stage.{stage.name}", folder)
    return found


def _table(options: Mapping[str, Any], told: str, folder: Path) -> dict[str, Any]:
    """What was said of a part, as the table of a file."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        key = name.removesuffix("_")
        if key in _FUNCTIONS and not isinstance(value, str | None):
            value = _FUNCTIONS[key] + _reference(value, f"{told}.{key}", folder)  # noqa: PLW2901
        if value is not None:
            found[key] = _written(value)
    return found


def _written(value: object) -> object:
    """A value as a file would have it."""
    match value:
        case Enum():
            return value.value
        case PathLike():
            return os.fspath(value)
        case str() | bytes():
            return value
        case Sequence():
            return [_written(each) for each in value]
        case _:
            return as_flag(value)


def _reference(function: object, told: str, folder: Path) -> str:
    """`FILE.py:FUNCTION`, by which any process finds `function`; the file as it counts from `folder`. Raises
    `UsageError` for one that has no such name.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or file is None or not file.endswith(".py"):
        raise UsageError(
            f"{told}: {name} is in no file that can be imported, and another process has to find it: put it into a file"
            ' of its own, and import it from there; or name it, as in "steps.py:to_texts"'
        )
    if getattr(module, name, None) is not function:
        raise UsageError(
            f"{told}: {file} defines no {name} at its top, and another process has to find it by that name: no lambda,"
            " no partial, no method, and no function within another"
        )
    path = Path(os.path.realpath(file))
    return f"{path.relative_to(folder) if path.is_relative_to(folder) else path}:{name}"
