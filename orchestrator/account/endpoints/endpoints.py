"""Serverless endpoints: create, list, show, update and delete them (contract, Endpoint).

The contract shows `POST {rest_url}/v1/endpoints` and the fields of its body; the other operations and interfaces are
public ones. Whichever is spoken, what is wanted and what is shown has the names of the contract: each interface has a
form that puts it into its own words. Answers are documented nowhere: what is known of a record is typed, the whole of
it is kept in `raw`, and what has an unexpected type is left at its default.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from orchestrator.account.templates.templates import Losing, ignore
from orchestrator.account.transport.fallback import InterfaceClient, InterfaceFallback
from orchestrator.account.transport.logs import TAIL_DEFAULT, LogQuery, Tell
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.job_record import known_members
from orchestrator.errors import UsageError

NAME_CHARS_MAX: Final = 191
IDLE_TIMEOUT_S_MAX: Final = 3600


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an endpoint is to be: the fields of the contract's create request, and the time-out of its jobs. To update,
    only those that change.
    """

    name: str | None = None
    template_id: str | None = None
    """Of a serverless template. Required to create. By REST v2 an endpoint gets a copy of its own."""
    gpu_type_ids: tuple[str, ...] | None = None
    """In order of priority: the first that is available is allocated, otherwise the next one. By REST v2 and GraphQL
    also names of pools, as `AMPERE_24`."""
    workers_min: int | None = None
    workers_max: int | None = None
    idle_timeout: int | None = None
    """Seconds, 1 to 3600. The contract shows neither type nor unit; these are the public interface's."""
    execution_timeout_ms: int | None = None
    """How long an execution may take whose job does not say so itself; 0: the service's own limit."""


class EndpointRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint as the service shows it."""

    id: str
    name: str = ""
    template_id: str | None = None
    """None by REST v2, which does not say."""
    gpu_type_ids: tuple[str, ...] = ()
    """Types, or pools of them."""
    gpu_count: int | None = None
    workers_min: int | None = None
    workers_max: int | None = None
    idle_timeout: int | None = None
    """Seconds."""
    execution_timeout_ms: int | None = None
    created_at: str | None = None
    raw: Mapping[str, Any] = {}
    """All that came, under its own names."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A worker of an endpoint, as REST v2 shows it; None where the service does not say."""

    id: str
    status: str | None = None
    """`RUNNING`, `IDLE`, `INITIALIZING`, `THROTTLED`, `UNHEALTHY`, or one that nobody has heard of."""
    gpu_type_id: str | None = None
    gpu_count: int | None = None
    data_center_id: str | None = None
    is_stale: bool | None = None
    """Whether the endpoint has changed since it started."""
    uptime_seconds: int | None = None
    started_at: str | None = None
    raw: Mapping[str, Any] = {}


Fields = Mapping[str, Any]
"""What is wanted of an endpoint, under the names of REST v1, and any other field under the service's own name."""


class EndpointClient(InterfaceClient, Protocol):
    """Endpoints by one interface."""

    async def create(self, fields: Fields) -> EndpointRecord: ...

    async def list(self, limit: int | None) -> tuple[EndpointRecord, ...]: ...

    async def show(self, endpoint_id: str) -> EndpointRecord: ...

    async def update(self, endpoint_id: str, fields: Fields, losing: Losing) -> EndpointRecord: ...

    async def delete(self, endpoint_id: str) -> None: ...

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]: ...

    async def read_log(self, endpoint_id: str, worker_id: str, query: LogQuery, tell: Tell) -> None: ...


