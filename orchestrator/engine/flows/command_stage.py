"""A stage whose rows a command prints, once all the stages before it are over."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from orchestrator.core.text.durations import format_duration
from orchestrator.core.text.wording import counted
from orchestrator.engine.flows.command_output import CommandFailed, PrintedLine
from orchestrator.engine.flows.stage_executor import Look, StageExecutor
from orchestrator.ledger.flows.groups import Group, GroupMember, Printed
from orchestrator.units import SECOND_US

AGAIN_S: Final = 10.0
"""So long after it failed for the first time it is tried again; twice as long after each further time."""

AGAIN_S_MAX: Final = 600.0


@dataclass(kw_only=True, eq=False)
class CommandStage(StageExecutor):
    """One stage of a flow that has begun, of a command."""

    run_command: Callable[[], Awaitable[Sequence[PrintedLine]]]
    """Raises `CommandFailed`."""

    until_here: Callable[[], Awaitable[object]]
    """Returns once it can be run on this machine, or the flow was cancelled."""

    warn: Callable[[str], None]
    _news: anyio.Event = field(init=False, default_factory=anyio.Event)
    _process: anyio.CancelScope | None = field(init=False, default=None)
    _is_cancelled: bool = field(init=False, default=False)

    @property
    def is_waiting(self) -> bool:
        """Whether it has nothing to do before other stages have."""
        return self._process is None

    @property
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""
        return self.is_short

    @property
    def why_stuck(self) -> str:
        """Nothing: its flow says why it is held."""
        return ""

    def failed_too_many(self) -> str | None:
        """None: it has one job to fail."""
        return None

    async def until_over(self, look: Look) -> None:
        """Until its command has printed its rows, or has failed as often as it may."""
        while True:
            news = self._news
            await look(self)
            if self.is_let_through:
                await self._carry_out()
            if await self._is_over():
                self.end()
                return
            await news.wait()

    def nudge(self) -> None:
        """Has it look again."""
        self._news.set()
        self._news = anyio.Event()

    def cancel(self) -> None:
        """Stops its command, which is not run any more."""
        self._is_cancelled = True
        if self._process is not None:
            self._process.cancel()
        self.nudge()

    async def _carry_out(self) -> None:
        for group in await self.ledger.flows.groups.all_of(self.run.id):
            if group.open:
                return
            await self.until_here()
            members = await self.ledger.flows.groups.members(group)
            relay = (await self.ledger.flows.handovers.relays_to([self.run.id]))[self.run.id]
            printed, error = await self._tried(group, members)
            await self.ledger.flows.groups.hand_over(relay, group, members, printed=printed, error=error)

    async def _tried(self, group: Group, members: Sequence[GroupMember]) -> tuple[Sequence[Printed], str | None]:
        """What it prints, or why it has failed; nothing of both where it was cancelled."""
        found: tuple[Sequence[Printed], str | None] = ((), None)
        with anyio.CancelScope() as self._process:
            if self._is_cancelled:
                self._process.cancel()
            self.changed()
            found = await self._attempts(group, members)
        self._process = None
        return found

    async def _attempts(self, group: Group, members: Sequence[GroupMember]) -> tuple[Sequence[Printed], str | None]:
        """So often as it may be tried, whatever processes do it: one that dies has not made its command fail."""
        most, attempt = self.run.settings.max_attempts, 1 + group.tries
        while True:
            try:
                return self._rows(await self.run_command(), group, members), None
            except CommandFailed as failed:
                error = str(failed)
            if attempt >= most:
                return (), f"{error} (tried {counted(most, 'time')})"
            await self.ledger.flows.groups.count_try(group.id)
            wait_s = min(AGAIN_S * 2 ** (attempt - 1), AGAIN_S_MAX)
            again = format_duration(round(wait_s * SECOND_US))
            self.warn(f"{self.run.name}: {error}; tried again in {again}")
            await anyio.sleep(wait_s)
            attempt += 1

    def _rows(self, lines: Sequence[PrintedLine], group: Group, members: Sequence[GroupMember]) -> list[Printed]:
        jobs: dict[str, list[int]] = {}
        for each in members:
            if each.is_in:
                jobs.setdefault(each.custom_id, []).append(each.job)
        rows = [self._row(number, line, group, jobs, is_one=len(lines) == 1) for number, line in enumerate(lines)]
        _check_ids(rows)
        return rows

    def _row(
        self, number: int, line: PrintedLine, group: Group, jobs: Mapping[str, Sequence[int]], *, is_one: bool
    ) -> Printed:
        """Without a name of its own it is called after the stage."""
        if unknown := [name for name in line.parents if name not in jobs]:
            raise CommandFailed(f"row {number + 1} of what it prints names {unknown[0]!r}, which it was not given")
        own = self.stage.name if is_one else f"{self.stage.name}/{number}"
        parents = {job: None for name in line.parents for job in jobs[name]}
        return Printed(line.custom_id or own, group.line + number, line.output, tuple(parents))


def _check_ids(rows: Sequence[Printed]) -> None:
    """Raises `CommandFailed` where two rows are called the same, as an input is refused for it."""
    numbers: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if (first := numbers.setdefault(row.custom_id, number)) != number:
            raise CommandFailed(
                f"rows {first} and {number} of what it prints are both called {row.custom_id!r}: each needs a custom_id"
                " of its own, or none"
            )
