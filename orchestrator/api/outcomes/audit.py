"""Audits a ledger: whether what stands in its tables can have come about, and still is what was written (checksums,
states).

Page by page, so that memory stays flat and no read lasts; only the check of the file itself and the counts read
everything at once. What is found is counted by kind, with the first few of each as examples.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from orchestrator.core.jobs.lifecycle import TERMINAL, State, replay
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.audit import AuditPage, JobFacts, JobHistory, Totals
from orchestrator.settings import run_request
from orchestrator.units import MIB

PAGE_JOBS: Final = 1_000
PAGE_BYTES_MAX: Final = 8 * MIB
PAGE_SUBMISSIONS: Final = 10_000
EXAMPLES_MAX: Final = 10
"""So many findings of a kind are told one by one; the rest is counted."""

STORIES_KNOWN_MAX: Final = 4_096
"""Most jobs share a few histories: the replay of so many is remembered."""

T = TypeVar("T")

Progress = Callable[[str, int, int], None]
"""Is told what is looked at, how many of it are done, and of how many (0: unknown)."""


class Flaw(StrEnum):
    """What can be wrong with a ledger."""

    DAMAGE = "damage"
    """The database file itself: pages, indexes, rows that belong to nothing."""

    INPUT = "input"
    """A job without its input."""

    HISTORY = "history"
    """Events that do not lead to the job's state."""

    OUTCOME = "outcome"
    """An ended job without its one outcome, or an outcome that does not fit."""

    CHECKSUM = "checksum"
    """An output that is not what was collected."""

    SUBMISSION = "submission"
    """A submission that is missing, or is another job's."""

    COUNTS = "counts"
    """Counts that the rows do not come to."""

    SAVED = "saved"
    """A file that a member of an output became, and that is not what was saved."""

    INCOMPLETE = "incomplete"
    """What the files lack, where they are to be complete."""

    FILES = "files"
    """A results or errors file that is not what the ledger has."""


