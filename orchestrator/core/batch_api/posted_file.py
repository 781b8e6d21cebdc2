"""Files of the Batch API: those that programs post, and those of results and errors that are made for them."""

from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.text.whole_numbers import plain_number
from orchestrator.units import SECOND_US

EXPIRES_AFTER_MIN_S: Final = 3_600
EXPIRES_AFTER_MAX_S: Final = 2_592_000
"""As there: from an hour to 30 days."""

ANCHOR: Final = "created_at"
"""What the seconds of `expires_after` count from."""

FILENAME_CHARS_MAX: Final = 200


class Purpose(StrEnum):
    """What a file is for."""

    BATCH = "batch"
    BATCH_OUTPUT = "batch_output"


class PostedFile(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One of them. Times are microseconds UTC."""

    id: str
    owner: str
    """The name of the key that it belongs to; empty where there are no keys."""

    filename: str
    """What its sender calls it. Nothing on the disk is called so."""

    purpose: Purpose
    size: int
    created_at: int
    expires_at: int | None


def clean_filename(given: str) -> str:
    """What a file is called by its sender, without folders, and without what no terminal should be given."""
    name = given.replace("\\", "/").rpartition("/")[2]
    return "".join(each for each in name if each.isprintable())[:FILENAME_CHARS_MAX] or "upload"


def file_expiry(anchor: str | None, seconds: str | int | None, *, created_at: int) -> int | None:
    """When a file expires of which that is said; None where nothing is. Raises `ValueError` in words for its author."""
    if anchor is None and seconds is None:
        return None
    if anchor != ANCHOR:
        raise ValueError(f'the anchor of expires_after is "{ANCHOR}"')
    number = plain_number(str(seconds)) or 0
    if not EXPIRES_AFTER_MIN_S <= number <= EXPIRES_AFTER_MAX_S:
        raise ValueError(f"the seconds of expires_after are from {EXPIRES_AFTER_MIN_S} to {EXPIRES_AFTER_MAX_S}")
    return created_at + number * SECOND_US
