"""Verifies a ledger, and the files that were written from it, beside whoever works on it."""

from typing import Final

import msgspec

from orchestrator.app.compare import Files, compare_files
from orchestrator.app.look import unknown_run
from orchestrator.clock import Clock, SystemClock
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger, reports
from orchestrator.ledger.reports import Run
from orchestrator.services.audit import Figures, Finding, Findings, Progress, audit_ledger
from orchestrator.settings import VerifyRequest

PROGRESS_EVERY_US: Final = 5_000_000


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was gone through, and what was wrong."""

    ledger: str
    ok: bool
    findings: tuple[Finding, ...]
    figures: Figures
    files: Files | None
    wall_s: float


async def verify(request: VerifyRequest, progress: Progress) -> Verification:
    """Goes through everything; tells `progress` every few seconds.

    Raises `UsageError` where there is no ledger, no such run or no such file, and `StorageError` where the ledger
    cannot be read at all.
    """
    clock = SystemClock()
    began_at = clock.now()
    findings, paced = Findings(), _paced(progress, clock)
    async with read_ledger(request.ledger, clock=clock) as ledger:
        run = await _run_of_files(ledger, request)
        figures = await audit_ledger(ledger, findings, paced)
        files = None
        if run is not None and request.output is not None and request.errors is not None:
            files = await compare_files(ledger, run.id, request.output, request.errors, findings, paced)
    found = findings.all()
    return Verification(
        ledger=str(request.ledger),
        ok=not found,
        findings=found,
        figures=figures,
        files=files,
        wall_s=round((clock.now() - began_at) / 1_000_000, 3),
    )


async def _run_of_files(ledger: Ledger, request: VerifyRequest) -> Run | None:
    if request.output is None:
        return None
    known = [run for run in await ledger.read(reports.runs_all) if run.accepted]
    named = [run for run in known if request.name in (None, run.name)]
    if len(named) == 1:
        return named[0]
    if request.name is not None:
        raise unknown_run(request.name, request.ledger, known)
    names = ", ".join(run.name for run in known) or "none"
    raise UsageError(f"{request.ledger}: say with --name which run the files are of; there is: {names}")


def _paced(progress: Progress, clock: Clock) -> Progress:
    """`progress`, but not more often than every few seconds."""
    told_at = clock.now()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal told_at
        if clock.now() - told_at >= PROGRESS_EVERY_US:
            told_at = clock.now()
            progress(what, done, total)

    return tell
