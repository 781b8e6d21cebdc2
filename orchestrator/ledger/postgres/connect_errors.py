"""Why nobody can connect to a server, as a sentence with what to do."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import LedgerUnavailableError, OrchestratorError, StorageError
from orchestrator.ledger.postgres.server_errors import ADVICE, PASSES
from orchestrator.settings.addresses.ledger_address import LedgerUrl

_CERTIFICATE = "name the host as its certificate does, and the file of who has signed that (?sslrootcert=FILE)"
_TLS = "where it has no TLS, and nobody can listen on the way to it, add ?sslmode=disable"
_POOLER = "a pooler seems to stand between: name the server itself"
PROTOCOL_VIOLATION = "08P01"


@contextmanager
def connect_errors(url: LedgerUrl) -> Iterator[None]:
    """Turns what the driver raises that cannot connect to `url` into `StorageError`, or `LedgerUnavailableError`."""
    try:
        yield
    except OrchestratorError:
        raise
    except Exception as error:
        kind = LedgerUnavailableError if _may_pass(error) else StorageError
        raise kind(f"{url}: cannot reach the ledger ({_why(error)}); {_advice(error)}") from error


def _may_pass(error: Exception) -> bool:
    """Whether it may be as well to wait."""
    code = getattr(error, "sqlstate", None)
    if code is None:
        return isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
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
    if code == PROTOCOL_VIOLATION:
        return _POOLER
    found = None if code is None else ADVICE.get(code) or ADVICE.get(code[:2])
    if found is not None:
        return found
    return ADVICE["08"] if isinstance(error, OSError) else "look into the server's log"
