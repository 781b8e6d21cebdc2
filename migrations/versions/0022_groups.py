"""Rows that are handed over together, and stages that are carried out anew."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.create_table(
        "gathers",
        sa.Column("run", sa.INTEGER(), nullable=False),
        sa.Column("to_run", sa.INTEGER(), nullable=False),
        sa.Column("by", sa.TEXT(), nullable=False),
        sa.Column("begins", sa.INTEGER(), nullable=False),
        sa.Column("hands_over", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("run", "to_run"),
        sa.CheckConstraint("(by = 'all' OR by = 'input' OR by = 'stage')", name="gathers_by_known"),
        sqlite_with_rowid=False,
    )
    op.create_index("gathers_to", "gathers", ["to_run"])
    op.create_table(
        "groups",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("to_run", sa.INTEGER(), nullable=False),
        sa.Column("key", sa.TEXT(), nullable=False),
        sa.Column("line", sa.INTEGER(), nullable=False),
        sa.Column("open", sa.INTEGER(), nullable=False),
        sa.Column("is_due", sa.INTEGER(), server_default="1", nullable=False),
        sa.Column("failed_job", sa.INTEGER(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("to_run", "key", name="groups_once"),
    )
    op.create_index("groups_due", "groups", ["to_run", "open"], sqlite_where=sa.text("is_due = 1"))
    op.create_index("groups_failed", "groups", ["failed_job"])
    for name in ("is_short", "only_failed"):
        op.add_column("stages", sa.Column(name, sa.INTEGER(), server_default="0", nullable=False))
