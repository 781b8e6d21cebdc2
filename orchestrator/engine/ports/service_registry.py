"""The services that a process reaches, one client for each service URL; embedded ones are begun here, too."""

from collections.abc import Callable, Mapping
from typing import Any

from anyio.abc import TaskGroup
from msgspec.structs import replace

from orchestrator.client import ServerlessEndpoint, Service
from orchestrator.client.http.open_files import requests_part
from orchestrator.client.jobs.allowance import for_an_owner, within_connections
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.pools.member import is_member
from orchestrator.core.service.endpoint_headers import NO_HEADERS
from orchestrator.core.service.profiles import address_of, is_by_url, is_same_account
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.service.url_endpoints import PODS, is_pods, is_url
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import LOCAL_ENDPOINT
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import UsageError
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.sites.site import Ownership
from orchestrator.settings.connection_settings import ConnectionSettings, own_keys, place_for, whose
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL


class ServiceRegistry:
    """Opens the service of a run when it is first asked for, and closes all of them. Embedded ones live in `outer`."""

    def __init__(
        self,
        connection: ConnectionSettings,
        dependencies: Dependencies,
        console: Console,
        outer: TaskGroup,
        *,
        ownership: Ownership | None = None,
    ) -> None:
        self._ownership = ownership
        self._connection = connection
        self._dependencies = dependencies
        self._console = console
        self._outer = outer
        self._open_files = dependencies.open_files()
        self.connections = requests_part(self._open_files, listens=connection.listen is not None)
        """How many requests there may be at once, by the files that the process may have open."""

        self.requests_per_worker = connection.requests_per_worker
        """The factor of the dynamic rule, where the user has set it (contract, Limits)."""

        self.rest_url = connection.rest_url
        """Where the REST interface is that goes with the account."""

        self.functions: dict[str, Callable[[dict[str, Any]], Any]] = {}
        """Functions of this program's, by the endpoints that stand for them: these need no file to be loaded from."""

        self.secret_variables: frozenset[str] = frozenset()
        """Further variables that hold a secret of ours, as pipelines name them."""

        self.own_runs: set[int] = set()
        """The numbers of runs that this process was given: where one runs a function, that is run here."""

        self._services: dict[str, Service] = {}

    def use_key_for(self, service_url: str) -> None:
        """The API key is the one for the service at that URL, unless that is another account's."""
        is_service = service_url != LOCAL and not is_by_url(service_url)
        if is_service and is_same_account(service_url, self._connection.serverless_url):
            self._connection = replace(self._connection, serverless_url=service_url)

    def is_reachable(self, run: Run) -> bool:
        """Whether there is a key for its service. An embedded service is begun for a run that is asked for only."""
        return run.service_url != LOCAL and self._can_reach(run.service_url)

    def check_reach(self, run: Run) -> None:
        """Raises `UsageError` where no process but another one can serve `run`."""
        if run.service_url == LOCAL:
            if run.id in self.own_runs:
                return
            raise UsageError(
                f"{run.endpoint} is a function that only a process of its own can run, once nobody works on this ledger"
            )
        if self.is_reachable(run):
            return
        if not is_same_account(run.service_url, self._connection.serverless_url):
            raise UsageError(f"{run.name} {whose(run.service_url)}; the process that works on this ledger has another")
        raise UsageError(
            f"the process that works on this ledger has no API key for {run.service_url}; stop it, and begin it"
            f" with <setting service-key={run.service_url}=env:NAME>"
        )

    def moved(self, run: Run, endpoint: str) -> Run:
        """`run` as it would be at `endpoint`. Raises `UsageError` where no job of it can be sent again there."""
        if run.service_url == LOCAL:
            raise UsageError(f"{run.name} runs a function of yours, and has no other endpoint")
        if is_url(endpoint) is not is_by_url(run.service_url) and not is_member(endpoint, run.settings.members):
            raise UsageError(
                f"{run.name} is at {run.endpoint}: jobs go from the service to no URL, nor the other way, but to a"
                " member of its pool"
            )
        return placed_at(run, endpoint)

    async def endpoint_of(self, run: Run, settings: RunSettings) -> ServerlessEndpoint:
        """The endpoint of `run`. Raises `UsageError` where it has none, as of a function that cannot be loaded."""
        is_local = run.service_url == LOCAL
        name = run.endpoint if is_local else run.service_url
        if name not in self._services:
            self._services[name] = await self._embedded(run, settings) if is_local else self._real(name)
        service = self._services[name]
        if settings.pod_template is not None and not is_pods(run.endpoint):  # what is said of all pods is of each
            said = service.endpoint_headers.get(f"{PODS}{settings.pod_template.name}", NO_HEADERS)
            service.endpoint_headers = {**service.endpoint_headers, run.endpoint: said}
        return service.endpoint(LOCAL_ENDPOINT if is_local else run.endpoint).api

    def forget(self, api: ServerlessEndpoint) -> None:
        """An endpoint is not served here any more: nothing is kept of how its limits stood."""
        for service in self._services.values():
            service.forget(api)

    def account_url(self, place: str) -> str:
        """The URL of the service whose account what is at `place` belongs to: the one that is reached here, where that
        is a URL of its own.
        """
        return self._connection.serverless_url if is_by_url(place) else place

    def at(self, service_url: str) -> Service | None:
        """The service at that URL; None where there is no key for it."""
        if not self._can_reach(service_url):
            return None
        if service_url not in self._services:
            self._services[service_url] = self._real(service_url)
        return self._services[service_url]

    def needed(self, service_url: str) -> Service:
        """The service at that URL. Raises `UsageError` where there is no key for it."""
        service = self.at(service_url)
        if service is None:
            raise UsageError(f"there is no API key for {service_url}")
        return service

    async def aclose(self) -> None:
        """Closes all connections."""
        while self._services:
            _, service = self._services.popitem()
            await service.aclose()

    def api_keys(self) -> dict[str, str]:
        """All that there are, by the URL of their service; "" for the one that needs no name."""
        further = self._connection.keys
        return {"": self._connection.api_key} | {url: key for url in further if (key := self._key_for(url))}

    def part_of(self, limits: Mapping[Operation, Limit]) -> dict[Operation, Limit]:
        """What of an endpoint's `limits` this process may use, by its connections, and by whether another one may take
        its place.
        """
        within = within_connections(limits, self.connections)
        return within if self._ownership is None else for_an_owner(within)

    def row_variables(self, settings: RunSettings) -> RowVariables:
        """The environment variables that rows of a run with these settings may have; none of our own keys is among
        them.
        """
        environ = self._dependencies.environ
        return RowVariables(environ, settings.allow_env, own_keys(self._connection, environ, self.secret_variables))

    def _key_for(self, url: str) -> str:
        return self._connection.key_for(url, self._dependencies.environ)

    def _can_reach(self, place: str) -> bool:
        return self._connection.can_reach(place, self._dependencies.environ)

    def _real(self, url: str) -> Service:
        self._warn_of_few_files(within_connections(self._connection.limits, self.connections))
        limits = self.part_of(self._connection.limits)
        connection = replace(self._connection.reaching(url, self._dependencies.environ), limits=limits)
        service = self._dependencies.service(connection, self._dependencies.clock)
        if self._ownership is not None:
            service.ask_first(self._ownership.may_leave)
        if is_by_url(url):
            service.further_keys = {address_of(each): key for each, key in self.api_keys().items() if each}
        return service

    async def _embedded(self, run: Run, settings: RunSettings) -> Service:
        from orchestrator.engine.ports.embedded_service import EmbeddedService  # noqa: PLC0415  no other run needs the emulator

        function = self.functions.get(run.endpoint)
        embedded = EmbeddedService(run.endpoint, self._connection, settings, self._dependencies.clock, function)
        await self._outer.start(embedded.serve)
        return embedded.service

    def _warn_of_few_files(self, granted: dict[Operation, Limit]) -> None:
        """Says which limits are less than what was asked for, since each request takes an open file."""
        wanted = self._connection.limits
        bounded = [f"{granted[each].concurrent:,} to /{each}" for each in wanted if granted[each] != wanted[each]]
        if bounded and not self._services:
            self._console.warn(
                f"the system lets this process open {self._open_files:,} files: no more requests at once than "
                f"{', '.join(bounded)}; a higher limit (ulimit -Hn) lets more go"
            )


def placed_at(run: Run, endpoint: str) -> Run:
    """`run` as it would be at `endpoint`, which may be a URL; nothing of it is written."""
    return replace(run, service_url=place_for(endpoint, run.service_url), endpoint=endpoint)
