"""The jobs of a run that failed or were cancelled, by when: an index of those alone, so that success pays nothing for it.

Thirty thousand of them among 400,000 jobs that have ended are half a megabyte; each failure writes one entry more.
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    given_up = sa.text("(state = 'cancelled' OR state = 'failed')")
    op.create_index("jobs_given_up", "jobs", ["run_id", "ended_at", "state"], sqlite_where=given_up)
