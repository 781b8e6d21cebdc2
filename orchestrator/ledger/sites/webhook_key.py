"""The key by which the tokens of webhooks are signed (HMAC): beside the ledger, never in it."""

import hashlib
import secrets
from collections.abc import Mapping
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
        raise StorageError(f"{path}: cannot keep the webhook key ({error.strerror}); check the folder") from error


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


class NotedKey(Protocol):
    """Where a ledger notes whose key its webhooks have, without the key."""

    async def takes_any_key(self) -> bool:
        """Whether nothing at the service has a token by another one."""

    async def takes_key(self, fingerprint: str) -> bool:
        """Whether the key of that fingerprint is the one, or becomes it."""

    async def key_noted(self) -> str:
        """The fingerprint of the one; empty: of none."""


async def noted_key(ledger: LedgerAddress, noted: NotedKey, environ: Mapping[str, str]) -> bytes:
    """The key of the environment, or in a file of this machine, made on first use, of a ledger that other machines may
    use as well. Raises `UsageError` where what is at the service was given tokens by another one.
    """
    file, key = companion_of(ledger, Companion.WEBHOOK_KEY), given_key(environ)
    if key is None and (file.exists() or await noted.takes_any_key()):
        key = webhook_key(ledger)
    if key is None or not await noted.takes_key(fingerprint(key)):
        raise UsageError(
            f"{ledger}: the webhooks of what is at the service are signed by another key than this machine has;"
            f" {_give_it(ledger)}, or go on without <setting listen> until nothing is at the service"
        )
    return key


async def refuse_other_key(ledger: LedgerAddress, noted: NotedKey, environ: Mapping[str, str]) -> None:
    """Raises `UsageError` where this machine has another key than the one by which a process at work has its webhooks
    signed, whose place this one is to take. Notes and makes nothing.
    """
    its, file = await noted.key_noted(), companion_of(ledger, Companion.WEBHOOK_KEY)
    ours = given_key(environ) or (webhook_key(ledger) if file.exists() else None)
    if its and (ours is None or fingerprint(ours) != its):
        raise UsageError(
            f"{ledger}: the process at work has its webhooks signed by another key than this machine has, which could"
            f" not take its place; {_give_it(ledger)}, or stand by without <setting listen>"
        )


def _give_it(ledger: LedgerAddress) -> str:
    file = companion_of(ledger, Companion.WEBHOOK_KEY)
    return f"copy it from where it was made to {file}, or set {WEBHOOK_KEY_VARIABLE}"


def fingerprint(key: bytes) -> str:
    """What tells `key` from others, and nothing else of it."""
    return hashlib.sha256(b"orchestrator webhook key " + key).hexdigest()
