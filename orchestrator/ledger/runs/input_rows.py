"""Which rows of an input are new, known, or refused: an id that stands twice, or has another input than before."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

import msgspec
from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.named_batches import found_by_name, named_in_batch
from orchestrator.ledger.schema.job_tables import intake_known, intake_repeats, jobs, payloads, row_metadata, runs
from orchestrator.ledger.schema.row_codec import pack
from orchestrator.ledger.statements import TEXTS_IN_BATCH, BulkInsert, NumberSequence, batch_of

DIGEST_BYTES: Final = 16
"""How much of an input's SHA-256 is kept, to notice that it changed."""


class InputRow(Protocol):
    """One checked row of an input, as `formats` reads it."""

    @property
    def line(self) -> int: ...
    @property
    def custom_id(self) -> str: ...
    @property
    def derived(self) -> bool: ...
    @property
    def input(self) -> bytes: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def policy(self) -> bytes | None: ...
    @property
    def s3_config(self) -> bytes | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def metadata(self) -> bytes | None: ...


class PackedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row as it will be stored."""

    line: int
    custom_id: str
    derived: bool
    input: bytes | None
    packed: int
    digest: bytes
    policy: bytes | None
    s3_config: bytes | None
    priority: int = 0
    metadata: bytes | None = None

    @property
    def size(self) -> int:
        """How many bytes of it are of any number."""
        parts = (self.input, self.policy, self.s3_config, self.metadata)
        return sum(len(part) for part in parts if part is not None)


def packed_rows(rows: Iterable[InputRow]) -> list[PackedRow]:
    """`rows` as they will be stored: work for a thread of its own, while others may write."""
    return [_packed(row) for row in rows]


def _packed(row: InputRow) -> PackedRow:
    packed_input, packed = pack(row.input)
    return PackedRow(
        line=row.line,
        custom_id=row.custom_id,
        derived=row.derived,
        input=packed_input,
        packed=packed,
        digest=row.digest[:DIGEST_BYTES],
        policy=row.policy,
        s3_config=row.s3_config,
        priority=row.priority,
        metadata=row.metadata,
    )


class OpenIntake(msgspec.Struct, frozen=True, kw_only=True):
    """An intake at work: which run's, and what its jobs carry."""

    id: int
    run: int
    first_job: int
    """No number of its new jobs is lower: between two of its transactions another intake's highest may go."""

    started_at: int = 0
    """As it stands in the ledger, as long as nobody else has taken it to be left by a dead process."""

    as_they_come: bool = False
    """Whether its jobs count as soon as they land, rather than once all of it is accepted."""

    corrects: bool = False
    """Whether jobs that have not succeeded get the inputs that their rows have now: not where what they came to went on
    to other runs."""


class Clash(msgspec.Struct, frozen=True):
    """A row that cannot be taken: its line, and what is wrong with it, in which `{}` is where another one stands."""

    line: int
    wrong: str
    other: int | None = None
    """The line of that other one, if it is about such a one."""

    def text(self, place_of: Callable[[int], str] = "line {}".format) -> str:
        """What is wrong with it, in words; `place_of` says where a line is."""
        return self.wrong if self.other is None else self.wrong.format(place_of(self.other))


class _Known(msgspec.Struct, frozen=True):
    """A job that has the custom_id of a row."""

    id: int
    line: int
    digest: bytes
    in_this_intake: bool
    state: State


CORRECTED: Final = frozenset({State.QUEUED, State.FAILED, State.CANCELLED})
"""The states in which a job can get another input: nothing of it is at the service, and it has no result."""

_KNOWN = (
    select(
        jobs.c.custom_id,
        jobs.c.id,
        func.coalesce(intake_known.c.line, jobs.c.line),
        payloads.c.digest,
        (jobs.c.intake_id == bindparam("intake")) | intake_known.c.job_id.is_not(None),
        jobs.c.state,
    )
    .select_from(
        jobs.join(payloads, payloads.c.job_id == jobs.c.id).outerjoin(
            intake_known, (intake_known.c.job_id == jobs.c.id) & (intake_known.c.intake_id == bindparam("intake"))
        )
    )
    .where(named_in_batch(jobs.c.id, jobs.c.run_id, bindparam("run"), jobs.c.custom_id))
)


class Sorted(msgspec.Struct, frozen=True):
    """What rows are to the run: jobs to be, by their custom_ids, jobs that it has, or none that it can take."""

    fresh: Mapping[str, PackedRow]
    same: Sequence[Mapping[str, Any]]
    repeats: Mapping[str, int]
    clashes: list[Clash]


async def rows_sort(connection: AsyncConnection, intake: OpenIntake, rows: Sequence[PackedRow]) -> Sorted:
    """Sorts `rows`, numbering repeated inputs. Nobody else adds jobs to the run, so it stays true until they land."""
    named, known, repeats = await _names_and_known(connection, intake, rows)
    clashes: list[Clash] = []
    fresh: dict[str, PackedRow] = {}
    same: list[dict[str, Any]] = []
    for row, custom_id in named:
        job = known.get(custom_id)
        if custom_id in fresh:
            clashes.append(_twice(row, custom_id, fresh[custom_id].line))
        elif job is None:
            fresh[custom_id] = row
        elif job.in_this_intake:
            clashes.append(_twice(row, custom_id, job.line))
        elif job.digest != row.digest and not (intake.corrects and job.state in CORRECTED):
            clashes.append(_changed(row, job))
        else:
            known[custom_id] = msgspec.structs.replace(job, in_this_intake=True, line=row.line)
            same.append(_known_row(intake, job, row))
    return Sorted(fresh, same, repeats, clashes)


