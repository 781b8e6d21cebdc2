"""`doctor`: gathers what is known of a ledger's runs, and has it judged (`core.diagnosis`)."""

from orchestrator.api.held_up import ledger_state, run_state
from orchestrator.api.look import picture
from orchestrator.api.naming import run_named
from orchestrator.core.diagnosis import Facts, LedgerState, findings, open_runs
from orchestrator.core.findings import Diagnosis
from orchestrator.engine.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, LedgerVersionError
from orchestrator.ledger import Ledger, holder, read_ledger
from orchestrator.settings import DoctorRequest


async def doctor(request: DoctorRequest, dependencies: Dependencies | None = None) -> Diagnosis:
    """What holds up the runs that `request` names. Raises `UsageError` where there is no ledger, or no such run."""
    given = dependencies or Dependencies()
    facts = await _of_ledger(request, given)
    return Diagnosis(findings=findings(facts), runs=len(open_runs(facts)))


async def _of_ledger(request: DoctorRequest, given: Dependencies) -> Facts:
    """What the ledger says, or why it cannot be read."""
    path = request.ledger
    try:
        async with read_ledger(path, clock=given.clock, connect=given.connect_to(path)) as ledger:
            return await _facts(ledger, request)
    except LedgerVersionError as error:
        return Facts(ledger=LedgerState(path=str(path), newer=str(error)))
    except LedgerBusyError as error:
        return Facts(ledger=LedgerState(path=str(path), busy=str(error)))


async def _facts(ledger: Ledger, request: DoctorRequest) -> Facts:
    held_by, now = holder(request.ledger), ledger.now()
    only = None if request.name is None else await run_named(ledger, request.name)
    seen, present, safe_s = await picture(ledger, held_by, only=only)
    runs = [run for run in seen.runs if run.accepted]
    return Facts(
        ledger=ledger_state(request.ledger, seen, held_by, now),
        runs=[run_state(run, seen, present, safe_s.get(run.id), now) for run in runs],
    )
