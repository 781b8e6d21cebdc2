"""What pods are made of that work for runs: a template of the account, the hardware, and where their server listens."""

from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.units import MINUTE_US

POD_URL_DEFAULT: Final = "https://{pod}-{port}.proxy.runpod.net"
"""Where the service's proxy has a port of a pod (as published)."""

READY_WITHIN_US_DEFAULT: Final = 15 * MINUTE_US

_POD: Final = "{pod}"
_PORT: Final = "{port}"


class WhenDone(StrEnum):
    """What becomes of a pod that nobody needs any more."""

    TERMINATE = "terminate"
    """Nothing is left, and nothing more is paid."""

    STOP = "stop"
    """Its disk is kept, which is paid, and the next run begins with it."""


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As a run keeps it in its settings, and a pod of it in the ledger."""

    name: str
    """What the configuration file calls it."""

    template: str
    """That of the account: its name or id."""

    port: int
    gpu: str | None = None
    """The GPU type; None for a CPU pod."""

    gpu_count: int = 1
    cpu: str | None = None
    """The CPU flavor."""

    vcpus: int = 2
    cloud: str | None = None
    data_centers: tuple[str, ...] = ()
    url: str = POD_URL_DEFAULT
    when_done: WhenDone = WhenDone.TERMINATE
    ready_within_us: int = READY_WITHIN_US_DEFAULT
    """A pod that takes longer until its server answers is given up."""

    price_per_hour: float | None = None
    """What a pod costs, where a plan is to know it; None: as the account says."""

    def url_of(self, pod: str) -> str:
        """Where the server of the pod of that id is reached."""
        return self.url.replace(_POD, pod).replace(_PORT, str(self.port))

    def makes_the_same(self, other: "PodTemplate") -> bool:
        """Whether pods of the `other` one are such as this one makes, whatever they are called and how they end."""
        return _made(self) == _made(other)


def _made(template: PodTemplate) -> PodTemplate:
    return msgspec.structs.replace(
        template,
        name="",
        when_done=WhenDone.TERMINATE,
        ready_within_us=READY_WITHIN_US_DEFAULT,
        url=POD_URL_DEFAULT,
        price_per_hour=None,
    )


def parse_pod_url(text: str) -> str:
    """A URL with the places of a pod's id and port in it. Raises `ValueError`."""
    if not text.startswith(("http://", "https://")) or _POD not in text:
        raise ValueError(f"write a URL with {_POD} and {_PORT} in it, as in {POD_URL_DEFAULT}")
    return text.rstrip("/")
