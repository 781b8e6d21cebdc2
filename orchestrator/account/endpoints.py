"""Serverless endpoints: create, list, show, update and delete them (contract, Endpoint; REST v1).

The contract shows `POST {rest_url}/v1/endpoints` and the fields of its body; the other operations are those of the same
public interface. Answers are documented nowhere: what is known of a record is typed, the whole of it is kept in `raw`,
and what has an unexpected type is left at its default.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from orchestrator.account.rest import Rest, decoded
from orchestrator.client.records import known_members
from orchestrator.client.refusals import AnswerError
from orchestrator.client.serverless import checked_id
from orchestrator.core.responses import Answer
from orchestrator.errors import UsageError

NAME_CHARS_MAX: Final = 191
IDLE_TIMEOUT_S_MAX: Final = 3600

_one: Final = msgspec.json.Decoder(dict[str, Any])
_many: Final = msgspec.json.Decoder(list[dict[str, Any]])

_PATH: Final = "/v1/endpoints"


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an endpoint is to be: the fields of the contract's create request. To update, only those that change."""

    name: str | None = None
    template_id: str | None = None
    """Of a serverless template. Required to create."""
    gpu_type_ids: tuple[str, ...] | None = None
    """In order of priority: the first that is available is allocated, otherwise the next one."""
    workers_min: int | None = None
    workers_max: int | None = None
    idle_timeout: int | None = None
    """Seconds, 1 to 3600. The contract shows neither type nor unit; these are the public interface's."""


class EndpointRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint as the service shows it."""

    id: str
    name: str = ""
    template_id: str | None = None
    gpu_type_ids: tuple[str, ...] = ()
    workers_min: int | None = None
    workers_max: int | None = None
    idle_timeout: int | None = None
    """Seconds."""
    created_at: str | None = None
    raw: Mapping[str, Any] = {}
    """All that came, under its own names."""


class Endpoints:
    """The account's endpoints.

    Calls raise `ProblemError` for what the service refuses, `AnswerError` for an answer that cannot be read, `NotSent`
    and `Unanswered`; and `UsageError` for what breaks a rule, before anything is sent.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def __repr__(self) -> str:
        return f"Endpoints({self._rest!r})"

    async def create(self, spec: EndpointSpec, *, more: Mapping[str, object] | None = None) -> EndpointRecord:
        """Creates an endpoint; it may take a while until the job API knows it.

        `more` are fields of the service's that the contract does not show, under their own names.
        """
        if not spec.template_id:
            raise UsageError("an endpoint is created from a template; none was named")
        check_endpoint(spec)
        doing = "endpoints create"
        return _record(doing, await self._rest.post(doing, _PATH, _body(spec, more)), changed=True)

    async def list(self) -> tuple[EndpointRecord, ...]:
        """All endpoints, in the service's order."""
        doing = "endpoints list"
        answer = await self._rest.get(doing, _PATH)
        records = decoded(doing, answer, _many.decode)
        return tuple(_read_record(doing, record) for record in records)

    async def show(self, endpoint_id: str) -> EndpointRecord:
        """One endpoint."""
        doing = f"endpoints show {endpoint_id}"
        return _record(doing, await self._rest.get(doing, _path(endpoint_id)))

    async def update(
        self, endpoint_id: str, spec: EndpointSpec, *, more: Mapping[str, object] | None = None
    ) -> EndpointRecord:
        """Changes what `spec` and `more` name, and nothing else. Active workers may have to be restarted."""
        check_endpoint(spec)
        body = _body(spec, more)
        if body == b"{}":
            raise UsageError("nothing was named that should change")
        doing = f"endpoints update {endpoint_id}"
        return _record(doing, await self._rest.patch(doing, _path(endpoint_id), body), changed=True)

    async def delete(self, endpoint_id: str) -> None:
        """Deletes an endpoint for good, with its logs and job history; what is queued or runs is cancelled."""
        await self._rest.delete(f"endpoints delete {endpoint_id}", _path(endpoint_id))


def check_endpoint(spec: EndpointSpec) -> None:
    """Raises `UsageError` with everything that is wrong with `spec`."""
    problems = list(_problems(spec))
    if problems:
        raise UsageError(f"the endpoint: {'; '.join(problems)}")


def _problems(spec: EndpointSpec) -> Iterator[str]:
    if spec.name is not None and not 1 <= len(spec.name) <= NAME_CHARS_MAX:
        yield f"its name must have 1 to {NAME_CHARS_MAX} characters"
    if spec.template_id == "":
        yield "its template's id is empty"
    gpus = spec.gpu_type_ids
    if gpus is not None and (not gpus or not all(gpus) or len(set(gpus)) < len(gpus)):
        yield "the GPU types must be at least one, each once"
    at_least, at_most = spec.workers_min, spec.workers_max
    if (at_least is not None and at_least < 0) or (at_most is not None and at_most < 0):
        yield "workers cannot be fewer than 0"
    elif at_least is not None and at_most is not None and at_least > at_most:
        yield f"at least {at_least} workers are more than at most {at_most}"
    if spec.idle_timeout is not None and not 1 <= spec.idle_timeout <= IDLE_TIMEOUT_S_MAX:
        yield f"the idle time-out must be 1 to {IDLE_TIMEOUT_S_MAX} seconds"


def _body(spec: EndpointSpec, more: Mapping[str, object] | None) -> bytes:
    return msgspec.json.encode({**(more or {}), **msgspec.to_builtins(spec)})


def _path(endpoint_id: str) -> str:
    return f"{_PATH}/{checked_id(endpoint_id, 'endpoint')}"


def _record(doing: str, answer: Answer, *, changed: bool = False) -> EndpointRecord:
    return _read_record(doing, decoded(doing, answer, _one.decode, changed=changed))


def _read_record(doing: str, raw: Mapping[str, Any]) -> EndpointRecord:
    """The record, leniently. Raises `AnswerError` where it has no id: nothing could be done with it."""
    known, _ = known_members(EndpointRecord, raw)
    if "id" not in known:
        raise AnswerError(f"{doing}: the service answered with an endpoint that has no id")
    return EndpointRecord(**known, raw=raw)
