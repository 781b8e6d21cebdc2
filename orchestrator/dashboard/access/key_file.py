"""The dashboard's secrets: in a folder beside the ledger that its owner alone may enter, never in the ledger.

`LEDGER.dashboard/key` signs cookies and links. Each link that was handed out and not yet used is a file beside it,
whoever has made it and whoever is to be shown: to remove that file is to use the link, which only one can do, once.
Whoever removes the key signs everybody out at once, and voids all links and the key of programs: the next who asks
makes another one.
"""

import hashlib
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from orchestrator.errors import StorageError
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.addresses.private_file import write_private_file

KEY_BYTES: Final = 32
LINKS_MAX: Final = 1_000
"""More that nobody has used are not kept: the oldest go."""

_DIGEST_CHARS: Final = 32


class KeyFolder:
    """Where the secrets of the dashboard of one ledger are."""

    def __init__(self, ledger: LedgerAddress) -> None:
        self._folder = companion_of(ledger, Companion.DASHBOARD_KEYS)

    def key(self) -> bytes:
        """The key, made on first use. Raises `StorageError`."""
        path = self._folder / "key"
        try:
            with suppress(FileNotFoundError):
                if len(key := path.read_bytes()) == KEY_BYTES:
                    return key
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private_file(path, secrets.token_bytes(KEY_BYTES))
            return path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"{path}: cannot keep the dashboard's key ({error.strerror}); its folder has to be writable, or"
                " serve it with <setting no-login> on this machine"
            ) from error

    def keep_link(self, token: str) -> None:
        """Notes that a link with this token was handed out. Raises `StorageError`."""
        try:
            for old in sorted(self._folder.glob("link-*"), key=lambda each: each.stat().st_mtime)[:-LINKS_MAX]:
                old.unlink(missing_ok=True)
            write_private_file(self._link(token), b"")
        except OSError as error:
            raise StorageError(f"{self._folder}: a link cannot be kept ({error.strerror})") from error

    def use_link(self, token: str) -> bool:
        """Whether a link with this token was handed out and not used; it is used now."""
        with suppress(OSError):
            self._link(token).unlink()
            return True
        return False

    def note_address(self, url: str) -> None:
        """Notes where the dashboard that was begun last is, for who makes a link to it. Raises `StorageError`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private_file(self._folder / "address", url.encode())
        except OSError as error:
            raise StorageError(f"{self._folder}: cannot be written ({error.strerror})") from error

    def address(self) -> str | None:
        """Where that is; None where none was begun yet."""
        with suppress(OSError):
            return (self._folder / "address").read_text(encoding="utf-8")
        return None

    def _link(self, token: str) -> Path:
        """The file does not tell the token: who can list the folder cannot sign in."""
        return self._folder / f"link-{hashlib.sha256(token.encode()).hexdigest()[:_DIGEST_CHARS]}"
