"""How the values of settings are written: from the texts that people give, and back to them."""

import hashlib
import importlib.util
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

from orchestrator.clock import SystemClock, local_zone
from orchestrator.core.gates.brakes import Canary, MaxFailures
from orchestrator.core.gates.failure_breaker import OFF as BREAKER_OFF
from orchestrator.core.gates.failure_breaker import Rules
from orchestrator.core.jobs.escalation import EscalationRule
from orchestrator.core.jobs.escalation_text import format_rule, parse_rule
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation, Pacing, format_limit, parse_limit
from orchestrator.core.polling.admission import QueueDepth
from orchestrator.core.service.addresses import interface_url
from orchestrator.core.service.row_variables import parse_allowed
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.core.text.durations import Policy, format_duration, parse_duration, policy_problems
from orchestrator.core.text.name_match import looks_like_an_id
from orchestrator.core.text.time_of_day import parse_moment, written_moment
from orchestrator.settings.setting import Form, Kind, duration, parsed
from orchestrator.settings.values import LOCAL, STANDARD_INPUT, CellType, Include, KeyPlace, Pinned
from orchestrator.units import MILLISECOND_US, SECOND_US, WHOLE
from orchestrator.user_code import UserCodeError, call

QUEUE_DEPTH_MAX: Final = 10_000_000
NAME_CHARACTERS_MAX: Final = 200
STANDARD_OUTPUT: Final = Path("/dev/stdout")
RETENTION_US_MIN: Final = 1_000_000
EVERY_US_MIN: Final = 1_000_000

FLATTENED: Final = ("output", "input", "metadata")
"""What a path of `flattened` leads into."""

PERCENT: Final = WHOLE // 100

_PERCENTAGE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?)%")
_ENDPOINT: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def endpoint(text: str) -> str:
    """The id of an endpoint, or a function of the user's. Raises `ValueError`, as all of these do."""
    if text.startswith(LOCAL):
        file, _, function = text.removeprefix(LOCAL).rpartition(":")
        if not file or not function.isidentifier():
            raise ValueError(f'"{text}" names no function; write local:FILE.py:FUNCTION')
    elif not _ENDPOINT.fullmatch(text):
        raise ValueError(f'"{text:.80}" is no endpoint id; write the id alone, or local:FILE.py:FUNCTION')
    return text


def is_endpoint_name(given: str) -> bool:
    """Whether `given` is not taken for an id as it stands."""
    return not (given.startswith(LOCAL) or "/" in given or looks_like_an_id(given))


def parse_name(text: str) -> str:
    """The name of a run. Raises `ValueError`."""
    if not text.strip() or not text.isprintable() or len(text) > NAME_CHARACTERS_MAX:
        raise ValueError(f"a run's name has 1 to {NAME_CHARACTERS_MAX} printable characters")
    return text


def file_path(text: str) -> Path:
    """A file's name, which may be that of a file to come."""
    if not text or "\0" in text:
        raise ValueError("this is no file name")
    return Path(text)


def output_path(text: str) -> Path:
    """The same, or standard output."""
    return STANDARD_OUTPUT if text == STANDARD_INPUT else file_path(text)


def includes(texts: Sequence[str]) -> tuple[Include, ...]:
    """In one order, whatever was written; without any word nothing."""
    words = [word.strip() for word in texts[-1].split(",") if word.strip()]
    for word in words:
        if word not in tuple(Include):
            raise ValueError(f'"{word:.40}" is none of {", ".join(Include)}')
    return tuple(each for each in Include if each in words)


def flattened(texts: Sequence[str]) -> tuple[str, ...]:
    """Paths into outputs and inputs, each of which is a column."""
    for text in texts:
        root, *parts = text.split(".")
        if root not in FLATTENED or not all(parts):
            raise ValueError(f'"{text:.80}" is no path; write it as output.caption or output.choices.0.text')
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"{twice[0]} stands there twice")
    return tuple(texts)


