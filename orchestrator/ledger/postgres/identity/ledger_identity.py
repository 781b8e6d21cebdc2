"""What a ledger on a server knows of itself: which one it is, the numbers of its marks, whose key its webhooks have."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.postgres.connection import server_driver
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.identity.lost_commits import accept_loss
from orchestrator.ledger.postgres.process_mark import IS_CONNECTED

_WHICH: Final = text(
    "SELECT system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint,"
    " to_regclass('identity')::oid::bigint FROM pg_control_system()"
)
_NUMBERS: Final = text("SELECT slot, number FROM sent_marks")
_SET_NUMBER: Final = text("UPDATE sent_marks SET number = :number WHERE slot = :slot")
_KEY: Final = text("SELECT webhook_key FROM identity")
_IS_AT_SERVICE: Final = "SELECT FROM jobs WHERE state IN ('submitting', 'uncertain', 'outstanding')"
# Whoever was killed may not have been declared dead by anybody yet.
_LISTEN: Final = f"SELECT FROM processes WHERE listens = 1 AND id <> :me AND {IS_CONNECTED}"
_IS_FREE: Final = f"webhook_key = '' OR NOT EXISTS ({_IS_AT_SERVICE}) AND NOT EXISTS ({_LISTEN})"
_TAKES_ANY: Final = text(f"SELECT {_IS_FREE} FROM identity")  # noqa: S608  texts of ours
_SET_KEY: Final = text(f"UPDATE identity SET webhook_key = :key WHERE {_IS_FREE}")  # noqa: S608
_LISTENS: Final = text("UPDATE processes SET listens = 1 WHERE id = :me")
_TIMELINE_BITS: Final = 32


class LedgerIdentity:
    """That of the ledger in `database`, to its process of the number `me`; 0: to one that is none of those."""

    def __init__(self, database: ServerDatabase, me: int = 0) -> None:
        self._database = database
        self._me = me

    async def identity(self) -> tuple[int, int] | None:
        """What tells it from every other one, and from a copy. A standby that was promoted is another one, too: it may
        lack what was committed last. None where the server keeps it from this role, or does not know it.
        """
        try:
            system, timeline, tables = await self._one(_WHICH)
        except LedgerUnavailableError:
            raise
        except (StorageError, DBAPIError):  # servers that others manage refuse the one or the other, each by a code
            return None
        return system, timeline << _TIMELINE_BITS | tables

    async def mark_numbers(self) -> Mapping[int, int]:
        """By slots of processes, the numbers that were noted in it for the files of marks made last; 0: for none."""
        return await self._database.asked(_NUMBERS, None, lambda found: {row.slot: row.number for row in found})

    async def set_mark_number(self, slot: int, number: int) -> None:
        """Notes another one."""
        async with self._database.writing() as connection:
            await connection.execute(_SET_NUMBER, {"slot": slot, "number": number})

    async def accept_loss(self) -> bool:
        """Whether its server had lost what it had confirmed. Nobody is kept from working on it by that any more."""
        async with self._database.changing() as connection:
            return await accept_loss(server_driver(connection))

    async def takes_key(self, fingerprint: str) -> bool:
        """Whether the key of that fingerprint is the one that its webhooks are signed by: this process listens from now
        on. It becomes that where there is none yet; or nothing is at the service whose webhooks another one has signed,
        and no other process listens.
        """
        async with self._database.writing() as connection:
            await connection.execute(_SET_KEY, {"key": fingerprint, "me": self._me})
            is_noted = bool((await connection.execute(_KEY)).scalar_one() == fingerprint)
            if is_noted:
                await connection.execute(_LISTENS, {"me": self._me})
        return is_noted

    async def takes_any_key(self) -> bool:
        """Whether any key is, or becomes it."""
        return bool((await self._one(_TAKES_ANY, {"me": self._me}))[0])

    async def key_noted(self) -> str:
        """The fingerprint of the one that its webhooks are signed by; empty: of none."""
        return str((await self._one(_KEY))[0])

    async def _one(self, question: Any, given: Mapping[str, Any] | None = None) -> Any:
        return await self._database.asked(question, given, lambda found: found.one())
