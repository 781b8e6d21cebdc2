"""Reads the body of a `/run` or `/runsync`; the contract's rules for it live here."""

import msgspec

from orchestrator.emulator.answers import Refusal
from orchestrator.emulator.jobs import Submission
from orchestrator.units import SECOND_US

MILLISECOND = SECOND_US // 1000
DAY_MS = 86_400_000

EXECUTION_TIMEOUT_MS_DEFAULT = 600_000
EXECUTION_TIMEOUT_MS_RANGE = (5_000, 7 * DAY_MS)
TTL_MS_DEFAULT = DAY_MS
TTL_MS_RANGE = (10_000, 7 * DAY_MS)

NULL = msgspec.Raw(b"null")


class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    execution_timeout: int = EXECUTION_TIMEOUT_MS_DEFAULT
    low_priority: bool = False
    ttl: int = TTL_MS_DEFAULT


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    """Unknown keys are dropped, as the service does (as observed)."""

    input: msgspec.Raw
    webhook: str | None = None
    policy: _Policy | None = None
    s3_config: msgspec.Raw = NULL  # msgspec decodes no union with Raw in it


_BODY = msgspec.json.Decoder(_Body)


def parse_submission(raw: bytes, *, is_sync: bool = False) -> Submission:
    """The submission in the body of a `/run`, or of a `/runsync`.

    Raises Refusal 400, with a sentence, for whatever the contract forbids.
    """
    body = _decode(raw)
    policy = body.policy or _Policy()
    _check_range("policy.executionTimeout", policy.execution_timeout, EXECUTION_TIMEOUT_MS_RANGE)
    _check_range("policy.ttl", policy.ttl, TTL_MS_RANGE)
    if body.webhook is not None and not body.webhook.startswith(("http://", "https://")):
        raise Refusal(400, "webhook must be an http or https URL")
    return Submission(
        input=_object("input", body.input),
        webhook=body.webhook,
        s3_config=None if bytes(body.s3_config) == b"null" else _object("s3Config", body.s3_config),
        ttl_us=policy.ttl * MILLISECOND,
        execution_timeout_us=policy.execution_timeout * MILLISECOND,
        low_priority=policy.low_priority,
        is_sync=is_sync,
    )


def _decode(raw: bytes) -> _Body:
    try:
        raw.decode()  # msgspec does not look inside the strings of what stays raw, and JSON is UTF-8
        return _BODY.decode(raw)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"bad request: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(400, "bad request: the body is not valid JSON") from None


def _check_range(name: str, value: int, bounds: tuple[int, int]) -> None:
    low, high = bounds
    if not low <= value <= high:
        raise Refusal(400, f"{name} must be between {low} and {high} milliseconds, not {value}")


def _object(name: str, raw: msgspec.Raw) -> bytes:
    value = bytes(raw).strip()  # a copy: the Raw itself would keep the whole request alive
    if not value.startswith(b"{"):
        raise Refusal(400, f"{name} must be a JSON object")
    return value
