"""Reads the outcomes of a run out of the ledger, in input order, page by page: no read lasts, and little is held."""

from collections.abc import AsyncIterator
from enum import Enum
from typing import Final

import msgspec

from orchestrator.core.lifecycle import State
from orchestrator.core.responses import Trouble
from orchestrator.errors import DamagedError
from orchestrator.ledger import Ledger
from orchestrator.ledger.results import FinishedJob
from orchestrator.units import MIB

PAGE_JOBS: Final = 500
PAGE_BYTES_MAX: Final = 8 * MIB
"""A page has so many outputs, as they are stored, at most; one that is larger has a page to itself."""

DAMAGED: Final = "its output is damaged in the ledger; orchestrator verify tells what else is"


class Rows(Enum):
    """Which rows of a run are wanted: those of the results file, those of the errors file, or both."""

    RESULTS = (State.SUCCEEDED,)
    ERRORS = (State.FAILED, State.CANCELLED)
    ALL = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


async def finished_jobs(ledger: Ledger, run: int, rows: Rows) -> AsyncIterator[FinishedJob]:
    """The run's finished jobs, in input order. It may run while the run does.

    What has a `trouble` belongs into the errors file: also a job that succeeded, should its output be damaged by now.
    """
    after = (-1, -1)
    while found := await ledger.results.page(
        run,
        rows.value,
        after=after,
        most=PAGE_JOBS,
        bytes_max=PAGE_BYTES_MAX,
        packed_too=rows is Rows.ERRORS,  # an output that is stored as it came cannot be unreadable
    ):
        after = (found[-1].line, found[-1].job)
        for job in found:
            row = _row_of(job)
            if rows is Rows.ALL or (row.trouble is None) is (rows is Rows.RESULTS):
                yield row


def _row_of(job: FinishedJob) -> FinishedJob:
    """`job` with its output unpacked, or as a failure where that cannot be done."""
    if not job.packed or job.trouble is not None:
        return job
    try:
        return msgspec.structs.replace(job, stored=job.output, packed=0)
    except DamagedError:
        return msgspec.structs.replace(job, trouble=Trouble.INVALID_OUTPUT.value, message=DAMAGED)
