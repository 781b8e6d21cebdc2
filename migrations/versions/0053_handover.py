"""What an owner leaves to its successor as it lets go in order."""

from alembic import op

revision = "0053"
down_revision = "0052"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute('ALTER TABLE leases ADD COLUMN handover TEXT COLLATE "C"')
