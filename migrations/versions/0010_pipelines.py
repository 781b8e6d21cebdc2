"""Pipelines: what fires when, what did not, and the flows that came of it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    _pipelines()
    _firing()
    _flows()


def _pipelines() -> None:
    op.create_table(
        "pipelines",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("name", sa.TEXT(), nullable=False),
        sa.Column("definition_id", sa.INTEGER(), nullable=False),
        sa.Column("created_at", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "definitions",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("version", sa.INTEGER(), nullable=False),
        sa.Column("body", sa.BLOB(), nullable=False),
        sa.Column("applied_at", sa.INTEGER(), nullable=False),
        sa.ForeignKeyConstraint(["pipeline_id"], ["pipelines.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pipeline_id", "version", name="definitions_once"),
        sqlite_autoincrement=True,
    )


def _firing() -> None:
    op.create_table(
        "schedules",
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("watermark", sa.INTEGER(), nullable=False),
        sa.Column("paused_at", sa.INTEGER(), nullable=True),
        sa.Column("paused_until", sa.INTEGER(), nullable=True),
        sa.Column("note", sa.TEXT(), server_default="", nullable=False),
        sa.Column("continued_at", sa.INTEGER(), server_default="0", nullable=False),
        sa.CheckConstraint("paused_until IS NULL OR paused_at IS NOT NULL", name="schedules_paused_until"),
        sa.ForeignKeyConstraint(["pipeline_id"], ["pipelines.id"]),
        sa.PrimaryKeyConstraint("pipeline_id"),
    )
    op.create_table(
        "fires",
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("fire_at", sa.INTEGER(), nullable=False),
        sa.Column("definition_id", sa.INTEGER(), nullable=False),
        sa.Column("recorded_at", sa.INTEGER(), nullable=False),
        sa.Column("skipped", sa.TEXT(), nullable=True),
        sa.ForeignKeyConstraint(["pipeline_id"], ["pipelines.id"]),
        sa.PrimaryKeyConstraint("pipeline_id", "fire_at"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "gaps",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("kind", sa.TEXT(), nullable=False),
        sa.Column("after_at", sa.INTEGER(), nullable=False),
        sa.Column("until_at", sa.INTEGER(), nullable=False),
        sa.Column("first_at", sa.INTEGER(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.Column("recorded_at", sa.INTEGER(), nullable=False),
        sa.CheckConstraint("(kind = 'missed' OR kind = 'paused')", name="gaps_kind_known"),
        sa.CheckConstraint("n >= 1 AND until_at > after_at", name="gaps_hold_something"),
        sa.ForeignKeyConstraint(["pipeline_id"], ["pipelines.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("gaps_of_pipeline", "gaps", ["pipeline_id", "until_at"])


def _flows() -> None:
    kinds = "(kind = 'backfill' OR kind = 'scheduled' OR kind = 'triggered')"
    live = "(state = 'held' OR state = 'running' OR state = 'waiting')"
    ended = "(state = 'cancelled' OR state = 'failed' OR state = 'partial' OR state = 'succeeded')"
    states = (
        "(state = 'cancelled' OR state = 'failed' OR state = 'held' OR state = 'partial' OR state = 'running'"
        " OR state = 'succeeded' OR state = 'waiting')"
    )
    op.create_table(
        "flows",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("definition_id", sa.INTEGER(), nullable=False),
        sa.Column("fire_at", sa.INTEGER(), nullable=False),
        sa.Column("again", sa.INTEGER(), server_default="1", nullable=False),
        sa.Column("name", sa.TEXT(), nullable=False),
        sa.Column("kind", sa.TEXT(), nullable=False),
        sa.Column("state", sa.TEXT(), server_default="waiting", nullable=False),
        sa.Column("parallel", sa.INTEGER(), server_default="1", nullable=False),
        sa.Column("recorded_at", sa.INTEGER(), nullable=False),
        sa.Column("started_at", sa.INTEGER(), nullable=True),
        sa.Column("ended_at", sa.INTEGER(), nullable=True),
        sa.Column("why", sa.TEXT(), server_default="", nullable=False),
        sa.Column("is_cancelled", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("is_overruled", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("is_late", sa.INTEGER(), server_default="0", nullable=False),
        sa.CheckConstraint(kinds, name="flows_kind_known"),
        sa.CheckConstraint(states, name="flows_state_known"),
        sa.CheckConstraint(f"(ended_at IS NOT NULL) = {ended}", name="flows_ended_iff_end"),
        sa.ForeignKeyConstraint(["pipeline_id"], ["pipelines.id"]),
        sa.ForeignKeyConstraint(["definition_id"], ["definitions.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("pipeline_id", "fire_at", "again", name="flows_once"),
        sqlite_autoincrement=True,
    )
    op.create_index("flows_live", "flows", ["pipeline_id"], sqlite_where=sa.text(live))
    op.create_table(
        "stages",
        sa.Column("flow_id", sa.INTEGER(), nullable=False),
        sa.Column("stage", sa.TEXT(), nullable=False),
        sa.Column("again", sa.INTEGER(), server_default="1", nullable=False),
        sa.Column("run_id", sa.INTEGER(), nullable=True),
        sa.Column("source", sa.TEXT(), nullable=False),
        sa.Column("sha256", sa.TEXT(), nullable=False),
        sa.Column("began_at", sa.INTEGER(), nullable=False),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"]),
        sa.PrimaryKeyConstraint("flow_id", "stage", "again"),
        sqlite_with_rowid=False,
    )
    op.create_index("stages_of_run", "stages", ["run_id"])
