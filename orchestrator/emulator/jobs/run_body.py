"""Reads the body of a `/run` or `/runsync`; the contract's rules for it live here."""

from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.jobs import RunBody
from orchestrator.units import SECOND_US

MILLISECOND = SECOND_US // 1000
DAY_MS = 86_400_000

EXECUTION_TIMEOUT_MS_RANGE = (5_000, 7 * DAY_MS)
TTL_MS_DEFAULT = DAY_MS
TTL_MS_RANGE = (10_000, 7 * DAY_MS)

NULL = msgspec.Raw(b"null")

T = TypeVar("T")


class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    execution_timeout: int | None = None
    low_priority: bool = False
    ttl: int = TTL_MS_DEFAULT


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    """Unknown keys are dropped, as the service does (as observed)."""

    input: msgspec.Raw
    webhook: str | None = None
    policy: _Policy | None = None
    s3_config: msgspec.Raw = NULL  # msgspec decodes no union with Raw in it


_BODY = msgspec.json.Decoder(_Body)


def parse_submission(raw: bytes, *, is_sync: bool = False) -> RunBody:
    """The submission in the body of a `/run`, or of a `/runsync`.

    Raises Refusal 400, with a sentence, for whatever the contract forbids.
    """
    body = decoded(raw, _BODY)
    policy = body.policy or _Policy()
    timeout_ms = policy.execution_timeout
    if timeout_ms is not None:
        _check_range("policy.executionTimeout", timeout_ms, EXECUTION_TIMEOUT_MS_RANGE)
    _check_range("policy.ttl", policy.ttl, TTL_MS_RANGE)
    if body.webhook is not None and not _is_url(body.webhook):
        raise ServiceRefusal(400, "webhook must be an http or https URL with a host")
    return RunBody(
        input=json_object("input", body.input),
        webhook=body.webhook,
        s3_config=None if bytes(body.s3_config) == b"null" else _s3_config(body.s3_config),
        ttl_us=policy.ttl * MILLISECOND,
        execution_timeout_us=None if timeout_ms is None else timeout_ms * MILLISECOND,
        low_priority=policy.low_priority,
        is_sync=is_sync,
    )


def decoded(raw: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """The body as `decoder` reads it. Raises ServiceRefusal 400."""
    try:
        raw.decode()  # msgspec does not look inside the strings of what stays raw, and JSON is UTF-8
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise ServiceRefusal(400, f"bad request: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ServiceRefusal(400, "bad request: the body is not valid JSON") from None


def _check_range(name: str, value: int, bounds: tuple[int, int]) -> None:
    low, high = bounds
    if not low <= value <= high:
        raise ServiceRefusal(400, f"{name} must be between {low} and {high} milliseconds, not {value}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _s3_config(raw: msgspec.Raw) -> bytes:
    value = json_object("s3Config", raw)
    members = _decoded(value)
    for name in ("accessId", "accessSecret", "bucketName", "endpointUrl"):
        if not isinstance(members.get(name), str | None):
            raise ServiceRefusal(400, f"s3Config.{name} must be a string")
    return value


def _decoded(value: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(value, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise ServiceRefusal(400, "s3Config is nested too deeply") from None


def json_object(name: str, raw: msgspec.Raw) -> bytes:
    """The bytes of what is to be an object. Raises ServiceRefusal 400, naming it."""
    value = bytes(raw).strip()  # a copy: the Raw itself would keep the whole request alive
    if not value.startswith(b"{"):
        raise ServiceRefusal(400, f"{name} must be a JSON object")
    return value
