"""What a server says of itself rather than of a statement, as `StorageError`: it is full, locked, away, read-only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from orchestrator.errors import LedgerUnavailableError, StorageError, TookTooLongError
from orchestrator.ledger.database import ClashError

TOOK_TOO_LONG: Final = "57014"
LOCK_REFUSED: Final = "55P03"
"""Somebody else has it locked, and has not let go of it in time."""

ADVICE: Final = {
    "08": "look whether the server runs and can be reached",
    "28": "check the role, its password and the server's pg_hba.conf",
    "3D": "create the database, or name another one",
    "3F": "create the schema, or name another one",
    "53": "the server lacks room, memory or connections; give it some",
    "57": "the server is being stopped or started; wait until it is up",
    "58": "look into the server's log",
    "XX": "the server may be damaged; look into its log",
    "25006": "it can only be read: a standby, or a role or database that is set so; name the primary",
    "40001": "others wrote at the same time; try again later",
    "40P01": "others wrote at the same time; try again later",
    "42501": "log in as a role that may, or grant this one what it lacks",
    "55000": "name that one with <setting ledger>",  # of ours alone: see `write_stops.py`
    LOCK_REFUSED: "another process holds the ledger for long; look for it in pg_stat_activity",
}
"""By the code of an error (SQLSTATE), or the class of codes that it begins with. Any other is a defect of ours."""


PASSES: Final = ("08", "25006", "53", "57", "58")
"""What may pass by itself, by codes as above: also that a server can only be read, as one whose disk is nearly full, or
whose place another one takes. Waiting for the rest is of no use.
"""

CLASHES: Final = ("40001", "40P01", LOCK_REFUSED)


class LineLostError(LedgerUnavailableError):
    """The connection to the server was cut; what was under way on it has been written only if it was its COMMIT."""


@contextmanager
def shielded(name: str) -> Iterator[None]:
    """No cancellation comes between; errors are of the ledger `name`."""
    with anyio.CancelScope(shield=True), server_errors(name):
        yield


@contextmanager
def server_errors(name: str) -> Iterator[None]:
    """Turns what the server says of itself into `StorageError`; defects of ours (constraints) pass as they are."""
    try:
        yield
    except PoolTimeoutError:
        raise LedgerUnavailableError(f"{name}: a transaction takes very long") from None
    except DBAPIError as error:
        _tell(name, error.orig or error, error)
        raise
    except OSError as error:  # nobody is there
        found = f"{name}: cannot reach the ledger ({str(error) or 'it does not answer'})"
        raise LedgerUnavailableError(found, advice=ADVICE["08"]) from error
    except Exception as error:  # the driver's own, if it has a code
        _tell(name, error, error)
        raise


def lost(name: str) -> LineLostError:
    """The connection to the ledger `name` was cut."""
    return LineLostError(f"{name}: cannot use the ledger (the connection to its server was lost)", advice=ADVICE["08"])


def unusable(found: str, advice: str, code: str) -> StorageError:
    """What was found of a ledger, with the server's `code`, and what to do."""
    if code in CLASHES:
        return ClashError(found, advice=advice)
    if code.startswith(PASSES):
        return LedgerUnavailableError(found, advice=advice)
    return StorageError(f"{found}; {advice}")


def _tell(name: str, said: BaseException, error: BaseException) -> None:
    code = getattr(said, "sqlstate", None)
    if code is None:
        return
    if code == TOOK_TOO_LONG:
        raise TookTooLongError from error
    advice = ADVICE.get(code) or ADVICE.get(code[:2])
    if advice is not None:
        raise unusable(f"{name}: cannot use the ledger ({said})", advice, code) from error
