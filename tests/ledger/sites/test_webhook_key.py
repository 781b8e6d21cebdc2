"""The key of the webhook tokens."""

from pathlib import Path

import pytest

from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger.sites.webhook_key import fingerprint, given_key, webhook_key
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE


def test_the_key_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    key = webhook_key(tmp_path / "l.db")

    assert len(key) == KEY_BYTES
    assert webhook_key(tmp_path / "l.db") == key
    assert (tmp_path / "l.db.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["l.db.key"]


def test_each_ledger_has_its_own_key_and_all_links_to_it_share_it(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")

    assert webhook_key(tmp_path / "a.db") != webhook_key(tmp_path / "b.db")
    assert webhook_key(tmp_path / "a.db") == webhook_key(tmp_path / "link.db")


def test_a_key_that_was_cut_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "l.db.key").write_bytes(b"short")

    assert len(webhook_key(tmp_path / "l.db")) == KEY_BYTES


def test_a_folder_that_cannot_keep_the_key_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"l\.db\.key: cannot keep the webhook key \(No such file or directory\)"):
        webhook_key(tmp_path / "none" / "l.db")


def test_a_key_of_the_environment_has_64_hex_digits_and_is_not_quoted() -> None:
    assert given_key({}) is given_key({WEBHOOK_KEY_VARIABLE: ""}) is None
    assert given_key({WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES}) == b"\n" * KEY_BYTES
    for wrong in ("0a" * (KEY_BYTES - 1), "hunter2hunter2"):
        with pytest.raises(UsageError, match=f"{WEBHOOK_KEY_VARIABLE} is no key: it has 64 hex digits") as refused:
            given_key({WEBHOOK_KEY_VARIABLE: wrong})
        assert wrong not in str(refused.value)


def test_a_fingerprint_tells_keys_apart_and_nothing_else_of_them() -> None:
    key = bytes(range(KEY_BYTES))
    assert fingerprint(key) == fingerprint(bytes(key)) != fingerprint(key[::-1])
    assert key.hex() not in fingerprint(key)
