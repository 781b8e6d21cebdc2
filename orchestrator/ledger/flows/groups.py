"""Rows that are handed over together: which groups are ready, what is in them, and what they become."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, literal_column, select, text, update

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.ledger.flows.handover_rows import Relay
from orchestrator.ledger.flows.handovers import HANDOVER, LINEAGE, rows_put, with_unused_ids
from orchestrator.ledger.flows.jobs_without_request import complete, fail, forget_failed, nothing
from orchestrator.ledger.runs.input_rows import PackedRow
from orchestrator.ledger.runs.runs import TellCounts, write_counted
from orchestrator.ledger.schema.handover_tables import READY, By, gathers, groups, lineage
from orchestrator.ledger.schema.job_tables import jobs
from orchestrator.ledger.schema.row_codec import columns
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.group_counts import due_add


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Rows that are handed over together."""

    id: int
    to_run: int
    key: str
    """The id of the row that all of them came of."""

    line: int
    failed_job: int | None
    is_all: bool
    open: int
    """What is left to do for it."""

    tries: int
    """How often the command that it is for has failed."""


class GroupMember(msgspec.Struct, frozen=True, array_like=True):
    """A row that came of what its group is of, and was given to it, or failed on its way."""

    job: int
    run: int
    custom_id: str
    line: int
    state: State
    is_given: bool
    """Whether it is of a stage that hands over to the group's."""

    @property
    def is_in(self) -> bool:
        """Whether it goes to the function."""
        return self.is_given and self.state is State.SUCCEEDED

    @property
    def is_lost(self) -> bool:
        """Whether it should have, and failed."""
        return self.state in {State.FAILED, State.CANCELLED}


class Printed(msgspec.Struct, frozen=True):
    """A row that has its output from the beginning, since a command has printed it."""

    custom_id: str
    line: int
    output: bytes
    parents: Sequence[int]
    """The jobs that it was made of, as far as it names them."""


_IS_ALL: Final = groups.c.to_run.in_(select(gathers.c.to_run).where(gathers.c.by == literal_column(f"'{By.ALL}'")))
_GROUPS: Final = select(*columns(Group, groups, is_all=_IS_ALL))
_READY: Final = (
    _GROUPS.where(text(READY), groups.c.to_run == bindparam("to")).order_by(groups.c.id).limit(bindparam("most"))
)
_RUNS_READY: Final = select(groups.c.to_run).where(text(READY), groups.c.to_run.in_(IN_BATCH) | ~_IS_ALL).distinct()
_TO: Final = gathers.c.to_run == bindparam("to")
_ON_THE_WAY: Final = (gathers.c.run == jobs.c.run_id) & _TO
_MEMBERS: Final = (
    select(*columns(GroupMember, jobs, job=jobs.c.id, is_given=gathers.c.hands_over))
    .where((gathers.c.hands_over == 1) | (jobs.c.state != literal_column(f"'{State.SUCCEEDED}'")))
    .order_by(jobs.c.run_id, jobs.c.line, jobs.c.id)
)
_OF_ALL: Final = _MEMBERS.select_from(jobs.join(gathers, _ON_THE_WAY))
_base: Final = (
    select(jobs.c.id.label("job"))
    .select_from(jobs.join(gathers, _ON_THE_WAY & (gathers.c.begins == 1)))
    .where(jobs.c.custom_id == bindparam("key"))
    .cte("down", recursive=True)
)
_DOWN: Final = _base.union(
    select(lineage.c.child).select_from(
        _base.join(lineage, lineage.c.parent == _base.c.job)
        .join(jobs, jobs.c.id == lineage.c.child)
        .join(gathers, _ON_THE_WAY)
    )
)
_OF_ONE: Final = _MEMBERS.select_from(_DOWN.join(jobs, jobs.c.id == _DOWN.c.job).join(gathers, _ON_THE_WAY))
_TAKE: Final = (
    update(groups).where(groups.c.id == bindparam("of"), text(READY)).values(is_due=0, failed_job=None, tries=0)
)
_BEGUN_BY: Final = (
    select(jobs.c.id)
    .select_from(jobs.join(gathers, _ON_THE_WAY & (gathers.c.begins == 1)))
    .where(jobs.c.custom_id == bindparam("key"))
    .limit(1)
)
_SAY: Final = update(groups).where(groups.c.id == bindparam("of")).values(failed_job=bindparam("failed"))


