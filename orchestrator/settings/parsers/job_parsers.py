"""How what jobs are given is written: how long they may take, how many may wait, and which outputs of theirs are
results.
"""

import hashlib
import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.polling.admission import QueueDepth
from orchestrator.core.text.durations import Policy, format_duration, parse_duration, policy_problems
from orchestrator.settings.parsers.name_parsers import parse_path
from orchestrator.settings.value_types import OFF, Kind, ValueType
from orchestrator.settings.words_and_defaults import Pinned
from orchestrator.units import MILLISECOND_US, SECOND_US
from orchestrator.user_code import UserCodeError, call

QUEUE_DEPTH_MAX: Final = 10_000_000
RETENTION_US_MIN: Final = 1_000_000
PROGRESS_EVERY_US_MIN: Final = 1_000_000
WORKERS_MAX: Final = 10_000
_WORKERS: Final = re.compile(r"(?:(?P<number>[0-9]{1,9})|auto:(?P<least>[0-9]{1,9})-(?P<most>[0-9]{1,9}))")


def duration(parse: Callable[[int], int] = int, whole_us: Callable[[int], int] = int) -> ValueType[int]:
    """Durations; `parse` checks one in microseconds and says what is kept of it, which `whole_us` brings back."""

    def write(value: int) -> Sequence[str]:
        return (format_duration(whole_us(value)),)

    return ValueType(Kind.DURATION, "D", lambda texts: parse(parse_duration(texts[-1])), write)


def parse_queue_depth(text: str) -> QueueDepth:
    """How many jobs may wait in the endpoint's queue."""
    match text:
        case "auto" | "off":
            return text
        case _ if text.isascii() and text.isdecimal() and 0 < int(text[:10]) <= QUEUE_DEPTH_MAX:
            return int(text)
        case _:
            raise ValueError(
                f'"{text:.40}" is no queue depth; write auto, off, or a number from 1 to {QUEUE_DEPTH_MAX:,}'
            )


def parse_workers(text: str) -> int | WorkerRange:
    """How many workers there will be, or between which numbers they are to follow what is needed."""
    match = _WORKERS.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text:.40}" is no number of workers; write auto:MIN-MAX, as in auto:2-30')
    if match["number"] is not None:
        least = most = int(match["number"])
    else:
        least, most = int(match["least"]), int(match["most"])
    if not 1 <= least <= most <= WORKERS_MAX:
        raise ValueError(f'"{text:.40}": workers go from 1 to {WORKERS_MAX:,}, the smaller number first')
    return most if match["number"] is not None else WorkerRange(least, most)


def format_workers(value: int | WorkerRange) -> str:
    """The same as it is written."""
    return str(value) if isinstance(value, int) else f"auto:{value.least}-{value.most}"


def policy_duration(field: str) -> ValueType[int]:
    """A duration of the policy, inside the service's bounds."""

    def parse(duration_us: int) -> int:
        milliseconds = duration_us // MILLISECOND_US
        if problems := policy_problems(Policy(**{field: milliseconds})):  # type: ignore[arg-type]
            raise ValueError("; ".join(problems))
        return milliseconds

    return duration(parse, lambda milliseconds: milliseconds * MILLISECOND_US)


def check_retention(duration_us: int) -> int:
    """How long a result is kept."""
    if duration_us < RETENTION_US_MIN:
        raise ValueError(f"a result is kept for {format_duration(RETENTION_US_MIN)} at least")
    return duration_us


def check_second_or_more(duration_us: int) -> int:
    """A time in which something may happen at all."""
    if duration_us < SECOND_US:
        raise ValueError(f"must be at least {format_duration(SECOND_US)}")
    return duration_us


def check_not_zero(duration_us: int) -> int:
    """A time that is not zero."""
    if not duration_us:
        raise ValueError("must be more than 0 s")
    return duration_us


def parse_progress_every(text: str) -> int:
    """How often a resumable job is asked how far it is, in microseconds; 0 where that is off."""
    every_us = 0 if text == OFF else parse_duration(text)
    if text != OFF and every_us < PROGRESS_EVERY_US_MIN:
        least = format_duration(PROGRESS_EVERY_US_MIN)
        raise ValueError(f"no job is asked more often than every {least}; off asks not at all")
    return every_us


def format_progress_every(every_us: int) -> str:
    """The same as it is written."""
    return format_duration(every_us) if every_us else OFF


def parse_schema(text: str) -> Pinned:
    """A file that holds a JSON Schema, as it is now."""
    return _pinned(os.path.realpath(parse_path(text)), "")


def parse_check(text: str) -> Pinned:
    """A function of the user's, as the file that it is in is now: of a module that can be imported, or of a file.

    A module of the folder at hand is found as its file: another process may be in another folder.
    """
    place, _, function = text.rpartition(":")
    if not place or not function.isidentifier():
        raise ValueError(f'"{text:.80}" names no function; write MODULE:FUNCTION or FILE.py:FUNCTION')
    if place.endswith(".py"):
        return _pinned(os.path.realpath(parse_path(place)), f":{function}")
    if not all(part.isidentifier() for part in place.split(".")):
        raise ValueError(f'"{place:.80}" is neither a module nor a file that ends in .py')
    beside = Path(*place.split(".")).with_suffix(".py")
    if beside.is_file():
        return _pinned(os.path.realpath(beside), f":{function}")
    try:
        spec = call(importlib.util.find_spec, place)  # a package is imported for that, and may do anything
    except UserCodeError as error:
        raise ValueError(f"the module {place} cannot be imported: {error}") from None
    if spec is None or spec.origin is None or not spec.has_location:
        raise ValueError(f"there is no module {place}, nor a file {beside}")
    return Pinned(text, _pinned(spec.origin, "").sha256)


def format_pinned(pinned: Pinned) -> str:
    """How what was pinned is named."""
    return pinned.ref


def _pinned(path: str, behind: str) -> Pinned:
    try:
        return Pinned(f"{path}{behind}", hashlib.sha256(Path(path).read_bytes()).hexdigest())
    except OSError as error:
        raise ValueError(f"{path}: this file cannot be read ({error.strerror})") from None
