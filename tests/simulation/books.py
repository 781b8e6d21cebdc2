"""The ledger of a played world, read with plain SQL: a second reader, written without the program's own reads."""

import json
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple


class JobRow(NamedTuple):
    id: int
    run: str
    custom_id: str
    state: str
    attempt: int


class EventRow(NamedTuple):
    id: int
    job: int
    at: int
    event: str
    submission: int | None
    trouble: str | None
    reason: str
    code: str | None
    detail: str | None


class SubmissionRow(NamedTuple):
    id: int
    job: int
    remote_id: str | None
    cancel_at: int | None
    """When its `/cancel` is due, if it is owed one."""
    ttl_at: int | None
    endpoint: str
    """The id or the URL of where it left for."""
    rows: int
    """So many travel in its chunk; 0: it is in none."""
    chunk: int | None
    """The submission by which that has left."""

    @property
    def is_carried(self) -> bool:
        """Whether it left by that of another row."""
        return self.chunk not in (None, self.id)


class OutcomeRow(NamedTuple):
    job: int
    submission: int | None
    remote_id: str | None
    output: bytes | None
    trouble: str | None
    message: str | None


class CommandRow(NamedTuple):
    run: str
    action: str
    asked_at: int
    done_at: int | None
    outcome: str | None
    is_refused: int
    code: str | None


class MessageRow(NamedTuple):
    id: int
    run_id: int
    run: str
    news: str
    target: str
    body: bytes
    owed_at: int
    told_at: int | None
    given_up_at: int | None
    problem: str


class EndpointRow(NamedTuple):
    name: str
    time_scale: float
    accepted_at: tuple[int, ...]
    """When it was written down that a submission had been answered."""


class SampleRow(NamedTuple):
    at: int
    body: Mapping[str, Any]


class History(NamedTuple):
    counts: Mapping[str, Mapping[str, int]]
    """Those of each run that are not zero."""
    runs: Mapping[str, tuple[SampleRow, ...]]
    """The samples of each run, oldest first; so of endpoints, by their numbers."""
    endpoints: Mapping[str, tuple[SampleRow, ...]]


class Books(NamedTuple):
    """Everything in a ledger that the checks look at."""

    jobs: tuple[JobRow, ...]
    events: Mapping[int, tuple[EventRow, ...]]
    """By job, oldest first."""
    submissions: Mapping[int, SubmissionRow]
    """By number."""
    outcomes: tuple[OutcomeRow, ...]
    given: Mapping[int, tuple[tuple[int, int], ...]]
    """By resumable job: the checkpoints that its segments began with, each by segment and `seq`."""
    commands: tuple[CommandRow, ...]
    """In the order in which they were asked. One for an endpoint bears the name of one of its runs."""
    controls: Mapping[str, tuple[bool, bool]]
    """Whether a run is to pause, and to be cancelled."""
    counts: Mapping[str, int]
    """Those that are not zero."""
    integrity: str
    told_s: Mapping[str, float]
    """How long the executions of each run took, as the service told."""
    endpoints: tuple[EndpointRow, ...]
    history: History
    messages: tuple[MessageRow, ...]
    """In the order in which they were owed."""
    batches: frozenset[str]
    """The ids of those of the service's own Batch."""

    def name_of(self, row: EventRow) -> str:
        """The `custom_id` of the job that an event is about."""
        (custom_id,) = (job.custom_id for job in self.jobs if job.id == row.job)
        return custom_id

    def submission_of(self, row: EventRow | OutcomeRow) -> SubmissionRow | None:
        """The one that an event or an outcome is of, if it is of one."""
        return None if row.submission is None else self.submissions.get(row.submission)

    def of_remote(self, remote_id: str) -> SubmissionRow | None:
        """The submission that the service knows as `remote_id`."""
        return next((row for row in self.submissions.values() if row.remote_id == remote_id), None)


_SUBMISSIONS = (
    "SELECT submissions.id, job_id, coalesce(remote_id, (SELECT remote_id FROM submissions AS lead WHERE"
    " lead.id = submissions.chunk_id)), cancel_at, ttl_at, endpoint, chunk_rows, chunk_id"
    " FROM submissions JOIN endpoints ON endpoints.id = submissions.endpoint_id ORDER BY submissions.id"
)


