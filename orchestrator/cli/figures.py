"""Figures as people read them."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.core.gates import QUEUE_FULL, UNANSWERED
from orchestrator.views import CollectedBy, RunStatus, Snapshot, StuckSummary

ENDED: Final = ("succeeded", "failed", "cancelled")

STATES: Final = ("queued", "submitting", "uncertain", "outstanding", *ENDED)
"""In the order in which a job goes through them."""

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def stuck_text(stuck: StuckSummary) -> str | None:
    """What is stuck, in a few words; None if nothing is."""
    if not stuck.in_progress and not stuck.in_queue:
        return None
    return f"{stuck.in_progress + stuck.in_queue:,} stuck ({', '.join(stuck.examples)})"


def troubles(of: Snapshot | RunStatus) -> Iterator[str]:
    """What costs money or waits for somebody, in a few words each."""
    if of.failed_executions:
        yield f"{of.failed_executions:,} executions failed"
    if of.paid_twice:
        yield f"{of.paid_twice:,} paid twice"
    if text := stuck_text(of.stuck):
        yield text
    if of.janitor is not None and of.janitor.failing:
        yield f"the janitor cannot {', '.join(of.janitor.failing)}"


def standstill(snapshot: Snapshot) -> Iterator[str]:
    """Why nothing goes on, for as long as it does not."""
    is_told = snapshot.held_up == UNANSWERED and snapshot.unreachable_s is not None
    if snapshot.held_up is not None and not is_told:
        yield snapshot.held_up
    if snapshot.unreachable_s is not None:
        yield f"unreachable for {lasting(snapshot.unreachable_s)}"
    if snapshot.queue_full:
        yield QUEUE_FULL
    if snapshot.line_bytes_per_s is not None:
        yield f"the line is full: {snapshot.line_bytes_per_s / 1e6:.1f} MB/s"


COLLECTED_BY: Final[Mapping[CollectedBy, str]] = {
    CollectedBy.WEBHOOKS: "by webhooks",
    CollectedBy.POLLING: "by polling",
    CollectedBy.POLLING_INSTEAD: "by polling, since webhooks do not arrive",
}
"""How results are collected."""


def offline(seconds: float | None) -> Iterator[str]:
    """How long nobody needs to collect, where a result can expire at all."""
    if seconds is not None:
        yield f"safe to be offline for {lasting(seconds)}"


def finished(counts: Mapping[str, int]) -> int:
    """Jobs that have come to an end."""
    return sum(counts.get(state, 0) for state in ENDED)


def total(counts: Mapping[str, int]) -> int:
    """All jobs."""
    return sum(counts.get(state, 0) for state in STATES)


def percent(part: int, whole: int) -> str:
    """Rounded down, so that 100 % means all."""
    return f"{100 * part // whole if whole else 0} %"


def window(used: int, allowed: int, throttled: int) -> str:
    """How the limits stand: what counts in the service's present window, and how often it has refused."""
    return f"used {used}/{allowed} in this window, {throttled:,} × 429"


def lasting(seconds: float) -> str:
    """A duration to two places: "3.2 s", "41 s", "12 min 30 s", "2 h 05 min", "3 d 04 h"."""
    if seconds < 10:  # noqa: PLR2004  below ten seconds a tenth matters
        return f"{math.floor(10 * max(seconds, 0)) / 10:g} s"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02} h"


def rate(per_s: float) -> str:
    """Jobs a second, or a minute or hour where a second is too short to say anything."""
    if per_s >= 1 or per_s == 0:
        return f"{per_s:,.1f} jobs/s"
    if per_s * _MINUTE >= 1:
        return f"{per_s * _MINUTE:.1f} jobs/min"
    return f"{per_s * _HOUR:.1f} jobs/h"
