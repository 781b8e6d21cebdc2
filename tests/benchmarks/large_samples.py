"""Samples for the ledger of a million jobs, made up: of three weeks, or of as long as any are kept."""

import sqlite3
from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.core.samples.buckets import COMMIT_BOUNDS_S, LAG_BOUNDS_S, MARGIN_BOUNDS_S, TIME_BOUNDS_S, Histogram
from orchestrator.core.samples.sample_spacing import KEPT_FOR_US, STEPS_S, aligned, longest_step
from orchestrator.ledger.samples.samples import EndpointSample, OperationUse, ProcessTotals, RunSample
from orchestrator.units import DAY_US, SECOND_US

DAYS: Final = 21
SLOT: Final = 0


def sample_rows(
    connection: sqlite3.Connection, runs: list[int], endpoints: list[int], until: int, *, days: int = DAYS
) -> None:
    """Writes down how these stood for so many days until then, in the steps in which that is kept."""
    for table, key, numbers, body in (
        ("run_samples", "run_id", runs, _run),
        ("endpoint_samples", "endpoint_id", endpoints, _endpoint),
        ("process_totals", "slot", [SLOT], _process),
    ):
        connection.executemany(
            f"INSERT OR REPLACE INTO {table} ({key}, step_s, at, body) VALUES (?, ?, ?, ?)",
            (
                (number, step, at, msgspec.json.encode(body(n)))
                for n, (step, at) in enumerate(_moments(aligned(until), days))
                for number in numbers
            ),
        )


def _moments(until: int, days: int) -> Iterator[tuple[int, int]]:
    """When something is still kept, oldest first, each with its step."""
    at = until - days * DAY_US
    at += -at % (STEPS_S[-1] * SECOND_US)
    while at <= until:
        step = longest_step(at - 1, at)
        if until - at <= KEPT_FOR_US[step]:
            yield step, at
        finest = next(each for each in STEPS_S if until - at <= KEPT_FOR_US[each])
        at += finest * SECOND_US


def _grown(n: int, bounds: tuple[float, ...]) -> Histogram:
    return Histogram(tuple(n * (1 + place) for place in range(len(bounds))), 60.0 * n)


def _run(n: int) -> RunSample:
    return RunSample(
        counts={"queued": max(400_000 - 20 * n, 0), "outstanding": 60 + n % 7, "succeeded": 18 * n, "failed": n},
        hold="paused" if n % 900 < 30 else "",
        hold_by="root" if n % 900 < 30 else "",
        spent=0.004 * n,
        submissions={"accepted": 20 * n + n % 5, "deferred": n // 90},
        ends={"succeeded": 18 * n, "failed": n},
        margin=_grown(n, MARGIN_BOUNDS_S),
        queue=_grown(n, TIME_BOUNDS_S),
        execution=_grown(n, TIME_BOUNDS_S),
    )


def _endpoint(n: int) -> EndpointSample:
    return EndpointSample(
        workers={"running": 38 + n % 3, "idle": 2},
        operations={
            "run": OperationUse(
                allowance=1_000 if n % 500 < 400 else 500, used=900 + n % 90, window_s=10, in_flight=n % 9, concurrent=200,
                codes={"2xx": 20 * n, "429": n // 90}, latency=_grown(n, TIME_BOUNDS_S[:11]),
            )
        },
        submissions={"accepted": 20 * n},
        ends={"succeeded": 18 * n, "failed": n},
        executions={"succeeded": 18 * n, "failed": 2 * n},
        spent=0.004 * n,
        margin=_grown(n, MARGIN_BOUNDS_S),
        queue=_grown(n, TIME_BOUNDS_S),
        execution=_grown(n, TIME_BOUNDS_S),
    )  # fmt: skip


def _process(n: int) -> ProcessTotals:
    return ProcessTotals(
        process="vm:4711",
        resident_bytes=110_000_000 + n % 1_000,
        begins=3,
        cpu_s=2.5 * n,
        lag=_grown(n, LAG_BOUNDS_S),
        commits=_grown(n, COMMIT_BOUNDS_S),
        webhooks={"accepted": 18 * n, "refused": n // 50},
    )
