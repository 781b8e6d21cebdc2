"""The body of a single request by hand, checked before it is sent (contract, Job request body; Limits)."""

from collections.abc import Mapping
from typing import Final

import httpx
import msgspec

from orchestrator.core.service.s3_config import S3Config
from orchestrator.core.text.durations import Policy, encode_policy, policy_problems
from orchestrator.errors import UsageError
from orchestrator.units import MIB

RUN_BODY_BYTES_MAX: Final = 10 * MIB
RUNSYNC_BODY_BYTES_MAX: Final = 20 * MIB
"""The largest bodies that the service takes; the contract names none, the service's documentation does."""

WAIT_MS_MIN: Final = 1_000
WAIT_MS_MAX: Final = 300_000
"""How long a `/runsync` may be told to wait."""

_NO_POLICY: Final = Policy()

JobInput = Mapping[str, object] | bytes
"""A job's input: an object, or the JSON text of one, which is sent as it is."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def job_body(
    job_input: JobInput, *, policy: Policy | None, webhook: str | None, s3_config: S3Config | None, bytes_max: int
) -> bytes:
    """The complete JSON of a job request. Raises `UsageError` for what the service would not take."""
    parts = [b'{"input":', job_input_text(job_input)]
    if policy is not None and policy != _NO_POLICY:
        if problems := policy_problems(policy):
            raise UsageError("; ".join(problems))
        parts += [b',"policy":', encode_policy(policy)]
    if s3_config is not None:
        parts += [b',"s3Config":', msgspec.json.encode(s3_config)]
    if webhook is not None:
        parts += [b',"webhook":', msgspec.json.encode(_webhook(webhook))]
    body = b"".join((*parts, b"}"))
    check_size(body, bytes_max)
    return body


def check_size(body: bytes, bytes_max: int) -> None:
    """Raises `UsageError` for a body that is too large."""
    if len(body) > bytes_max:
        raise UsageError(
            f"the request has {len(body):,} bytes, over the service's limit of {bytes_max:,};"
            " put large data into storage and send its URL"
        )


def job_input_text(job_input: JobInput) -> bytes:
    """The JSON text of an input. Raises `UsageError` for what is no object, and for an empty one."""
    text = json_object_text(job_input, "the input")
    if not _members.decode(text):
        raise UsageError("the input is empty; the service would take the job and then drop it")
    return text


def json_object_text(value: JobInput, what: str) -> bytes:
    """The JSON text of an object. Raises `UsageError` for everything else, naming it as `what`."""
    try:
        text = value if isinstance(value, bytes) else msgspec.json.encode(value)
        _members.decode(text)
        text.decode()
    except (TypeError, ValueError, RecursionError):
        raise UsageError(f"{what} must be a JSON object") from None
    return text


def _webhook(url: str) -> str:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise UsageError("the webhook must be a URL that begins with http:// or https:// and names a host")
    return url


def check_wait(wait: int | None) -> None:
    """Raises `UsageError` for a wait (ms) that the service does not take."""
    if wait is not None and not WAIT_MS_MIN <= wait <= WAIT_MS_MAX:
        raise UsageError(f"wait is {wait} ms; the service takes {WAIT_MS_MIN} (1 s) to {WAIT_MS_MAX} (5 min)")
