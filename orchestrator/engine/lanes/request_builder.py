"""The body of a `POST /run`: the stored input spliced in unchanged, with policy, object storage and webhook."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.chunks.chunk_form import TravellingRow
from orchestrator.core.jobs.escalation import escalation_of, policy_with
from orchestrator.core.jobs.segments import Resume, long_policy, resumed_input, soft_us, until_us
from orchestrator.core.lanes.openai import DirectRequest, direct_request
from orchestrator.core.lanes.via import Via
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.service.s3_config import decode_s3_config
from orchestrator.core.service.webhook_token import hook_url, token
from orchestrator.core.text.durations import (
    TTL_MS_DEFAULT,
    Policy,
    decode_policy,
    encode_policy,
    merge_policies,
)
from orchestrator.formats.templates.field_templates import remade
from orchestrator.ledger import Claim
from orchestrator.ledger.jobs.payloads import Payload
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MILLISECOND_US, SECOND_US

NO_POLICY = Policy()

KEY_CHARS: Final = 32


class UnusableInputError(Exception):
    """The input of a job cannot be made as its run wants it by now."""


def _remade(given: bytes, templates: Sequence[tuple[str, str]]) -> bytes:
    try:
        return remade(given, templates)
    except ValueError as error:
        raise UnusableInputError(str(error)) from None


def _with_input(claim: Claim) -> Claim:
    """`claim` with the input that its job was given after troubles, if it was."""
    given = claim.job.escalated
    if given is None or not (templates := escalation_of(given).templates):
        return claim
    payload = msgspec.structs.replace(claim.payload, input=_remade(claim.payload.input, templates))
    return msgspec.structs.replace(claim, payload=payload)


class Question(NamedTuple):
    """A request past the queue."""

    route: str
    """Below `/openai`, or below the URL of a server."""

    body: bytes
    within_s: float
    """How long its answer may take."""


class RequestBuilder:
    """Makes bodies for the submissions of one run.

    `settings` is asked each time: a changed policy applies from the next submission. `webhook` is the key and the base
    URL under which the service reaches the listener, or None. `run_key` tells the run from those of other ledgers, and
    `here_us` is how long a time of the service's lasts here. Secrets are looked up in `variables` now, at the last
    moment, and stand in nothing that is kept.
    """

    def __init__(
        self,
        settings: Callable[[], RunSettings],
        variables: Callable[[RunSettings], RowVariables],
        webhook: tuple[bytes, str] | None,
        *,
        run_key: str = "",
        here_us: Callable[[int], int] = int,
    ) -> None:
        self._settings = settings
        self._variables = variables
        self._webhook = webhook
        self._run_key = run_key
        self._here_us = here_us

    @property
    def via(self) -> Via:
        """How its submissions leave."""
        return self._settings().via

    def ttl_us(self, payload: Payload) -> int:
        """The TTL under which a job with this payload is sent, in microseconds; of a request past the queue, as long as
        its answer may take.
        """
        if not self.via.has_queue:
            return self._policy(payload).timeout_ms * MILLISECOND_US
        return (self._policy(payload).ttl_ms or TTL_MS_DEFAULT) * 1000

    def body(self, claim: Claim) -> bytes:
        """The complete body for `claim`. Raises `MissingVariables` where an environment variable is gone,
        `RefusedVariables` where a row may not have it, and `UnusableInputError` where its input cannot be made.
        """
        claim = _with_input(claim) if claim.job.chunk is None else self._joint(claim)
        payload, given = claim.payload, claim.job.escalated
        policy = self._policy(payload, claim.resume, given)
        parts = [b'{"input":', payload.input if claim.resume is None else self._resumed(claim, claim.resume, policy)]
        if policy != NO_POLICY:
            parts += [b',"policy":', encode_policy(policy)]
        if payload.s3_config is not None:
            resolved = self._variables(self._settings()).resolve(decode_s3_config(payload.s3_config))
            parts += [b',"s3Config":', msgspec.json.encode(resolved)]
        if self._webhook is not None and claim.job.submission is not None:
            key, base = self._webhook
            parts += [b',"webhook":"', hook_url(base, token(key, claim.job.submission)).encode(), b'"']
        parts.append(b"}")
        return b"".join(parts)

    def _joint(self, claim: Claim) -> Claim:
        """`claim` with the input of its whole chunk."""
        rows = [TravellingRow(each.custom_id, _with_input(each).payload.input) for each in claim.rows]
        payload = msgspec.structs.replace(claim.payload, input=self._settings().chunk_form.joint(rows))
        return msgspec.structs.replace(claim, payload=payload)

    def row(self, claim: Claim) -> bytes:
        """The request for `claim` in a batch, which takes nothing but an input. Raises `UnusableInputError`."""
        return b'{"input":%b}' % _with_input(claim).payload.input

    def question(self, claim: Claim) -> Question:
        """The request for `claim` past the queue. Raises `UnusableInputError` where its input is none."""
        payload = _with_input(claim).payload
        try:
            request = self._request(payload.input)
        except ValueError as error:
            raise UnusableInputError(str(error)) from None
        within_us = self._policy(payload, given=claim.job.escalated).timeout_ms * MILLISECOND_US
        return Question(request.route, request.body, self._here_us(within_us) / SECOND_US)

    def _request(self, given: bytes) -> DirectRequest:
        settings = self._settings()
        return DirectRequest(settings.path, given) if settings.via is Via.HTTP else direct_request(given)

    def is_set(self, name: str) -> bool:
        """Whether the environment variable `name` is set, and rows may have it."""
        return self._variables(self._settings()).has(name)

    def _policy(self, payload: Payload, resume: Resume | None = None, given: bytes | None = None) -> Policy:
        settings = self._settings()
        policy = settings.policy
        if payload.policy is not None:
            policy = merge_policies(policy, decode_policy(payload.policy))
        policy = policy_with(policy, given)
        if not settings.resumable:
            return policy
        executed_ms = 0 if resume is None else resume.executed_ms
        return long_policy(policy, executed_ms=executed_ms, execution_us=settings.max_execution_us)

    def _resumed(self, claim: Claim, resume: Resume, policy: Policy) -> bytes:
        """The input of a segment, with what it goes on from; its key is the same in all segments of its job."""
        key = hashlib.sha256(f"{self._run_key}/{claim.job.id}".encode()).hexdigest()[:KEY_CHARS]
        ttl_us = (policy.ttl_ms or TTL_MS_DEFAULT) * MILLISECOND_US
        return resumed_input(
            claim.payload.input,
            resume,
            key=key,
            soft_us=self._here_us(soft_us(policy)),
            until=(claim.job.sent_at or 0) + self._here_us(until_us(ttl_us)),
        )
