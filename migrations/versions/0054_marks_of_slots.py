"""Each process marks what leaves in a file of its own: a number for each slot, and none for the whole ledger."""

from alembic import op

revision = "0054"
down_revision = "0053"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE sent_marks (slot BIGINT PRIMARY KEY, number BIGINT NOT NULL)")
        op.execute("INSERT INTO sent_marks SELECT slot, 0 FROM generate_series(0, 63) AS each (slot)")
        op.execute("ALTER TABLE identity DROP COLUMN marks")
