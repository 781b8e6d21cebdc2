"""Several intakes at once: what each has counted and met, and runs whose numbers do not come back.

Whoever migrates holds the ledger's lock, so no intake is at work: what an earlier one has left beside its jobs is of no
use to anybody.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("intakes", sa.Column("new_rows", sa.INTEGER(), server_default="0", nullable=False))
    op.add_column("intakes", sa.Column("known_rows", sa.INTEGER(), server_default="0", nullable=False))
    op.create_index(
        "intakes_unfinished", "intakes", ["run_id", "first_job"], sqlite_where=sa.text("accepted_at IS NULL")
    )
    op.drop_table("intake_known")
    op.create_table(
        "intake_known",
        sa.Column("intake_id", sa.INTEGER(), nullable=False),
        sa.Column("job_id", sa.INTEGER(), nullable=False),
        sa.Column("line", sa.INTEGER(), nullable=False),
        sa.Column("policy", sa.BLOB(), nullable=True),
        sa.Column("s3_config", sa.BLOB(), nullable=True),
        sa.PrimaryKeyConstraint("intake_id", "job_id"),
        sqlite_with_rowid=False,
    )
    op.drop_table("intake_repeats")
    op.create_table(
        "intake_repeats",
        sa.Column("intake_id", sa.INTEGER(), nullable=False),
        sa.Column("base", sa.TEXT(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("intake_id", "base"),
        sqlite_with_rowid=False,
    )
    _number_runs_once()


def _number_runs_once() -> None:
    """AUTOINCREMENT comes with a new table only. Nothing enforces foreign keys meanwhile."""
    op.execute("CREATE TABLE old_runs AS SELECT * FROM runs")
    op.drop_table("runs")
    op.create_table(
        "runs",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("name", sa.TEXT(), nullable=False),
        sa.Column("endpoint_id", sa.INTEGER(), nullable=False),
        sa.Column("source", sa.TEXT(), nullable=False),
        sa.Column("settings", sa.BLOB(), nullable=False),
        sa.Column("created_at", sa.INTEGER(), nullable=False),
        sa.Column("intake_accepted", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("rows_accepted", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("pause_requested", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("cancel_requested", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("pruned_before", sa.INTEGER(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["endpoint_id"], ["endpoints.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    columns = (
        "id, name, endpoint_id, source, settings, created_at, intake_accepted, rows_accepted,"
        " pause_requested, cancel_requested, pruned_before"
    )
    op.execute(f"INSERT INTO runs ({columns}) SELECT {columns} FROM old_runs ORDER BY id")  # noqa: S608  our own names
    op.drop_table("old_runs")
