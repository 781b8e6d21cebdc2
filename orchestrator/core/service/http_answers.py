"""What came of a request: an HTTP answer, its `Retry-After` and `Date`, and what it refuses for good (401 to 404).

The HTTP status decides what an answer means. Bodies are tolerated in every form, since error bodies of the service are
documented nowhere.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from orchestrator.core.limits.service_pauses import RETRY_AFTER_S_MAX
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import shortened
from orchestrator.units import SECOND_US

HINT_CHARS_MAX: Final = 200
"""How much of an error body is shown to people."""

_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")

_any_json = msgspec.json.Decoder(object)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP answer, read to its end.

    `sent_at` is taken just before the request was handed to the transport, `answered_at` after the last byte
    (microseconds UTC); `retry_after_s` is the `Retry-After` header in seconds, if one came and made sense.
    """

    status: int
    body: bytes
    sent_at: int
    answered_at: int
    retry_after_s: float | None = None
    headers: Mapping[str, str] = {}
    """Those of the answer, whatever the case of a name; whoever needs one reads it here."""

    def with_body(self, body: bytes) -> "Answer":
        """The same answer with another body."""
        return self if body is self.body else msgspec.structs.replace(self, body=body)


class Pointless(msgspec.Struct, frozen=True):
    """No job of this run can get through until somebody changes something. `status` is that of the answer."""

    reason: str
    status: int


POINTLESS: Final = {
    401: "the service refused the API key (401)",
    402: "the account's balance does not allow it (402)",
    403: "the API key has no permission for this endpoint (403)",
    404: "the service does not know this endpoint (404)",
    405: "this address takes no such requests (405); is the service URL right?",
    407: "the proxy wants authentication (407)",
    410: "the endpoint is gone (410)",
}
"""The refusals that concern every job of a run, with what to tell the user."""

OF_THE_ADDRESS: Final = frozenset({404, 405, 410})
"""Of these the address may be to blame: who reads of them has to see it."""


def retry_after_s(headers: Mapping[str, str], now: int) -> float | None:
    """What an answer that came at `now` asks to wait, in seconds or by an HTTP date. None where it asks for nothing, or
    for what makes no sense.

    The answer's own date says by which clock it was said: ours may go an hour behind it. An hour at most: nobody
    means to be asked again in the next century.
    """
    retry_after = headers.get("retry-after", "")
    if _SECONDS.fullmatch(retry_after.strip()):
        return min(float(retry_after), RETRY_AFTER_S_MAX)
    at_s, stamped_s = _date_s(retry_after), _date_s(headers.get("date"))
    if at_s is None:
        return None
    return min(max(0.0, at_s - (now / SECOND_US if stamped_s is None else stamped_s)), RETRY_AFTER_S_MAX)


def clock_ahead_us(answer: Answer) -> int | None:
    """How far our clock is ahead of the one that has stamped `answer`, at least; negative where it is behind, 0 where
    the two may agree, None for no date or what is none.

    It was stamped between our sending and the answer, in whole seconds.
    """
    stamped_s = _date_s(answer.headers.get("date"))
    if stamped_s is None:
        return None
    stamped_at = round(stamped_s) * SECOND_US
    return max(0, answer.sent_at - stamped_at - SECOND_US) + min(0, answer.answered_at - stamped_at)


def _date_s(text: str | None) -> float | None:
    """The Unix time of an HTTP date; None where it makes no sense."""
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def hint_of(body: bytes) -> str:
    """The beginning of a JSON error body's text, for people; empty for every other body."""
    try:
        value = _any_json.decode(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        for key in ("error", "message", "detail"):
            if isinstance(text := value.get(key), str):
                return f": {shortened(summary_of(text), HINT_CHARS_MAX)}"
    return ""
