"""The key by which the tokens of webhooks are signed (HMAC): beside the ledger, never in it."""

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import StorageError, UsageError
from orchestrator.settings.addresses.companions import Companion, companion_of, companion_to_write
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.addresses.private_file import write_private_file
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE


def webhook_key(ledger: LedgerAddress) -> bytes:
    """The key in `LEDGER.key`, made on first use and readable by its owner alone. Raises `StorageError`."""
    path = companion_of(ledger, Companion.WEBHOOK_KEY)
    try:
        path = companion_to_write(ledger, Companion.WEBHOOK_KEY)
        if not path.exists() or path.stat().st_size != KEY_BYTES:
            write_private_file(path, secrets.token_bytes(KEY_BYTES))
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path}: cannot keep the webhook key ({error.strerror}); check the folder")


def key_in_file(ledger: LedgerAddress) -> str:
    """The fingerprint of the key in `LEDGER.key`; empty where none was made."""
    return fingerprint(webhook_key(ledger)) if companion_of(ledger, Companion.WEBHOOK_KEY).exists() else ""


def given_key(environ: Mapping[str, str]) -> bytes | None:
    """The key that the environment has, of a ledger on which several machines work; None where it has none.

    Raises `UsageError`, which does not quote it.
    """
    text = environ.get(WEBHOOK_KEY_VARIABLE)
    if not text:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UsageError(f"{WEBHOOK_KEY_VARIABLE} is no key: it has {2 * KEY_BYTES} hex digits")
    return key


def key_at_hand(ledger: LedgerAddress, environ: Mapping[str, str]) -> bytes | None:
    """The key of the environment, or in a file of this machine; None where neither has one. Makes none.

    Raises `UsageError` as `given_key` does, and `StorageError` where the file cannot be read.
    """
    if (given := given_key(environ)) is not None:
        return given
    path = companion_of(ledger, Companion.WEBHOOK_KEY)
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    return key if len(key) == KEY_BYTES else None


class NotedKey(Protocol):
    """Where a ledger notes whose key its webhooks have, without the key."""

    async def takes_any_key(self) -> bool:
        """Whether nothing at the service has a token by another one, and no other process works with it."""

    async def takes_key(self, fingerprint: str) -> bool:
        """Whether the key of that fingerprint is the one, or becomes it; this process works with it from now on."""

    async def key_noted(self) -> str:
        """The fingerprint of the one; empty: of none."""


async def noted_key(ledger: LedgerAddress, noted: NotedKey, environ: Mapping[str, str]) -> bytes:
    """The key of the environment, or in a file of this machine, made on first use, of a ledger that other machines may
    use as well. Raises `UsageError` where what is at the service was given tokens by another one, or another process
    works with that.
    """
    key = key_at_hand(ledger, environ)
    if key is None and await noted.takes_any_key():
        key = webhook_key(ledger)
    if key is None or not await noted.takes_key(fingerprint(key)):
        raise _other_key(ledger)
    return key


async def refuse_other_key(ledger: LedgerAddress, noted: NotedKey, environ: Mapping[str, str]) -> None:
    """Raises `UsageError` where `noted_key` would. Notes and makes nothing."""
    key = key_at_hand(ledger, environ)
    is_noted = key is not None and fingerprint(key) == await noted.key_noted()
    if not (is_noted or await noted.takes_any_key()):
        raise _other_key(ledger)


async def key_in_use(ledger: LedgerAddress, noted: NotedKey, environ: Mapping[str, str]) -> bytes:
    """The key by which webhooks are signed. Notes and makes nothing. Raises `UsageError` where this machine has another
    one, or none.
    """
    key = key_at_hand(ledger, environ)
    if key is None or fingerprint(key) != await noted.key_noted():
        raise UsageError(f"{ledger}: its webhooks are signed by another key than this machine has; {_give_it(ledger)}")
    return key


def _other_key(ledger: LedgerAddress) -> UsageError:
    return UsageError(
        f"{ledger}: the webhooks of what is at the service, or of a process at work, are signed by another key than"
        f" this machine has; {_give_it(ledger)}, or go on without <setting listen> until nothing is at the service and"
        " nobody listens"
    )


def _give_it(ledger: LedgerAddress) -> str:
    file = companion_of(ledger, Companion.WEBHOOK_KEY)
    return f"copy it from where it was made to {file}, or set {WEBHOOK_KEY_VARIABLE}"


def fingerprint(key: bytes) -> str:
    """What tells `key` from others, and nothing else of it."""
    return hashlib.sha256(b"orchestrator webhook key " + key).hexdigest()
