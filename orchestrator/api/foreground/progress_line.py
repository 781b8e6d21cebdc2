"""How a run goes on, on one line of standard error: for loops of programs, and for cells of notebooks."""

import sys
from collections.abc import Callable, Iterator
from typing import Final, TextIO

import anyio

from orchestrator.core.jobs.lifecycle import ended
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.wording import counted, visible
from orchestrator.units import SECOND_US
from orchestrator.views.status import Snapshot

REDRAW_S: Final = 1.0
PLAIN_S: Final = 30.0
"""Where it cannot be drawn over, a further one is written no more often, and not unless it says something else."""

WIDTH_MAX: Final = 100


class ProgressLine:
    """What `look` finds, drawn in place on a terminal and in a notebook, and as a line now and then elsewhere."""

    def __init__(self, look: Callable[[], Snapshot], out: TextIO | None = None, *, in_notebook: bool = False) -> None:
        self._look = look
        self._out = sys.stderr if out is None else out
        self._in_place = self._out.isatty() or in_notebook or "ipykernel" in sys.modules
        self._width = 0
        """Of what is drawn now."""

        self._shown = ""

    async def serve(self) -> None:
        """Draws until cancelled."""
        while True:
            await anyio.sleep(REDRAW_S if self._in_place else PLAIN_S)
            self._draw(progress_text(self._look()))

    def _draw(self, line: str) -> None:
        if self._in_place:
            line = line[:WIDTH_MAX]
            self._write(f"\r{line:<{self._width}}")
            self._width = len(line)
        elif line != self._shown:
            self._write(f"{line}\n")
            self._shown = line

    def clear(self) -> None:
        """Makes room for what the program prints itself."""
        if self._width:
            self._write(f"\r{'':<{self._width}}\r")
            self._width = 0

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):  # closed: nobody there to read it is no reason to stop
            self._width = 0


def progress_text(snapshot: Snapshot) -> str:
    """How the run stands, in one line."""
    return visible(f"{snapshot.run}: {', '.join(_parts(snapshot))}").replace("\n", " ")  # a worker's words, too


def _parts(snapshot: Snapshot) -> Iterator[str]:
    done, total = ended(snapshot.counts), sum(snapshot.counts.values())
    yield f"{done:,} of {counted(total, 'job')} ({100 * done // total if total else 0} %)"
    if failed := snapshot.counts["failed"]:
        yield f"{failed:,} failed"
    if snapshot.jobs_per_s is not None:
        yield f"{snapshot.jobs_per_s:,.1f} jobs/s"
    if snapshot.eta_s is not None and done < total:
        yield f"{rough_duration(int(snapshot.eta_s * SECOND_US))} left"
    if snapshot.batches_stand is not None:
        yield snapshot.batches_stand
    if (why := snapshot.finding or snapshot.why_blocked) is not None:
        yield why
