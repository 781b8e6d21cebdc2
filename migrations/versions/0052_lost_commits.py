"""What it was found that a server has lost of what it had confirmed stops everybody until somebody accepts it."""

from alembic import op

revision = "0052"
down_revision = "0051"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE identity ADD COLUMN lost_commits BIGINT NOT NULL DEFAULT 0")
