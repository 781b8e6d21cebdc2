"""Batches of the Batch API by their runs: whoever looks at a run asks whose batch it is."""

from alembic import op

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    op.create_index("posted_batches_of_run", "posted_batches", ["run"])
