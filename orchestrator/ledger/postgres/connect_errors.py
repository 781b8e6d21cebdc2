"""Why nobody can connect to a server, as a sentence with what to do."""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import LedgerUnavailableError, OrchestratorError, StorageError
from orchestrator.ledger.postgres.server_access import disregarded_passwords
from orchestrator.ledger.postgres.server_errors import ADVICE, PASSES
from orchestrator.settings.addresses.ledger_address import LedgerUrl

_CERTIFICATE = "name the host as its certificate does, and the file of who has signed that (?sslrootcert=FILE)"
_TLS = "where it has no TLS, and nobody can listen on the way to it, add ?sslmode=disable"
_POOLER = "a pooler seems to stand between: name the server itself"
PROTOCOL_VIOLATION = "08P01"
NOT_LET_IN = "28"


@contextmanager
def connect_errors(url: LedgerUrl) -> Iterator[None]:
    """Turns what the driver raises that cannot connect to `url` into `StorageError`, or `LedgerUnavailableError`."""
    try:
        yield
    except OrchestratorError:
        raise
    except Exception as error:
        found, advice = f"{url}: cannot reach the ledger ({_why(error)})", _advice(error)
        if _may_pass(error):
            raise LedgerUnavailableError(found, advice=advice) from error
        raise StorageError(f"{found}; {advice}") from error


def _may_pass(error: Exception) -> bool:
    """Whether it may be as well to wait."""
    from asyncpg import TargetServerAttributeNotMatched  # noqa: PLC0415  it is loaded where there is such an error

    code = getattr(error, "sqlstate", None)
    if code is None:
        no_primary = isinstance(error, TargetServerAttributeNotMatched)  # the next one is not promoted yet
        return no_primary or (isinstance(error, OSError) and not isinstance(error, ssl.SSLError))
    return code != PROTOCOL_VIOLATION and str(code).startswith(PASSES)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "its server has not answered in time"
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
    return ADVICE.get(code) or ADVICE.get(code[:2])
