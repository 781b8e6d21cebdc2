"""Transactions whose COMMIT, or the answer to it, is lost on the way, in each manner in turn.

python -m tests.postgres.interrupted_commits [--commits 1000] [--record]

Each adds one to a number of its own, so it shows what was taken for done and was not, and what was done twice.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from sqlalchemy import text

from orchestrator.clock import SystemClock
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.transaction import Block, Transaction
from tests.guarantees import record
from tests.postgres.databases import Databases, plain_connections
from tests.postgres.proxy import AtCommit, proxied
from tests.postgres.server import server_url

BOUNDS: Final = LineBounds(connected_s=2.0, answered_s=0.2, found_s=0.2, undone_s=0.2)
FATES: Final = (
    AtCommit.LOST,
    AtCommit.UNANSWERED,
    AtCommit.LATE,
    AtCommit.SWALLOWED,
    AtCommit.UNANSWERED,
    AtCommit.LATE,
    AtCommit.ANSWER_SWALLOWED,
)
PATIENCE_S: Final = 60.0

_ADD: Final = text(
    "INSERT INTO counts (run_id, name, n) VALUES (1, :name, 1)"
    " ON CONFLICT (run_id, name) DO UPDATE SET n = counts.n + 1"
)
_FOUND: Final = text("SELECT count(*), coalesce(sum(n), 0)::bigint FROM counts")


class Judged(NamedTuple):
    """What came of interrupted commits."""

    commits: int
    lost: int
    """Taken for done, and not there."""

    twice: int
    """Done, and done once more."""


async def interrupted(url: str, commits: int, fates: Sequence[AtCommit] = FATES) -> Judged:
    """Writes until so many commits were interrupted, to the empty ledger in the database at `url`."""
    drawn = itertools.islice(itertools.cycle(fates), commits)
    async with proxied(url, drawn) as proxy:
        database = ServerDatabase("ledger", plain_connections(proxy.url), metadata, bounds=BOUNDS)
        writer = GroupCommitWriter(database, SystemClock(), Patience(SystemClock(), PATIENCE_S), gather_s=0.0)
        written = 0
        async with anyio.create_task_group() as tasks:
            await tasks.start(writer.serve)
            while proxy.commits < commits:
                await writer.run(adding(written))
                written += 1
            tasks.cancel_scope.cancel()
        there, n = await database.asked(_FOUND, None, lambda found: tuple(found.one()))
        await database.aclose()
        return Judged(proxy.commits, written - there, n - there)


def adding(number: int) -> Block[None]:
    """What adds one to the number of that number."""

    async def block(transaction: Transaction) -> None:
        await transaction.connection.execute(_ADD, {"name": f"{number:06}"})

    return block


def main() -> None:
    """Prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as shared, server_url(Path(shared)) as server:
        databases = Databases(server)
        with databases.one() as url:
            began = time.perf_counter()
            judged = asyncio.run(interrupted(url, given.commits))
            took_s = time.perf_counter() - began
        databases.close()
    print(f"{judged.commits:,} commits interrupted in {took_s:.0f} s: {judged.lost} lost, {judged.twice} done twice")
    if given.record:
        command = f"python -m tests.postgres.interrupted_commits --commits {given.commits}"
        record("commits interrupted on their way to a server", judged.commits, "commits", command)
        record("of these taken for done, and not there", judged.lost, "commits", command, at_most=0)
        record("of these done twice", judged.twice, "commits", command, at_most=0)


if __name__ == "__main__":
    main()
