"""Of which endpoint each notice is, so that whoever works at that one finds what others have noted."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    op.add_column("notices", sa.Column("endpoint_id", sa.INTEGER(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE notices SET endpoint_id = coalesce("
        "(SELECT submissions.endpoint_id FROM submissions WHERE submissions.id = notices.submission_id), 0)"
    )
    if op.get_context().dialect.name == "postgresql":
        op.create_index("notices_of_endpoint", "notices", ["endpoint_id", "id"])
