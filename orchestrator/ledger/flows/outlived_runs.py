"""Runs of flows that ended long ago, of which nothing is kept any longer."""

from sqlalchemy import select, update

from orchestrator.ledger.schema.flow_tables import flows, stages
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.transactions.repository import Repository, alone
from orchestrator.ledger.transactions.run_removal import run_give_up
from orchestrator.ledger.transactions.transaction import Transaction


class OutlivedRuns(Repository):
    """The runs of flows that have ended."""

    async def ended_before(self, pipeline: int, before: int) -> list[tuple[int, str]]:
        """The runs that there still are of flows of a pipeline that ended before then, oldest first: what was made of
        rows before the rows themselves.
        """
        query = (
            select(runs.c.id, runs.c.name)
            .select_from(flows.join(stages, stages.c.flow_id == flows.c.id).join(runs, runs.c.id == stages.c.run_id))
            .where(flows.c.pipeline_id == pipeline, flows.c.ended_at < before, runs.c.intake_accepted > 0)
            .order_by(flows.c.ended_at, stages.c.began_at.desc(), runs.c.id.desc())
        )
        return [(row[0], row[1]) for row in await self._access.rows(query)]

    @alone
    async def give_up(self, transaction: Transaction, run: int, before: int) -> bool:
        """A run of a flow that ended before then is no run any more, and what is left of it is to be cleared
        (`Intakes.clear`); False where somebody has something of it done again.
        """
        has_ended = select(flows.c.id).where(flows.c.id == stages.c.flow_id, flows.c.ended_at < before).exists()
        of_ended = select(stages.c.run_id).where(stages.c.run_id == run, has_ended)
        connection = transaction.connection
        if (await connection.execute(of_ended)).first() is None or not await run_give_up(connection, run):
            return False
        await connection.execute(update(stages).where(stages.c.run_id == run).values(run_id=None))
        return True
