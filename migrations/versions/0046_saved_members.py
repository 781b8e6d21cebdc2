"""Of which members of an output we have made files: what a worker writes may look like what tells of one."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    op.add_column("outcomes", sa.Column("saved", sa.TEXT()))
    op.create_index("outcomes_with_files", "outcomes", ["job_id"], sqlite_where=sa.text("saved IS NOT NULL"))
    _fill()


def _fill() -> None:
    """Runs that make files have done so from their first result on, mostly; before, nobody could tell."""
    connection = op.get_bind()
    results = sa.text(
        "UPDATE outcomes SET saved = :saved WHERE trouble IS NULL AND output IS NOT NULL"
        " AND job_id IN (SELECT id FROM jobs WHERE run_id = :run)"
    )
    for run, settings in connection.execute(sa.text("SELECT id, settings FROM runs")).all():
        if rules := json.loads(settings).get("save"):
            members = [".".join(("output", *rule["path"])) for rule in rules]
            connection.execute(results, {"run": run, "saved": json.dumps(members, separators=(",", ":"))})