def limits(texts: Sequence[str]) -> Mapping[Operation, Limit]:
    """The limits to keep: the contract's, where nothing else was chosen."""
    chosen = dict(map(parse_limit, texts))
    if len(chosen) < len(texts):
        raise ValueError("an operation is named twice; give each one limit")
    return {**CONTRACT_LIMITS, **chosen}


def limit_texts(kept: Mapping[Operation, Limit]) -> Sequence[str]:
    """One at least, though it be the contract's: it says that what stands in the file does not count."""
    chosen = [each for each in CONTRACT_LIMITS if kept.get(each, CONTRACT_LIMITS[each]) != CONTRACT_LIMITS[each]]
    return [format_limit(each, kept[each]) for each in chosen or list(kept)[:1]]


_KEY_FORM: Final = "write URL=env:NAME, where NAME is the variable that holds the key"


def keys(texts: Sequence[str]) -> Mapping[str, str]:
    """The variables that hold the keys of further services; a key itself is not for command lines and files."""
    found: dict[str, str] = {}
    for number, each in enumerate(texts, start=1):
        url, _, variable = each.rpartition("=")
        try:
            address = interface_url(url, added="/v2").rstrip("/")
        except ValueError as error:
            raise ValueError(f"number {number}: {error if url else _KEY_FORM}") from None  # it may be a key itself
        if not REFERENCE.fullmatch(variable):
            raise ValueError(f"number {number}, for {address}: {_KEY_FORM}")
        found[address] = variable
    return found


def allowed_variables(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of variables, or how they begin; several may stand in one text, with commas between them."""
    return tuple(parse_allowed(each.strip()) for text in texts for each in text.split(","))


def variable(text: str) -> str:
    """The name of a variable that holds a key, from `env:NAME`. What it is instead is not quoted: it may be a key."""
    named = REFERENCE.fullmatch(text)
    if named is None:
        raise ValueError("write env:NAME, where NAME is the variable that holds the key")
    return named[1]


def variables(held: Mapping[str, str]) -> list[str]:
    """`held` as they are written; what a program gave is a key itself, which is not for messages either."""
    return [f"{url}={key}" for url, key in held.items() if REFERENCE.fullmatch(key)]


def notify(text: str) -> str:
    """Who is told of a run: a URL, `env:NAME` of the variable that holds one, or a command line. It may be a secret, so
    that it is not repeated.
    """
    if REFERENCE.fullmatch(text):
        return text
    if text.startswith("env:"):
        raise ValueError("write env:NAME, where NAME is the variable that holds the URL")
    if "://" in text.split(" ", maxsplit=1)[0]:
        if urlsplit(hook_url(text)).password is not None:
            raise ValueError("it holds a password, and the ledger would keep that; name the variable: env:NAME")
        return text
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or not text.isprintable():
        raise ValueError("write a URL, env:NAME of the variable that holds one, or a command")
    return text


def hook_url(text: str) -> str:
    """A URL that messages are posted to. Its path may be a secret, so that it is not repeated."""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("this is no URL; write it as https://…, with %XX for what is not ASCII")
    return text


def schema_file(text: str) -> Pinned:
    """A file that holds a JSON Schema, as it is now."""
    return _pinned(os.path.realpath(file_path(text)), "")


def check_function(text: str) -> Pinned:
    """A function of the user's, as the file that it is in is now: of a module that can be imported, or of a file.

    A module of the folder at hand is found as its file: another process may be in another folder.
    """
    place, _, function = text.rpartition(":")
    if not place or not function.isidentifier():
        raise ValueError(f'"{text:.80}" names no function; write MODULE:FUNCTION or FILE.py:FUNCTION')
    if place.endswith(".py"):
        return _pinned(os.path.realpath(file_path(place)), f":{function}")
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


def pinned_ref(pinned: Pinned) -> str:
    """How what was pinned is named."""
    return pinned.ref


def _pinned(path: str, behind: str) -> Pinned:
    try:
        return Pinned(f"{path}{behind}", hashlib.sha256(Path(path).read_bytes()).hexdigest())
    except OSError as error:
        raise ValueError(f"{path}: this file cannot be read ({error.strerror})") from None


def share(text: str) -> int:
    """A percentage, in millionths of the whole."""
    match = _PERCENTAGE.fullmatch(text)
    found = round(Decimal(match[1]) * PERCENT) if match else WHOLE + 1
    if found > WHOLE:
        raise ValueError(f'"{text:.40}" is no share; write a percentage up to 100, as in "5%"')
    return found


def percentage(found: int) -> str:
    """The same as it is written."""
    return f"{found / PERCENT:g}%"


def rules(texts: Sequence[str]) -> tuple[EscalationRule, ...]:
    """What jobs are given after their troubles."""
    return tuple(map(parse_rule, texts))


def rule_texts(found: Sequence[EscalationRule]) -> Sequence[str]:
    """The same as they are written."""
    return list(map(format_rule, found))


def pacing(text: str) -> Pacing:
    """How requests are spread."""
    match text:
        case "even" | "window":
            return text
        case _:
            raise ValueError(f'"{text:.40}" is no pacing; there are even and window')


def queue_depth(text: str) -> QueueDepth:
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


def policy_milliseconds(field: str) -> Form[int]:
    """A duration of the policy, inside the service's bounds."""

    def parse(duration_us: int) -> int:
        milliseconds = duration_us // MILLISECOND_US
        if problems := policy_problems(Policy(**{field: milliseconds})):  # type: ignore[arg-type]
            raise ValueError("; ".join(problems))
        return milliseconds

    return duration(parse, lambda milliseconds: milliseconds * MILLISECOND_US)


def retention(duration_us: int) -> int:
    """How long a result is kept."""
    if duration_us < RETENTION_US_MIN:
        raise ValueError(f"a result is kept for {format_duration(RETENTION_US_MIN)} at least")
    return duration_us


def a_second_or_more(duration_us: int) -> int:
    """A time in which something may happen at all."""
    if duration_us < SECOND_US:
        raise ValueError(f"must be at least {format_duration(SECOND_US)}")
    return duration_us


def more_than_nothing(duration_us: int) -> int:
    """A time that is not zero."""
    if not duration_us:
        raise ValueError("must be more than 0 s")
    return duration_us


OFF: Final = "off"
AMOUNT_MAX: Final = 1_000_000_000

_AMOUNT: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,15})?")


