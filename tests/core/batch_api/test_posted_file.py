"""What files of the Batch API are called, and for how long they are kept."""

import pytest

from orchestrator.core.batch_api.posted_file import FILENAME_CHARS_MAX, clean_filename, file_expiry
from orchestrator.units import SECOND_US


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("in.jsonl", "in.jsonl"),
        ("../../etc/passwd", "passwd"),
        ("C:\\batches\\in.jsonl", "in.jsonl"),
        ("a\x1b[31m\n.jsonl", "a[31m.jsonl"),
        ("übung.jsonl", "übung.jsonl"),
        ("folder/", "upload"),
        ("", "upload"),
        ("x" * 300, "x" * FILENAME_CHARS_MAX),
    ],
)
def test_a_file_is_called_as_its_sender_says_without_folders_and_control_characters(given: str, kept: str) -> None:
    assert clean_filename(given) == kept


def test_a_file_expires_so_long_after_it_was_made() -> None:
    assert file_expiry(None, None, created_at=5) is None
    assert file_expiry("created_at", "3600", created_at=5) == 3_600 * SECOND_US + 5
    assert file_expiry("created_at", 2_592_000, created_at=0) == 2_592_000 * SECOND_US


@pytest.mark.parametrize(
    ("anchor", "seconds", "told"),
    [
        ("last_used_at", "3600", "anchor"),
        (None, "3600", "anchor"),
        ("created_at", None, "seconds"),
        ("created_at", "3599", "seconds"),
        ("created_at", "2592001", "seconds"),
        ("created_at", "-3600", "seconds"),
        ("created_at", "٣٦٠٠", "seconds"),
        ("created_at", "9" * 400, "seconds"),
    ],
)
def test_what_is_no_time_of_expiry_is_said(anchor: str | None, seconds: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        file_expiry(anchor, seconds, created_at=0)
