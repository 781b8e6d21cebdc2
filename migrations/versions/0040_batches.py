"""The service's own batches: what is intended with each, how far it has come, and which submissions are in it."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


_STAGES = ("cancelling", "creating", "draft", "dropped", "dropping", "finalizing", "over", "running", "stray")
_ENDED = ("dropped", "over", "stray")


def _is_one_of(stages: tuple[str, ...]) -> str:
    return "(" + " OR ".join(f"stage = '{each}'" for each in stages) + ")"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("batch_id", sa.INTEGER()))
    op.create_index("submissions_of_batch", "submissions", ["batch_id"], sqlite_where=sa.text("batch_id IS NOT NULL"))
    op.create_table(
        "batches",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("endpoint_id", sa.INTEGER(), nullable=False),
        sa.Column("stage", sa.TEXT(), nullable=False),
        sa.Column("remote_id", sa.TEXT()),
        sa.Column("why", sa.TEXT()),
        sa.Column("made_at", sa.INTEGER(), nullable=False),
        sa.Column("is_by_place", sa.INTEGER(), nullable=False, server_default="0"),
        sa.Column("finalized_at", sa.INTEGER()),
        sa.Column("ended_at", sa.INTEGER()),
        sa.Column("total", sa.INTEGER(), nullable=False, server_default="0"),
        sa.Column("completed", sa.INTEGER(), nullable=False, server_default="0"),
        sa.Column("failed", sa.INTEGER(), nullable=False, server_default="0"),
        sa.CheckConstraint(_is_one_of(_STAGES), name="batches_stage_known"),
        sa.CheckConstraint(f"(ended_at IS NOT NULL) = {_is_one_of(_ENDED)}", name="batches_ended_iff_end"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.ForeignKeyConstraint(["endpoint_id"], ["endpoints.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("batches_open", "batches", ["endpoint_id"], sqlite_where=sa.text("ended_at IS NULL"))
    op.create_index("batches_of_run", "batches", ["run_id"])
