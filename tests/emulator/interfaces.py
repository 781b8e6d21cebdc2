"""One change and one question at each interface, for tests of what all of them have in common."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from orchestrator.emulator.server import Emulator
from tests.emulator.pod_service import GPU

SAVE = """mutation { saveTemplate(input: {name: "new", imageName: "me/worker:1", containerDiskInGb: 5, volumeInGb: 0})
 { id } }"""
ASK = "{ myself { podTemplates { name } } }"
WORKER = {"name": "worker", "imageName": "me/worker:1", "containerDiskInGb": 5, "volumeInGb": 0, "isServerless": True}


class Interface(msgspec.Struct, frozen=True):
    """An interface by its name in the figures, with the names of its operations for the change and the question."""

    name: str
    change: str
    question: str
    status: int = 200
    """Of an answer to the change."""

    async def change_it(self, subject: Emulator, http: httpx.AsyncClient) -> httpx.Response:
        match self.name:
            case "pods":
                return await http.post("/v2/pods", json=GPU)
            case "rest":
                template = subject.account.templates.save({**WORKER, "name": f"worker-{self.made(subject)}"})
                return await http.post("/v1/endpoints", json={"templateId": template.id})
            case "rest_v2":
                return await http.post("/v2/templates", json={"name": "new", "image": "me/worker:1"})
            case "graphql":
                return await http.post("/graphql", json={"query": SAVE})
            case _:
                return await http.post("/v2/ep/run", json={"input": {"n": 1}})

    async def ask_it(self, http: httpx.AsyncClient) -> httpx.Response:
        match self.name:
            case "pods":
                return await http.get("/v2/pods")
            case "rest":
                return await http.get("/v1/endpoints")
            case "rest_v2":
                return await http.get("/v2/templates")
            case "graphql":
                return await http.post("/graphql", json={"query": ASK})
            case _:
                return await http.get("/v2/ep/health")

    def made(self, subject: Emulator) -> int:
        """How many changes there have been."""
        match self.name:
            case "pods":
                return len(subject.account.pods.list("user", subject.clock.now()))
            case "rest":
                return len(subject.account.endpoints.list())
            case "graphql" | "rest_v2":
                return len(subject.account.templates.list())
            case _:
                return len(subject.world.table.by_id)

    def sentence(self, answer: httpx.Response) -> str:
        """The sentence of an error in the interface's own form."""
        body: Mapping[str, Any] = answer.json()
        match self.name:
            case "pods" | "rest_v2":
                assert (body["status"], answer.headers["content-type"]) == (
                    answer.status_code,
                    "application/problem+json",
                )
                return str(body["detail"])
            case "rest":
                assert body["status"] == answer.status_code
                return str(body["error"])
            case "graphql":
                return str(body["errors"][0]["message"])
            case _:
                return str(body["error"])


JOBS = Interface("jobs", "run", "health")
ACCOUNT = (
    Interface("pods", "create", "list", 201),
    Interface("rest", "create", "list"),
    Interface("rest_v2", "templates create", "templates list", 201),
    Interface("graphql", "document", "document"),
)
EVERY = (JOBS, *ACCOUNT)
