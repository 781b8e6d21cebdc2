"""How a server is reached: its hosts, the database, as whom, and how it proves who it is.

Passwords are the driver's affair: it takes them from `PGPASSWORD`, or from the file that `PGPASSFILE` names.
"""

import os
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from orchestrator.errors import UsageError
from orchestrator.settings.addresses.ledger_address import LedgerUrl

SYSTEM: Final = "system"
"""In the place of a file of certificates: those that the system trusts."""

_UNPROVEN: Final = ("disable", "allow", "prefer")
_ROOT: Final = Path("~/.postgresql/root.crt")


def arguments(url: LedgerUrl, settings: Mapping[str, str]) -> dict[str, Any]:
    """What the driver is to be told to connect to a host of `url`. Raises `UsageError` for unusable certificates."""
    is_written = settings.get("default_transaction_read_only") != "on"
    primary = "read-write" if is_written else "primary"
    return {
        "user": url.user or None,
        "database": url.database,
        # Of a single one it is better told that it is a standby than that none was found.
        "target_session_attrs": primary if len(url.hosts) > 1 else "any",
        "server_settings": {"search_path": f'"{url.schema}"', **settings},
        **_proof(url, os.environ),
    }


def _proof(url: LedgerUrl, environ: Mapping[str, str]) -> dict[str, Any]:
    """How the server proves who it is, and we do by certificate if so."""
    if url.tls_mode in _UNPROVEN:
        files = {name: file for name, file in url.tls.items() if name != "sslmode"}
        return {"dsn": f"postgresql:///?{urlencode(files)}", "ssl": url.tls_mode}
    root = url.tls.get("sslrootcert") or environ.get("PGSSLROOTCERT")
    if root is None and (own := _ROOT.expanduser()).exists():
        root = str(own)
    certificate = url.tls.get("sslcert") or environ.get("PGSSLCERT")
    try:
        context = ssl.create_default_context(cafile=None if root == SYSTEM else root)
        if certificate is not None:
            context.load_cert_chain(certificate, url.tls.get("sslkey") or environ.get("PGSSLKEY"))
    except OSError as error:  # those of TLS are such, too
        named = ", ".join(filter(None, (root, certificate)))
        raise UsageError(f"{url}: cannot use the certificates in {named} ({error.strerror or error})") from error
    context.check_hostname = url.tls_mode == "verify-full"
    if url.tls_mode == "require" and root is None:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def has_password(environ: Mapping[str, str]) -> bool:
    """Whether the driver finds a password, or a file in which one may be."""
    return "PGPASSWORD" in environ or _mode_of(_password_file(environ)) is not None


def disregarded_passwords(environ: Mapping[str, str]) -> Path | None:
    """The file of passwords that the driver passes over, since others may read it; None where there is none such."""
    file = _password_file(environ)
    is_open_to_others = (_mode_of(file) or 0) & (stat.S_IRWXG | stat.S_IRWXO)
    return file if is_open_to_others and "PGPASSWORD" not in environ else None


def _password_file(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("PGPASSFILE") or "~/.pgpass").expanduser()


def _mode_of(file: Path) -> int | None:
    """Who may do what with it; None where there is none, or we may not look."""
    try:
        return file.stat().st_mode
    except OSError:
        return None