class Groups(Repository):
    """What is handed over together in a ledger."""

    async def runs_ready(self, let_through: Collection[int] = ()) -> list[int]:
        """The runs to which groups can be handed over; those of everything to these alone."""
        return [row[0] for row in await self._access.rows(_RUNS_READY, batch_of(let_through))]

    async def ready(self, to_run: int, most: int) -> list[Group]:
        """The groups that can be handed over to that run."""
        return await self._access.structs(Group, _READY, {"to": to_run, "most": most})

    async def all_of(self, to_run: int) -> list[Group]:
        """Those that are still to be handed over to that run."""
        return await self._access.structs(Group, _GROUPS.where(groups.c.to_run == to_run, groups.c.is_due == 1))

    async def members(self, group: Group) -> list[GroupMember]:
        """What came of it, run by run, in the order of the input."""
        query = _OF_ALL if group.is_all else _OF_ONE
        parameters = {"to": group.to_run} if group.is_all else {"to": group.to_run, "key": group.key}
        return await self._access.structs(GroupMember, query, parameters)

    async def count_try(self, group: int) -> None:
        """The command that it is for has failed once more, and is tried again."""
        await self._access.shared.execute(update(groups).where(groups.c.id == group).values(tries=groups.c.tries + 1))

    async def hand_over(
        self,
        relay: Relay,
        group: Group,
        members: Sequence[GroupMember],
        rows: Sequence[PackedRow] = (),
        *,
        printed: Sequence[Printed] = (),
        error: str | None = None,
        tell: TellCounts | None = None,
    ) -> bool:
        """A group becomes these rows, or those that were printed, or a failed job that says why not. False where it was
        handed over already, or its members are others by now: then nothing is done. `tell` is as in `write_counted`.
        """

        async def block(transaction: Transaction) -> bool:
            connection, now = transaction.connection, self._access.now()
            within = Groups(self._access.within(connection))
            if not await within.is_ready(group.id) or await within.members(group) != list(members):
                return False
            await connection.execute(_TAKE, {"of": group.id})
            forgotten = [] if group.failed_job is None else [group.failed_job]
            states = await forget_failed(connection, relay.to_run, forgotten)
            given = rows or [nothing(each.custom_id, each.line) for each in printed]
            if error is not None:
                given = (nothing(group.key, group.line),)
            named = await with_unused_ids(connection, relay.to_run, [(group, given)])
            jobs_made = await rows_put(connection, relay, [made for _, made in named])
            kept = [each for each in members if each.is_in or (error is not None and each.is_lost)]
            parents = [each.parents for each in printed] or [[each.job for each in kept]] * len(given)
            families = zip(jobs_made, parents, strict=True)
            kin = [{"child": child, "parent": parent} for child, of in families for parent in of]
            if kin:
                await LINEAGE.execute(connection, kin)
            became = Counter() if error is not None else Counter(row["parent"] for row in kin)
            handed = [
                {"job_id": each.job, "to_run": relay.to_run, "children": became[each.job], "failed_job": None}
                for each in members
                if each.is_given
            ]
            if handed:
                await HANDOVER.execute(connection, handed)
            of = (await connection.execute(_BEGUN_BY, {"to": group.to_run, "key": group.key})).scalar() or 0
            open_before = 1 + sum(state not in TERMINAL for state in states.values())
            await due_add(connection, relay.to_run, {of: len(given) - open_before})
            if error is not None:
                await connection.execute(_SAY, {"of": group.id, "failed": jobs_made[0]})
                await fail(transaction, {jobs_made[0]: error}, now=now)
            outputs = {job: each.output for job, each in zip(jobs_made, printed, strict=False)}
            await complete(transaction, outputs, reason="its command has printed it", now=now)
            return True

        return await write_counted(self._access, block, relay.to_run, tell, by=self._access.alone)

    async def is_ready(self, group: int) -> bool:
        """Whether it can be handed over."""
        return bool(await self._access.rows(select(groups.c.id).where(groups.c.id == group, text(READY))))
