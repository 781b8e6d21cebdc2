"""The calls of `runpod-flash` on endpoints and templates, each tried once."""

import asyncio

from runpod_flash.core.api.runpod import RunpodGraphQLClient  # type: ignore[import-not-found]

from tests.tools.trying import tell, tried_async

GPU = "NVIDIA GeForce RTX 4090"

ENDPOINT = {
    "name": "flash",
    "gpuIds": "ADA_24",
    "gpuCount": 1,
    "idleTimeout": 60,
    "executionTimeoutMs": 0,
    "minCudaVersion": "12.8",
    "allowedCudaVersions": "",
    "scalerType": "QUEUE_DELAY",
    "scalerValue": 4,
    "type": "QB",
    "workersMax": 1,
    "workersMin": 0,
    "workersPFBTarget": 0,
    "flashBootType": "FLASHBOOT",
    "template": {
        "name": "flash-template",
        "imageName": "me/worker:1",
        "containerDiskInGb": 64,
        "dockerArgs": "",
        "env": [],
        "ports": "",
        "advancedStart": False,
        "config": {},
        "containerRegistryAuthId": "",
        "startScript": "",
    },
}


async def main() -> None:
    async with RunpodGraphQLClient() as client:
        made = await tried_async("save_endpoint", lambda: client.save_endpoint(ENDPOINT))
        if made is None:
            return
        changed = {"id": made["id"], "name": "flash", "gpuIds": "ADA_24", "workersMax": 0}
        await tried_async("save_endpoint (again)", lambda: client.save_endpoint(changed))
        exists = await client.endpoint_exists(made["id"])
        tell("endpoint_exists", "" if exists else "it says no")
        await tried_async("get_template", lambda: client.get_template(made["templateId"]))
        stock = client.get_gpu_lowest_price_stock_status
        await tried_async("get_gpu_lowest_price_stock_status", lambda: stock(GPU, 1))
        await tried_async("delete_endpoint", lambda: client.delete_endpoint(made["id"]))
        await tried_async("list_flash_apps", client.list_flash_apps)


if __name__ == "__main__":
    asyncio.run(main())
