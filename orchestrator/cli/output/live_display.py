"""The progress display of a terminal: four aligned lines, redrawn in place, gone at the end.

captions  ━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━   6,120/10,000   61 %
jobs      3,581 queued   280 outstanding   6,101 succeeded   19 failed
speed     98.7 jobs/s   40 s left   1 min 02 s so far
service   994 of 1,000 requests in 10 s, none throttled   may be offline for 24 min
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import anyio
from rich.console import Console as Screen
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.cli.output import streams, theme
from orchestrator.cli.output.batch_table import batches_table
from orchestrator.cli.output.consoles import WEBHOOKS_FAIL, QuietConsole
from orchestrator.cli.output.member_table import members_table, unwell_members
from orchestrator.cli.output.status_texts import (
    STATES,
    closest_call,
    finished,
    offline,
    standstill,
    total,
    troubles,
    window,
)
from orchestrator.core.text.figures import lasting, percent, rate
from orchestrator.core.text.wording import counted
from orchestrator.views.status import Snapshot

REDRAW_EVERY_S: Final = 0.25
"""Fast enough to look alive, slow enough to be read."""

NAME_WIDTH_MAX: Final = 12
"""A longer one stands on a line of its own."""

WIDTH_MAX: Final = 100
"""A bar across a very wide terminal says no more."""

BAR_WIDTH_MIN: Final = 5

_STYLES: Final = {
    "uncertain": theme.DOUBTFUL,
    "outstanding": theme.BUSY,
    "succeeded": theme.GOOD,
    "failed": theme.BAD,
}

GAP: Final = "   "
"""Between the parts of a line."""


def terminal() -> Screen:
    """The terminal behind standard error."""
    return Screen(stderr=True, highlight=False)


class LiveConsole(QuietConsole):
    """Redraws the display; lines that are said meanwhile appear above it."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen
        self._is_asking = False
        self._answered = anyio.Event()

    def info(self, line: str) -> None:
        """One line of information, above the display."""
        with suppress(OSError):  # as in `printing`: nobody there to read it is no reason to stop a run
            self._screen.print(Text(streams.shown(streams.named(line))))

    def warn(self, line: str) -> None:
        """One line that the person should not miss, above the display."""
        with suppress(OSError):
            self._screen.print(Text.assemble(("warning:", theme.DOUBTFUL), " ", streams.shown(streams.named(line))))

    def interrupted(self, signum: int) -> None:
        """A signal asked the program to stop; a second one will end it without a chance to show the cursor again."""
        super().interrupted(signum)
        with suppress(OSError):
            self._screen.show_cursor()

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Draws until it is cancelled, then takes the display away: the summary comes in its place."""
        self.first = look()
        with suppress(OSError):  # a terminal that was closed is no reason to stop a run
            while True:
                await self._draw(look)
                await self._answered.wait()
                self._is_asking, self._answered = False, anyio.Event()
        await anyio.sleep_forever()

    async def _draw(self, look: Callable[[], Snapshot]) -> None:
        """Until something is asked."""
        with Live(console=self._screen, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            while not self._is_asking:
                live.update(Display(look()), refresh=True)
                await anyio.sleep(REDRAW_EVERY_S)

    async def confirm_stop(self, run: str, served_by: str) -> bool:
        """Asks what becomes of the run, once the display is out of the way for good."""
        self._is_asking = True
        await anyio.sleep(2 * REDRAW_EVERY_S)
        return await super().confirm_stop(run, served_by)

    async def confirm_drop(self, run: str, unsuccessful: int) -> bool:
        """Asks what becomes of jobs, while the display is out of the way."""
        self._is_asking = True
        await anyio.sleep(2 * REDRAW_EVERY_S)
        try:
            return await super().confirm_drop(run, unsuccessful)
        finally:
            self._answered.set()


class Display:
    """How the run stands, as it is drawn."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __rich_console__(self, console: Screen, options: ConsoleOptions) -> RenderResult:
        """Narrower than the terminal: a `^C` echoed behind a full line would push the display out of its place."""
        snapshot = self._snapshot
        width = min(max(options.max_width - len("^C^C"), 1), WIDTH_MAX)
        name = Text(streams.shown(snapshot.run), style="bold", no_wrap=True, overflow="ellipsis")
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.width = width
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        if name.cell_len > NAME_WIDTH_MAX:  # the figures need their lines
            yield name
            name = Text()
        grid.add_row(name, _progress(snapshot))
        if total(snapshot.counts):
            grid.add_row(_label("jobs"), _Spread(_counts(snapshot)))
            grid.add_row(_label("speed"), _Spread(_speed(snapshot)))
            grid.add_row(_label("service"), _Spread(_service(snapshot)))
        if snapshot.workers is not None:
            grid.add_row(_label("workers"), Text(_shown(snapshot.workers.sentence)))
        yield grid
        if snapshot.batches:
            yield ""
            yield batches_table(snapshot.batches, width=width)
        if snapshot.members:
            yield members_table(snapshot.members, width=width)
            for text in unwell_members(snapshot.members):
                yield Text(_shown(text), style=theme.DOUBTFUL)