async def _names_and_known(
    connection: AsyncConnection, intake: OpenIntake, rows: Sequence[PackedRow]
) -> tuple[list[tuple[PackedRow, str]], dict[str, _Known], dict[str, int]]:
    """Each row with its custom_id, repeats numbered; the jobs that have any of these ids; how often what repeats has
    come up.
    """
    known = await _known(connection, intake, {row.custom_id for row in rows})
    bases = Counter(row.custom_id for row in rows if row.derived)
    again = [base for base, n in bases.items() if n > 1 or (base in known and known[base].in_this_intake)]
    if not again:
        return [(row, row.custom_id) for row in rows], known, {}
    seen = await _repeats(connection, intake, again)
    for base in again:
        seen.setdefault(base, 1 if base in known and known[base].in_this_intake else 0)
    named: list[tuple[PackedRow, str]] = []
    for row in rows:
        base = row.custom_id
        if row.derived and base in seen:
            seen[base] += 1
            named.append((row, base if seen[base] == 1 else f"{base}-{seen[base]}"))
        else:
            named.append((row, base))
    known |= await _known(connection, intake, {custom_id for row, custom_id in named if custom_id != row.custom_id})
    return named, known, seen


async def _known(connection: AsyncConnection, intake: OpenIntake, custom_ids: Iterable[str]) -> dict[str, _Known]:
    parameters = {"run": intake.run, "intake": intake.id, **batch_of(custom_ids)}
    found = await found_by_name(connection, _KNOWN, parameters)
    return {row[0]: _Known(row[1], row[2], row[3], bool(row[4]), State(row[5])) for row in found}


async def _repeats(connection: AsyncConnection, intake: OpenIntake, bases: Sequence[str]) -> dict[str, int]:
    query = select(intake_repeats.c.base, intake_repeats.c.n).where(
        intake_repeats.c.intake_id == bindparam("intake"), intake_repeats.c.base.in_(TEXTS_IN_BATCH)
    )
    found = await connection.execute(query, {"intake": intake.id, **batch_of(bases)})
    return {row[0]: row[1] for row in found}


def _twice(row: PackedRow, custom_id: str, line: int) -> Clash:
    shown = repr(custom_id).replace("{", "{{").replace("}", "}}")
    return Clash(row.line, f"custom_id {shown} stands on {{}} already; give each row its own", line)


def _changed(row: PackedRow, job: _Known) -> Clash:
    """In words that are the same for all such rows, so that they are told together."""
    if job.state in (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING):
        return Clash(
            row.line,
            "its custom_id is at the service with another input; give the command again once that has ended, or cancel"
            " it first, or give the changed row a new custom_id",
        )
    done = "has succeeded with another input" if job.state is State.SUCCEEDED else "has another input in this run"
    return Clash(row.line, f"its custom_id {done}; give the changed row a new custom_id, or use another <setting name>")


def _known_row(intake: OpenIntake, job: _Known, row: PackedRow) -> dict[str, Any]:
    is_other = job.digest != row.digest
    return {
        "intake_id": intake.id,
        "job_id": job.id,
        "line": row.line,
        "policy": row.policy,
        "s3_config": row.s3_config,
        "priority": row.priority,
        "metadata": row.metadata,
        "input": row.input if is_other else None,
        "packed": row.packed if is_other else None,
        "digest": row.digest if is_other else None,
    }


JOB_NUMBERS: Final = NumberSequence(jobs.c.id)

_OF_JOB: Final = ("line", "priority")
_OF_PAYLOAD: Final = ("input", "packed", "digest", "policy", "s3_config")
"""What both tables take from a row as it is."""

_of_job: Final = attrgetter(*_OF_JOB)
_of_payload: Final = attrgetter(*_OF_PAYLOAD)
_JOB = BulkInsert(jobs, "id", "run_id", "endpoint_id", "custom_id", "intake_id", *_OF_JOB)
_PAYLOAD = BulkInsert(payloads, "job_id", *_OF_PAYLOAD)
_METADATA = BulkInsert(row_metadata, "run_id", "job_id", "metadata")
_ENDPOINT: Final = select(runs.c.endpoint_id).where(runs.c.id == bindparam("run"))


async def rows_insert(connection: AsyncConnection, intake: OpenIntake, fresh: Mapping[str, PackedRow]) -> Sequence[int]:
    """Makes jobs of rows, which have these ids, at the endpoint that their run has by now, and counts nothing; returns
    their numbers in the order of the rows.
    """
    run, number = intake.run, intake.id
    job_rows, payload_rows, metadata_rows = [], [], []
    if not fresh:
        return ()
    endpoint = (await connection.execute(_ENDPOINT, {"run": run})).scalar_one()  # `rebind` is beside none: it stays
    numbers = await JOB_NUMBERS.take(connection, len(fresh), at_least=intake.first_job)
    for job, (custom_id, row) in zip(numbers, fresh.items(), strict=True):
        job_rows.append((job, run, endpoint, custom_id, number, *_of_job(row)))
        payload_rows.append((job, *_of_payload(row)))
        if row.metadata is not None:
            metadata_rows.append((run, job, row.metadata))
    await _JOB.execute(connection, job_rows)
    await _PAYLOAD.execute(connection, payload_rows)
    if metadata_rows:
        await _METADATA.execute(connection, metadata_rows)
    return numbers
