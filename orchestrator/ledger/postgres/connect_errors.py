"""Why nobody can connect to a server, as a sentence with what to do."""

import os
import socket
import ssl
from collections.abc import Mapping

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.postgres.server_access import disregarded_passwords, has_password
from orchestrator.ledger.postgres.server_errors import ADVICE, PASSES
from orchestrator.settings.addresses.ledger_address import LedgerHost, LedgerUrl

_CERTIFICATE = "name the host as its certificate does, and the file of who has signed that (?sslrootcert=FILE)"
_TLS = "where it has no TLS, and nobody can listen on the way to it, add ?sslmode=disable"
_POOLER = "a pooler seems to stand between: name the server itself"
PROTOCOL_VIOLATION = "08P01"
NOT_LET_IN = "28"
NOT_PROVEN = "28P01"


def cannot_connect(url: LedgerUrl, errors: Mapping[LedgerHost, Exception]) -> StorageError:
    """What is said where none of those hosts of `url` lets anybody in, by the driver's `errors`: where it may pass that
    one of them does not, `LedgerUnavailableError`.
    """
    whys = [_why(error) if len(url.hosts) == 1 else f"{host}: {_why(error)}" for host, error in errors.items()]
    found = f"{url}: cannot reach the ledger ({'; '.join(whys)})"
    *_, last = errors.values()
    passing = [error for error in errors.values() if _may_pass(error)]
    if passing and is_next_asked(last):
        return LedgerUnavailableError(found, advice=_advice(passing[0]))
    return StorageError(f"{found}; {_advice(last)}")


def is_next_asked(error: Exception) -> bool:
    """Whether another host of the same database may let in whom one did not, by the driver's `error`."""
    return _may_pass(error) or isinstance(error, OSError)


def _may_pass(error: Exception) -> bool:
    """Whether it may be as well to wait."""
    code = getattr(error, "sqlstate", None)
    if code is None:  # of hosts none is the primary until the next one is promoted
        return _is_no_primary(error) or (isinstance(error, OSError) and not isinstance(error, ssl.SSLError))
    return code != PROTOCOL_VIOLATION and str(code).startswith(PASSES)


def _is_no_primary(error: Exception) -> bool:
    from asyncpg import TargetServerAttributeNotMatched  # noqa: PLC0415  it is loaded where there is such an error

    return isinstance(error, TargetServerAttributeNotMatched)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "its server has not answered in time"
    if _is_no_primary(error):
        return "it cannot be written"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())


def _advice(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATE
    if isinstance(error, socket.gaierror):
        return "look whether the name of the host is right"
    if type(error) is ConnectionError or isinstance(error, ssl.SSLError):
        return _TLS
    if _is_no_primary(error):
        return ADVICE["25006"]
    code = getattr(error, "sqlstate", None)
    found = None if code is None else _advice_by_code(str(code))
    if found is not None:
        return found
    return ADVICE["08"] if isinstance(error, OSError) else "look into the server's log"


def _advice_by_code(code: str) -> str | None:
    if code == PROTOCOL_VIOLATION:
        return _POOLER
    if code.startswith(NOT_LET_IN) and (file := disregarded_passwords(os.environ)) is not None:
        return f"others may read the passwords in {file}, so it is not asked: chmod 600 {file}"
    advice = ADVICE.get(code) or ADVICE.get(code[:2])
    if code == NOT_PROVEN and not has_password(os.environ):
        return f"{advice}; no password is given here: set PGPASSWORD, or name a file of passwords in PGPASSFILE"
    return advice
