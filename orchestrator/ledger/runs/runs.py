"""Runs: what they are of, and what their jobs come to."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import ColumnElement, bindparam, delete, func, insert, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import UNFINISHED, State
from orchestrator.core.lanes.via import Via
from orchestrator.core.service.profiles import is_by_url
from orchestrator.ledger.schema.job_tables import counts, endpoints, intakes, jobs, run_endpoints, runs, values_check
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import IN_BATCH, Among, batch_of, insert_new
from orchestrator.ledger.transactions.repository import Access, Repository, Writes, alone, shared
from orchestrator.ledger.transactions.run_configuration import run_configure
from orchestrator.ledger.transactions.run_controls import HAS_UNFINISHED, TO_CANCEL, ControlledRun, RunControls
from orchestrator.ledger.transactions.run_removal import run_take_back
from orchestrator.ledger.transactions.transaction import Block, Transaction
from orchestrator.ledger.transitions.count_writes import counts_add
from orchestrator.settings.connection_settings import place_for
from orchestrator.settings.run_settings import RunSettings


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the ledger knows it."""

    id: int
    name: str
    endpoint_id: int
    service_url: str
    endpoint: str
    source: str
    settings: RunSettings
    created_at: int
    accepted: bool
    """Whether any intake of it was ever accepted."""

    rows: int
    """Rows of the latest accepted input."""

    is_released: bool = False
    """Whether somebody asked that no more of it is sent, until somebody asks for that again."""

    @property
    def via(self) -> Via:
        """By which lane its jobs leave for that endpoint."""
        return self.settings.at(self.endpoint).via

    @property
    def is_at_url(self) -> bool:
        """Whether its endpoint is a URL, which is at no service."""
        return is_by_url(self.service_url)


_COLUMNS = select(
    *columns(
        Run,
        runs,
        endpoint_id=endpoints.c.id,
        service_url=endpoints.c.service_url,
        endpoint=endpoints.c.endpoint,
        accepted=runs.c.intake_accepted > 0,
        rows=runs.c.rows_accepted,
        is_released=runs.c.is_released == 1,
    )
)
_RUNS = _COLUMNS.select_from(runs.join(endpoints, endpoints.c.id == runs.c.endpoint_id))
_ELSEWHERE = _COLUMNS.select_from(
    run_endpoints.join(runs, runs.c.id == run_endpoints.c.run_id).join(
        endpoints, endpoints.c.id == run_endpoints.c.endpoint_id
    )
)

_settings = msgspec.json.Decoder(RunSettings)

TellCounts = Callable[[dict[str, int]], None]
Result = TypeVar("Result")


def _run_of(row: Any) -> Run:
    """The run in a row of `_RUNS`."""
    return Run(**{**row._asdict(), "settings": _settings.decode(row.settings)})


_ALL: Final = Among(_RUNS.order_by(runs.c.id), runs.c.id)
_NAMED: Final = _RUNS.where(runs.c.name == bindparam("name"))
_ALL_ELSEWHERE: Final = Among(_ELSEWHERE.order_by(runs.c.id, endpoints.c.id), runs.c.id)
_COUNTS: Final = Among(select(counts.c.run_id, counts.c.name, counts.c.n), counts.c.run_id)
_ASKED: Final = select(runs.c.id, runs.c.name, runs.c.pause_requested, runs.c.cancel_requested).where(
    (runs.c.pause_requested == 1) | (runs.c.cancel_requested == 1)
)

_OUTSTANDING: Final = (
    select(runs.c.endpoint_id, func.sum(counts.c.n))
    .select_from(counts.join(runs, runs.c.id == counts.c.run_id))
    .where(counts.c.name == State.OUTSTANDING.value)
    .group_by(runs.c.endpoint_id)
)

