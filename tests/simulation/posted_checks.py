"""What must be true of batches that programs have posted, whoever was killed."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS, ROW_CODES, PostedState
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.units import SECOND_US
from tests.simulation.books import Books
from tests.simulation.facts import Facts
from tests.simulation.looked_up import why_again
from tests.simulation.posted_facts import Body
from tests.simulation.posted_front import FILES
from tests.simulation.posted_plan import TEAMS
from tests.simulation.posted_programs import FAILED, content_of, made_of

ORDER: Final = {
    state: place
    for place, states in enumerate(
        (
            {PostedState.VALIDATING},
            {PostedState.IN_PROGRESS},
            {PostedState.FINALIZING, PostedState.CANCELLING},
            POSTED_ENDS,
        )
    )
    for state in states
}
"""No batch goes back."""

LATE_US: Final = 5 * SECOND_US
"""So long may it take to begin, and to look."""

HELD: Final = frozenset(code for code, _ in ROW_CODES.values())
"""What is said of requests that were not executed."""


class _Batch(NamedTuple):
    id: str
    owner: str
    state: str
    input_file: str
    is_taken_in: int
    total: int
    completed: int
    failed: int
    output_file: str | None
    error_file: str | None
    expires_at: int
    finalizing_at: int | None
    ended: tuple[int | None, ...]


class _File(NamedTuple):
    id: str
    owner: str
    purpose: str
    size: int


def _read(ledger: Path) -> tuple[list[_Batch], dict[str, _File]]:
    ends = ", ".join(f"{state.value}_at" for state in sorted(POSTED_ENDS))
    with closing(sqlite3.connect(ledger)) as db:
        rows = db.execute(
            "SELECT id, owner, state, input_file, EXISTS (SELECT 1 FROM intakes WHERE run_id = run AND accepted_at IS NOT NULL), total, completed, failed, output_file, error_file,"
            " expires_at, finalizing_at,"
            f" {ends} FROM posted_batches"
        )
        batches = [_Batch._make((*row[:12], row[12:])) for row in rows]
        files = [_File(*row) for row in db.execute("SELECT id, owner, purpose, size FROM posted_files")]
    return batches, {each.id: each for each in files}


def each_batch_has_ended_once(facts: Facts, _books: Books) -> Iterator[str]:
    """In one state, which nothing leaves, and to which it went forward."""
    posted, (batches, _) = facts.posted, _read(facts.ledger)
    if posted is None or not facts.finished:
        return
    yield from posted.flaws
    known = {each.id: each for each in batches}
    for batch in batches:
        if batch.state not in POSTED_ENDS or sum(at is not None for at in batch.ended) != 1:
            yield f"{batch.id} is {batch.state}, and has ended at {batch.ended}"
    for name, states in posted.seen.items():
        if any(ORDER[PostedState(before)] >= ORDER[PostedState(after)] for before, after in pairwise(states)):
            yield f"{name} was seen {' > '.join(states)}"
        if name not in known or states[-1] != known[name].state:
            yield f"{name} was seen {states[-1]}, and is {known[name].state if name in known else 'gone'}"


def what_is_late_has_expired(facts: Facts, _books: Books) -> Iterator[str]:
    """Nobody works on after its window on what is not over by then: who is there sees to that at once."""
    for batch in _read(facts.ledger)[0]:
        if (
            batch.state != PostedState.COMPLETED
            or batch.finalizing_at is None
            or batch.finalizing_at <= batch.expires_at
        ):
            continue
        up_us = facts.up_us(batch.expires_at, facts.moments[batch.finalizing_at])
        if up_us > LATE_US:
            yield f"{batch.id} is completed, and went on for {up_us / SECOND_US:.1f} s after its window"


def each_request_has_one_line(facts: Facts, _books: Books) -> Iterator[str]:
    """In the file of results, or in that of errors; and a batch counts as many as there are."""
    posted, (batches, files) = facts.posted, _read(facts.ledger)
    if posted is None or not facts.finished:
        return
    for batch in batches:
        wanted = posted.uploads.get(batch.input_file, {})
        output, errors = (_lines(facts, name, files) for name in (batch.output_file, batch.error_file))
        counts = (batch.completed, batch.failed)
        if counts != (len(output), len(errors)):
            yield f"{batch.id} counts {counts}, and its files have {len(output)} and {len(errors)} lines"
        if not (output or errors):
            if batch.is_taken_in and batch.state != PostedState.FAILED:
                yield f"{batch.id} is {batch.state}, and has no files"
            continue
        if batch.total != len(wanted):
            yield f"{batch.id} has {batch.total} of {len(wanted)} requests"
        found = Counter(str(line["custom_id"]) for line in (*output, *errors))
        if found != Counter(wanted.keys()):
            yield f"{batch.id} has lines of {dict(found - Counter(wanted.keys()))} too many, and {dict(Counter(wanted.keys()) - found)} too few"
            continue
        for line in output:
            if line["response"]["body"].get("said") != content_of(wanted[line["custom_id"]]):
                yield f"{batch.id} has the answer of another for {line['custom_id']}"
        yield from _misplaced(batch, errors, wanted)


def _misplaced(batch: _Batch, errors: list[Body], wanted: dict[str, bytes]) -> Iterator[str]:
    for line in errors:
        made, error = made_of(wanted[line["custom_id"]]), line["error"]
        if error is None:
            if made.output is None or b'"error"' not in made.output:
                yield f"{batch.id} has an answer among its errors: {line}"
        elif error["code"] in HELD and ROW_CODES.get(PostedState(batch.state), ("",))[0] != error["code"]:
            yield f"{batch.id} is {batch.state}, and says of {line['custom_id']}: {error['code']}"
        elif error["message"] == FAILED and made.error is None:
            yield f"{batch.id} has the failure of another for {line['custom_id']}"


def _lines(facts: Facts, name: str | None, files: dict[str, _File]) -> list[Body]:
    if name is None or name not in files:
        return []
    path = facts.folder / FILES / name
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def what_was_told_holds(facts: Facts, _books: Books) -> Iterator[str]:
    """Files and batches of which programs were told are there, and files are what they read of them."""
    posted, (batches, files) = facts.posted, _read(facts.ledger)
    if posted is None or not facts.finished:
        return
    known = {each.id for each in batches} | {*files}
    for name in posted.owners.keys() - known - posted.deleted:
        yield f"{name}, of which somebody was told, is gone"
    for name in posted.deleted & known:
        yield f"{name} is there, though somebody was told that it is deleted"
    for name, lines in posted.lines.items():
        if lines != _lines(facts, name, files):
            yield f"{name} is not what somebody has read"


def each_team_sees_its_own(facts: Facts, _books: Books) -> Iterator[str]:
    """Its files and batches, and nothing else."""
    posted, (batches, files) = facts.posted, _read(facts.ledger)
    if posted is None or not facts.finished:
        return
    own: defaultdict[str, set[str]] = defaultdict(set)
    for owner, name in [(each.owner, each.id) for each in batches] + [(each.owner, each.id) for each in files.values()]:
        own[owner].add(name)
    for team in TEAMS:
        if posted.listed.get(team) != own[team]:
            yield f"{team} sees {sorted(posted.listed.get(team, set()) ^ own[team])} wrongly"
    for name, owner in posted.owners.items():
        if any(name in theirs for other, theirs in own.items() if other != owner):
            yield f"{name} is not {owner}'s any more"


def the_folder_has_what_the_ledger_knows(facts: Facts, _books: Books) -> Iterator[str]:
    """Each file with its size, and nothing that a process has left that was killed."""
    if facts.posted is None or not facts.finished:
        return
    _, files = _read(facts.ledger)
    there = {path.name: path.stat().st_size for path in (facts.folder / FILES).iterdir()}
    for name in there.keys() ^ files.keys():
        yield f"{name} {'lies there, and nobody knows it' if name in there else 'is known, and not there'}"
    for name in there.keys() & files.keys():
        if there[name] != files[name].size:
            yield f"{name} has {there[name]} bytes, the ledger says {files[name].size}"


def no_request_is_sent_without_a_reason(facts: Facts, books: Books) -> Iterator[str]:
    """Each request of a batch is submitted once, and once for each time that the ledger says why; of a batch that was
    refused none is.
    """
    posted, (batches, _) = facts.posted, _read(facts.ledger)
    if posted is None:
        return
    inputs = {each.id: posted.uploads.get(each.input_file, {}) for each in batches}
    may_be: Counter[bytes] = Counter()
    for job in books.jobs:
        again = [why_again(row, past_queue=False) for row in books.events.get(job.id, ()) if row.event == Event.RETRIED]
        if job.custom_id in inputs.get(job.run, {}):
            may_be[inputs[job.run][job.custom_id]] += 1 + len(again)
    for body, n in facts.accepted.items():
        if n > may_be[body]:
            yield f"{content_of(body)} was submitted {n} times, and the ledger says why {may_be[body]} times"


OF_POSTED = (
    each_batch_has_ended_once,
    what_is_late_has_expired,
    each_request_has_one_line,
    what_was_told_holds,
    each_team_sees_its_own,
    the_folder_has_what_the_ledger_knows,
    no_request_is_sent_without_a_reason,
)
