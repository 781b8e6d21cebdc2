"""Segments of resumable jobs, what their workers report, and the checkpoints that they go on from."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("segment", sa.INTEGER(), nullable=False, server_default="0"))
    op.add_column("submissions", sa.Column("execution_ms", sa.INTEGER(), nullable=True))
    op.create_table(
        "progress",
        sa.Column("job_id", sa.INTEGER(), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("segment", sa.INTEGER(), nullable=False),
        sa.Column("submission_id", sa.INTEGER(), nullable=False),
        sa.Column("given_segment", sa.INTEGER(), nullable=False),
        sa.Column("given_seq", sa.INTEGER(), nullable=False),
        sa.Column("begun_at", sa.INTEGER(), nullable=True),
        sa.Column("seq", sa.INTEGER(), nullable=True),
        sa.Column("share", sa.REAL(), nullable=True),
        sa.Column("message", sa.TEXT(), nullable=True),
        sa.Column("reported_at", sa.INTEGER(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "checkpoints",
        sa.Column("job_id", sa.INTEGER(), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("segment", sa.INTEGER(), nullable=False),
        sa.Column("seq", sa.INTEGER(), nullable=False),
        sa.Column("at", sa.INTEGER(), nullable=False),
        sa.Column("checkpoint", sa.BLOB(), nullable=False),
        sa.Column("packed", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "segment", "seq"),
        sqlite_with_rowid=False,
    )
