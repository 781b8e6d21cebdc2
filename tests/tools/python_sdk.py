"""The calls of the official Python SDK (1.x), each tried once; prints a line of JSON for each.

It is run in a process of its own: the SDK reads its URLs when it is imported.
"""

import os
from collections.abc import Callable

import runpod  # type: ignore[import-untyped]

from tests.tools.trying import tried

GPU = "NVIDIA GeForce RTX 4090"


def check(holds: bool) -> None:
    assert holds


def account() -> None:
    tried("get_user", lambda: check("id" in runpod.get_user()))
    tried("update_user_settings", lambda: check(runpod.update_user_settings("ssh-ed25519 A me")["pubKey"] != ""))
    tried("get_gpus", lambda: check(GPU in [gpu["id"] for gpu in runpod.get_gpus()]))
    tried("get_gpu", lambda: check(runpod.get_gpu(GPU)["memoryInGb"] == 24))


def registries() -> None:
    made = tried("create_container_registry_auth", lambda: runpod.create_container_registry_auth("hub", "me", "secret"))
    if made is not None:
        tried("update_container_registry_auth", lambda: runpod.update_container_registry_auth(made["id"], "me", "new"))
        tried("delete_container_registry_auth", lambda: runpod.delete_container_registry_auth(made["id"]))


def endpoints() -> None:
    template = tried(
        "create_template", lambda: runpod.create_template("worker", "me/worker:1", is_serverless=True, env={"A": "1"})
    )
    if template is None:
        return
    made = tried("create_endpoint", lambda: runpod.create_endpoint("captions", template["id"], "ADA_24"))
    tried("get_endpoints", lambda: check([each["name"] for each in runpod.get_endpoints()] == ["captions"]))
    if made is not None:
        tried("update_endpoint_template", lambda: runpod.update_endpoint_template(made["id"], template["id"]))


def pods() -> None:
    made = tried(
        "create_pod", lambda: runpod.create_pod("trainer", "me/trainer:1", GPU, ports="22/tcp", env={"A": "1"})
    )
    tried("create_pod (CPU)", lambda: runpod.create_pod("web", "me/web:1", instance_id="cpu3c-2-4"))
    tried("get_pods", lambda: check({pod["name"] for pod in runpod.get_pods()} == {"trainer", "web"}))
    if made is not None:
        tried("get_pod", lambda: check(runpod.get_pod(made["id"])["imageName"] == "me/trainer:1"))
        tried("stop_pod", lambda: check(runpod.stop_pod(made["id"])["desiredStatus"] == "EXITED"))
        tried("resume_pod", lambda: check(runpod.resume_pod(made["id"], 1)["desiredStatus"] == "RUNNING"))
        tried("terminate_pod", lambda: runpod.terminate_pod(made["id"]))


def jobs() -> None:
    endpoint, idle = runpod.Endpoint("ep"), runpod.Endpoint("idle")
    tried("Endpoint.run", lambda: check(endpoint.run({"n": 4}).output(timeout=30) == {"double": 8}))
    tried("Endpoint.run_sync", lambda: check(endpoint.run_sync({"n": 5}, timeout=30) == {"double": 10}))
    tried("Job.stream", lambda: check(len(list(runpod.Endpoint("count").run({"n": 2}).stream())) == 2))
    tried("Job.cancel", lambda: check(idle.run({"n": 1}).cancel()["status"] == "CANCELLED"))
    tried("Endpoint.health", lambda: check(set(endpoint.health()) == {"jobs", "workers"}))
    tried("Endpoint.purge_queue", lambda: check("removed" in idle.purge_queue()))


PARTS: dict[str, Callable[[], None]] = {part.__name__: part for part in (account, registries, endpoints, pods, jobs)}


def main(names: list[str]) -> None:
    """The parts of these names, or all."""
    runpod.api_key = os.environ["RUNPOD_API_KEY"]
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main([])
