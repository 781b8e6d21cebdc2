"""What each endpoint of the emulator is: with a queue or load balancing, and who runs its workers."""

from collections.abc import Collection

import msgspec

from orchestrator.emulator.account.endpoints import EndpointStore, ServiceEndpoint
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.http.gate import ANY_ENDPOINT, KnownEndpoints
from orchestrator.emulator.jobs.endpoint_table import endpoint_of
from orchestrator.emulator.jobs.scaling_rules import Scaler, Scaling, fixed


class EndpointKinds(KnownEndpoints):
    """By `settings`, and for endpoints of the account by what `created` knows."""

    def __init__(self, settings: EmulatorSettings, created: EndpointStore) -> None:
        self._settings = settings
        self._created = created
        any_endpoint = [ANY_ENDPOINT] if settings.command or settings.any_endpoint else []
        super().__init__((*settings.endpoints, *self._named_balancers(), *any_endpoint))

    def serves(self, endpoint: str, now: int) -> bool:
        return super().serves(endpoint, now) or self._created.serves(endpoint, now)

    def propagates(self, endpoint: str, now: int) -> bool:
        return self._created.propagates(endpoint, now)

    def balances(self, endpoint: str) -> bool:
        return endpoint in self._named_balancers() or self._created.balances(endpoint)

    def runs_processes(self, endpoint: str) -> bool:
        """Whether its workers are processes that the emulator starts."""
        return self._settings.command is not None and not self.balances(endpoint_of(endpoint))

    def announces_itself(self, endpoint: str) -> bool:
        """Whether its workers say when they are ready, since they are neither handlers nor applications of ours."""
        settings = self._settings
        ours = settings.http_endpoints if self.balances(endpoint) else settings.endpoints
        return endpoint not in ours and ANY_ENDPOINT not in ours

    def default_scaling(self, endpoint: str) -> tuple[Scaling, bool]:
        """How an endpoint scales that nobody has deployed, and whether its workers announce themselves."""
        if endpoint != endpoint_of(endpoint):
            return self.startable(endpoint_of(endpoint), fixed(self._settings.batch.workers))
        scaling = self._settings.scaling or fixed(self._settings.workers)
        if self.balances(endpoint):
            scaling = msgspec.structs.replace(scaling, scaler=Scaler.REQUEST_COUNT)
        return self.startable(endpoint, scaling)

    def startable(self, endpoint: str, scaling: Scaling) -> tuple[Scaling, bool]:
        """`scaling`, or none where nobody here can start workers, and whether workers announce themselves."""
        announced = self.announces_itself(endpoint)
        return (fixed(0) if announced and not self.runs_processes(endpoint) else scaling), announced

    def scaling_of(self, endpoint: ServiceEndpoint) -> Scaling:
        """How an endpoint of the account scales; without an available GPU no worker can start."""
        has_gpu = self._created.gpu_of(endpoint.id) is not None
        of_all = self._settings.scaling or Scaling()
        return Scaling(
            workers_min=endpoint.workers_min if has_gpu else 0,
            workers_max=endpoint.workers_max if has_gpu else 0,
            idle_timeout_s=endpoint.idle_timeout,
            scaler=Scaler(endpoint.scaler_type),
            scaler_value=endpoint.scaler_value,
            cold_start_s=of_all.cold_start_s,
            machines=of_all.machines,
            restarts=of_all.restarts,
        )

    def _named_balancers(self) -> Collection[str]:
        return self._settings.http_endpoints.keys() - {ANY_ENDPOINT}
