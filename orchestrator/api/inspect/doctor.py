"""`doctor`: gathers what is known of a ledger's runs, asks their services, and has it judged (`core.diagnosis`)."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from msgspec.structs import replace

from orchestrator.api.inspect.paid_pods import paid_pods
from orchestrator.api.inspect.run_facts import free_bytes, ledger_state, run_state, wording
from orchestrator.api.inspect.server_probe import ProcessBeats, how_server_is, server_now, unseen_on_server
from orchestrator.api.inspect.service_probe import ASK_S_MAX, how_it_is, service_state, timeout_there, webhook_state
from orchestrator.api.inspect.status import picture
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.client import Service
from orchestrator.core.diagnosis.causes import Diagnosis
from orchestrator.core.diagnosis.facts import Facts, LedgerState, RunState, ServiceState, WebhookState
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.service.profiles import address_of, is_by_url, is_same_account, profile_of, with_profile
from orchestrator.core.service.url_endpoints import is_pods
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, LedgerVersionError, StorageError, UsageError, leading
from orchestrator.ledger import Ledger, may_exist, network_file_system, read_ledger, webhook_key_of
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.settings.connection_settings import PROFILE, SERVICE_KEY, ConnectionSettings, place_for
from orchestrator.settings.words_and_defaults import LOCAL

ASKED_MAX: Final = 20
"""No more endpoints than these are asked at once: a ledger may know hundreds."""

Target = tuple[str, str]
"""A service URL, and the id of an endpoint there."""


async def doctor(
    request: DoctorRequest,
    dependencies: Dependencies | None = None,
    *,
    within_s: float = ASK_S_MAX,
    network_of: Callable[[Path], str | None] = network_file_system,
) -> Diagnosis:
    """What holds up the runs that `request` names.

    `within_s` is how long a service may take to answer; `network_of` says what kind of network file system a folder is
    on. Raises `UsageError` where there is no ledger, or no such run.
    """
    given, seen = dependencies or Dependencies(), ProcessBeats()
    try:
        async with anyio.create_task_group() as beside:
            beside.start_soon(seen.watch, request.ledger, given)
            facts, not_asked = await _facts(request, given, within_s, network_of)
    except BaseExceptionGroup as group:
        raise leading(group) from group
    facts = replace(facts, server=seen.of(facts.server))
    services = [how_it_is(service) for service in facts.services if service.health is not None]
    return Diagnosis(
        findings=findings(facts),
        runs=len(facts.open_runs),
        asked=(*how_server_is(facts), *services),
        not_asked=(*unseen_on_server(facts), *not_asked),
    )


async def _facts(
    request: DoctorRequest, given: Dependencies, within_s: float, network_of: Callable[[Path], str | None]
) -> tuple[Facts, list[str]]:
    """All that is known but for who beats, and what could not be asked."""
    facts = await _of_ledger(request, given)
    if facts.ledger is not None:
        path, room = request.ledger, free_bytes(request.ledger)
        network = network_of(path.resolve().parent) if isinstance(path, Path) else None
        facts = replace(facts, ledger=replace(facts.ledger, network=network, free_bytes=room))
    services, not_asked = await _Round(request, given, within_s).asked(_targets(request, facts), _compared(facts))
    facts = replace(facts, services=services)
    try:
        facts = replace(facts, webhook=await _of_webhooks(request, facts, given, within_s))
    except (StorageError, UsageError) as error:  # the key is its owner's alone
        not_asked.append(f"the webhook URL: {error}")
    return facts, not_asked


async def _of_ledger(request: DoctorRequest, given: Dependencies) -> Facts:
    """What the ledger says, or why it cannot be read."""
    path = request.ledger
    if request.endpoint is not None and request.name is None and not may_exist(path):
        return Facts()
    try:
        async with read_ledger(path, clock=given.clock, connect=given.connect_to(path)) as ledger:
            facts = await facts_of(ledger, request.name, request.endpoint)
            return replace(facts, server=await server_now(ledger, given.clock))
    except LedgerVersionError as error:
        return Facts(ledger=LedgerState(path=str(path), newer=str(error)))
    except LedgerBusyError as error:
        return Facts(ledger=LedgerState(path=str(path), busy=str(error)))


async def _of_webhooks(
    request: DoctorRequest, facts: Facts, given: Dependencies, within_s: float
) -> WebhookState | None:
    """Whether the listener of the process at work is reached by the URL that it gives the service."""
    if not facts.is_worked_on or facts.webhook_url is None:
        return None
    key = await webhook_key_of(request.ledger, given.environ, connect=given.connect_to(request.ledger))
    return await webhook_state(facts.webhook_url, key, given.clock, within_s=within_s)


async def facts_of(ledger: Ledger, name: str | None, endpoint: str | None = None) -> Facts:
    """What the ledger says of its runs, or of one, or of those at one endpoint. Raises `UsageError` where there is no
    such run.
    """
    held_by, now = await ledger.holder_or_next(), ledger.now()
    only = None if name is None else await run_named(ledger, name)
    seen, present, safe_s = await picture(ledger, held_by, among=None if only is None else [only.id])
    runs = [run for run in seen.runs if run.accepted and endpoint in (None, run.endpoint)]
    since = await ledger.jobs.outstanding_since()

    elsewhere: dict[int, list[tuple[str, str]]] = {}
    ready = {lease.url for lease in await ledger.runs.pod_leases.all(open_only=True) if lease.ready_at is not None}
    for run in await ledger.runs.elsewhere(None if only is None else [only.id]):
        is_gone = run.settings.pod_template is not None and run.endpoint not in ready
        if run.service_url != LOCAL and not is_gone:
            elsewhere.setdefault(run.id, []).append((run.endpoint, run.service_url))

    async def state(run: Run) -> RunState:
        found = run_state(run, seen, present, safe_s.get(run.id), now)
        is_of_flow = bool(found.unfinished or found.asked) and await ledger.flows.part(run.id) is not None
        found = replace(found, elsewhere=elsewhere.get(run.id, ()), is_of_flow=is_of_flow)
        return replace(found, waited_us=now - since[run.id]) if run.id in since else found

    return Facts(
        ledger=await ledger_state(ledger, seen, held_by, now),
        webhook_url=present.webhook_url,
        raised_workers=[each.shown for each in await ledger.runs.scaling_overrides.all()],
        paid_pods=await paid_pods(ledger),
        now=now,
        runs=[await state(run) for run in runs],
        word=wording(ledger.address, {run.name: run.service_url for run in runs}),
    )


def _targets(request: DoctorRequest, facts: Facts) -> list[Target]:
    """The endpoints to ask: those of open runs, and the one that was named."""
    open_runs = [run for run in facts.open_runs if run.service_url != LOCAL]
    found = dict.fromkeys((url, at) for run in open_runs for at, url in run.places if not is_pods(at))
    if request.endpoint is not None and not found:
        return [(place_for(request.endpoint, request.connection.serverless_url), request.endpoint)]
    return list(found)


def _compared(facts: Facts) -> set[Target]:
    """The endpoints of whose settings it is to be known whether they are the same."""
    pooled = [run for run in facts.open_runs if run.timeout_ms is None]
    return {(url, at) for run in pooled for at, url in run.places if at in run.pool}


class _Round:
    """Asks endpoints how they are, each once, those of one service over the same connections."""

    def __init__(self, request: DoctorRequest, given: Dependencies, within_s: float) -> None:
        self._connection = request.connection
        self._no_account = request.no_account
        self._given = given
        self._within_s = within_s
        self._states: dict[Target, ServiceState] = {}
        self._compared: set[Target] = set()

    async def asked(self, targets: Sequence[Target], compared: set[Target]) -> tuple[list[ServiceState], list[str]]:
        """What they answered, and what could not be asked. Of those that are `compared` the account is asked, too."""
        self._compared = compared
        if self._no_account:
            return [], [f"what the services say: {self._no_account}"]
        urls = dict.fromkeys(url for url, _ in targets[:ASKED_MAX])
        not_asked = [f"{len(targets) - ASKED_MAX:,} further endpoints"] if len(targets) > ASKED_MAX else []
        is_only = sum(not is_by_url(url) for url in urls) == 1
        async with anyio.create_task_group() as group:
            for url in urls:
                connection = self._connection_to(url, is_only=is_only)
                if connection.api_key or is_by_url(url):
                    endpoints = [endpoint for of, endpoint in targets[:ASKED_MAX] if of == url]
                    group.start_soon(self._ask_service, url, connection, endpoints)
                else:
                    profile = profile_of(url)
                    how = f"set ORCHESTRATOR_API_KEY, or give {SERVICE_KEY}"
                    how = how if profile is None else f"give {PROFILE} {profile}"
                    not_asked.append(f"{with_profile(address_of(url), url)}: there is no API key for it; {how}")
        return [self._states[target] for target in targets if target in self._states], not_asked

    def _connection_to(self, url: str, *, is_only: bool) -> ConnectionSettings:
        """Where there is one service only, the API key is the one for it, as of a `resume`, if it is that account's."""
        if is_by_url(url):
            return self._connection.reaching(url, self._given.environ)
        is_only = is_only and is_same_account(url, self._connection.serverless_url)
        key = self._connection.key_for(url, self._given.environ) or (self._connection.api_key if is_only else "")
        return replace(self._connection, serverless_url=url, api_key=key)

    async def _ask_service(self, url: str, connection: ConnectionSettings, endpoints: Sequence[str]) -> None:
        async with self._given.service(connection, self._given.clock) as service, anyio.create_task_group() as group:
            for endpoint in endpoints:
                group.start_soon(partial(self._ask, service, url, endpoint))

    async def _ask(self, service: Service, url: str, endpoint: str) -> None:
        state = await service_state(service, url, endpoint, within_s=self._within_s)
        if (url, endpoint) in self._compared:
            account = partial(self._given.account, service, self._connection.rest_url)
            timeout_ms = await timeout_there(account, self._connection.rest_url, state, within_s=self._within_s)
            state = replace(state, timeout_ms=timeout_ms)
        self._states[url, endpoint] = state
