"""Figures as people read them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orchestrator.core.diagnosis.failed_executions import RetriedKind
from orchestrator.core.gates.gates import QUEUE_FULL, Gate
from orchestrator.core.text.durations import format_duration, rough_duration
from orchestrator.core.text.figures import lasting, money
from orchestrator.core.text.wording import collect_again, counted, shortened
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy, RunStatus, Snapshot, StuckSummary

ENDED: Final = ("succeeded", "failed", "cancelled")

STATES: Final = ("queued", "submitting", "uncertain", "outstanding", *ENDED)
"""In the order in which a job goes through them."""


def stuck_text(stuck: StuckSummary) -> str | None:
    """What is stuck, in a few words; None if nothing is."""
    if not stuck.in_progress and not stuck.in_queue:
        return None
    return f"{stuck.in_progress + stuck.in_queue:,} stuck ({', '.join(stuck.examples)})"


def troubles(of: Snapshot | RunStatus) -> Iterator[str]:
    """What costs money or waits for somebody, in a few words each."""
    if of.failed_executions:
        yield attempts_failed(of.failed_executions, of.retried_executions)
    if of.paid_twice:
        yield f"{of.paid_twice:,} paid twice"
    if of.unsaved:
        yield f"{counted(of.unsaved, 'result')} with a member that is no file"
    if text := stuck_text(of.stuck):
        yield text
    if of.janitor is not None and of.janitor.failing:
        yield f"the janitor cannot {', '.join(of.janitor.failing)}"


def attempts_failed(failed: int, retried: int) -> str:
    """How many executions failed, and how many of these were followed by another one."""
    again = f" ({retried:,} {'was' if retried == 1 else 'were'} retried)" if retried else ""
    return f"{counted(failed, 'attempt')} failed{again}"


KIND_CHARS_MAX: Final = 60
"""So much of what a failure says fits a line of a terminal."""


def kind_line(kind: RetriedKind) -> str:
    """A kind of executions in one line, without its number: what one says, and what they took and cost."""
    took = lasting(kind.execution_s) if kind.execution_s else "an unknown time"
    cost = "" if kind.cost is None else f", {money(kind.cost)}"
    left = f"; {counted(kind.unfinished, 'job')} of these not finished" if kind.unfinished else ""
    return f"{shortened(kind.sample, KIND_CHARS_MAX) or kind.class_} ({took}{cost}{left})"


COLUMNS_SHOWN: Final = 3
"""So many names fit a line."""


def empty_columns_text(names: Sequence[str]) -> str:
    """That these columns of a file of results hold nothing."""
    shown = ", ".join(names[:COLUMNS_SHOWN])
    more = f" and {counted(len(names) - COLUMNS_SHOWN, 'other column')}" if len(names) > COLUMNS_SHOWN else ""
    return f"{shown}{more}: null in every row of the results"


def standstill(snapshot: Snapshot) -> Iterator[str]:
    """Why nothing goes on, for as long as it does not."""
    is_told = snapshot.gate == Gate.UNANSWERED and snapshot.unreachable_s is not None
    if snapshot.finding is not None:
        yield snapshot.finding
    if snapshot.why_blocked is not None and not is_told:
        yield snapshot.why_blocked
    if snapshot.unreachable_s is not None:
        yield f"unreachable for {lasting(snapshot.unreachable_s)}"
    if snapshot.queue_full:
        yield QUEUE_FULL
    if snapshot.line_bytes_per_s is not None:
        yield f"the line is full: {snapshot.line_bytes_per_s / 1e6:.1f} MB/s"


def executing(of: Snapshot | RunStatus) -> Iterator[str]:
    """How what executes its jobs stands, where that is something of its own: batches, and workers that follow it."""
    if of.batches_stand is not None:
        yield of.batches_stand
    if of.workers is not None:
        yield of.workers.sentence


COLLECTED_BY: Final[Mapping[CollectedBy, str]] = {
    CollectedBy.WEBHOOKS: "by webhooks",
    CollectedBy.POLLING: "by polling",
    CollectedBy.POLLING_INSTEAD: "by polling, since webhooks do not arrive",
}
"""How results are collected."""


CLOSE_S: Final = 5 * 60
"""A result that had less time left when it was collected is worth a word."""


def closest_call(margin_s: float | None) -> Iterator[str]:
    """How close a result came to being lost, where that was close."""
    if margin_s is not None and margin_s < CLOSE_S:
        yield f"collected {rough_duration(int(margin_s * SECOND_US))} before expiry"


def offline(seconds: float | None) -> Iterator[str]:
    """How long a process that collects may be away, where a result can expire at all."""
    if seconds is not None:
        yield (
            f"may be offline for {rough_duration(int(seconds * SECOND_US))}" if seconds >= 1 else collect_again(seconds)
        )


def again(seconds: float | None) -> Iterator[str]:
    """How soon somebody has to collect where nobody does, where a result can expire at all."""
    if seconds is not None:
        yield collect_again(seconds)


def finished(counts: Mapping[str, int]) -> int:
    """Jobs that have come to an end."""
    return sum(counts.get(state, 0) for state in ENDED)


def total(counts: Mapping[str, int]) -> int:
    """All jobs."""
    return sum(counts.get(state, 0) for state in STATES)


def window(used: int, allowed: int, window_s: float | None, throttled: int) -> str:
    """How the limits stand: what counts in the service's present window, and how often it has refused."""
    within = f" in {format_duration(round(window_s * SECOND_US))}" if window_s else ""
    return f"{used:,} of {counted(allowed, 'request')}{within}, {f'{throttled:,}' if throttled else 'none'} throttled"