def _label(text: str) -> Text:
    return Text(text, style="dim")


class _Spread:
    """Parts beside each other, as many on a line as fit; a number stays with its word. One that is longer than a line
    goes on on the next.
    """

    def __init__(self, parts: Iterable[Text]) -> None:
        self._parts = tuple(parts)

    def __rich_measure__(self, console: Screen, options: ConsoleOptions) -> Measurement:
        return Measurement(max(part.cell_len for part in self._parts), options.max_width)

    def __rich_console__(self, console: Screen, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for part in self._parts:
            if line and line.cell_len + len(GAP) + part.cell_len > options.max_width:
                yield line
                line = Text()
            line = line.append(GAP if line else "").append_text(part)
        yield line


def _progress(snapshot: Snapshot) -> RenderableType:
    if snapshot.reading:
        return Text(f"reading the input: {counted(snapshot.rows_read, 'row')} checked so far")
    done, of = finished(snapshot.counts), total(snapshot.counts)
    return _Bar(done, of)


class _Bar:
    """How much is done: a bar where there is room for one, the numbers in any case."""

    def __init__(self, done: int, of: int) -> None:
        self._done, self._of = done, of
        self._figures = f"{done:,}/{of:,}{GAP}{percent(done, of):>5}"

    def __rich_measure__(self, console: Screen, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self._figures), options.max_width), options.max_width)

    def __rich_console__(self, console: Screen, options: ConsoleOptions) -> RenderResult:
        if options.max_width < BAR_WIDTH_MIN + len(GAP) + len(self._figures):
            yield Text(self._figures)
            return
        line = Table.grid(padding=(0, len(GAP), 0, 0), expand=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        bar = ProgressBar(
            total=max(self._of, 1),
            completed=self._done,
            style=f"dim {theme.FAINT}",
            complete_style=theme.BUSY,
            finished_style=theme.GOOD,
        )
        line.add_row(bar, self._figures)
        yield line


def _counts(snapshot: Snapshot) -> Iterable[Text]:
    for state in STATES:
        if count := snapshot.counts.get(state, 0):
            yield Text(f"{count:,} {state}", style=_STYLES.get(state, ""))


def _speed(snapshot: Snapshot) -> Iterable[Text]:
    yield Text("..." if snapshot.jobs_per_s is None else rate(snapshot.jobs_per_s))
    if snapshot.eta_s is not None:
        yield Text(f"{lasting(math.ceil(snapshot.eta_s))} left")
    yield Text(f"{lasting(int(snapshot.wall_s))} so far")


def _shown(sentence: str) -> str:
    """It may repeat what a worker said."""
    return streams.shown(streams.named(sentence))


def _service(snapshot: Snapshot) -> Iterable[Text]:
    for text in standstill(snapshot):
        yield Text(_shown(text), style=f"bold {theme.DOUBTFUL}")
    if snapshot.window_allowed or snapshot.throttled:
        used = window(snapshot.window_used, snapshot.window_allowed, snapshot.window_s, snapshot.throttled)
        yield Text(used, style=theme.DOUBTFUL if snapshot.throttled else "")
    else:
        yield Text("nothing sent so far")
    if snapshot.were_uncertain:
        yield Text(f"{snapshot.were_uncertain:,} were uncertain", style=theme.DOUBTFUL)
    for text in troubles(snapshot):
        yield Text(_shown(text), style=theme.DOUBTFUL)
    if snapshot.webhooks_fail:
        yield Text(WEBHOOKS_FAIL)
    for text in offline(snapshot.safe_offline_s):
        yield Text(text)
    for text in closest_call(snapshot.margin_min_s):
        yield Text(f"closest call: {text}", style=theme.DOUBTFUL)
