"""Rows handed from stage to stage, and the failures of what makes them."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    _handovers()
    _trouble_of_steps()


def _handovers() -> None:
    op.create_table(
        "relays",
        sa.Column("from_run", sa.INTEGER(), nullable=False),
        sa.Column("to_run", sa.INTEGER(), nullable=False),
        sa.Column("flow_id", sa.INTEGER(), nullable=False),
        sa.Column("stage", sa.TEXT(), nullable=False),
        sa.Column("intake_id", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("from_run", "to_run"),
        sqlite_with_rowid=False,
    )
    op.create_index("relays_to", "relays", ["to_run"])
    op.create_table(
        "owed",
        sa.Column("to_run", sa.INTEGER(), nullable=False),
        sa.Column("job_id", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("to_run", "job_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("owed_by_job", "owed", ["job_id"])
    op.create_table(
        "handovers",
        sa.Column("job_id", sa.INTEGER(), nullable=False),
        sa.Column("to_run", sa.INTEGER(), nullable=False),
        sa.Column("children", sa.INTEGER(), nullable=False),
        sa.Column("failed_job", sa.INTEGER(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "to_run"),
        sqlite_with_rowid=False,
    )
    op.create_index("handovers_failed", "handovers", ["failed_job"])
    op.create_table(
        "lineage",
        sa.Column("child", sa.INTEGER(), nullable=False),
        sa.Column("parent", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("child", "parent"),
        sqlite_with_rowid=False,
    )
    op.create_index("lineage_of_parent", "lineage", ["parent"])


def _trouble_of_steps() -> None:
    """A looser CHECK, which no row has to be looked at for: SQLite's own way to it leaves the table where it is."""
    connection = op.get_bind()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    connection.exec_driver_sql(
        "UPDATE sqlite_schema SET sql = replace(sql, 'trouble = ''server''', 'trouble = ''server'' OR trouble = ''step''')"
        " WHERE type = 'table' AND name IN ('jobs', 'outcomes')"
    )
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")
