"""Whether the files that members of outputs became are there, and hold what was saved."""

from anyio import to_thread

from orchestrator.api.outcomes.audit import Findings, Flaw, Progress
from orchestrator.api.outcomes.outcome_pages import WantedRows, finished_jobs
from orchestrator.core.outputs.saved_members import members_at, saved_file
from orchestrator.formats.output.saved_files import flaw_of
from orchestrator.ledger import Ledger


async def check_saved_files(ledger: Ledger, findings: Findings, progress: Progress) -> int:
    """Reads each of them, of all runs; returns how many there are. What is wrong is added to `findings`."""
    number = 0
    for run in await ledger.runs.all():
        paths = [rule.path for rule in run.settings.save]
        if not paths:
            continue
        async for job in finished_jobs(ledger, run.id, WantedRows.RESULTS):
            for path in paths:
                for _, member in members_at(job.output or b"null", path):
                    if (saved := saved_file(member)) is None:
                        continue
                    number += 1
                    if (flaw := await to_thread.run_sync(flaw_of, saved)) is not None:
                        findings.add(Flaw.SAVED, f"{saved.file} of {job.custom_id} {flaw}")
                    progress("saved files", number, 0)
    return number