class Endpoints:
    """The account's endpoints.

    Calls raise `ProblemError` (by GraphQL `GraphQLError`) for what the service refuses, `AnswerError` for an answer
    that cannot be read, `NotSent` and `Unanswered`; and `UsageError` for what breaks a rule, before anything is sent.
    """

    def __init__(self, forms: InterfaceFallback[EndpointClient]) -> None:
        self._forms = forms

    def __repr__(self) -> str:
        return f"Endpoints({self._forms!r})"

    async def create(self, spec: EndpointSpec, *, more: Mapping[str, object] | None = None) -> EndpointRecord:
        """Creates an endpoint; it may take a while until the job API knows it.

        `more` are fields of the service's that the contract does not show: those of REST v1 under its names, whichever
        interface is spoken, any other under its own.
        """
        if not spec.template_id:
            raise UsageError("an endpoint is created from a template; none was named")
        check_endpoint(spec)
        fields = _fields(spec, more)
        return await self._forms.ask(lambda form: form.create(fields))

    async def list(self, *, limit: int | None = None) -> tuple[EndpointRecord, ...]:
        """All endpoints, in the service's order; at most `limit`."""
        return await self._forms.ask(lambda form: form.list(limit))

    async def show(self, endpoint_id: str) -> EndpointRecord:
        """One endpoint."""
        checked_id(endpoint_id, "endpoint")
        return await self._forms.ask(lambda form: form.show(endpoint_id))

    async def update(
        self,
        endpoint_id: str,
        spec: EndpointSpec,
        *,
        more: Mapping[str, object] | None = None,
        losing: Losing = ignore,
    ) -> EndpointRecord:
        """Changes what `spec` and `more` name, and nothing else. Active workers may have to be restarted.

        What it takes away all the same, `losing` is told first.
        """
        checked_id(endpoint_id, "endpoint")
        check_endpoint(spec)
        fields = _fields(spec, more)
        if not fields:
            raise UsageError("nothing was named that should change")
        return await self._forms.ask(lambda form: form.update(endpoint_id, fields, losing))

    async def delete(self, endpoint_id: str) -> None:
        """Deletes an endpoint for good, with its logs and job history; what is queued or runs is cancelled."""
        checked_id(endpoint_id, "endpoint")
        await self._forms.ask(lambda form: form.delete(endpoint_id))

    async def workers(self, endpoint_id: str) -> tuple[WorkerRecord, ...]:
        """The endpoint's workers, by REST v2 only: v1 shows keys of the service's own along with them."""
        checked_id(endpoint_id, "endpoint")
        return await self._forms.ask(lambda form: form.workers(endpoint_id))

    async def logs(
        self,
        endpoint_id: str,
        worker_id: str,
        tell: Tell,
        *,
        tail: int = TAIL_DEFAULT,
        since: datetime | None = None,
        source: str | None = None,
        follow: bool = False,
    ) -> None:
        """Has `tell` get what one of the endpoint's workers has printed, as `Pods.logs`; by REST v2 only."""
        checked_id(endpoint_id, "endpoint")
        checked_id(worker_id, "worker")
        query = LogQuery(tail=tail, since=since, source=source, follow=follow)
        await self._forms.ask(lambda form: form.read_log(endpoint_id, worker_id, query, tell))


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
    if spec.execution_timeout_ms is not None and spec.execution_timeout_ms < 0:
        yield "the execution time-out cannot be negative"


def _fields(spec: EndpointSpec, more: Mapping[str, object] | None) -> Fields:
    return {**(more or {}), **msgspec.to_builtins(spec)}


def flashboot_word(value: Any) -> Any:
    """What GraphQL and REST v2 call what v1 says by a boolean."""
    return {True: "FLASHBOOT", False: "OFF"}.get(value, value)


def read_endpoint(doing: str, members: Mapping[str, Any], raw: Mapping[str, Any] | None = None) -> EndpointRecord:
    """The record, leniently; `raw` is what came, if `members` are it in other words.

    Raises `AnswerError` where it has no id: nothing could be done with it.
    """
    known, _ = known_members(EndpointRecord, members)
    if "id" not in known:
        raise AnswerError(f"{doing}: the service answered with an endpoint that has no id")
    return EndpointRecord(**known, raw=members if raw is None else raw)
