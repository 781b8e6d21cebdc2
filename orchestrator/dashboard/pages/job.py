"""One job, and its payloads as files to be kept."""

from collections.abc import Awaitable, Callable
from typing import Final

from orchestrator.api.pages.runs.job_page import job_page, job_payload
from orchestrator.dashboard.page import KeptFile, NotFoundError, Page, PageRequest
from orchestrator.dashboard.reading.queries import run_of
from orchestrator.views.runs.run_pages import JobShown

PARTS: Final = {"input": "json", "output": "json", "metadata": "json", "error": "txt"}
"""What of a job can be kept as a file, and how such a file's name ends."""

_TYPES: Final = {"json": "application/json", "txt": "text/plain; charset=utf-8"}


async def _compose(request: PageRequest) -> JobShown:
    run, number = await run_of(request), request.numbers["job"]
    found = await job_page(request.ledger, run, number, shows=request.shows)
    if found is None:
        raise NotFoundError(f"{run.name} has no job with the number {number}.", {"its jobs": f"/runs/{run.id}/jobs"})
    return found


def _kept(part: str) -> Callable[[PageRequest], Awaitable[KeptFile]]:
    async def compose(request: PageRequest) -> KeptFile:
        run, number = await run_of(request), request.numbers["job"]
        body = await job_payload(request.ledger, run, number, part, shows=request.shows)
        if body is None:
            raise NotFoundError(
                f"There is no {part} of that job to be kept, or it is hidden.", {"its jobs": f"/runs/{run.id}/jobs"}
            )
        ending = PARTS[part]
        return KeptFile(name=f"job-{number}-{part}.{ending}", media_type=_TYPES[ending], body=body)

    return compose


PAGES: Final = (
    Page(
        path="/runs/{run:number}/jobs/{job:number}",
        template="job.html",
        compose=_compose,
        parts=("state", "attempts"),
        heading="Runs",
    ),
    *(
        Page(path=f"/runs/{{run:number}}/jobs/{{job:number}}/{part}", template="", compose=_kept(part), heading="Runs")
        for part in PARTS
    ),
)
