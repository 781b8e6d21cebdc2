"""Jobs of which nobody knows when they were last unfinished."""

import msgspec

from orchestrator.core.jobs.job import Job


def sure_of(job: Job, now: int) -> tuple[Job, bool]:
    """`job`, and whether nobody knows when it was last unfinished, so that its result may be gone at any time: whoever
    saw it had a clock that was ahead.
    """
    is_unsure = not 0 < (job.unfinished_at or 0) <= now
    return (msgspec.structs.replace(job, unfinished_at=now) if is_unsure else job), is_unsure
