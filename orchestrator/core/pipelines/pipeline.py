"""What a pipeline is: its stages, when it fires, who is told. As its file has it, with every default filled in.

A *fire* is one nominal time of its schedule, a *flow* one execution, called after its fire, and each stage of a flow a
run, called after both. What is recorded of a pipeline is this value, encoded: a flow keeps the one that it began with,
so a field that is added needs a default. Times are microseconds UTC, durations microseconds, shares millionths.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.text.durations import format_duration
from orchestrator.units import EPOCH, HOUR_US, WHOLE

INPUT: Final = "input"
"""Where rows of the first stage come from, and who `gather` names for one group of all that one input row became."""

ALL: Final = "all"
"""What `gather` names for one group of everything."""

CATCH_UP_US_DEFAULT: Final = 24 * HOUR_US


class Overlap(StrEnum):
    """What becomes of a fire while flows of earlier ones are not over."""

    QUEUE = "queue"
    LATEST = "latest"
    SKIP = "skip"
    REPLACE = "replace"


class News(StrEnum):
    """What somebody can be told of."""

    STARTED = "started"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    ON_HOLD = "held"
    LATE = "late"
    MISSED = "missed"
    PAUSED = "paused"
    ABANDONED = "abandoned"


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a pipeline fires, and what becomes of fires that meet each other or come late."""

    cron: tuple[str, ...] = ()
    """Expressions of five fields; none where it fires `every` so often."""

    every_us: int | None = None
    offset_us: int = 0
    """Counted from 1970: it fires where the time less this is a multiple of `every_us`."""

    zone: str = "UTC"
    jitter_us: int = 0
    overlap: Overlap = Overlap.QUEUE
    parallel: int = 1
    """So many flows at once."""

    catch_up_us: int = CATCH_UP_US_DEFAULT
    """What comes later than this is missed."""

    late_after_us: int | None = None
    """A flow that has not ended by then is late; None: none ever is."""

    pause_after_failures: int | None = None
    """So many failed flows in a row pause the schedule; None: however many."""


class Stage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage. Each row that it is handed becomes a job at its endpoint, or all of them go to its command."""

    name: str
    from_: tuple[str, ...]
    """The stages that hand over to it, or `INPUT` alone."""

    step: str | None = None
    """`FILE.py:FUNCTION`, which makes rows of what is handed over; None: an output is the next input."""

    gather: str | None = None
    """An ancestor or `INPUT`: all that came of one of its rows is handed over together; or `ALL`. None: each alone."""

    command: tuple[str, ...] = ()
    needs: int = WHOLE
    """The share that has to succeed before a command or a group of everything."""

    max_failed: int | None = None
    """The share of failed rows beyond which the flow is held; None: any number may fail."""

    reuse_us: int | None = None
    """For so long an output is taken for the same input again; None: it never is."""

    reuse_version: str = ""
    """Results of another version are not taken."""

    settings: Mapping[str, tuple[str, ...]] = {}
    """Those of its run, as texts by key."""


class Notify(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is told of what: targets of the configuration file, an address, or a command, which gets the JSON on its
    input.
    """

    on: tuple[News, ...] = ()
    """Empty: all but that one has started; targets: what they say themselves."""

    to: tuple[str, ...] = ()
    """Targets by name, each perhaps with what it is told of."""

    url: str | None = None
    command: tuple[str, ...] = ()
    secret: str | None = None
    """`env:NAME`: the variable that holds what messages are signed with."""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pipeline. The stages stand in the order of its file, each after all that hand over to it."""

    name: str
    folder: str
    """Full path of its file's folder, from which paths count and in which commands run."""

    input: str | None = None
    """The path of its rows, with placeholders; None where `input_command` prints them."""

    input_command: tuple[str, ...] = ()
    wait_for_input_us: int = 0
    """For so long a flow waits until the file is there; then it fails."""

    keep_us: int | None = None
    """The rows of a flow that has ended are kept for so long; None: for ever."""

    schedule: Schedule | None = None
    """None: it is triggered by hand."""

    stages: tuple[Stage, ...]
    notify: Notify | None = None

    @property
    def secret_variables(self) -> frozenset[str]:
        """The variables that hold secrets of its own."""
        secret = None if self.notify is None else self.notify.secret
        return frozenset() if secret is None else frozenset({secret.removeprefix("env:")})

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises `LookupError`."""
        found = [stage for stage in self.stages if stage.name == name]
        if not found:
            raise LookupError(name)
        return found[0]


def flow_name(pipeline: str, fire_us: int, number: int = 1) -> str:
    """What the flow of a fire is called; `number` counts those that were asked for again."""
    fire = EPOCH + timedelta(microseconds=fire_us)
    return f"{pipeline}@{fire:%Y%m%dT%H%M%SZ}{_again(number)}"


def run_name(flow: str, stage: str, number: int = 1) -> str:
    """What the run of a flow's stage is called; `number` counts those that were asked for again."""
    return f"{flow}/{stage}{_again(number)}"


def _again(number: int) -> str:
    return "" if number == 1 else f"~{number}"


def when_it_fires(schedule: Schedule | None) -> str:
    """The times of a schedule, or that there is none."""
    if schedule is None:
        return "when it is triggered"
    if schedule.every_us is None:
        return f"{' and '.join(schedule.cron)} in {schedule.zone}"
    offset = f", {format_duration(schedule.offset_us)} later than the full ones" if schedule.offset_us else ""
    return f"every {format_duration(schedule.every_us)}{offset}"
