"""Tells people that nobody works on a ledger while results at the service are about to expire.

Whoever works cannot tell that it does not any more, so the dashboard does, which is there when nobody else is. Where
somebody works it costs a look every now and then, and where nobody is to be told no more than that.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from orchestrator.api.inspect.status import last_of, picture
from orchestrator.api.messages.outside_claims import CLAIMED_US, silent_since
from orchestrator.api.runs.process_commands import beside
from orchestrator.core.pipelines.abandonment import GRACE_US, RunLeft, is_abandoned, tellings
from orchestrator.core.pipelines.notifications import iso
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger, is_made
from orchestrator.ledger.monitoring.abandonments import OwedNumbers
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import Targets
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.client.notify.delivery import Delivery

log = logging.getLogger(__name__)

LOOK_S: Final = 15.0
"""How often to see whether anybody works."""

UNEXPLAINED: Final = "without a word: it was killed, or its machine"


def asking_targets(targets: Targets) -> frozenset[str]:
    """Those that hear of it whoever was left, since they ask for it by name."""
    return frozenset(name for name, target in targets.items() if RunNews.ABANDONED in target.on)


@dataclass(kw_only=True, eq=False)
class AbandonmentWatch:
    """Of the ledger at `path`."""

    path: LedgerAddress
    connection: ConnectionSettings
    """What says who can be told, and where the dashboard is."""

    dependencies: Dependencies

    _known: tuple[object, Mapping[int, int]] | None = field(init=False, default=None)
    """When results may be gone, by run, and of what: as long as nobody works it stays so."""

    _is_right_known: bool = field(init=False, default=False)
    """Whether it is known whether we may write down what is owed."""

    async def serve(self) -> None:
        """Goes on until cancelled. What keeps it from looking is logged."""
        while True:
            try:
                await self.look()
            except OrchestratorError as error:
                log.warning("whether results are abandoned is unknown: %s", error)
            await anyio.sleep(LOOK_S)

    async def look(self) -> "list[Delivery]":
        """Tells whoever is to be told now; returns what came of each message. Raises `OrchestratorError` where the
        ledger cannot be read, or nothing be written there.
        """
        if not await is_made(self.path, connect=self.dependencies.connect_to(self.path)):  # by a run that begins
            return []
        async with beside(self.path, self.dependencies) as ledger:
            await self._know_right(ledger)
            heard_at = await silent_since(ledger)
            if heard_at is None or ledger.now() - heard_at < GRACE_US:
                return []
            owed = await self._owe(ledger, heard_at)
            return await self._send(ledger, owed)

    async def _know_right(self, ledger: Ledger) -> None:
        """Says once that we may not write, and so tell nobody: else it would be found out once it matters."""
        if self._is_right_known:
            return
        state = None if ledger.server is None else await ledger.server.state()
        if state is not None and state.is_read_only:
            log.warning(
                "the role %s may only read this ledger, so this dashboard cannot tell anybody that results expire while"
                " nobody works; begin it as a role that may write, as serve does",
                state.role,
            )
        self._is_right_known = True

    async def _owe(self, ledger: Ledger, heard_at: int) -> tuple[OwedNumbers, int]:
        """What is owed from now on, and until when that is ours to send."""
        now = ledger.now()
        left, until = await ledger.flows.abandonments.left(), now + CLAIMED_US
        asking = asking_targets(self.connection.targets)
        if not tellings(left, asking):
            return OwedNumbers(), until
        expires_at = await self._expiries(ledger, left, heard_at)
        left = sorted((each for each in left if each.run in expires_at), key=lambda each: expires_at[each.run])
        due = [
            telling
            for telling in tellings(left, asking)
            if is_abandoned(now=now, heard_at=heard_at, expires_at=expires_at[telling.runs[0].run])
        ]
        if not due:
            return OwedNumbers(), until
        why = await self._why(ledger, heard_at)
        abandonments = ledger.flows.abandonments
        return await abandonments.owe(due, heard_at=heard_at, expires_at=expires_at, why=why, until=until), until

    async def _expiries(self, ledger: Ledger, left: Sequence[RunLeft], heard_at: int) -> Mapping[int, int]:
        """When a result of each run may be gone; none of those whose results nobody wants, or that cannot expire."""
        of = heard_at, tuple(left)
        if self._known is None or self._known[0] != of:
            now = ledger.now()
            seen, _, safe_s = await picture(ledger, None, among=[each.run for each in left])
            wanted = {run for run in safe_s if run not in seen.controls or not seen.controls[run].cancel}
            self._known = of, {run: now + round(safe_s[run] * SECOND_US) for run in wanted}
        return self._known[1]

    async def _why(self, ledger: Ledger, heard_at: int) -> str:
        last = last_of(await ledger.runs.heartbeats.all())
        who = "whoever worked on it" if last is None else last.process
        if await ledger.holder() is not None:
            return f"nobody works on it: {who} holds the ledger, and has done nothing since {iso(heard_at)}"
        why = last.why if last is not None and last.why else UNEXPLAINED
        return f"nobody works on it: {who} ended at {iso(heard_at)}, {why}"

    async def _send(self, ledger: Ledger, owed: tuple[OwedNumbers, int]) -> "list[Delivery]":
        numbers, until = owed
        due = await ledger.flows.abandonments.due()
        of_runs, of_pipelines = numbers.of_runs + due.of_runs, numbers.of_pipelines + due.of_pipelines
        if not of_runs and not of_pipelines:
            return []
        from orchestrator.api.messages.outside_sender import OutsideSender  # noqa: PLC0415  it is rare, and loads much

        sender = await OutsideSender.of(ledger, self.connection, self.dependencies)
        runs = [await ledger.flows.run_outbox.numbered(number) for number in of_runs]
        came = await sender.of_runs([each for each in runs if each is not None], claimed_until=until)
        pipelines = [await ledger.flows.outbox.numbered(number) for number in of_pipelines]
        came += await sender.of_pipelines([each for each in pipelines if each is not None], claimed_until=until)
        for each in came:
            if each.problem is not None:
                log.warning("nobody could be told that results are abandoned, which is tried again: %s", each.problem)
        return came
