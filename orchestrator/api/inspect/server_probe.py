"""How the server stands on which a ledger is, as it tells the role by which `doctor` asks."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from orchestrator.api.inspect.processes import observed_processes
from orchestrator.clock import Clock
from orchestrator.core.diagnosis.facts import Facts
from orchestrator.core.diagnosis.server_rules import server_sentence
from orchestrator.core.diagnosis.server_state import ServerState
from orchestrator.ledger import Ledger

SILENT_S: Final = 3.0
"""Whoever lives beats each second."""


async def server_now(ledger: Ledger, clock: Clock) -> ServerState | None:
    """The server of `ledger`, also beside the `clock` of this machine; None for a file."""
    if ledger.server is None:
        return None
    state, seen = await ledger.server.state(), (await observed_processes(ledger.server, within_s=SILENT_S)).processes
    return replace(
        state,
        ahead_us=clock.now() - ledger.now(),
        silent_processes=[each.process for each in seen if each.is_beating is False],
        is_succeeded=any(each.is_beating for each in seen),
    )


def how_server_is(facts: Facts) -> Iterator[str]:
    """What there is to say of it, if there is one."""
    if facts.server is not None and facts.ledger is not None:
        yield server_sentence(facts.ledger.path, facts.server)


def unseen_on_server(facts: Facts) -> Iterator[str]:
    """What it keeps from us."""
    if facts.server is not None and not facts.server.sees_others:
        yield f"who keeps the server from sweeping up: for that it takes GRANT pg_read_all_stats TO {facts.server.role}"