def read_books(ledger: Path) -> Books:
    """Reads them all; a world is small."""
    with closing(sqlite3.connect(ledger)) as db:

        def rows(query: str) -> list[tuple[object, ...]]:
            return db.execute(query).fetchall()

        events: defaultdict[int, list[EventRow]] = defaultdict(list)
        for row in rows(
            "SELECT id, job_id, at, event, submission_id, trouble, reason, reason_code, detail FROM events ORDER BY id"
        ):
            event = EventRow(*row)  # type: ignore[arg-type]  # SQLite's types are the columns'
            events[event.job].append(event)
        submissions = [SubmissionRow(*row) for row in rows(_SUBMISSIONS)]  # type: ignore[arg-type]
        return Books(
            jobs=tuple(
                JobRow(*row)  # type: ignore[arg-type]
                for row in rows(
                    "SELECT jobs.id, runs.name, custom_id, state, attempt FROM jobs JOIN runs ON runs.id = run_id"
                    " ORDER BY jobs.id"
                )
            ),
            events={job: tuple(found) for job, found in events.items()},
            submissions={row.id: row for row in submissions},
            outcomes=tuple(
                OutcomeRow(job, submission, remote_id, _unpacked(output), trouble, message)  # type: ignore[arg-type]
                for job, submission, remote_id, output, trouble, message in rows(
                    "SELECT job_id, submission_id, remote_id, output, trouble, message FROM outcomes ORDER BY job_id"
                )
            ),
            given=_given(rows("SELECT job_id, given_segment, given_seq FROM progress ORDER BY job_id, segment")),
            commands=tuple(
                CommandRow(*row)  # type: ignore[arg-type]
                for row in rows(
                    "SELECT (SELECT min(name) FROM runs WHERE id = run_id OR runs.endpoint_id = commands.endpoint_id),"
                    " action, asked_at, done_at, outcome, is_refused, outcome_code FROM commands ORDER BY id"
                )
            ),
            controls={
                str(name): (bool(pause), bool(cancel))
                for name, pause, cancel in rows("SELECT name, pause_requested, cancel_requested FROM runs")
            },
            counts=dict(rows("SELECT name, sum(n) FROM counts GROUP BY name HAVING sum(n) <> 0")),  # type: ignore[arg-type]
            told_s={
                str(name): float(s)  # type: ignore[arg-type]
                for name, s in rows(
                    "SELECT name, sum(total_ms) / 1000.0 FROM executions JOIN runs ON runs.id = run_id GROUP BY name"
                )
            },
            endpoints=tuple(
                EndpointRow(
                    name=str(name),
                    time_scale=json.loads(learned or "{}").get("time_scale", 1.0),  # type: ignore[arg-type]
                    accepted_at=tuple(map(int, str(accepted_at or "").split())),
                )
                for name, learned, accepted_at in rows(
                    "SELECT service_url || ' ' || endpoint, learned, (SELECT group_concat(at, ' ') FROM events JOIN"
                    " submissions ON submissions.id = submission_id WHERE submissions.endpoint_id = endpoints.id AND"
                    " event = 'accepted') FROM endpoints"
                )
            ),
            history=_history(rows),
            messages=_messages(rows),
            batches=_batch_ids(rows),
            integrity=str(db.execute("PRAGMA integrity_check").fetchone()[0]),
        )


def _batch_ids(rows: Callable[[str], list[tuple[object, ...]]]) -> frozenset[str]:
    return frozenset(str(each) for (each,) in rows("SELECT remote_id FROM batches WHERE remote_id IS NOT NULL"))


def _messages(rows: Callable[[str], list[tuple[object, ...]]]) -> tuple[MessageRow, ...]:
    return tuple(
        MessageRow(*row)  # type: ignore[arg-type]
        for row in rows(
            "SELECT run_outbox.id, run_id, name, news, target, body, owed_at, told_at, given_up_at, problem"
            " FROM run_outbox JOIN runs ON runs.id = run_id ORDER BY run_outbox.id"
        )
    )


def _history(rows: Callable[[str], list[tuple[object, ...]]]) -> History:
    return History(
        counts=_by_run(rows("SELECT runs.name, counts.name, n FROM counts JOIN runs ON runs.id = run_id WHERE n <> 0")),
        runs=_samples(rows("SELECT name, at, body FROM run_samples JOIN runs ON runs.id = run_id ORDER BY at")),
        endpoints=_samples(rows("SELECT endpoint_id, at, body FROM endpoint_samples ORDER BY at")),
    )


def _samples(rows: Iterable[tuple[object, ...]]) -> dict[str, tuple[SampleRow, ...]]:
    found: defaultdict[str, list[SampleRow]] = defaultdict(list)
    for of, at, body in rows:
        found[str(of)].append(SampleRow(at, json.loads(body)))  # type: ignore[arg-type]  # SQLite's types are the columns'
    return {of: tuple(samples) for of, samples in found.items()}


def _by_run(rows: Iterable[tuple[object, ...]]) -> dict[str, dict[str, int]]:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for run, name, n in rows:
        found[str(run)][str(name)] = n  # type: ignore[assignment]  # it is a number
    return dict(found)


def _unpacked(output: object) -> object:
    """What was packed, as it was: no JSON begins with an "x", and what zlib has packed does."""
    return zlib.decompress(output) if isinstance(output, bytes) and output.startswith(b"x") else output


def _given(rows: Iterable[tuple[object, ...]]) -> dict[int, tuple[tuple[int, int], ...]]:
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    for job, segment, seq in rows:
        found[job] = (*found.get(job, ()), (segment, seq))  # type: ignore[index,call-overload,arg-type]  # all numbers
    return found
