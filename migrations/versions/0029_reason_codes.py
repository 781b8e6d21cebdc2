"""Reasons of events and what came of commands as codes with details, no longer as sentences that are taken apart.

What the program asks older events for is filled in from their sentences: here, and nowhere else.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

PAGE = 20_000

_FOUND = sa.text(
    """
    SELECT id, event, reason FROM events
    WHERE id > :after AND (
        event = 'reopened' OR event = 'retried' AND reason LIKE '%; with %'
        OR event = 'retried' AND reason LIKE '%, which costs no attempt'
        OR event = 'claimed' AND reason LIKE 'run; not reused: %'
        OR event = 'accepted' AND reason IN ('retry unanswered', 'retry refused')
    )
    ORDER BY id LIMIT :page
    """
)
_CHANGE = sa.text("UPDATE events SET reason = :reason, reason_code = :code, detail = :detail WHERE id = :id")


def upgrade() -> None:
    op.add_column("events", sa.Column("reason_code", sa.TEXT(), nullable=True))
    op.add_column("events", sa.Column("detail", sa.TEXT(), nullable=True))
    op.add_column("commands", sa.Column("outcome_code", sa.TEXT(), nullable=True))
    connection, after = op.get_bind(), 0
    while rows := connection.execute(_FOUND, {"after": after, "page": PAGE}).all():
        connection.execute(_CHANGE, [_changed(*row) for row in rows])
        after = rows[-1].id


def _changed(number: int, event: str, reason: str) -> dict[str, object]:
    code: str | None = None
    detail: dict[str, object] = {}
    if event == "reopened":
        head, _, detail["error"] = reason.partition("; it had ended with: ")
        detail["settings"] = head.partition(", with ")[2]
        reason, code = "", "requested"
    elif event == "retried":
        head, _, detail["settings"] = reason.partition("; with ")
        reason = head.removesuffix(", which costs no attempt")
        detail["is_free"] = reason != head
    elif event == "claimed":
        detail["because"] = reason.removeprefix("run; not reused: ")
        reason, code = "", "not_reused"
    else:
        reason, code = "", reason.replace(" ", "_")
    given = {name: value for name, value in detail.items() if value}
    return {"id": number, "reason": reason, "code": code, "detail": json.dumps(given) if given else None}
