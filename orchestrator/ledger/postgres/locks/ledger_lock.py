"""The lock that each transaction takes which writes to a ledger on a server: shared with others, or alone.

Who wants it alone waits for those that share it, and whoever comes meanwhile waits behind: one process that has fallen
asleep within a transaction would stop all others. So nobody waits for long: who is refused lets the others pass before
it tries again, and at last ends the connections on which nothing has come for seconds. All of a ledger's writing
transactions hold this lock, so that also ends whoever sleeps with the lock of a row. Another role's connection may not
be theirs to end: so guests, who may be people with roles of their own, have the server end them.
"""

from typing import Final

import anyio

from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.database import Company
from orchestrator.ledger.postgres.connection import OUR_SCHEMA, Driver, LineBounds
from orchestrator.ledger.postgres.process_mark import MAY_BE_ENDED
from orchestrator.ledger.postgres.server_errors import ADVICE, LOCK_REFUSED

REFUSALS_BORNE: Final = 2
"""So often one is refused before it ends those that stand still."""

REFUSALS_MAX: Final = 10

# The first number is no other program's, the second no other schema's. Each is let go of with its transaction.
_OF_SCHEMA: Final = f"{OUR_SCHEMA}::oid::int"
_LEDGER, _GUEST, _LONG = 1869767528, 1869767529, 1869767531
_SHARED: Final = f"pg_advisory_xact_lock_shared({_LEDGER}, {_OF_SCHEMA})"
_ALONE: Final = f"pg_advisory_xact_lock({_LEDGER}, {_OF_SCHEMA})"
_AMONG_GUESTS: Final = f"pg_advisory_xact_lock({_GUEST}, {_OF_SCHEMA})"
_FOR_LONG: Final = f"pg_advisory_xact_lock({_LONG}, {_OF_SCHEMA})"
FOR_LONG: Final = f"SELECT {_ALONE}, {_FOR_LONG}"
"""What takes it `FOR_LONG`."""


_HELD: Final = f"locktype = 'advisory' AND granted AND objid = {OUR_SCHEMA}::oid AND objsubid = 2"
_END_THE_STILL: Final = f"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND {MAY_BE_ENDED} AND wait_event_type = 'Client'
  AND clock_timestamp() - state_change > interval '1 s' * $1 * CASE state WHEN 'active' THEN 2 ELSE 1 END
  AND pid IN (SELECT pid FROM pg_locks WHERE {_HELD} AND classid IN ({_LEDGER}, {_GUEST}))
  AND pid NOT IN (SELECT pid FROM pg_locks WHERE {_HELD} AND classid = {_LONG})
"""  # noqa: S608  all of it is ours

_BOUNDED: Final = (
    "SET LOCAL idle_in_transaction_session_timeout = {still_ms};"
    " SELECT set_config('transaction_timeout', '{lasts_ms}', true)"
    " WHERE current_setting('server_version_num')::int >= 170000"
)


class LedgerLock:
    """That of the ledger `name`, as one process takes it, one transaction at a time, within these `bounds`."""

    def __init__(self, name: str, bounds: LineBounds) -> None:
        self._name = name
        self._bounds = bounds
        self._refusals = 0
        still_ms, lasts_ms = (round(1_000 * each) for each in (bounds.guest_still_s, bounds.guest_lasts_s))
        self._bounded = _BOUNDED.format(still_ms=still_ms, lasts_ms=lasts_ms)

    def taking(self, company: Company, *, is_guest: bool) -> str:
        """What takes it in that `company`; a guest is ended by the server where it stands still."""
        bounded = f"{self._bounded}; " if is_guest else ""
        match company:
            case Company.SHARED:
                return f"{bounded}SELECT {_SHARED}"
            case Company.FOR_LONG:
                return FOR_LONG
            case Company.ALONE:
                return f"{bounded}SELECT {_SHARED}, {_AMONG_GUESTS}" if is_guest else f"SELECT {_ALONE}"

    async def begun(self, driver: Driver, begin: str, company: Company) -> str:
        """Has `driver` execute `begin`, by which a transaction takes the lock, until that is granted; returns what the
        server said to that. Raises `LedgerUnavailableError` where others hold it for long, and what the driver does.
        """
        for _ in range(REFUSALS_MAX):
            if self._refusals > REFUSALS_BORNE:
                await driver.execute(_END_THE_STILL, self._bounds.still_s)
            try:
                return str(await driver.execute(begin))
            except Exception as error:
                if getattr(error, "sqlstate", None) != LOCK_REFUSED:
                    raise
            await driver.execute("ROLLBACK")
            self.refused()
            if company is not Company.SHARED:
                await anyio.sleep(self._bounds.granted_s)  # the others pass
        raise LedgerUnavailableError(
            f"{self._name}: cannot use the ledger (others write to it without an end)", advice=ADVICE[LOCK_REFUSED]
        )

    def refused(self) -> None:
        """Something was not granted: the lock itself, or within a transaction that has it that of a row."""
        self._refusals += 1

    def granted(self) -> None:
        """A transaction was committed."""
        self._refusals = 0
