"""Endpoints that runs use together are one shard; on a server each shard has a lease, and each process a row.

Whoever owned a ledger on a server by the tables before is deposed: it finds its row gone, and can prove nothing.
"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"

PROCESSES = """
CREATE TABLE processes (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot BIGINT NOT NULL UNIQUE CHECK (slot BETWEEN 0 AND 63),
  name TEXT COLLATE "C" NOT NULL, version TEXT COLLATE "C" NOT NULL, mark TEXT COLLATE "C" NOT NULL,
  began_at BIGINT NOT NULL, is_alone BIGINT NOT NULL, beat BIGINT NOT NULL DEFAULT 0
)
"""
LEASES = """
CREATE TABLE leases (
  shard BIGINT PRIMARY KEY, owner BIGINT REFERENCES processes, epoch BIGINT NOT NULL DEFAULT 0,
  taken_at BIGINT, left_at BIGINT, wanted_by BIGINT REFERENCES processes ON DELETE SET NULL
)
"""
FEW_AND_BUSY = "fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500"


def upgrade() -> None:
    op.add_column("endpoints", sa.Column("shard_id", sa.INTEGER()))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP TABLE leases")
        op.execute("DROP TABLE processes")
        op.execute(PROCESSES)
        op.execute(LEASES)
        for table in ("processes", "leases"):
            op.execute(f"ALTER TABLE {table} SET ({FEW_AND_BUSY})")
