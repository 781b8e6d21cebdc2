"""How the server stands on which a ledger is, as it tells the role by which `doctor` asks."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from orchestrator.api.inspect.processes import observed_processes
from orchestrator.clock import Clock
from orchestrator.core.diagnosis.facts import Facts
from orchestrator.core.diagnosis.server_rules import server_sentence
from orchestrator.core.diagnosis.server_state import ServerState
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl
from orchestrator.views.processes import ProcessShown

SILENT_S: Final = 3.0
"""Whoever lives beats each second."""


async def server_now(ledger: Ledger, clock: Clock) -> ServerState | None:
    """The server of `ledger`, also beside the `clock` of this machine; None for a file."""
    if ledger.server is None:
        return None
    return replace(await ledger.server.state(), ahead_us=clock.now() - ledger.now())


class ProcessBeats:
    """The processes of a ledger on a server, of which it is known after some seconds whether they beat."""

    def __init__(self) -> None:
        self._seen: Sequence[ProcessShown] = ()

    async def watch(self, path: LedgerAddress, given: Dependencies) -> None:
        """Looks at them, beside whoever asks for all else; there are none on a file, and none are known of a ledger
        that cannot be read, as that one finds out.
        """
        if isinstance(path, LedgerUrl):
            with suppress(OrchestratorError):
                async with read_ledger(path, clock=given.clock, connect=given.connect_to(path)) as ledger:
                    assert ledger.server is not None
                    self._seen = (await observed_processes(ledger.server, within_s=SILENT_S)).processes

    def of(self, server: ServerState | None) -> ServerState | None:
        """`server` with which of them beat; None where there is none."""
        if server is None:
            return None
        return replace(
            server,
            silent_processes=[each.process for each in self._seen if each.is_beating is False],
            is_succeeded=any(each.is_beating for each in self._seen),
        )


def how_server_is(facts: Facts) -> Iterator[str]:
    """What there is to say of it, if there is one."""
    if facts.server is not None and facts.ledger is not None:
        yield server_sentence(facts.ledger.path, facts.server)


def unseen_on_server(facts: Facts) -> Iterator[str]:
    """What it keeps from us."""
    if facts.server is not None and not facts.server.sees_others:
        yield f"who keeps the server from sweeping up: for that it takes GRANT pg_read_all_stats TO {facts.server.role}"
