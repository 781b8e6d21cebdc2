"""Why nothing moves: what `doctor` would say first of a run, found by the process that serves it.

It asks the endpoint how it is, seldom, and only of runs of which nothing has moved for a while and nothing else tells
why. What it finds is told with how the process stands, so that display, `watch` and `status` show it.
"""

from typing import Final

import anyio
import msgspec

from orchestrator.api.inspect.doctor import facts_of
from orchestrator.api.inspect.service_probe import service_state
from orchestrator.core.diagnosis.causes import Cause, Finding
from orchestrator.core.diagnosis.rules import findings
from orchestrator.engine.engine import Engine
from orchestrator.engine.hosting.run_session import RunSession, Standstill
from orchestrator.errors import OrchestratorError
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.units import SECOND_US

QUIET_US: Final = 20 * SECOND_US
"""After so long without a move somebody may wonder."""

AGAIN_US_MAX: Final = 600 * SECOND_US
"""It is found out anew after half of the time for which nothing has moved, and after so long in any case."""

LOOK_S: Final = 5.0
LOOK_S_MAX: Final = 60.0

ASK_S_MAX: Final = 5.0
"""How long nothing may come of a question to the service."""

ASKED_S_MAX: Final = 30.0
"""How long it may take in all, turns among the requests included."""


async def tell_standstills(engine: Engine) -> None:
    """Finds out why runs stand still that this process serves, until cancelled."""
    while True:
        quiet_us = [await _look(engine, session) for session in tuple(engine.runs.sessions.values())]
        await anyio.sleep(max(LOOK_S, min(LOOK_S_MAX, min(quiet_us, default=0) / 2 / SECOND_US)))


async def _look(engine: Engine, session: RunSession) -> int:
    """Has the run say why nothing of it moves; returns for how long that is so."""
    now, stands, before = engine.ledger.now(), session.progress.stands, session.standstill
    if before is None or before.stands != stands:
        session.standstill = Standstill(stands=stands, since=now)
        return 0
    quiet_us = now - before.since
    if quiet_us >= QUIET_US and now >= before.due_at:
        due_at = now + max(QUIET_US, min(quiet_us // 2, AGAIN_US_MAX))
        found = await _found(engine, session)
        session.standstill = msgspec.structs.replace(
            before,
            due_at=due_at,
            sentence=None if found is None else found.sentence,
            is_expected=found is not None and found.cause is Cause.BATCH_WAITS,
        )
    return quiet_us


async def _found(engine: Engine, session: RunSession) -> Finding | None:
    run, said = session.run, session.of_run
    service = None if run.service_url == LOCAL else engine.endpoints.services.at(run.service_url)
    is_told = said.unreachable_since is not None or session.controls.pause or session.controls.cancel
    if service is None or session.is_over or is_told:
        return None
    found: Finding | None = None
    with anyio.move_on_after(ASKED_S_MAX):
        try:
            facts = await facts_of(engine.ledger, run.name)
            state = await service_state(service, run.service_url, session.run.endpoint, within_s=ASK_S_MAX)
            facts = msgspec.structs.replace(facts, services=[state])
            hold = session.blocked_by
            causes = (each for each in findings(facts) if hold is None or each.sentence != hold.sentence)
            found = next(causes, None)  # why that is so, if anything
        except OrchestratorError:  # renamed or deleted meanwhile, or a ledger that cannot be read: others tell
            return None
    return found
