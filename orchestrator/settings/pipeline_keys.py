"""The keys of a pipeline's file, each declared once: how its values are written, what it means, what holds without it.

A stage takes the settings of its run besides, as `command_flags` has them, but for those of a whole process.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from zoneinfo import available_timezones

from orchestrator.core.pipelines.pipeline import ALL, INPUT, News, Notify, Overlap, Pipeline, Schedule, Stage
from orchestrator.core.pipelines.placeholders import placeholders
from orchestrator.core.pipelines.receivers import parse_receiver
from orchestrator.core.pipelines.schedule_calendar import check_cron
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.core.text.durations import Policy
from orchestrator.core.text.name_match import nearest
from orchestrator.core.text.object_urls import checked_url, is_object_url, is_web_url
from orchestrator.settings import command_flags, connection_settings, run_request, run_settings
from orchestrator.settings.connection_settings import PROFILE
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.parsers import brake_parsers, name_parsers, service_parsers
from orchestrator.settings.parsers.job_parsers import duration
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting
from orchestrator.settings.value_types import Kind, ValueType, listed, one_of, parsed, texts, whole
from orchestrator.settings.words_and_defaults import STANDARD_INPUT
from orchestrator.units import SECOND_US

PARALLEL_MAX: Final = 1_000

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STEP: Final = re.compile(r"[^:\0]+\.py:[A-Za-z_][A-Za-z0-9_]*")

_pipeline: Final = partial(Setting, of=Pipeline)
_schedule: Final = partial(Setting, of=Schedule)
_stage: Final = partial(Setting, of=Stage)
_notify: Final = partial(Setting, of=Notify)


# --- how values are written


def parse_pipeline_name(text: str) -> str:
    """The name of a pipeline or of a stage, of which those of flows and runs are made. Raises `ValueError`."""
    if not _NAME.fullmatch(text):
        raise ValueError(f'"{text:.80}" is no name; 1 to 64 letters, digits, dots, dashes and underscores are')
    return text


def _crons(given: Sequence[str]) -> tuple[str, ...]:
    for each in given:
        check_cron(each)
    return tuple(given)


def _every(every_us: int) -> int:
    if every_us < SECOND_US or every_us % SECOND_US:
        raise ValueError("it fires at whole seconds: write 1s or longer, without parts of a second")
    return every_us


def _offset(offset_us: int) -> int:
    return _every(offset_us) if offset_us else 0


def _zone(text: str) -> str:
    zones = available_timezones()
    if text not in zones:
        near = nearest(text, sorted(zones))
        advice = f"did you mean {near}?" if near else "write it as Europe/Berlin"
        raise ValueError(f'there is no time zone "{text:.40}"; {advice}')
    return text


def _template(text: str, *, is_written: bool = False) -> str:
    """A path with placeholders, or a URL."""
    if is_object_url(text):
        checked_url(text, is_written=is_written)
        if is_web_url(text) and "?" in text:
            raise ValueError(
                "a web address with a query (?) may have a signature in it, and a pipeline is kept in the ledger; fetch"
                " it by input-command"
            )
    name_parsers.parse_path(text)
    placeholders(text)
    return text


def output_template(text: str) -> str:
    """A path with placeholders that is written to. Raises `ValueError`."""
    if text == STANDARD_INPUT:
        raise ValueError("a flow has no standard output; write the name of a file")
    return _template(text, is_written=True)


def _command(given: Sequence[str]) -> tuple[str, ...]:
    for each in given:
        placeholders(each)
    if not given or not given[0]:
        raise ValueError("this is no command; write the program and each of its arguments as a text of its own")
    return tuple(given)


def _step(text: str) -> str:
    if not _STEP.fullmatch(text):
        raise ValueError(f'"{text:.80}" names no function; write FILE.py:FUNCTION')
    return text


def _variable(text: str) -> str:
    if not REFERENCE.fullmatch(text):
        raise ValueError("write env:NAME, where NAME is the variable that holds the secret")
    return text


_NEWS: Final = tuple(News)


def _news(given: Sequence[str]) -> tuple[News, ...]:
    for each in given:
        if each not in _NEWS:
            raise ValueError(f'"{each:.40}" is none of {", ".join(_NEWS)}')
    return tuple(each for each in _NEWS if each in given)


def _receiver(text: str) -> str:
    for each in parse_receiver(text).on:
        if each not in _NEWS:
            raise ValueError(f'"{each:.40}" is nothing that a pipeline tells of; there are {", ".join(_NEWS)}')
    return text


_part: Final = parsed("PERCENT", brake_parsers.parse_percentage, brake_parsers.format_percentage)
_arguments: Final = ValueType(Kind.LIST, '["PROGRAM", "ARGUMENT", ...]', _command, tuple)

# --- the pipeline

NAME: Final = _pipeline("name", parsed("NAME", parse_pipeline_name), "What it is called.", default="required")
INPUT_FILE: Final = _pipeline(
    "input",
    parsed("FILE", _template),
    "The rows of a flow: JSON lines, as `orchestrator run` reads them. Rename the file into place.",
    default="required, or `input-command`",
)
INPUT_COMMAND: Final = _pipeline("input-command", _arguments, "A command that prints the rows instead.", default="none")
WAIT_FOR_INPUT: Final = _pipeline(
    "wait-for-input",
    duration(),
    "How long a flow waits for its file or object; then it fails.",
    field="wait_for_input_us",
)
KEEP: Final = _pipeline(
    "keep",
    duration(),
    "How long the rows of a flow are kept once it has ended.",
    field="keep_us",
    default="for ever",
)

# --- when it fires

CRON: Final = _schedule(
    "cron",
    ValueType(Kind.LIST, "CRON", _crons, tuple),
    "Five fields: minute, hour, day of month, month, day of week. A list of several is one schedule.",
    default="none",
)
EVERY: Final = _schedule(
    "every",
    duration(_every),
    "Fires every so often instead, counted from 1970, whatever clocks are turned.",
    field="every_us",
    default="none",
)
OFFSET: Final = _schedule("offset", duration(_offset), "So much later than `every` says.", field="offset_us")
ZONE: Final = _schedule("zone", parsed("ZONE", _zone), "The time zone of `cron` and of the placeholders.")
JITTER: Final = _schedule(
    "jitter",
    duration(),
    "Each flow is begun up to so much later: always the same for that fire of that pipeline.",
    field="jitter_us",
)
OVERLAP: Final = _schedule(
    "overlap", one_of(Overlap), "What becomes of a fire while flows of earlier ones are not over."
)
PARALLEL: Final = _schedule("parallel", whole(1, PARALLEL_MAX), "So many flows of the pipeline work at once.")
CATCH_UP: Final = _schedule(
    "catch-up", duration(), "What is noticed later than so is missed, and not made up for.", field="catch_up_us"
)
LATE_AFTER: Final = _schedule(
    "late-after",
    duration(),
    "A flow that has not ended so long after its fire is late.",
    field="late_after_us",
    default="never",
)
PAUSE_AFTER_FAILURES: Final = _schedule(
    "pause-after-failures",
    whole(1),
    "So many failed flows in a row pause the schedule.",
    default="however many",
)

# --- a stage

FROM: Final = _stage(
    "from",
    texts("STAGE"),
    "The stage whose rows it is handed; several for `gather` and `command`.",
    field="from_",
    default="the stage before",
)
STEP: Final = _stage(
    "step",
    parsed("FILE.py:FUNCTION", _step),
    "The function that makes rows of what is handed over.",
    default="none: an output is the next input",
)
GATHER: Final = _stage(
    "gather",
    parsed("STAGE", str),
    f"One call of the function with all rows that came of one row of that stage, or of the `{INPUT}`, or with `{ALL}`.",
    default="row by row",
)
COMMAND: Final = _stage(
    "command", _arguments, "A command instead of an endpoint, once the stages before are over.", default="none"
)
NEEDS: Final = _stage("needs", _part, "The share of rows that has to succeed before a command or a group.")
MAX_FAILED: Final = _stage(
    "max-failed",
    _part,
    "The share of failed rows beyond which the flow is held.",
    default="any number may fail",
)
REUSE: Final = _stage(
    "reuse", duration(), "For so long an output is taken again for the same input.", field="reuse_us", default="never"
)
REUSE_VERSION: Final = _stage(
    "reuse-version", parsed("TEXT", str), "Outputs of another version are not taken again.", default="none"
)

# --- who is told

ON: Final = _notify(
    "on",
    ValueType(Kind.LIST, "|".join(_NEWS), _news, tuple),
    "What is told of.",
    default="all but `started`; a target: what it says itself",
)
TO: Final = _notify(
    "to",
    listed("TARGET[:NEWS,...]", _receiver),
    "Targets of the [configuration file](notify.md), as in `ops`, or `ops:failed,held`.",
    default="none",
)
URL: Final = _notify("url", parsed("URL", service_parsers.parse_hook_url), "Where it is posted to.", default="none")
NOTIFY_COMMAND: Final = _notify("command", _arguments, "A command that gets it on its input, as JSON.", default="none")
SECRET: Final = _notify(
    "secret", parsed("env:NAME", _variable), "The variable that holds what messages are signed with.", default="none"
)

# --- which table takes which

Settings = tuple[Setting[Any], ...]

PIPELINE: Final[Settings] = (NAME, INPUT_FILE, INPUT_COMMAND, WAIT_FOR_INPUT, KEEP)
SCHEDULE: Final[Settings] = (
    *(CRON, EVERY, OFFSET, ZONE, JITTER),
    *(OVERLAP, PARALLEL, CATCH_UP, LATE_AFTER, PAUSE_AFTER_FAILURES),
)
NOTIFY: Final[Settings] = (ON, TO, URL, NOTIFY_COMMAND, SECRET)
STAGE: Final[Settings] = (FROM, STEP, GATHER, COMMAND, NEEDS, MAX_FAILED, REUSE, REUSE_VERSION)

STAGE_FILES: Final[Settings] = (run_request.OUTPUT, run_request.ERRORS)
"""What of the settings of a stage's run are paths with placeholders."""

STAGE_CHECKED: Final[Settings] = (run_settings.SCHEMA, run_settings.CHECK, run_settings.ESCALATE)
"""What of them has to be usable besides: it names files, or holds templates."""

STAGE_RUN: Final[Settings] = (
    *(
        run_request.ENDPOINT,
        PROFILE,
        connection_settings.SERVERLESS_URL,
        *STAGE_FILES,
        run_request.INCLUDE,
        run_request.BODY_BYTES_MAX,
    ),
    *(
        setting
        for setting in (*command_flags.RUN, *command_flags.FILE_ONLY)
        if setting.of in (RunSettings, Policy, InputSettings, OutputSettings)
        # One is a command's, which waits; of the others a flow has its own: who is told, what holds it, and what is
        # taken again.
        and setting
        not in (run_settings.REUSE, run_settings.GIVE_UP_AFTER, run_settings.NOTIFY, run_settings.MAX_FAILURES)
    ),
)
"""What a stage can say of its run; all others are those of the process that serves."""

STAGE_COMMAND: Final[Settings] = (*STAGE_FILES, run_request.INCLUDE, run_settings.MAX_ATTEMPTS)
"""What of these means something for a stage whose rows a command prints."""
