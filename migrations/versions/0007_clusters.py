"""Failures by their kind: a key with each outcome that is none of a success, and how many of each kind a run has.

And what a command over many jobs needs: how many it has changed, so that a crash in between leaves its count true; and
the number of attempts of a job that was reopened with one of its own.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

from orchestrator.core.text.error_text import error_key

revision = "0007"
down_revision = "0006"

PAGE: Final = 2_000
"""Outcomes that are read at once: their messages are in memory, and nothing else of them."""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("attempts_max", sa.INTEGER(), nullable=True))
    op.add_column("commands", sa.Column("progress", sa.INTEGER(), server_default="0", nullable=False))
    op.add_column("outcomes", sa.Column("error_key", sa.INTEGER(), nullable=True))
    op.create_table(
        "clusters",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("error_key", sa.INTEGER(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.Column("first_at", sa.INTEGER(), nullable=False),
        sa.Column("last_at", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "error_key"),
        sqlite_with_rowid=False,
    )
    _fill()
    op.create_index("outcomes_of_cluster", "outcomes", ["error_key"], sqlite_where=sa.text("error_key IS NOT NULL"))


def _fill() -> None:
    connection, after = op.get_bind(), 0
    page = sa.text(
        "SELECT outcomes.job_id, jobs.run_id, outcomes.trouble, outcomes.message, jobs.ended_at"
        " FROM outcomes JOIN jobs ON jobs.id = outcomes.job_id"
        " WHERE outcomes.job_id > :after AND outcomes.trouble IS NOT NULL ORDER BY outcomes.job_id LIMIT :most"
    )
    while rows := connection.execute(page, {"after": after, "most": PAGE}).all():
        after = rows[-1][0]
        keys = [{"job": row[0], "key": error_key(row[2], row[3])} for row in rows]
        connection.execute(sa.text("UPDATE outcomes SET error_key = :key WHERE job_id = :job"), keys)
        _count(connection, rows, [each["key"] for each in keys])


def _count(connection: sa.Connection, rows: Sequence[Any], keys: Sequence[int]) -> None:
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, key in zip(rows, keys, strict=True):
        ends[row[1], key].append(row[4])
    found = [
        {"run": run, "key": key, "n": len(at), "first": min(at), "last": max(at)} for (run, key), at in ends.items()
    ]
    add = sa.text(
        "INSERT INTO clusters VALUES (:run, :key, :n, :first, :last) ON CONFLICT DO UPDATE SET n = n + excluded.n,"
        " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)"
    )
    connection.execute(add, found)
