"""The samples of a ledger: what is written, what is read of a time, and what is forgotten.

Nothing here fails for want of samples: a ledger that nobody worked on has none, and answers with nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
from sqlalchemy import Column, Table, bindparam, delete, func, select, tuple_

from orchestrator.core.jobs.lifecycle import ended
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.ownership.lease import PROCESSES_MAX
from orchestrator.core.samples.rates import EndsOfRun
from orchestrator.core.samples.sample_spacing import (
    COARSEST_S,
    STEPS_S,
    expired_before,
    spacing_for,
    step_for,
    stretches,
    thinned,
)
from orchestrator.ledger.database import NUMBER_MAX
from orchestrator.ledger.expressions import unindexed
from orchestrator.ledger.samples.process_totals import samples_together
from orchestrator.ledger.samples.sample_facts import SampleFacts, UnsampledSteps, sample_facts
from orchestrator.ledger.samples.samples import EndpointSample, ProcessTotals, RunSample
from orchestrator.ledger.schema.job_tables import endpoints, heartbeats, runs
from orchestrator.ledger.schema.sample_tables import endpoint_samples, process_totals, run_samples
from orchestrator.ledger.statements import ROWS, batch_of, field, upsert
from orchestrator.ledger.transactions.repository import Access, Repository
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.units import SECOND_US

Sampled = TypeVar("Sampled", RunSample, EndpointSample, ProcessTotals)

_at: Final = attrgetter("at")


class SampledTime(msgspec.Struct, Generic[Sampled], frozen=True, kw_only=True):
    """The samples of a time, oldest first. Where one is missing, nobody has looked."""

    spacing_s: int
    """How far apart they are where none is missing."""

    samples: Sequence[Sampled]


class _SampleTable(Generic[Sampled]):
    """One table of samples, and the statements about it, which are made once and not for each ledger that is opened."""

    def __init__(self, table: Table, owner: Column[int], kind: type[Sampled]) -> None:
        row, of = table.c, next(iter(table.primary_key.columns))
        self.of = of.name
        self.decode: Callable[[bytes], Sampled] = msgspec.json.Decoder(kind).decode
        self.upsert = upsert(table, lambda new: {"body": new.body})
        self.between = select(row.at, row.body).where(
            of == bindparam("of"),
            row.step_s == bindparam("step"),
            row.at > bindparam("since"),
            row.at <= bindparam("until"),
        )
        last = select(func.max(row.at)).where(
            of == field(0), row.step_s == field(1), row.at > field(2), row.at <= field(3)
        )
        places = select(field(0).label("of"), field(1).label("step"), last.scalar_subquery().label("last"))
        place = places.select_from(ROWS).subquery()
        self.last_of_each = select(of, row.at, row.body).join(
            place, (of == place.c.of) & (row.step_s == place.c.step) & (row.at == place.c.last)
        )
        self.expired = (
            select(of, row.at)
            .select_from(owner.table.join(table, of == unindexed(owner)))  # else it goes through all samples
            .where(row.step_s == bindparam("step"), row.at < bindparam("before"))
            .limit(bindparam("most"))
        )
        # By the whole key: else SQLite goes through the table.
        self.delete = delete(table).where(
            tuple_(of, row.step_s, row.at).in_(select(field(0), field(1), field(2)).select_from(ROWS))
        )


_RUNS: Final = _SampleTable(run_samples, runs.c.id, RunSample)
_ENDPOINTS: Final = _SampleTable(endpoint_samples, endpoints.c.id, EndpointSample)
_PROCESSES: Final = _SampleTable(process_totals, heartbeats.c.slot, ProcessTotals)


class SampleSeries(Repository, Generic[Sampled]):
    """The samples of one table, each by the number of what it is of: its first column, a key of its owners."""

    def __init__(self, access: Access, table: _SampleTable[Sampled]) -> None:
        super().__init__(access)
        self._table: Final[_SampleTable[Sampled]] = table

    async def between(self, of: int, since: int, until: int) -> SampledTime[Sampled]:
        """The samples of `of` after `since` and until `until`, as many as a chart has points at most; before them the
        last one until `since`, from which on counters have grown, unless it is long ago.
        """
        step, spacing_s = step_for(since, until), spacing_for(since, until)
        since -= spacing_s * SECOND_US
        steps = [each for each in STEPS_S if each >= step]
        if spacing_s > step:  # of a year there are fifty thousand
            parts = stretches(since, until, spacing_s)
            last = await self._last_of_each((of, each, after, upto) for each in steps for after, upto in parts)
            found = [sample for _, sample in last]
        else:
            found = []
            for each in steps:
                given = {"of": of, "step": each, "since": since, "until": until}
                found += [self._sample(at, body) for at, body in await self._access.rows(self._table.between, given)]
        found.sort(key=_at)
        return SampledTime(spacing_s=spacing_s, samples=thinned(found, _at, spacing_s))

    async def latest(self, among: Collection[int], *, until: int = NUMBER_MAX) -> dict[int, Sampled]:
        """The latest sample of each of these that has one; of those until `until`."""
        found: dict[int, Sampled] = {}
        for of, sample in await self._last_of_each((of, step, -1, until) for of in among for step in STEPS_S):
            if of not in found or found[of].at < sample.at:
                found[of] = sample
        return found

    async def _last_of_each(self, parts: Iterable[tuple[int, int, int, int]]) -> list[tuple[int, Sampled]]:
        """Of each part (of what, step, after, until) that has any, the last sample, with what it is of."""
        rows = await self._access.rows(self._table.last_of_each, batch_of(parts))
        return [(of, self._sample(at, body)) for of, at, body in rows]

    async def write(self, transaction: Transaction, step_s: int, at: int, samples: Mapping[int, Sampled]) -> None:
        """Writes down how these stood at `at`, in the place of what was written of that moment and step before."""
        of = self._table.of
        rows = [
            {
                of: number,
                "step_s": step_s,
                "at": at,
                "body": msgspec.json.encode(msgspec.structs.replace(each, at=0)),
            }
            for number, each in samples.items()
        ]
        if rows:
            await transaction.connection.execute(self._table.upsert, rows)

    async def forget_expired(self, now: int, *, most: int) -> int:
        """Deletes up to `most` samples of each step that are older than these are kept for; returns how many."""
        forgotten = 0
        for step in STEPS_S:
            given = {"step": step, "before": expired_before(step, now), "most": most}
            rows = [(of, step, at) for of, at in await self._access.rows(self._table.expired, given)]
            if rows:
                await self._access.shared.execute(self._table.delete, batch_of(rows))
            forgotten += len(rows)
        return forgotten

    def _sample(self, at: int, body: bytes) -> Sampled:
        sample = self._table.decode(body)
        msgspec.structs.force_setattr(sample, "at", at)  # nobody has it yet
        return sample


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down at one moment: how these stood, each with its step."""

    at: int
    step_s: int
    runs: Mapping[int, RunSample]
    ended: Mapping[int, RunSample]
    """Runs of which this is the first sample or the last: they are kept for as long as any."""

    endpoints: Mapping[int, EndpointSample]
    process: ProcessTotals | None
    """Of the process that these are taken in, where they speak for that."""