def amount(metavar: str, *, may_be_off: bool = False) -> Form[float]:
    """Amounts of money, and prices, in whatever currency: more than nothing, or 0 where that is `off`."""

    def parse(texts: Sequence[str]) -> float:
        if may_be_off and texts[-1] == OFF:
            return 0.0
        found = float(texts[-1]) if _AMOUNT.fullmatch(texts[-1]) else 0.0
        if not 0 < found <= AMOUNT_MAX:
            raise ValueError(f'"{texts[-1]:.40}" is no amount; write a number like 25 or 0.00031, without a currency')
        return found

    def write(value: float) -> Sequence[str]:
        return (format(Decimal(repr(value)).normalize(), "f") if value else OFF,)

    return Form(Kind.NUMBER, metavar, parse, write)


ROWS_MAX: Final = 1_000_000_000
CANARY_MAX: Final = 10_000
"""They are asked for one by one."""

BREAKER_MAX: Final = 10_000

_BREAKER: Final = re.compile(r"([0-9]{1,6}):([^/]+)/([0-9]{1,6})")


def breaker(text: str) -> Rules:
    """When the breaker trips."""
    if text == OFF:
        return BREAKER_OFF
    match = _BREAKER.fullmatch(text)
    rules = Rules(int(match[1]), share(match[2]), int(match[3])) if match else BREAKER_OFF
    if not 1 <= rules.first <= BREAKER_MAX or not 1 <= rules.window <= BREAKER_MAX:
        raise ValueError(
            f'"{text:.40}" is no rule for the breaker; write off, or FIRST:SHARE/LAST with numbers from 1 to'
            f" {BREAKER_MAX:,}, as in {breaker_text(Rules())}"
        )
    return rules


