"""Tells on the screen of a process which runs its engines serve, cannot serve, and have finished."""

import anyio

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.text.wording import counted
from orchestrator.engine.engine import Engine
from orchestrator.engine.runtime.console import Console
from orchestrator.ledger.runs.runs import Run

LOOK_S = 1.0
"""How often to look whether a run has been taken on or has ended, to tell of it."""


class ServedRunsNews:
    """Of one engine."""

    def __init__(self, engine: Engine, console: Console) -> None:
        self._engine = engine
        self._console = console
        self._latest: dict[int, str] = {}
        """What was said last of each run."""

    async def serve(self) -> None:
        """Tells of each change, until cancelled."""
        while True:
            self._tell()
            await anyio.sleep(LOOK_S)

    def _tell(self) -> None:
        for held in self._engine.runs.unservable.values():
            self._say(held.run, f"held: {held.why}")
        for session in self._engine.runs.sessions.values():
            total, left = session.progress.total, session.progress.unfinished
            if session.is_released:
                self._say(session.run, "stopped, as somebody asked")
            elif left:
                self._say(session.run, "served", f"{left:,} of {counted(total, 'job')} to go")
            elif total and not session.is_saving:  # of a stage that has not begun there is nothing to say
                succeeded = session.progress.count(State.SUCCEEDED.value)
                self._say(session.run, "finished", f"{succeeded:,} of {counted(total, 'job')} succeeded")

    def _say(self, run: Run, what: str, figures: str = "") -> None:
        if self._latest.get(run.id) != what:
            self._latest[run.id] = what
            self._console.info(f"{run.name}: {what}{figures and '; '}{figures}")
