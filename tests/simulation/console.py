"""Who reads what the program says in a simulated world: a person, and a log."""

import logging
import random
from collections.abc import Callable

import anyio

from orchestrator.views.status import Snapshot
from tests.simulation.facts import Facts, RunFacts

BRAKES = (
    *("the canary failed", "the budget of", "more than max-failures allows", "it would end after finish-by"),
    "the breaker has tripped",
)
"""What is said where a brake ends a command, and nobody need wonder why."""

MENDED = (*BRAKES, "outputs are kept whole")
"""The same, of what a person mends."""

LOOK_S = 60.0
"""How often the progress display looks."""


class Console:
    """A person who reads everything."""

    def __init__(self, facts: Facts, run: RunFacts) -> None:
        self._facts = facts
        self._run = run

    def info(self, line: str) -> None:
        self._facts.said.append(line)
        self._facts.trace.say("program", line)
        if line.endswith(": nothing more is sent") and not any(known in line for known in MENDED):
            self._facts.stops.append((self._facts.true.now(), self._run))

    warn = info

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        while True:
            self._facts.said.append(repr(look()))
            await anyio.sleep(LOOK_S)

    def ready(self) -> None:
        """A person who has given one command needs no word of that."""

    async def confirm_drop(self, _run: str, _unsuccessful: int, /) -> bool:
        """No."""
        return False

    async def confirm_stop(self, run: str, _served_by: str, /) -> bool:
        """Sometimes: who comes back gives the command again in any case."""
        return random.Random(f"stops {self._facts.plan.seed} {run}").random() < 1 / 2


class Log(logging.Handler):
    """Hears what the program logs."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(logging.DEBUG)
        self._facts = facts

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("orchestrator"):
            line = self.format(record)
            self._facts.said.append(line)
            self._facts.trace.say("log", line)
