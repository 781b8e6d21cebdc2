"""The key by which the tokens of webhooks are signed (HMAC): beside the ledger, never in it."""

import os
import secrets
from pathlib import Path

from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import StorageError
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerAddress


def webhook_key(ledger: LedgerAddress) -> bytes:
    """The key in `LEDGER.key`, made on first use and readable by its owner alone. Raises `StorageError`."""
    path = companion_of(ledger, Companion.WEBHOOK_KEY)
    try:
        if not path.exists() or path.stat().st_size != KEY_BYTES:
            _write(path, secrets.token_bytes(KEY_BYTES))
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot keep the webhook key ({error.strerror}); check the folder") from error


def _write(path: Path, key: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError:  # a full disk
        beside.unlink(missing_ok=True)
        raise