Look = Callable[[SampleFacts, Sequence[Transition]], Sampling]
"""Makes samples of what the ledger says, and of the steps of the same transaction, which nobody was told of yet."""


class Samples(Repository):
    """The samples of a ledger."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.runs = SampleSeries(access, _RUNS)
        self.endpoints = SampleSeries(access, _ENDPOINTS)
        self.processes = SampleSeries(access, _PROCESSES)
        self.unsampled = UnsampledSteps(access)
        self.slot = 0
        """That of this process. Where one process works, it is always the first one."""

    async def take(self, among: Collection[int], look: Look, then: Callable[[Sampling], None]) -> None:
        """Has `look` see what the ledger says of these runs, and writes down what it makes of that, in one transaction;
        calls `then` with it before the feed tells of any later one. Raises `StorageError`.
        """
        sampled: list[Sampling] = []

        async def block(transaction: Transaction) -> None:
            facts = await sample_facts(self._access.within(transaction.connection), among)
            seen = look(facts, transaction.applied)
            await self.runs.write(transaction, seen.step_s, seen.at, seen.runs)
            await self.runs.write(transaction, COARSEST_S, seen.at, seen.ended)
            await self.endpoints.write(transaction, seen.step_s, seen.at, seen.endpoints)
            of_process = {} if seen.process is None else {self.slot: seen.process}
            await self.processes.write(transaction, seen.step_s, seen.at, of_process)
            sampled[:] = [seen]

        def committed(error: Exception | None) -> None:
            if error is None:
                then(sampled[0])

        await self._access.alone.write(block, committed)

    async def of_run(self, run: int, since: int, until: int) -> SampledTime[RunSample]:
        """How a run stood between these times."""
        return await self.runs.between(run, since, until)

    async def of_endpoint(self, endpoint: int, since: int, until: int) -> SampledTime[EndpointSample]:
        """How an endpoint stood between these times."""
        return await self.endpoints.between(endpoint, since, until)

    async def of_processes(self, since: int, until: int) -> SampledTime[ProcessTotals]:
        """How the processes at work stood together between these times, whichever they were."""
        spacing_s, latest = spacing_for(since, until), await self.latest_of_processes()
        slots = [slot for slot, sample in latest.items() if sample.at > since - spacing_s * SECOND_US]
        found = [(await self.processes.between(slot, since, until)).samples for slot in slots]
        return SampledTime(spacing_s=spacing_s, samples=samples_together(found, spacing_s))

    async def holds_since(self, among: Collection[int]) -> dict[int, int]:
        """Since when the latest sample of each of these runs has had its hold, of those that have one."""
        latest = await self.runs.latest(among)
        return {run: sample.hold_since for run, sample in latest.items() if sample.hold_since is not None}

    async def ends(self, among: Collection[int], *, until: int = NUMBER_MAX) -> dict[int, EndsOfRun]:
        """How many jobs of each of these runs had ended by its latest sample, of those until `until`."""
        latest = await self.runs.latest(among, until=until)
        return {
            run: EndsOfRun(at=sample.at, ends=sample.finished, ended=ended(sample.counts))
            for run, sample in latest.items()
        }

    async def latest_of_processes(self) -> dict[int, ProcessTotals]:
        """How each process at work, or the last one that was in its slot, stood last, by slot."""
        return await self.processes.latest(range(PROCESSES_MAX))

    async def forget_expired(self, now: int, *, most: int) -> int:
        """Deletes samples that were kept for as long as they are kept, up to `most` of each kind; returns how many."""
        parts: tuple[SampleSeries[Any], ...] = (self.runs, self.endpoints, self.processes)
        return sum([await part.forget_expired(now, most=most) for part in parts])
