"""How often flows of each pipeline have ended how; so far each has, as far as is known, once."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.create_table(
        "flow_ends",
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("state", sa.TEXT(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline_id", "state"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO flow_ends (pipeline_id, state, n)"
        " SELECT pipeline_id, state, count(*) FROM flows WHERE ended_at IS NOT NULL GROUP BY pipeline_id, state"
    )
