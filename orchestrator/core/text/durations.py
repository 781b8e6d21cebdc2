"""Durations as people write them (`30s`, `2h`), and the execution policy (time-out, TTL, priority) that travels with a
job (contract, policy).

Field names here carry their unit; the names on the wire are the service's. A field that is None is left out of the
request, and the service's default applies.
"""

import difflib
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

EXECUTION_TIMEOUT_MS_MIN: Final = 5_000
EXECUTION_TIMEOUT_MS_MAX: Final = 604_800_000
EXECUTION_TIMEOUT_MS_DEFAULT: Final = 600_000
"""10 minutes: what applies when a request names no execution timeout."""

TTL_MS_MIN: Final = 10_000
TTL_MS_MAX: Final = 604_800_000
TTL_MS_DEFAULT: Final = 86_400_000
"""24 hours: what applies when a request names no TTL."""

DURATION_US_MAX: Final = 36_500 * 86_400_000_000
"""A hundred years: longer ones are typing errors, and sums of times must stay within 64 bits."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one job asks of the service. None means that the request does not say."""

    execution_timeout_ms: int | None = msgspec.field(default=None, name="executionTimeout")
    """The longest that a worker may run the job."""
    ttl_ms: int | None = msgspec.field(default=None, name="ttl")
    """The job's whole life, counted from its submission, queue and execution included."""
    low_priority: bool | None = msgspec.field(default=None, name="lowPriority")
    """True: the job does not make the endpoint start workers."""

    @property
    def timeout_ms(self) -> int:
        """The longest that a worker may run the job, where the request does not say, too."""
        return self.execution_timeout_ms or EXECUTION_TIMEOUT_MS_DEFAULT


_WIRE_NAMES: Final = tuple(field.encode_name for field in msgspec.structs.fields(Policy))

_members: Final = msgspec.json.Decoder(dict[str, object])


def decode_policy(raw: bytes) -> Policy:
    """The policy that the JSON text `raw` holds, under the service's names.

    Raises ValueError with everything that is wrong with it, in words for the author of the text.
    """
    try:
        members = _members.decode(raw)
    except ValueError:
        raise ValueError('policy must be an object such as {"ttl": 86400000}') from None
    problems = [_unknown(name) for name in members if name not in _WIRE_NAMES] + _mistyped(members)
    if problems:
        raise ValueError("; ".join(problems))
    policy = msgspec.convert(members, Policy)
    if out_of_bounds := policy_problems(policy):
        raise ValueError("; ".join(out_of_bounds))
    return policy


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.replace("_", ""), _WIRE_NAMES, n=1)
    advice = f"did you mean {near[0]}?" if near else f"its keys are {', '.join(_WIRE_NAMES)}"
    return f'policy has no key "{name:.40}"; {advice}'


def _mistyped(members: Mapping[str, object]) -> list[str]:
    problems = [
        f"policy.{name} must be a whole number of milliseconds"
        for name in ("executionTimeout", "ttl")
        if not isinstance(members.get(name), int | None) or isinstance(members.get(name), bool)
    ]
    if not isinstance(members.get("lowPriority"), bool | None):
        problems.append("policy.lowPriority must be true or false")
    return problems


def policy_problems(policy: Policy) -> tuple[str, ...]:
    """What the service would refuse about `policy` (contract, Limits), one text each; empty when nothing."""
    bounds = (
        ("executionTimeout", policy.execution_timeout_ms, EXECUTION_TIMEOUT_MS_MIN, EXECUTION_TIMEOUT_MS_MAX),
        ("ttl", policy.ttl_ms, TTL_MS_MIN, TTL_MS_MAX),
    )
    return tuple(
        f"policy.{name} is {value} ms; the service takes {low} ({format_duration(low * 1000)})"
        f" to {high} ({format_duration(high * 1000)})"
        for name, value, low, high in bounds
        if value is not None and not low <= value <= high
    )


def encode_policy(policy: Policy) -> bytes:
    """`policy` as it stands in a request: compact JSON, only what is set, always in the same order."""
    return msgspec.json.encode(policy)


def merge_policies(run: Policy, row: Policy) -> Policy:
    """The policy of a job whose line says `row` in a run that says `run`: each field of the row wins."""
    return Policy(
        execution_timeout_ms=run.execution_timeout_ms if row.execution_timeout_ms is None else row.execution_timeout_ms,
        ttl_ms=run.ttl_ms if row.ttl_ms is None else row.ttl_ms,
        low_priority=run.low_priority if row.low_priority is None else row.low_priority,
    )


def with_own(row: bytes | None, own: bytes) -> bytes:
    """The policy of a line (as JSON, or None) with what its job has of its own: each field of that wins."""
    return encode_policy(merge_policies(Policy() if row is None else decode_policy(row), decode_policy(own)))


_UNITS_US: Final = {"day": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000}

_ALIASES: Final = {"": "s", "m": "min", "d": "day", "days": "day"}

_DURATION: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*")


def parse_duration(text: str) -> int:
    """Microseconds in `text`: a number and a unit (`250ms`, `90s`, `30m`, `24h`, `7d`); without a unit, seconds.

    Everything that `format_duration` writes is understood too. Parts of a microsecond are rounded. Raises ValueError.
    """
    match = _DURATION.fullmatch(text)
    unit = _UNITS_US.get(_ALIASES.get(match[2], match[2])) if match else None
    if match is None or unit is None:
        raise ValueError(f'"{text:.40}" is not a duration; write a number and a unit: 250ms, 90s, 30m, 24h or 7d')
    duration_us = round(Decimal(match[1]) * unit)
    if duration_us > DURATION_US_MAX:
        raise ValueError(f'"{text:.40}" is too long; the longest duration is {format_duration(DURATION_US_MAX)}')
    return duration_us


def format_duration(duration_us: int) -> str:
    """`duration_us` (not negative) exactly, in the largest unit that takes a whole number: "90 s", "2 min", "7 days".

    Below a millisecond it gets decimals: "1.5 ms".
    """
    for name, unit in _UNITS_US.items():
        count, rest = divmod(duration_us, unit)
        if not rest and count:
            return f"{count} {name}s" if name == "day" and count > 1 else f"{count} {name}"
    if not duration_us:
        return "0 s"
    return f"{(Decimal(duration_us) / 1000).normalize():f} ms"


def rough_duration(duration_us: int) -> str:
    """`duration_us` rounded down for people: to whole minutes from two on, else to whole seconds; no less than one."""
    unit = _UNITS_US["min" if duration_us >= 2 * _UNITS_US["min"] else "s"]
    return format_duration(max(duration_us - duration_us % unit, unit))