ADVICE: Final[Mapping[Flaw, str]] = MappingProxyType(
    {
        Flaw.DAMAGE: f"stop what works on it, keep the file, and go on from a copy or with another"
        f" {run_request.LEDGER}; what can still be read: orchestrator results NAME",
        Flaw.INPUT: f"give the same `orchestrator run` with the same input again under another"
        f" {run_request.NAME} for these rows",
        Flaw.HISTORY: "the ledger was changed by something else, or this is a defect: please report it",
        Flaw.OUTCOME: "the ledger was changed by something else, or this is a defect: please report it",
        Flaw.CHECKSUM: "the disk or another program changed these outputs: restore a copy of the ledger, or run"
        f" these rows again under another {run_request.NAME}",
        Flaw.SUBMISSION: "the ledger was changed by something else, or this is a defect: please report it",
        Flaw.COUNTS: "the ledger was changed by something else, or this is a defect: please report it",
        Flaw.SAVED: "put these files back from a copy: nothing else has what was in them; to have it made again, run"
        f" these rows under another {run_request.NAME}",
        Flaw.INCOMPLETE: "go on with the run until it has finished:"
        f" orchestrator resume NAME {run_request.OUTPUT} FILE",
        Flaw.FILES: f"write the files again: orchestrator resume NAME {run_request.OUTPUT} FILE",
    }
)
"""What to do about each kind."""


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one kind that is wrong."""

    kind: Flaw
    count: int
    examples: tuple[str, ...]
    advice: str


class Findings:
    """What is wrong so far; holds a few examples of each kind, however many there are."""

    def __init__(self) -> None:
        self._counts: dict[Flaw, int] = {}
        self._examples: dict[Flaw, list[str]] = {}

    def add(self, kind: Flaw, what: str) -> None:
        """One more of `kind`."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        examples = self._examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(what)

    def all(self) -> tuple[AuditFinding, ...]:
        """One finding for each kind, in the order of `Flaw`."""
        return tuple(
            AuditFinding(kind=kind, count=self._counts[kind], examples=tuple(self._examples[kind]), advice=ADVICE[kind])
            for kind in Flaw
            if kind in self._counts
        )


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit has gone through."""

    runs: int = 0
    jobs: int = 0
    events: int = 0
    submissions: int = 0
    outcomes: int = 0
    checksums: int = 0
    """Outcomes that have one; those of older programs have none."""

    saved_files: int = 0
    """Those that members of outputs became."""

    file_bytes: int = 0


async def audit_ledger(ledger: Ledger, findings: Findings, progress: Progress) -> AuditCounts:
    """Goes through the whole ledger; what is wrong is added to `findings`.

    A part that cannot be read is a finding, and the audit goes on with the next. Raises `StorageError` where not even
    the runs can be read.
    """
    runs = await ledger.runs.all()
    size = await ledger.reports.audit.file_bytes()
    progress(f"the file, {size / 1e6:,.0f} MB", 0, 0)
    for fault in await _readable(findings, "pages", ledger.reports.audit.damage) or ():
        findings.add(Flaw.DAMAGE, fault)
    figures = await _readable(findings, "jobs", partial(_jobs, ledger, findings, progress)) or AuditCounts()
    submissions = await _readable(findings, "submissions", partial(_submissions, ledger, findings, progress)) or 0
    for number, run in enumerate(runs):
        progress("counts", number, len(runs))
        totals = await _readable(findings, "counts", partial(ledger.reports.audit.totals, run.id))
        for fault in _count_faults(totals) if totals else ():
            findings.add(Flaw.COUNTS, fault)
    return msgspec.structs.replace(figures, runs=len(runs), submissions=submissions, file_bytes=size)


async def _readable(findings: Findings, what: str, part: Callable[[], Awaitable[T]]) -> T | None:
    try:
        return await part()
    except StorageError as error:
        findings.add(Flaw.DAMAGE, f"the {what} cannot be read to their end: {error}")
        return None


async def _jobs(ledger: Ledger, findings: Findings, progress: Progress) -> AuditCounts:
    expected = await ledger.reports.audit.jobs_number()
    jobs = events = outcomes = checksums = after = 0
    while True:
        page = await ledger.reports.audit.jobs_after(job=after, most=PAGE_JOBS, bytes_max=PAGE_BYTES_MAX)
        for kind, fault in page_faults(page):
            findings.add(kind, fault)
        events += sum(history.events.count(",") + 1 for history in page.histories)
        if not page.jobs:
            break
        after = page.jobs[-1].job
        jobs += len(page.jobs)
        outcomes += sum(facts.outcome for facts in page.jobs)
        checksums += sum(facts.checked is not None for facts in page.jobs)
        progress("jobs", jobs, expected)
    return AuditCounts(jobs=jobs, events=events, outcomes=outcomes, checksums=checksums)


async def _submissions(ledger: Ledger, findings: Findings, progress: Progress) -> int:
    number = after = 0
    while True:
        page = await ledger.reports.audit.submissions_after(submission=after, most=PAGE_SUBMISSIONS)
        for submission in page.astray:
            findings.add(Flaw.SUBMISSION, f"submission {submission} belongs to a job that is not there")
        if not page.number:
            return number
        number, after = number + page.number, page.last
        progress("submissions", number, 0)


def page_faults(page: AuditPage) -> Iterator[tuple[Flaw, str]]:
    """Everything that is wrong with the jobs of a page."""
    histories = {history.job: history for history in page.histories}
    for facts in page.jobs:
        yield from _job_faults(facts, histories.pop(facts.job, None))
    for job in histories:
        yield Flaw.HISTORY, f"there are events of job {job}, which is not there"
    for job, submission in page.strays:
        yield (
            Flaw.SUBMISSION,
            f"an event of job {job} is about submission {submission}, which is not one of its own",
        )


def _job_faults(facts: JobFacts, history: JobHistory | None) -> Iterator[tuple[Flaw, str]]:
    name = f"job {facts.job} ({facts.custom_id})"
    if not facts.has_input:
        yield Flaw.INPUT, f"{name} has no input"
    if (fault := _history_fault(facts, history)) is not None:
        yield Flaw.HISTORY, f"{name} {fault}"
    if (fault := _outcome_fault(facts)) is not None:
        yield Flaw.OUTCOME, f"{name} is {facts.state} and {fault}"
    if facts.checked is False:
        yield Flaw.CHECKSUM, f"the output of {name} is not what was collected"
    if (fault := _submission_fault(facts)) is not None:
        yield Flaw.SUBMISSION, f"{name} {fault}"


def _history_fault(facts: JobFacts, history: JobHistory | None) -> str | None:
    """What is wrong with the job's events.

    Where old ones were removed, the last one before is an end, and every end can be reached from `queued`: so what is
    left replays like a whole history.
    """
    if history is None:
        untouched = facts.state == State.QUEUED and facts.submission is None and facts.attempt == 0
        return None if untouched else f"is {facts.state} without any event"
    reached = _replayed(history.events)
    if reached != facts.state:
        return f"is {facts.state}, but its events ({_shortened(history.events)}) lead to {reached or 'nowhere'}"
    if (history.submission, history.attempt) != (facts.submission, facts.attempt):
        return (
            f"is at submission {facts.submission}, attempt {facts.attempt}, but its last event at"
            f" submission {history.submission}, attempt {history.attempt}"
        )
    if facts.ended_at not in (None, history.at):
        return f"ended at {facts.ended_at}, but its last event is of {history.at}"
    return None


@lru_cache(STORIES_KNOWN_MAX)
def _replayed(events: str) -> State | None:
    return replay(events.split(","))


def _shortened(events: str) -> str:
    names = events.split(",")
    return events if len(names) <= EXAMPLES_MAX else ",".join(["...", *names[-EXAMPLES_MAX:]])


def _outcome_fault(facts: JobFacts) -> str | None:
    if facts.state not in TERMINAL:
        return "has an outcome" if facts.outcome else None
    if not facts.outcome:
        return "has no outcome"
    if (facts.outcome_trouble is None) != (facts.state == State.SUCCEEDED):
        return f"its outcome is {facts.outcome_trouble or 'a result'}"
    if facts.outcome_submission is not None and facts.outcome_submission_job != facts.job:
        return f"its outcome is of submission {facts.outcome_submission}, which is not one of its own"
    return None


def _submission_fault(facts: JobFacts) -> str | None:
    if facts.submission is not None and facts.submission_job != facts.job:
        return f"is at submission {facts.submission}, which is not one of its own"
    if facts.state == State.OUTSTANDING and facts.remote_id is None:
        return "is outstanding, but what the service calls it is not known"
    return None


def _count_faults(totals: Totals) -> Iterator[str]:
    for state in State:
        said, rows = totals.counts.get(state.value, 0), totals.rows.get(state.value, 0)
        if said != rows:
            yield f"run {totals.run} counts {said:,} jobs as {state}, and has {rows:,}"
    said = totals.counts.get("uncertain_seen", 0)
    if said < totals.unanswered or (said > totals.unanswered and not totals.pruned):
        yield f"run {totals.run} counts {said:,} unanswered submissions, and has events of {totals.unanswered:,}"