_SPREAD: Final = (
    select(run_endpoints.c.endpoint_id, runs.c.endpoint_id)
    .select_from(
        run_endpoints.join(runs, runs.c.id == run_endpoints.c.run_id).join(
            counts, (counts.c.run_id == runs.c.id) & (counts.c.name == State.OUTSTANDING.value)
        )
    )
    .where(counts.c.n > 0)
)
"""The endpoints of runs that have jobs outstanding at some of them, two at a time."""

_OUTSTANDING_AT: Final = (
    select(jobs.c.endpoint_id, func.count())
    .where(jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"), jobs.c.endpoint_id.in_(IN_BATCH))
    .group_by(jobs.c.endpoint_id)
)

_OUTSTANDING_OF: Final = (
    select(jobs.c.run_id, jobs.c.endpoint_id, func.count())
    .where(jobs.c.state == literal_column(f"'{State.OUTSTANDING}'"), jobs.c.run_id.in_(IN_BATCH))
    .group_by(jobs.c.run_id, jobs.c.endpoint_id)
)

_ENDED: Final = select(runs.c.id).where(runs.c.id.in_(IN_BATCH), runs.c.intake_accepted > 0, ~HAS_UNFINISHED)
_NOT_TAKEN: Final = (State.QUEUED, State.FAILED, State.CANCELLED)
_MAY_BE_TAKEN: Final[ColumnElement[bool]] = or_(
    select(literal_column("1"))
    .where(
        jobs.c.run_id == bindparam("run"),
        (jobs.c.attempt > 0) | literal_column(f"NOT {values_check('jobs.state', _NOT_TAKEN)}"),
    )
    .exists(),
    select(literal_column("1")).where(intakes.c.run_id == bindparam("run"), intakes.c.accepted_at.is_(None)).exists(),
)
"""Whether the service may have had a job of the run: a refusal gives the attempt back. While its input is read, too:
whoever reads it goes by the endpoint that the run has.
"""


async def _endpoint_of(connection: AsyncConnection, *, service_url: str, endpoint: str) -> int:
    """The number of that endpoint, which is made where there is none."""
    of = {"service_url": service_url, "endpoint": endpoint}
    await connection.execute(insert_new(endpoints), of)
    return int((await connection.execute(select(endpoints.c.id).filter_by(**of))).scalar_one())


class Runs(Repository):
    """The runs of a ledger."""

    async def all(self, among: Collection[int] | None = None) -> list[Run]:
        """Every run, or those of these numbers, oldest first."""
        return [_run_of(row) for row in await self._access.rows(*_ALL.of(among))]

    async def most_wanted(self, most: int) -> list[int]:
        """The numbers of the `most` runs that people look for, oldest first: those that are not finished, then the
        newest; of the accepted ones.
        """
        # Whether each has unfinished jobs would be ten thousand questions; which have any is one.
        is_unfinished = runs.c.id.in_(select(counts.c.run_id).where(counts.c.n > 0, counts.c.name.in_(UNFINISHED)))
        query = select(runs.c.id).where(runs.c.intake_accepted > 0).order_by(is_unfinished.desc(), runs.c.id.desc())
        return sorted(row[0] for row in await self._access.rows(query.limit(most)))

    async def totals(self) -> tuple[int, dict[str, int]]:
        """How many accepted runs there are, and how many jobs they have in each state together."""
        accepted = runs.c.intake_accepted > 0
        number = await self._access.value(select(func.count()).select_from(runs).where(accepted))
        query = (
            select(counts.c.name, func.sum(counts.c.n))
            .select_from(counts.join(runs, runs.c.id == counts.c.run_id))
            .where(accepted, counts.c.name.in_([state.value for state in State]))
            .group_by(counts.c.name)
        )
        return int(number), {row[0]: row[1] for row in await self._access.rows(query)}

    async def named(self, name: str) -> Run | None:
        """The run called `name`, or None."""
        found = await self._access.rows(_NAMED, {"name": name})
        return _run_of(found[0]) if found else None

    async def names(self, *, not_accepted: bool = False) -> list[str]:
        """The names of all runs, oldest first; `not_accepted`: also of those of which no intake ever was."""
        query = select(runs.c.name).order_by(runs.c.id)
        rows = await self._access.rows(query if not_accepted else query.where(runs.c.intake_accepted > 0))
        return [row[0] for row in rows]

    async def create(self, *, name: str, service_url: str, endpoint: str, source: str, settings: RunSettings) -> Run:
        """A new run; it vanishes on the next open unless an intake of it is accepted."""

        async def block(transaction: Transaction) -> None:
            connection = transaction.connection
            row = {
                "name": name,
                "endpoint_id": await _endpoint_of(connection, service_url=service_url, endpoint=endpoint),
                "source": source,
                "settings": msgspec.json.encode(settings),
                "created_at": self._access.now(),
            }
            await connection.execute(insert(runs), row)

        await self._access.shared.write(block)
        run = await self.named(name)
        assert run is not None
        return run

    async def is_untouched(self, run: int) -> bool:
        """Whether the service cannot have had any job of `run`."""
        return not await self._access.value(select(_MAY_BE_TAKEN), {"run": run})

    @alone
    async def rebind(self, transaction: Transaction, run: int, *, service_url: str, endpoint: str) -> bool:
        """Gives `run` and its jobs another endpoint, unless the service may have had one of them; returns whether.

        Nobody may be sending for it.
        """
        connection = transaction.connection
        if (await connection.execute(select(_MAY_BE_TAKEN), {"run": run})).scalar_one():
            return False
        number = await _endpoint_of(connection, service_url=service_url, endpoint=endpoint)
        await connection.execute(update(runs).where(runs.c.id == run).values(endpoint_id=number))
        await connection.execute(update(jobs).where(jobs.c.run_id == run).values(endpoint_id=number))
        await connection.execute(delete(run_endpoints).where(run_endpoints.c.run_id == run))
        return True

    async def elsewhere(self, among: Collection[int] | None = None) -> list[Run]:
        """Each run, or each of these, as it is at every other endpoint than its own to which jobs of it were sent."""
        rows = await self._access.rows(*_ALL_ELSEWHERE.of(among))
        return [_run_of(row) for row in rows]

    async def at_endpoint(self, run: Run, endpoint: str) -> Run:
        """`run` as it is at another endpoint of its service, or at a function of the user's, to which jobs of it may be
        sent from now on.
        """
        url = place_for(endpoint, run.service_url)

        async def block(transaction: Transaction) -> int:
            connection = transaction.connection
            number = await _endpoint_of(connection, service_url=url, endpoint=endpoint)
            await connection.execute(insert_new(run_endpoints), {"run_id": run.id, "endpoint_id": number})
            return number

        number = await self._access.alone.write(block)
        return msgspec.structs.replace(run, endpoint_id=number, service_url=url, endpoint=endpoint)

    @alone
    async def configure(
        self, transaction: Transaction, run: int, settings: RunSettings, *, before: RunSettings
    ) -> RunSettings:
        """Stores what of the settings of `run` is another than `before`, of which they were made; returns all that
        it has now, which apply from the next submission. Of members that become files, results count as unsaved.
        """
        return await run_configure(transaction.connection, run, settings, before=before)

    @alone
    async def take_back(self, transaction: Transaction, run: int) -> bool:
        """Takes back that any intake of `run` was accepted: it is no run any more, and what is left of it is cleared
        (`Intakes.clear`). False where jobs of it are at the service, unless it is to be cancelled, or a pod of it may
        be paid. Nobody works on `run`, or takes in for it.
        """
        return await run_take_back(transaction.connection, run, even_if_cancelling=True)

    async def ended(self, among: Collection[int]) -> set[int]:
        """Those of these runs that were taken in, and of which each job has its outcome."""
        return {row[0] for row in await self._access.rows(_ENDED, batch_of(among))}

    async def is_gone(self, run: int) -> bool:
        """Whether `run` was deleted, or is being deleted: it has counts, and nothing of it is accepted."""
        has_counts = bool(await self.counts(run))  # first: it may be accepted between the two questions
        accepted = await self._access.value(select(runs.c.intake_accepted).where(runs.c.id == run))
        return accepted is None or (accepted == 0 and has_counts)

    async def counts(self, run: int) -> dict[str, int]:
        """Jobs of `run` in each state, and its cumulative counters; names that never counted are missing."""
        return (await self.counts_by_run([run])).get(run, {})

    async def counts_by_run(self, among: Collection[int] | None = None) -> dict[int, dict[str, int]]:
        """The same of every run that ever counted anything, or of those of these numbers."""
        found: dict[int, dict[str, int]] = {}
        for of, name, n in await self._access.rows(*_COUNTS.of(among)):
            found.setdefault(of, {})[name] = n
        return found

    async def recount(self, run: int, tell: TellCounts) -> None:
        """Hands the counts of `run` to `tell`, as `write_counted` does."""

        async def nothing(_: Transaction) -> None:
            """Is only to be in a transaction."""

        await write_counted(self._access, nothing, run, tell, by=self._access.shared)

    @shared
    async def count(self, transaction: Transaction, run: int, name: str) -> None:
        """One more in a cumulative counter of `run` that no step raises."""
        await counts_add(transaction.connection, Counter({(run, name): 1}))

    async def controls(self, run: int) -> RunControls:
        """What is asked of `run` at present."""
        query = select(runs.c.pause_requested, runs.c.cancel_requested).where(runs.c.id == run)
        [(pause, cancel)] = await self._access.rows(query)
        return RunControls(pause=bool(pause), cancel=bool(cancel))

    async def asked(self) -> dict[int, ControlledRun]:
        """The runs of which anything is asked."""
        found = await self._access.rows(_ASKED)
        return {row[0]: ControlledRun(row[1], RunControls(pause=bool(row[2]), cancel=bool(row[3]))) for row in found}

    async def to_cancel(self) -> list[int]:
        """The runs that are cancelled and have unfinished jobs."""
        return [row[0] for row in await self._access.rows(TO_CANCEL)]

    async def outstanding(self) -> dict[int, int]:
        """How many jobs are outstanding at each endpoint, by the counts; these say nothing of where, so where a run has
        jobs at several endpoints they are counted there.
        """
        found = {row[0]: row[1] for row in await self._access.rows(_OUTSTANDING)}
        if spread := {endpoint for row in await self._access.rows(_SPREAD) for endpoint in row}:
            counted = {row[0]: row[1] for row in await self._access.rows(_OUTSTANDING_AT, batch_of(spread))}
            found |= {endpoint: counted.get(endpoint, 0) for endpoint in spread}
        return found

    async def outstanding_of(self, among: Collection[int]) -> dict[int, dict[int, int]]:
        """How many jobs of each of these runs are outstanding at each endpoint where any is."""
        found: dict[int, dict[int, int]] = {}
        for run, endpoint, number in await self._access.rows(_OUTSTANDING_OF, batch_of(among)):
            found.setdefault(run, {})[endpoint] = number
        return found


async def write_counted(
    access: Access, block: Block[Result], run: int, tell: TellCounts | None, *, by: Writes
) -> Result:
    """Runs `block` in a transaction, and hands the counts of `run` as it leaves them to `tell` when the feed has told
    of all steps in them, and no other: whoever adds steps up goes on from there.
    """
    if tell is None:
        return await by.write(block)
    found: dict[str, int] = {}

    async def counted(transaction: Transaction) -> Result:
        result = await block(transaction)
        found.clear()
        found.update(await Runs(access.within(transaction.connection)).counts(run))
        return result

    def then(error: Exception | None) -> None:
        if error is None:
            tell(found)

    return await by.write(counted, then)
