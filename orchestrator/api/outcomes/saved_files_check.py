"""Whether the files that members of outputs became are there, and hold what was saved."""

from anyio import to_thread

from orchestrator.api.outcomes.audit import Findings, Flaw, Progress
from orchestrator.api.outcomes.outcome_pages import PAGE_BYTES_MAX, PAGE_JOBS, WantedRows, row_of
from orchestrator.core.outputs.saved_members import made_files
from orchestrator.formats.output.saved_files import flaw_of
from orchestrator.ledger import Ledger


async def check_saved_files(ledger: Ledger, findings: Findings, progress: Progress) -> int:
    """Reads each of them, of all runs; returns how many there are. What is wrong is added to `findings`.

    Only what this program has made is looked at: what a worker writes may name any file.
    """
    number, after = 0, 0
    while left := await ledger.jobs.outputs.with_files(after=after, most=PAGE_JOBS):
        found = await ledger.jobs.results.of(left, bytes_max=PAGE_BYTES_MAX)
        after = found[-1].job if found else left[-1]
        for job in filter(WantedRows.RESULTS.has, map(row_of, found)):
            for saved in made_files(job.output or b"null", job.saved):
                number += 1
                if (flaw := await to_thread.run_sync(flaw_of, saved)) is not None:
                    findings.add(Flaw.SAVED, f"{saved.file} of {job.custom_id} {flaw}")
                progress("saved files", number, 0)
    return number
