"""What engines of other processes go by, in a file: whether each transaction that changes any of it signals that to them.

Each row that changes is noted by triggers, which are of one connection alone and of no ledger.
"""

import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.database import Company
from orchestrator.ledger.sqlite.connection import driver_of

GONE_BY: Final[Mapping[str, tuple[str, ...]]] = {
    # what people ask for (`CommandInbox`), and how it stands with runs (`RunController`, `ServedBrakes`, `LimitKeeper`)
    "commands": ("INSERT",),
    "runs": ("UPDATE OF name, settings, endpoint_id, intake_accepted, pause_requested, cancel_requested, is_released",),
    "brakes": ("UPDATE OF continued_at",),
    "limits": ("INSERT", "UPDATE", "DELETE"),
    # what the keeper carries out (`Scheduler`), and sends (`RunNotifier`, `FlowNotifier`)
    "pipelines": ("INSERT", "UPDATE", "DELETE"),
    "schedules": ("INSERT", "UPDATE", "DELETE"),
    "fires": ("INSERT",),
    "flows": ("INSERT", "UPDATE", "DELETE"),
    "stages": ("INSERT", "UPDATE", "DELETE"),
    "outbox": ("INSERT",),
    "run_outbox": ("INSERT",),
}
"""The tables of which engines read anew when they hear a signal, and what of them changes what they do. A run that is
deleted was taken back before.
"""

_NOTICES: Final = "notices"
"""What listeners note: of that alone inboxes hear (`WebhookInbox`)."""

_STATES: Final = ", ".join(f"'{state}'" for state in State)
_JOBS_CAME: Final = f"INSERT INTO heard SELECT 'jobs of run ' || new.run_id, {{n}} WHERE new.name IN ({_STATES})"
_COUNTED: Final = (
    f"CREATE TEMP TRIGGER jobs_came AFTER INSERT ON counts BEGIN {_JOBS_CAME.format(n='new.n')}; END",
    f"CREATE TEMP TRIGGER jobs_went AFTER UPDATE ON counts BEGIN {_JOBS_CAME.format(n='new.n - old.n')}; END",
)
"""How many jobs a run has (`RunRegistry.count_what_came`): steps only change of which kind they are."""

_HEARD: Final = "SELECT what FROM heard GROUP BY what HAVING sum(n) <> 0 ORDER BY what"


@asynccontextmanager
async def all_signalled(ledger: Ledger) -> AsyncIterator[None]:
    """Meanwhile no transaction of `ledger` changes what others go by without signals them; checked at the end."""
    database: Any = ledger._site.database
    writing, signal = database.writing, database.signal
    silent, signals = list[str](), set[tuple[AsyncConnection, bool]]()

    async def signalled(connection: AsyncConnection, *, notices: bool = False) -> None:
        signals.add((connection, notices))
        await signal(connection, notices=notices)

    @asynccontextmanager
    async def watched(company: Company = Company.ALONE, *, is_proved: bool = True) -> AsyncIterator[AsyncConnection]:
        async with writing(company, is_proved=is_proved) as connection:
            driver = await driver_of(connection)
            await driver.in_thread(_watch)
            yield connection
            heard = await driver.in_thread(_heard)
            silent.extend(each for each in heard if (connection, each == _NOTICES) not in signals)
            signals.clear()

    database.writing, database.signal = watched, signalled
    try:
        yield
    finally:
        del database.writing, database.signal
    assert silent == [], f"engines of other processes go by this, and do not hear of it: {silent}"


def _heard(given: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(what for (what,) in sqlite3.Cursor(given.connection).execute(_HEARD).fetchall())


def _watch(given: sqlite3.Cursor) -> None:
    """Has all changes noted from now on, and forgets those before."""
    cursor = sqlite3.Cursor(given.connection)  # one that tells nobody what it executes
    if cursor.execute("SELECT 1 FROM sqlite_temp_master WHERE name = 'heard'").fetchone() is None:
        cursor.execute("CREATE TEMP TABLE heard (what TEXT, n INTEGER)")
        for table, changes in {**GONE_BY, _NOTICES: ("INSERT",)}.items():
            for number, change in enumerate(changes):
                noted = f"INSERT INTO heard VALUES ('{table}', 1)"
                cursor.execute(f"CREATE TEMP TRIGGER {table}_{number} AFTER {change} ON {table} BEGIN {noted}; END")
        for trigger in _COUNTED:
            cursor.execute(trigger)
    cursor.execute("DELETE FROM heard")
