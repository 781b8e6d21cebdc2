"""What a person sees while a run goes on, always on standard error. These are consoles as the engine has them.

A terminal gets one calm display that is redrawn in place (`live`), everything else a plain line now and then.
"""

import math
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from orchestrator.cli.output import streams
from orchestrator.cli.output.member_table import unwell_members
from orchestrator.cli.output.status_texts import executing, finished, offline, standstill, total, troubles, window
from orchestrator.cli.output.systemd import READY, STOPPING, notify
from orchestrator.core.text.figures import lasting, percent, rate
from orchestrator.core.text.wording import counted
from orchestrator.views.status import Snapshot, StuckSummary

PLAIN_EVERY_S: Final = 5
"""How often a plain line is printed where something has changed: often enough to see how it goes."""

PLAIN_AT_LEAST_EVERY_S: Final = 60
"""And where nothing has: often enough to see that it lives, seldom enough for a log."""

TELLING: Final = ("uncertain", "outstanding", "failed")
"""The states of which a plain line gives the number: what is waited for, and what went wrong."""

ANSWER_BYTES: Final = 100

WEBHOOKS_FAIL: Final = "webhooks do not arrive: asking instead"


class QuietConsole:
    """No progress and no news, until the program is interrupted: what it says then the user has to know."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.first: Snapshot | None = None
        """How things stood when following began, for the speed of this process."""

    def info(self, line: str) -> None:
        """One line of information."""
        if self.signal is not None:
            streams.say(line)

    def warn(self, line: str) -> None:
        """One line that the person should not miss."""
        streams.warn(line)

    def interrupted(self, signum: int) -> None:
        """A signal asked the program to stop; its number makes the exit code."""
        self.signal = signum
        notify(STOPPING)

    def ready(self) -> None:
        """What the program was begun for is under way."""
        notify(READY)

    async def confirm_stop(self, run: str, served_by: str) -> bool:
        """Asks whether the run that is not followed any more is to stop, where there is a person to ask."""
        if self.signal != signal.SIGINT or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        import anyio

        streams.say(f"{run} is served by {served_by}.")
        streams.say("s and Enter stops the run; Enter alone, or another Ctrl-C, leaves it going there")
        await anyio.wait_readable(sys.stdin)
        return os.read(sys.stdin.fileno(), ANSWER_BYTES).strip().lower() in {b"s", b"stop"}

    async def confirm_drop(self, run: str, unsuccessful: int) -> bool:
        """Asks whether jobs go that are no longer in the input, where there is a person to ask."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        import anyio

        streams.say(
            f"{run}: {counted(unsuccessful, 'job')} of the run no longer in the input, and not succeeded. Drop them?"
            " Otherwise they stay, and what is left of them is sent [y/N]",
            end=" ",
        )
        await anyio.wait_readable(sys.stdin)
        return os.read(sys.stdin.fileno(), ANSWER_BYTES).strip().lower() in {b"y", b"yes"}

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Shows nothing until it is cancelled."""
        import anyio

        self.first = look()
        await anyio.sleep_forever()


class PlainConsole(QuietConsole):
    """A line every few seconds, unless it says what the one before said, and one at the end, for logs and pipes: no
    colours, nothing redrawn.
    """

    def info(self, line: str) -> None:
        """One line of information."""
        streams.say(line)

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Prints lines until it is cancelled."""
        import anyio

        self.first = look()
        shown, shown_at = "", anyio.current_time()
        try:
            while True:
                await anyio.sleep(PLAIN_EVERY_S)
                line, now = progress_line(look()), anyio.current_time()
                if line != shown or now - shown_at >= PLAIN_AT_LEAST_EVERY_S:
                    streams.say(line)
                    shown, shown_at = line, now
        finally:
            if (line := progress_line(look())) != shown:
                streams.say(line)


def progress_line(snapshot: Snapshot) -> str:
    """How the run stands, on one line."""
    if snapshot.reading and not finished(snapshot.counts):
        return f"{snapshot.run}: reading the input, {counted(snapshot.rows_read, 'row')} checked"
    done, of = finished(snapshot.counts), total(snapshot.counts)
    if done == of:  # what was last told of jobs at the service is about none
        snapshot = msgspec.structs.replace(snapshot, stuck=StuckSummary(), safe_offline_s=None)
    parts = [
        *standstill(snapshot),
        f"{done:,} of {counted(of, 'job')} finished ({percent(done, of)})",
        *(f"{snapshot.counts[state]:,} {state}" for state in TELLING if snapshot.counts.get(state)),
    ]
    if snapshot.jobs_per_s is not None:
        parts.append(rate(snapshot.jobs_per_s))
    if snapshot.eta_s is not None and done < of:
        parts.append(f"{lasting(math.ceil(snapshot.eta_s))} left")
    if snapshot.window_used or snapshot.throttled:
        parts.append(window(snapshot.window_used, snapshot.window_allowed, snapshot.window_s, snapshot.throttled))
    if snapshot.were_uncertain:
        parts.append(f"{snapshot.were_uncertain:,} were uncertain")
    parts += troubles(snapshot)
    if done < of:
        parts += unwell_members(snapshot.members)
        parts += executing(snapshot)
    if snapshot.webhooks_fail:
        parts.append(WEBHOOKS_FAIL)
    parts += offline(snapshot.safe_offline_s)
    return f"{snapshot.run}: {'; '.join(parts)}"


def console_for_stderr(*, quiet: bool) -> QuietConsole:
    """The one that suits where standard error leads."""
    if quiet:
        return QuietConsole()
    if streams.can_draw(sys.stderr):
        from orchestrator.cli.output.live_display import LiveConsole, terminal

        return LiveConsole(terminal())
    return PlainConsole()
