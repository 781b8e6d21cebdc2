"""Which processes take webhooks, and so work with the key that is noted: it is exchanged under none of them."""

from alembic import op

revision = "0056"
down_revision = "0055"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE processes ADD COLUMN listens BIGINT NOT NULL DEFAULT 0")
