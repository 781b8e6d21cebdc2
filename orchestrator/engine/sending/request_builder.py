"""The body of a `POST /run`: the stored input spliced in unchanged, with policy, object storage and webhook."""

from collections.abc import Callable, Mapping

import msgspec

from orchestrator.core.notice import hook_url, token
from orchestrator.core.policy import TTL_MS_DEFAULT, Policy, decode_policy, encode_policy, merge_policies
from orchestrator.core.s3_config import decode_s3_config, resolve_s3_config
from orchestrator.ledger import Claim
from orchestrator.ledger.payloads import Payload
from orchestrator.settings import RunSettings

NO_POLICY = Policy()


class RequestBuilder:
    """Makes bodies for the submissions of one run.

    `settings` is asked each time: a changed policy applies from the next submission. `webhook` is the key and the base
    URL under which the service reaches the listener, or None. Secrets are looked up in `environ` now, at the last
    moment, and stand in nothing that is kept.
    """

    def __init__(
        self, settings: Callable[[], RunSettings], environ: Mapping[str, str], webhook: tuple[bytes, str] | None
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._webhook = webhook

    def ttl_us(self, payload: Payload) -> int:
        """The TTL under which a job with this payload is sent, in microseconds."""
        return (self._policy(payload).ttl_ms or TTL_MS_DEFAULT) * 1000

    def body(self, claim: Claim) -> bytes:
        """The complete body for `claim`. Raises `MissingVariables` where an environment variable is gone."""
        payload = claim.payload
        parts = [b'{"input":', payload.input]
        if (policy := self._policy(payload)) != NO_POLICY:
            parts += [b',"policy":', encode_policy(policy)]
        if payload.s3_config is not None:
            resolved = resolve_s3_config(decode_s3_config(payload.s3_config), self._environ)
            parts += [b',"s3Config":', msgspec.json.encode(resolved)]
        if self._webhook is not None and claim.job.submission is not None:
            key, base = self._webhook
            parts += [b',"webhook":"', hook_url(base, token(key, claim.job.submission)).encode(), b'"']
        parts.append(b"}")
        return b"".join(parts)

    def is_set(self, name: str) -> bool:
        """Whether the environment variable `name` is set."""
        return bool(self._environ.get(name))

    def _policy(self, payload: Payload) -> Policy:
        policy = self._settings().policy
        return policy if payload.policy is None else merge_policies(policy, decode_policy(payload.policy))
