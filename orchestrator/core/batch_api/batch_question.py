"""What a program asks for with a batch, and what of that cannot be meant."""

from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.core.batch_api.posted_file import EXPIRES_AFTER_MAX_S, file_expiry
from orchestrator.core.text.durations import parse_duration
from orchestrator.units import SECOND_US

URLS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
"""Where the requests of a batch may go."""

METADATA_PAIRS_MAX: Final = 16
METADATA_KEY_CHARS_MAX: Final = 64
METADATA_VALUE_CHARS_MAX: Final = 512

WINDOW_US_MAX: Final = EXPIRES_AFTER_MAX_S * SECOND_US


class ExpiresAfter(msgspec.Struct, frozen=True, kw_only=True):
    """When files are to expire."""

    anchor: str
    seconds: int


class BatchQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is to be made."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Mapping[str, str] | None = None
    output_expires_after: ExpiresAfter | None = None


class Misfit(ValueError):
    """A part of a question cannot be meant so."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


def window_of(question: BatchQuestion) -> int:
    """How long the batch may take, in microseconds. Raises `Misfit`."""
    try:
        window_us = parse_duration(question.completion_window)
    except ValueError as error:
        raise Misfit("completion_window", f"completion_window: {error}") from None
    if not SECOND_US <= window_us <= WINDOW_US_MAX:
        raise Misfit("completion_window", 'completion_window is from "1s" to "30d"')
    return window_us


def check_question(question: BatchQuestion) -> None:
    """Raises `Misfit` for what cannot be meant."""
    if question.endpoint not in URLS:
        raise Misfit("endpoint", f"endpoint is one of {', '.join(URLS)}")
    window_of(question)
    pairs = question.metadata or {}
    if len(pairs) > METADATA_PAIRS_MAX:
        raise Misfit("metadata", f"metadata has at most {METADATA_PAIRS_MAX} pairs")
    for key, value in pairs.items():
        if len(key) > METADATA_KEY_CHARS_MAX or len(value) > METADATA_VALUE_CHARS_MAX:
            told = (
                f"a key of metadata has at most {METADATA_KEY_CHARS_MAX} characters, a value {METADATA_VALUE_CHARS_MAX}"
            )
            raise Misfit("metadata", told)
    if (after := question.output_expires_after) is not None:
        try:
            file_expiry(after.anchor, after.seconds, created_at=0)
        except ValueError as error:
            raise Misfit("output_expires_after", str(error)) from None
