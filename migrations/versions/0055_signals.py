"""How often each process has signalled to the engines of others to look: most commits are nothing to them."""

from alembic import op

revision = "0055"
down_revision = "0054"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE writers ADD COLUMN signals BIGINT NOT NULL DEFAULT 0")
        op.execute("ALTER TABLE writers ADD COLUMN notices BIGINT NOT NULL DEFAULT 0")
