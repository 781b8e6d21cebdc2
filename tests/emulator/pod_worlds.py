"""One pod in a world of its own, with a clock of its own."""

import random
from typing import Any

import msgspec
import pytest

from orchestrator.emulator.account.pod_bodies import Creation, Modification, parse_creation, parse_modification
from orchestrator.emulator.account.pod_records import ClusterRecord, PodPhase, PodRecord, PodVerb
from orchestrator.emulator.account.pods import PodSettings, PodWorld
from orchestrator.emulator.account.secrets import SecretStore
from orchestrator.emulator.account.templates import TemplateStore
from orchestrator.emulator.contract.answers import ProblemRefusal
from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.units import SECOND_US
from tests.emulator.pod_service import GPU, T0, SetClock

ME = "me"
SLOW = PodSettings(provisioning_s=3, starting_s=2)
CALM = Faults()


WEB = {
    "name": "web",
    "imageName": "from:template",
    "containerDiskInGb": 33,
    "volumeInGb": 0,
    "dockerArgs": "serve",
    "ports": "80/http, 22/tcp",
    "env": [{"key": "A", "value": "{{ RUNPOD_SECRET_a }}"}, {"key": "B", "value": "t"}],
    "containerRegistryAuthId": "reg",
}
WORKER = {"name": "worker", "imageName": "x:1", "containerDiskInGb": 5, "volumeInGb": 0, "isServerless": True}


class World:
    """A world with a clock of its own, and one pod in it."""

    def __init__(
        self,
        settings: PodSettings = SLOW,
        body: Any = GPU,
        *,
        cluster: ClusterRecord | None = None,
        faults: Faults = CALM,
    ) -> None:
        self.clock = SetClock()
        rng = random.Random(1)
        self.templates = TemplateStore(SecretStore(rng), rng, release_us=120 * SECOND_US)
        self.web = str(self.templates.save(WEB).id)
        self.worker = str(self.templates.save(WORKER).id)
        self.dice = FaultDice(faults, rng)
        self.world = PodWorld(settings, rng, self.templates)
        self.world.dice = self.dice
        more = {} if cluster is None else {"cluster": cluster}
        self.id = self.world.create(ME, creation(body(self) if callable(body) else body), T0, **more).id

    def get(self) -> PodRecord:
        return self.world.get(ME, self.id, self.clock.now())

    def act(self, action: PodVerb) -> PodRecord | None:
        return self.world.act(ME, self.id, action, self.clock.now())

    def modify(self, **changes: Any) -> PodRecord:
        return self.world.modify(ME, self.id, modification(changes), self.clock.now())

    def refusal(self, action: PodVerb) -> ProblemRefusal:
        with pytest.raises(ProblemRefusal) as refused:
            self.act(action)
        return refused.value


def creation(body: Any) -> Creation:
    return parse_creation(msgspec.json.encode(body))


def modification(body: Any) -> Modification:
    return parse_modification(msgspec.json.encode(body))


def seen(record: PodRecord) -> dict[str, Any]:
    wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return wire


def running(body: Any = GPU, **more: Any) -> World:
    pod = World(body={**body, **more})
    pod.clock.forward(10)
    assert pod.get().status is PodPhase.RUNNING
    return pod


def in_status(status: PodPhase) -> World:
    pod = World()
    if status is PodPhase.STARTING:
        pod.clock.forward(3)
    elif status is not PodPhase.PROVISIONING:
        pod.clock.forward(5)
        pod.get()
    if status is PodPhase.EXITED:
        pod.world.exit(pod.id, pod.clock.now())
    if status is PodPhase.ERROR:
        pod.world.fail(pod.id, pod.clock.now())
    assert pod.get().status is status
    return pod
