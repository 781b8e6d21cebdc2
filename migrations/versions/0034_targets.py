"""Messages to targets, by name, more of them, and one an episode."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

FLOW_NEWS = ("abandoned", "done", "failed", "held", "late", "missed", "partial", "paused", "started")
RUN_NEWS = (
    *("abandoned", "done", "failed", "held", "interrupted", "partial", "recovered", "spend", "stalled", "started"),
    *("stopped", "will-miss"),
)


def upgrade() -> None:
    _made_anew(
        "outbox",
        FLOW_NEWS,
        [sa.Column("pipeline_id", sa.INTEGER(), nullable=False), sa.Column("flow_id", sa.INTEGER())],
    )
    _made_anew("run_outbox", RUN_NEWS, [sa.Column("run_id", sa.INTEGER(), nullable=False)])
    op.create_index("outbox_of_flow", "outbox", ["flow_id"])
    op.create_index("run_outbox_of_run", "run_outbox", ["run_id"])
    op.create_table(
        "episodes",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("news", sa.TEXT(), nullable=False),
        sa.Column("began_at", sa.INTEGER(), nullable=False),
        sa.Column("over_at", sa.INTEGER(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "news"),
        sa.CheckConstraint(_one_of(RUN_NEWS), name="episodes_news_known"),
        sqlite_with_rowid=False,
    )


def _one_of(news: Sequence[str]) -> str:
    return "(" + " OR ".join(f"news = '{each}'" for each in news) + ")"


def _made_anew(name: str, news: Sequence[str], of: list[sa.Column[Any]]) -> None:
    """SQLite changes no constraint, so the rows move into a table with another one; numbers are never used twice."""
    op.rename_table(name, f"{name}_before")
    op.create_table(
        name,
        sa.Column("id", sa.INTEGER(), nullable=False),
        *of,
        sa.Column("news", sa.TEXT(), nullable=False),
        sa.Column("body", sa.BLOB(), nullable=False),
        sa.Column("owed_at", sa.INTEGER(), nullable=False),
        sa.Column("due_at", sa.INTEGER(), nullable=False),
        sa.Column("tries", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("told_at", sa.INTEGER(), nullable=True),
        sa.Column("given_up_at", sa.INTEGER(), nullable=True),
        sa.Column("problem", sa.TEXT(), server_default="", nullable=False),
        sa.Column("target", sa.TEXT(), server_default="", nullable=False),
        sa.CheckConstraint(_one_of(news), name=f"{name}_news_known"),
        sa.CheckConstraint("told_at IS NULL OR given_up_at IS NULL", name=f"{name}_told_or_given_up"),
        sa.ForeignKeyConstraint(
            *((["pipeline_id"], ["pipelines.id"]) if name == "outbox" else (["run_id"], ["runs.id"]))
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    kept = ", ".join(
        (
            "id",
            *(column.name for column in of),
            "news",
            "body",
            "owed_at",
            "due_at",
            "tries",
            "told_at",
            "given_up_at",
            "problem",
        )
    )
    op.execute(f"INSERT INTO {name} ({kept}) SELECT {kept} FROM {name}_before")  # noqa: S608
    op.execute(f"DELETE FROM sqlite_sequence WHERE name = '{name}'")  # noqa: S608
    op.execute(f"UPDATE sqlite_sequence SET name = '{name}' WHERE name = '{name}_before'")  # noqa: S608
    op.drop_table(f"{name}_before")
    unsettled = sa.text("told_at IS NULL AND given_up_at IS NULL")
    op.create_index(f"{name}_owed", name, ["due_at"], sqlite_where=unsettled)
