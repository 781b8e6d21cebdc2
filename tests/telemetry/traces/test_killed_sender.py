"""A process that sends traces is killed while its receiver has them and it does not know; the next one goes on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.telemetry.traces.trace_position import BEGINNING, trace_position
from tests.factories import a_row
from tests.ledger.ledgers import a_run, brought_to, write_ledger
from tests.telemetry.traces.receiver import Receiver, numbers_by_job, receiving

PROGRAM = """
import sys
from functools import partial
from pathlib import Path
import anyio
from orchestrator.clock import SystemClock
from orchestrator.telemetry.traces.trace_service import send_traces
anyio.run(partial(send_traces, Path(sys.argv[1]), 1.0, clock=SystemClock()))
"""
WAIT_S = 60

pytestmark = [pytest.mark.slow, pytest.mark.system]


@contextmanager
def sending(ledger: Path, receiver: Receiver) -> Iterator[None]:
    """A process that sends, until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ledger)], env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_nothing_is_left_out_or_told_under_two_numbers_however_often_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "l.db"

    async def made(ledger: Ledger) -> None:
        await a_run(ledger, [a_row(n, f"j-{n}") for n in range(1, 7)], name="night")

    def end(*jobs: int) -> None:
        async def ended(ledger: Ledger) -> None:
            for job in jobs:
                await brought_to(ledger, State.SUCCEEDED, ledger.now() + job, job=job)

        write_ledger(path, ended)

    write_ledger(path, made)
    with trace_position(path) as place:
        place.write(BEGINNING)
    with receiving() as receiver:
        for jobs in ((1, 2), (3, 4)):
            receiver.holds = threading.Event()
            receiver.came.clear()
            end(*jobs)
            with sending(path, receiver):
                assert receiver.came.wait(WAIT_S)  # it has them, and has not answered
            receiver.holds.set()
        receiver.holds = None
        end(5, 6)
        with sending(path, receiver):
            while len(numbers_by_job(receiver.spans)) < 6:
                receiver.came.clear()
                assert receiver.came.wait(WAIT_S)
    by_job = numbers_by_job(receiver.spans)
    assert all(len(numbers) == 1 for numbers in by_job.values())
    assert len(receiver.numbers) > len(set(receiver.numbers))  # some came twice, under the same numbers
    kinds: dict[str, set[tuple[int, int]]] = {}
    for span in receiver.spans:
        kinds.setdefault(span.span_id.hex(), set()).add((span.start_time_unix_nano, span.end_time_unix_nano))
    assert all(len(times) == 1 for times in kinds.values())
