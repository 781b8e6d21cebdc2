"""What runs need of an account's pods: to have them made of a template, started, stopped and listed, with their prices.

As with endpoints (`account.run_endpoints`), where the URL of the older REST interface is that of the public service the
newer one, which has pods, is at its own address there; else both are at the same one.
"""

from typing import Final

import msgspec

from orchestrator.account.endpoints.gpu_pools import gpu_types
from orchestrator.account.name_lookup import id_of
from orchestrator.account.pods.pod_record import Pod
from orchestrator.account.pods.pods import Pods
from orchestrator.account.pods.specs import CpuRequest, GpuRequest, PodCreate
from orchestrator.account.transport.fallback import PUBLIC
from orchestrator.account.transport.rest_client import ProblemError, Rest
from orchestrator.client import Service
from orchestrator.core.gates.costs import Price
from orchestrator.core.pods.pod_lease import ListedPod
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.errors import UsageError

_NOT_FOUND: Final = 404


class _Template(msgspec.Struct):
    id: str
    name: str
    serverless: bool = False
    ports: list[str] | None = None


class _GpuPrice(msgspec.Struct):
    secure: float | None = None
    community: float | None = None


class _Gpu(msgspec.Struct):
    id: str
    price: _GpuPrice = msgspec.field(default_factory=_GpuPrice)


class _CpuPrice(msgspec.Struct):
    per_vcpu: float | None = msgspec.field(default=None, name="securePerVcpu")


class _Cpu(msgspec.Struct):
    id: str
    price: _CpuPrice = msgspec.field(default_factory=_CpuPrice)


_template: Final = msgspec.json.Decoder(_Template)
_flavor: Final = msgspec.json.Decoder(_Cpu)


class RunPods:
    """The pods of the account whose key `service` has, by REST v2. Calls raise `OrchestratorError`: `RefusedError` of a
    status below 500, `NotSent` and `UsageError` where nothing was done; with others, that is not known.
    """

    def __init__(self, service: Service, rest_url: str) -> None:
        """Raises `UsageError` for a URL that is none, or without a key."""
        is_public = rest_url.rstrip("/") == PUBLIC[Interface.V1]
        self._rest = Rest(service, PUBLIC[Interface.V2] if is_public else rest_url)
        self._pods = Pods(self._rest)

    async def template_id(self, template: PodTemplate) -> str:
        """The id of the account's template that `template` names. Raises `UsageError` where no pod of it could work."""
        known = await self._rest.all("templates list", "/v2/templates", "templates", _template.decode)
        found_id = id_of("template", template.template, known)
        found = next(each for each in known if each.id == found_id)
        if found.serverless:
            raise UsageError(f"the template {found.name} is for serverless endpoints, and not for pods")
        if f"{template.port}/http" not in (found.ports or ()):
            raise UsageError(
                f"the template {found.name} has no HTTP port {template.port}: its ports are"
                f" {', '.join(found.ports or ()) or 'none'}"
            )
        return found_id

    async def price(self, template: PodTemplate) -> Price | None:
        """What a pod of `template` costs in an hour, as the catalog says of its hardware; where it may be of either
        cloud, the dearer one counts. None where the catalog does not have it.
        """
        if template.gpu is None:
            flavors = await self._rest.all("catalog cpus", "/v2/catalog/cpus", "cpus", _flavor.decode)
            per_vcpu = next((each.price.per_vcpu for each in flavors if each.id == template.cpu), None)
            return None if per_vcpu is None else _priced(per_vcpu, template.vcpus, f"vCPUs of {template.cpu}")
        found = next((each.price for each in await gpu_types(self._rest, _Gpu) if each.id == template.gpu), _GpuPrice())
        wanted = {"SECURE": (found.secure,), "COMMUNITY": (found.community,)}
        of_cloud = wanted.get(template.cloud or "", (found.secure, found.community))
        amounts = [each for each in of_cloud if each is not None]
        return _priced(max(amounts), template.gpu_count, template.gpu) if amounts else None

    async def all(self) -> list[ListedPod]:
        """All that there are, but for members of clusters."""
        return [_seen(pod) for pod in await self._pods.list()]

    async def show(self, pod: str) -> ListedPod | None:
        """The pod of that id; None where there is none."""
        try:
            return _seen(await self._pods.show(pod))
        except ProblemError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def create(self, name: str, template: PodTemplate, template_id: str) -> ListedPod:
        """Makes one that is called so."""
        spec = PodCreate(
            name=name,
            template_id=template_id,
            gpu=msgspec.UNSET if template.gpu is None else GpuRequest(id=template.gpu, count=template.gpu_count),
            cpu=msgspec.UNSET if template.cpu is None else CpuRequest(id=template.cpu, vcpu_count=template.vcpus),
            cloud=msgspec.UNSET if template.cloud is None else template.cloud,
            data_center_ids=template.data_centers or msgspec.UNSET,
        )
        return _seen(await self._pods.create(spec))

    async def start(self, pod: str) -> None:
        """Boots one that rests."""
        await self._pods.start(pod)

    async def stop(self, pod: str) -> None:
        """Releases its compute; its disk is kept."""
        await self._pods.stop(pod)

    async def terminate(self, pod: str) -> None:
        """Deletes it for good."""
        await self._pods.terminate(pod)


def _priced(amount: float, count: int, what: str) -> Price:
    return Price(amount * count, f"as the catalog says of {what if count == 1 else f'{count} {what}'}")


def _seen(pod: Pod) -> ListedPod:
    return ListedPod(id=pod.id, name=pod.name, status=pod.status, per_hour=pod.cost)
