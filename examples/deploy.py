"""A whole deployment: a secret, a template, an endpoint, a hundred jobs, a pod; and everything deleted again.

On the real service this costs a little money:

    export ORCHESTRATOR_API_KEY=...
    python examples/deploy.py

The rehearsal differs in its URLs only:

    orchestrator emulate --handler examples/handlers.py:caption --time-scale 60 &
    export ORCHESTRATOR_API_KEY=any
    export ORCHESTRATOR_SERVERLESS_URL=http://127.0.0.1:8900 ORCHESTRATOR_REST_URL=http://127.0.0.1:8900
    export ORCHESTRATOR_BASE_URL=http://127.0.0.1:8900 ORCHESTRATOR_GRAPHQL_URL=http://127.0.0.1:8900/graphql
    python examples/deploy.py

Whatever goes wrong on the way, what was created is deleted: each part is a context, left in the reverse order.
"""

import argparse
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from orchestrator import Orchestrator
from orchestrator.account import Account, EndpointSpec, EnvironmentVariable, GpuRequest, PodCreate, Template
from orchestrator.client import Service
from orchestrator.settings.words_and_defaults import (
    BASE_URL_DEFAULT,
    GRAPHQL_URL_DEFAULT,
    REST_URL_DEFAULT,
    SERVERLESS_URL_DEFAULT,
)

NAME = "orchestrator-example"
IMAGE = "runpod/mock-worker:dev"
GPUS = ("NVIDIA GeForce RTX 4090", "NVIDIA RTX A5000")
JOBS = 100

READY_S_MAX = 600
DELETE_S_MAX = 180


@asynccontextmanager
async def deleted_in_the_end(delete: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Whatever happens inside, Ctrl-C included, `delete` is called."""
    try:
        yield
    finally:
        with anyio.move_on_after(DELETE_S_MAX, shield=True):
            await delete()


@asynccontextmanager
async def secret(account: Account, value: str) -> AsyncIterator[str]:
    """Its name, as templates refer to it."""
    created = await account.secrets.create(f"{NAME}-token", value)
    async with deleted_in_the_end(partial(account.secrets.delete, created.id)):
        yield created.name


@asynccontextmanager
async def template(account: Account, token: str) -> AsyncIterator[str]:
    """Its id. Deleting waits until the endpoint that used it is forgotten, which can take two minutes."""
    saved = await account.templates.save(
        Template(
            name=NAME,
            image_name=IMAGE,
            container_disk_in_gb=5,
            volume_in_gb=0,
            is_serverless=True,
            env=(EnvironmentVariable(key="TOKEN", value=f"{{{{ RUNPOD_SECRET_{token} }}}}"),),
        )
    )
    assert saved.id is not None
    async with deleted_in_the_end(partial(account.templates.delete, NAME, waiting=print)):
        yield saved.id


@asynccontextmanager
async def endpoint(account: Account, template_id: str) -> AsyncIterator[str]:
    """Its id, once the job API knows it."""
    spec = EndpointSpec(
        name=NAME, template_id=template_id, gpu_type_ids=GPUS, workers_min=0, workers_max=2, idle_timeout=5
    )
    created = await account.endpoints.create(spec)
    async with deleted_in_the_end(partial(account.endpoints.delete, created.id)):
        await account.service.endpoint(created.id).known(wait=READY_S_MAX)
        yield created.id


async def batch(folder: Path, endpoint_id: str, url: str, key: str) -> Mapping[str, int]:
    """A hundred jobs; how many came to what."""
    async with Orchestrator(folder / "orchestrator.db", serverless_url=url, api_key=key) as orc:
        inputs = ({"prompt": f"picture {n}"} for n in range(JOBS))
        run = await orc.submit(inputs, endpoint=endpoint_id, name="deploy")
        async for result in run.results():
            if result.error is not None:
                print(f"{result.custom_id}: {result.error}")
        return run.counts


@asynccontextmanager
async def pod(account: Account) -> AsyncIterator[str]:
    """Its id."""
    created = await account.pods.create(PodCreate(name=NAME, gpu=GpuRequest(id=GPUS[0]), image=IMAGE, disk=5))
    async with deleted_in_the_end(partial(account.pods.terminate, created.id)):
        yield created.id


async def main(environment: Mapping[str, str]) -> Mapping[str, int]:
    """Everything, one after the other; `environment` says where the service is, and the key."""
    key = environment["ORCHESTRATOR_API_KEY"]
    url = environment.get("ORCHESTRATOR_SERVERLESS_URL", SERVERLESS_URL_DEFAULT)
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-"))
    async with Service(url, key) as service:
        account = Account(
            service,
            rest_url=environment.get("ORCHESTRATOR_REST_URL", REST_URL_DEFAULT),
            base_url=environment.get("ORCHESTRATOR_BASE_URL", BASE_URL_DEFAULT),
            graphql_url=environment.get("ORCHESTRATOR_GRAPHQL_URL", GRAPHQL_URL_DEFAULT),
        )
        async with (
            secret(account, "not really a secret") as token,
            template(account, token) as template_id,
            endpoint(account, template_id) as endpoint_id,
        ):
            print(f"endpoint {endpoint_id} is ready")
            counts = await batch(folder, endpoint_id, url, key)
            print(f"{counts['succeeded']} of {JOBS} jobs succeeded; their results are in {folder}")
        async with pod(account) as pod_id:
            print(f"pod {pod_id} is {(await account.pods.stop(pod_id, wait=READY_S_MAX)).status}")
            print(f"pod {pod_id} is {(await account.pods.start(pod_id, wait=READY_S_MAX)).status}")
    print("everything is deleted again")
    return counts


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()  # `--help` says what this costs, and anything else is refused: neither deploys
    anyio.run(main, os.environ)
