"""What programs post to the Batch API: files, whose contents lie beside the ledger, and batches, which are runs."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"

_ENDS = ("cancelled", "completed", "expired", "failed")
_OPEN = ("cancelling", "finalizing", "in_progress", "validating")


def _is_one_of(states: tuple[str, ...]) -> str:
    return "(" + " OR ".join(f"state = '{each}'" for each in states) + ")"


def upgrade() -> None:
    op.create_table(
        "posted_files",
        sa.Column("number", sa.INTEGER(), nullable=False),
        sa.Column("id", sa.TEXT(), nullable=False),
        sa.Column("owner", sa.TEXT(), nullable=False),
        sa.Column("filename", sa.TEXT(), nullable=False),
        sa.Column("purpose", sa.TEXT(), nullable=False),
        sa.Column("size", sa.INTEGER(), nullable=False),
        sa.Column("created_at", sa.INTEGER(), nullable=False),
        sa.Column("expires_at", sa.INTEGER()),
        sa.CheckConstraint("(purpose = 'batch' OR purpose = 'batch_output')", name="posted_files_purpose_known"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("posted_files_of_owner", "posted_files", ["owner", "number"])
    op.create_table(
        "posted_batches",
        sa.Column("number", sa.INTEGER(), nullable=False),
        sa.Column("id", sa.TEXT(), nullable=False),
        sa.Column("owner", sa.TEXT(), nullable=False),
        sa.Column("endpoint", sa.TEXT(), nullable=False),
        sa.Column("completion_window", sa.TEXT(), nullable=False),
        sa.Column("input_file", sa.TEXT(), nullable=False),
        sa.Column("metadata", sa.BLOB()),
        sa.Column("keep_output_us", sa.INTEGER()),
        sa.Column("state", sa.TEXT(), nullable=False),
        sa.Column("is_late", sa.INTEGER(), nullable=False),
        sa.Column("model", sa.TEXT()),
        sa.Column("run", sa.INTEGER()),
        sa.Column("errors", sa.BLOB()),
        sa.Column("total", sa.INTEGER(), nullable=False),
        sa.Column("completed", sa.INTEGER(), nullable=False),
        sa.Column("failed", sa.INTEGER(), nullable=False),
        sa.Column("output_file", sa.TEXT()),
        sa.Column("error_file", sa.TEXT()),
        sa.Column("created_at", sa.INTEGER(), nullable=False),
        sa.Column("expires_at", sa.INTEGER(), nullable=False),
        sa.Column("in_progress_at", sa.INTEGER()),
        sa.Column("finalizing_at", sa.INTEGER()),
        sa.Column("completed_at", sa.INTEGER()),
        sa.Column("failed_at", sa.INTEGER()),
        sa.Column("expired_at", sa.INTEGER()),
        sa.Column("cancelling_at", sa.INTEGER()),
        sa.Column("cancelled_at", sa.INTEGER()),
        sa.CheckConstraint(_is_one_of(tuple(sorted((*_ENDS, *_OPEN)))), name="posted_batches_state_known"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("posted_batches_of_owner", "posted_batches", ["owner", "number"])
    op.create_index("posted_batches_open", "posted_batches", ["number"], sqlite_where=sa.text(_is_one_of(_OPEN)))
    op.create_index("posted_batches_of_run", "posted_batches", ["run"])
