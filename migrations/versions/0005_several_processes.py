"""What several processes need: commands as rows, one heartbeat a process, who claimed a submission.

The heartbeat replaces what was said in `vitals` and `meters`: whoever opens the ledger says it anew. Columns of `jobs`
that nothing ever read go.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.drop_table("vitals")
    op.drop_table("meters")
    for unused in ("operation", "priority", "error_key", "cancel_requested"):
        op.drop_column("jobs", unused)
    op.add_column("submissions", sa.Column("owner", sa.INTEGER(), server_default="0", nullable=False))
    op.add_column("submissions", sa.Column("epoch", sa.INTEGER(), server_default="0", nullable=False))
    op.create_table(
        "heartbeats",
        sa.Column("slot", sa.INTEGER(), nullable=False),
        sa.Column("process", sa.TEXT(), nullable=False),
        sa.Column("began_at", sa.INTEGER(), nullable=False),
        sa.Column("beaten_at", sa.INTEGER(), nullable=False),
        sa.Column("epoch", sa.INTEGER(), nullable=False),
        sa.Column("said", sa.BLOB(), nullable=False),
        sa.PrimaryKeyConstraint("slot"),
    )
    op.create_table(
        "commands",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("asked_at", sa.INTEGER(), nullable=False),
        sa.Column("asked_by", sa.TEXT(), nullable=False),
        sa.Column("action", sa.TEXT(), nullable=False),
        sa.Column("run_id", sa.INTEGER(), nullable=True),
        sa.Column("endpoint_id", sa.INTEGER(), nullable=True),
        sa.Column("argument", sa.BLOB(), nullable=False),
        sa.Column("taken_at", sa.INTEGER(), nullable=True),
        sa.Column("done_at", sa.INTEGER(), nullable=True),
        sa.Column("outcome", sa.TEXT(), nullable=True),
        sa.Column("is_refused", sa.INTEGER(), server_default="0", nullable=False),
        sa.CheckConstraint("(done_at IS NULL) = (outcome IS NULL)", name="commands_done_have_outcome"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("commands_pending", "commands", ["id"], sqlite_where=sa.text("done_at IS NULL"))