def breaker_text(rules: Rules) -> str:
    """The same as it is written."""
    return f"{rules.first}:{percentage(rules.share)}/{rules.window}" if rules.first else OFF


def canary(text: str) -> Canary:
    """How many rows go first, and which share of them has to succeed."""
    if text == OFF:
        return Canary()
    rows, colon, part = text.partition(":")
    if not (rows.isascii() and rows.isdecimal() and 1 <= int(rows[:9]) <= CANARY_MAX) or (colon and not part):
        raise ValueError(f'"{text:.40}" is no canary; write 1 to {CANARY_MAX:,} rows, as in 10 or 10:80%, or off')
    found = Canary(int(rows), share(part) if colon else WHOLE)
    if not found.share:
        raise ValueError(f'"{text:.40}" is no canary: none of its rows would have to succeed')
    return found


def canary_text(value: Canary) -> str:
    """The same as it is written."""
    if not value.rows:
        return OFF
    return str(value.rows) if value.share == WHOLE else f"{value.rows}:{percentage(value.share)}"


def max_failures(text: str) -> MaxFailures:
    """How many rows may fail, or which share of them."""
    if text == OFF:
        return MaxFailures()
    if text.endswith("%"):
        return MaxFailures(share=share(text))
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(ROWS_MAX))):
        raise ValueError(f'"{text:.40}" is neither a number of rows nor a share of them; write 50, 5% or off')
    return MaxFailures(rows=int(text))


def max_failures_text(value: MaxFailures) -> str:
    """The same as it is written."""
    if value.rows is not None:
        return str(value.rows)
    return OFF if value.share is None else percentage(value.share)


def finish_by(text: str) -> int:
    """When a run is to be finished, from now on, in the zone of this machine where none is named."""
    return 0 if text == OFF else parse_moment(text, now=SystemClock().now(), zone=local_zone())


def finish_by_text(at: int) -> str:
    """The same as it is written."""
    return written_moment(at) if at else OFF


def progress_every(text: str) -> int:
    """How often a resumable job is asked how far it is, in microseconds; 0 where that is off."""
    every_us = 0 if text == OFF else parse_duration(text)
    if text != OFF and every_us < EVERY_US_MIN:
        raise ValueError(f"no job is asked more often than every {format_duration(EVERY_US_MIN)}; off asks not at all")
    return every_us


def progress_every_text(every_us: int) -> str:
    """The same as it is written."""
    return format_duration(every_us) if every_us else OFF


def key_place(text: str) -> KeyPlace:
    """Where the API key goes."""
    place: KeyPlace | None = next((place for place in get_args(KeyPlace) if place == text), None)
    if place is None:
        raise ValueError("the key goes either in the query or in the header")
    return place


def address(added: str) -> Form[str]:
    """A service's URL, to which `added` is added."""
    return parsed("URL", lambda given: interface_url(given, added=added))


def templates(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Fields, each with the template that makes it, as in `prompt={{ row.caption }}`."""
    return _once([_pair(text, "NAME=TEMPLATE") for text in texts])


def types(texts: Sequence[str]) -> tuple[tuple[str, CellType], ...]:
    """Columns, each with the type of its cells."""
    found = _once([_pair(text.strip(), "NAME=TYPE") for text in texts[-1].split(",") if text.strip()])
    if wrong := [kind for _, kind in found if kind not in tuple(CellType)]:
        raise ValueError(f'"{wrong[0]:.40}" is none of {", ".join(CellType)}')
    return tuple((name, CellType(kind)) for name, kind in found)


def pairs(value: Sequence[tuple[str, str]]) -> list[str]:
    """The texts that those were."""
    return [f"{name}={text}" for name, text in value]


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f'"{text:.80}" is not {form}')
    return name.strip(), rest


def _once(found: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there twice")
    return tuple(found)
