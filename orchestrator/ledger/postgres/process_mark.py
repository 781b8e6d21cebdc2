"""What processes and their connections are called on a server, and the mark by which the connections of one are known
from those of every other, on whichever machine: whoever takes its place ends them.
"""

import os
import secrets
from functools import cache
from typing import Final

from orchestrator.ledger.holder_text import OURS

NAME_BYTES_MAX: Final = 63
"""The server cuts off what is longer."""

MAY_BE_ENDED: Final = """(usename = current_user OR usesysid IN (
  SELECT oid FROM pg_roles
  WHERE NOT rolsuper AND (pg_has_role(oid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
))"""
"""SQL for whether a row of `pg_stat_activity` is a connection that our role may end: the first that it may not would
keep all others from being ended, too.
"""

_SIGN: Final = " #"


def process_mark() -> str:
    """The mark of this process."""
    return _mark_of(os.getpid())


@cache
def _mark_of(process: int) -> str:  # noqa: ARG001  one that was forked has another
    return f"{_SIGN}{secrets.token_hex(4)}"


def has_mark(mark: str) -> str:
    """SQL for whether a row of `pg_stat_activity` is a connection to this database of the process that has the `mark`,
    which is SQL too.
    """
    return f"datname = current_database() AND right(application_name, length({mark})) = {mark}"


IS_CONNECTED: Final = f"EXISTS (SELECT FROM pg_stat_activity WHERE {has_mark('mark')})"
"""Whether a process has a connection still, as far as the server knows, by its row."""


def connection_name(what: str = "", mark: str | None = None) -> str:
    """The name of a connection, in ASCII and as long as the server allows. At its end is the `mark` of this process,
    unless it has another one.
    """
    name, mark = f"{OURS} {what}".rstrip().encode("ascii", "replace").decode(), mark or process_mark()
    room = NAME_BYTES_MAX - len(mark)
    return (name if len(name) <= room else f"{name[: room - 2]}..") + mark


def people_name(connection: str) -> str:
    """What people call whoever has a connection of that name."""
    name = connection.rpartition(_SIGN)[0] or connection
    return name.removeprefix(OURS).strip() or "another process"
